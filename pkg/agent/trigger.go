package agent

import (
	"bytes"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Kind is the kind of a trigger.
type Kind uint8

// The kinds of trigger.
const (
	// Event: an event of the key starts a fresh activation.
	Event Kind = iota + 1
	// ToolResult: a tool, or whoever executes intents, has answered an intent.
	ToolResult
	// Approval: a human has decided. See Trigger.Approved.
	Approval
	// Expired: the open intents have expired, so none of them can be answered any more, and the
	// deadline of the suspension has not been reached.
	Expired
	// TimedOut: the suspension has reached its deadline, and the agent's TimeoutPolicy
	// returned Resume.
	TimedOut
)

var kindNames = [...]string{"unknown", "event", "tool_result", "approval", "expired", "timed_out"}

// String returns "event", "tool_result", "approval", "expired" or "timed_out".
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		k = 0
	}
	return kindNames[k]
}

// MarshalText returns the text of String.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Trigger is what an activation runs for.
type Trigger struct {
	Kind Kind
	// Event is the event, for the kind Event.
	Event []byte
	// Result is the answer, for the kind ToolResult. Check its status: the call may have failed.
	Result *pb.ToolResult
	// Approved, Approver and DecidedAtMS are the decision, for the kind Approval. This library
	// does not verify Approver. DecidedAtMS is in ms since the Unix epoch.
	Approved    bool
	Approver    string
	DecidedAtMS int64
	// Intent is the intent that a ToolResult or an Approval answers, as it is kept in state. If
	// the answer is to an escalation, Intent is the approval that was escalated.
	Intent *pb.ToolIntent
	// ExpiredIDs are the ids of the expired intents, in ascending order, for the kind Expired.
	ExpiredIDs []string
}

// Bytes returns the event, or the payload of the result, or nil for other kinds.
func (t Trigger) Bytes() []byte {
	switch t.Kind {
	case Event:
		return t.Event
	case ToolResult:
		return t.Result.GetPayload()
	}
	return nil
}

// JSON decodes Bytes into the value that v points to. Member names are case-sensitive. A
// duplicate name, or text that is not UTF-8, is an error.
func (t Trigger) JSON(v any) error {
	if t.Kind != Event && t.Kind != ToolResult {
		return fmt.Errorf("agent: a trigger of kind %v has no JSON", t.Kind)
	}
	if err := decodeJSON(t.Bytes(), v); err != nil {
		return fmt.Errorf("agent: the %v: %w", t.Kind, err)
	}
	return nil
}

// clone returns a trigger that shares no memory with t.
func (t Trigger) clone() Trigger {
	t.Event = bytes.Clone(t.Event)
	t.ExpiredIDs = slices.Clone(t.ExpiredIDs)
	if t.Result != nil {
		t.Result = proto.CloneOf(t.Result)
	}
	if t.Intent != nil {
		t.Intent = proto.CloneOf(t.Intent)
	}
	return t
}
