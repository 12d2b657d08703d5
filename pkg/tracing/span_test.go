package tracing_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/tracing"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

var (
	traceID  = bytes.Repeat([]byte{0x1a}, 16)
	spanID   = bytes.Repeat([]byte{0x2b}, 8)
	parentID = bytes.Repeat([]byte{0x3c}, 8)
)

func attributesOf(span sdktrace.ReadOnlySpan) map[string]attribute.Value {
	all := map[string]attribute.Value{}
	for _, kv := range span.Attributes() {
		all[string(kv.Key)] = kv.Value
	}
	return all
}

// What each event becomes, in a word: kind, name, status, begin, end and the attributes
// that are not those of every span.
func say(span sdktrace.ReadOnlySpan) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%v %s %v..%v %v %s", span.SpanKind(), span.Name(), span.StartTime().UnixMilli(), span.EndTime().UnixMilli(),
		span.Status().Code, span.Status().Description)
	for _, kv := range span.Attributes() {
		if kv.Key != "beam_agents.entity_key" && kv.Key != "beam_agents.seq" && kv.Key != "beam_agents.step" {
			fmt.Fprintf(&text, "\n%s=%s", kv.Key, kv.Value.String())
		}
	}
	return text.String()
}

func TestSpan(t *testing.T) {
	type a = map[string]string
	for name, tt := range map[string]struct {
		event      pb.TraceEvent_EventType
		attributes a
		want       string
	}{
		"activation": {
			pb.TraceEvent_ACTIVATION_END,
			a{"gen_ai.agent.name": "triage", "beam_agents.activation.kind": "start", "beam_agents.activation.status": "completed", "beam_agents.duration_ms": "25"},
			"internal invoke_agent triage 1000..1025 Unset \nbeam_agents.activation.kind=start\nbeam_agents.activation.status=completed\nbeam_agents.duration_ms=25\ngen_ai.agent.name=triage\ngen_ai.operation.name=invoke_agent",
		},
		"resume of another implementation": {
			pb.TraceEvent_ACTIVATION_END, a{"beam_agents.activation.kind": "resume"},
			"internal invoke_agent 1000..1000 Unset \nbeam_agents.activation.kind=resume\ngen_ai.operation.name=invoke_agent",
		},
		"model call": {
			pb.TraceEvent_LLM_CALL, a{"gen_ai.request.model": "m", "beam_agents.offset_ms": "5", "beam_agents.duration_ms": "7"},
			"client chat m 1005..1012 Unset \nbeam_agents.duration_ms=7\nbeam_agents.offset_ms=5\ngen_ai.operation.name=chat\ngen_ai.request.model=m",
		},
		"model call that failed": {
			pb.TraceEvent_LLM_CALL, a{"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m", "error.type": "429"},
			"client embeddings m 1000..1000 Error \nerror.type=429\ngen_ai.operation.name=embeddings\ngen_ai.request.model=m",
		},
		"request to no model": {
			pb.TraceEvent_LLM_CALL, a{"server.address": "weather.example", "server.port": "443"},
			"client request weather.example 1000..1000 Unset \nserver.address=weather.example\nserver.port=443",
		},
		"no error": {
			pb.TraceEvent_LLM_CALL, a{"error.type": ""}, "client chat 1000..1000 Unset \ngen_ai.operation.name=chat",
		},
		"tool call of another implementation": {
			pb.TraceEvent_TOOL_CALL, a{"beam_agents.tool_name": "sh"},
			"internal execute_tool sh 1000..1000 Unset \nbeam_agents.tool_name=sh\ngen_ai.operation.name=execute_tool\ngen_ai.tool.name=sh",
		},
		"subagent": {
			pb.TraceEvent_TOOL_CALL, a{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper", "beam_agents.tool_name": "helper"},
			"internal invoke_agent helper 1000..1000 Unset \nbeam_agents.tool_name=helper\ngen_ai.agent.name=helper\ngen_ai.operation.name=invoke_agent",
		},
		"intent": {
			pb.TraceEvent_INTENT_EMITTED, a{"beam_agents.tool_name": "refund", "beam_agents.intent_kind": "TOOL", "beam_agents.offset_ms": "3"},
			"producer emit_intent refund 1003..1003 Unset \nbeam_agents.intent_kind=TOOL\nbeam_agents.offset_ms=3\nbeam_agents.tool_name=refund",
		},
		"approval": {
			pb.TraceEvent_INTENT_EMITTED, a{"beam_agents.tool_name": "refund", "beam_agents.intent_kind": "APPROVAL"},
			"producer request_approval refund 1000..1000 Unset \nbeam_agents.intent_kind=APPROVAL\nbeam_agents.tool_name=refund",
		},
		"suspension": {
			pb.TraceEvent_SUSPENDED, a{"beam_agents.adapter": "triage", "beam_agents.deadline_ms": "9", "beam_agents.pending_intent_ids": "x,y"},
			"internal suspend triage 1000..1000 Unset \nbeam_agents.adapter=triage\nbeam_agents.deadline_ms=9\nbeam_agents.pending_intent_ids=[\"x\",\"y\"]",
		},
		"activation that failed": {
			pb.TraceEvent_ERROR, a{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "triage", "error.type": "panic", "beam_agents.reason": "activation_error"},
			"internal invoke_agent triage 1000..1000 Error activation_error\nbeam_agents.reason=activation_error\nerror.type=panic\ngen_ai.agent.name=triage\ngen_ai.operation.name=invoke_agent",
		},
		"suspension that ended": {
			pb.TraceEvent_ERROR, a{"error.type": "denied", "beam_agents.reason": "hitl_timeout"},
			"internal error denied 1000..1000 Error hitl_timeout\nbeam_agents.reason=hitl_timeout\nerror.type=denied",
		},
		"error without a type":   {pb.TraceEvent_ERROR, nil, "internal error 1000..1000 Error \nerror.type=_OTHER"},
		"type of a newer schema": {99, nil, "internal event 99 1000..1000 Unset "},
		"contents": {
			pb.TraceEvent_LLM_CALL, a{"gen_ai.input.messages": "[]", "gen_ai.output.messages": "[]", "gen_ai.system_instructions": "x", "gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": "y", "gen_ai.tool.definitions": "[]"},
			"client chat 1000..1000 Unset \ngen_ai.operation.name=chat",
		},
		"text": {
			pb.TraceEvent_LLM_CALL, a{"own": "\xff", "\xfe": "b", "": "c"}, "client chat 1000..1000 Unset \ngen_ai.operation.name=chat\nown=\ufffd\n\ufffd=b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &pb.TraceEvent{
				TraceId: traceID, SpanId: spanID, ParentSpanId: parentID, EntityKey: []byte("k"), Seq: 7, StepIndex: 2,
				EventType: tt.event, Attributes: tt.attributes, StartMs: 1000, EndMs: 1000,
			}
			before := proto.CloneOf(e)
			span, verdict := tracing.Span(e, tracing.Options{})
			if verdict != tracing.Mapped {
				t.Fatalf("verdict %v", verdict)
			}
			if diff := cmp.Diff(tt.want, say(span)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			own, parent := span.SpanContext(), span.Parent()
			if id := own.TraceID(); !bytes.Equal(id[:], traceID) || own.TraceID() != parent.TraceID() {
				t.Errorf("trace id %v", id)
			}
			if a, b := own.SpanID(), parent.SpanID(); !bytes.Equal(a[:], spanID) || !bytes.Equal(b[:], parentID) || !own.IsSampled() {
				t.Errorf("span %v of %v", own, parent)
			}
			of := attributesOf(span)
			if of["beam_agents.entity_key"].AsString() != "k" || of["beam_agents.seq"].AsInt64() != 7 || of["beam_agents.step"].AsInt64() != 2 {
				t.Errorf("the place of the span is %v", of)
			}
			if !proto.Equal(before, e) {
				t.Errorf("the event has changed: %v", e)
			}
		})
	}
}

