package graph

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	v1pb "github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx/v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
)

// typeText returns a type almost as Go writes it, with package paths. A type that was not
// registered is written in full, as the SDK sends it.
func typeText(t *v1pb.Type) string {
	switch t.GetKind() {
	case v1pb.Type_EXTERNAL:
		return t.GetExternalKey()
	case v1pb.Type_SPECIAL:
		return specialText(t.GetSpecial())
	case v1pb.Type_SLICE:
		return "[]" + typeText(t.GetElement())
	case v1pb.Type_PTR:
		return "*" + typeText(t.GetElement())
	case v1pb.Type_CHAN:
		return map[v1pb.Type_ChanDir]string{v1pb.Type_RECV: "<-chan ", v1pb.Type_SEND: "chan<- ", v1pb.Type_BOTH: "chan "}[t.GetChanDir()] +
			typeText(t.GetElement())
	case v1pb.Type_FUNC:
		parameters := typeTexts(t.GetParameterTypes())
		if n := len(parameters) - 1; t.GetIsVariadic() && n >= 0 {
			parameters[n] = "..." + strings.TrimPrefix(parameters[n], "[]")
		}
		text := "func(" + strings.Join(parameters, ", ") + ")"
		switch results := typeTexts(t.GetReturnTypes()); len(results) {
		case 0:
			return text
		case 1:
			return text + " " + results[0]
		default:
			return text + " (" + strings.Join(results, ", ") + ")"
		}
	case v1pb.Type_STRUCT:
		fields := make([]string, len(t.GetFields()))
		for i, f := range t.GetFields() {
			fields[i] = f.GetName() + " " + typeText(f.GetType())
			if f.GetTag() != "" {
				fields[i] += " `" + f.GetTag() + "`"
			}
		}
		return "struct{" + strings.Join(fields, "; ") + "}"
	default:
		return strings.ToLower(t.GetKind().String()) // BOOL, INT64, STRING and others
	}
}

func typeTexts(types []*v1pb.Type) []string {
	texts := make([]string, len(types))
	for i, t := range types {
		texts[i] = typeText(t)
	}
	return texts
}

func specialText(s v1pb.Type_Special) string {
	switch s {
	case v1pb.Type_ERROR:
		return "error"
	case v1pb.Type_CONTEXT:
		return "context.Context"
	case v1pb.Type_TYPE:
		return "reflect.Type"
	default:
		return "beam." + s.String()
	}
}

// rowFields returns the fields of a row. It leaves out the id of a schema and the options of the
// Go SDK: they name the Go type, and the encoding does not depend on it.
func rowFields(s *pipepb.Schema) []string {
	fields := make([]string, len(s.GetFields()))
	for i, f := range s.GetFields() {
		fields[i] = f.GetName() + " " + fieldText(f.GetType())
	}
	return fields
}

func fieldText(t *pipepb.FieldType) string {
	var text string
	switch info := t.GetTypeInfo().(type) {
	case *pipepb.FieldType_AtomicType:
		text = strings.ToLower(info.AtomicType.String())
	case *pipepb.FieldType_ArrayType:
		text = "[]" + fieldText(info.ArrayType.GetElementType())
	case *pipepb.FieldType_IterableType:
		text = "iterable<" + fieldText(info.IterableType.GetElementType()) + ">"
	case *pipepb.FieldType_MapType:
		text = "map<" + fieldText(info.MapType.GetKeyType()) + ", " + fieldText(info.MapType.GetValueType()) + ">"
	case *pipepb.FieldType_RowType:
		text = "row<" + strings.Join(rowFields(info.RowType.GetSchema()), ", ") + ">"
	case *pipepb.FieldType_LogicalType:
		text = info.LogicalType.GetUrn() + "<" + fieldText(info.LogicalType.GetRepresentation()) + ">"
	}
	if t.GetNullable() {
		text += "?"
	}
	return text
}

// windowing describes a strategy. It leaves out the defaults of the Go SDK.
func windowing(w *pipepb.WindowingStrategy) (string, error) {
	fn, err := windowFn(w.GetWindowFn())
	if err != nil {
		return "", err
	}
	parts := []string{fn}
	if trigger := w.GetTrigger(); trigger != nil && trigger.GetDefault() == nil {
		b, err := protojson.Marshal(trigger)
		if err == nil {
			b, err = canonjson.Canonicalize(nil, b) // the white space of protojson varies
		}
		if err != nil {
			return "", fmt.Errorf("trigger: %w", err)
		}
		parts = append(parts, "trigger "+string(b))
	}
	if mode := w.GetAccumulationMode(); mode != pipepb.AccumulationMode_DISCARDING {
		parts = append(parts, strings.ToLower(mode.String()))
	}
	if late := w.GetAllowedLateness(); late != 0 {
		parts = append(parts, fmt.Sprintf("allowed lateness %d ms", late))
	}
	if closing := w.GetClosingBehavior(); closing != pipepb.ClosingBehavior_EMIT_IF_NONEMPTY {
		parts = append(parts, "closing "+strings.ToLower(closing.String()))
	}
	if onTime := w.GetOnTimeBehavior(); onTime != pipepb.OnTimeBehavior_FIRE_IF_NONEMPTY {
		parts = append(parts, "on time "+strings.ToLower(onTime.String()))
	}
	if output := w.GetOutputTime(); output != pipepb.OutputTime_END_OF_WINDOW {
		parts = append(parts, "output time "+strings.ToLower(output.String()))
	}
	return strings.Join(parts, "; "), nil
}

func windowFn(spec *pipepb.FunctionSpec) (string, error) {
	ms := func(d interface{ AsDuration() time.Duration }) int64 { return d.AsDuration().Milliseconds() }
	switch spec.GetUrn() {
	case graphx.URNGlobalWindowsWindowFn:
		return "global windows", nil
	case graphx.URNFixedWindowsWindowFn:
		var p pipepb.FixedWindowsPayload
		err := proto.Unmarshal(spec.GetPayload(), &p)
		return fmt.Sprintf("fixed windows of %d ms, offset %d ms", ms(p.GetSize()), p.GetOffset().AsTime().UnixMilli()), err
	case graphx.URNSlidingWindowsWindowFn:
		var p pipepb.SlidingWindowsPayload
		err := proto.Unmarshal(spec.GetPayload(), &p)
		return fmt.Sprintf("sliding windows of %d ms every %d ms, offset %d ms",
			ms(p.GetSize()), ms(p.GetPeriod()), p.GetOffset().AsTime().UnixMilli()), err
	case graphx.URNSessionsWindowFn:
		var p pipepb.SessionWindowsPayload
		err := proto.Unmarshal(spec.GetPayload(), &p)
		return fmt.Sprintf("session windows with a gap of %d ms", ms(p.GetGapSize())), err
	default:
		return strings.Join(slices.DeleteFunc([]string{spec.GetUrn(), base64.StdEncoding.EncodeToString(spec.GetPayload())},
			func(s string) bool { return s == "" }), " "), nil
	}
}
