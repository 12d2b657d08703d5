package coders

import (
	"reflect"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/internal/protofield"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// generated has the methods that protoc-gen-go-vtproto generates.
type generated interface {
	proto.Message
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVTUnsafe([]byte) error
}

// Generated code differs from the reference, which is proto.Marshal and proto.Unmarshal, in some
// inputs. It writes text that is not UTF-8, and maps in random order. It reads numbers of more
// than 64 bits and field numbers that do not exist, and refuses a known field with another wire
// type. So text is checked before encoding, and bytes must fit the shape of the message before
// decoding. The reference handles everything else, also unknown fields.

// encodeFast returns the deterministic encoding of m, or nil if the caller must use the
// reference. The empty encoding is not nil.
func encodeFast(m proto.Message) []byte {
	if !validText(m) || reflect.ValueOf(m).IsNil() {
		return nil
	}
	if event, ok := m.(*pb.TraceEvent); ok {
		return encodeTraceEvent(event)
	}
	g, ok := m.(generated)
	if !ok {
		return nil
	}
	b := make([]byte, g.SizeVT())
	// Generated code counts a nil message in a oneof as one byte too many.
	if n, err := g.MarshalToSizedBufferVT(b); err != nil || n != len(b) {
		return nil
	}
	return b
}

// validText reports whether all text of m, which may be nil, is UTF-8. It returns false for a
// message that is not of the schema, and for a oneof that holds a nil pointer, on which generated
// code panics.
func validText(m proto.Message) bool {
	switch m := m.(type) {
	case *pb.MemoryBlob:
		for _, e := range m.GetEntries() {
			if !utf8.ValidString(e.GetKey()) {
				return false
			}
		}
		return true
	case *pb.ToolIntent:
		return utf8.ValidString(m.GetIntentId()) && utf8.ValidString(m.GetToolName()) &&
			utf8.ValidString(m.GetArgsJson()) && utf8.ValidString(m.GetSigningKeyId())
	case *pb.ToolResult:
		return utf8.ValidString(m.GetIntentId()) && utf8.ValidString(m.GetErrorMessage())
	case *pb.TraceEvent:
		for key, value := range m.GetAttributes() {
			if !utf8.ValidString(key) || !utf8.ValidString(value) {
				return false
			}
		}
		return true
	case *pb.AgentEnvelope_Approval:
		return utf8.ValidString(m.GetIntentId()) && utf8.ValidString(m.GetApprover())
	case *pb.AgentEnvelope_StateExportRequest:
		return utf8.ValidString(m.GetRequestId())
	case *pb.AgentEnvelope:
		switch p := m.GetPayload().(type) {
		case nil:
			return true
		case *pb.AgentEnvelope_ExternalEvent:
			return p != nil
		case *pb.AgentEnvelope_ToolResult:
			return p != nil && validText(p.ToolResult)
		case *pb.AgentEnvelope_Approval_:
			return p != nil && validText(p.Approval)
		case *pb.AgentEnvelope_ExportRequest:
			return p != nil && validText(p.ExportRequest)
		}
		return false
	case *pb.Continuation:
		return validTexts(m.GetPendingIntentIds()) && utf8.ValidString(m.GetAdapter())
	case *pb.LlmCacheBlob:
		for _, e := range m.GetEntries() {
			if !utf8.ValidString(e.GetCacheKey()) {
				return false
			}
		}
		return true
	case *pb.ActivationErrorRecord:
		return utf8.ValidString(m.GetReason()) && utf8.ValidString(m.GetDetail())
	case *pb.StateSnapshot:
		return validIntents(m.GetPending()) && validText(m.GetMemory()) && validText(m.GetLlmCache()) &&
			validText(m.GetContinuation()) && utf8.ValidString(m.GetRequestId())
	case *runtimepb.KeyControl:
		return validText(m.GetContinuation()) && validIntents(m.GetPending()) &&
			validTexts(m.GetExpiredIntentIds()) && validTexts(m.GetEscalationIds())
	case *runtimepb.DeferredEvent:
		return validText(m.GetEnvelope())
	}
	return false
}

func validIntents(intents []*pb.ToolIntent) bool {
	for _, intent := range intents {
		if !validText(intent) {
			return false
		}
	}
	return true
}

func validTexts(texts []string) bool {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return false
		}
	}
	return true
}

// encodeTraceEvent encodes by hand, because generated code does not sort the map.
func encodeTraceEvent(m *pb.TraceEvent) []byte {
	b := make([]byte, 0, m.SizeVT())
	b = protofield.AppendBytes(b, 1, m.TraceId)
	b = protofield.AppendBytes(b, 2, m.SpanId)
	b = protofield.AppendBytes(b, 3, m.ParentSpanId)
	b = protofield.AppendBytes(b, 4, m.EntityKey)
	b = protofield.AppendVarint(b, 5, uint64(m.Seq))
	b = protofield.AppendVarint(b, 6, uint64(m.StepIndex))
	b = protofield.AppendVarint(b, 7, uint64(m.EventType)) // a negative number has ten bytes
	var few [usualAttributes]string
	keys := few[:0]
	for key := range m.Attributes {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		value := m.Attributes[key]
		b = protowire.AppendTag(b, 8, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(2+protowire.SizeBytes(len(key))+protowire.SizeBytes(len(value))))
		b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), key)
		b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), value)
	}
	b = protofield.AppendVarint(b, 9, uint64(m.StartMs))
	b = protofield.AppendVarint(b, 10, uint64(m.EndMs))
	return append(b, m.ProtoReflect().GetUnknown()...)
}
