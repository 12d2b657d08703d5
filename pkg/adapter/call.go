package adapter

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Kind says what a [Call] is and what it waits for.
type Kind string

// The kinds of call.
const (
	// ToolCall stages an intent and waits for its result.
	ToolCall Kind = "tool"
	// ApprovedToolCall asks a human first. After an approval it stages an intent with exactly the
	// approved arguments, and waits for its result.
	ApprovedToolCall Kind = "approved_tool"
	// Decision asks a human and waits only for the decision.
	Decision Kind = "decision"
)

// Call is a call for which a framework waits.
type Call struct {
	Kind Kind   `json:"kind"`
	Tool string `json:"tool"`
	// Args is a JSON object. Nil and null stand for {}.
	Args json.RawMessage `json:"args"`
}

// NewCall returns a call whose arguments are the canonical JSON of args, as Activation.Act
// encodes them.
func NewCall(kind Kind, tool string, args any) (Call, error) {
	encoded, err := json.Marshal(args)
	if err != nil {
		return Call{}, fmt.Errorf("adapter: args of %q: %w", tool, err)
	}
	return Call{kind, tool, encoded}.canonical()
}

// canonical returns the call with canonical arguments, as an intent has them. It returns an error
// if the call cannot be staged.
func (c Call) canonical() (Call, error) {
	if len(c.Args) == 0 || string(c.Args) == "null" {
		c.Args = json.RawMessage("{}")
	}
	args, err := canonjson.Canonicalize(nil, c.Args)
	switch {
	case err != nil:
		return c, fmt.Errorf("adapter: args of %q: %w", c.Tool, err)
	case args[0] != '{':
		return c, fmt.Errorf("adapter: args of %q are %.100s; they must be a JSON object", c.Tool, args)
	case c.Tool == "":
		return c, errors.New("adapter: a call has no tool name")
	case c.Kind != ToolCall && c.Kind != ApprovedToolCall && c.Kind != Decision:
		return c, fmt.Errorf("adapter: the call of %q has the kind %q; use ToolCall, ApprovedToolCall or Decision", c.Tool, c.Kind)
	}
	c.Args = args
	return c, nil
}

// Equal reports whether two canonical calls are equal.
func (c Call) Equal(other Call) bool {
	return c.Kind == other.Kind && c.Tool == other.Tool && string(c.Args) == string(other.Args)
}

// Answer says how a [Call] ended.
type Answer struct {
	// Approved reports whether a human has approved the call.
	Approved bool `json:"approved,omitempty"`
	// Status is the status of the result. It is STATUS_UNSPECIFIED if the answer is a decision,
	// and EXPIRED if nobody has answered in time.
	Status pb.ToolResult_Status `json:"status,omitempty"`
	// Payload is the payload of the result.
	Payload []byte `json:"payload,omitempty"`
	// Error is the error message of the result.
	Error string `json:"error,omitempty"`
	// Unknown reports that the intent of the call was staged and that no result came in time, so
	// the call may have been made. The status is EXPIRED then. The effector of an expired intent
	// does not make the call: its result has the status EXPIRED, and Unknown is false.
	Unknown bool `json:"unknown,omitempty"`
}

// Text returns the answer as text for a model: the payload, or a sentence that says what
// happened.
func (a Answer) Text() string {
	switch {
	case a.Status == pb.ToolResult_OK:
		return string(a.Payload)
	case a.Unknown:
		return "It is not known whether the call was made: " + a.Error
	case a.Status == pb.ToolResult_EXPIRED:
		return "The call was not made: nobody answered in time."
	case a.Status == pb.ToolResult_STATUS_UNSPECIFIED && a.Approved:
		return "A human approved the call."
	case a.Status == pb.ToolResult_STATUS_UNSPECIFIED || a.Status == pb.ToolResult_REJECTED && a.Error == "":
		return "The call was not made: it was denied."
	case a.Error == "":
		return "The call failed."
	}
	return "The call failed: " + a.Error
}
