//go:build flink

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fast are the options of the jobs that crash: many checkpoints in a short time.
var fast = []string{"--flink_checkpoint_interval=700ms"}

// places returns a crash of each kind, at a random step and a random number.
func places(r *rand.Rand, numbers int, kinds []string, steps ...string) string {
	var all []string
	for i, kind := range kinds {
		all = append(all, fmt.Sprintf("%s:%d:%s", steps[(i+r.IntN(len(steps)))%len(steps)], r.IntN(numbers), kind))
	}
	return strings.Join(all, ",")
}

// A worker fails in several ways, at random places. Each number is counted once in the state of its
// key and once more downstream, and each timer fires once.
func TestCrashes(t *testing.T) {
	for _, test := range []struct {
		kind, environment string
		kinds             []string
		steps             []string
		sleepMS           int
	}{
		{"count", "LOOPBACK", []string{"error", "panic", "error"}, []string{"keyed", "count", "tally"}, 0},
		{"count", "PROCESS", []string{"kill", "panic", "kill"}, []string{"keyed", "count", "tally"}, 0},
		{"cells", "PROCESS", []string{"error", "kill", "panic"}, []string{"keyed", "count", "tally"}, 0},
		{"agents", "PROCESS", []string{"error", "kill", "kill"}, []string{"keyed", "tally"}, 30},
	} {
		t.Run(test.kind+"/"+test.environment, func(t *testing.T) {
			t.Parallel()
			rnd := random(t)
			j := job{kind: test.kind, keys: 10, numbers: 700, perBundle: 20, sleepMS: test.sleepMS}
			j.crashes = places(rnd, j.numbers, test.kinds, test.steps...)
			t.Logf("crashes %s", j.crashes)
			r := newRun(t, j)
			r.write(0, j.numbers)
			r.start(test.environment, fast...)
			id := r.id()
			r.waitExact(j.numbers, false)
			if got, want := len(r.crashed()), strings.Count(j.crashes, ",")+1; got != want {
				t.Errorf("%d crashes, want %d", got, want)
			}
			r.mark(completeFile)
			if test.kind != "cells" {
				r.waitExact(j.numbers, true)
			}
			r.finish(id)
			if problems := r.wrong(j.numbers, test.kind != "cells"); len(problems) > 0 {
				t.Error(strings.Join(problems, "\n"))
			}
			if test.kind == "count" {
				// What a step writes outside of its state is written again.
				effects, err := os.ReadFile(filepath.Join(r.dir, "effects"))
				if err != nil {
					t.Fatal(err)
				}
				n := bytes.Count(effects, []byte("\n"))
				t.Logf("%d lines of %d numbers were written to a file", n, j.numbers)
				if n < j.numbers {
					t.Errorf("%d lines in the file of effects, want at least %d", n, j.numbers)
				}
			}
		})
	}
}

// When a task manager is killed, the job only takes longer.
func TestTaskManagerKilled(t *testing.T) {
	rnd := random(t)
	r := newRun(t, job{kind: "count", keys: 10, numbers: 700, perBundle: 20})
	r.write(0, r.numbers)
	r.start("PROCESS", fast...)
	id := r.id()
	r.waitFor(rnd.IntN(r.numbers))
	if err := r.cluster.KillTaskManager(); err != nil {
		t.Fatal(err)
	}
	if err := r.cluster.StartTaskManager(); err != nil {
		t.Fatal(err)
	}
	r.waitExact(r.numbers, false)
	r.mark(completeFile)
	r.waitExact(r.numbers, true)
	r.finish(id)
}

// A job continues from a savepoint with twice the parallelism, then with the first parallelism again,
// and then with steps that were inserted before and between the others. Counts and pending timers
// stay.
func TestSavepoints(t *testing.T) {
	for _, kind := range []string{"count", "agents"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rnd := random(t)
			r := newRun(t, job{kind: kind, keys: 10, numbers: 800, perBundle: 20})
			steps := []struct {
				parallelism int
				inserted    bool
			}{{1, false}, {2, false}, {1, false}, {1, true}}
			part, savepoint := r.numbers/len(steps), ""
			for i, step := range steps {
				began := time.Now()
				r.inserted = step.inserted
				r.write(i*part, (i+1)*part)
				flags := append([]string{fmt.Sprintf("--parallelism=%d", step.parallelism)}, fast...)
				if savepoint != "" {
					flags = append(flags, "--flink_savepoint="+savepoint)
				}
				r.start("PROCESS", flags...)
				id := r.id()
				r.waitFor(i*part + 1 + rnd.IntN(part-1)) // in the midst of them
				if p, err := r.cluster.REST.Parallelisms(r.ctx, id); err != nil || !hasParallelism(p, step.parallelism) {
					t.Fatalf("parallelisms %v, %v, want %d", p, err, step.parallelism)
				}
				if i < len(steps)-1 {
					savepoint = r.stop(id)
				} else {
					r.waitExact(r.numbers, false)
					r.mark(completeFile)
					r.waitExact(r.numbers, true)
					r.finish(id)
				}
				t.Logf("%+v took %v", step, time.Since(began).Round(time.Second))
			}
		})
	}
}

func hasParallelism(all map[string]int, want int) bool {
	for _, p := range all {
		if p == want {
			return true
		}
	}
	return false
}

// Checkpoints continue while agents are slow. A checkpoint waits for the open bundle, and for the
// numbers that were sent before it.
func TestCheckpointsOfSlowAgents(t *testing.T) {
	t.Parallel()
	r := newRun(t, job{kind: "agents", keys: 40, numbers: 20_000, perBundle: 10, sleepMS: 300})
	r.write(0, r.numbers)
	r.start("PROCESS", fast...)
	id := r.id()
	r.waitFor(1)
	// Checkpoints that Flink requested before the workers had started have failed.
	before, err := r.cluster.REST.Checkpoints(r.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 3 {
		first := len(r.tally().times)
		if err := r.cluster.REST.WaitCheckpoints(r.ctx, id, 1); err != nil {
			t.Fatalf("%v\n%s", err, r.state())
		}
		r.waitFor(first + 1) // the agents continue, too
		t.Logf("a checkpoint after %v; %d numbers have come", time.Since(began).Round(time.Millisecond), len(r.tally().times))
	}
	if came := len(r.tally().times); came == r.numbers {
		t.Error("the agents had nothing to do any more")
	}
	after, err := r.cluster.REST.Checkpoints(r.ctx, id)
	if failed := after.Counts.Failed - before.Counts.Failed; err != nil || failed > 0 {
		t.Errorf("%d checkpoints failed: %s %v", failed, after.Latest.Failed.FailureMessage, err)
	}
	r.finish(id)
}