// A value that does not have the type of its attribute is left out and counted.
func TestSpanDropsMistypedValues(t *testing.T) {
	e := &pb.TraceEvent{TraceId: traceID, SpanId: spanID, EventType: pb.TraceEvent_LLM_CALL, Attributes: map[string]string{
		"gen_ai.usage.input_tokens": "many", "gen_ai.usage.output_tokens": "9223372036854775808", "gen_ai.request.temperature": "warm",
		"gen_ai.response.finish_reasons": "stop", "beam_agents.cache_hit": "yes", "beam_agents.offset_ms": "-", "beam_agents.seq": "1", "fine": "x",
	}}
	span, _ := tracing.Span(e, tracing.Options{})
	if span.DroppedAttributes() != 7 || len(span.Attributes()) != 5 {
		t.Errorf("%d dropped, left are %v", span.DroppedAttributes(), span.Attributes())
	}
	for _, list := range []string{`null`, `[1]`, `{}`, `["a"`} {
		e.Attributes = map[string]string{"gen_ai.response.finish_reasons": list}
		if span, _ := tracing.Span(e, tracing.Options{}); span.DroppedAttributes() != 1 {
			t.Errorf("%s was taken for a list", list)
		}
	}
}

// Names that are not UTF-8 may become equal: the first one stays, and the others are counted.
func TestSpanHasEachNameOnce(t *testing.T) {
	e := &pb.TraceEvent{TraceId: traceID, SpanId: spanID, EventType: pb.TraceEvent_SUSPENDED, Attributes: map[string]string{
		"\xfe": "1", "\xff": "2", "\xff\xfe": "3", "a": "4",
	}}
	span, _ := tracing.Span(e, tracing.Options{})
	if got := attributesOf(span)["\ufffd"].AsString(); len(span.Attributes()) != 5 || span.DroppedAttributes() != 2 || got != "1" {
		t.Errorf("%v, of which %q stayed, %d dropped", span.Attributes(), got, span.DroppedAttributes())
	}
}

