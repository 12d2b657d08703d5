package agenttest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Result holds what a step of a test has emitted, each kind in order.
type Result struct {
	Outputs   []Output
	Intents   []*pb.ToolIntent
	Traces    []*pb.TraceEvent
	Snapshots []*pb.StateSnapshot
	// Errors are the dead letters.
	Errors []deadletter.Letter

	t     testing.TB
	lines []string
}

// Output is an output of the agent, or of a timeout.
type Output struct {
	Key   string
	AtMS  int64 // event time, in ms since the Unix epoch
	Value []byte
}

func (r *Result) add(key string, effects []activation.Effect) {
	r.t.Helper()
	for _, e := range effects {
		r.lines = append(r.lines, effectLine(key, e))
		switch {
		case e.Intent != nil:
			r.Intents = append(r.Intents, e.Intent)
		case e.Trace != nil:
			r.Traces = append(r.Traces, e.Trace)
		case e.Snapshot != nil:
			r.Snapshots = append(r.Snapshots, e.Snapshot)
		case e.Error != nil:
			letter, err := deadletter.Read(e.Error)
			if err != nil {
				r.t.Fatalf("agenttest: key %q: a dead letter cannot be read: %v", key, err)
			}
			r.Errors = append(r.Errors, letter)
		default:
			r.Outputs = append(r.Outputs, Output{Key: key, AtMS: e.AtMS, Value: bytes.Clone(e.Output)})
		}
	}
}

// Intent returns the only intent for a tool. It fails the test if there is not exactly one.
func (r Result) Intent(tool string) *pb.ToolIntent {
	r.t.Helper()
	var found []*pb.ToolIntent
	for _, in := range r.Intents {
		if in.GetToolName() == tool {
			found = append(found, in)
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("agenttest: there are %d intents for the tool %q, want 1; this went out:\n%v", len(found), tool, r)
	}
	return found[0]
}

// OutputJSON decodes the only output into the value that v points to. It fails the test if there
// is not exactly one output, or if it cannot be decoded. Member names are case-sensitive.
func (r Result) OutputJSON(v any) {
	r.t.Helper()
	if len(r.Outputs) != 1 {
		r.t.Fatalf("agenttest: there are %d outputs, want 1; this went out:\n%v", len(r.Outputs), r)
	}
	value := r.Outputs[0].Value
	if err := (agent.Trigger{Kind: agent.Event, Event: value}).JSON(v); err != nil {
		r.t.Fatalf("agenttest: the output %q cannot be decoded into %T; this went out:\n%v", value, v, r)
	}
}

// DeadLetter returns the only dead letter. It fails the test if there is not exactly one.
func (r Result) DeadLetter() deadletter.Letter {
	r.t.Helper()
	if len(r.Errors) != 1 {
		r.t.Fatalf("agenttest: there are %d dead letters, want 1; this went out:\n%v", len(r.Errors), r)
	}
	return r.Errors[0]
}

// String describes everything that went out, in order, one line each, for people.
func (r Result) String() string {
	if len(r.lines) == 0 {
		return "  nothing"
	}
	return "  " + strings.Join(r.lines, "\n  ")
}

// effectLine describes an effect in one line.
func effectLine(key string, e activation.Effect) string {
	at := fmt.Sprintf("%s key %q", timeText(e.AtMS), key)
	switch {
	case e.Intent != nil:
		kind := "intent"
		if intent.KindOf(e.Intent) == intent.Approval {
			kind = "request for approval"
		}
		return fmt.Sprintf("%s: %s of %s %s", at, kind, e.Intent.GetToolName(), short(e.Intent.GetArgsJson()))
	case e.Trace != nil:
		return fmt.Sprintf("%s: trace event %v", at, e.Trace.GetEventType())
	case e.Snapshot != nil:
		return at + ": snapshot of the state"
	case e.Error != nil:
		letter, err := deadletter.Read(e.Error)
		if err != nil {
			return fmt.Sprintf("%s: dead letter %s: %v", at, e.Error.GetReason(), err)
		}
		return fmt.Sprintf("%s: dead letter %s/%s: %s", at, letter.Reason, letter.Code, letter.Error)
	}
	return fmt.Sprintf("%s: output %s", at, short(string(e.Output)))
}

// timeText formats a time in ms for people.
func timeText(ms int64) string {
	if ms > deadletter.MaxEventTimeMS {
		return fmt.Sprintf("%d ms", ms)
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// short bounds the length of a text, and quotes it if it is not plain.
func short(s string) string {
	const most = 200
	if len(s) > most {
		return fmt.Sprintf("%.*q... (%d bytes)", most, s, len(s))
	}
	if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == '\ufffd' }) || s == "" {
		return fmt.Sprintf("%q", s)
	}
	return s
}
