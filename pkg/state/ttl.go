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

// TimerFamily is the timer family of a stateful DoFn, in event time. A DoFn with two families
// hangs on the embedded runner, so each purpose has a tag within this one.
const TimerFamily = "agent"

// TTLTag is the tag of the timer of [TTL].
const TTLTag = "ttl"

// TTL clears the state of keys that are idle in event time. It is one field for a cell, with the
// id "ttl", and a timer, with the family "agent" and the tag "ttl":
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
// TTL stores the mark, which is the time at which the key becomes idle. The mark never moves
// back, so a late element does not shorten it. The timer has no output timestamp, so it does not
// hold the watermark. All keys are cleared at the end of a bounded input and when a job is
// drained. In a window other than the global one, all keys are cleared when the window ends.
type TTL struct {
	ttlCell
	opened[*ttlMark]
}

type ttlMark struct {
	value beamstate.Value[int64]
	ms    int64
	found bool
	err   error // of a failed RPC, after which the stored mark is unknown
}

type ttlCell struct{ valueOf[int64] }

// StateKey returns the id of the cell.
func (ttlCell) StateKey() string { return ttlID }

// Timers declares the timer family.
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

// lastMark is the end of the global window. Timers cannot be set after it.
const lastMark = int64(mtime.EndOfGlobalWindowTime)

// Touch says that the key is in use at nowMS, in ms. The key becomes idle ttl after the latest
// such time, but at the latest when the window w of the element ends, because the runner clears
// its state then. ttl is at least 1 ms. If it is not shorter than the window, Touch returns an
// error, because the key could never become idle.
//
// Touch costs 1 RPC, and 2 more if the mark moves. It writes at once, so call it when it is
// certain that the element counts. Fail the bundle if it returns an error.
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

// idleAt returns the time, in ms, at which a key that was last used at nowMS becomes idle. It is
// at most the end of the global window, so that a timer can be set for it.
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

// Fired handles a timer; call it in OnTimer, with its arguments. If the key is idle, Fired clears
// the mark and the cells and returns true with the time since when the key is idle, in ms. Emit
// at that time, because a timer without output timestamp has none.
//
// Fired reads versioned cells before it clears anything. If a newer build wrote one of them,
// Fired returns an error and clears nothing. Fail the bundle if it returns an error. To use the
// state before it is cleared, open the cells before the call.
//
// Fired ignores timers with another tag. If a timer fires too early, Fired sets it again, because
// the SDK fires cleared timers at event time 0. If there is no mark, the runner has cleared the
// state before the timer fired, so idle is false. That happens on Flink at the end of a bounded
// input with checkpoints, and for marks after the end of their window, which older builds stored.
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
