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

// Routed is the result of [Route]. Each element keeps its timestamp.
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

// Route splits a PCollection<KV<[]byte, *pb.AgentEnvelope>> by the payload of each envelope.
// Elements keep their keys.
//
// A payload of a newer schema is a dead letter unknown_payload with code newer_variant. Upgrade
// the job, and then send the dead letter again. An envelope without a payload, which
// ParseEnvelopes refuses, is a dead letter malformed_envelope with code empty_payload. Both keep
// the envelope.
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
	// A payload that is a typed nil pointer means "no payload", as it does on the wire. Only user
	// code that is fused with this step can hand one over.
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

// orEmpty turns a nil message in a payload into an empty one, which is what it means on the wire.
// Only user code that is fused with this step can hand nil over, and nil would fail the coder.
func orEmpty[M any](m *M) *M {
	if m == nil {
		return new(M)
	}
	return m
}

// envelopeLetter returns a letter that holds an envelope and its key. The caller adds reason,
// code and error.
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
