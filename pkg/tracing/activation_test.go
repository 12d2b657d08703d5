package tracing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	"github.com/beamagents/beamagents-go/pkg/tracing"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// caller asks for an approval, waits, calls a tool, and hands its work to another agent.
type caller struct{}

func (*caller) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	switch t := act.Trigger(); t.Kind {
	case agent.Event:
		if string(t.Event) == "fail" {
			return agent.Outcome{}, fmt.Errorf("no")
		}
		return agent.Suspend(nil, time.Hour), act.RequestApproval("refund", map[string]any{"cents": 1})
	case agent.Approval:
		return agent.Suspend(nil, time.Hour), act.ActApproved()
	case agent.ToolResult:
		return agent.Done(), act.Emit([]byte(act.TraceParent()))
	}
	return agent.Done(), nil
}

func (*caller) TimeoutPolicy(t agent.Timeout) agent.Route {
	if t.Escalations == 0 {
		return agent.Escalate("boss", time.Hour, 1)
	}
	return agent.Deny(nil)
}

// called is linked to the trace that its event names.
type called struct{}

func (*called) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

func (*called) TraceParent(event []byte) string { return string(event) }

// tree are spans as lines, each under its parent, in the order in which they came. It fails
// the test if a parent is not there, or an id is there twice.
func tree(t *testing.T, spans []sdktrace.ReadOnlySpan) string {
	t.Helper()
	depth := map[string]int{}
	var text strings.Builder
	for _, s := range spans {
		depth[s.SpanContext().TraceID().String()+s.SpanContext().SpanID().String()] = 0
	}
	if len(depth) != len(spans) {
		t.Errorf("%d spans have %d ids", len(spans), len(depth))
	}
	for _, s := range spans {
		id, level := s.SpanContext().TraceID().String(), 0
		if s.Parent().IsValid() {
			above, ok := depth[id+s.Parent().SpanID().String()]
			if !ok {
				t.Errorf("the parent of %s is not exported", s.Name())
			}
			level = above + 1
		}
		fmt.Fprintf(&text, "%d %s\n", level, s.Name())
	}
	return text.String()
}

func mapped(t *testing.T, results ...agenttest.Result) (spans []sdktrace.ReadOnlySpan) {
	t.Helper()
	for _, r := range results {
		for _, e := range r.Traces {
			switch span, verdict := tracing.Span(e, tracing.Options{}); verdict {
			case tracing.Mapped:
				spans = append(spans, span)
			case tracing.Covered:
			default:
				t.Errorf("verdict %v of %v", verdict, e)
			}
		}
	}
	return spans
}

// An activation that waits three days for an answer, with an escalation, is one trace. Its later
// attempts are children of the first attempt, at their own times.
func TestResumedActivationIsOneTrace(t *testing.T) {
	r := agenttest.New(t, agenttest.AgentParams{Name: "caller", Agent: new(caller)})
	k := r.Key("k")
	first := k.Event("go")
	escalated := r.Wait(90 * time.Minute)
	approved := k.Approve(escalated.Intent("refund"), "boss")
	done := k.Answer(approved.Intent("refund"), pb.ToolResult_OK, nil)
	spans := mapped(t, first, escalated, approved, done)
	want := "1 request_approval refund\n1 suspend caller\n0 invoke_agent caller\n1 request_approval refund\n" +
		"1 emit_intent refund\n1 suspend caller\n1 invoke_agent caller\n1 invoke_agent caller\n"
	if diff := cmp.Diff(want, tree(t, spans)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	root, last := spans[2], spans[len(spans)-1]
	for _, s := range spans {
		if s.SpanContext().TraceID() != root.SpanContext().TraceID() {
			t.Errorf("%s is in another trace", s.Name())
		}
	}
	if got := last.StartTime().Sub(root.StartTime()); got < 90*time.Minute || !last.EndTime().Equal(last.StartTime()) {
		t.Errorf("the last attempt begins %v after the first and ends %v", got, last.EndTime())
	}
	if got := attributesOf(last)["beam_agents.activation.started_ms"].AsInt64(); got != root.StartTime().UnixMilli() {
		t.Errorf("it says that the first began at %d", got)
	}
	// The intent names its own span for the program that executes it.
	intended := tracing.IntentContext(approved.Intent("refund"))
	if intended.SpanID() != spans[4].SpanContext().SpanID() || intended.TraceID() != root.SpanContext().TraceID() {
		t.Errorf("the intent names %v, its span is %v", intended, spans[4].SpanContext())
	}

	// The output carries the trace on: the activation of another agent is linked to it.
	other := agenttest.New(t, agenttest.AgentParams{Name: "called", Agent: new(called)})
	linked := mapped(t, other.Key("x").Event(string(done.Outputs[0].Value)))
	if len(linked) != 1 || len(linked[0].Links()) != 1 {
		t.Fatalf("%v", linked)
	}
	if to := linked[0].Links()[0].SpanContext; to.SpanID() != last.SpanContext().SpanID() || to.TraceID() != root.SpanContext().TraceID() {
		t.Errorf("linked to %v, want %v", to, last.SpanContext())
	}
}

// A suspension that ends at a deadline, and an activation that fails, have a place in the trace and
// an error status.
func TestFailuresAreInTheTrace(t *testing.T) {
	r := agenttest.New(t, agenttest.AgentParams{Name: "caller", Agent: new(caller)})
	first := r.Key("k").Event("go")
	ended := r.Wait(72 * time.Hour)
	failed := r.Key("k").Event("fail")
	spans := mapped(t, first, ended, failed)
	want := "1 request_approval refund\n1 suspend caller\n0 invoke_agent caller\n1 request_approval refund\n1 error denied\n0 invoke_agent caller\n"
	if diff := cmp.Diff(want, tree(t, spans)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var errors []string
	for _, s := range spans {
		if kind, ok := attributesOf(s)["error.type"]; ok != (s.Status().Code.String() == "Error") {
			t.Errorf("%s: error.type %v, status %v", s.Name(), kind, s.Status())
		} else if ok {
			errors = append(errors, s.Status().Description+" "+kind.AsString())
		}
	}
	if diff := cmp.Diff([]string{"hitl_timeout denied", "activation_error error"}, errors); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
