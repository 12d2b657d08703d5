package collector_test

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// received is a span with its resource and scope.
type received struct {
	span     ptrace.Span
	service  string
	scope    string
	schema   string
	resource pcommon.Map
}

func spansOf(sink *consumertest.TracesSink) (all []received) {
	for _, traces := range sink.AllTraces() {
		for _, r := range traces.ResourceSpans().All() {
			service, _ := r.Resource().Attributes().Get("service.name")
			for _, s := range r.ScopeSpans().All() {
				for _, span := range s.Spans().All() {
					all = append(all, received{span, service.AsString(), s.Scope().Name(), s.SchemaUrl(), r.Resource().Attributes()})
				}
			}
		}
	}
	return all
}

func idOf(trace, span []byte) string { return fmt.Sprintf("%x/%x", trace, span) }

func (r received) id() string {
	trace, span := r.span.TraceID(), r.span.SpanID()
	return idOf(trace[:], span[:])
}

// The spans of a job arrive with the ids, parents, times and attributes of its events. A second run
// of the job, like a retry of all its bundles, sends the same ids and no others.
func TestCollectorReceivesTheTracesOfAJob(t *testing.T) {
	model := serveModel(t)
	for _, protocol := range []string{grpc, http} {
		t.Run(protocol, func(t *testing.T) {
			address, sink := collect(t, protocol)
			first := job(t, model, 512, exportTo(protocol, address)...)
			spans := spansOf(sink)
			checkSpans(t, first, spans)
			checkChat(t, spans)
			checkActivation(t, spans)
			checkModelCall(t, spans, model)

			sink.Reset()
			job(t, model, 512, exportTo(protocol, address)...)
			if diff := cmp.Diff(identities(spans), identities(spansOf(sink))); diff != "" {
				t.Errorf("a second run sends (-first +second):\n%s", diff)
			}
		})
	}
}

// The examples export when the environment names a collector.
func TestExamplesExport(t *testing.T) {
	for example, want := range map[string]string{"quickstart": "request_approval refund", "events": "execute_tool bash"} {
		address, sink := collect(t, http)
		cmd := exec.Command("go", "run", "./examples/"+example, "--input", "examples/"+example+"/sample/sample.jsonl", "--out", t.TempDir())
		cmd.Dir, cmd.Env = "../..", append(os.Environ(), exportTo(http, address)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", example, err, out)
		}
		if !slices.ContainsFunc(spansOf(sink), func(r received) bool { return r.span.Name() == want }) {
			t.Errorf("%s has not sent a span %q", example, want)
		}
	}
}

// checkSpans compares the spans with the events. Each event is a span, except ACTIVATION_START.
func checkSpans(t *testing.T, r result, spans []received) {
	t.Helper()
	byID := map[string]received{}
	for _, s := range spans {
		if _, again := byID[s.id()]; again {
			t.Errorf("span %s has arrived twice", s.id())
		}
		byID[s.id()] = s
	}
	types := map[pb.TraceEvent_EventType]int{}
	want := 0
	for _, e := range r.events {
		types[e.GetEventType()]++
		s, found := byID[idOf(e.GetTraceId(), e.GetSpanId())]
		if !found {
			t.Errorf("no span of %v", e)
			continue
		}
		if parent := e.GetParentSpanId(); len(parent) > 0 {
			if _, found := byID[idOf(e.GetTraceId(), parent)]; !found {
				t.Errorf("the parent of %s has not arrived", s.id())
			}
		}
		if e.GetEventType() == pb.TraceEvent_ACTIVATION_START {
			continue
		}
		want++
		checkSpan(t, e, s)
	}
	if len(spans) != want || r.counts["spans_exported"] != int64(want) || r.counts["spans_dropped"]+r.counts["export_failures"] != 0 {
		t.Errorf("%d spans of %d events have arrived; counters %v", len(spans), want, r.counts)
	}
	for _, one := range []pb.TraceEvent_EventType{1, 2, 3, 4, 5, 6, 7} {
		if types[one] == 0 {
			t.Errorf("the job has no event %v", one)
		}
	}
}

var kinds = map[pb.TraceEvent_EventType]ptrace.SpanKind{
	pb.TraceEvent_LLM_CALL:       ptrace.SpanKindClient,
	pb.TraceEvent_TOOL_CALL:      ptrace.SpanKindInternal,
	pb.TraceEvent_INTENT_EMITTED: ptrace.SpanKindProducer,
	pb.TraceEvent_ACTIVATION_END: ptrace.SpanKindInternal,
	pb.TraceEvent_ERROR:          ptrace.SpanKindInternal,
	pb.TraceEvent_SUSPENDED:      ptrace.SpanKindInternal,
}

