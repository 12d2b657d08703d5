package transforms

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsRouteFn).ProcessElement, func(f *beamagentsRouteFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].([]byte), a[2].(*pb.AgentEnvelope),
			a[3].(func([]byte, []byte)), a[4].(func([]byte, *pb.ToolResult)), a[5].(func([]byte, *pb.AgentEnvelope_Approval)),
			a[6].(func([]byte, *pb.AgentEnvelope_StateExportRequest)), a[7].(func(*pb.ActivationErrorRecord))))
	})
	register.Emitter2[[]byte, []byte]()
	register.Emitter2[[]byte, *pb.ToolResult]()
	register.Emitter2[[]byte, *pb.AgentEnvelope_Approval]()
	register.Emitter2[[]byte, *pb.AgentEnvelope_StateExportRequest]()
}

// Routed is the result of [Route]. Every element is at its input's timestamp.
type Routed struct {
	// Events: PCollection<KV<[]byte, []byte>>, the opaque bytes of external_event.
	Events beam.PCollection
	// ToolResults: PCollection<KV<[]byte, *pb.ToolResult>>.
	ToolResults beam.PCollection
	// Approvals: PCollection<KV<[]byte, *pb.AgentEnvelope_Approval>>.
	Approvals beam.PCollection
	// ExportRequests: PCollection<KV<[]byte, *pb.AgentEnvelope_StateExportRequest>>.
	ExportRequests beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>.
	Errors beam.PCollection
}

// Route splits a PCollection<KV<[]byte, *pb.AgentEnvelope>> by the variant of each
// envelope. The key stays.
//
// A variant from a newer schema is a dead letter unknown_payload with code
// newer_variant: upgrade the job, then send it again. An envelope without any payload,
// which ParseEnvelopes would have refused, is malformed_envelope with code
// empty_payload. Both keep the envelope.
func Route(s beam.Scope, col beam.PCollection) Routed {
	events, results, approvals, exports, errs := beam.ParDo5(s.Scope("Route"), &beamagentsRouteFn{}, col)
	return Routed{Events: events, ToolResults: results, Approvals: approvals, ExportRequests: exports, Errors: errs}
}

type beamagentsRouteFn struct{}

func (*beamagentsRouteFn) ProcessElement(
	ctx context.Context, key []byte, env *pb.AgentEnvelope,
	events func([]byte, []byte), results func([]byte, *pb.ToolResult), approvals func([]byte, *pb.AgentEnvelope_Approval),
	exports func([]byte, *pb.AgentEnvelope_StateExportRequest), errs func(*pb.ActivationErrorRecord),
) error {
	// A variant that is itself a nil pointer, which only a fused step can hand over, is
	// none, as it is on the wire.
	switch p := env.GetPayload().(type) {
	case *pb.AgentEnvelope_ExternalEvent:
		if p != nil {
			routedEvents.Inc(ctx, 1)
			events(key, p.ExternalEvent)
			return nil
		}
	case *pb.AgentEnvelope_ToolResult:
		if p != nil {
			routedToolResults.Inc(ctx, 1)
			results(key, orEmpty(p.ToolResult))
			return nil
		}
	case *pb.AgentEnvelope_Approval_:
		if p != nil {
			routedApprovals.Inc(ctx, 1)
			approvals(key, orEmpty(p.Approval))
			return nil
		}
	case *pb.AgentEnvelope_ExportRequest:
		if p != nil {
			routedExportRequests.Inc(ctx, 1)
			exports(key, orEmpty(p.ExportRequest))
			return nil
		}
	}
	l, err := envelopeLetter(key, env)
	if err != nil {
		return err
	}
	l.Reason, l.Code, l.Error = deadletter.UnknownPayload, deadletter.NewerVariant, "the payload is of a newer schema"
	if len(env.ProtoReflect().GetUnknown()) == 0 {
		l.Reason, l.Code, l.Error = deadletter.MalformedEnvelope, deadletter.EmptyPayload, emptyPayload
	}
	return emitLetter(ctx, l, errs)
}

// orEmpty gives a variant that is set to nil, which only a fused step can hand over,
// the meaning it has on the wire. A nil message would fail the coder.
func orEmpty[M any](m *M) *M {
	if m == nil {
		return new(M)
	}
	return m
}

// envelopeLetter is a letter about an envelope under a key, without the why.
func envelopeLetter(key []byte, env *pb.AgentEnvelope) (deadletter.Letter, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(env)
	if err != nil {
		return deadletter.Letter{}, err
	}
	return deadletter.Letter{
		EntityKey: key, EventTimeMS: env.GetEventTimeMs(),
		InputKind: deadletter.EnvelopeInput, Input: b,
	}, nil
}
