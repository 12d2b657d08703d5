package compat

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// step is a ParDo that reads from and has the outputs i0 and i1.
func step(name, from string, edit ...func(*Transform)) Transform {
	t := Transform{
		Name: name, Kind: parDo, Fn: &Fn{Name: "f"},
		Inputs:  []Collection{{Tag: "i0", From: from, Coder: simple("bytes")}},
		Outputs: []Collection{{Tag: "i0", Coder: simple("bytes")}, {Tag: "i1", Coder: simple("bytes")}},
	}
	for _, e := range edit {
		e(&t)
	}
	return t
}

func keeps(t *Transform) { t.State = []State{{ID: "v", Kind: "value"}} }

func timed(number string) func(*Transform) {
	return func(t *Transform) {
		t.FlinkTransform, t.Timers = number, []Timer{{Family: "t", TimeDomain: "EVENT_TIME", Coder: simple("timer")}}
	}
}

func source(t *Transform) { t.Restriction = new(simple("varint")) }

func sided(t *Transform) {
	t.SideInputs = []Collection{{Tag: "i1", From: "s", Access: "iterable", Coder: simple("bytes")}}
}

func code(name string) func(*Transform) {
	return func(t *Transform) { t.Fn = &Fn{Name: name} }
}

func operator(id string) func(*Transform) {
	return func(t *Transform) { t.FlinkOperator = id }
}

func readsNothing(t *Transform) { t.Inputs = nil }

// What an input that comes from elsewhere means depends on who reads it, and on who reads
// what it came from.
func TestCheckOfRewiredInputs(t *testing.T) {
	for name, tc := range map[string]struct {
		old, new []Transform
		want     []want
	}{
		"two readers of one step exchange its outputs": {
			[]Transform{step("P", "a"), step("A", "P[i0]", code("g")), step("B", "P[i1]", code("h"))},
			[]Transform{step("P", "a"), step("A", "P[i1]", code("g")), step("B", "P[i0]", code("h"))},
			[]want{{InputOrderChanged, "A", "input i0", "P[i0]", "P[i1]"}, {InputOrderChanged, "B", "input i0", "P[i1]", "P[i0]"}},
		},
		"two equal steps in front of state exchange their inputs": {
			[]Transform{step("A", "a"), step("B", "b"), step("S", "A[i0]", keeps, code("g")), step("T", "B[i0]", keeps, code("h"))},
			[]Transform{step("A", "b"), step("B", "a"), step("S", "A[i0]", keeps, code("g")), step("T", "B[i0]", keeps, code("h"))},
			[]want{{TransformExchanged, "A", "input i0", "a", "b"}, {TransformExchanged, "B", "input i0", "b", "a"}},
		},
		"two equal steps with no state behind them exchange their inputs": {
			[]Transform{step("A", "a"), step("B", "b")},
			[]Transform{step("A", "b"), step("B", "a")},
			[]want{{InputRewired, "A", "input i0", "a", "b"}, {InputRewired, "B", "input i0", "b", "a"}},
		},
		"one of several steps of one name": {
			[]Transform{step("A", "a"), step("A'1", "b")}, []Transform{step("A", "a"), step("A'1", "c")},
			[]want{{InputRewired, "A'1", "input i0", "b", "c"}},
		},
		"one of several steps of one name, with state": {
			[]Transform{step("A", "a", keeps), step("A'1", "b", keeps)}, []Transform{step("A", "a", keeps), step("A'1", "c", keeps)},
			[]want{{NumberedTransformRewired, "A'1", "input i0", "b", "c"}},
		},
	} {
		if diff := cmp.Diff(tc.want, wants(Check(Fingerprint{Format: Format, Transforms: tc.old}, Fingerprint{Format: Format, Transforms: tc.new}))); diff != "" {
			t.Errorf("%s (-want +found):\n%s", name, diff)
		}
	}
}

// Steps of one name are told apart by what they are.
func TestCheckOfNumbers(t *testing.T) {
	for name, tc := range map[string]struct {
		old, new []Transform
		want     []want
	}{
		"the second one becomes like the first": {
			[]Transform{step("A", "a"), step("A'1", "a", code("g"))}, []Transform{step("A", "a"), step("A'1", "a")},
			[]want{{FnChanged, "A'1", "", "g", "f"}},
		},
		"the first one goes, and the second one gets its name": {
			[]Transform{step("A", "a"), step("A'1", "a", code("g"))}, []Transform{step("A", "a", code("g"))},
			[]want{{FnChanged, "A", "", "f", "g"}, {TransformRemoved, "A'1", "", "A'1", ""}},
		},
		"one is put before the other": {
			[]Transform{step("A", "a")}, []Transform{step("A", "a", code("g")), step("A'1", "a")},
			[]want{{NumberedTransformMoved, "A'1", "", "A", "A'1"}},
		},
	} {
		if diff := cmp.Diff(tc.want, wants(Check(Fingerprint{Format: Format, Transforms: tc.old}, Fingerprint{Format: Format, Transforms: tc.new}))); diff != "" {
			t.Errorf("%s (-want +found):\n%s", name, diff)
		}
	}
}

