//go:build flink

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/internal/flinktest"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the places where jobs crash; 0 is another one each time")

// testLimit is the time limit of a test. On an idle machine each test takes less than a tenth of
// it.
const testLimit = 8 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(flinktest.Main(m))
}

// random returns the source of the random places of a test. The log of the test has its seed.
func random(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// program is this package's program.
var program = sync.OnceValues(func() (string, error) { return build(".", "program") })

// build builds a program into the folder of the cluster.
func build(pkg, name string) (string, error) {
	path := filepath.Join(flinktest.Running().Dir, name)
	if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// run is a job of the program on the cluster.
type run struct {
	job
	t       testing.TB
	ctx     context.Context
	cluster *flinktest.Cluster
	name    string // of the job, and the last one that was started
	starts  int
	cmd     *exec.Cmd // of the submitter
	out     *bytes.Buffer
	done    chan error
}

// newRun makes the folder of a job. In the environment PROCESS the submitter ends while the job
// runs; in LOOPBACK it is the worker.
func newRun(t testing.TB, j job) *run {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	c := flinktest.Running()
	j.dir = filepath.Join(c.Dir, "jobs", strings.ReplaceAll(t.Name(), "/", "_"))
	for _, dir := range []string{j.dir, filepath.Join(j.dir, "tally")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &run{job: j, t: t, ctx: ctx, cluster: c}
}

// start submits the job. Flags go to the program.
func (r *run) start(environment string, flags ...string) {
	r.t.Helper()
	path, err := program()
	if err != nil {
		r.t.Fatal(err)
	}
	r.starts++
	r.name = fmt.Sprintf("%s-%d", strings.ReplaceAll(r.t.Name(), "/", "_"), r.starts)
	args := []string{
		"--job=" + r.kind, "--dir=" + r.dir, "--keys=" + strconv.Itoa(r.keys), "--numbers=" + strconv.Itoa(r.numbers),
		"--per_bundle=" + strconv.Itoa(r.perBundle), "--sleep_ms=" + strconv.Itoa(r.sleepMS), "--crashes=" + r.crashes,
		fmt.Sprintf("--inserted=%v", r.inserted), "--runner=agents-flink", "--endpoint=" + r.cluster.Endpoint,
		"--environment_type=" + environment, "--job_name=" + r.name, "--flink_progress=false",
		"--flink_master=" + strings.TrimPrefix(string(r.cluster.REST), "http://"),
	}
	r.launch(path, append(args, flags...)...)
}

// launch starts the submitter.
func (r *run) launch(path string, args ...string) {
	r.t.Helper()
	r.out = new(bytes.Buffer)
	cmd := exec.CommandContext(r.ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = r.out, &stderr
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	done := make(chan error, 1)
	r.cmd, r.done = cmd, done
	exited := make(chan struct{})
	go func() {
		err := cmd.Wait()
		if err != nil {
			text := stderr.String()
			err = fmt.Errorf("%w: %s", err, text[max(0, len(text)-32_000):]) // a panic of Prism has a long text
		}
		close(exited)
		done <- err
	}()
	r.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-exited
	})
}

// id returns the id of the job that was started last. It waits until the job runs.
func (r *run) id() string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, 3*time.Minute)
	defer cancel()
	refused := make(chan error, 1)
	go func() {
		select {
		case err := <-r.done:
			if r.done <- err; err != nil {
				refused <- err
				cancel() // nobody will submit a job any more
			}
		case <-ctx.Done():
		}
	}()
	j, err := r.cluster.REST.Find(ctx, r.name)
	if err != nil {
		select {
		case end := <-refused:
			err = fmt.Errorf("the submitter failed: %w", end)
		default:
		}
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if j, err := r.cluster.REST.Job(context.Background(), j.ID); err == nil && !j.Ended() {
			_ = r.cluster.REST.Cancel(context.Background(), j.ID)
		}
	})
	return j.ID
}