// Content attributes are exported only on request, also those that the table of conventions does
// not list.
func TestContentsElsewhere(t *testing.T) {
	for _, name := range []string{
		string(semconv.GenAIRetrievalQueryTextKey), string(semconv.GenAIRetrievalDocumentsKey),
		string(semconv.GenAIEvaluationExplanationKey), "gen_ai.prompt", "gen_ai.completion",
	} {
		e := &pb.TraceEvent{TraceId: traceID, SpanId: spanID, EventType: pb.TraceEvent_LLM_CALL, Attributes: map[string]string{name: "secret"}}
		for _, contents := range []bool{false, true} {
			span, _ := tracing.Span(e, tracing.Options{Contents: contents})
			if _, ok := attributesOf(span)[name]; ok != contents {
				t.Errorf("%s with Contents %t: %t", name, contents, ok)
			}
		}
	}
}

func TestContents(t *testing.T) {
	e := &pb.TraceEvent{TraceId: traceID, SpanId: spanID, EventType: pb.TraceEvent_LLM_CALL, Attributes: map[string]string{"gen_ai.input.messages": `[{"role":"user"}]`}}
	span, _ := tracing.Span(e, tracing.Options{Contents: true})
	if got := attributesOf(span)["gen_ai.input.messages"].AsString(); got != `[{"role":"user"}]` {
		t.Errorf("the messages that were asked for are %q", got)
	}
}

func TestVerdicts(t *testing.T) {
	for name, tt := range map[string]struct {
		trace, span, parent []byte
		want                tracing.Verdict
	}{
		"root":             {traceID, spanID, nil, tracing.Mapped},
		"child":            {traceID, spanID, parentID, tracing.Mapped},
		"no trace":         {nil, spanID, parentID, tracing.NoTrace},
		"short trace":      {traceID[:15], spanID, nil, tracing.BadIDs},
		"long trace":       {append(slices.Clone(traceID), 1), spanID, nil, tracing.BadIDs},
		"zero trace":       {make([]byte, 16), spanID, nil, tracing.BadIDs},
		"no span":          {traceID, nil, nil, tracing.BadIDs},
		"short span":       {traceID, spanID[:7], nil, tracing.BadIDs},
		"trace id as span": {traceID, traceID, nil, tracing.BadIDs},
		"zero span":        {traceID, make([]byte, 8), nil, tracing.BadIDs},
		"short parent":     {traceID, spanID, parentID[:1], tracing.BadIDs},
		"long parent":      {traceID, spanID, traceID, tracing.BadIDs},
		"zero parent":      {traceID, spanID, make([]byte, 8), tracing.BadIDs},
	} {
		e := &pb.TraceEvent{TraceId: tt.trace, SpanId: tt.span, ParentSpanId: tt.parent, EventType: pb.TraceEvent_ACTIVATION_END}
		span, verdict := tracing.Span(e, tracing.Options{})
		if verdict != tt.want || (span != nil) != (tt.want == tracing.Mapped) {
			t.Errorf("%s: verdict %v, want %v", name, verdict, tt.want)
		}
		if tt.want == tracing.Mapped && span.Parent().IsValid() != (tt.parent != nil) {
			t.Errorf("%s: parent %v", name, span.Parent())
		}
	}
	if span, verdict := tracing.Span(&pb.TraceEvent{TraceId: traceID, SpanId: spanID, EventType: pb.TraceEvent_ACTIVATION_START}, tracing.Options{}); span != nil || verdict != tracing.Covered {
		t.Errorf("START is %v", verdict)
	}
	if _, verdict := tracing.Span(nil, tracing.Options{}); verdict != tracing.NoTrace {
		t.Errorf("nil is %v", verdict)
	}
}