// The readers of an operator matter as long as it has the same number and reads something.
func TestCheckOfOperators(t *testing.T) {
	for name, tc := range map[string]struct {
		old, new []Transform
		want     []want
	}{
		"another number, other readers": {
			[]Transform{step("S", "a", keeps, operator("n1"))},
			[]Transform{step("N", "a", code("g")), step("S", "a", keeps, operator("n2"))},
			[]want{{TransformAdded, "N", "", "", "N"}, {FlinkOperatorChanged, "S", "", "n1", "n2"}},
		},
		"another number, another input": {
			[]Transform{step("S", "a", keeps, operator("n1"))},
			[]Transform{step("N", "a", code("g")), step("S", "b", keeps, operator("n2"))},
			[]want{
				{TransformAdded, "N", "", "", "N"},
				{FlinkOperatorChanged, "S", "", "n1", "n2"}, {InputRewired, "S", "input i0", "a", "b"},
			},
		},
		"the number and the input of another": {
			[]Transform{step("S", "a", keeps, operator("n1")), step("T", "b", keeps, operator("n2"), code("g"))},
			[]Transform{step("S", "b", keeps, operator("n2")), step("T", "c", keeps, operator("n3"), code("g"))},
			[]want{
				{FlinkOperatorExchanged, "S", "", "n1", "n2"}, {InputRewired, "S", "input i0", "a", "b"},
				{FlinkOperatorChanged, "T", "", "n2", "n3"}, {InputRewired, "T", "input i0", "b", "c"},
			},
		},
		"another number of a transform with timers": {
			[]Transform{step("S", "a", timed("e3"))}, []Transform{step("S", "a", timed("e4"))},
			[]want{{FlinkTransformChanged, "S", "", "e3", "e4"}},
		},
		"another name of a transform with timers": {
			[]Transform{step("S", "a", timed("e3"))}, []Transform{step("R", "a", timed("e3"))},
			[]want{{StatefulTransformRenamed, "R", "", "S", "R"}, {AgentsFlinkOperatorChanged, "R", "", "S", "R"}},
		},
		"another input of a source": {
			[]Transform{step("S", "a", source)}, []Transform{step("S", "b", source)},
			[]want{{AgentsFlinkOperatorChanged, "S", "", "a", "b"}, {InputRewired, "S", "input i0", "a", "b"}},
		},
		"another name of a transform with a side input": {
			[]Transform{step("S", "a", sided)}, []Transform{step("R", "a", sided)},
			[]want{{StatefulTransformRenamed, "R", "", "S", "R"}, {AgentsFlinkOperatorChanged, "R", "", "S on a", "R on a"}},
		},
		"another number of a transform without timers now": {
			[]Transform{step("S", "a", timed("e3"))}, []Transform{step("S", "a", keeps)},
			[]want{{StateAdded, "S", "state v", "", "value"}, {TimerFamilyRemoved, "S", "timer family t", "EVENT_TIME", ""}},
		},
		"the same number, other readers": {
			[]Transform{step("S", "a", keeps, operator("n1"))},
			[]Transform{step("N", "a", code("g")), step("S", "a", keeps, operator("n1"))},
			[]want{{TransformAdded, "N", "", "", "N"}, {FlinkOperatorShared, "S", "", "S", "S, N (keeps nothing)"}},
		},
		"no input any more": {
			[]Transform{step("S", "a", keeps, operator("n1"))}, []Transform{step("S", "a", keeps, operator("n1"), readsNothing)},
			[]want{{InputRemoved, "S", "input i0", "bytes", ""}},
		},
		"no input before": {
			[]Transform{step("S", "a", keeps, operator("n1"), readsNothing)}, []Transform{step("S", "a", keeps, operator("n1"))},
			[]want{{InputAdded, "S", "input i0", "", "bytes"}},
		},
	} {
		if diff := cmp.Diff(tc.want, wants(Check(Fingerprint{Format: Format, Transforms: tc.old}, Fingerprint{Format: Format, Transforms: tc.new}))); diff != "" {
			t.Errorf("%s (-want +found):\n%s", name, diff)
		}
	}
}

// The order in which cells and timers were found shows nowhere.
func TestWriteSortsWhatAStepHas(t *testing.T) {
	write := func(order ...int) string {
		var cells []State
		var timers []Timer
		for _, i := range order {
			id := string(rune('a' + i))
			cells = append(cells, State{ID: id, Kind: "value", Value: new(simple("bytes"))})
			timers = append(timers, Timer{Family: id, TimeDomain: "EVENT_TIME", Coder: simple("bytes")})
		}
		f := Fingerprint{Format: Format, Transforms: []Transform{step("S", "a", func(t *Transform) { t.State, t.Timers = cells, timers })}}
		var text bytes.Buffer
		if err := f.Write(&text); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	if diff := cmp.Diff(write(0, 1, 2), write(2, 0, 1)); diff != "" {
		t.Error(diff)
	}
}
