package intent

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Builder holds what an intent is made of. The same Builder always builds the same
// intent.
type Builder struct {
	EntityKey []byte // may be empty
	Seq       int64  // of the activation, from 0
	Step      uint32 // of the activation at which the intent is staged, from 0
	Kind      Kind   // Tool or Approval
	Name      string // of the tool, or of the approval channel; UTF-8, not empty

	// Args is what canonjson takes, and becomes canonical JSON; a text is passed as
	// json.RawMessage. Nil is {}. The args of a tool are an object, since an effector
	// rejects everything else.
	Args any

	// CreatedAtMs is the clock of the activation, in ms of the Unix epoch.
	CreatedAtMs int64
	// ExpiresAtMs is the time from which on the intent must not be executed, in ms of
	// the Unix epoch, and above 0. It may lie before CreatedAtMs: such an intent is
	// answered as expired.
	ExpiresAtMs int64

	// TraceID of the activation. All zero stands for TraceID(EntityKey, Seq).
	TraceID [16]byte
}

// Validate reports what Build would refuse, except in Args. The error wraps
// [ErrInvalid].
func (b Builder) Validate() error {
	switch {
	case b.Kind != Tool && b.Kind != Approval:
		return fmt.Errorf("intent: %w: kind must be Tool or Approval", ErrInvalid)
	case b.Name == "":
		return fmt.Errorf("intent: %w: name is empty", ErrInvalid)
	case !utf8.ValidString(b.Name):
		return fmt.Errorf("intent: %w: name is not UTF-8", ErrInvalid)
	case b.Seq < 0:
		return fmt.Errorf("intent: %w: seq is %d, below 0", ErrInvalid, b.Seq)
	case b.ExpiresAtMs <= 0:
		return fmt.Errorf("intent: %w: expiry is %d, not above 0", ErrInvalid, b.ExpiresAtMs)
	}
	return nil
}

// Build returns the intent, unsigned. It shares no memory with b. The error wraps
// [ErrInvalid], and a *canonjson.Error where Args is at fault.
func (b Builder) Build() (*beamagentspb.ToolIntent, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	args := []byte("{}")
	if b.Args != nil {
		var err error
		if args, err = canonjson.Marshal(b.Args); err != nil {
			return nil, fmt.Errorf("intent: %w: args: %w", ErrInvalid, err)
		}
	}
	kind := beamagentspb.ToolIntent_APPROVAL
	if b.Kind == Tool {
		kind = beamagentspb.ToolIntent_TOOL
		if args[0] != '{' {
			return nil, fmt.Errorf("intent: %w: args of a tool must be a JSON object", ErrInvalid)
		}
	}
	trace := b.TraceID
	if trace == ([16]byte{}) {
		trace = TraceID(b.EntityKey, b.Seq)
	}
	return &beamagentspb.ToolIntent{
		IntentId:    ID(b.EntityKey, b.Seq, b.Step),
		EntityKey:   bytes.Clone(b.EntityKey),
		Seq:         b.Seq,
		StepIndex:   b.Step,
		ToolName:    b.Name,
		ArgsJson:    string(args),
		CreatedAtMs: b.CreatedAtMs,
		ExpiresAtMs: b.ExpiresAtMs,
		Kind:        kind,
		TraceId:     trace[:],
	}, nil
}
