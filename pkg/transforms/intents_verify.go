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

// VerifyParams are the options of [VerifyIntents]. They become part of the pipeline graph, but no
// key does.
type VerifyParams struct {
	// Mode is required and says which intents pass: intent.ModeRequire, intent.ModePermissive, or
	// intent.ModeOff, in which every intent passes.
	Mode intent.Mode
	// Keyring is the reference with which each worker finds the keyring: env:NAME or file:/path.
	// It is required unless Mode is intent.ModeOff, which does not read it.
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
	// Intents: PCollection<*pb.ToolIntent>, the intents that pass, unchanged.
	Intents beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>, with the intents that do not pass.
	Errors beam.PCollection
}

// VerifyIntents checks the signature of each intent of a PCollection<*pb.ToolIntent>. An intent
// passes if a key of the keyring has signed it. In intent.ModePermissive an unsigned intent
// passes, too. Every other intent is a dead letter whose reason and code are the outcome of the
// verification: unsigned_intent, bad_signature or unknown_signing_key.
//
// A worker reads the keyring when it sets the transform up. If the keyring cannot be used there,
// the bundle fails. With intent.ModeOff no keyring is read.
//
// An intent that would pass but cannot be encoded is a dead letter intent_dead_letter with code
// serialize. Only user code that is fused with VerifyIntents can hand one over.
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

// refusal explains an outcome in the error of a dead letter.
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
