//go:build flink

package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/beamagents/beamagents-go/internal/flinktest"
)

// Two programs submit a job of one name at the same time. The cluster shows the option of
// each job by which the runner finds its own. An interrupt of one program cancels its job
// and leaves the other job running.
func TestTwoJobsOfOneName(t *testing.T) {
	t.Parallel()
	runs := []*run{newRun(t, job{kind: "count", keys: 5, numbers: 20, perBundle: 20}), newRun(t, job{kind: "count", keys: 5, numbers: 20, perBundle: 20})}
	runs[1].dir += "_second"
	if err := os.MkdirAll(filepath.Join(runs[1].dir, "tally"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		r.write(0, r.numbers)
		r.start("LOOPBACK", append(slices.Clone(fast), "--job_name="+t.Name(), "--flink_progress=true")...)
	}
	rest := runs[0].cluster.REST
	jobs := func() (found []flinktest.Job) {
		all, err := rest.Jobs(runs[0].ctx)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(all, func(j flinktest.Job) bool { return j.Name != t.Name() })
	}
	for len(jobs()) < len(runs) {
		if !runs[0].pause() || !runs[1].pause() {
			t.Fatalf("jobs %v", jobs())
		}
	}
	submissions := map[string]bool{}
	for _, j := range jobs() {
		t.Cleanup(func() { _ = rest.Cancel(context.Background(), j.ID) }) // it has ended, unless the test has failed
		// A job that begins has no options yet.
		if err := rest.WaitRunning(runs[0].ctx, j.ID); err != nil {
			t.Fatal(err)
		}
		options, err := rest.Options(runs[0].ctx, j.ID)
		if err != nil {
			t.Fatal(err)
		}
		submissions[options["beamagentsSubmission"]] = true
	}
	if len(submissions) != len(runs) || submissions[""] {
		t.Errorf("submissions %v", submissions)
	}

	for i, r := range runs {
		if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := <-r.done; err == nil || !strings.Contains(err.Error(), "was cancelled") {
			t.Errorf("program %d: %v", i, err)
		}
		live := slices.DeleteFunc(jobs(), flinktest.Job.Ended)
		if len(live) != len(runs)-1-i {
			t.Errorf("%d jobs of %d programs: %v", len(live), len(runs)-1-i, live)
		}
		// The other program would end with its job.
		if i == 0 && !runs[1].pause() {
			t.Error("the time is up")
		}
	}
}
