package transforms

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsEncodeErrorsFn).ProcessElement, func(f *beamagentsEncodeErrorsFn, a []any) []any {
		return result(f.ProcessElement(a[0].(*pb.ActivationErrorRecord),
			a[1].(func([]byte, []byte)), a[2].(func(*pb.ActivationErrorRecord))))
	})
	registerDoFn((*beamagentsDecodeErrorsFn).ProcessElement, func(f *beamagentsDecodeErrorsFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(beam.EventTime), a[2].([]byte), a[3].([]byte),
			a[4].(func(*pb.ActivationErrorRecord)), a[5].(func(*pb.ActivationErrorRecord))))
	})
}

// EncodeErrorsParams are the options of [EncodeErrors].
type EncodeErrorsParams struct {
	// MaxBytes bounds an encoded envelope, in bytes; 0 is DefaultMaxBytes. Set it to the limit of
	// the sink. A record is about a third larger than the input that it keeps.
	MaxBytes int
}

func (p EncodeErrorsParams) validate() error {
	return validateMaxBytes("EncodeErrorsParams.MaxBytes", p.MaxBytes)
}

// EncodedErrors is the result of [EncodeErrors].
type EncodedErrors struct {
	// Encoded: PCollection<KV<[]byte, []byte>>, entity key and envelope.
	Encoded beam.PCollection
	// TooLarge: PCollection<*pb.ActivationErrorRecord>, the records above MaxBytes.
	TooLarge beam.PCollection
}

// EncodeErrors encodes a PCollection<*pb.ActivationErrorRecord> for an errors topic. A message is
// the entity key and the bytes of an AgentEnvelope that holds the record as external event.
// ParseEnvelopes and DecodeErrors can read such a topic. Invalid UTF-8 in the reason or the
// detail of a record is replaced by U+FFFD.
func EncodeErrors(s beam.Scope, params EncodeErrorsParams, col beam.PCollection) EncodedErrors {
	if err := params.validate(); err != nil {
		panic(fmt.Errorf("transforms.EncodeErrors: %w", err))
	}
	encoded, tooLarge := beam.ParDo2(s.Scope("EncodeErrors"), &beamagentsEncodeErrorsFn{MaxBytes: cmp.Or(params.MaxBytes, DefaultMaxBytes)}, col)
	return EncodedErrors{Encoded: encoded, TooLarge: tooLarge}
}

type beamagentsEncodeErrorsFn struct {
	MaxBytes int
}

func (f *beamagentsEncodeErrorsFn) ProcessElement(
	rec *pb.ActivationErrorRecord, emit func([]byte, []byte), tooLarge func(*pb.ActivationErrorRecord),
) error {
	if !utf8.ValidString(rec.GetReason()) || !utf8.ValidString(rec.GetDetail()) {
		rec = proto.CloneOf(rec)
		rec.Reason = strings.ToValidUTF8(rec.Reason, string(utf8.RuneError))
		rec.Detail = strings.ToValidUTF8(rec.Detail, string(utf8.RuneError))
	}
	env, err := deadletter.Wrap(rec)
	if err != nil {
		return err
	}
	if proto.Size(env) > f.MaxBytes {
		tooLarge(rec)
		return nil
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(env)
	if err != nil {
		return err
	}
	emit(rec.GetEntityKey(), b)
	return nil
}

// DecodedErrors is the result of [DecodeErrors].
type DecodedErrors struct {
	// Records: PCollection<*pb.ActivationErrorRecord>.
	Records beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>, for messages that hold no record.
	Errors beam.PCollection
}

// DecodeErrors reads the messages of an errors topic back into records, in whatever language they
// were written. The input is a PCollection<KV<[]byte, []byte>> of keys and AgentEnvelopes. A
// message without a record is a dead letter malformed_envelope with code unparsable and the bytes
// as received.
func DecodeErrors(s beam.Scope, col beam.PCollection) DecodedErrors {
	records, errs := beam.ParDo2(s.Scope("DecodeErrors"), &beamagentsDecodeErrorsFn{}, col)
	return DecodedErrors{Records: records, Errors: errs}
}

type beamagentsDecodeErrorsFn struct{}

func (*beamagentsDecodeErrorsFn) ProcessElement(
	ctx context.Context, ts beam.EventTime, key, raw []byte,
	emit, errs func(*pb.ActivationErrorRecord),
) error {
	rec, text := decodeError(raw)
	if rec != nil {
		emit(rec)
		return nil
	}
	return emitLetter(ctx, deadletter.Letter{
		Reason: deadletter.MalformedEnvelope, Code: deadletter.Unparsable, Error: text,
		EntityKey: key, EventTimeMS: dateMS(ts),
		InputKind: deadletter.BytesInput, Input: raw,
	}, errs)
}

// decodeError returns the record in an encoded envelope, or nil and the reason why it has no
// record.
func decodeError(raw []byte) (*pb.ActivationErrorRecord, string) {
	env := new(pb.AgentEnvelope)
	if err := proto.Unmarshal(raw, env); err != nil {
		return nil, deadletter.Explain(raw, env)
	}
	rec, err := deadletter.Unwrap(env)
	if err != nil {
		return nil, err.Error()
	}
	return rec, ""
}
