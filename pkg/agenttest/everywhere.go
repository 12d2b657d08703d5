package agenttest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
)

// minRuns is the least number of times that Everywhere runs a script. A range over a map with two
// entries takes the rarer of its orders once in eight times.
const minRuns = 100

// Everywhere runs a script once, as with a Runtime of [New], and then runs the recorded steps
// again under disturbances: with bundle ends at every place, with a crash and a retry at every
// place, on the same worker and on a new one, and with all keys at once. At the first difference
// in outputs, intents, traces, dead letters, snapshots or stored bytes it fails the test and
// shows the difference.
//
// The script itself runs once, so it may check whatever a test with New checks.
func Everywhere(t testing.TB, p AgentParams, script func(r *Runtime)) {
	t.Helper()
	failed := t.Failed()
	r := New(t, p)
	r.recording = true
	script(r)
	if !failed && t.Failed() {
		return // show only the failure of the script
	}
	if len(r.records) == 0 {
		t.Fatalf("agenttest: the script has no steps: send an event with Key.Event")
	}
	// Make sure that an agent that reads a clock in ms reads another time in the next runs.
	time.Sleep(2 * time.Millisecond)
	e := &everywhere{t: t, records: r.records}
	for _, d := range e.disturbances() {
		if err := e.run(d); err != nil {
			t.Fatalf("agenttest: when the steps ran again %s, %v\n%s", d.name, err, advice)
		}
	}
	if err := e.atOnce(); err != nil {
		t.Fatalf("agenttest: when the steps ran again on several goroutines with one agent, %v\n%s", err, advice)
	}
}

const advice = `An agent may depend on its trigger, its memory, its snapshot and its configuration alone.
Look for a clock (use Activation.NowMS), random numbers, a range over a map, package
variables, and fields that Run changes (use the memory or the snapshot).`

// everywhere runs recorded steps again.
type everywhere struct {
	t       testing.TB
	records []record
}

// disturbance is a way to run a range of the steps.
type disturbance struct {
	name     string
	from, to int
	// cut reports whether a bundle ends before a step. A new worker runs that step.
	cut func(step int) bool
	// crash is the step at which a bundle fails once, or -1. The bundle fails before or after the
	// step, and the same worker or a new one retries it.
	crash      int
	before     bool
	sameWorker bool
}

func (e *everywhere) disturbances() (all []disturbance) {
	n := len(e.records)
	always := func(int) bool { return true }
	never := func(int) bool { return false }
	all = append(all,
		disturbance{name: "in the same way", to: n, crash: -1, cut: always},
		disturbance{name: "in one bundle", to: n, crash: -1, cut: never})
	for at := 1; at < n; at++ {
		all = append(all, disturbance{
			name: "in two bundles, the second from " + e.records[at].name(at) + " on", to: n, crash: -1,
			cut: func(step int) bool { return step == at },
		})
	}
	for at := range n {
		name := e.records[at].name(at)
		// After a retry by another worker, the run continues as if nothing had failed, so it can
		// end there.
		for _, d := range []disturbance{
			{name: "in a bundle of its own, which failed after " + name + " and was retried by the same worker", from: at, to: at + 1, cut: always, sameWorker: true},
			{name: "in a bundle of its own, which failed after " + name + " and was retried by another worker", from: at, to: at + 1, cut: always},
			{name: "in one bundle, which failed before " + name + " and was retried by another worker", to: at + 1, cut: never, before: true},
			{name: "in one bundle, which failed after " + name + " and was retried by the same worker", to: n, cut: never, sameWorker: true},
			{name: "in one bundle, which failed after " + name + " and was retried by another worker", to: at + 1, cut: never},
		} {
			d.crash = at
			all = append(all, d)
		}
	}
	for len(all) < minRuns {
		all = append(all, disturbance{name: "in one bundle", to: n, crash: -1, cut: never})
	}
	return all
}

// run runs the steps and compares the results of each with the record.
func (e *everywhere) run(d disturbance) error {
	stored := e.before(d.from)
	var w *worker
	sessions := map[string]*session{}
	begin, crashed := d.from, d.crash < 0
	for at := d.from; at < d.to; at++ {
		rec := &e.records[at]
		if at > begin && (d.cut(at) || w.build != rec.build) {
			if err := e.commit(sessions, stored, at); err != nil {
				return err
			}
			w, begin = nil, at
			clear(sessions)
		}
		crash := !crashed && at == d.crash
		if !crash || !d.before {
			var err error
			if w == nil {
				if w, err = rec.build.start(e.t); err != nil {
					return err
				}
			}
			s := sessions[rec.key]
			if s == nil {
				if s, err = openSession(rec.key, stored[rec.key]); err != nil {
					return err
				}
				sessions[rec.key] = s
			}
			if err = rec.again(at, s, w); err != nil {
				return err
			}
		}
		if crash {
			crashed, at = true, begin-1
			clear(sessions)
			if !d.sameWorker {
				w = nil
			}
		}
	}
	return e.commit(sessions, stored, d.to)
}

// before returns the state of all keys before a step.
func (e *everywhere) before(step int) map[string]cells {
	stored := map[string]cells{}
	for _, rec := range e.records[:step] {
		stored[rec.key] = rec.after
	}
	return stored
}

// commit stores the state of the sessions of a bundle that ends before a step.
func (e *everywhere) commit(sessions map[string]*session, stored map[string]cells, step int) error {
	for _, key := range slices.Sorted(maps.Keys(sessions)) {
		after, err := sessions[key].cells()
		if err != nil {
			return err
		}
		last := step - 1
		for e.records[last].key != key {
			last--
		}
		if err := e.records[last].compareState(last, after); err != nil {
			return err
		}
		stored[key] = after
	}
	return nil
}

// atOnce runs the steps of each key on two goroutines. All goroutines share one agent, as in a
// worker process.
func (e *everywhere) atOnce() error {
	workers := map[*build]*worker{}
	keys := map[string]bool{}
	for _, rec := range e.records {
		keys[rec.key] = true
		if workers[rec.build] == nil {
			w, err := rec.build.start(e.t)
			if err != nil {
				return err
			}
			workers[rec.build] = w
		}
	}
	const copies = 2
	errs := make([]error, copies*len(keys))
	var group sync.WaitGroup
	for i, key := range slices.Sorted(maps.Keys(keys)) {
		for c := range copies {
			group.Go(func() { errs[copies*i+c] = e.runKey(key, workers) })
		}
	}
	group.Wait()
	return cmp.Or(errs...)
}

func (e *everywhere) runKey(key string, workers map[*build]*worker) error {
	s, err := openSession(key, cells{})
	if err != nil {
		return err
	}
	last := -1
	for at := range e.records {
		rec := &e.records[at]
		if rec.key != key {
			continue
		}
		if err := rec.again(at, s, workers[rec.build]); err != nil {
			return err
		}
		last = at
	}
	after, err := s.cells()
	if err != nil {
		return err
	}
	return e.records[last].compareState(last, after)
}

// name names the step of a record.
func (r *record) name(step int) string {
	return fmt.Sprintf("step %d (%s)", step+1, r.label)
}
