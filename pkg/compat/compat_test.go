package compat

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func simple(urn string) Coder { return Coder{URN: "beam:coder:" + urn + ":v1"} }

// message is the coder of a message, with an encoding function of that name.
func message(name, encode string) Coder {
	return Coder{URN: "beam:coder:length_prefix:v1", Components: []Coder{{
		URN: "beam:go:coder:custom:v1",
		Custom: &CustomCoder{
			Name: "*pb." + name, Type: "*example.test/pb." + name,
			Encode: Fn{"example.test/coders." + encode, "func(beam.T) ([]uint8, error)"},
			Decode: Fn{"example.test/coders.decode", "func(reflect.Type, []uint8) (beam.T, error)"},
		},
	}}}
}

func kv(key, value Coder) Coder {
	return Coder{URN: "beam:coder:kv:v1", Components: []Coder{key, value}}
}

// pipeline has one transform of each sort.
func pipeline() Fingerprint {
	raw := Collection{Tag: "i0", Coder: simple("bytes"), Windowing: "global windows"}
	event := Collection{Tag: "i0", Coder: kv(simple("bytes"), message("Event", "encode")), Windowing: "global windows"}
	from := func(c Collection, source string) Collection {
		c.From = source
		return c
	}
	tagged := func(c Collection, tag string) Collection {
		c.Tag = tag
		return c
	}
	side := tagged(from(raw, "Read/Impulse[i0]"), "i1")
	side.Access = "beam:side_input:iterable:v1"
	return Fingerprint{Format: Format, Platform: &Platform{
		Environment: "beam:env:process:v1", Parallelism: 1, MaxParallelism: 128, Chaining: Chaining(false),
	}, Transforms: []Transform{
		{Name: "Read/Impulse", Kind: "beam:transform:impulse:v1", Outputs: []Collection{raw}},
		{
			Name: "Parse/a.parseFn", Kind: parDo, Fn: &Fn{Name: "*example.test/a.parseFn"},
			Inputs: []Collection{from(raw, "Read/Impulse[i0]")}, Outputs: []Collection{event, tagged(raw, "i1")},
		},
		{
			Name: "Agent/a.agentFn", Kind: parDo, Fn: &Fn{Name: "*example.test/a.agentFn"}, FlinkOperator: "n2", FlinkTransform: "e4",
			Inputs: []Collection{from(event, "Parse/a.parseFn[i0]")}, Outputs: []Collection{event},
			State: []State{
				{ID: "memory", Kind: "value", Value: new(message("Memory", "encode"))},
				{ID: "sum", Kind: "combining", Value: new(simple("varint")), CombineFn: &Fn{Name: "*example.test/a.sumFn"}},
				{ID: "table", Kind: "map", Key: new(simple("bytes")), Value: new(simple("varint"))},
			},
			Timers: []Timer{{Family: "agent", TimeDomain: "EVENT_TIME", Coder: Coder{
				URN: "beam:coder:timer:v1", Components: []Coder{simple("bytes"), simple("global_window")},
			}}},
		},
		{
			Name: "Join/a.joinFn", Kind: parDo, Fn: &Fn{Name: "example.test/a.joinFn", Signature: "func(string, []string)"},
			Inputs: []Collection{from(event, "Agent/a.agentFn[i0]")}, SideInputs: []Collection{side},
			Restriction: new(simple("varint")),
		},
		{
			Name: "Join/e7_inject0", Kind: parDo, Fn: &Fn{Name: "beam:go:transform:inject:v1"},
			Inputs: []Collection{from(event, "C[i0]")}, Outputs: []Collection{event},
		},
		{
			Name: "Join/e7_inject1", Kind: parDo, Fn: &Fn{Name: "beam:go:transform:inject:v1"},
			Inputs: []Collection{from(event, "Agent/a.agentFn[i0]")}, Outputs: []Collection{event},
		},
		{Name: "After", Kind: parDo, Fn: &Fn{Name: "x"}, Inputs: []Collection{from(raw, "Twin'1[i0]")}},
		{Name: "Year'24 totals", Kind: "beam:transform:group_by_key:v1", Inputs: []Collection{from(event, "Y[i0]")}},
		{Name: "Year'25 totals", Kind: "beam:transform:group_by_key:v1", Inputs: []Collection{from(event, "Y[i0]")}},
		{Name: "Sum", Kind: "beam:transform:combine_per_key:v1", Fn: &Fn{Name: "*example.test/a.sumFn"}, Accumulator: new(simple("varint"))},
		{
			Name: "Group/CoGBK", Kind: "beam:transform:group_by_key:v1",
			Inputs: []Collection{from(event, "Agent/a.agentFn[i0]")}, Outputs: []Collection{event},
		},
		{
			Name: "Sole", Kind: parDo, Fn: &Fn{Name: "*example.test/a.soleFn"}, FlinkOperator: "n6",
			Inputs: []Collection{from(event, "Group/CoGBK[i0]")}, State: []State{{ID: "v", Kind: "value", Value: new(simple("varint"))}},
		},
		{
			Name: "East", Kind: parDo, Fn: &Fn{Name: "*example.test/a.sideFn"}, FlinkOperator: "n7",
			Inputs: []Collection{from(event, "E[i0]")}, State: []State{{ID: "v", Kind: "value", Value: new(simple("varint"))}},
		},
		{
			Name: "West", Kind: parDo, Fn: &Fn{Name: "*example.test/a.sideFn"}, FlinkOperator: "n8",
			Inputs: []Collection{from(event, "W[i0]")}, State: []State{{ID: "v", Kind: "value", Value: new(simple("varint"))}},
		},
		{
			Name: "Twin", Kind: parDo, Fn: &Fn{Name: "*example.test/a.twinFn"}, FlinkOperator: "n4",
			Inputs: []Collection{from(event, "A[i0]")}, State: []State{{ID: "v", Kind: "value", Value: new(simple("varint"))}},
		},
		{
			Name: "Twin'1", Kind: parDo, Fn: &Fn{Name: "*example.test/a.twinFn"}, FlinkOperator: "n5",
			Inputs: []Collection{from(event, "B[i0]")}, State: []State{{ID: "v", Kind: "value", Value: new(simple("bytes"))}},
		},
	}}
}

func get(f *Fingerprint, name string) *Transform {
	return &f.Transforms[slices.IndexFunc(f.Transforms, func(t Transform) bool { return t.Name == name })]
}

func remove(f *Fingerprint, name string) {
	f.Transforms = slices.DeleteFunc(f.Transforms, func(t Transform) bool { return t.Name == name })
}

// want is a finding without what follows from its kind.
type want struct {
	Kind               Kind
	Transform, Subject string
	Old, New           string
}

func wants(findings []Finding) []want {
	var all []want
	for _, f := range findings {
		all = append(all, want{f.Kind, f.Transform, f.Subject, f.Old, f.New})
	}
	return all
}

