package state

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/migrate"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const ttl = time.Hour

// touchAt is an element at a time, in ms after now.
func touchAt(fn *allFn, ms int64) beamtest.Call {
	return func(sp beamstate.Provider, tp timers.Provider) error {
		return fn.TTL.Touch(sp, tp, window.GlobalWindow{}, now+ms, ttl)
	}
}

func mustRun(t *testing.T, k *beamtest.Kit, call beamtest.Call) {
	t.Helper()
	if err := k.Run("k", call); err != nil {
		t.Fatal(err)
	}
}

// fill puts something into every cell that a TTL can clear.
func fill(fn *allFn) beamtest.Call {
	return func(sp beamstate.Provider, _ timers.Provider) error {
		for _, a := range accesses() {
			if err := errors.Join(a.mutate(fn, sp), a.commit(fn, sp)); err != nil {
				return err
			}
		}
		return nil
	}
}

// dueAt are the due times, in ms after now, of the timers of the key.
func dueAt(t *testing.T, k *beamtest.Kit) (due []int64) {
	t.Helper()
	for _, timer := range k.Timers("k") {
		if timer.Family != TimerFamily || timer.Tag != TTLTag || timer.EventTime != mtime.MaxTimestamp {
			t.Errorf("timer %+v", timer)
		}
		due = append(due, timer.FireMS-now)
	}
	return due
}

// fire fires what is due at a time, in ms after now, and returns what Fired did.
func fire(t *testing.T, k *beamtest.Kit, fn *allFn, ms int64, cells ...Cell) (idle []bool) {
	t.Helper()
	if err := k.Fire(now+ms, func(timer beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
		at, done, err := fn.TTL.Fired(timer.EventTime, sp, tp, timer.Context(), cells...)
		if done && at != timer.FireMS {
			t.Errorf("idle since %d; want %d", at, timer.FireMS)
		}
		idle = append(idle, done)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return idle
}

const hour = 3_600_000

func TestMarkNeverMovesBack(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		moved := beamtest.Counts{Reads: 1, Clears: 1, Appends: 1}
		for _, tc := range []struct {
			at, due int64
			rpcs    beamtest.Counts
		}{
			{0, hour, moved}, {10, hour + 10, moved}, {10, hour + 10, beamtest.Counts{Reads: 1}},
			{-5000, hour + 10, beamtest.Counts{Reads: 1}}, {20, hour + 20, moved},
		} {
			mustRun(t, k, touchAt(fn, tc.at))
			equal(t, []int64{tc.due}, dueAt(t, k))
			if k.RPCs() != tc.rpcs {
				t.Errorf("at %d: %v; want %v", tc.at, k.RPCs(), tc.rpcs)
			}
		}
		// Several in one call read once, and write what moves.
		mustRun(t, k, func(sp beamstate.Provider, tp timers.Provider) error {
			return errors.Join(touchAt(fn, 30)(sp, tp), touchAt(fn, 25)(sp, tp), touchAt(fn, 40)(sp, tp))
		})
		equal(t, []int64{hour + 40}, dueAt(t, k))
		if want := (beamtest.Counts{Reads: 1, Clears: 2, Appends: 2}); k.RPCs() != want {
			t.Errorf("three in a call: %v; want %v", k.RPCs(), want)
		}
	})
}

func TestIdleKeyIsWiped(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		cells := []Cell{&fn.Memory, &fn.ReplayCache, &fn.Continuation, &fn.Control, &fn.Deferred, fn.Profile.At(profile1)}
		mustRun(t, k, fill(fn))
		mustRun(t, k, touchAt(fn, 0))
		mustRun(t, k, touchAt(fn, 100))
		if idle := fire(t, k, fn, hour+99, cells...); idle != nil {
			t.Fatalf("fired before it was due: %v", idle)
		}
		equal(t, []bool{true}, fire(t, k, fn, hour+100, cells...))
		// One read for the mark and each cell of a message; a bag need not be read. One
		// clear for what is full, the mark and the bag.
		if want := (beamtest.Counts{Reads: 6, Clears: 7}); k.RPCs() != want {
			t.Errorf("%v; want %v", k.RPCs(), want)
		}
		for _, id := range []string{"memory", "llm_cache", "continuation", "control", "deferred", "profile", "ttl"} {
			if b := k.Bytes("k", id); b != nil {
				t.Errorf("cell %s holds %x", id, b)
			}
		}
		equal(t, []int64(nil), dueAt(t, k))

		// The key comes back, even with an old element.
		mustRun(t, k, touchAt(fn, 7))
		equal(t, []int64{hour + 7}, dueAt(t, k))
	})
}

