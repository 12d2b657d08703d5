package graph

import (
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	v1pb "github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx/v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/beamagents/beamagents-go/pkg/compat"
)

// What the SDK writes of few pipelines, or of none yet, is read from components.
func components() *pipepb.Components {
	coder := func(name string) *pipepb.Coder {
		return &pipepb.Coder{Spec: &pipepb.FunctionSpec{Urn: "beam:coder:" + name + ":v1"}}
	}
	return &pipepb.Components{
		Coders:              map[string]*pipepb.Coder{"c0": coder("bytes"), "c1": coder("varint"), "c2": coder("timer")},
		WindowingStrategies: map[string]*pipepb.WindowingStrategy{"w": global()},
		Pcollections: map[string]*pipepb.PCollection{
			"n1": {UniqueName: "n1", CoderId: "c0", WindowingStrategyId: "w"},
			"n2": {UniqueName: "n2", CoderId: "c0", WindowingStrategyId: "w"},
		},
	}
}

func global() *pipepb.WindowingStrategy {
	return &pipepb.WindowingStrategy{
		WindowFn:         &pipepb.FunctionSpec{Urn: graphx.URNGlobalWindowsWindowFn},
		AccumulationMode: pipepb.AccumulationMode_DISCARDING,
		ClosingBehavior:  pipepb.ClosingBehavior_EMIT_IF_NONEMPTY,
		OnTimeBehavior:   pipepb.OnTimeBehavior_FIRE_IF_NONEMPTY,
		OutputTime:       pipepb.OutputTime_END_OF_WINDOW,
	}
}

func TestStateKinds(t *testing.T) {
	bytes, varint := &compat.Coder{URN: "beam:coder:bytes:v1"}, &compat.Coder{URN: "beam:coder:varint:v1"}
	for _, tc := range []struct {
		spec *pipepb.StateSpec
		want compat.State
	}{
		{
			&pipepb.StateSpec{Spec: &pipepb.StateSpec_ReadModifyWriteSpec{ReadModifyWriteSpec: &pipepb.ReadModifyWriteStateSpec{CoderId: "c1"}}},
			compat.State{ID: "s", Kind: "value", Value: varint},
		},
		{
			&pipepb.StateSpec{Spec: &pipepb.StateSpec_BagSpec{BagSpec: &pipepb.BagStateSpec{ElementCoderId: "c1"}}},
			compat.State{ID: "s", Kind: "bag", Value: varint},
		},
		{
			&pipepb.StateSpec{Spec: &pipepb.StateSpec_OrderedListSpec{OrderedListSpec: &pipepb.OrderedListStateSpec{ElementCoderId: "c1"}}},
			compat.State{ID: "s", Kind: "ordered_list", Value: varint},
		},
		{
			&pipepb.StateSpec{Spec: &pipepb.StateSpec_MapSpec{MapSpec: &pipepb.MapStateSpec{KeyCoderId: "c0", ValueCoderId: "c1"}}},
			compat.State{ID: "s", Kind: "map", Key: bytes, Value: varint},
		},
		{
			&pipepb.StateSpec{Spec: &pipepb.StateSpec_SetSpec{SetSpec: &pipepb.SetStateSpec{ElementCoderId: "c0"}}},
			compat.State{ID: "s", Kind: "set", Key: bytes},
		},
	} {
		got, err := newReader(components()).state("s", tc.spec)
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tc.want.Kind, err, diff)
		}
	}
	if got, err := newReader(components()).state("s", &pipepb.StateSpec{}); err == nil {
		t.Errorf("a kind of cell that is not known is %v", got)
	}
}