// write appends numbers to the input.
func (r *run) write(from, to int) {
	r.t.Helper()
	f, err := os.OpenFile(filepath.Join(r.dir, numbersFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		r.t.Fatal(err)
	}
	var text bytes.Buffer
	for n := from; n < to; n++ {
		fmt.Fprintln(&text, n)
	}
	if _, err := f.Write(text.Bytes()); err != nil {
		r.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// mark makes a marker file.
func (r *run) mark(name string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// tally is the state of the step downstream.
type tally struct {
	times  map[int]int            // how often a number has arrived
	counts map[string]map[int]int // by key: how often its c-th number has arrived
	timers map[string][2]int      // by key: how often its timer has fired, and with which count
}

func (r *run) tally() tally {
	r.t.Helper()
	all := tally{times: map[int]int{}, counts: map[string]map[int]int{}, timers: map[string][2]int{}}
	files, err := os.ReadDir(filepath.Join(r.dir, "tally"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(r.dir, "tally", f.Name()))
		if err != nil {
			r.t.Fatal(err)
		}
		for i := 0; i < len(content); i += entry {
			times, c := int(content[i]), int(binary.BigEndian.Uint16(content[i+1:]))
			if key, ok := strings.CutPrefix(f.Name(), "timer-"); ok {
				all.timers[key] = [2]int{times, c}
				continue
			}
			first, err := strconv.Atoi(strings.TrimPrefix(f.Name(), "t"))
			if err != nil {
				r.t.Fatal(err)
			}
			if times == 0 {
				continue
			}
			n := i/entry*tallies + first
			all.times[n] = times
			key := keyOf(n, r.keys)
			if all.counts[key] == nil {
				all.counts[key] = map[int]int{}
			}
			all.counts[key][c]++
		}
	}
	return all
}

// wrong returns what differs from an exact count of the numbers up to n and, if due, of the timers
// of all keys.
func (r *run) wrong(n int, due bool) (problems []string) {
	all := r.tally()
	var lost, doubled []int
	for i := range n {
		switch times := all.times[i]; {
		case times == 0:
			lost = append(lost, i)
		case times > 1:
			doubled = append(doubled, i)
		}
	}
	if len(lost) > 0 {
		problems = append(problems, fmt.Sprintf("%d lost downstream: %v", len(lost), lost[:min(len(lost), 20)]))
	}
	if len(doubled) > 0 {
		problems = append(problems, fmt.Sprintf("%d doubled downstream: %v", len(doubled), doubled[:min(len(doubled), 20)]))
	}
	for k := range r.keys {
		key := keyOf(k, r.keys)
		want := (n - k + r.keys - 1) / r.keys
		var bad []int
		for c := 1; c <= want; c++ {
			if all.counts[key][c] != 1 {
				bad = append(bad, c)
			}
		}
		if len(bad) > 0 || len(all.counts[key]) != want {
			problems = append(problems, fmt.Sprintf("key %s has %d of %d counts, wrong: %v", key, len(all.counts[key]), want, bad[:min(len(bad), 20)]))
		}
		if got := all.timers[key]; due && got != [2]int{1, want} {
			problems = append(problems, fmt.Sprintf("the timer of %s: times and count %v, want 1 and %d", key, got, want))
		}
		if got, ok := all.timers[key]; !due && ok {
			problems = append(problems, fmt.Sprintf("the timer of %s has fired already: %v", key, got))
		}
	}
	return problems
}

// waitFor waits until the tally has so many numbers, or the time is up.
func (r *run) waitFor(numbers int) {
	r.t.Helper()
	for len(r.tally().times) < numbers {
		if !r.pause() {
			r.t.Fatalf("%d of %d numbers came\n%s", len(r.tally().times), numbers, r.state())
		}
	}
}

// waitExact waits until every count is exact, until a count is too high, or until the time limit.
func (r *run) waitExact(numbers int, due bool) {
	r.t.Helper()
	for {
		problems := r.wrong(numbers, due)
		if len(problems) == 0 {
			return
		}
		if !r.pause() || slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, "doubled") || strings.Contains(p, "already") }) {
			r.t.Fatalf("%s\n%s", strings.Join(problems, "\n"), r.state())
		}
	}
}

func (r *run) pause() bool {
	select {
	case err := <-r.done:
		if r.done <- err; err != nil {
			r.t.Fatalf("the submitter failed: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	case <-r.ctx.Done():
		return false
	case <-time.After(100 * time.Millisecond):
	}
	return true
}

// state returns what Flink reports about the job.
func (r *run) state() string {
	ctx := context.Background()
	j, err := r.cluster.REST.Find(ctx, r.name)
	if err != nil {
		return err.Error()
	}
	exceptions, _ := r.cluster.REST.Exceptions(ctx, j.ID)
	text := fmt.Sprintf("job %s is %s\n", j.ID, j.State)
	for _, e := range exceptions {
		text += e[:min(len(e), 1500)] + "\n"
	}
	return text
}

// finish cancels the job. The job would not end by itself: with checkpoints, Flink keeps the
// Impulse open on which the source depends.
func (r *run) finish(id string) {
	r.t.Helper()
	if err := r.cluster.REST.Cancel(r.ctx, id); err != nil {
		r.t.Fatal(err)
	}
}

// counters are what the submitter prints at the end.
func (r *run) counters() map[string]int64 {
	r.t.Helper()
	if err := <-r.done; err != nil {
		r.t.Fatal(err)
	}
	var all map[string]int64
	if err := json.Unmarshal(r.out.Bytes(), &all); err != nil {
		r.t.Fatalf("%v: %q", err, r.out)
	}
	return all
}

// crashed returns the crashes that have happened.
func (r *run) crashed() (places []string) {
	r.t.Helper()
	found, err := filepath.Glob(filepath.Join(r.dir, "crashed-*"))
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

// stop ends the job with a savepoint.
func (r *run) stop(id string) string {
	r.t.Helper()
	path, err := r.cluster.REST.StopWithSavepoint(r.ctx, id)
	if err == nil {
		_, err = r.cluster.REST.WaitEnded(r.ctx, id)
	}
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.state())
	}
	return path
}

// workers are the processes of the program that run as workers.
func workers(t *testing.T, path string) (pids []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		args := strings.Split(string(cmdline), "\x00")
		if strings.HasPrefix(args[0], path) && slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "--worker") || strings.HasPrefix(a, "--provision_endpoint")
		}) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}