// The user looks at the state before it is cleared, and also clears other state.
func TestFiredLeavesTheCellsToTheUser(t *testing.T) {
	fn := newAllFn()
	k := newKit(t, fn)
	mustRun(t, k, fill(fn))
	mustRun(t, k, touchAt(fn, 0))
	if err := k.Fire(now+hour, func(timer beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
		m := must(fn.Memory.Open(sp, timer.FireMS))
		if m.Len() != 1 {
			t.Errorf("%d entries", m.Len())
		}
		_, idle, err := fn.TTL.Fired(timer.EventTime, sp, tp, timer.Context(), &fn.Memory)
		if !idle || m.Len() != 0 {
			t.Errorf("idle %v, %d entries left", idle, m.Len())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if k.Bytes("k", "memory") != nil || k.Bytes("k", "llm_cache") == nil {
		t.Error("not the memory alone was cleared")
	}
}

// These timers have no meaning and are ignored: one with another tag or family, one for a key that
// was cleared already, and one that the SDK fires because it was cleared.
func TestFiredWithoutReason(t *testing.T) {
	ours := timers.Context{Family: TimerFamily, Tag: TTLTag}
	for name, tc := range map[string]struct {
		touched bool
		timer   timers.Context
		et      beam.EventTime
		armed   []int64
	}{
		"another tag":           {true, timers.Context{Family: TimerFamily, Tag: "deadline"}, mtime.MaxTimestamp, nil},
		"another family":        {true, timers.Context{Family: "other", Tag: TTLTag}, mtime.MaxTimestamp, nil},
		"no mark":               {false, ours, mtime.MaxTimestamp, nil},
		"cleared, by the SDK":   {true, ours, 0, []int64{hour}},
		"before the mark":       {true, ours, now + hour - 1, []int64{hour}},
		"before, from a runner": {true, ours, mtime.MinTimestamp, []int64{hour}},
	} {
		fn := newAllFn()
		k := newKit(t, fn)
		mustRun(t, k, fill(fn))
		if tc.touched {
			mustRun(t, k, touchAt(fn, 0))
		}
		mustRun(t, k, func(sp beamstate.Provider, tp timers.Provider) error {
			// As if the timer were gone: it has fired.
			timers.InEventTime(TimerFamily).ClearTag(tp, TTLTag)
			_, idle, err := fn.TTL.Fired(tc.et, sp, tp, tc.timer, &fn.Memory)
			if idle {
				t.Errorf("%s: idle", name)
			}
			return err
		})
		equal(t, tc.armed, dueAt(t, k))
		if k.Bytes("k", "memory") == nil {
			t.Errorf("%s: the memory is gone", name)
		}
	}
	// A mark that no timer can be set for is at the end of time.
	hostile := newAllFn()
	hk := newKit(t, hostile)
	if err := hk.SetValue("k", "ttl", int64(math.MaxInt64)); err != nil {
		t.Fatal(err)
	}
	mustRun(t, hk, func(sp beamstate.Provider, tp timers.Provider) error {
		at, idle, err := hostile.TTL.Fired(mtime.MaxTimestamp, sp, tp, ours)
		if !idle || at != mtime.EndOfGlobalWindowTime.Milliseconds() {
			t.Errorf("a mark beyond the end: idle %v, at %d", idle, at)
		}
		return err
	})
	// At the mark itself the key is idle, if a runner hands over the due time.
	fn := newAllFn()
	k := newKit(t, fn)
	mustRun(t, k, touchAt(fn, 0))
	mustRun(t, k, func(sp beamstate.Provider, tp timers.Provider) error {
		_, idle, err := fn.TTL.Fired(now+hour, sp, tp, ours)
		if !idle {
			t.Error("not idle at its mark")
		}
		return err
	})
}

// After it was cleared the key is as new, also in the same call.
func TestTouchAfterFired(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		mustRun(t, k, touchAt(fn, 1000))
		if err := k.Fire(now+1000+hour, func(timer beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
			if _, idle, err := fn.TTL.Fired(timer.EventTime, sp, tp, timer.Context()); err != nil || !idle {
				t.Errorf("idle %v, %v", idle, err)
			}
			if _, again, err := fn.TTL.Fired(timer.EventTime, sp, tp, timer.Context()); err != nil || again {
				t.Errorf("idle a second time: %v, %v", again, err)
			}
			return touchAt(fn, 5+hour)(sp, tp) // at most an hour before its mark
		}); err != nil {
			t.Fatal(err)
		}
		equal(t, []int64{5 + 2*hour}, dueAt(t, k))
	})
}

func TestFirstTouches(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		// The first of a key is the mark of the second.
		mustRun(t, k, func(sp beamstate.Provider, tp timers.Provider) error {
			return errors.Join(touchAt(fn, 30)(sp, tp), touchAt(fn, 25)(sp, tp))
		})
		equal(t, []int64{hour + 30}, dueAt(t, k))
		// A mark of 0 is one.
		if err := k.Run("k0", func(sp beamstate.Provider, tp timers.Provider) error {
			return fn.TTL.Touch(sp, tp, window.GlobalWindow{}, -hour, ttl)
		}); err != nil {
			t.Fatal(err)
		}
		if all := k.Timers("k0"); len(all) != 1 || all[0].FireMS != 0 || k.Bytes("k0", "ttl") == nil {
			t.Errorf("timers %v, cell %x", all, k.Bytes("k0", "ttl"))
		}
	})
}

