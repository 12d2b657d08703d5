//go:build flink

package upgrade_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"

	"github.com/beamagents/beamagents-go/internal/flinktest"
	"github.com/beamagents/beamagents-go/pkg/compat"
	"github.com/beamagents/beamagents-go/pkg/runners/flink"
)

const (
	checkpointInterval = 500 * time.Millisecond
	startLimit         = 4 * time.Minute
	timersLimit        = time.Minute
	// A job that has failed twice after the same savepoint fails for ever: its restarts
	// have no end, and nothing that it reads has changed.
	failures = 2
)

var whole = flag.Bool("whole", false, "run every case of the matrix, not the quick ones alone")

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(flinktest.Main(m))
}

// Each case, on the cluster: what Flink does is what the table says.
func TestUpgrades(t *testing.T) {
	all := upgradesWithDefaults()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		if !c.quick && !*whole {
			continue
		}
		for runner, want := range map[compat.Runner]compat.Effect{compat.Flink: c.stock, compat.AgentsFlink: c.agents} {
			t.Run(strings.ReplaceAll(name, " ", "_")+"/"+string(runner), func(t *testing.T) {
				t.Parallel()
				start := time.Now()
				got, detail, err := c.run(t.Context(), name, runner)
				t.Logf("%s: %s in %v: %s", runner, got, time.Since(start).Round(100*time.Millisecond), detail)
				if err != nil {
					t.Fatal(err)
				}
				if got != want {
					t.Errorf("%s %s; the table has %s\n%s", runner, got, want, detail)
				}
			})
		}
	}
}

// job is a version of a job that runs.
type job struct {
	rest flinktest.REST
	name string
	id   string
	done chan error // its end, as the runner tells it
	stop context.CancelFunc
}

func submit(ctx context.Context, c upgrade, runner compat.Runner, name, savepoint string, version int, p *beam.Pipeline) *job {
	cluster := flinktest.Running()
	ctx, cancel := context.WithCancel(ctx)
	j := &job{rest: cluster.REST, name: name, done: make(chan error, 1), stop: cancel}
	platform := c.platform(version)
	go func() {
		if runner == compat.Flink {
			j.done <- runStock(ctx, cluster.Endpoint, p, name, savepoint, platform)
			return
		}
		options := flink.Options{
			Endpoint: cluster.Endpoint, JobName: name, Environment: flink.Loopback, CheckpointInterval: checkpointInterval,
			Parallelism: max(platform.Parallelism, 1), MaxParallelism: platform.MaxParallelism, Chaining: platform.Chaining == compat.Chaining(true), Savepoint: savepoint,
		}
		if platform.Environment == graphx.URNEnvProcess {
			options.Environment, options.EnvironmentConfig = flink.Process, `{"command":"/bin/false"}`
		}
		_, err := flink.Run(ctx, p, options)
		j.done <- err
	}()
	return j
}

// await waits until ready, the end of the job, or its second failure.
func (j *job) await(ctx context.Context, limit time.Duration, ready func() bool) (effect compat.Effect, detail string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if ready() {
			return compat.NoEffect, "", nil
		}
		select {
		case err := <-j.done:
			if err == nil {
				return "", "", fmt.Errorf("job %s has ended without an error", j.name)
			}
			return compat.Refuses, firstLine(err.Error()), nil
		case <-ctx.Done():
			return "", "", nil
		case <-time.After(200 * time.Millisecond):
		}
		if j.id == "" {
			jobs, err := j.rest.Jobs(ctx)
			if err != nil {
				continue
			}
			for _, other := range jobs {
				if other.Name == j.name {
					j.id = other.ID
				}
			}
			continue
		}
		if texts, err := j.rest.Exceptions(ctx, j.id); err == nil && len(texts) >= failures {
			return compat.FailsForever, cause(texts[0]), nil
		}
	}
}

// end ends a job, however it is.
func (j *job) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if j.id != "" {
		_ = j.rest.Cancel(ctx, j.id) // it may have ended
	}
	j.stop()
}

func firstLine(text string) string {
	if i := strings.Index(text, "Cannot map"); i >= 0 {
		text = text[i:]
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// cause is the last cause of a stack trace.
func cause(trace string) string {
	if i := strings.LastIndex(trace, "Caused by: "); i >= 0 {
		trace = trace[i:]
	}
	lines := strings.SplitN(trace, "\n", 4)
	return strings.Join(lines[:min(3, len(lines))], " ")
}

// run runs a case: version 1, a savepoint, version 2 from it.
func (c upgrade) run(ctx context.Context, name string, runner compat.Runner) (effect compat.Effect, detail string, err error) {
	base := fmt.Sprintf("%s/%s/%d", name, runner, time.Now().UnixMilli())
	f := feedOf(base)
	plans := [2]plan{{base, base + "/1"}, {base, base + "/2"}}
	jobName := func(version int) string {
		return strings.NewReplacer(" ", "-", "/", "-", ",", "").Replace(plans[version].log)
	}
	build := func(version int) *beam.Pipeline {
		p, s := beam.NewPipelineWithRoot()
		[2]func(plan, beam.Scope){c.v1, c.v2}[version](plans[version], s)
		return p
	}

	start := time.Now()
	var phases []string
	phase := func(what string) {
		phases = append(phases, fmt.Sprintf("%s after %v", what, time.Since(start).Round(100*time.Millisecond)))
	}
	defer func() { detail += " (" + strings.Join(phases, ", ") + ")" }()
	first := submit(ctx, c, runner, jobName(0), "", 0, build(0))
	defer first.end()
	f.add(10, c.commands(0)...)
	f.advance(50)
	l := logOf(plans[0].log)
	effect, detail, err = first.await(ctx, startLimit, func() bool { return c.ready(l) })
	phase("ready")
	if err != nil || effect != compat.NoEffect {
		return "", "", fmt.Errorf("version 1: %s %s %w; reports: %s", effect, detail, err, l)
	}
	if effect, detail, err = first.await(ctx, startLimit, func() bool { return first.id != "" }); effect != compat.NoEffect {
		return "", "", fmt.Errorf("version 1: %s %s %w", effect, detail, err)
	}
	savepointing, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	savepoint, err := first.rest.StopWithSavepoint(savepointing, first.id)
	if err != nil {
		return "", "", fmt.Errorf("version 1, which reported %s: %w", l, err)
	}

	phase("savepoint")
	f.add(60, c.commands(1)...)
	second := submit(ctx, c, runner, jobName(1), savepoint, 1, build(1))
	defer second.end()
	l = logOf(plans[1].log)
	f.advance(c.watermark)
	judged := compat.Effect("")
	effect, detail, err = second.await(ctx, startLimit, func() bool { judged = c.judge(l); return judged != "" })
	phase("judged")
	if err != nil || effect == "" {
		return "", "", fmt.Errorf("version 2 has not reported: %w; reports: %s", err, l)
	}
	if effect != compat.NoEffect {
		return effect, detail + " " + l.String(), nil
	}
	if c.fired == nil {
		return judged, l.String(), nil
	}
	f.advance(200)
	effect, detail, err = second.await(ctx, timersLimit, func() bool { return c.fired(l) })
	phase("timers")
	switch {
	case err != nil:
		return "", "", err
	case effect == "":
		return worst(judged, compat.LosesTimers), l.String(), nil
	}
	return worst(judged, effect), detail + " " + l.String(), nil
}
