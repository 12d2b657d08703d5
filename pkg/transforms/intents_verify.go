package transforms

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsVerifyFn).ProcessElement, func(f *beamagentsVerifyFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(*pb.ToolIntent), a[2].(func(*pb.ToolIntent)), a[3].(func(*pb.ActivationErrorRecord))))
	})
}

// VerifyParams are the options of [VerifyIntents]. They become part of the pipeline
// graph; a key never does.
type VerifyParams struct {
	// Mode says which intents pass. It must be set: intent.ModeRequire,
	// intent.ModePermissive, or intent.ModeOff, with which every intent passes.
	Mode intent.Mode
	// Keyring names the keyring, as each worker finds it: env:NAME or file:/path. It is
	// needed, and read, in a mode that verifies. intent.ModeOff does not read it.
	Keyring string
}

func (p VerifyParams) validate() error {
	if p.Mode == "" {
		return errors.New("VerifyParams.Mode is empty; set intent.ModeRequire or intent.ModePermissive, " +
			"or intent.ModeOff to verify nothing")
	}
	if err := p.Mode.Validate(); err != nil {
		return fmt.Errorf("VerifyParams.Mode: %w", err)
	}
	if p.Mode.Verifies() || p.Keyring != "" {
		if err := intent.CheckReference(p.Keyring); err != nil {
			return fmt.Errorf("VerifyParams.Keyring: %w; set env:NAME or file:/path of a keyring on the workers", err)
		}
	}
	return nil
}

// VerifiedIntents is the result of [VerifyIntents].
type VerifiedIntents struct {
	// Intents: PCollection<*pb.ToolIntent>, those that the mode lets pass, as they came.
	Intents beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>, with the others.
	Errors beam.PCollection
}

// VerifyIntents lets pass the intents of a PCollection<*pb.ToolIntent> whose signature
// is that of a key in the keyring, and in intent.ModePermissive also those without one.
// Each other intent is a dead letter with the outcome of its verification as reason and
// code: unsigned_intent, bad_signature or unknown_signing_key.
//
// The keyring is read on the worker, when it sets the transform up; one that cannot be
// used there fails the bundle. intent.ModeOff reads no keyring.
//
// An intent that would pass and has no encoding, which only user code in the same stage
// can hand over, is a dead letter intent_dead_letter with code serialize.
func VerifyIntents(s beam.Scope, params VerifyParams, col beam.PCollection) VerifiedIntents {
	if err := params.validate(); err != nil {
		panic(fmt.Errorf("transforms.VerifyIntents: %w", err))
	}
	intents, errs := beam.ParDo2(s.Scope("VerifyIntents"), &beamagentsVerifyFn{Mode: params.Mode, Keyring: params.Keyring}, col)
	return VerifiedIntents{Intents: intents, Errors: errs}
}

type beamagentsVerifyFn struct {
	Mode    intent.Mode
	Keyring string

	ring *intent.Keyring
}

// Setup reads the keyring.
func (f *beamagentsVerifyFn) Setup() error {
	if !f.Mode.Verifies() {
		return nil
	}
	ring, err := intent.LoadKeyring(f.Keyring)
	if err != nil {
		return fmt.Errorf("transforms.VerifyIntents: %w", err)
	}
	f.ring = ring
	return nil
}

func (f *beamagentsVerifyFn) ProcessElement(
	ctx context.Context, in *pb.ToolIntent, emit func(*pb.ToolIntent), errs func(*pb.ActivationErrorRecord),
) error {
	if !f.Mode.Verifies() {
		return passIntent(ctx, in, intentsNotVerified, emit, errs)
	}
	outcome := f.ring.Verify(in)
	switch {
	case outcome == intent.OK:
		return passIntent(ctx, in, intentsVerified, emit, errs)
	case f.Mode.Accepts(outcome):
		return passIntent(ctx, in, unsignedAccepted, emit, errs)
	}
	return deadLetterIntent(ctx, in, deadletter.Reason(outcome), deadletter.Code(outcome), refusal(outcome, in), errs)
}

// refusal says more about an outcome.
func refusal(outcome intent.Outcome, in *pb.ToolIntent) string {
	switch {
	case outcome == intent.UnsignedIntent:
		return "the intent has no signature"
	case outcome == intent.UnknownSigningKey:
		return fmt.Sprintf("the keyring has no key %q", in.GetSigningKeyId())
	case in.GetSignatureScheme() != pb.ToolIntent_HMAC_SHA256:
		return fmt.Sprintf("signature scheme %d is not HMAC_SHA256", in.GetSignatureScheme())
	}
	return fmt.Sprintf("the signature is not that of this intent with key %q", in.GetSigningKeyId())
}
