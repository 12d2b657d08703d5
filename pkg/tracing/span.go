package tracing

import (
	"cmp"
	"context"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Verdict says what [Span] made of an event.
type Verdict uint8

// The verdicts.
const (
	// Mapped: the event has become a span.
	Mapped Verdict = iota
	// Covered: the event begins a span that another event makes.
	Covered
	// NoTrace: the event has no trace id, so it belongs to no trace. This is not an error.
	NoTrace
	// BadIDs: an id has the wrong length for OpenTelemetry, or is zero.
	BadIDs
)

// Options are the options of [Span].
type Options struct {
	// Contents exports the attributes that hold what users, models and tools said. They are
	// opt-in in the conventions, so by default they are left out.
	Contents bool
	// Resource describes the origin of the spans, for example by service.name.
	Resource *resource.Resource
}

// scope is the instrumentation scope of the spans.
var scope = instrumentation.Scope{Name: "github.com/beamagents/beamagents-go/pkg/tracing", SchemaURL: SchemaURL}

// Span returns the span of an event, or nil if the verdict is not Mapped. It does not change the
// event.
func Span(e *pb.TraceEvent, o Options) (sdktrace.ReadOnlySpan, Verdict) {
	if len(e.GetTraceId()) == 0 {
		return nil, NoTrace
	}
	own, parent, ok := contexts(e)
	if !ok {
		return nil, BadIDs
	}
	if e.GetEventType() == pb.TraceEvent_ACTIVATION_START {
		return nil, Covered
	}
	s := tracetest.SpanStub{
		SpanContext: own, Parent: parent, SpanKind: kindOf(e), Name: nameOf(e),
		Resource: o.Resource, InstrumentationScope: scope,
	}
	s.StartTime, s.EndTime = times(e)
	if e.GetEventType() == pb.TraceEvent_ERROR || e.GetAttributes()[errorType] != "" {
		s.Status = sdktrace.Status{Code: codes.Error, Description: valid(e.GetAttributes()[reasonName])}
	}
	if caller := caller(e.GetAttributes()[traceparentName]); caller.IsValid() {
		s.Links = []sdktrace.Link{{SpanContext: caller}}
	}
	s.Attributes, s.DroppedAttributes = attributes(e, o.Contents)
	return s.Snapshot(), Mapped
}

// contexts returns the ids of an event. ok is false if they are invalid.
func contexts(e *pb.TraceEvent) (own, parent trace.SpanContext, ok bool) {
	if len(e.GetTraceId()) != 16 || len(e.GetSpanId()) != 8 {
		return own, parent, false
	}
	config := trace.SpanContextConfig{
		TraceID: trace.TraceID(e.GetTraceId()), SpanID: trace.SpanID(e.GetSpanId()), TraceFlags: trace.FlagsSampled,
	}
	own = trace.NewSpanContext(config)
	switch len(e.GetParentSpanId()) {
	case 0:
	case 8:
		config.SpanID = trace.SpanID(e.GetParentSpanId())
		parent = trace.NewSpanContext(config)
		if !parent.IsValid() {
			return own, parent, false
		}
	default:
		return own, parent, false
	}
	return own, parent, own.IsValid()
}

// caller returns the span of a W3C traceparent. It is invalid if the text is not a traceparent.
func caller(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx)
}

func kindOf(e *pb.TraceEvent) trace.SpanKind {
	switch e.GetEventType() {
	case pb.TraceEvent_LLM_CALL:
		return trace.SpanKindClient
	case pb.TraceEvent_INTENT_EMITTED:
		return trace.SpanKindProducer
	}
	return trace.SpanKindInternal
}

// operation returns the GenAI operation of an event, or "" if it has none.
func operation(e *pb.TraceEvent) string {
	if name := e.GetAttributes()[operationName]; name != "" {
		return name
	}
	switch e.GetEventType() {
	case pb.TraceEvent_ACTIVATION_END:
		return "invoke_agent"
	case pb.TraceEvent_LLM_CALL:
		if e.GetAttributes()[requestModel] == "" && e.GetAttributes()[serverAddress] != "" {
			return "" // the agent's HTTP client called something other than a known model API
		}
		return "chat"
	case pb.TraceEvent_TOOL_CALL:
		return "execute_tool"
	}
	return ""
}