// valueTypes are the types of attributes. All others are text.
var valueTypes = map[string]pcommon.ValueType{
	"gen_ai.usage.input_tokens":            pcommon.ValueTypeInt,
	"gen_ai.usage.output_tokens":           pcommon.ValueTypeInt,
	"gen_ai.usage.cache_read.input_tokens": pcommon.ValueTypeInt,
	"gen_ai.response.finish_reasons":       pcommon.ValueTypeSlice,
	"server.port":                          pcommon.ValueTypeInt,
	"beam_agents.seq":                      pcommon.ValueTypeInt,
	"beam_agents.step":                     pcommon.ValueTypeInt,
	"beam_agents.turn":                     pcommon.ValueTypeInt,
	"beam_agents.exit_code":                pcommon.ValueTypeInt,
	"beam_agents.deadline_ms":              pcommon.ValueTypeInt,
	"beam_agents.expires_at_ms":            pcommon.ValueTypeInt,
	"beam_agents.duration_ms":              pcommon.ValueTypeInt,
	"beam_agents.offset_ms":                pcommon.ValueTypeInt,
	"beam_agents.activation.started_ms":    pcommon.ValueTypeInt,
	"beam_agents.failure.step":             pcommon.ValueTypeInt,
	"beam_agents.failure.staged_intents":   pcommon.ValueTypeInt,
	"beam_agents.failure.llm_calls":        pcommon.ValueTypeInt,
	"beam_agents.incomplete":               pcommon.ValueTypeBool,
	"beam_agents.cache_hit":                pcommon.ValueTypeBool,
	"beam_agents.billed":                   pcommon.ValueTypeBool,
	"beam_agents.pending_intent_ids":       pcommon.ValueTypeSlice,
}

func checkSpan(t *testing.T, e *pb.TraceEvent, s received) {
	t.Helper()
	parent := s.span.ParentSpanID()
	if want := e.GetParentSpanId(); len(want) == 0 && !parent.IsEmpty() || len(want) > 0 && !bytes.Equal(parent[:], want) {
		t.Errorf("%s has the parent %x, want %x", s.id(), parent, want)
	}
	if s.span.Kind() != kinds[e.GetEventType()] {
		t.Errorf("%s of a %v is of kind %v", s.id(), e.GetEventType(), s.span.Kind())
	}
	attributes := s.span.Attributes().AsRaw()
	offset, _ := attributes["beam_agents.offset_ms"].(int64)
	duration, _ := attributes["beam_agents.duration_ms"].(int64)
	start := e.GetStartMs() + offset
	end := max(e.GetEndMs()+offset, start+duration)
	if s.span.StartTimestamp() != pcommon.Timestamp(start*1e6) || s.span.EndTimestamp() != pcommon.Timestamp(end*1e6) {
		t.Errorf("%s is from %d to %d, want %d to %d ms", s.id(), s.span.StartTimestamp(), s.span.EndTimestamp(), start, end)
	}
	failed := e.GetEventType() == pb.TraceEvent_ERROR || e.GetAttributes()["error.type"] != ""
	if _, named := attributes["error.type"]; named != failed || (s.span.Status().Code() == ptrace.StatusCodeError) != failed {
		t.Errorf("%s: status %v, attributes %v", s.id(), s.span.Status().Code(), attributes)
	}
	for name := range e.GetAttributes() {
		if _, found := attributes[name]; !found && name != "beam_agents.traceparent" {
			t.Errorf("%s lacks %s", s.id(), name)
		}
	}
	for name, v := range s.span.Attributes().All() {
		want, typed := valueTypes[name]
		if !typed {
			want = pcommon.ValueTypeStr
		}
		if v.Type() != want {
			t.Errorf("%s: %s is a %v, want a %v", s.id(), name, v.Type(), want)
		}
	}
	if s.service != "refunds-job" || s.scope != "github.com/beamagents/beamagents-go/pkg/tracing" || s.schema != "https://opentelemetry.io/schemas/1.41.0" {
		t.Errorf("%s comes from %+v", s.id(), s)
	}
}