func TestWhatStartsAStage(t *testing.T) {
	for name, tc := range map[string]struct {
		payload     *pipepb.ParDoPayload
		operator    string
		restriction *compat.Coder
	}{
		"nothing": {&pipepb.ParDoPayload{}, "", nil},
		"cells": {&pipepb.ParDoPayload{StateSpecs: map[string]*pipepb.StateSpec{
			"s": {Spec: &pipepb.StateSpec_BagSpec{BagSpec: &pipepb.BagStateSpec{ElementCoderId: "c1"}}},
		}}, "n1", nil},
		"timers": {&pipepb.ParDoPayload{TimerFamilySpecs: map[string]*pipepb.TimerFamilySpec{
			"f": {TimeDomain: pipepb.TimeDomain_EVENT_TIME, TimerFamilyCoderId: "c2"},
		}}, "n1", nil},
		"side inputs":   {&pipepb.ParDoPayload{SideInputs: map[string]*pipepb.SideInput{"i1": {}}}, "n1", nil},
		"a restriction": {&pipepb.ParDoPayload{RestrictionCoderId: "c1"}, "n1", &compat.Coder{URN: "beam:coder:varint:v1"}},
	} {
		tc.payload.DoFn = &pipepb.FunctionSpec{Urn: graphx.URNInject}
		payload, err := proto.Marshal(tc.payload)
		if err != nil {
			t.Fatal(err)
		}
		got, err := newReader(components()).transform("e1", &pipepb.PTransform{
			UniqueName: "T", Spec: &pipepb.FunctionSpec{Urn: graphx.URNParDo, Payload: payload},
			Inputs: map[string]string{"i0": "n1", "i1": "n2"},
		})
		if diff := cmp.Diff(tc.restriction, got.Restriction); err != nil || got.FlinkOperator != tc.operator || diff != "" {
			t.Errorf("%s: %v, operator %q, restriction (-want +got):\n%s", name, err, got.FlinkOperator, diff)
		}
		if got.Stateful() != (tc.operator != "") {
			t.Errorf("%s: keeps state: %t", name, got.Stateful())
		}
	}
}

func TestWindowingText(t *testing.T) {
	fixed, err := proto.Marshal(&pipepb.FixedWindowsPayload{
		Size: durationpb.New(time.Minute), Offset: timestamppb.New(time.UnixMilli(1500)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for want, edit := range map[string]func(w *pipepb.WindowingStrategy){
		"global windows": func(*pipepb.WindowingStrategy) {},
		"fixed windows of 60000 ms, offset 1500 ms": func(w *pipepb.WindowingStrategy) {
			w.WindowFn = &pipepb.FunctionSpec{Urn: graphx.URNFixedWindowsWindowFn, Payload: fixed}
		},
		"global windows; accumulating":               func(w *pipepb.WindowingStrategy) { w.AccumulationMode = pipepb.AccumulationMode_ACCUMULATING },
		"global windows; allowed lateness 7 ms":      func(w *pipepb.WindowingStrategy) { w.AllowedLateness = 7 },
		"global windows; closing emit_always":        func(w *pipepb.WindowingStrategy) { w.ClosingBehavior = pipepb.ClosingBehavior_EMIT_ALWAYS },
		"global windows; on time fire_always":        func(w *pipepb.WindowingStrategy) { w.OnTimeBehavior = pipepb.OnTimeBehavior_FIRE_ALWAYS },
		"global windows; output time latest_in_pane": func(w *pipepb.WindowingStrategy) { w.OutputTime = pipepb.OutputTime_LATEST_IN_PANE },
	} {
		w := global()
		edit(w)
		if got, err := windowing(w); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

func TestVariadicText(t *testing.T) {
	text := &v1pb.Type{Kind: v1pb.Type_STRING}
	texts := &v1pb.Type{Kind: v1pb.Type_SLICE, Element: text}
	fn := &v1pb.Type{Kind: v1pb.Type_FUNC, ParameterTypes: []*v1pb.Type{text, texts}}
	if got := typeText(fn); got != "func(string, []string)" {
		t.Error(got)
	}
	fn.IsVariadic = true
	if got := typeText(fn); got != "func(string, ...string)" {
		t.Error(got)
	}
}
