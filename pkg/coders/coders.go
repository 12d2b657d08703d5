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

// ErrNil is the error for a nil message, which cannot be encoded.
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

// Register registers the deterministic coder of this package for the type of each message. The
// messages of the two schemas are already registered; use Register for a pipeline's own generated
// messages. Call it from an init function, with typed nil pointers: Beam panics on a registration
// after beam.Init. Registering a type again changes nothing.
//
// Messages of two Go packages with the same short name, such as v1, each keep their coder. But
// Beam's own registrations of emitters and DoFns (register.Emitter1 and so on) confuse such
// packages: the last registration wins, and bundles of the other package fail.
func Register(messages ...proto.Message) {
	for _, m := range messages {
		t := reflect.TypeOf(m)
		// The first call registers the type and the functions for the worker. The second declares
		// the coder deterministic.
		beam.RegisterCoder(t, encode, decode)
		coder.RegisterDeterministicCoder(t, encode, decode)
	}
}

// encode must keep its name and signature, because running pipelines refer to them.
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
		// Find the field, because the error of protobuf does not name it.
		if path := invalidText(m.ProtoReflect()); path != "" {
			err = fmt.Errorf("%s: %w", path, ErrText)
		}
		return nil, fmt.Errorf("coders: encode %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return b, nil
}

// decode must keep its name and signature, because running pipelines refer to them.
func decode(t reflect.Type, b []byte) (beam.T, error) {
	m, ok := reflect.TypeAssert[proto.Message](reflect.New(t.Elem()))
	if !ok {
		return nil, fmt.Errorf("coders: decode: %v is not a message", t)
	}
	// Beam reads b for this element alone, so m may refer to it.
	if decodeFast(m, b) {
		return m, nil
	}
	if proto.Unmarshal(b, m) != nil {
		// Find the place and the field, because the error of protobuf names neither.
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
