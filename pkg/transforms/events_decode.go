package transforms

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/events"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsDecodeEventFn).ProcessElement, func(f *beamagentsDecodeEventFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(beam.EventTime), a[2].([]byte), a[3].(beamagentsEmitEvent), a[4].(func(*pb.ActivationErrorRecord))))
	})
	registerDoFn((*beamagentsDecodeKeyedEventFn).ProcessElement, func(f *beamagentsDecodeKeyedEventFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(beam.EventTime), a[2].([]byte), a[3].([]byte), a[4].(beamagentsEmitKeyedEvent), a[5].(func(*pb.ActivationErrorRecord))))
	})
	registerDoFn((*beamagentsDecodeEnvelopeEventFn).ProcessElement, func(f *beamagentsDecodeEnvelopeEventFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(*pb.AgentEnvelope), a[2].(beamagentsEmitEvent), a[3].(func(*pb.ActivationErrorRecord))))
	})
}

// DecodedEvents is the result of [DecodeEvents].
type DecodedEvents struct {
	// Events: PCollection<events.Envelope>, or PCollection<KV<[]byte, events.Envelope>>
	// where the input has keys.
	Events beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>.
	Errors beam.PCollection
}

// DecodeEvents decodes events of the agent event protocol, as strictly as events.DecodeEnvelope
// does. Its input is one of
//
//   - PCollection<[]byte>, where each element is an event;
//   - PCollection<KV<[]byte, []byte>>, where each value is an event and the key is kept, such
//     as Routed.Events of Route;
//   - PCollection<*pb.AgentEnvelope>, where each external_event is an event, such as
//     ParseEnvelopes returns.
//
// An event that breaks the protocol is a dead letter malformed_event. Its code is that of the
// events.DecodeError, and its input is the bytes as received, or the AgentEnvelope that held the
// event. An AgentEnvelope without an external_event is a dead letter malformed_event with code
// missing_field; use Route first if the envelopes are mixed. An event of a type that the
// catalogue does not list is decoded like any other.
func DecodeEvents(s beam.Scope, col beam.PCollection) DecodedEvents {
	var fn any
	switch t := col.Type(); {
	case t.Type() == reflectx.ByteSlice:
		fn = &beamagentsDecodeEventFn{}
	case typex.IsKV(t) && t.Components()[0].Type() == reflectx.ByteSlice && t.Components()[1].Type() == reflectx.ByteSlice:
		fn = &beamagentsDecodeKeyedEventFn{}
	case t.Type() == reflect.TypeFor[*pb.AgentEnvelope]():
		fn = &beamagentsDecodeEnvelopeEventFn{}
	default:
		panic(fmt.Errorf("transforms.DecodeEvents: the input is of %v: "+
			"give it []byte, KV<[]byte,[]byte> or *beamagentspb.AgentEnvelope", t))
	}
	decoded, errs := beam.ParDo2(s.Scope("DecodeEvents"), fn, col)
	return DecodedEvents{Events: decoded, Errors: errs}
}

// mustBeEvents panics if the input of a transform is not a PCollection<events.Envelope>.
func mustBeEvents(transform string, col beam.PCollection) {
	switch t := col.Type(); {
	case t.Type() == reflect.TypeFor[events.Envelope]():
	case typex.IsKV(t) && t.Components()[1].Type() == reflect.TypeFor[events.Envelope]():
		panic(fmt.Errorf("transforms.%s: the input is of %v: apply beam.DropKey to it to remove the key", transform, t))
	default:
		panic(fmt.Errorf("transforms.%s: the input is of %v: give it events.Envelope, as DecodeEvents does", transform, t))
	}
}

type beamagentsDecodeEventFn struct{}

func (*beamagentsDecodeEventFn) ProcessElement(
	ctx context.Context, ts beam.EventTime, raw []byte,
	emit beamagentsEmitEvent, errs func(*pb.ActivationErrorRecord),
) error {
	env, err := events.DecodeEnvelope(raw)
	if err != nil {
		return emitMalformedEvent(ctx, ts, nil, raw, err, errs)
	}
	eventsDecoded.Inc(ctx, 1)
	emit(env)
	return nil
}

type beamagentsDecodeKeyedEventFn struct{}

func (*beamagentsDecodeKeyedEventFn) ProcessElement(
	ctx context.Context, ts beam.EventTime, key, raw []byte,
	emit beamagentsEmitKeyedEvent, errs func(*pb.ActivationErrorRecord),
) error {
	env, err := events.DecodeEnvelope(raw)
	if err != nil {
		return emitMalformedEvent(ctx, ts, key, raw, err, errs)
	}
	eventsDecoded.Inc(ctx, 1)
	emit(key, env)
	return nil
}

func emitMalformedEvent(
	ctx context.Context, ts beam.EventTime, key, raw []byte, cause error, errs func(*pb.ActivationErrorRecord),
) error {
	code, text := eventFault(cause)
	return emitLetter(ctx, deadletter.Letter{
		Reason: deadletter.MalformedEvent, Code: code, Error: text,
		EntityKey: key, EventTimeMS: dateMS(ts),
		InputKind: deadletter.EventInput, Input: raw,
	}, errs)
}

type beamagentsDecodeEnvelopeEventFn struct{}

func (*beamagentsDecodeEnvelopeEventFn) ProcessElement(
	ctx context.Context, carrier *pb.AgentEnvelope,
	emit beamagentsEmitEvent, errs func(*pb.ActivationErrorRecord),
) error {
	code, text := deadletter.MissingField, "the envelope has no external_event"
	if p, ok := carrier.GetPayload().(*pb.AgentEnvelope_ExternalEvent); ok && p != nil {
		env, err := events.DecodeEnvelope(p.ExternalEvent)
		if err == nil {
			eventsDecoded.Inc(ctx, 1)
			emit(env)
			return nil
		}
		code, text = eventFault(err)
	}
	l, err := envelopeLetter(carrier.GetEntityKey(), carrier)
	if err != nil {
		return err
	}
	l.Reason, l.Code, l.Error = deadletter.MalformedEvent, code, text
	return emitLetter(ctx, l, errs)
}

// eventFault returns the code and the text of an error from package events.
func eventFault(err error) (deadletter.Code, string) {
	if decode, ok := errors.AsType[*events.DecodeError](err); ok {
		return deadletter.Code(decode.Code), decode.Error()
	}
	return deadletter.Unparsable, err.Error()
}

// eventLetter returns a letter malformed_event for an event that has been decoded. Its key and
// event time are those of the metadata, or empty and the element's timestamp where the metadata
// has none.
func eventLetter(ts beam.EventTime, env events.Envelope, code deadletter.Code, text string) (deadletter.Letter, error) {
	input, err := env.AppendJSON(nil)
	if err != nil {
		return deadletter.Letter{}, err
	}
	l := deadletter.Letter{
		Reason: deadletter.MalformedEvent, Code: code, Error: text,
		EventTimeMS: dateMS(ts),
		InputKind:   deadletter.EventInput, Input: input,
	}
	if sessionID, code, _ := stringOf(env.Metadata, sessionMember); code == "" {
		l.EntityKey = []byte(sessionID)
	}
	if ms, code, _ := timeOf(env.Metadata); code == "" {
		l.EventTimeMS = ms
	}
	return l, nil
}