// A cell without entries, but with bytes, is cleared, too.
func TestWipeOfAnEmptyBlob(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		k.SetBytes("k", "memory", []byte{2, 8, 1})
		k.SetBytes("k", "llm_cache", []byte{2, 8, 1})
		mustRun(t, k, touchAt(fn, 0))
		equal(t, []bool{true}, fire(t, k, fn, hour, &fn.Memory, &fn.ReplayCache))
		if k.Bytes("k", "memory") != nil || k.Bytes("k", "llm_cache") != nil {
			t.Error("something is left")
		}
	})
}

// If one cell must not be cleared, nothing is cleared.
func TestWipeChecksEveryCellFirst(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		mustRun(t, k, fill(fn))
		mustRun(t, k, touchAt(fn, 0))
		k.SetBytes("k", "continuation", nil)
		if err := k.SetValue("k", "continuation", &pb.Continuation{StateSchemaVersion: 2}); err != nil {
			t.Fatal(err)
		}
		ids := []string{"memory", "llm_cache", "continuation", "ttl"}
		before := map[string][]byte{}
		for _, id := range ids {
			before[id] = k.Bytes("k", id)
		}
		err := k.Fire(now+hour, func(timer beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
			_, _, err := fn.TTL.Fired(timer.EventTime, sp, tp, timer.Context(),
				&fn.Memory, &fn.ReplayCache, &fn.Continuation)
			return err
		})
		var future *migrate.FutureError
		if !errors.As(err, &future) || k.RPCs().Clears != 0 {
			t.Errorf("%v, %v", err, k.RPCs())
		}
		for _, id := range ids {
			if !bytes.Equal(k.Bytes("k", id), before[id]) {
				t.Errorf("cell %s has changed", id)
			}
		}
		equal(t, []int64{hour}, dueAt(t, k)) // the runner tries again
	})
}

func TestWipeFails(t *testing.T) {
	for n := 1; n <= 6; n++ { // mark, memory, cache; clears of these
		fn := newAllFn()
		k := newKit(t, fn)
		mustRun(t, k, fill(fn))
		mustRun(t, k, touchAt(fn, 0))
		before := k.Bytes("k", "memory")
		k.FailAt(n, nil)
		err := k.Fire(now+hour, func(timer beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
			_, _, err := fn.TTL.Fired(timer.EventTime, sp, tp, timer.Context(),
				&fn.Memory, &fn.ReplayCache)
			return err
		})
		if !errors.Is(err, beamtest.ErrInjected) || !strings.HasPrefix(err.Error(), "state: ") || !bytes.Equal(k.Bytes("k", "memory"), before) {
			t.Errorf("RPC %d: %v, memory %x", n, err, k.Bytes("k", "memory"))
		}
		equal(t, []bool{true}, fire(t, k, fn, hour, &fn.Memory, &fn.ReplayCache))
	}
}

