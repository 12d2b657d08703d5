package beamtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	_ "github.com/beamagents/beamagents-go/pkg/coders"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	register.Function2x1(add) // the SDK calls a nil function for one that is known by reflection alone
}

func add(a, b int64) int64 { return a + b }

// everyKindFn has a cell of each kind, and timers in one family.
type everyKindFn struct {
	Message state.Value[*pb.ToolResult]
	Number  state.Value[int64]
	Bytes   state.Value[[]byte]
	Bag     state.Bag[*pb.ToolResult]
	Texts   state.Bag[string]
	Sum     state.Combining[int64, int64, int64]
	Map     state.Map[string, int64]
	Set     state.Set[string]
	List    state.OrderedList[string]
	Timer   timers.EventTime
}

func newEveryKindFn() *everyKindFn {
	return &everyKindFn{
		Message: state.MakeValueState[*pb.ToolResult]("message"),
		Number:  state.MakeValueState[int64]("number"),
		Bytes:   state.MakeValueState[[]byte]("bytes"),
		Bag:     state.MakeBagState[*pb.ToolResult]("bag"),
		Texts:   state.MakeBagState[string]("texts"),
		Sum:     state.MakeCombiningState[int64, int64, int64]("sum", add),
		Map:     state.MakeMapState[string, int64]("map"),
		Set:     state.MakeSetState[string]("set"),
		List:    state.MakeOrderedListState[string]("list"),
		Timer:   timers.InEventTime("agent"),
	}
}

func (*everyKindFn) ProcessElement(state.Provider, timers.Provider, []byte, int64) {}

func (*everyKindFn) OnTimer(state.Provider, timers.Provider, []byte, timers.Context) {}

