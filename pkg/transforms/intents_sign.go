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
	registerDoFn((*beamagentsSignFn).ProcessElement, func(f *beamagentsSignFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(*pb.ToolIntent), a[2].(func(*pb.ToolIntent)), a[3].(func(*pb.ActivationErrorRecord))))
	})
}

// SignParams are the options of [SignIntents]. Both fields are required. They become part of the
// pipeline graph, which everyone who can see the job can read. The key itself is never in the
// graph.
type SignParams struct {
	// Keyring is the reference with which each worker finds the keyring: env:NAME or file:/path.
	Keyring string
	// KeyID is the id of the key, in the keyring, that signs.
	KeyID string
}

func (p SignParams) validate() error {
	if err := intent.CheckReference(p.Keyring); err != nil {
		return fmt.Errorf("SignParams.Keyring: %w; set env:NAME or file:/path of a keyring on the workers", err)
	}
	if p.KeyID == "" {
		return errors.New("SignParams.KeyID is empty; set the id of a key in the keyring")
	}
	// The parser of keyrings decides which ids are valid, so parse a keyring with this id.
	ring, err := intent.ParseKeyring(p.KeyID + "=AAAAAAAAAAAAAAAAAAAAAA==") // 16 zero bytes, the shortest key
	if err == nil {
		_, err = intent.NewSigner(ring, p.KeyID)
	}
	if err != nil {
		return fmt.Errorf("SignParams.KeyID: no keyring can hold this id: it is one line of UTF-8, "+
			"without control characters and %q, without white space at its ends, and does not start with %q", "=", "#")
	}
	return nil
}

// SignedIntents is the result of [SignIntents].
type SignedIntents struct {
	// Intents: PCollection<*pb.ToolIntent>, signed copies.
	Intents beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>, with the intents that could not be signed.
	Errors beam.PCollection
}

// SignIntents signs each intent of a PCollection<*pb.ToolIntent>. It replaces an existing
// signature.
//
// A worker reads the keyring when it sets the transform up. If the keyring or the key is missing
// there, the bundle fails, and the job stops instead of sending intents that nobody accepts. A
// key that is replaced under its id is used by workers that start later. To rotate keys, see
// [intent.NewSigner].
//
// An intent that is nil or has text that is not UTF-8 is a dead letter intent_dead_letter with
// code sign. Only user code that is fused with SignIntents can hand one over.
func SignIntents(s beam.Scope, params SignParams, col beam.PCollection) SignedIntents {
	if err := params.validate(); err != nil {
		panic(fmt.Errorf("transforms.SignIntents: %w", err))
	}
	intents, errs := beam.ParDo2(s.Scope("SignIntents"), &beamagentsSignFn{Keyring: params.Keyring, KeyID: params.KeyID}, col)
	return SignedIntents{Intents: intents, Errors: errs}
}

type beamagentsSignFn struct {
	Keyring string
	KeyID   string

	signer *intent.Signer
}

// Setup reads the keyring and finds the key.
func (f *beamagentsSignFn) Setup() error {
	ring, err := intent.LoadKeyring(f.Keyring)
	if err == nil {
		f.signer, err = intent.NewSigner(ring, f.KeyID)
	}
	if err != nil {
		return fmt.Errorf("transforms.SignIntents: %w", err)
	}
	return nil
}

func (f *beamagentsSignFn) ProcessElement(
	ctx context.Context, in *pb.ToolIntent, emit func(*pb.ToolIntent), errs func(*pb.ActivationErrorRecord),
) error {
	signed, err := f.signer.Sign(in)
	if err != nil {
		return deadLetterIntent(ctx, in, deadletter.IntentDeadLetter, deadletter.Sign, err.Error(), errs)
	}
	intentsSigned.Inc(ctx, 1)
	emit(signed)
	return nil
}
