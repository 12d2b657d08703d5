//go:build flink

package upgrade_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
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

// TestUpgrades runs each case on the cluster. Flink does what the table says.
func TestUpgrades(t *testing.T) {
	all := upgradesWithDefaults()
	for _, runner := range []compat.Runner{compat.Flink, compat.AgentsFlink} {
		shared := together(t, runner)
		groups := [][]string{shared}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !slices.Contains(shared, name) && (all[name].quick || *whole) {
				groups = append(groups, []string{name})
			}
		}
		for _, names := range groups {
			title := "those that share a job"
			if len(names) == 1 {
				title = names[0]
			}
			t.Run(string(runner)+"/"+title, func(t *testing.T) {
				t.Parallel()
				start := time.Now()
				got, err := run(t.Context(), names, runner)
				t.Logf("%v", time.Since(start).Round(100*time.Millisecond))
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range names {
					o, want := got[name], all[name].effect(runner)
					t.Logf("OBSERVED %s | %s | %s | %s", name, runner, o.effect, o.detail)
					or := all[name].or
					if runner == compat.AgentsFlink {
						or = ""
					}
					if o.effect != want && (or == "" || o.effect != or) {
						t.Errorf("%s: %s %s; the table has %s\n%s", name, runner, o.effect, want, o.detail)
					}
				}
			})
		}
	}
}

// TestHazards runs each hazard on the cluster with the stock runner.
func TestHazards(t *testing.T) {
	for kind, h := range hazards {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			base := fmt.Sprintf("%s/%d", kind, time.Now().UnixMilli())
			p, s := beam.NewPipelineWithRoot()
			h.build(plan{feed: base, log: base}, s)
			f, l := feedOf(base), logOf(base)
			j := submit(t.Context(), compat.Platform{}, compat.Flink, strings.ReplaceAll(base, "/", "-"), "", p)
			defer j.end()
			f.add(10, "a add")
			var since time.Time
			got, detail, err := j.await(t.Context(), startLimit, func() bool {
				switch h.effect {
				case compat.NeverCheckpoints:
					if j.id == "" {
						return false
					}
					c, err := j.rest.Checkpoints(t.Context(), j.id)
					return err == nil && c.Counts.Failed >= failures && c.Counts.Completed == 0
				case compat.LosesTimers: // due after 8 s, and watched for 20
					if since.IsZero() && l.get("Step a") != "" {
						since = time.Now()
					}
					return !since.IsZero() && time.Since(since) > 20*time.Second
				}
				return false
			})
			if err != nil {
				t.Fatal(err)
			}
			if got == compat.NoEffect && (h.effect == compat.NeverCheckpoints || l.get("fired Step a") == "") {
				got = h.effect
			}
			t.Logf("OBSERVED %s | %s | %s %s", kind, got, detail, l)
			if got != h.effect {
				t.Errorf("%s, and not %s: %s", got, h.effect, detail)
			}
		})
	}
}

// TestRefusals shows that agents-flink refuses hazards and second versions of jobs, and
// submits none of them.
func TestRefusals(t *testing.T) {
	refused := map[string]hazard{}
	for kind, h := range hazards {
		refused[string(kind)] = h
	}
	for name, c := range upgrades {
		refused[name] = hazard{build: c.v2, refusal: c.refusal}
	}
	for name, h := range refused {
		if h.refusal == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := fmt.Sprintf("%s-refused-%d", strings.ReplaceAll(name, " ", "-"), time.Now().UnixMilli())
			p, s := beam.NewPipelineWithRoot()
			h.build(plan{feed: job, log: job}, s)
			j := submit(t.Context(), compat.Platform{}, compat.AgentsFlink, job, "", p)
			defer j.end()
			j.refusal = h.refusal
			got, detail, err := j.await(t.Context(), startLimit, func() bool { return false })
			if err != nil || got != compat.Refuses {
				t.Errorf("%s %s %v", got, detail, err)
			}
		})
	}
}

func (f *feed) add(at int64, commands ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range commands {
		f.elements = append(f.elements, element{c, at})
	}
}