func newKit(t rapid.TB, fn any) *Kit {
	t.Helper()
	k, err := New(fn)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func result(id string) *pb.ToolResult { return &pb.ToolResult{IntentId: id} }

// An op uses one of the cells and says what it saw.
type op func(fn *everyKindFn, sp state.Provider) (saw string, err error)

func saw[T any](v T, ok bool, err error) (string, error) {
	if m, isMessage := any(v).(proto.Message); isMessage && m.ProtoReflect().IsValid() {
		b, _ := proto.Marshal(m)
		return fmt.Sprintf("%x %v", b, ok), err
	}
	if list, isList := any(v).([]*pb.ToolResult); isList {
		var ids []string
		for _, m := range list {
			ids = append(ids, m.GetIntentId())
		}
		return fmt.Sprint(ids, ok), err
	}
	return fmt.Sprint(v, ok), err
}

// Value, Bag and Combining, of types whose coders write once and twice.
var common = map[string]op{
	"message.Read":  func(fn *everyKindFn, sp state.Provider) (string, error) { return saw(fn.Message.Read(sp)) },
	"message.Write": func(fn *everyKindFn, sp state.Provider) (string, error) { return "", fn.Message.Write(sp, result("a")) },
	"message.Empty": func(fn *everyKindFn, sp state.Provider) (string, error) { return "", fn.Message.Write(sp, result("")) },
	"message.Clear": func(fn *everyKindFn, sp state.Provider) (string, error) { return "", fn.Message.Clear(sp) },
	"message.Bad": func(fn *everyKindFn, sp state.Provider) (string, error) {
		return "", fn.Message.Write(sp, result("\xff"))
	},
	"number.Read":  func(fn *everyKindFn, sp state.Provider) (string, error) { return saw(fn.Number.Read(sp)) },
	"number.Write": func(fn *everyKindFn, sp state.Provider) (string, error) { return "", fn.Number.Write(sp, 300) },
	"number.Clear": func(fn *everyKindFn, sp state.Provider) (string, error) { return "", fn.Number.Clear(sp) },
	"bytes.Read":   func(fn *everyKindFn, sp state.Provider) (string, error) { return saw(fn.Bytes.Read(sp)) },
	"bytes.Write":  func(fn *everyKindFn, sp state.Provider) (string, error) { return "", fn.Bytes.Write(sp, []byte("b")) },
	"bag.Read":     func(fn *everyKindFn, sp state.Provider) (string, error) { return saw(fn.Bag.Read(sp)) },
	"bag.Add":      func(fn *everyKindFn, sp state.Provider) (string, error) { return "", fn.Bag.Add(sp, result("b")) },
	"bag.Clear":    func(fn *everyKindFn, sp state.Provider) (string, error) { return "", fn.Bag.Clear(sp) },
	"texts.Read":   func(fn *everyKindFn, sp state.Provider) (string, error) { return saw(fn.Texts.Read(sp)) },
	"texts.Add":    func(fn *everyKindFn, sp state.Provider) (string, error) { return "", fn.Texts.Add(sp, "text") },
	"sum.Read":     func(fn *everyKindFn, sp state.Provider) (string, error) { return saw(fn.Sum.Read(sp)) },
	"sum.Add":      func(fn *everyKindFn, sp state.Provider) (string, error) { return "", fn.Sum.Add(sp, 1) },
	"sum.Clear":    func(fn *everyKindFn, sp state.Provider) (string, error) { return "", fn.Sum.Clear(sp) },
}

// The kit's own provider and that of the SDK must not differ in anything: results, errors,
// RPCs, bytes. Calls of several ops, some of which fail, share a bundle or have their own.
func TestOwnProviderIsTheSDKs(t *testing.T) {
	names := slices.Sorted(maps.Keys(common))
	rapid.Check(t, func(t *rapid.T) {
		fn := newEveryKindFn()
		own, sdk := newKit(t, fn), newKit(t, fn)
		sdk.SDK = true
		for range rapid.IntRange(1, 4).Draw(t, "calls") {
			// Mostly operations of one cell: what goes wrong does so in one.
			cell := rapid.SampledFrom([]string{"message.", "number.", "bytes.", "bag.", "texts.", "sum.", ""}).Draw(t, "cell")
			of := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, cell) })
			ops := rapid.SliceOfN(rapid.SampledFrom(of), 1, 6).Draw(t, "ops")
			key := rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key")
			failAt := rapid.IntRange(0, 12).Draw(t, "fail at")
			goOn := rapid.Bool().Draw(t, "go on after an error")
			if cell != "" && rapid.IntRange(0, 3).Draw(t, "hostile") == 0 {
				b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 3, 0x0a, 0x80, 0xff}), 1, 6).Draw(t, "bytes")
				own.SetBytes(key, strings.TrimSuffix(cell, "."), b)
				sdk.SetBytes(key, strings.TrimSuffix(cell, "."), b)
			}
			transcript := func(k *Kit) (lines []string) {
				k.FailAt(failAt, nil)
				err := k.Run(key, func(sp state.Provider, _ timers.Provider) error {
					for _, name := range ops {
						saw, err := common[name](fn, sp)
						lines = append(lines, fmt.Sprintf("%s: %s (%v)", name, saw, err))
						if err != nil && !goOn {
							return err
						}
					}
					return nil
				})
				if err != nil {
					err = errors.New(firstLine(err))
				}
				lines = append(lines, fmt.Sprint(err), k.RPCs().String())
				for _, cell := range []string{"message", "number", "bytes", "bag", "texts", "sum"} {
					lines = append(lines, fmt.Sprintf("%s: %x", cell, k.Bytes(key, cell)))
				}
				return lines
			}
			if diff := cmp.Diff(transcript(sdk), transcript(own)); diff != "" {
				t.Fatalf("%v on %s (-SDK +own):\n%s", ops, key, diff)
			}
		}
	})
}

