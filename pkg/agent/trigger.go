package agent

import (
	"bytes"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Kind tells the triggers apart.
type Kind uint8

// The kinds of trigger.
const (
	// Event: a fresh activation for an event of the key.
	Event Kind = iota + 1
	// ToolResult: an intent was answered by a tool, or by whoever executes intents.
	ToolResult
	// Approval: a human has decided. See Trigger.Approved.
	Approval
	// Expired: no open intent can be answered any more, and the deadline of the
	// suspension is still ahead.
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
	// Event are the bytes of an Event.
	Event []byte
	// Result is the answer of a ToolResult. Look at its status: the call may have failed.
	Result *pb.ToolResult
	// Approved, Approver and DecidedAtMS are the decision of an Approval. Approver is not
	// verified by this library.
	Approved    bool
	Approver    string
	DecidedAtMS int64
	// Intent is what a ToolResult or an Approval answers, as it is kept in state. For the
	// answer to an escalation it is the approval that was escalated.
	Intent *pb.ToolIntent
	// ExpiredIDs are the ids of the intents of Expired, in ascending order.
	ExpiredIDs []string
}

// Bytes returns the event, or the payload of the result, or nil.
func (t Trigger) Bytes() []byte {
	switch t.Kind {
	case Event:
		return t.Event
	case ToolResult:
		return t.Result.GetPayload()
	}
	return nil
}

// JSON decodes Bytes into the value that v points to. Names of members are case-sensitive,
// and a text with a duplicate name, or that is not UTF-8, is an error.
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
