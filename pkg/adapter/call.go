package adapter

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Kind says what a [Call] waits for.
type Kind string

// The kinds of call.
const (
	// ToolCall is an intent, and waits for its result.
	ToolCall Kind = "tool"
	// ApprovedToolCall asks a human, then is an intent with exactly the approved arguments,
	// and waits for its result.
	ApprovedToolCall Kind = "approved_tool"
	// Decision asks a human, and waits for nothing else.
	Decision Kind = "decision"
)

// Call is what a framework waits for.
type Call struct {
	Kind Kind   `json:"kind"`
	Tool string `json:"tool"`
	// Args are a JSON object. Nil and null are {}.
	Args json.RawMessage `json:"args"`
}

// NewCall returns a call whose args are the canonical JSON of a Go value, as of
// Activation.Act.
func NewCall(kind Kind, tool string, args any) (Call, error) {
	encoded, err := json.Marshal(args)
	if err != nil {
		return Call{}, fmt.Errorf("adapter: args of %q: %w", tool, err)
	}
	return Call{kind, tool, encoded}.canonical()
}

// canonical returns the call with its args as an intent has them. It reports what is wrong
// with a call.
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

// Equal compares two canonical calls.
func (c Call) Equal(other Call) bool {
	return c.Kind == other.Kind && c.Tool == other.Tool && string(c.Args) == string(other.Args)
}

// Answer is how a [Call] ended.
type Answer struct {
	// Approved reports that a human has approved the call.
	Approved bool `json:"approved,omitempty"`
	// Status is that of the result. It is STATUS_UNSPECIFIED where a human's decision is the
	// answer, and EXPIRED if nobody has answered in time.
	Status pb.ToolResult_Status `json:"status,omitempty"`
	// Payload is that of the result.
	Payload []byte `json:"payload,omitempty"`
	// Error is the error message of the result.
	Error string `json:"error,omitempty"`
}

// Text says the answer to a model: the payload, or a sentence about what has happened.
func (a Answer) Text() string {
	switch {
	case a.Status == pb.ToolResult_OK:
		return string(a.Payload)
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