// nameOf returns the name of a span. Names have few values, because backends group by them.
func nameOf(e *pb.TraceEvent) string {
	a := e.GetAttributes()
	var object string
	verb := operation(e)
	switch {
	case verb == "invoke_agent" || verb == "create_agent":
		object = a[agentName]
	case verb == "execute_tool":
		object = cmp.Or(a[toolName], a[ownToolName])
	case verb != "":
		object = a[requestModel]
	case e.GetEventType() == pb.TraceEvent_LLM_CALL:
		verb, object = "request", a[serverAddress]
	case e.GetEventType() == pb.TraceEvent_INTENT_EMITTED:
		verb, object = "emit_intent", a[ownToolName]
		if a[intentKindName] == pb.ToolIntent_APPROVAL.String() {
			verb = "request_approval"
		}
	case e.GetEventType() == pb.TraceEvent_SUSPENDED:
		verb, object = "suspend", a[adapterName]
	case e.GetEventType() == pb.TraceEvent_ERROR:
		verb, object = "error", a[errorType]
	default:
		verb, object = "event", strconv.Itoa(int(e.GetEventType()))
	}
	if object == "" {
		return valid(verb)
	}
	return valid(verb + " " + object)
}

// maxMS is the latest millisecond whose nanoseconds fit into an int64, which OTLP and Go use.
const maxMS = math.MaxInt64 / int64(time.Millisecond)

// times returns the start and the end of a span.
func times(e *pb.TraceEvent) (start, end time.Time) {
	first := addMS(e.GetStartMs(), milliseconds(e, offsetName))
	last := addMS(e.GetEndMs(), milliseconds(e, offsetName))
	last = max(last, addMS(first, milliseconds(e, durationName)))
	return time.UnixMilli(first).UTC(), time.UnixMilli(last).UTC()
}

// milliseconds returns the value of an attribute, or 0 if it is absent, negative or not a number.
func milliseconds(e *pb.TraceEvent, name string) int64 {
	text, ok := e.GetAttributes()[name]
	if !ok {
		return 0
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(ms, 0)
}

// addMS adds a duration of at least 0 to a time, and keeps the sum within the range of OTLP.
func addMS(at, duration int64) int64 {
	at = min(max(at, 0), maxMS)
	return at + min(duration, maxMS-at)
}

// attributes returns the attributes of a span, ordered by name, and the number of attributes
// whose value had another type.
func attributes(e *pb.TraceEvent, contents bool) (all []attribute.KeyValue, dropped int) {
	all = make([]attribute.KeyValue, 0, len(e.GetAttributes())+6)
	all = append(all, attribute.String(entityKeyName, keyText(e.GetEntityKey())),
		attribute.Int64(seqName, e.GetSeq()), attribute.Int64(stepName, int64(e.GetStepIndex())))
	if _, ok := e.GetAttributes()[operationName]; !ok {
		if name := operation(e); name != "" {
			all = append(all, attribute.String(operationName, name))
		}
	}
	if _, ok := e.GetAttributes()[toolName]; !ok && e.GetEventType() == pb.TraceEvent_TOOL_CALL && operation(e) == "execute_tool" {
		if name := e.GetAttributes()[ownToolName]; name != "" {
			all = append(all, attribute.String(toolName, valid(name)))
		}
	}
	if e.GetEventType() == pb.TraceEvent_ERROR && e.GetAttributes()[errorType] == "" {
		all = append(all, attribute.String(errorType, "_OTHER"))
	}
	for _, name := range slices.Sorted(maps.Keys(e.GetAttributes())) {
		text := e.GetAttributes()[name]
		switch {
		case name == "" || name == errorType && text == "" || isContent(name) && !contents:
			continue
		case name == entityKeyName || name == seqName || name == stepName:
			dropped++ // reserved: these names describe the origin of the span
			continue
		case name == traceparentName && caller(text).IsValid():
			continue // the traceparent becomes a link instead
		}
		value, ok := conventionOf[name].Type.value(text) // String if the attribute is unknown
		if !ok {
			dropped++
			continue
		}
		all = append(all, attribute.KeyValue{Key: attribute.Key(valid(name)), Value: value})
	}
	slices.SortStableFunc(all, func(a, b attribute.KeyValue) int { return strings.Compare(string(a.Key), string(b.Key)) })
	// Two names with invalid UTF-8 may have become equal, and OTLP allows each name once.
	once := slices.CompactFunc(all, func(a, b attribute.KeyValue) bool { return a.Key == b.Key })
	return once, dropped + len(all) - len(once)
}

func keyText(key []byte) string {
	if utf8.Valid(key) {
		return string(key)
	}
	return "0x" + hex.EncodeToString(key)
}