var cases = map[string]struct {
	edit func(f *Fingerprint)
	want []want
}{
	"the same": {func(*Fingerprint) {}, nil},
	"another order in the file": {func(f *Fingerprint) {
		slices.Reverse(f.Transforms)
		slices.Reverse(get(f, "Agent/a.agentFn").State)
	}, nil},
	"a stateless transform added": {func(f *Fingerprint) {
		f.Transforms = append(f.Transforms, Transform{Name: "Later", Kind: "beam:transform:flatten:v1"})
	}, []want{{TransformAdded, "Later", "", "", "Later"}}},
	"a stateful transform added": {func(f *Fingerprint) {
		f.Transforms = append(f.Transforms, Transform{Name: "Later", Kind: "beam:transform:group_by_key:v1"})
	}, []want{{StatefulTransformAdded, "Later", "", "", "Later"}}},
	"a stateless transform removed": {func(f *Fingerprint) { remove(f, "Parse/a.parseFn") },
		[]want{{TransformRemoved, "Parse/a.parseFn", "", "Parse/a.parseFn", ""}}},
	"a stateful transform removed": {func(f *Fingerprint) { remove(f, "Agent/a.agentFn") },
		[]want{{StatefulTransformRemoved, "Agent/a.agentFn", "", "Agent/a.agentFn", ""}}},
	// Those that read from it are not rewired: it is the same transform.
	"a stateless transform renamed": {func(f *Fingerprint) {
		get(f, "Parse/a.parseFn").Name = "Read/a.parseFn"
		get(f, "Agent/a.agentFn").Inputs[0].From = "Read/a.parseFn[i0]"
	}, []want{
		{TransformRenamed, "Read/a.parseFn", "", "Parse/a.parseFn", "Read/a.parseFn"},
	}},
	"a stateful transform renamed": {func(f *Fingerprint) {
		get(f, "Group/CoGBK").Name = "Collect/CoGBK"
		get(f, "Sole").Inputs[0].From = "Collect/CoGBK[i0]"
	},
		[]want{
			{GroupingRenamed, "Collect/CoGBK", "", "Group/CoGBK", "Collect/CoGBK"},
		}},
	"a DoFn renamed, and its step with it": {func(f *Fingerprint) {
		get(f, "Agent/a.agentFn").Fn.Name = "*example.test/a.otherFn"
		get(f, "Agent/a.agentFn").Name = "Agent/a.otherFn"
		get(f, "Join/a.joinFn").Inputs[0].From = "Agent/a.otherFn[i0]"
		get(f, "Group/CoGBK").Inputs[0].From = "Agent/a.otherFn[i0]"
		get(f, "Join/e7_inject1").Inputs[0].From = "Agent/a.otherFn[i0]"
	}, []want{
		{StatefulTransformRenamed, "Agent/a.otherFn", "", "Agent/a.agentFn", "Agent/a.otherFn"},
		{AgentsFlinkOperatorChanged, "Agent/a.otherFn", "", "Agent/a.agentFn", "Agent/a.otherFn"},
		{FnChanged, "Agent/a.otherFn", "", "*example.test/a.agentFn", "*example.test/a.otherFn"},
		{AgentsFlinkOperatorChanged, "Join/a.joinFn", "", "Join/a.joinFn on Agent/a.agentFn[i0]", "Join/a.joinFn on Agent/a.otherFn[i0]"},
	}},
	"a step renamed, and a cell added": {func(f *Fingerprint) {
		t := get(f, "Sole")
		t.Name, t.State = "Soul", append(slices.Clone(t.State), State{ID: "w", Kind: "bag", Value: new(simple("bytes"))})
	}, []want{{StatefulTransformRenamed, "Soul", "", "Sole", "Soul"}, {AgentsFlinkOperatorChanged, "Soul", "", "Sole", "Soul"}, {StateAdded, "Soul", "state w", "", "bag of bytes"}}},
	// Which of the two it is cannot be told.
	"one of two of one DoFn renamed, and its cells changed": {func(f *Fingerprint) {
		remove(f, "West")
		t := get(f, "East")
		t.Name, t.State = "North", []State{{ID: "w", Kind: "bag", Value: new(simple("bytes"))}}
	}, []want{
		{StatefulTransformRemoved, "East", "", "East", ""},
		{StatefulTransformAdded, "North", "", "", "North"},
		{StatefulTransformRemoved, "West", "", "West", ""},
	}},
	"a DoFn moved to another package": {func(f *Fingerprint) { get(f, "Agent/a.agentFn").Fn.Name = "*example.test/b/a.agentFn" },
		[]want{{FnChanged, "Agent/a.agentFn", "", "*example.test/a.agentFn", "*example.test/b/a.agentFn"}}},
	"a function with other parameters": {func(f *Fingerprint) { get(f, "Join/a.joinFn").Fn.Signature = "func(string)" },
		[]want{{FnSignatureChanged, "Join/a.joinFn", "", "func(string, []string)", "func(string)"}}},
	"a combining function with another name": {func(f *Fingerprint) { get(f, "Sum").Fn.Name = "*example.test/a.maxFn" },
		[]want{{CombineFnChanged, "Sum", "", "*example.test/a.sumFn", "*example.test/a.maxFn"}}},
	"code where there was none": {func(f *Fingerprint) { get(f, "Group/CoGBK").Fn = &Fn{Name: "x"} },
		[]want{{FnChanged, "Group/CoGBK", "", "", "x"}}},
	// Those that read from one that moved are not rewired.
	"two of one name exchanged": {func(f *Fingerprint) {
		a, b := get(f, "Twin"), get(f, "Twin'1")
		a.State, b.State = b.State, a.State
		a.Inputs, b.Inputs = b.Inputs, a.Inputs
		a.FlinkOperator, b.FlinkOperator = b.FlinkOperator, a.FlinkOperator
		get(f, "After").Inputs[0].From = "Twin[i0]"
	}, []want{{NumberedTransformMoved, "Twin", "", "Twin'1", "Twin"}, {NumberedTransformMoved, "Twin'1", "", "Twin", "Twin'1"}}},
	// A name that ends in a year is one that ends in a number: nothing else tells them apart.
	"an apostrophe within a name": {func(f *Fingerprint) { get(f, "Year'24 totals").Inputs[0].From = "Z[i0]" },
		[]want{{InputRewired, "Year'24 totals", "input i0", "Y[i0]", "Z[i0]"}}},
	"parts of a transform get another number": {func(f *Fingerprint) {
		get(f, "Join/e7_inject0").Name = "Join/e9_inject0"
		get(f, "Join/e7_inject1").Name = "Join/e9_inject1"
		get(f, "Join/e9_inject0").Inputs[0].From, get(f, "Join/e9_inject1").Inputs[0].From = "Agent/a.agentFn[i0]", "C[i0]"
	}, []want{
		{TransformRenamed, "Join/e9_inject0", "", "Join/e7_inject0", "Join/e9_inject0"},
		{InputOrderChanged, "Join/e9_inject0", "input i0", "C[i0]", "Agent/a.agentFn[i0]"},
		{TransformRenamed, "Join/e9_inject1", "", "Join/e7_inject1", "Join/e9_inject1"},
		{InputOrderChanged, "Join/e9_inject1", "input i0", "Agent/a.agentFn[i0]", "C[i0]"},
	}},
	"one of several of one name rewired": {func(f *Fingerprint) { get(f, "Twin").Inputs[0].From = "D[i0]" },
		[]want{{NumberedTransformRewired, "Twin", "input i0", "A[i0]", "D[i0]"}}},
	"another kind": {func(f *Fingerprint) { get(f, "Agent/a.agentFn").Kind = "beam:transform:flatten:v1" },
		[]want{{TransformKindChanged, "Agent/a.agentFn", "", "beam:transform:pardo:v1", "beam:transform:flatten:v1"}}},
	"another number of a transform with timers": {func(f *Fingerprint) { get(f, "Agent/a.agentFn").FlinkTransform = "e5" },
		[]want{{FlinkTransformChanged, "Agent/a.agentFn", "", "e4", "e5"}}},
	"the number of another": {func(f *Fingerprint) { get(f, "Sole").FlinkOperator = "n7" },
		[]want{{FlinkOperatorExchanged, "Sole", "", "n6", "n7"}}},
	"keys and cells as texts": {func(f *Fingerprint) {
		t := get(f, "Agent/a.agentFn")
		t.Inputs[0].Coder = kv(simple("string_utf8"), message("Event", "encode"))
		t.State[2].Key = new(simple("string_utf8"))
		t.Timers[0].Coder.Components[0] = simple("string_utf8")
	}, []want{
		{InputTypeChanged, "Agent/a.agentFn", "input i0", "KV<bytes, *pb.Event>", "KV<string_utf8, *pb.Event>"},
		{SameBytes, "Agent/a.agentFn", "input i0, key", "bytes", "string_utf8"},
		{SameBytes, "Agent/a.agentFn", "state table, key", "bytes", "string_utf8"},
		{SameBytes, "Agent/a.agentFn", "timer family agent", "timer<bytes, global_window>", "timer<string_utf8, global_window>"},
	}},
	"another platform": {func(f *Fingerprint) {
		f.Platform = &Platform{Environment: "beam:env:docker:v1", Parallelism: 2, MaxParallelism: 64, Chaining: Chaining(true)}
	}, []want{
		{EnvironmentChanged, "", "", "beam:env:process:v1", "beam:env:docker:v1"},
		{ParallelismChanged, "", "", "1", "2"},
		{MaxParallelismChanged, "", "", "128", "64"},
		{ChainingChanged, "", "", "off", "on"},
	}},
	"another number": {func(f *Fingerprint) { get(f, "Agent/a.agentFn").FlinkOperator = "n3" },
		[]want{{FlinkOperatorChanged, "Agent/a.agentFn", "", "n2", "n3"}}},
	"another one on the input of a stateful one": {func(f *Fingerprint) {
		f.Transforms = append(f.Transforms, Transform{Name: "Log", Kind: parDo, Inputs: slices.Clone(get(f, "Sole").Inputs)})
	}, []want{{TransformAdded, "Log", "", "", "Log"}, {FlinkOperatorShared, "Sole", "", "Sole", "Sole, Log (keeps nothing)"}}},
	"another one on the input of a stateful one, which is no ParDo": {func(f *Fingerprint) {
		f.Transforms = append(f.Transforms, Transform{Name: "Log", Kind: flatten, Inputs: slices.Clone(get(f, "Sole").Inputs)})
	}, []want{{TransformAdded, "Log", "", "", "Log"}}},
	"a stateful one on the input of another": {func(f *Fingerprint) {
		second := *get(f, "Sole")
		second.Name, second.State = "Second", nil
		f.Transforms = append(f.Transforms, second)
	}, []want{{TransformAdded, "Second", "", "", "Second"}, {FlinkOperatorShared, "Sole", "", "Sole", "Sole, Second (keeps nothing)"}}},
	"the only reader of an input renamed": {func(f *Fingerprint) { get(f, "Sole").Name = "Soul" },
		[]want{{StatefulTransformRenamed, "Soul", "", "Sole", "Soul"}, {AgentsFlinkOperatorChanged, "Soul", "", "Sole", "Soul"}}},
	"a step that begins to keep something": {func(f *Fingerprint) {
		t := get(f, "Parse/a.parseFn")
		t.FlinkOperator, t.State = "n1", []State{{ID: "v", Kind: "bag"}}
	}, []want{{StateAdded, "Parse/a.parseFn", "state v", "", "bag"}}},
	"another key of a step that keeps nothing": {func(f *Fingerprint) {
		get(f, "Join/e7_inject0").Inputs[0].Coder = kv(simple("varint"), message("Event", "encode"))
	}, []want{{InputTypeChanged, "Join/e7_inject0", "input i0", "KV<bytes, *pb.Event>", "KV<varint, *pb.Event>"}}},
	"cells added in another order": {func(f *Fingerprint) {
		t := get(f, "Agent/a.agentFn")
		t.State = append(slices.Clone(t.State), State{ID: "z", Kind: "bag"}, State{ID: "a", Kind: "bag"})
	}, []want{{StateAdded, "Agent/a.agentFn", "state a", "", "bag"}, {StateAdded, "Agent/a.agentFn", "state z", "", "bag"}}},
	"an input added": {func(f *Fingerprint) {
		t := get(f, "Join/a.joinFn")
		t.Inputs = append(t.Inputs, Collection{Tag: "i2", Coder: simple("bytes")})
	}, []want{{InputAdded, "Join/a.joinFn", "input i2", "", "bytes"}}},
	"an input removed": {func(f *Fingerprint) { get(f, "Group/CoGBK").Inputs = nil },
		[]want{{InputRemoved, "Group/CoGBK", "input i0", "KV<bytes, *pb.Event>", ""}}},
	"an input rewired": {func(f *Fingerprint) { get(f, "Group/CoGBK").Inputs[0].From = "Parse/a.parseFn[i0]" },
		[]want{{InputRewired, "Group/CoGBK", "input i0", "Agent/a.agentFn[i0]", "Parse/a.parseFn[i0]"}}},
	"inputs exchanged": {func(f *Fingerprint) {
		a, b := get(f, "Join/e7_inject0"), get(f, "Join/e7_inject1")
		a.Inputs, b.Inputs = b.Inputs, a.Inputs
	}, []want{
		{InputOrderChanged, "Join/e7_inject0", "input i0", "C[i0]", "Agent/a.agentFn[i0]"},
		{InputOrderChanged, "Join/e7_inject1", "input i0", "Agent/a.agentFn[i0]", "C[i0]"},
	}},
	"two of one DoFn exchanged": {func(f *Fingerprint) {
		a, b := get(f, "East"), get(f, "West")
		a.Inputs, b.Inputs = b.Inputs, a.Inputs
	}, []want{
		{TransformExchanged, "East", "input i0", "E[i0]", "W[i0]"},
		{TransformExchanged, "West", "input i0", "W[i0]", "E[i0]"},
	}},
	"one of two of one DoFn on the input of both": {func(f *Fingerprint) { get(f, "East").Inputs[0].From = "W[i0]" },
		[]want{
			{FlinkOperatorOrder, "East", "", "East", "East, West"},
			{InputRewired, "East", "input i0", "E[i0]", "W[i0]"},
			{FlinkOperatorOrder, "West", "", "West", "East, West"},
		}},
	"another key": {func(f *Fingerprint) {
		get(f, "Group/CoGBK").Inputs[0].Coder = kv(simple("varint"), message("Event", "encode"))
	},
		[]want{
			{KeyCoderChanged, "Group/CoGBK", "input i0, key", "bytes", "varint"},
			{InputTypeChanged, "Group/CoGBK", "input i0", "KV<bytes, *pb.Event>", "KV<varint, *pb.Event>"},
		}},
	"another coder of an input": {func(f *Fingerprint) {
		get(f, "Group/CoGBK").Inputs[0].Coder = kv(simple("bytes"), message("Event", "enc"))
	},
		[]want{{
			GroupedCoderChanged, "Group/CoGBK", "input i0, value",
			marshal(new(message("Event", "encode"))), marshal(new(message("Event", "enc"))),
		}, {
			InputCoderChanged, "Group/CoGBK", "input i0",
			marshal(kv(simple("bytes"), message("Event", "encode"))), marshal(kv(simple("bytes"), message("Event", "enc"))),
		}}},
	"another type of an input": {func(f *Fingerprint) {
		get(f, "Group/CoGBK").Inputs[0].Coder = kv(simple("bytes"), message("Other", "encode"))
	},
		[]want{
			{GroupedCoderChanged, "Group/CoGBK", "input i0, value", "*pb.Event", "*pb.Other"},
			{InputTypeChanged, "Group/CoGBK", "input i0", "KV<bytes, *pb.Event>", "KV<bytes, *pb.Other>"},
		}},
	"a type of the same name in another package": {func(f *Fingerprint) {
		get(f, "Read/Impulse").Outputs[0].Coder = message("Event", "encode")
		get(f, "Read/Impulse").Outputs[0].Coder.Components[0].Custom.Type = "*example.test/v2/pb.Event"
	}, []want{{OutputTypeChanged, "Read/Impulse", "output i0", "bytes", "*pb.Event"}}},
	"an output added": {func(f *Fingerprint) {
		t := get(f, "Parse/a.parseFn")
		t.Outputs = append(t.Outputs, Collection{Tag: "i2", Coder: simple("bytes")})
	}, []want{{OutputAdded, "Parse/a.parseFn", "output i2", "", "bytes"}}},
	"an output removed": {func(f *Fingerprint) { get(f, "Parse/a.parseFn").Outputs = get(f, "Parse/a.parseFn").Outputs[:1] },
		[]want{{OutputRemoved, "Parse/a.parseFn", "output i1", "bytes", ""}}},
	"another coder of an output": {func(f *Fingerprint) {
		get(f, "Agent/a.agentFn").Outputs[0].Coder = kv(simple("bytes"), message("Event", "enc"))
	}, []want{{
		OutputCoderChanged, "Agent/a.agentFn", "output i0",
		marshal(kv(simple("bytes"), message("Event", "encode"))), marshal(kv(simple("bytes"), message("Event", "enc"))),
	}}},
	"outputs in another order": {func(f *Fingerprint) {
		o := get(f, "Parse/a.parseFn").Outputs
		o[0].Coder, o[1].Coder = o[1].Coder, o[0].Coder
	}, []want{
		{OutputTypeChanged, "Parse/a.parseFn", "output i0", "KV<bytes, *pb.Event>", "bytes"},
		{OutputTypeChanged, "Parse/a.parseFn", "output i1", "bytes", "KV<bytes, *pb.Event>"},
	}},
	"other windows": {func(f *Fingerprint) {
		t := get(f, "Agent/a.agentFn")
		t.Inputs[0].Windowing, t.Outputs[0].Windowing = "fixed windows of 1 ms", "fixed windows of 1 ms"
	}, []want{
		{WindowingChanged, "Agent/a.agentFn", "input i0", "global windows", "fixed windows of 1 ms"},
		{WindowingChanged, "Agent/a.agentFn", "output i0", "global windows", "fixed windows of 1 ms"},
	}},
	"a side input added": {func(f *Fingerprint) {
		t := get(f, "Join/a.joinFn")
		t.SideInputs = append(t.SideInputs, Collection{Tag: "i2", Coder: simple("bytes")})
	}, []want{{SideInputAdded, "Join/a.joinFn", "side input i2", "", "bytes"}}},
	"a side input removed": {func(f *Fingerprint) { get(f, "Join/a.joinFn").SideInputs = nil },
		[]want{{SideInputRemoved, "Join/a.joinFn", "side input i1", "bytes", ""}}},
	"a side input changed": {func(f *Fingerprint) {
		s := &get(f, "Join/a.joinFn").SideInputs[0]
		s.From, s.Coder, s.Access, s.Windowing = "Parse/a.parseFn[i1]", simple("varint"), "map", "other windows"
	}, []want{
		{SideInputRewired, "Join/a.joinFn", "side input i1", "Read/Impulse[i0]", "Parse/a.parseFn[i1]"},
		{SideInputChanged, "Join/a.joinFn", "side input i1", "beam:side_input:iterable:v1", "map"},
		{SideInputChanged, "Join/a.joinFn", "side input i1", "bytes", "varint"},
		{SideInputChanged, "Join/a.joinFn", "side input i1", "global windows", "other windows"},
	}},
	"a cell added": {func(f *Fingerprint) {
		t := get(f, "Agent/a.agentFn")
		t.State = append(t.State, State{ID: "new", Kind: "bag", Value: new(simple("bytes"))})
	}, []want{{StateAdded, "Agent/a.agentFn", "state new", "", "bag of bytes"}}},
	"a cell removed": {func(f *Fingerprint) { get(f, "Agent/a.agentFn").State = get(f, "Agent/a.agentFn").State[:2] },
		[]want{{StateRemoved, "Agent/a.agentFn", "state table", "map of bytes and varint", ""}}},
	"a cell renamed": {func(f *Fingerprint) { get(f, "Agent/a.agentFn").State[0].ID = "remembered" },
		[]want{{StateRenamed, "Agent/a.agentFn", "state memory", "memory", "remembered"}}},
	"another kind of cell": {func(f *Fingerprint) { get(f, "Agent/a.agentFn").State[0].Kind = "bag" },
		[]want{{StateKindChanged, "Agent/a.agentFn", "state memory", "value of *pb.Memory", "bag of *pb.Memory"}}},
	"another type in cells": {func(f *Fingerprint) {
		s := get(f, "Agent/a.agentFn").State
		s[0].Value, s[1].CombineFn, s[2].Key = new(message("Other", "encode")), &Fn{Name: "*example.test/a.maxFn"}, new(simple("varint"))
	}, []want{
		{CombineFnChanged, "Agent/a.agentFn", "state sum", "*example.test/a.sumFn", "*example.test/a.maxFn"},
		{StateCoderChanged, "Agent/a.agentFn", "state memory", "*pb.Memory", "*pb.Other"},
		{StateCoderChanged, "Agent/a.agentFn", "state table, key", "bytes", "varint"},
	}},
	"a timer family added": {func(f *Fingerprint) {
		t := get(f, "Agent/a.agentFn")
		t.Timers = append(t.Timers, Timer{Family: "more", TimeDomain: "PROCESSING_TIME", Coder: simple("timer")})
	}, []want{{SecondTimerFamilyAdded, "Agent/a.agentFn", "timer family more", "", "PROCESSING_TIME"}}},
	"timers added": {func(f *Fingerprint) {
		get(f, "Sole").Timers = []Timer{{Family: "t", TimeDomain: "EVENT_TIME", Coder: simple("timer")}}
	}, []want{{TimerFamilyAdded, "Sole", "timer family t", "", "EVENT_TIME"}}},
	"a timer family removed": {func(f *Fingerprint) { get(f, "Agent/a.agentFn").Timers = nil },
		[]want{{TimerFamilyRemoved, "Agent/a.agentFn", "timer family agent", "EVENT_TIME", ""}}},
	"a timer family renamed": {func(f *Fingerprint) { get(f, "Agent/a.agentFn").Timers[0].Family = "clock" },
		[]want{{TimerFamilyRenamed, "Agent/a.agentFn", "timer family agent", "agent", "clock"}}},
	"another time domain": {func(f *Fingerprint) { get(f, "Agent/a.agentFn").Timers[0].TimeDomain = "PROCESSING_TIME" },
		[]want{{TimeDomainChanged, "Agent/a.agentFn", "timer family agent", "EVENT_TIME", "PROCESSING_TIME"}}},
	"another coder of timers": {func(f *Fingerprint) { get(f, "Agent/a.agentFn").Timers[0].Coder.Components[0] = simple("varint") },
		[]want{{TimerCoderChanged, "Agent/a.agentFn", "timer family agent", "timer<bytes, global_window>", "timer<varint, global_window>"}}},
	"another accumulator": {func(f *Fingerprint) {
		get(f, "Sum").Accumulator = new(Coder{URN: "beam:coder:row:v1", Fields: []string{"N int64"}})
	},
		[]want{{AccumulatorCoderChanged, "Sum", "accumulator", "varint", "row<N int64>"}}},
	"another restriction": {func(f *Fingerprint) { get(f, "Join/a.joinFn").Restriction = nil },
		[]want{{RestrictionCoderChanged, "Join/a.joinFn", "restriction", "varint", ""}}},
}