func TestTouchFails(t *testing.T) {
	for n := 1; n <= 3; n++ {
		fn := newAllFn()
		k := newKit(t, fn)
		k.FailAt(n, nil)
		if err := k.Run("k", touchAt(fn, 0)); !errors.Is(err, beamtest.ErrInjected) {
			t.Errorf("RPC %d: %v", n, err)
		}
		if k.Bytes("k", "ttl") != nil || dueAt(t, k) != nil {
			t.Errorf("RPC %d: something is left", n)
		}
	}
	fn := newAllFn()
	k := newKit(t, fn)
	for _, ttl := range []time.Duration{0, -time.Hour, time.Millisecond - 1} {
		if err := k.Run("k", func(sp beamstate.Provider, tp timers.Provider) error {
			return fn.TTL.Touch(sp, tp, window.GlobalWindow{}, now, ttl)
		}); err == nil {
			t.Errorf("a ttl of %v is accepted", ttl)
		}
	}
}

// The mark does not pass the end of the window, and a ttl that is not shorter than the
// window is refused, before anything is read.
func TestTouchInWindows(t *testing.T) {
	const start, length = 1_000_000, 30_000
	in := window.IntervalWindow{Start: start, End: start + length}
	for name, tc := range map[string]struct {
		w    beam.Window
		now  int64
		ttl  time.Duration
		want int64 // when the timer is due
	}{
		"within":              {in, start, 10 * time.Second, start + 10_000},
		"one ms shorter":      {in, start, length*time.Millisecond - 1_000_000, start + length - 1},
		"beyond the end":      {in, start + 25_000, 10 * time.Second, start + length - 1},
		"as long":             {in, start, length * time.Millisecond, 0},
		"longer":              {in, start, time.Hour, 0},
		"of the global one":   {window.GlobalWindow{}, start, time.Hour, start + hour},
		"without any window":  {nil, start, time.Second, 0},
		"at the end of times": {window.GlobalWindow{}, math.MaxInt64, time.Hour, lastMark},
	} {
		fn := newAllFn()
		k := newKit(t, fn)
		k.Window = tc.w
		err := k.Run("k", func(sp beamstate.Provider, tp timers.Provider) error {
			return fn.TTL.Touch(sp, tp, tc.w, tc.now, tc.ttl)
		})
		if tc.want == 0 {
			if err == nil || k.RPCs().Total() > 0 {
				t.Errorf("%s: %v, %v", name, err, k.RPCs())
			}
			continue
		}
		if all := k.Timers("k"); err != nil || len(all) != 1 || all[0].FireMS != tc.want {
			t.Errorf("%s: %v, %v; want %d", name, all, err, tc.want)
		}
	}
}

// A timer whose mark the runner has cleared finds nothing to clear, and says so.
func TestFiredWithoutMark(t *testing.T) {
	fn := newAllFn()
	k := newKit(t, fn)
	mustRun(t, k, touchAt(fn, 0))
	k.SetBytes("k", "ttl", nil)
	fired := 0
	if err := k.Fire(now+hour, func(timer beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
		fired++
		at, idle, err := fn.TTL.Fired(timer.EventTime, sp, tp, timer.Context(), &fn.Memory)
		if at != 0 || idle {
			t.Errorf("idle %v, at %d", idle, at)
		}
		return err
	}); err != nil || fired != 1 || k.RPCs().Total() != 1 || len(k.Keys()) > 0 {
		t.Errorf("%v, fired %d, %v, left %v", err, fired, k.RPCs(), k.Keys())
	}
}

func TestIdleAt(t *testing.T) {
	end := mtime.EndOfGlobalWindowTime.Milliseconds()
	for _, tc := range []struct {
		now  int64
		ttl  time.Duration
		want int64
	}{
		{1000, time.Second, 2000}, {0, time.Millisecond, 1}, {-5000, time.Second, -4000},
		{5000, -time.Second, 4000}, {end, time.Hour, end}, {end - 1, time.Hour, end}, {math.MaxInt64, time.Hour, end},
		{253402300799999, math.MaxInt64, 253402300799999 + math.MaxInt64/1_000_000},
	} {
		if got := idleAt(tc.now, tc.ttl); got != tc.want {
			t.Errorf("idleAt(%d, %v) = %d; want %d", tc.now, tc.ttl, got, tc.want)
		}
	}
}
