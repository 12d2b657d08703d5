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
	// MaxBytes bounds an encoded envelope, in bytes; 0 is DefaultMaxBytes. Set it to
	// what the sink takes: a record is a third larger than the input it keeps.
	MaxBytes int
}

func (p EncodeErrorsParams) validate() error {
	return validateMaxBytes("EncodeErrorsParams.MaxBytes", p.MaxBytes)
}

// EncodedErrors is the result of [EncodeErrors].
type EncodedErrors struct {
	// Encoded: PCollection<KV<[]byte, []byte>>, entity key and envelope.
	Encoded beam.PCollection
	// TooLarge: PCollection<*pb.ActivationErrorRecord>, those above MaxBytes, unchanged.
	TooLarge beam.PCollection
}

// EncodeErrors makes messages for an errors topic of a
// PCollection<*pb.ActivationErrorRecord>: the key, and the bytes of an AgentEnvelope
// with the record as external event. Such a topic is a valid input of ParseEnvelopes
// and of DecodeErrors. Text of a record that is not UTF-8 is made so.
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
	// Errors: PCollection<*pb.ActivationErrorRecord>, about what holds no record.
	Errors beam.PCollection
}

// DecodeErrors reads messages of an errors topic, a PCollection<KV<[]byte, []byte>> of
// keys and AgentEnvelopes, back into records, whoever wrote them. What holds no record
// is a dead letter malformed_envelope with code unparsable and the bytes as received.
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

// decodeError returns the record in an encoded envelope, or why there is none.
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