func TestCheck(t *testing.T) {
	seen := map[Kind]bool{}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := pipeline()
			tc.edit(&now)
			found := Check(pipeline(), now)
			if diff := cmp.Diff(tc.want, wants(found)); diff != "" {
				t.Errorf("(-want +found):\n%s", diff)
			}
			for _, f := range found {
				seen[f.Kind] = true
				rule, ok := RuleOf(f.Kind)
				if !ok || f.Rule != rule || f.Severity != rule.Severity() {
					t.Errorf("%s is not its rule: %+v", f.Kind, f)
				}
			}
		})
	}
	for _, k := range Kinds() {
		if !seen[k] {
			t.Errorf("no case produces %s", k)
		}
	}
}

// Transforms that only their names, cells and sources tell apart.
func TestCheckOfOneDoFn(t *testing.T) {
	step := func(name, from, cell string) Transform {
		return Transform{
			Name: name, Kind: parDo, Fn: &Fn{Name: "f"}, State: []State{{ID: cell, Kind: "value"}},
			Inputs: []Collection{{Tag: "i0", From: from, Coder: simple("bytes")}},
		}
	}
	group := func(name, from string) Transform {
		t := step(name, from, "")
		t.Kind, t.Fn, t.State = "beam:transform:group_by_key:v1", nil, nil
		return t
	}
	other := func(t Transform) Transform {
		t.Fn = &Fn{Name: "g"}
		return t
	}
	for name, tc := range map[string]struct {
		old, new []Transform
		want     []want
	}{
		"two renamed, by their sources": {
			[]Transform{step("A", "a", "v"), step("B", "b", "v")}, []Transform{step("C", "b", "v"), step("D", "a", "v")},
			[]want{{StatefulTransformRenamed, "C", "", "B", "C"}, {AgentsFlinkOperatorChanged, "C", "", "B", "C"}, {StatefulTransformRenamed, "D", "", "A", "D"}, {AgentsFlinkOperatorChanged, "D", "", "A", "D"}},
		},
		"one of two renamed, the other removed": {
			[]Transform{step("A", "a", "v"), step("B", "b", "v")}, []Transform{step("C", "b", "v")},
			[]want{{StatefulTransformRemoved, "A", "", "A", ""}, {StatefulTransformRenamed, "C", "", "B", "C"}, {AgentsFlinkOperatorChanged, "C", "", "B", "C"}},
		},
		"two removed, one with another source added": {
			[]Transform{step("A", "a", "v"), step("B", "b", "v")}, []Transform{step("C", "c", "v")},
			[]want{
				{StatefulTransformRemoved, "B", "", "B", ""},
				{StatefulTransformRenamed, "C", "", "A", "C"}, {AgentsFlinkOperatorChanged, "C", "", "A", "C"}, {InputRewired, "C", "input i0", "a", "c"},
			},
		},
		"without code, renamed and rewired": {
			[]Transform{group("A/G", "a")}, []Transform{group("A/H", "b")},
			[]want{{StatefulTransformRemoved, "A/G", "", "A/G", ""}, {StatefulTransformAdded, "A/H", "", "", "A/H"}},
		},
		"without code, in another scope and rewired": {
			[]Transform{group("A/G", "a")}, []Transform{group("B/G", "b")},
			[]want{{GroupingRenamed, "B/G", "", "A/G", "B/G"}, {InputRewired, "B/G", "input i0", "a", "b"}},
		},
		"other code in another scope": {
			[]Transform{step("A/f", "a", "v")}, []Transform{other(step("B/g", "a", "v"))},
			[]want{{StatefulTransformRemoved, "A/f", "", "A/f", ""}, {StatefulTransformAdded, "B/g", "", "", "B/g"}},
		},
		"other code in the same scope": {
			[]Transform{step("A/f", "a", "v")}, []Transform{other(step("A/g", "a", "v"))},
			[]want{{StatefulTransformRenamed, "A/g", "", "A/f", "A/g"}, {AgentsFlinkOperatorChanged, "A/g", "", "A/f", "A/g"}, {FnChanged, "A/g", "", "f", "g"}},
		},
		"two could have moved to one number": {
			[]Transform{step("N", "a", "v"), step("N'1", "a", "v"), step("N'2", "a", "w")},
			[]Transform{step("N", "a", "w"), step("N'1", "a", "w"), step("N'2", "a", "v")},
			[]want{
				{NumberedTransformMoved, "N", "", "N'2", "N"},
				{StateRenamed, "N'1", "state v", "v", "w"},
				{NumberedTransformMoved, "N'2", "", "N", "N'2"},
			},
		},
		"none moved to the number of one that stayed": {
			[]Transform{step("N", "a", "v"), step("N'1", "a", "v")}, []Transform{step("N", "a", "w"), step("N'1", "a", "v")},
			[]want{{StateRenamed, "N", "state v", "v", "w"}},
		},
		"moved to a new number": {
			[]Transform{step("N", "a", "v"), step("A", "a", "v")}, []Transform{step("N", "a", "w"), step("N'1", "a", "v")},
			[]want{{StatefulTransformRemoved, "A", "", "A", ""}, {NumberedTransformMoved, "N'1", "", "N", "N'1"}},
		},
		"rewired, one of several before": {
			[]Transform{step("N", "a", "v"), step("N'1", "b", "w")}, []Transform{step("N", "b", "v")},
			[]want{{NumberedTransformRewired, "N", "input i0", "a", "b"}, {StatefulTransformRemoved, "N'1", "", "N'1", ""}},
		},
		"rewired, one of several now": {
			[]Transform{step("N", "a", "v")}, []Transform{step("N", "b", "v"), step("N'1", "c", "w")},
			[]want{{NumberedTransformRewired, "N", "input i0", "a", "b"}, {StatefulTransformAdded, "N'1", "", "", "N'1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := Check(Fingerprint{Format: Format, Transforms: tc.old}, Fingerprint{Format: Format, Transforms: tc.new})
			if diff := cmp.Diff(tc.want, wants(found)); diff != "" {
				t.Errorf("(-want +found):\n%s", diff)
			}
		})
	}
}

// Another key matters where state is kept before the update, after it, or both.
func TestCheckOfAnotherKey(t *testing.T) {
	step := func(key string, state ...State) Fingerprint {
		return Fingerprint{Format: Format, Transforms: []Transform{{
			Name: "A", Kind: parDo, State: state,
			Inputs: []Collection{{Tag: "i0", From: "a[i0]", Coder: kv(simple(key), simple("bytes"))}},
		}}}
	}
	plain := func(state ...State) Fingerprint { // of what is no KV
		f := step("bytes", state...)
		f.Transforms[0].Inputs[0].Coder = simple("bytes")
		return f
	}
	cell := State{ID: "v", Kind: "value"}
	fromPlain := want{InputTypeChanged, "A", "input i0", "bytes", "KV<varint, bytes>"}
	toPlain := want{InputTypeChanged, "A", "input i0", "KV<bytes, bytes>", "bytes"}
	key := want{KeyCoderChanged, "A", "input i0, key", "bytes", "varint"}
	typ := want{InputTypeChanged, "A", "input i0", "KV<bytes, bytes>", "KV<varint, bytes>"}
	for name, tc := range map[string]struct {
		old, new Fingerprint
		want     []want
	}{
		"keeps state":        {step("bytes", cell), step("varint", cell), []want{key, typ}},
		"becomes stateful":   {step("bytes"), step("varint", cell), []want{key, typ, {StateAdded, "A", "state v", "", "value"}}},
		"becomes stateless":  {step("bytes", cell), step("varint"), []want{key, typ, {StateRemoved, "A", "state v", "value", ""}}},
		"keeps nothing":      {step("bytes"), step("varint"), []want{typ}},
		"no key before":      {plain(), step("varint", cell), []want{fromPlain, {StateAdded, "A", "state v", "", "value"}}},
		"no key any more":    {step("bytes", cell), plain(cell), []want{toPlain}},
		"state, the old key": {step("bytes"), step("bytes", cell), []want{{StateAdded, "A", "state v", "", "value"}}},
	} {
		if diff := cmp.Diff(tc.want, wants(Check(tc.old, tc.new))); diff != "" {
			t.Errorf("%s (-want +found):\n%s", name, diff)
		}
	}
}

// It gets a stage of its own, which others on that input had before.
func TestCheckOfReaderThatBeginsToKeepSomething(t *testing.T) {
	pipeline := func() Fingerprint {
		in := []Collection{{Tag: "i0", From: "a[i0]", Coder: simple("bytes")}}
		return Fingerprint{Format: Format, Transforms: []Transform{
			{Name: "A", Kind: parDo, Inputs: in},
			{Name: "B", Kind: parDo, Inputs: in, FlinkOperator: "n1", State: []State{{ID: "v", Kind: "bag"}}},
		}}
	}
	now := pipeline()
	now.Transforms[0].FlinkOperator, now.Transforms[0].State = "n1", now.Transforms[1].State
	if diff := cmp.Diff([]want{
		{StateAdded, "A", "state v", "", "bag"},
		{FlinkOperatorOrder, "B", "", "B, A (keeps nothing)", "A, B"},
	}, wants(Check(pipeline(), now))); diff != "" {
		t.Error(diff)
	}
}

func TestStateful(t *testing.T) {
	for name, tc := range map[string]struct {
		transform Transform
		want      bool
	}{
		"nothing":        {Transform{Kind: parDo, Fn: &Fn{Name: "f"}, Inputs: []Collection{{Tag: "i0"}}}, false},
		"cells":          {Transform{Kind: parDo, State: []State{{ID: "v"}}}, true},
		"timers":         {Transform{Kind: parDo, Timers: []Timer{{Family: "f"}}}, true},
		"side inputs":    {Transform{Kind: parDo, SideInputs: []Collection{{Tag: "i1"}}}, true},
		"a restriction":  {Transform{Kind: parDo, Restriction: new(simple("bytes"))}, true},
		"GroupByKey":     {Transform{Kind: "beam:transform:group_by_key:v1"}, true},
		"CombinePerKey":  {Transform{Kind: "beam:transform:combine_per_key:v1"}, true},
		"Reshuffle":      {Transform{Kind: "beam:transform:reshuffle:v1"}, true},
		"Flatten":        {Transform{Kind: "beam:transform:flatten:v1"}, false},
		"an accumulator": {Transform{Kind: parDo, Accumulator: new(simple("bytes"))}, false},
	} {
		if got := tc.transform.Stateful(); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestSeverities(t *testing.T) {
	safe := []Kind{
		TransformAdded, StatefulTransformAdded, FnChanged, FnSignatureChanged, InputAdded, InputRewired, OutputAdded, StateAdded, TimerFamilyAdded,
	}
	for _, k := range slices.Concat(Kinds(), LintKinds()) {
		rule, ok := RuleOf(k)
		if want := slices.Contains(safe, k); !ok || want != (rule.Severity() == Safe) {
			t.Errorf("%s is %s", k, rule.Severity())
		}
		runners := Runners()
		if slices.Contains(LintKinds(), k) {
			runners = append(runners, Prism)
		}
		if rule.Summary == "" || rule.Avoid == "" {
			t.Errorf("%s says too little: %+v", k, rule)
		}
		for _, runner := range runners {
			c := rule.On(runner)
			if c.Effect == "" || c.Source == "" || !slices.Contains([]Evidence{Run, InSource, Inferred}, c.Evidence) {
				t.Errorf("%s says too little of %s: %+v", k, runner, c)
			}
		}
	}
	rule, _ := RuleOf(FlinkOperatorChanged)
	for runner, want := range map[Runner]Severity{Dataflow: Safe, Flink: Unsafe, AgentsFlink: Safe} {
		if got := rule.Severity(runner); got != want {
			t.Errorf("an operator id of numbers is %s on %s", got, runner)
		}
	}
	if _, ok := RuleOf("nothing"); ok {
		t.Error("nothing is a kind")
	}
	if c := rule.On("spark"); c != (Consequence{}) {
		t.Errorf("a rule for a runner that it does not know: %+v", c)
	}
}

func TestFindingText(t *testing.T) {
	now := pipeline()
	get(&now, "Agent/a.agentFn").State[0].ID = "remembered"
	const want = `unsafe state_renamed: Agent/a.agentFn, state memory
  what         a cell has another id: the new one begins empty, and the old one stays stored
  old          memory
  new          remembered
  dataflow     loses state silently (inferred): apache/beam issue 17966, open: there is no validation of user state on an update
  flink        loses state silently (run): ` + flinkRun + `
  agents-flink loses state silently (run): ` + flinkRun + `
  avoid        keep the id`
	if diff := cmp.Diff(want, Check(pipeline(), now)[0].String()); diff != "" {
		t.Error(diff)
	}
}

// A pipeline is whatever its author wrote.
func TestFindingTextOfHostileNames(t *testing.T) {
	f := Finding{Kind: StateRenamed, Transform: "a\x1b[2J", Subject: "state \n0 differences", Old: "\r\u202e", New: `"plain" \n`, Severity: Unsafe}
	got := f.String()
	for _, r := range strings.ReplaceAll(got, "\n", "") {
		if !strconv.IsPrint(r) {
			t.Errorf("%q reaches the terminal", r)
		}
	}
	for _, want := range []string{`: a\x1b[2J, state \n0 differences` + "\n", `old          \r\u202e` + "\n", "\n" + `  new          "plain" \n`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// Two texts that are not UTF-8 are as different as any two.
func TestCheckOfInvalidText(t *testing.T) {
	old, now := pipeline(), pipeline()
	get(&old, "Sum").Accumulator.URN, get(&now, "Sum").Accumulator.URN = "\xff", "\xfe"
	if diff := cmp.Diff([]want{{AccumulatorCoderChanged, "Sum", "accumulator", "\xff", "\xfe"}}, wants(Check(old, now))); diff != "" {
		t.Error(diff)
	}
	get(&old, "Read/Impulse").Outputs[0].Coder.URN, get(&now, "Read/Impulse").Outputs[0].Coder.URN = "\xff", "\xfe"
	if found := Check(old, now); len(found) != 2 {
		t.Error(found)
	}
}

func text(t *testing.T, f Fingerprint) string {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReadAndWrite(t *testing.T) {
	written := text(t, pipeline())
	back, err := Read(strings.NewReader(written))
	if err != nil {
		t.Fatal(err)
	}
	if found := Check(pipeline(), back); len(found) > 0 {
		t.Error(found)
	}
	if diff := cmp.Diff(written, text(t, back)); diff != "" {
		t.Error(diff)
	}
	reversed := pipeline()
	slices.Reverse(reversed.Transforms)
	slices.Reverse(get(&reversed, "Agent/a.agentFn").State)
	before := marshal(&reversed)
	if diff := cmp.Diff(written, text(t, reversed)); diff != "" {
		t.Error(diff)
	}
	if marshal(&reversed) != before {
		t.Error("Write sorts its argument")
	}
}

func TestReadRefuses(t *testing.T) {
	written := text(t, pipeline())
	replace := func(from, to string) string { return strings.Replace(written, from, to, 1) }
	for name, tc := range map[string]struct {
		text, about string
		want        error
	}{
		"another format":     {replace(`"format": 1`, `"format": 2`), "reads 1 and not 2; use one version", ErrFormat},
		"no format":          {`{"transforms":[]}`, "take one with --fingerprint", ErrMalformed},
		"nothing":            {"", "EOF", ErrMalformed},
		"no JSON":            {"fingerprint", "invalid character", ErrMalformed},
		"two":                {written + written, "after top-level value", ErrMalformed},
		"an unknown member":  {replace(`"kind":`, `"sort":`), "a newer version may have written it", ErrMalformed},
		"a member twice":     {replace(`"kind":`, `"name":`), "duplicate", ErrMalformed},
		"a name in capitals": {replace(`"kind":`, `"Kind":`), "unknown object member name", ErrMalformed},
		"another type":       {replace(`"beam:transform:group_by_key:v1"`, "7"), "kind", ErrMalformed},
		"a bad platform":     {replace(`"operator_chaining": "off"`, `"operator_chaining": "no"`), "neither on nor off", ErrMalformed},
		"no transforms":      {`{"format":1}`, "no transforms", ErrMalformed},
		"no name":            {replace(`"Sum"`, `""`), "has no name", ErrMalformed},
		"one name twice":     {replace(`"Twin'1"`, `"Twin"`), `"Twin" is there twice`, ErrMalformed},
		"one cell twice":     {replace(`"sum"`, `"memory"`), `state of Agent/a.agentFn "memory" is there twice`, ErrMalformed},
		"too long":           {`{"format":1` + strings.Repeat(" ", MaxBytes), "longer than 67108864 bytes", ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Read(strings.NewReader(tc.text))
			if !errors.Is(err, tc.want) || !strings.HasPrefix(err.Error(), "compat: ") || !strings.Contains(err.Error(), tc.about) || len(f.Transforms) > 0 {
				t.Errorf("Read = %v; want %v about %q", err, tc.want, tc.about)
			}
		})
	}
	if _, err := Read(badReader{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an unreadable file: %v", err)
	}
	for name, f := range map[string]Fingerprint{"empty": {}, "no format": {Transforms: pipeline().Transforms}, "not UTF-8": {
		Format: Format, Transforms: []Transform{{Name: "\xff", Kind: "k"}},
	}} {
		var b bytes.Buffer
		if err := f.Write(&b); err == nil || b.Len() > 0 {
			t.Errorf("%s: Write = %v after %d bytes", name, err, b.Len())
		}
	}
	if f := pipeline(); !errors.Is(f.Write(badWriter{}), io.ErrClosedPipe) {
		t.Error("an unwritable file passes")
	}
}

func TestValidate(t *testing.T) {
	for want, edit := range map[string]func(f *Fingerprint){
		`input of Sole "i0" is there twice`: func(f *Fingerprint) {
			get(f, "Sole").Inputs = append(get(f, "Sole").Inputs, get(f, "Sole").Inputs[0])
		},
		`side input of Join/a.joinFn "i1" is there twice`: func(f *Fingerprint) {
			s := &get(f, "Join/a.joinFn").SideInputs
			*s = append(*s, (*s)[0])
		},
		`output of Read/Impulse "i0" is there twice`: func(f *Fingerprint) {
			s := &get(f, "Read/Impulse").Outputs
			*s = append(*s, (*s)[0])
		},
		`timer family of Agent/a.agentFn "agent" is there twice`: func(f *Fingerprint) {
			s := &get(f, "Agent/a.agentFn").Timers
			*s = append(*s, (*s)[0])
		},
		"side input of Join/a.joinFn 0 has no name":     func(f *Fingerprint) { get(f, "Join/a.joinFn").SideInputs[0].Tag = "" },
		"timer family of Agent/a.agentFn 0 has no name": func(f *Fingerprint) { get(f, "Agent/a.agentFn").Timers[0].Family = "" },
		"neither on nor off":                            func(f *Fingerprint) { f.Platform.Chaining = "no" },
		"negative number":                               func(f *Fingerprint) { f.Platform.MaxParallelism = -1 },
		"Sum has no kind":                               func(f *Fingerprint) { get(f, "Sum").Kind = "" },
		"Sole has no kind, or a cell of it has none":    func(f *Fingerprint) { get(f, "Sole").State[0].Kind = "" },
		"coder of Sum has no URN":                       func(f *Fingerprint) { get(f, "Sum").Accumulator.URN = "" },
		"coder of Join/a.joinFn has no URN":             func(f *Fingerprint) { get(f, "Join/a.joinFn").Restriction.URN = "" },
		"coder of Sole has no URN":                      func(f *Fingerprint) { get(f, "Sole").State[0].Value.URN = "" },
		"coder of Read/Impulse has no URN":              func(f *Fingerprint) { get(f, "Read/Impulse").Outputs[0].Coder.URN = "" },
		"coder of Agent/a.agentFn has no URN":           func(f *Fingerprint) { get(f, "Agent/a.agentFn").Timers[0].Coder.Components[0].URN = "" },
		"coder of a\\x1b has no URN":                    func(f *Fingerprint) { *get(f, "Sum") = Transform{Name: "a\x1b", Kind: "k", Accumulator: new(Coder)} },
	} {
		f := pipeline()
		edit(&f)
		if err := f.Validate(); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want %q", err, want)
		}
	}
}

type badReader struct{}

func (badReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

type badWriter struct{}

func (badWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Any two fingerprints: no findings exactly where they are equal but for order, and the
// same findings whatever the order in the files is.
func TestCheckProperties(t *testing.T) {
	names := make([]string, 0, len(cases))
	for name := range cases {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		edited := func(label string) Fingerprint {
			f := pipeline()
			defer func() { _ = recover() }() // an edit of what another edit has removed
			for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, label) {
				cases[name].edit(&f)
			}
			return f
		}
		old, now := edited("old"), edited("new")
		if old.Validate() != nil || now.Validate() != nil {
			t.Skip("not a pipeline")
		}
		var a, b bytes.Buffer
		if err := errors.Join(old.Write(&a), now.Write(&b)); err != nil {
			t.Fatal(err)
		}
		found := Check(old, now)
		if (len(found) == 0) != bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("findings %v of\n%s\n%s", found, &a, &b)
		}
		shuffled := Fingerprint{Format: Format, Platform: now.Platform, Transforms: rapid.Permutation(now.Transforms).Draw(t, "order")}
		if diff := cmp.Diff(found, Check(old, shuffled)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"format":1,"transforms":[{"name":"a","kind":"b"}]}`))
	f.Add([]byte(`{"format":1,"transforms":[{"name":"a","kind":"b","state":[{"id":"c","kind":"value"}]}],"x":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fp, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := fp.Write(&first); err != nil {
			t.Fatal(err)
		}
		again, err := Read(bytes.NewReader(first.Bytes()))
		if err == nil {
			err = again.Write(&second)
		}
		if err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) || len(Check(fp, again)) > 0 {
			t.Fatalf("%v:\n%s\n%s", err, &first, &second)
		}
	})
}

// A thousand steps of one name, in another order.
func BenchmarkCheck(b *testing.B) {
	pipeline := func(number func(i int) int) Fingerprint {
		f := Fingerprint{Format: Format}
		for i := range 1000 {
			f.Transforms = append(f.Transforms, Transform{
				Name: "Step'" + strconv.Itoa(i+1), Kind: "k", State: []State{{ID: strconv.Itoa(number(i)), Kind: "value"}},
			})
		}
		return f
	}
	old, now := pipeline(func(i int) int { return i }), pipeline(func(i int) int { return 999 - i })
	for b.Loop() {
		if found := len(Check(old, now)); found != 1000 {
			b.Fatal(found)
		}
	}
}

// Three thousand steps, none of which has its like in the other pipeline.
func BenchmarkCheckOfOthers(b *testing.B) {
	pipeline := func(name string) Fingerprint {
		f := Fingerprint{Format: Format}
		for i := range 3000 {
			name := name + strconv.Itoa(i)
			f.Transforms = append(f.Transforms, Transform{Name: name, Kind: parDo, Fn: &Fn{Name: name}})
		}
		return f
	}
	old, now := pipeline("a"), pipeline("b")
	for b.Loop() {
		if found := len(Check(old, now)); found != 6000 {
			b.Fatal(found)
		}
	}
}
