//go:build flink

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/internal/flinktest"
	"github.com/beamagents/beamagents-go/internal/prismtest"
)

// Every suspended key of a bounded input gets its timeout. The runner takes no checkpoints of such
// a job, because with checkpoints Flink clears the state before its last timers fire.
func TestDeadlinesOfBoundedInput(t *testing.T) {
	t.Parallel()
	r := newRun(t, job{kind: "deadlines", keys: 100})
	r.start("LOOPBACK")
	counters := r.counters()
	content, err := os.ReadFile(filepath.Join(r.dir, "outputs", "outputs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	keys := map[string]bool{}
	for _, line := range lines {
		keys[string(line)] = true
	}
	if len(lines) != r.keys || len(keys) != r.keys {
		t.Errorf("%d timeouts of %d keys, want %d", len(lines), len(keys), r.keys)
	}
	if counters["timers_without_state"] != 0 || counters["errors_activation_error"] != 0 {
		t.Errorf("counters: %v", counters)
	}
	c, err := r.cluster.REST.Checkpoints(r.ctx, r.id())
	if err != nil || c.Counts.Completed != 0 {
		t.Errorf("%d checkpoints of a bounded input, %v", c.Counts.Completed, err)
	}
}

// However a job ends, no worker process remains, and no worker listens outside of the loopback
// interface.
func TestNoWorkerStays(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, job{kind: "count", keys: 5, numbers: 20, perBundle: 20})
	r.write(0, r.numbers)
	for end, f := range map[string]func(id string){
		"cancelled":                func(id string) { r.finish(id) },
		"stopped with a savepoint": func(id string) { r.stop(id) },
	} {
		r.start("PROCESS", fast...)
		id := r.id()
		if err := r.cluster.REST.WaitRunning(r.ctx, id); err != nil {
			t.Fatal(err)
		}
		for len(workers(t, path)) == 0 {
			if !r.pause() {
				t.Fatalf("no worker came\n%s", r.state())
			}
		}
		for _, pid := range append(workers(t, path), r.cmd.Process.Pid) {
			// A worker that has ended has no addresses.
			all, err := flinktest.Listens(pid)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
				t.Error(err)
			}
			for _, at := range all {
				if !at.Addr().IsLoopback() {
					t.Errorf("process %d of the program listens on %v", pid, at)
				}
			}
		}
		f(id)
		for len(workers(t, path)) > 0 {
			if !r.pause() {
				t.Fatalf("workers %v are still there after the job was %s", workers(t, path), end)
			}
		}
	}
}

// The outputs of the examples on Flink are the same as on Prism.
func TestExamples(t *testing.T) {
	for name, sample := range map[string]string{
		"quickstart": "sample.jsonl", "route": "sample.binpb", "memory": "sample.jsonl", "events": "sample.jsonl",
	} {
		t.Run(name, func(t *testing.T) {
			path, err := build("../../../examples/"+name, "example-"+name)
			if err != nil {
				t.Fatal(err)
			}
			input, err := filepath.Abs(filepath.Join("../../../examples", name, "sample", sample))
			if err != nil {
				t.Fatal(err)
			}
			r := newRun(t, job{})
			example := func(runner string, flags ...string) (string, error) {
				r.launch(path, append([]string{"--input=" + input, "--out=" + filepath.Join(r.dir, runner), "--runner=" + runner}, flags...)...)
				err := <-r.done
				return sortedLines(r.out.Bytes()), err
			}
			// One after the other, because Prism fails now and then on a busy machine.
			want, err := example("prism")
			for try := 1; err != nil && try < prismtest.Tries && prismtest.Fault(err.Error()); try++ {
				want, err = example("prism")
			}
			if err != nil {
				t.Fatalf("on Prism: %v", err)
			}
			t.Parallel()
			got, err := example("agents-flink", "--endpoint="+r.cluster.Endpoint, "--environment_type=PROCESS",
				"--job_name=example-"+name, "--flink_progress=false")
			if err != nil {
				t.Fatalf("on Flink: %v", err)
			}
			if got != want {
				t.Errorf("Prism's run prints\n%s\nFlink's\n%s", want, got)
			}
			compareFolders(t, filepath.Join(r.dir, "prism"), filepath.Join(r.dir, "agents-flink"))
		})
	}
}

func sortedLines(content []byte) string {
	lines := strings.Split(string(content), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// durations are measured with the clock of the worker, so they differ from run to run.
var durations = regexp.MustCompile(`"beam_agents\.(duration|offset)_ms":"[0-9]+",?`)

// compareFolders compares files as sets of lines, because a runner does not promise an order.
func compareFolders(t *testing.T, want, got string) {
	t.Helper()
	names := func(dir string) (all []string) {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			all = append(all, f.Name())
		}
		return all
	}
	if w, g := names(want), names(got); len(w) == 0 || !slices.Equal(w, g) {
		t.Fatalf("files %v, want %v", g, w)
	}
	for _, name := range names(want) {
		w, err := os.ReadFile(filepath.Join(want, name))
		if err != nil {
			t.Fatal(err)
		}
		g, err := os.ReadFile(filepath.Join(got, name))
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(bytes.SplitN(append(w, "\n0"...), []byte("\n"), 2)[0]) { // a binary file, whose records have no separator
			slices.Sort(w)
			slices.Sort(g)
			if !bytes.Equal(w, g) {
				t.Errorf("%s: %d bytes differ from the %d of Prism", name, len(g), len(w))
			}
			continue
		}
		w, g = durations.ReplaceAll(w, nil), durations.ReplaceAll(g, nil)
		if sortedLines(w) != sortedLines(g) {
			t.Errorf("%s: got\n%.2000s\nwant\n%.2000s", name, g, w)
		}
	}
}

// With the options that the SDK's runner leaves unset, the same crashes lose elements. This shows
// that the crash tests would notice a loss.
func TestLossWithoutSafeOptions(t *testing.T) {
	t.Parallel()
	r := newRun(t, job{kind: "count", keys: 10, numbers: 600, perBundle: 20, crashes: "count:200:error,count:400:error"})
	unsafe := startUnsafeServer(t, r.cluster.Endpoint)
	r.write(0, r.numbers)
	r.start("PROCESS", append(slices.Clone(fast), "--endpoint="+unsafe)...)
	id := r.id()
	for len(r.crashed()) < 2 || r.tally().times[r.numbers-1] == 0 {
		if !r.pause() {
			t.Fatalf("the last number did not come\n%s", r.state())
		}
	}
	before := len(r.wrong(r.numbers, false))
	time.Sleep(3 * time.Second) // a number that is only late would arrive
	problems := r.wrong(r.numbers, false)
	if len(problems) == 0 {
		t.Errorf("nothing was lost (%d problems before)", before)
	}
	t.Logf("%.500s", strings.Join(problems, "\n"))
	r.finish(id)
}