func find(t *testing.T, spans []received, trace [16]byte, name string) (found []received) {
	t.Helper()
	for _, s := range spans {
		if s.span.TraceID() == trace && s.span.Name() == name {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		t.Fatalf("trace %x has no span %q", trace, name)
	}
	return found
}

// checkChat checks a model call of the recorded sessions, value by value.
func checkChat(t *testing.T, spans []received) {
	t.Helper()
	var chat ptrace.Span
	for _, s := range spans {
		if s.span.Name() == "chat" && s.span.StartTimestamp() == 1700000000049_000_000 {
			chat = s.span
		}
	}
	if chat == (ptrace.Span{}) {
		t.Fatal("the first turn of fix-login has not arrived")
	}
	want := map[string]any{
		"beam_agents.entity_key": "fix-login", "beam_agents.seq": int64(0), "beam_agents.step": int64(1), "beam_agents.turn": int64(1),
		"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": int64(2100), "gen_ai.usage.cache_read.input_tokens": int64(1050),
		"gen_ai.usage.output_tokens": int64(180),
	}
	if diff := cmp.Diff(want, chat.Attributes().AsRaw()); diff != "" {
		t.Errorf("the attributes of a chat (-want +got):\n%s", diff)
	}
	if chat.EndTimestamp()-chat.StartTimestamp() != 5731_000_000 {
		t.Errorf("the chat took %d ns", chat.EndTimestamp()-chat.StartTimestamp())
	}
}

// checkActivation checks the trace of an order that a human approves: ids that other
// programs can derive, a link to the caller, and resumed attempts in the same trace.
func checkActivation(t *testing.T, spans []received) {
	t.Helper()
	trace, first := intent.TraceID([]byte("bob"), 0), intent.SpanID([]byte("bob"), 0, intent.RoleActivation, 0)
	attempts := find(t, spans, trace, "invoke_agent refunds")
	if len(attempts) != 3 {
		t.Fatalf("%d attempts have arrived, want 3", len(attempts))
	}
	for _, a := range attempts {
		switch a.span.SpanID() {
		case first:
			if n := a.span.Links().Len(); n != 1 {
				t.Fatalf("the first attempt has %d links", n)
			}
			link := a.span.Links().At(0)
			if got := fmt.Sprintf("00-%s-%s-01", link.TraceID(), link.SpanID()); got != caller {
				t.Errorf("it is linked to %s", got)
			}
		default:
			if a.span.ParentSpanID() != first {
				t.Errorf("a resumed attempt has the parent %s", a.span.ParentSpanID())
			}
		}
	}
	asked := find(t, spans, trace, "request_approval refund")[0].span
	if asked.SpanID() != intent.SpanID([]byte("bob"), 0, "INTENT_EMITTED", 0) || asked.ParentSpanID() != first {
		t.Errorf("the request has the id %s and the parent %s", asked.SpanID(), asked.ParentSpanID())
	}
}

// checkModelCall checks the model call of the agent, value by value. It also checks that the spans
// do not contain the texts of the call.
func checkModelCall(t *testing.T, spans []received, model string) {
	t.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(model, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	calls := find(t, spans, intent.TraceID([]byte("bob"), 0), "chat judge-1")
	call := calls[0].span
	if first := intent.SpanID([]byte("bob"), 0, intent.RoleActivation, 0); len(calls) != 1 || call.ParentSpanID() != first {
		t.Errorf("%d calls, the first below %s", len(calls), call.ParentSpanID())
	}
	got := call.Attributes().AsRaw()
	for _, measured := range []string{"beam_agents.duration_ms", "beam_agents.offset_ms"} {
		if _, found := got[measured]; !found {
			t.Errorf("the call lacks %s", measured)
		}
		delete(got, measured)
	}
	want := map[string]any{
		"beam_agents.entity_key": "bob", "beam_agents.seq": int64(0), "beam_agents.step": int64(0),
		"beam_agents.billed": true, "beam_agents.cache_hit": false,
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "judge-1",
		"gen_ai.response.model": "judge-1-2026", "gen_ai.response.id": "answer-1", "gen_ai.response.finish_reasons": []any{"stop"},
		"gen_ai.usage.input_tokens": int64(1200), "gen_ai.usage.cache_read.input_tokens": int64(1000), "gen_ai.usage.output_tokens": int64(80),
		"server.address": host, "server.port": number,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the attributes of a model call (-want +got):\n%s", diff)
	}
	for _, s := range spans {
		for name, value := range s.span.Attributes().AsRaw() {
			if strings.Contains(fmt.Sprint(value), secret) {
				t.Errorf("%s: %s is %v", s.id(), name, value)
			}
		}
	}
}

// identities are the parts of the spans by which a backend tells them apart, without measured
// values.
func identities(spans []received) []string {
	var all []string
	for _, s := range spans {
		attributes := s.span.Attributes().AsRaw()
		delete(attributes, "beam_agents.duration_ms")
		delete(attributes, "beam_agents.offset_ms")
		text := fmt.Sprintf("%s parent %s %s %v", s.id(), s.span.ParentSpanID(), s.span.Name(), s.span.Kind())
		for _, name := range slices.Sorted(maps.Keys(attributes)) {
			text += fmt.Sprintf(" %s=%v", name, attributes[name])
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}
