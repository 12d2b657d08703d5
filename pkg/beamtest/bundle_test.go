package beamtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/google/go-cmp/cmp"
)

// timersOf lists the timers of keys as "key tag ms".
func timersOf(k *Kit, keys ...string) (list []string) {
	for _, key := range keys {
		for _, t := range k.Timers(key) {
			list = append(list, fmt.Sprint(key, " ", t.Tag, " ", t.FireMS))
		}
	}
	return list
}

// The SDK's adapter has one current key: that of the running call, or of the last one. The window
// belongs to the provider.
func TestATimerBelongsToTheCurrentKey(t *testing.T) {
	fn := newEveryKindFn()
	set := func(tp timers.Provider, tag string) { fn.Timer.Set(tp, beamTime(10).ToTime(), timers.WithTag(tag)) }
	kept := func(into *timers.Provider) Call {
		return func(_ state.Provider, tp timers.Provider) error { *into = tp; return nil }
	}
	hour := window.IntervalWindow{Start: 0, End: 3600_000}
	for name, tc := range map[string]struct {
		run  func(k *Kit) error
		want []string
	}{
		"in the next element's call": {func(k *Kit) error {
			var a timers.Provider
			return errors.Join(k.StartBundle(), k.Run("a", kept(&a)),
				k.Run("b", func(state.Provider, timers.Provider) error { set(a, "x"); return nil }), k.FinishBundle())
		}, []string{"b x 10"}},
		"after the next element's call": {func(k *Kit) error {
			var a timers.Provider
			err := errors.Join(k.StartBundle(), k.Run("a", kept(&a)), k.Run("b", kept(new(timers.Provider))))
			set(a, "x")
			return errors.Join(err, k.FinishBundle())
		}, []string{"b x 10"}},
		"in Finish": {func(k *Kit) error {
			var a timers.Provider
			k.Finish = func() error { set(a, "x"); return nil }
			return errors.Join(k.StartBundle(), k.Run("a", kept(&a)), k.Run("c", kept(new(timers.Provider))), k.FinishBundle())
		}, []string{"c x 10"}},
		"in OnTimer of another key": {func(k *Kit) error {
			err := k.Run("b", func(_ state.Provider, tp timers.Provider) error { set(tp, "due"); return nil })
			var a timers.Provider
			return errors.Join(err, k.StartBundle(), k.Run("a", kept(&a)),
				k.Fire(10, func(Timer, state.Provider, timers.Provider) error { set(a, "x"); return nil }), k.FinishBundle())
		}, []string{"b x 10"}},
		"of another window": {func(k *Kit) error {
			k.Window = hour
			var a timers.Provider
			err := errors.Join(k.StartBundle(), k.Run("a", kept(&a)))
			k.Window = nil
			err = errors.Join(err, k.Run("b", func(state.Provider, timers.Provider) error { set(a, "x"); return nil }), k.FinishBundle())
			k.Window = hour
			return err
		}, []string{"b x 10"}},
		"in the next bundle": {func(k *Kit) error {
			var a timers.Provider
			return errors.Join(k.Run("a", kept(&a)),
				k.Run("b", func(state.Provider, timers.Provider) error { set(a, "x"); return nil }))
		}, []string{"b x 10"}},
	} {
		k := newKit(t, fn)
		if err := tc.run(k); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, timersOf(k, "a", "b", "c")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	k := newKit(t, fn)
	var a timers.Provider
	k.Start = func() error {
		if a != nil {
			set(a, "x")
		}
		return nil
	}
	if err := k.Run("a", kept(&a)); err != nil {
		t.Fatal(err)
	}
	if err := k.Run("a", kept(&a)); err == nil || !strings.Contains(err.Error(), "before the first element") {
		t.Errorf("a timer set in Start: %v", err)
	}
}

// A provider can use its state until the bundle ends, and not after that.
func TestStateBelongsToItsProvider(t *testing.T) {
	for _, sdk := range []bool{false, true} {
		fn := newEveryKindFn()
		k := newKit(t, fn)
		k.SDK = sdk
		providers := map[string]state.Provider{}
		k.Finish = func() error {
			for _, key := range []string{"a", "b"} {
				if err := fn.Number.Write(providers[key], int64(key[0])); err != nil {
					return err
				}
			}
			return nil
		}
		keep := func(key string) Call {
			return func(sp state.Provider, _ timers.Provider) error { providers[key] = sp; return nil }
		}
		if err := errors.Join(k.StartBundle(), k.Run("a", keep("a")), k.Run("b", keep("b")), k.FinishBundle()); err != nil {
			t.Fatal(err)
		}
		if got := string(k.Bytes("a", "number")) + string(k.Bytes("b", "number")); got != "ab" {
			t.Errorf("SDK %v: stored %q", sdk, got)
		}
		done := k.RPCs()
		if err := fn.Number.Write(providers["a"], 1); !errors.Is(err, errEnded) || k.RPCs() != done || k.Bytes("a", "number")[0] != 'a' {
			t.Errorf("SDK %v: a write after the bundle: %v", sdk, err)
		}
	}
}

// Finish is called once, after the calls of a bundle that has not failed; Start before.
func TestStartAndFinish(t *testing.T) {
	broken := errors.New("broken")
	var log []string
	note := func(word string, err error) func() error {
		return func() error { log = append(log, word); return err }
	}
	call := func(word string, err error) Call {
		return func(state.Provider, timers.Provider) error { return note(word, err)() }
	}
	arm := func(_ state.Provider, tp timers.Provider) error {
		timers.InEventTime("agent").Set(tp, beamTime(1).ToTime())
		return nil
	}
	onTimer := func(timer Timer, _ state.Provider, _ timers.Provider) error { return note("t"+timer.Key, nil)() }
	for name, tc := range map[string]struct {
		start, finish error
		run           func(k *Kit) error
		want          string
		err           error
	}{
		"a call":             {run: func(k *Kit) error { return k.Run("k", call("1", nil)) }, want: "S 1 F"},
		"a call that fails":  {run: func(k *Kit) error { return k.Run("k", call("1", broken)) }, want: "S 1", err: broken},
		"Start fails":        {start: broken, run: func(k *Kit) error { return k.Run("k", call("1", nil)) }, want: "S", err: broken},
		"Finish fails":       {finish: broken, run: func(k *Kit) error { return k.Run("k", call("1", nil)) }, want: "S 1 F", err: broken},
		"dropped, and again": {run: func(k *Kit) error { return k.Replay("k", Dropped, call("1", nil)) }, want: "S 1 F S 1 F"},
		"kept, and again":    {run: func(k *Kit) error { return k.Replay("k", Kept, call("1", nil)) }, want: "S 1 F S 1 F"},
		"timers of two keys": {run: func(k *Kit) error {
			err := errors.Join(k.Run("a", arm), k.Run("b", arm))
			log = nil
			return errors.Join(err, k.Fire(1, onTimer))
		}, want: "S ta F S tb F"},
		"a bundle of all": {run: func(k *Kit) error {
			err := errors.Join(k.Run("a", arm), k.Run("b", arm))
			log = nil
			return errors.Join(err, k.StartBundle(), k.Run("a", call("1", nil)), k.Run("b", call("2", nil)),
				k.Fire(1, onTimer), k.Run("a", call("3", nil)), k.FinishBundle())
		}, want: "S 1 2 ta tb 3 F"},
		"a bundle whose Start fails": {start: broken, run: func(k *Kit) error {
			return errors.Join(k.StartBundle(), k.Run("a", call("1", nil)), k.FinishBundle())
		}, want: "S", err: broken},
		"a bundle stops at an error": {run: func(k *Kit) error {
			return errors.Join(k.StartBundle(), k.Run("a", call("1", broken)), k.Run("a", call("2", nil)), k.FinishBundle())
		}, want: "S 1", err: broken},
		"a bundle that the runner gives up": {run: func(k *Kit) error {
			err := errors.Join(k.StartBundle(), k.Run("a", call("1", nil)))
			k.FailBundle()
			return err
		}, want: "S 1"},
	} {
		k := newKit(t, newEveryKindFn())
		log = nil
		k.Start, k.Finish = note("S", tc.start), note("F", tc.finish)
		if err := tc.run(k); !errors.Is(err, tc.err) || strings.Join(log, " ") != tc.want {
			t.Errorf("%s: %v, %v; want %s, %v", name, log, err, tc.want, tc.err)
		}
	}
}

// sessionsFn is a DoFn of the hardest kind: it keeps the provider of each key's first
// element, works for all keys at once on goroutines of its own, and writes and emits in
// FinishBundle. A timer at the minimum timestamp gives it the key to set another with.
type sessionsFn struct {
	Number state.Value[int64]
	Timer  timers.EventTime

	order    []string
	sessions map[string]*session
}

type session struct {
	sp   state.Provider
	work sync.WaitGroup
	sum  int64
	err  error
	wake bool
}

func newSessionsFn() *sessionsFn {
	return &sessionsFn{Number: state.MakeValueState[int64]("number"), Timer: timers.InEventTime("agent")}
}

type emitter = func(beam.EventTime, string)

func (f *sessionsFn) StartBundle(_ context.Context, _, _, _, _, _ emitter) error {
	f.sessions = map[string]*session{}
	return nil
}

func (f *sessionsFn) add(sp state.Provider, key string, value int64) *session {
	s := f.sessions[key]
	if s == nil {
		s = &session{sp: sp}
		f.order = append(f.order, key)
		f.sessions[key] = s
		s.work.Go(func() { s.sum, _, s.err = f.Number.Read(s.sp) })
	}
	s.work.Wait() // for what the key had to do before
	s.work.Go(func() { s.sum += value })
	return s
}

func (f *sessionsFn) ProcessElement(sp state.Provider, tp timers.Provider, key string, value int64, in, _, _, _, _ emitter) {
	if s := f.add(sp, key, value); !s.wake {
		s.wake = true
		f.Timer.Set(tp, mtime.MinTimestamp.ToTime(), timers.WithTag("wake"), timers.WithNoOutputTimestamp())
	}
	in(beamTime(int(value)), "in "+key)
}

func (f *sessionsFn) OnTimer(sp state.Provider, tp timers.Provider, key string, timer timers.Context, _, fired, _, _, _ emitter) {
	fired(0, timer.Tag+" "+key)
	if timer.Tag == "wake" {
		f.Timer.Set(tp, beamTime(1000).ToTime(), timers.WithTag("deadline"))
		return
	}
	f.add(sp, key, 100)
}

func (f *sessionsFn) FinishBundle(_ context.Context, _, _, first, second, third emitter) error {
	errs := make([]error, len(f.order))
	var writes sync.WaitGroup
	for i, key := range f.order {
		writes.Go(func() {
			s := f.sessions[key]
			s.work.Wait()
			if errs[i] = s.err; errs[i] == nil {
				errs[i] = f.Number.Write(s.sp, s.sum)
			}
		})
	}
	writes.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, key := range f.order {
		[]emitter{first, second, third}[i%3](beamTime(i), fmt.Sprint("sum ", key, " ", f.sessions[key].sum))
	}
	return nil
}

// sessionsRun is four bundles of sessionsFn: elements of several keys, elements and timers of
// several keys, and timers. Each bundle is
// tried until it succeeds, by a new DoFn. It returns all that came out, and the crashes.
func sessionsRun(t *testing.T, sdk bool, crashAt int) (result []string, crashes int, rpcs Counts) {
	t.Helper()
	k := newKit(t, newSessionsFn())
	k.SDK = sdk
	outs := make([]*Output[string], 5)
	emits := make([]emitter, len(outs))
	for i := range outs {
		outs[i] = NewOutput[string](k)
		emits[i] = outs[i].Emit
	}
	var fn *sessionsFn
	process := func(key string, value int64) error {
		return k.Run(key, func(sp state.Provider, tp timers.Provider) error {
			fn.ProcessElement(sp, tp, key, value, emits[0], emits[1], emits[2], emits[3], emits[4])
			return nil
		})
	}
	fire := func(ms int64) error {
		return k.Fire(ms, func(timer Timer, sp state.Provider, tp timers.Provider) error {
			fn.OnTimer(sp, tp, timer.Key, timer.Context(), emits[0], emits[1], emits[2], emits[3], emits[4])
			return nil
		})
	}
	k.CrashAt(crashAt)
	for _, bundle := range []func() error{
		func() error { return errors.Join(process("a", 1), process("b", 2), process("a", 4)) },
		func() error { return errors.Join(process("c", 8), fire(0), process("a", 16)) },
		func() error { return fire(2000) },
		func() error { return fire(2000) },
	} {
		for retry := range 3 {
			fn = newSessionsFn()
			k.Start = func() error { return fn.StartBundle(t.Context(), emits[0], emits[1], emits[2], emits[3], emits[4]) }
			k.Finish = func() error { return fn.FinishBundle(t.Context(), emits[0], emits[1], emits[2], emits[3], emits[4]) }
			_ = errors.Join(k.StartBundle(), bundle())
			err := k.FinishBundle()
			if err == nil {
				rpcs.Reads += k.RPCs().Reads
				rpcs.Clears += k.RPCs().Clears
				rpcs.Appends += k.RPCs().Appends
				break
			}
			if !errors.Is(err, ErrCrash) || retry > 1 {
				t.Fatal(err)
			}
			crashes++
		}
	}
	for i, out := range outs {
		for _, e := range out.All() {
			result = append(result, fmt.Sprintf("%d: %s @%d", i, e.Value, e.EventTime.Milliseconds()))
		}
	}
	for _, key := range k.Keys() {
		result = append(result, fmt.Sprintf("%s: %x", key, k.Bytes(key, "number")))
	}
	return append(result, timersOf(k, k.Keys()...)...), crashes, rpcs
}

func TestSessions(t *testing.T) {
	want := []string{
		"0: in a @1", "0: in b @2", "0: in a @4", "0: in c @8", "0: in a @16",
		"1: wake a @0", "1: wake b @0", "1: wake a @0", "1: deadline a @0", "1: deadline b @0", "1: wake c @0", "1: deadline c @0",
		"2: sum a 5 @0", "2: sum c 8 @0", "2: sum a 121 @0", "2: sum c 108 @0",
		"3: sum b 2 @1", "3: sum a 21 @1", "3: sum b 102 @1",
		"a: 79", "b: 66", "c: 6c",
	}
	for _, sdk := range []bool{false, true} {
		got, _, rpcs := sessionsRun(t, sdk, 0)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("SDK %v, undisturbed (-want +got):\n%s", sdk, diff)
		}
		if want := (Counts{7, 7, 7}); rpcs != want {
			t.Errorf("SDK %v: %v; want %v", sdk, rpcs, want)
		}
		crashes := 1
		for n := 1; crashes > 0; n++ {
			got, crashes, _ = sessionsRun(t, sdk, n)
			if diff := cmp.Diff(want, got); diff != "" || crashes > 1 {
				t.Fatalf("SDK %v, crash %d (-want +got):\n%s", sdk, n, diff)
			}
			// 21 RPCs, 5 elements, 18 that are emitted in OnTimer or Finish, timers, and 3 ends.
			if crashes == 0 && n < 45 {
				t.Errorf("there are only %d places to crash at", n-1)
			}
		}
	}
}