// Every time that an event may have, and any duration, is a span that ends after it begins.
func TestTimes(t *testing.T) {
	const latest = math.MaxInt64 / 1000000
	for _, tt := range []struct {
		start, end         int64
		offset, duration   string
		wantStart, wantEnd int64
	}{
		{1000, 1000, "", "", 1000, 1000},
		{1000, 1500, "", "", 1000, 1500},
		{1000, 1500, "", "100", 1000, 1500},
		{1000, 1000, "10", "100", 1010, 1110},
		{1500, 1000, "", "", 1500, 1500},
		{1000, 1000, "-10", "-1", 1000, 1000},
		{-5, -5, "", "10", 0, 10},
		{math.MinInt64, math.MaxInt64, "", "", 0, latest},
		{253402300799999, 253402300799999, "", "1", latest, latest},
		{1, 1, "9223372036854775807", "9223372036854775807", latest, latest},
	} {
		e := &pb.TraceEvent{TraceId: traceID, SpanId: spanID, StartMs: tt.start, EndMs: tt.end, Attributes: map[string]string{}}
		if tt.offset != "" {
			e.Attributes["beam_agents.offset_ms"] = tt.offset
		}
		if tt.duration != "" {
			e.Attributes["beam_agents.duration_ms"] = tt.duration
		}
		span, _ := tracing.Span(e, tracing.Options{})
		if got := span.StartTime().UnixNano(); got != tt.wantStart*1000000 {
			t.Errorf("%v starts at %d", e, got)
		}
		if got := span.EndTime().UnixNano(); got != tt.wantEnd*1000000 {
			t.Errorf("%v ends at %d", e, got)
		}
	}
}

func TestTraceParentIsALink(t *testing.T) {
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	e := &pb.TraceEvent{TraceId: traceID, SpanId: spanID, EventType: pb.TraceEvent_ACTIVATION_END, Attributes: map[string]string{"beam_agents.traceparent": caller}}
	span, _ := tracing.Span(e, tracing.Options{})
	if len(span.Links()) != 1 {
		t.Fatalf("links %v", span.Links())
	}
	linked := span.Links()[0].SpanContext
	if linked.TraceID().String() != caller[3:35] || linked.SpanID().String() != caller[36:52] || !linked.IsSampled() || span.Parent().IsValid() {
		t.Errorf("linked to %v, parent %v", linked, span.Parent())
	}
	if _, ok := attributesOf(span)["beam_agents.traceparent"]; ok {
		t.Error("the traceparent is an attribute, too")
	}
	for _, bad := range []string{"x", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"} {
		e.Attributes["beam_agents.traceparent"] = bad
		if span, _ := tracing.Span(e, tracing.Options{}); len(span.Links()) != 0 || attributesOf(span)["beam_agents.traceparent"].AsString() != bad {
			t.Errorf("%q became %v", bad, span.Links())
		}
	}
}

// A span depends only on its event: the same event gives the same span, with each attribute once,
// in the order of the names.
func TestSpanIsAFunction(t *testing.T) {
	names := []string{"a", "b", "error.type", "gen_ai.operation.name", "gen_ai.tool.name", "beam_agents.tool_name", "beam_agents.seq", "gen_ai.response.finish_reasons", "beam_agents.duration_ms"}
	rapid.Check(t, func(t *rapid.T) {
		e := &pb.TraceEvent{
			TraceId: traceID, SpanId: spanID, StartMs: rapid.Int64().Draw(t, "start"), EndMs: rapid.Int64().Draw(t, "end"),
			EntityKey: rapid.SliceOf(rapid.Byte()).Draw(t, "key"), EventType: pb.TraceEvent_EventType(rapid.Int32Range(-1, 9).Draw(t, "type")),
			Attributes: rapid.MapOf(rapid.SampledFrom(names), rapid.String()).Draw(t, "attributes"),
		}
		first, verdict := tracing.Span(e, tracing.Options{})
		again, _ := tracing.Span(proto.CloneOf(e), tracing.Options{})
		if verdict != tracing.Mapped {
			return
		}
		if diff := cmp.Diff(fmt.Sprint(tracetest.SpanStubFromReadOnlySpan(first)), fmt.Sprint(tracetest.SpanStubFromReadOnlySpan(again))); diff != "" {
			t.Errorf("%v is two spans:\n%s", e, diff)
		}
		keys := slices.Collect(func(yield func(string) bool) {
			for _, kv := range first.Attributes() {
				if !yield(string(kv.Key)) {
					return
				}
			}
		})
		if !slices.IsSorted(keys) || len(slices.Compact(slices.Clone(keys))) != len(keys) {
			t.Errorf("the names are %q", keys)
		}
		failed := e.GetEventType() == pb.TraceEvent_ERROR || e.GetAttributes()["error.type"] != ""
		_, typed := attributesOf(first)["error.type"]
		if status := first.Status().Code == codes.Error; status != failed || typed != failed {
			t.Errorf("failed %t, status %v, error.type %t", failed, first.Status(), typed)
		}
		if first.EndTime().Before(first.StartTime()) || first.StartTime().UnixNano() < 0 {
			t.Errorf("from %v to %v", first.StartTime(), first.EndTime())
		}
	})
}