func (f *feed) advance(seconds int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watermark = max(f.watermark, seconds)
}

// upgradesWithDefaults returns the cases with their defaults.
func upgradesWithDefaults() map[string]upgrade {
	all := map[string]upgrade{}
	for name, c := range upgrades {
		if c.ready == nil {
			c.ready = func(l *log) bool { return strings.HasPrefix(l.get("Step a"), "count:2") }
		}
		if c.judge == nil {
			c.judge = counts("Step a", "count:3", "count:1")
		}
		all[name] = c
	}
	return all
}

// fired reports whether the timer of version 1 has fired in version 2.
func (c upgrade) fired(l *log) bool { return c.noTimers || l.get("fired Step a") == "agent" }

func (c upgrade) commands(version int) []string {
	switch {
	case version == 0 && c.before != nil:
		return c.before
	case version == 0:
		return []string{"a add", "a add", "a arm:100"}
	case c.after != nil:
		return c.after
	}
	return []string{"a add"}
}

// observed is what became of a case.
type observed struct {
	effect compat.Effect
	detail string
}

// job is a version of a job that runs.
type job struct {
	rest flinktest.REST
	name string
	id   string
	done chan error // what the runner returns when the job has ended
	stop context.CancelFunc
	// refusal is what the runner says if it is to refuse the job and not to submit it.
	refusal string
}

func submit(ctx context.Context, platform compat.Platform, runner compat.Runner, name, savepoint string, p *beam.Pipeline) *job {
	cluster := flinktest.Running()
	ctx, cancel := context.WithCancel(ctx)
	j := &job{rest: cluster.REST, name: name, done: make(chan error, 1), stop: cancel}
	go func() {
		if runner == compat.Flink {
			j.done <- runStock(ctx, cluster.Endpoint, p, name, savepoint, platform)
			return
		}
		options := flink.Options{
			Endpoint: cluster.Endpoint, JobName: name, Environment: flink.Loopback, CheckpointInterval: checkpointInterval,
			Parallelism: max(platform.Parallelism, 1), MaxParallelism: platform.MaxParallelism, Chaining: platform.Chaining == compat.Chaining(true), Savepoint: savepoint,
			Master: strings.TrimPrefix(string(cluster.REST), "http://"),
		}
		if platform.Environment == graphx.URNEnvProcess {
			options.Environment, options.EnvironmentConfig = flink.Process, `{"command":"/bin/false"}`
		}
		_, err := flink.Run(ctx, p, options)
		j.done <- err
	}()
	return j
}

// refused matches the errors with which Flink refuses a savepoint.
var refused = regexp.MustCompile(`Cannot map checkpoint/savepoint state|[Mm]ax(imum)? parallelism|Failed to rollback to checkpoint/savepoint`)

// machine matches failures of a machine that is too busy. The job is not their cause.
var machine = regexp.MustCompile(`AskTimeoutException|Heartbeat of TaskManager|NoResourceAvailableException`)

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
			switch {
			case j.refusal == "" && refused.MatchString(err.Error()):
				return compat.Refuses, firstLine(err.Error()), nil
			case j.refusal != "" && strings.Contains(err.Error(), j.refusal):
				jobs, restErr := j.rest.Jobs(ctx)
				if restErr != nil || slices.ContainsFunc(jobs, func(other flinktest.Job) bool { return other.Name == j.name }) {
					return "", "", fmt.Errorf("job %s was submitted (%v), and then: %w", j.name, restErr, err)
				}
				return compat.Refuses, err.Error(), nil
			}
			return "", "", fmt.Errorf("job %s has ended: %w", j.name, err)
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
		if texts, err := j.rest.Exceptions(ctx, j.id); err == nil {
			texts = slices.DeleteFunc(texts, machine.MatchString)
			if len(texts) >= failures {
				return compat.FailsForever, cause(texts[0]), nil
			}
		}
	}
}

// end ends a job in any state.
func (j *job) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if j.id != "" {
		_ = j.rest.Cancel(ctx, j.id) // it may have ended
	}
	j.stop()
}