// A crash counts even if the DoFn ignores the errors, and nothing after it has an effect.
func TestCrashIsFinal(t *testing.T) {
	fn := newEveryKindFn()
	k := newKit(t, fn)
	out := NewOutput[int](k)
	// Two RPCs of each write, a timer, a value, and the end of the bundle.
	for step := 1; step <= 7; step++ {
		k.CrashAt(step)
		finished := false
		k.Finish = func() error { finished = true; return nil }
		err := k.Run("k", func(sp state.Provider, tp timers.Provider) error {
			_ = fn.Number.Write(sp, 1)
			_ = fn.Number.Write(sp, 1)
			func() {
				defer func() { _ = recover() }()
				fn.Timer.Set(tp, beamTime(5).ToTime())
			}()
			func() {
				defer func() { _ = recover() }()
				out.Emit(7, 8)
			}()
			return nil
		})
		if !errors.Is(err, ErrCrash) || finished != (step == 7) {
			t.Errorf("step %d: %v, finished %v", step, err, finished)
		}
		if len(k.Keys()) > 0 || len(out.All()) > 0 {
			t.Errorf("step %d: keys %v, out %v", step, k.Keys(), out.All())
		}
	}
}

func TestEmitOutsideABundle(t *testing.T) {
	out := NewOutput[int](newKit(t, newEveryKindFn()))
	defer func() {
		if recover() == nil {
			t.Error("a value was emitted outside a bundle")
		}
	}()
	out.Emit(0, 1)
}

// What a bundle emits is kept when the bundle is kept, in order and with its time.
func TestOutputs(t *testing.T) {
	k := newKit(t, newEveryKindFn())
	out := NewOutput[string](k)
	emit := func(s string, err error) Call {
		return func(state.Provider, timers.Provider) error { out.Emit(5, s); return err }
	}
	broken := errors.New("broken")
	_ = k.Run("k", emit("1", broken))
	_ = k.Replay("k", Dropped, emit("2", nil))
	_ = k.StartBundle()
	_, _ = k.Run("k", emit("3", nil)), k.Run("k", emit("4", nil))
	if len(out.All()) != 1 {
		t.Errorf("before the end of the bundle: %v", out.All())
	}
	if err := k.FinishBundle(); err != nil {
		t.Fatal(err)
	}
	want := []Emitted[string]{{5, "2"}, {5, "3"}, {5, "4"}}
	if !slices.Equal(out.All(), want) {
		t.Errorf("%v; want %v", out.All(), want)
	}
}
