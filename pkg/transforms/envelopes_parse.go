package transforms

import (
	"cmp"
	"context"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/proto"

	_ "github.com/beamagents/beamagents-go/pkg/coders" // registers deterministic coders for the outputs
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// DefaultMaxBytes is the default bound of an envelope's encoding: 10 MiB.
const DefaultMaxBytes = 10 << 20

const maxEventTimeMS = deadletter.MaxEventTimeMS

func init() {
	registerDoFn((*beamagentsParseFn).ProcessElement, func(f *beamagentsParseFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(beam.EventTime), a[2].([]byte),
			a[3].(func(beam.EventTime, *pb.AgentEnvelope)), a[4].(func(*pb.ActivationErrorRecord))))
	})
	register.Emitter2[beam.EventTime, *pb.AgentEnvelope]()
	register.Emitter1[*pb.ActivationErrorRecord]()
}

// validateMaxBytes returns an error if n, the value of the option, is negative.
func validateMaxBytes(option string, n int) error {
	if n < 0 {
		return fmt.Errorf("%s is %d; set a positive number of bytes, or 0 for %d", option, n, DefaultMaxBytes)
	}
	return nil
}

// ParseParams are the options of [ParseEnvelopes].
type ParseParams struct {
	// MaxEnvelopeBytes bounds the encoding of one envelope, in bytes; 0 is DefaultMaxBytes. A
	// longer element is not decoded. It becomes a dead letter that keeps all of it.
	MaxEnvelopeBytes int
	// KeepTimestamps leaves each element at its timestamp. By default an envelope is emitted at
	// its event_time_ms, so that timers and windows downstream follow the event time even when a
	// backlog is replayed.
	KeepTimestamps bool
}

func (p ParseParams) validate() error {
	return validateMaxBytes("ParseParams.MaxEnvelopeBytes", p.MaxEnvelopeBytes)
}

// Parsed is the result of [ParseEnvelopes].
type Parsed struct {
	// Envelopes: PCollection<*pb.AgentEnvelope>, the usable envelopes.
	Envelopes beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>, dead letters for the others.
	Errors beam.PCollection
}

// ParseEnvelopes decodes a PCollection<[]byte> of AgentEnvelopes.
//
// Bytes that it refuses become a dead letter malformed_envelope, which keeps the bytes as
// received and the timestamp of the element. The code is one of
//
//   - oversize: longer than MaxEnvelopeBytes.
//   - unparsable: not the encoding of an AgentEnvelope.
//   - empty_payload: no payload and no unknown field. An envelope whose payload is of a newer
//     schema has an unknown field and passes; Route makes a dead letter of it.
//   - bad_event_time: event_time_ms is outside 0 to 253402300799999.
//
// A dead letter oversize or unparsable has the entity key if entity_key is the first field of the
// bytes and has at most 1 KiB; otherwise its key is empty.
//
// Envelopes move to their event time. There they may be late for the watermark of the source, and
// event-time timers fire only if an idle source advances its watermark. They may also leave their
// window, so ParseEnvelopes panics for windowed input: apply the windows to the output, or set
// KeepTimestamps.
func ParseEnvelopes(s beam.Scope, params ParseParams, col beam.PCollection) Parsed {
	if err := params.validate(); err != nil {
		panic(fmt.Errorf("transforms.ParseEnvelopes: %w", err))
	}
	if !params.KeepTimestamps && col.WindowingStrategy().Fn.Kind != window.GlobalWindows {
		panic(fmt.Errorf("transforms.ParseEnvelopes: the input is windowed by %v, and envelopes move to their event time: "+
			"apply the windows to the output, or set ParseParams.KeepTimestamps", col.WindowingStrategy().Fn))
	}
	s = s.Scope("ParseEnvelopes")
	envelopes, errs := beam.ParDo2(s, &beamagentsParseFn{
		MaxEnvelopeBytes: cmp.Or(params.MaxEnvelopeBytes, DefaultMaxBytes),
		KeepTimestamps:   params.KeepTimestamps,
	}, col)
	return Parsed{Envelopes: envelopes, Errors: errs}
}

type beamagentsParseFn struct {
	MaxEnvelopeBytes int
	KeepTimestamps   bool
}

func (f *beamagentsParseFn) ProcessElement(
	ctx context.Context, ts beam.EventTime, raw []byte,
	emit func(beam.EventTime, *pb.AgentEnvelope), errs func(*pb.ActivationErrorRecord),
) error {
	env, code, text := parseEnvelope(raw, f.MaxEnvelopeBytes)
	if code != "" {
		key := env.GetEntityKey()
		if env == nil {
			key = deadletter.EnvelopeKey(raw)
		}
		return emitLetter(ctx, deadletter.Letter{
			Reason: deadletter.MalformedEnvelope, Code: code, Error: text,
			EntityKey: key, EventTimeMS: dateMS(ts),
			InputKind: deadletter.BytesInput, Input: raw,
		}, errs)
	}
	envelopesParsed.Inc(ctx, 1)
	if !f.KeepTimestamps {
		ts = mtime.FromMilliseconds(env.GetEventTimeMs())
	}
	emit(ts, env)
	return nil
}

// parseEnvelope decodes raw. A code other than "" says that the envelope cannot be used, and text
// says why. The envelope is nil if raw is too large or cannot be decoded.
func parseEnvelope(raw []byte, maxBytes int) (env *pb.AgentEnvelope, code deadletter.Code, text string) {
	if len(raw) > maxBytes {
		return nil, deadletter.Oversize, fmt.Sprintf("%d bytes, the limit is %d", len(raw), maxBytes)
	}
	env = new(pb.AgentEnvelope)
	if err := proto.Unmarshal(raw, env); err != nil {
		return nil, deadletter.Unparsable, deadletter.Explain(raw, env)
	}
	code, text = unusable(env)
	return env, code, text
}

// unusable returns a code and a text if no step could use the envelope, and empty strings
// otherwise.
func unusable(env *pb.AgentEnvelope) (code deadletter.Code, text string) {
	switch t := env.GetEventTimeMs(); {
	case env.GetPayload() == nil && len(env.ProtoReflect().GetUnknown()) == 0:
		return deadletter.EmptyPayload, emptyPayload
	case t < 0 || t > maxEventTimeMS:
		return deadletter.BadEventTime, fmt.Sprintf("event_time_ms is %d, the range is 0 to %d", t, int64(maxEventTimeMS))
	}
	return "", ""
}

const emptyPayload = "the envelope has no payload"

// dateMS returns the timestamp of an element in ms, or 0 if it is not a date but a bound of
// Beam's time.
func dateMS(ts beam.EventTime) int64 {
	if ms := ts.Milliseconds(); ms >= 0 && ms <= maxEventTimeMS {
		return ms
	}
	return 0
}
