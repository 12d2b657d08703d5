package intent

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Builder holds the values from which an intent is built. Equal Builders build equal intents.
type Builder struct {
	EntityKey []byte // may be empty
	Seq       int64  // number of the activation, from 0
	Step      uint32 // step of the activation at which the intent is staged, from 0
	Kind      Kind   // Tool or Approval
	Name      string // name of the tool, or of the approval channel; UTF-8, not empty

	// Args is a value that canonjson takes. The intent has it as canonical JSON. Pass JSON text
	// as json.RawMessage. Nil stands for {}. The args of a tool must be an object, because an
	// effector rejects everything else.
	Args any

	// CreatedAtMs is the time of the activation, in ms since the Unix epoch.
	CreatedAtMs int64
	// ExpiresAtMs is the time at which the intent expires, in ms since the Unix epoch, above 0.
	// From then on it must not be executed. It may be before CreatedAtMs; such an intent is
	// answered as expired.
	ExpiresAtMs int64

	// TraceID is the trace id of the activation. All zeros stand for TraceID(EntityKey, Seq).
	TraceID [16]byte
}

// Validate returns an error if Build would refuse b because of a field other than Args. The error
// wraps [ErrInvalid].
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

// Build returns the unsigned intent. It shares no memory with b. The error wraps [ErrInvalid],
// and a *canonjson.Error if Args cannot be encoded.
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
