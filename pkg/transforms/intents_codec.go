package transforms

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsEncodeIntentsFn).ProcessElement, func(f *beamagentsEncodeIntentsFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(*pb.ToolIntent), a[2].(func([]byte, []byte)), a[3].(func(*pb.ActivationErrorRecord))))
	})
	registerDoFn((*beamagentsDecodeIntentFn).ProcessElement, func(f *beamagentsDecodeIntentFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(beam.EventTime), a[2].([]byte), a[3].(func(*pb.ToolIntent)), a[4].(func(*pb.ActivationErrorRecord))))
	})
	registerDoFn((*beamagentsDecodeKeyedIntentFn).ProcessElement, func(f *beamagentsDecodeKeyedIntentFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(beam.EventTime), a[2].([]byte), a[3].([]byte), a[4].(func(*pb.ToolIntent)), a[5].(func(*pb.ActivationErrorRecord))))
	})
	register.Emitter1[*pb.ToolIntent]()
}

// EncodeIntentsParams are the options of [EncodeIntents].
type EncodeIntentsParams struct {
	// MaxBytes bounds an encoded intent, in bytes; 0 is DefaultMaxBytes. Set it to the limit of
	// the sink.
	MaxBytes int
}

func (p EncodeIntentsParams) validate() error {
	return validateMaxBytes("EncodeIntentsParams.MaxBytes", p.MaxBytes)
}

// EncodedIntents is the result of [EncodeIntents].
type EncodedIntents struct {
	// Encoded: PCollection<KV<[]byte, []byte>>, entity key and intent.
	Encoded beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>, with the intents that were refused.
	Errors beam.PCollection
}

// EncodeIntents encodes a PCollection<*pb.ToolIntent> for an intents topic. A message is the
// entity key of the intent and its deterministic encoding.
//
// An intent that it refuses is a dead letter intent_dead_letter. The code is too_large for an
// intent above MaxBytes. It is serialize for nil, for text that is not UTF-8, and for an intent
// without any field: its encoding is empty, which is a tombstone on a topic.
func EncodeIntents(s beam.Scope, params EncodeIntentsParams, col beam.PCollection) EncodedIntents {
	if err := params.validate(); err != nil {
		panic(fmt.Errorf("transforms.EncodeIntents: %w", err))
	}
	encoded, errs := beam.ParDo2(s.Scope("EncodeIntents"), &beamagentsEncodeIntentsFn{MaxBytes: cmp.Or(params.MaxBytes, DefaultMaxBytes)}, col)
	return EncodedIntents{Encoded: encoded, Errors: errs}
}

type beamagentsEncodeIntentsFn struct {
	MaxBytes int
}

