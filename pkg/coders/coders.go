package coders

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// ErrNil is the error of encoding a nil message, which has no bytes.
var ErrNil = errors.New("nil message")

func init() {
	Register(
		(*pb.MemoryBlob)(nil),
		(*pb.ToolIntent)(nil),
		(*pb.ToolResult)(nil),
		(*pb.TraceEvent)(nil),
		(*pb.AgentEnvelope)(nil),
		(*pb.AgentEnvelope_Approval)(nil),
		(*pb.AgentEnvelope_StateExportRequest)(nil),
		(*pb.Continuation)(nil),
		(*pb.LlmCacheBlob)(nil),
		(*pb.ActivationErrorRecord)(nil),
		(*pb.StateSnapshot)(nil),
		(*runtimepb.KeyControl)(nil),
		(*runtimepb.DeferredEvent)(nil),
	)
}

// Register gives each message's type the deterministic coder of this package. The
// messages of the two schemas are registered already; this is for a pipeline's own
// generated messages. Call it from an init function, with typed nil pointers: Beam
// panics on a registration after beam.Init. Registering a type again changes nothing.
//
// Messages of two Go packages with the same short name, such as v1, each keep their
// coder. Beam's own registrations of emitters and DoFns (register.Emitter1 and so on) do
// not tell such packages apart: the last one wins, and bundles of the other one fail.
func Register(messages ...proto.Message) {
	for _, m := range messages {
		t := reflect.TypeOf(m)
		// The first registers the type and the functions for the worker, the second
		// adds the promise of determinism.
		beam.RegisterCoder(t, encode, decode)
		coder.RegisterDeterministicCoder(t, encode, decode)
	}
}

// encode is named in running pipelines, with its full signature: it never moves.
func encode(element beam.T) ([]byte, error) {
	m, ok := element.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("coders: encode %T: %w", element, errNotMessage(element))
	}
	if b := encodeFast(m); b != nil {
		return b, nil
	}
	if !m.ProtoReflect().IsValid() {
		return nil, fmt.Errorf("coders: encode %s: %w", m.ProtoReflect().Descriptor().FullName(), ErrNil)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		// The error of protobuf names no field within a message.
		if path := invalidText(m.ProtoReflect()); path != "" {
			err = fmt.Errorf("%s: %w", path, ErrText)
		}
		return nil, fmt.Errorf("coders: encode %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return b, nil
}

// decode is named in running pipelines, with its full signature: it never moves.
func decode(t reflect.Type, b []byte) (beam.T, error) {
	m, ok := reflect.TypeAssert[proto.Message](reflect.New(t.Elem()))
	if !ok {
		return nil, fmt.Errorf("coders: decode: %v is not a message", t)
	}
	// Beam reads b for this element alone, so m may keep it.
	if decodeFast(m, b) {
		return m, nil
	}
	if proto.Unmarshal(b, m) != nil {
		// The error of protobuf says neither where nor which field.
		return nil, fmt.Errorf("coders: decode %s: %s", m.ProtoReflect().Descriptor().FullName(), deadletter.Explain(b, m))
	}
	return m, nil
}

func errNotMessage(element any) error {
	if element == nil {
		return ErrNil
	}
	return errors.New("not a message")
}