func TestIntentContext(t *testing.T) {
	trace := intent.TraceID([]byte("k"), 7)
	span := intent.SpanID([]byte("k"), 7, "INTENT_EMITTED", 2)
	in := &pb.ToolIntent{EntityKey: []byte("k"), Seq: 7, StepIndex: 2, TraceId: trace[:]}
	got := tracing.IntentContext(in)
	if [16]byte(got.TraceID()) != trace || [8]byte(got.SpanID()) != span || !got.IsRemote() || !got.IsValid() {
		t.Errorf("%v, want %x and %x", got, trace, span)
	}
	for _, id := range [][]byte{nil, trace[:15], make([]byte, 16)} {
		if in.TraceId = id; tracing.IntentContext(in).IsValid() {
			t.Errorf("a trace id of %x is valid", id)
		}
	}
}

// Of the trace ids of package intent, which ratio samplers take none or all of, every ratio
// takes its share. A trace that a smaller ratio takes, a larger one takes.
func TestSampled(t *testing.T) {
	const n = 20000
	var before map[int]bool
	for _, ratio := range []float64{0, 0.001, 0.1, 0.5, 0.75, 0.9, 1} {
		taken := map[int]bool{}
		for i := range n {
			id := intent.TraceID([]byte("k"), int64(i))
			if tracing.Sampled(id[:], ratio) {
				taken[i] = true
			}
		}
		// Five standard deviations of a fair draw, which is no draw: the ids are fixed.
		if got, want := float64(len(taken)), ratio*n; math.Abs(got-want) > 5*math.Sqrt(n*ratio*(1-ratio)) {
			t.Errorf("ratio %v takes %v of %v", ratio, got, n)
		}
		for i := range maps.Keys(before) {
			if !taken[i] {
				t.Errorf("ratio %v leaves out what a smaller one takes", ratio)
			}
		}
		before = taken
	}
	if tracing.Sampled(traceID, math.NaN()) || tracing.Sampled(traceID, -1) {
		t.Error("NaN or -1 takes a trace")
	}
}

func ExampleIntentContext() {
	id := intent.TraceID([]byte("order-7"), 0)
	in := &pb.ToolIntent{EntityKey: []byte("order-7"), TraceId: id[:], ToolName: "refund"}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), tracing.IntentContext(in))
	fmt.Println(trace.SpanContextFromContext(ctx).TraceID())
	// Output: 5dd7278ad4c95e5c9c947c4bdafe51fd
}

func ExampleSpan() {
	span, _ := tracing.Span(&pb.TraceEvent{
		TraceId: traceID, SpanId: spanID, EventType: pb.TraceEvent_LLM_CALL, StartMs: 1000, EndMs: 1000,
		Attributes: map[string]string{"gen_ai.request.model": "claude-opus-4-8", "beam_agents.duration_ms": "1500"},
	}, tracing.Options{})
	fmt.Println(span.SpanKind(), span.Name(), span.EndTime().Sub(span.StartTime()))
	// Output: client chat claude-opus-4-8 1.5s
}

func BenchmarkSpan(b *testing.B) {
	e := &pb.TraceEvent{
		TraceId: traceID, SpanId: spanID, ParentSpanId: parentID, EventType: pb.TraceEvent_LLM_CALL, StartMs: time.Hour.Milliseconds(),
		Attributes: map[string]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "m", "gen_ai.response.model": "m",
			"gen_ai.usage.input_tokens": "1234", "gen_ai.usage.output_tokens": "567", "beam_agents.cache_hit": "false", "beam_agents.billed": "true",
			"gen_ai.response.finish_reasons": `["stop"]`,
		},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, verdict := tracing.Span(e, tracing.Options{}); verdict != tracing.Mapped {
			b.Fatal(verdict)
		}
	}
}