func (f *beamagentsEncodeIntentsFn) ProcessElement(
	ctx context.Context, in *pb.ToolIntent, emit func([]byte, []byte), errs func(*pb.ActivationErrorRecord),
) error {
	if err := intent.CheckText(in); err != nil {
		return deadLetterIntent(ctx, in, deadletter.IntentDeadLetter, deadletter.Serialize, err.Error(), errs)
	}
	switch n := proto.Size(in); {
	case n == 0:
		return deadLetterIntent(ctx, in, deadletter.IntentDeadLetter, deadletter.Serialize,
			"the intent has no field, and its encoding would be an empty message", errs)
	case n > f.MaxBytes:
		return deadLetterIntent(ctx, in, deadletter.IntentDeadLetter, deadletter.TooLarge,
			fmt.Sprintf("%d bytes, the limit is %d", n, f.MaxBytes), errs)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(in)
	if err != nil {
		return err
	}
	intentsEncoded.Inc(ctx, 1)
	emit(in.GetEntityKey(), b)
	return nil
}

// DecodedIntents is the result of [DecodeIntents].
type DecodedIntents struct {
	// Intents: PCollection<*pb.ToolIntent>.
	Intents beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>, for messages that hold no intent.
	Errors beam.PCollection
}

// DecodeIntents decodes the messages of an intents topic. Its input is one of
//
//   - PCollection<[]byte>, where each element is a ToolIntent;
//   - PCollection<KV<[]byte, []byte>>, where each value is a ToolIntent. The keys are dropped.
//
// A message that it cannot decode is a dead letter malformed_intent with the bytes as received,
// and with the key if it had one. The code is empty for a message of no bytes, such as a
// tombstone, and unparsable for bytes that are not the encoding of a ToolIntent.
//
// DecodeIntents checks nothing else: the intent has what its bytes say, also in fields of a newer
// schema. Verify an intent, and check its expiry, before anything is done about it.
func DecodeIntents(s beam.Scope, col beam.PCollection) DecodedIntents {
	var fn any
	switch t := col.Type(); {
	case t.Type() == reflectx.ByteSlice:
		fn = &beamagentsDecodeIntentFn{}
	case typex.IsKV(t) && t.Components()[0].Type() == reflectx.ByteSlice && t.Components()[1].Type() == reflectx.ByteSlice:
		fn = &beamagentsDecodeKeyedIntentFn{}
	default:
		panic(fmt.Errorf("transforms.DecodeIntents: the input is of %v: give it []byte or KV<[]byte,[]byte>", t))
	}
	intents, errs := beam.ParDo2(s.Scope("DecodeIntents"), fn, col)
	return DecodedIntents{Intents: intents, Errors: errs}
}

type beamagentsDecodeIntentFn struct{}

func (*beamagentsDecodeIntentFn) ProcessElement(
	ctx context.Context, ts beam.EventTime, raw []byte,
	emit func(*pb.ToolIntent), errs func(*pb.ActivationErrorRecord),
) error {
	return decodeIntent(ctx, ts, nil, raw, emit, errs)
}

type beamagentsDecodeKeyedIntentFn struct{}

func (*beamagentsDecodeKeyedIntentFn) ProcessElement(
	ctx context.Context, ts beam.EventTime, key, raw []byte,
	emit func(*pb.ToolIntent), errs func(*pb.ActivationErrorRecord),
) error {
	return decodeIntent(ctx, ts, key, raw, emit, errs)
}

// decodeIntent emits the intent in raw, or a dead letter that says why raw is not an intent.
func decodeIntent(
	ctx context.Context, ts beam.EventTime, key, raw []byte,
	emit func(*pb.ToolIntent), errs func(*pb.ActivationErrorRecord),
) error {
	in := new(pb.ToolIntent)
	var code deadletter.Code
	var text string
	if len(raw) == 0 { // protobuf would decode it as an intent without fields
		code, text = deadletter.Empty, "the message is empty"
	} else if err := proto.Unmarshal(raw, in); err != nil {
		code, text = deadletter.Unparsable, deadletter.Explain(raw, in)
	}
	if code != "" {
		return emitLetter(ctx, deadletter.Letter{
			Reason: deadletter.MalformedIntent, Code: code, Error: text,
			EntityKey: key, EventTimeMS: dateMS(ts),
			InputKind: deadletter.BytesInput, Input: raw,
		}, errs)
	}
	intentsDecoded.Inc(ctx, 1)
	emit(in)
	return nil
}

// passIntent emits an intent if its coder can encode it, and otherwise a dead letter, because a
// coder error would fail the bundle. Only user code that is fused with the step can hand over an
// intent that cannot be encoded.
func passIntent(
	ctx context.Context, in *pb.ToolIntent, passed beam.Counter,
	emit func(*pb.ToolIntent), errs func(*pb.ActivationErrorRecord),
) error {
	if err := intent.CheckText(in); err != nil {
		return deadLetterIntent(ctx, in, deadletter.IntentDeadLetter, deadletter.Serialize, err.Error(), errs)
	}
	passed.Inc(ctx, 1)
	emit(in)
	return nil
}

// deadLetterIntent emits a dead letter for an intent. If the intent has text that is not UTF-8,
// the input is a copy with U+FFFD in place of the invalid bytes, and the error says so.
func deadLetterIntent(
	ctx context.Context, in *pb.ToolIntent, reason deadletter.Reason, code deadletter.Code, text string,
	emit func(*pb.ActivationErrorRecord),
) error {
	if in != nil && intent.CheckText(in) != nil {
		in = withValidText(in)
		text += "; the input has U+FFFD where text was not UTF-8"
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(in)
	if err != nil {
		return err
	}
	l := deadletter.Letter{
		Reason: reason, Code: code, Error: text,
		EntityKey: in.GetEntityKey(), EventTimeMS: in.GetCreatedAtMs(),
		InputKind: deadletter.IntentInput, Input: b,
	}
	if in != nil {
		l.Position = deadletter.Position{
			Seq: new(in.GetSeq()), Step: new(int64(in.GetStepIndex())), IntentID: in.GetIntentId(),
		}
	}
	return emitLetter(ctx, l, emit)
}

// withValidText returns a copy of an intent in which invalid UTF-8 is replaced by U+FFFD.
func withValidText(in *pb.ToolIntent) *pb.ToolIntent {
	out := proto.CloneOf(in)
	m := out.ProtoReflect()
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if field.Kind() == protoreflect.StringKind {
			m.Set(field, protoreflect.ValueOfString(strings.ToValidUTF8(v.String(), string(utf8.RuneError))))
		}
		return true
	})
	return out
}
