package beamtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/google/go-cmp/cmp"
)

func TestFire(t *testing.T) {
	fn := newEveryKindFn()
	set := func(tp timers.Provider, tag string, ms int) {
		fn.Timer.Set(tp, beamTime(ms).ToTime(), timers.WithTag(tag))
	}
	// handlers run when the timer of the tag fires.
	for name, tc := range map[string]struct {
		timers   map[string]int // tag to time, all of key k
		handlers map[string]func(tp timers.Provider) error
		fired    []string
		left     []string
	}{
		"in order of time": {
			timers: map[string]int{"c": 10, "a": 20, "b": 5, "later": 31},
			fired:  []string{"b 5@5", "c 10@10", "a 20@20"}, left: []string{"later 31"},
		},
		"at the same time in order of tags": {
			timers: map[string]int{"b": 30, "a": 30},
			fired:  []string{"a 30@30", "b 30@30"},
		},
		"set again, later": {
			timers:   map[string]int{"a": 10},
			handlers: map[string]func(timers.Provider) error{"a": func(tp timers.Provider) error { set(tp, "a", 100); return nil }},
			fired:    []string{"a 10@10"}, left: []string{"a 100"},
		},
		"one is moved before it fires": {
			timers:   map[string]int{"a": 10, "b": 20},
			handlers: map[string]func(timers.Provider) error{"a": func(tp timers.Provider) error { set(tp, "b", 100); return nil }},
			fired:    []string{"a 10@10"}, left: []string{"b 100"},
		},
		"one is set between two": {
			timers:   map[string]int{"a": 10, "b": 20},
			handlers: map[string]func(timers.Provider) error{"a": func(tp timers.Provider) error { set(tp, "x", 15); return nil }},
			fired:    []string{"a 10@10", "x 15@15", "b 20@20"},
		},
		"one is set twice between two": {
			timers: map[string]int{"a": 10, "b": 20},
			handlers: map[string]func(timers.Provider) error{"a": func(tp timers.Provider) error {
				set(tp, "x", 15)
				set(tp, "x", 100)
				return nil
			}},
			fired: []string{"a 10@10", "b 20@20"}, left: []string{"x 100"},
		},
		"one is set again at its time": {
			timers:   map[string]int{"a": 10, "b": 20},
			handlers: map[string]func(timers.Provider) error{"a": func(tp timers.Provider) error { set(tp, "b", 20); return nil }},
			fired:    []string{"a 10@10", "b 20@20"},
		},
		"one that is due is set by the last": {
			timers:   map[string]int{"a": 10},
			handlers: map[string]func(timers.Provider) error{"a": func(tp timers.Provider) error { set(tp, "x", 12); return nil }},
			fired:    []string{"a 10@10", "x 12@12"},
		},
		"a cleared one fires, at event time 0": {
			timers:   map[string]int{"a": 10, "b": 20},
			handlers: map[string]func(timers.Provider) error{"a": func(tp timers.Provider) error { fn.Timer.ClearTag(tp, "b"); return nil }},
			fired:    []string{"a 10@10", "b 0@0"},
		},
		"one that is cleared by the last does not": {
			timers:   map[string]int{"a": 10, "b": 40},
			handlers: map[string]func(timers.Provider) error{"a": func(tp timers.Provider) error { fn.Timer.ClearTag(tp, "b"); return nil }},
			fired:    []string{"a 10@10"},
		},
		"none is due": {timers: map[string]int{"a": 31}, left: []string{"a 31"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, fn)
			if err := k.Run("k", func(_ state.Provider, tp timers.Provider) error {
				for tag, ms := range tc.timers {
					set(tp, tag, ms)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			var fired []string
			if err := k.Fire(30, func(timer Timer, _ state.Provider, tp timers.Provider) error {
				fired = append(fired, fmt.Sprintf("%s %d@%d", timer.Tag, timer.FireMS, timer.EventTime.Milliseconds()))
				if h := tc.handlers[timer.Tag]; h != nil && timer.FireMS > 0 {
					return h(tp)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.fired, fired); diff != "" {
				t.Errorf("fired (-want +got):\n%s", diff)
			}
			var left []string
			for _, timer := range k.Timers("k") {
				left = append(left, fmt.Sprintf("%s %d", timer.Tag, timer.FireMS))
			}
			if diff := cmp.Diff(tc.left, left); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// If a bundle of timers fails, its state and timers stay as they were, and so do those of other
// keys, which would come later.
func TestFireFails(t *testing.T) {
	fn := newEveryKindFn()
	k := newKit(t, fn)
	arm := func(_ state.Provider, tp timers.Provider) error {
		fn.Timer.Set(tp, beamTime(10).ToTime(), timers.WithNoOutputTimestamp())
		return nil
	}
	for _, key := range []string{"c", "a", "b"} {
		if err := k.Run(key, arm); err != nil {
			t.Fatal(err)
		}
	}
	broken := errors.New("broken")
	var order []string
	onTimer := func(fail bool) func(Timer, state.Provider, timers.Provider) error {
		order = nil
		return func(timer Timer, sp state.Provider, _ timers.Provider) error {
			order = append(order, timer.Key)
			if timer.EventTime.Milliseconds() <= timer.FireMS {
				t.Errorf("a timer without output timestamp has event time %d", timer.EventTime.Milliseconds())
			}
			if err := fn.Number.Write(sp, 7); err != nil {
				return err
			}
			if fail && timer.Key == "b" {
				return broken
			}
			return nil
		}
	}
	if err := k.Fire(10, onTimer(true)); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if !slices.Equal(order, []string{"a", "b"}) || k.Bytes("a", "number") == nil || k.Bytes("b", "number") != nil || len(k.Timers("b")) != 1 {
		t.Errorf("after the failure: fired %v, a %x, b %x", order, k.Bytes("a", "number"), k.Bytes("b", "number"))
	}
	if err := k.Fire(10, onTimer(false)); err != nil {
		t.Fatal(err)
	}
	if want := (Counts{Clears: 2, Appends: 2}); !slices.Equal(order, []string{"b", "c"}) || k.RPCs() != want {
		t.Errorf("again: fired %v with %v; want %v", order, k.RPCs(), want)
	}
}

// Elements and timers of one bundle: an element that moves its timer prevents it from firing.
func TestFireInABundle(t *testing.T) {
	fn := newEveryKindFn()
	k := newKit(t, fn)
	arm := func(ms int) Call {
		return func(_ state.Provider, tp timers.Provider) error {
			fn.Timer.Set(tp, beamTime(ms).ToTime())
			return nil
		}
	}
	if err := k.Run("k", arm(10)); err != nil {
		t.Fatal(err)
	}
	_ = k.StartBundle()
	if err := k.Run("k", arm(50)); err != nil {
		t.Fatal(err)
	}
	if err := k.Fire(20, func(timer Timer, _ state.Provider, _ timers.Provider) error {
		return fmt.Errorf("fired: %v", timer)
	}); err != nil {
		t.Error(err)
	}
	if err := k.FinishBundle(); err != nil {
		t.Error(err)
	}
	if all := k.Timers("k"); len(all) != 1 || all[0].FireMS != 50 {
		t.Errorf("timers: %v", all)
	}
}

// Of timers due at one time the output timestamp comes first; of keys, the window.
func TestOrderOfTimers(t *testing.T) {
	fn := newEveryKindFn()
	k := newKit(t, fn)
	for hour, key := range map[int]string{0: "z", 1: "a"} {
		k.Window = window.IntervalWindow{Start: beamTime(hour * 3600_000), End: beamTime((hour + 1) * 3600_000)}
		if err := k.Run(key, func(_ state.Provider, tp timers.Provider) error {
			fn.Timer.Set(tp, beamTime(10).ToTime(), timers.WithTag("a"), timers.WithOutputTimestamp(beamTime(9).ToTime()))
			fn.Timer.Set(tp, beamTime(10).ToTime(), timers.WithTag("b"), timers.WithOutputTimestamp(beamTime(5).ToTime()))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	var fired []string
	if err := k.Fire(10, func(timer Timer, _ state.Provider, _ timers.Provider) error {
		fired = append(fired, timer.Key+timer.Tag)
		return nil
	}); err != nil || !slices.Equal(fired, []string{"zb", "za", "ab", "aa"}) {
		t.Errorf("fired %q, %v", fired, err)
	}
}

// A timer that sets itself again before another one that is due would keep the SDK busy
// for ever.
func TestTimersThatNeverRestInABundle(t *testing.T) {
	fn := newEveryKindFn()
	k := newKit(t, fn)
	set := func(tp timers.Provider, tag string, ms int) {
		fn.Timer.Set(tp, beamTime(ms).ToTime(), timers.WithTag(tag))
	}
	if err := k.Run("k", func(_ state.Provider, tp timers.Provider) error {
		set(tp, "a", 10)
		set(tp, "b", 20)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := k.Fire(30, func(timer Timer, _ state.Provider, tp timers.Provider) error {
		set(tp, "a", 10)
		return nil
	}); err == nil {
		t.Error("a timer that is set again and again ends")
	}
}

func TestTimersThatNeverRest(t *testing.T) {
	fn := newEveryKindFn()
	k := newKit(t, fn)
	again := func(tp timers.Provider) { fn.Timer.Set(tp, beamTime(10).ToTime()) }
	if err := k.Run("k", func(_ state.Provider, tp timers.Provider) error { again(tp); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := k.Fire(10, func(_ Timer, _ state.Provider, tp timers.Provider) error { again(tp); return nil }); err == nil {
		t.Error("a timer that is set again and again ends")
	}
}
