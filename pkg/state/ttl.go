package state

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
)

// TimerFamily is the one timer family of a stateful DoFn, in event time. A DoFn with two
// hangs on the embedded runner; purposes are told apart by tags.
const TimerFamily = "agent"

// TTLTag is the tag of the timer of [TTL].
const TTLTag = "ttl"

// TTL forgets idle keys by event time. It is a cell, of id "ttl", and a timer, of family
// "agent" and tag "ttl", in one field:
//
//	func (f *scoreFn) ProcessElement(w beam.Window, sp state.Provider, tp timers.Provider, ...) error {
//		err := f.TTL.Touch(sp, tp, w, e.GetEventTimeMs(), 30*24*time.Hour)
//		...
//	func (f *scoreFn) OnTimer(et beam.EventTime, sp state.Provider, tp timers.Provider, key []byte, timer timers.Context, ...) {
//		_, _, err := f.TTL.Fired(et, sp, tp, timer, &f.Memory)
//		if err != nil {
//			panic(err) // an OnTimer can fail its bundle in no other way
//		}
//	}
//
// The mark, the time after which the key is idle, is stored and never moves back, so late
// elements shorten nothing. The timer has no output timestamp: it holds no watermark. At
// the end of a bounded input, and when a job is drained, all keys are cleared. In a window
// other than the global one all keys are cleared at its end.
type TTL struct {
	ttlCell
	opened[*ttlMark]
}

type ttlMark struct {
	value beamstate.Value[int64]
	ms    int64
	found bool
	err   error // of an RPC: nobody knows what it left
}

type ttlCell struct{ valueOf[int64] }

// StateKey is the id of the cell.
func (ttlCell) StateKey() string { return ttlID }

// Timers tells Beam of the timer family.
func (ttlCell) Timers() map[string]timers.TimeDomain {
	return map[string]timers.TimeDomain{TimerFamily: timers.EventTimeDomain}
}

func (c *TTL) mark(sp beamstate.Provider) (*ttlMark, error) {
	m, err := c.get(sp, func() (*ttlMark, error) {
		value := beamstate.MakeValueState[int64](ttlID)
		ms, found, err := value.Read(sp)
		if err != nil {
			return nil, fmt.Errorf("state: read %s: %w", ttlID, err)
		}
		return &ttlMark{value: value, ms: min(ms, lastMark), found: found}, nil
	})
	if err == nil && m.err != nil {
		return nil, m.err
	}
	return m, err
}

// lastMark is the end of the global window: no timer can be set after it.
const lastMark = int64(mtime.EndOfGlobalWindowTime)

// Touch says that the key is in use at nowMS, in ms, in the window of the element: it is
// idle a ttl, at least 1 ms, after the latest of such times, and at the latest when the
// window ends, since the runner clears its state then. A ttl that is not shorter than the
// window is an error: no key could become idle. Touch costs 1 RPC, and 2 more if the mark
// moves, and writes at once: call it when it is certain that the element counts. An error
// must fail the bundle.
func (c *TTL) Touch(sp beamstate.Provider, tp timers.Provider, w beam.Window, nowMS int64, ttl time.Duration) error {
	if ttl < time.Millisecond {
		return fmt.Errorf("state: a ttl of %v is too short: use 1ms or more", ttl)
	}
	if w == nil {
		return errors.New("state: Touch needs the window of the element: take it as a beam.Window in ProcessElement")
	}
	if in, ok := w.(window.IntervalWindow); ok && ttl.Milliseconds() >= int64(in.End-in.Start) {
		return fmt.Errorf("state: a ttl of %v ends after its window of %d ms, whose state the runner clears at its end: "+
			"use a shorter ttl, or the global window", ttl, int64(in.End-in.Start))
	}
	m, err := c.mark(sp)
	if err != nil {
		return err
	}
	next := min(idleAt(nowMS, ttl), w.MaxTimestamp().Milliseconds())
	if m.found && next <= m.ms {
		return nil
	}
	if err := m.value.Write(sp, next); err != nil {
		m.err = fmt.Errorf("state: write %s: %w", ttlID, err)
		return m.err
	}
	m.ms, m.found = next, true
	m.arm(tp)
	return nil
}

// idleAt is the time, in ms, at which a key used at nowMS becomes idle. It ends with the
// global window, so that a timer can be set for it. A mark is the latest of such times.
func idleAt(nowMS int64, ttl time.Duration) int64 {
	idle := nowMS + ttl.Milliseconds()
	if ttl > 0 && idle < nowMS {
		idle = math.MaxInt64
	}
	return min(idle, lastMark)
}

func (m *ttlMark) arm(tp timers.Provider) {
	timers.InEventTime(TimerFamily).Set(tp, time.UnixMilli(m.ms), timers.WithTag(TTLTag), timers.WithNoOutputTimestamp())
}

// Fired is for OnTimer, with its arguments. It reports whether the key is idle now, and
// since when, in ms: a time to emit at, as a timer without output timestamp has none. If
// it is, the mark is forgotten and cells are cleared. Those with a version are read first:
// one that must not be cleared, since a newer build wrote it, is an error before anything
// is cleared, which must fail the bundle. For a look at what goes, open the cells before
// the call.
//
// Fired ignores timers of another tag. It sets a timer again that fires too early: the SDK
// fires timers that were cleared, at event time 0. If there is no mark, the runner has
// cleared the state before the timer came, and idle is false, since nothing is left to
// clear: so it is with marks after the end of their window, which a build before this
// rule has left, and on Flink at the end of a bounded input with checkpoints.
func (c *TTL) Fired(et beam.EventTime, sp beamstate.Provider, tp timers.Provider, timer timers.Context, cells ...Cell) (idleAtMS int64, idle bool, err error) {
	if timer.Family != TimerFamily || timer.Tag != TTLTag {
		return 0, false, nil
	}
	m, err := c.mark(sp)
	if err != nil || !m.found {
		return 0, false, err
	}
	if et.Milliseconds() < m.ms {
		m.arm(tp)
		return 0, false, nil
	}
	clears := make([]func() error, len(cells))
	for i, cell := range cells {
		if clears[i], err = cell.open(sp, m.ms); err != nil {
			return 0, false, err
		}
	}
	for _, clearCell := range clears {
		if err := clearCell(); err != nil {
			return 0, false, err
		}
	}
	if err := m.value.Clear(sp); err != nil {
		m.err = fmt.Errorf("state: clear %s: %w", ttlID, err)
		return 0, false, m.err
	}
	idleAtMS = m.ms
	m.ms, m.found = 0, false
	return idleAtMS, true, nil
}
