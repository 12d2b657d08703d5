package transforms

import (
	"context"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beamagents/beamagents-go/pkg/events"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsEventEnvelopeFn).ProcessElement, func(f *beamagentsEventEnvelopeFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(beam.EventTime), a[2].(events.Envelope), a[3].(func(beam.EventTime, []byte, *pb.AgentEnvelope)), a[4].(func(*pb.ActivationErrorRecord))))
	})
	register.Emitter3[beam.EventTime, []byte, *pb.AgentEnvelope]()
}

// EventEnvelopes is the result of [EventsToEnvelopes].
type EventEnvelopes struct {
	// Envelopes: PCollection<KV<[]byte, *pb.AgentEnvelope>>, an input for Route or RunAgent.
	Envelopes beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>.
	Errors beam.PCollection
}

// EventsToEnvelopes puts each event of a PCollection<events.Envelope> into an AgentEnvelope,
// keyed by its session:
//
//	entity_key      metadata.session_id, which may be empty
//	event_time_ms   metadata.timestamp_ms
//	external_event  the event in canonical form, metadata included
//
// An event is a dead letter malformed_event with code missing_field if one of these two members
// is missing, and with code wrong_type if one has another type or the time is outside 0 to
// 253402300799999 ms. The other metadata is not checked.
//
// Events move to their event time. There they may be late for the watermark of the source, and
// windows downstream drop late elements. In a stream, let the source stamp its elements with
// their event time and advance its watermark accordingly. Events may also leave their window, so
// EventsToEnvelopes panics for windowed input: apply the windows to the output.
func EventsToEnvelopes(s beam.Scope, col beam.PCollection) EventEnvelopes {
	mustBeEvents("EventsToEnvelopes", col)
	if w := col.WindowingStrategy().Fn; w.Kind != window.GlobalWindows {
		panic(fmt.Errorf("transforms.EventsToEnvelopes: the input is windowed by %v, and events move to their event time: "+
			"apply the windows to the output", w))
	}
	envelopes, errs := beam.ParDo2(s.Scope("EventsToEnvelopes"), &beamagentsEventEnvelopeFn{}, col)
	return EventEnvelopes{Envelopes: envelopes, Errors: errs}
}

type beamagentsEventEnvelopeFn struct{}

func (*beamagentsEventEnvelopeFn) ProcessElement(
	ctx context.Context, ts beam.EventTime, env events.Envelope,
	emit func(beam.EventTime, []byte, *pb.AgentEnvelope), errs func(*pb.ActivationErrorRecord),
) error {
	sessionID, code, text := stringOf(env.Metadata, sessionMember)
	var ms int64
	if code == "" {
		ms, code, text = timeOf(env.Metadata)
	}
	if code != "" {
		l, err := eventLetter(ts, env, code, text)
		if err != nil {
			return err
		}
		return emitLetter(ctx, l, errs)
	}
	event, err := env.AppendJSON(nil)
	if err != nil {
		return err
	}
	eventsEnveloped.Inc(ctx, 1)
	key := []byte(sessionID)
	emit(mtime.FromMilliseconds(ms), key, &pb.AgentEnvelope{
		EntityKey: key, EventTimeMs: ms,
		Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: event},
	})
	return nil
}