func firstLine(text string) string {
	if at := refused.FindStringIndex(text); at != nil {
		text = text[at[0]:]
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// cause is the last cause of a stack trace.
func cause(trace string) string {
	if i := strings.LastIndex(trace, "Caused by: "); i >= 0 {
		trace = trace[i:]
	}
	if i := strings.Index(trace, "goroutine "); i >= 0 {
		trace = trace[:i]
	}
	trace = strings.Join(strings.Fields(trace), " ")
	return trace[:min(len(trace), 400)]
}

// run runs cases in one job: version 1, a savepoint, version 2 from it.
func run(ctx context.Context, names []string, runner compat.Runner) (map[string]observed, error) {
	all := upgradesWithDefaults()
	base := fmt.Sprintf("%s/%s/%d", names[0], runner, time.Now().UnixMilli())
	jobName := func(version int) string {
		return strings.NewReplacer(" ", "-", "/", "-", ",", "", "'", "").Replace(logName(base, "job", version))
	}
	every := func(version int, is func(c upgrade, l *log) bool) func() bool {
		return func() bool {
			return !slices.ContainsFunc(names, func(name string) bool { return !is(all[name], logOf(logName(base, name, version))) })
		}
	}
	reports := func(version int) string {
		var text []string
		for _, name := range names {
			text = append(text, name+": "+logOf(logName(base, name, version)).String())
		}
		return strings.Join(text, "\n")
	}
	platforms := all[names[0]].platforms
	f := feedOf(base)

	first := submit(ctx, platforms[0], runner, jobName(0), "", build(names, 0, base, base))
	defer first.end()
	f.add(10, commands(all, names, 0)...)
	f.advance(50)
	effect, detail, err := first.await(ctx, startLimit, func() bool { return first.id != "" && every(0, func(c upgrade, l *log) bool { return c.ready(l) })() })
	if err != nil || effect != compat.NoEffect {
		return nil, fmt.Errorf("version 1: %s %s %w\n%s", effect, detail, err, reports(0))
	}
	savepointing, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := first.rest.WaitRunning(savepointing, first.id); err != nil {
		return nil, fmt.Errorf("version 1: %w\n%s", err, reports(0))
	}
	savepoint, err := first.rest.StopWithSavepoint(savepointing, first.id)
	if err != nil {
		return nil, fmt.Errorf("version 1: %w\n%s", err, reports(0))
	}

	second := submit(ctx, platforms[1], runner, jobName(1), savepoint, build(names, 1, base, base))
	defer second.end()
	if runner == compat.AgentsFlink {
		second.refusal = all[names[0]].refusal
	}
	f.add(60, commands(all, names, 1)...)
	effect, detail, err = second.await(ctx, startLimit, every(1, func(c upgrade, l *log) bool { return c.watermark > 0 || c.judge(l) != "" }))
	if err == nil && effect == compat.NoEffect {
		f.advance(200)
		effect, detail, err = second.await(ctx, timersLimit, every(1, func(c upgrade, l *log) bool { return c.judge(l) != "" && c.fired(l) }))
	}
	if err != nil {
		return nil, fmt.Errorf("version 2: %w\n%s", err, reports(1))
	}
	got := map[string]observed{}
	for _, name := range names {
		c, l := all[name], logOf(logName(base, name, 1))
		o := observed{c.judge(l), detail + " " + l.String()}
		switch {
		case effect == compat.Refuses || effect == compat.FailsForever:
			o.effect = effect
		case o.effect == "":
			return nil, fmt.Errorf("version 2 of %s has not reported, %s; version 1 had %s", name, o.detail, logOf(logName(base, name, 0)))
		case !c.fired(l):
			o.effect = worst(o.effect, compat.LosesTimers)
		}
		got[name] = o
	}
	return got, nil
}

// commands returns the commands of all cases. Cases with the same commands get them once.
func commands(all map[string]upgrade, names []string, version int) (merged []string) {
	given := map[string]bool{}
	for _, name := range names {
		if some := all[name].commands(version); !given[strings.Join(some, "\n")] {
			given[strings.Join(some, "\n")] = true
			merged = append(merged, some...)
		}
	}
	return merged
}