// firstLine is the text of an error without a stack.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// The exact costs of the SDK, which the budgets of the cells are made of.
func TestRPCsOfEachOperation(t *testing.T) {
	for name, want := range map[string]Counts{
		"message.Read":  {Reads: 1},
		"message.Write": {Clears: 1, Appends: 2},
		"message.Clear": {Clears: 1},
		"number.Write":  {Clears: 1, Appends: 1},
		"bytes.Write":   {Clears: 1, Appends: 2},
		"bag.Read":      {Reads: 1},
		"bag.Add":       {Appends: 2},
		"sum.Add":       {Reads: 1, Clears: 1, Appends: 1},
	} {
		for _, sdk := range []bool{false, true} {
			fn := newEveryKindFn()
			k := newKit(t, fn)
			k.SDK = sdk
			if err := k.Run("k", func(sp state.Provider, _ timers.Provider) error {
				_, err := common[name](fn, sp)
				return err
			}); err != nil || k.RPCs() != want {
				t.Errorf("%s: %v, %v; want %v", name, k.RPCs(), err, want)
			}
		}
	}
	if total := (Counts{Reads: 1, Clears: 2, Appends: 3}).Total(); total != 6 {
		t.Errorf("Total() = %d; want 6", total)
	}
}

func TestSDKProviderKnowsTheOtherKinds(t *testing.T) {
	fn := newEveryKindFn()
	k := newKit(t, fn)
	k.SDK = true
	run := func(call func(sp state.Provider) error) {
		t.Helper()
		if err := k.Run("k", func(sp state.Provider, _ timers.Provider) error { return call(sp) }); err != nil {
			t.Fatal(err)
		}
	}
	run(func(sp state.Provider) error {
		return errors.Join(
			fn.Map.Put(sp, "b", 2), fn.Map.Put(sp, "a", 1), fn.Map.Put(sp, "gone", 3), fn.Map.Remove(sp, "gone"),
			fn.Set.Add(sp, "member"), fn.List.Add(sp, 30, "late"), fn.List.Add(sp, 20, "gone"), fn.List.Add(sp, 10, "early"),
			fn.List.ClearRange(sp, 15, 25),
		)
	})
	run(func(sp state.Provider) error {
		keys, _, err := fn.Map.Keys(sp)
		b, ok, err2 := fn.Map.Get(sp, "b")
		_, gone, err3 := fn.Map.Get(sp, "gone")
		member, err4 := fn.Set.Contains(sp, "member")
		list, _, err5 := fn.List.Read(sp)
		if diff := cmp.Diff([]any{[]string{"a", "b"}, int64(2), true, false, true, "early late"},
			[]any{keys, b, ok, gone, member, values(list)}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return errors.Join(err, err2, err3, err4, err5, fn.Map.Clear(sp), fn.Set.Clear(sp), fn.List.Clear(sp))
	})
	run(func(sp state.Provider) error {
		keys, _, err := fn.Map.Keys(sp)
		list, _, err2 := fn.List.Read(sp)
		if len(keys) != 0 || len(list) != 0 {
			t.Errorf("after Clear: %v, %v", keys, list)
		}
		return errors.Join(err, err2)
	})

	k.SDK = false
	for name, call := range map[string]func(sp state.Provider) error{
		"Put":        func(sp state.Provider) error { return fn.Map.Put(sp, "a", 1) },
		"Get":        func(sp state.Provider) error { _, _, err := fn.Map.Get(sp, "a"); return err },
		"Keys":       func(sp state.Provider) error { _, _, err := fn.Map.Keys(sp); return err },
		"Remove":     func(sp state.Provider) error { return fn.Map.Remove(sp, "a") },
		"Clear":      func(sp state.Provider) error { return fn.Map.Clear(sp) },
		"List.Add":   func(sp state.Provider) error { return fn.List.Add(sp, 1, "a") },
		"List.Read":  func(sp state.Provider) error { _, _, err := fn.List.Read(sp); return err },
		"List.Clear": func(sp state.Provider) error { return fn.List.Clear(sp) },
	} {
		if err := k.Run("k", func(sp state.Provider, _ timers.Provider) error { return call(sp) }); err == nil || !strings.Contains(err.Error(), "set Kit.SDK") {
			t.Errorf("%s on the kit's own provider: %v", name, err)
		}
	}
}

func values(list []state.OrderedListValue[string]) string {
	var all []string
	for _, v := range list {
		all = append(all, v.Value)
	}
	return strings.Join(all, " ")
}

func TestBundles(t *testing.T) {
	fn := newEveryKindFn()
	count := func(fail error) Call {
		return func(sp state.Provider, tp timers.Provider) error {
			n, _, err := fn.Number.Read(sp)
			if err != nil {
				return err
			}
			fn.Timer.Set(tp, beam.EventTime(n+1).ToTime())
			if err := fn.Number.Write(sp, n+1); err != nil {
				return err
			}
			return fail
		}
	}
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		run  func(k *Kit) error
		want int64 // what the cell holds, and when the timer is due
		err  error
	}{
		"a call":                                      {func(k *Kit) error { return k.Run("k", count(nil)) }, 1, nil},
		"a call that fails":                           {func(k *Kit) error { return k.Run("k", count(broken)) }, 0, broken},
		"a call of another key":                       {func(k *Kit) error { return k.Run("other", count(nil)) }, 0, nil},
		"replayed with writes dropped":                {func(k *Kit) error { return k.Replay("k", Dropped, count(nil)) }, 1, nil},
		"replayed with writes kept":                   {func(k *Kit) error { return k.Replay("k", Kept, count(nil)) }, 2, nil},
		"replayed with writes to be kept, and failed": {func(k *Kit) error { return k.Replay("k", Kept, count(broken)) }, 0, broken},
		"a bundle": {func(k *Kit) error {
			_ = k.StartBundle()
			return errors.Join(k.Run("k", count(nil)), k.Run("k", count(nil)), k.FinishBundle())
		}, 2, nil},
		"a bundle that fails": {func(k *Kit) error {
			_ = k.StartBundle()
			err := errors.Join(k.Run("k", count(nil)), k.Run("k", count(nil)))
			k.FailBundle()
			return err
		}, 0, nil},
		"a bundle with a call that fails": {func(k *Kit) error {
			_ = k.StartBundle()
			_, _, _ = k.Run("k", count(nil)), k.Run("k", count(broken)), k.Run("k", count(nil))
			return k.FinishBundle()
		}, 0, broken},
		"a bundle that was retried": {func(k *Kit) error {
			_ = k.StartBundle()
			_ = k.Run("k", count(nil))
			_ = k.StartBundle()
			return errors.Join(k.Run("k", count(nil)), k.FinishBundle())
		}, 1, nil},
		"the second RPC fails": {func(k *Kit) error {
			k.FailAt(2, nil)
			return errors.Join(k.Run("k", count(nil)))
		}, 0, ErrInjected},
		"an RPC fails with an error of the test's": {func(k *Kit) error {
			k.FailAt(1, broken)
			return k.Run("k", count(nil))
		}, 0, broken},
		"the second RPC fails, in the next call but one": {func(k *Kit) error {
			k.FailAt(4, nil)
			return errors.Join(k.Run("k", count(nil)), k.Run("k", count(nil)))
		}, 1, ErrInjected},
		"an order to fail taken back": {func(k *Kit) error {
			k.FailAt(1, nil)
			k.FailAt(0, nil)
			return k.Run("k", count(nil))
		}, 1, nil},
		"the first error is that of the bundle": {func(k *Kit) error {
			_ = k.StartBundle()
			_ = k.Run("k", count(broken))
			_ = k.Run("k", count(errors.New("another")))
			return k.FinishBundle()
		}, 0, broken},
		"a timer that fails in a bundle": {func(k *Kit) error {
			if err := k.Run("k", count(nil)); err != nil {
				return err
			}
			_ = k.StartBundle()
			_ = k.Fire(1, func(Timer, state.Provider, timers.Provider) error { return broken })
			return k.FinishBundle()
		}, 1, broken},
		"a panic with an error": {func(k *Kit) error {
			return k.Run("k", func(sp state.Provider, tp timers.Provider) error {
				_ = count(nil)(sp, tp)
				panic(broken)
			})
		}, 0, broken},
		"a panic in a bundle": {func(k *Kit) error {
			_ = k.StartBundle()
			_ = k.Run("k", count(nil))
			if err := k.Run("k", func(state.Provider, timers.Provider) error { panic("at the disco") }); err == nil ||
				!strings.Contains(err.Error(), "panic: at the disco") {
				return fmt.Errorf("the panic became %w", err)
			}
			if k.FinishBundle() == nil {
				return errors.New("the bundle is kept")
			}
			return nil
		}, 0, nil},
		"no bundle to finish": {func(k *Kit) error {
			if k.FinishBundle() == nil {
				return errors.New("FinishBundle without a bundle succeeds")
			}
			_ = k.StartBundle()
			if k.Replay("k", Dropped, count(nil)) == nil {
				return errors.New("Replay within a bundle succeeds")
			}
			return nil
		}, 0, nil},
	} {
		for _, sdk := range []bool{false, true} {
			k := newKit(t, fn)
			k.SDK = sdk
			if err := tc.run(k); !errors.Is(err, tc.err) {
				t.Errorf("%s: %v; want %v", name, err, tc.err)
			}
			var wantBytes []byte
			var wantTimers []Timer
			if tc.want > 0 {
				wantBytes = []byte{byte(tc.want)}
				wantTimers = []Timer{{Key: "k", Window: window.GlobalWindow{}, Family: "agent", FireMS: tc.want, EventTime: beamTime(int(tc.want))}}
			}
			if diff := cmp.Diff(wantBytes, k.Bytes("k", "number")); diff != "" {
				t.Errorf("%s: cell (-want +got):\n%s", name, diff)
			}
			if diff := cmp.Diff(wantTimers, k.Timers("k")); diff != "" {
				t.Errorf("%s: timers (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestStateIsPerKeyAndWindow(t *testing.T) {
	fn := newEveryKindFn()
	k := newKit(t, fn)
	hour := func(n int) window.IntervalWindow {
		return window.IntervalWindow{Start: beamTime(n * 3600_000), End: beamTime((n + 1) * 3600_000)}
	}
	for _, sdk := range []bool{false, true} {
		k.SDK = sdk
		for i, w := range []window.IntervalWindow{hour(0), hour(1)} {
			k.Window = w
			if err := k.SetValue("k", "number", int64(i+1)); err != nil {
				t.Fatal(err)
			}
		}
		k.Window = nil
		for i := range 2 {
			k.Window = hour(i)
			if err := k.Run("k", func(sp state.Provider, _ timers.Provider) error {
				if n, _, err := fn.Number.Read(sp); n != int64(i+1) || err != nil {
					t.Errorf("window %d: %d, %v", i, n, err)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		k.Window = nil
		if b := k.Bytes("k", "number"); b != nil {
			t.Errorf("the global window holds %x", b)
		}
	}
}

func TestSettingState(t *testing.T) {
	fn := newEveryKindFn()
	k := newKit(t, fn)
	for _, err := range []error{
		k.SetValue("k", "message", result("old")), k.SetValue("k", "message", result("new")),
		k.SetValue("k", "bag", result("a")), k.SetValue("k", "bag", result("b")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	k.SetBytes("other", "message", k.Bytes("k", "message"))
	if err := k.Run("other", func(sp state.Provider, _ timers.Provider) error {
		m, _, err := fn.Message.Read(sp)
		if m.GetIntentId() != "new" {
			t.Errorf("message: %v", m)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := k.Run("k", func(sp state.Provider, _ timers.Provider) error {
		list, _, err := fn.Bag.Read(sp)
		if len(list) != 2 || list[1].GetIntentId() != "b" {
			t.Errorf("bag: %v", list)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for cell, want := range map[string]string{"message": "new", "bag": "a b", "texts": ""} {
		values, err := k.Values("k", cell)
		var ids []string
		for _, v := range values {
			ids = append(ids, v.(*pb.ToolResult).GetIntentId())
		}
		if got := strings.Join(ids, " "); err != nil || got != want {
			t.Errorf("Values of %s: %q, %v; want %q", cell, got, err, want)
		}
	}
	if _, err := k.Values("k", "no such cell"); err == nil {
		t.Error("a cell that is not there was read")
	}
	k.SetBytes("broken", "message", []byte{1, 0xff})
	if values, err := k.Values("broken", "message"); err == nil {
		t.Errorf("what is no message is %v", values)
	}
	for name, err := range map[string]error{
		"another number":  k.SetValue("k", "number", 5),
		"a text":          k.SetValue("k", "number", "5"),
		"nil":             k.SetValue("k", "message", nil),
		"a nil message":   k.SetValue("k", "message", (*pb.ToolResult)(nil)),
		"a Map":           k.SetValue("k", "map", int64(1)),
		"a Combining":     k.SetValue("k", "sum", int64(1)),
		"an OrderedList":  k.SetValue("k", "list", "x"),
		"a message twice": k.SetValue("k", "bag", []*pb.ToolResult{result("a")}),
	} {
		if err == nil {
			t.Errorf("%s was set", name)
		}
	}
	mine := []byte{1, 2}
	k.SetBytes("kept", "number", mine)
	mine[0] = 9
	if b := k.Bytes("kept", "number"); b[0] != 1 {
		t.Errorf("SetBytes keeps the slice: %x", b)
	}
	if got := k.Keys(); !slices.Equal(got, []string{"broken", "k", "kept", "other"}) {
		t.Errorf("Keys() = %q", got)
	}
	k.SetBytes("other", "message", nil)
	if b := k.Bytes("other", "message"); b != nil {
		t.Errorf("cleared: %x", b)
	}
	if err := k.SetValue("k", "no such cell", 1); err == nil {
		t.Error("a cell that is not there was set")
	}
	if err := k.SetValue("k", "message", result("\xff")); err == nil {
		t.Error("a message without an encoding was set")
	}
}

func beamTime(ms int) beam.EventTime { return beam.EventTime(ms) }

type noStateFn struct{}

func (noStateFn) ProcessElement(state.Provider, []byte, int64) {}

type interfaceFn struct{ Cell state.Value[proto.Message] }

func (*interfaceFn) ProcessElement(state.Provider, []byte, int64) {}

// unregisteredFn keeps a message of which Beam was not told, and would refuse its coder.
type unregisteredFn struct {
	Cell state.Value[*wrapperspb.StringValue]
}

func (*unregisteredFn) ProcessElement(state.Provider, []byte, int64) {}

type channelFn struct{ Cell state.Value[chan int] }

func (*channelFn) ProcessElement(state.Provider, []byte, int64) {}

func TestBeamsRefusalsComeFromNew(t *testing.T) {
	twice := newEveryKindFn()
	twice.Number.Key = "message"
	for name, fn := range map[string]any{
		"no cell at all":                           &noStateFn{},
		"two cells of one id":                      twice,
		"a cell without coder":                     &interfaceFn{state.MakeValueState[proto.Message]("cell")},
		"not a DoFn":                               7,
		"a cell of a channel":                      &channelFn{state.MakeValueState[chan int]("cell")},
		"a coder of a type that is not registered": &unregisteredFn{state.MakeValueState[*wrapperspb.StringValue]("cell")},
	} {
		if _, err := New(fn); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestNoSuchCellOrTimer(t *testing.T) {
	k := newKit(t, newEveryKindFn())
	stranger := state.MakeValueState[int64]("stranger")
	if err := k.Run("k", func(sp state.Provider, _ timers.Provider) error { return stranger.Write(sp, 1) }); err == nil {
		t.Error("a cell that the DoFn lacks was written")
	}
	family := timers.InEventTime("stranger")
	if err := k.Run("k", func(_ state.Provider, tp timers.Provider) error {
		family.Set(tp, beamTime(1).ToTime())
		return nil
	}); err == nil {
		t.Error("a timer family that the DoFn lacks was set")
	}
}
