package coders

import (
	"encoding/binary"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// maxNumber is the highest field number in a shape. Then a tag has one byte, or two of which the
// second is 1. A message with a higher number is left to the reference.
const maxNumber = 31

// shape says which bytes of a message generated code may read: known fields with their own wire
// type. It is built from the descriptor, so it includes new fields.
type shape struct {
	// fields is indexed by tag, which is the field number and the wire type. It has room for
	// numbers up to maxNumber.
	fields [(maxNumber + 1) << 3]field
}

type field struct {
	holds content
	slot  uint8  // for a repeated field or a map, its index in counts
	inner *shape // for a message or a map entry
}

type content uint8

const (
	nothing content = iota // an unknown field, or a known field with another wire type
	varintContent
	bytesContent
	textContent
	messageContent
	fixed64sContent // a packed list
)

// counts holds the number of elements of each repeated field and map in one top-level message,
// nested messages included.
type counts [len(repeated) + 1]int

// repeated lists the repeated fields by their index in counts minus one. Index 0 of counts is for
// all other fields.
var repeated = [...]protoreflect.FullName{
	memoryEntries - 1:    "beam_agents.v1.MemoryBlob.entries",
	cacheEntries - 1:     "beam_agents.v1.LlmCacheBlob.entries",
	pendingIntentIDs - 1: "beam_agents.v1.Continuation.pending_intent_ids",
	attributes - 1:       "beam_agents.v1.TraceEvent.attributes",
	pendingIntents - 1:   "beam_agents.v1.StateSnapshot.pending",
	controlPending - 1:   "beam_agents.runtime.v1.KeyControl.pending",
	expiredIntentIDs - 1: "beam_agents.runtime.v1.KeyControl.expired_intent_ids",
	escalationIDs - 1:    "beam_agents.runtime.v1.KeyControl.escalation_ids",
}

const (
	memoryEntries = iota + 1
	cacheEntries
	pendingIntentIDs
	attributes
	pendingIntents
	controlPending
	expiredIntentIDs
	escalationIDs
)

// newShape builds a shape from the kinds of fields that the schema uses. A field of another kind
// is left out, so a message with that field goes to the reference.
func newShape(md protoreflect.MessageDescriptor) *shape {
	s := new(shape)
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.Number() > maxNumber || fd.IsPacked() != (fd.Kind() == protoreflect.Fixed64Kind) {
			continue
		}
		f := field{}
		wireType := 2
		switch fd.Kind() {
		case protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.BoolKind, protoreflect.EnumKind:
			f.holds, wireType = varintContent, 0
		case protoreflect.BytesKind:
			f.holds = bytesContent
		case protoreflect.StringKind:
			f.holds = textContent
		case protoreflect.MessageKind:
			f.holds, f.inner = messageContent, newShape(fd.Message())
		case protoreflect.Fixed64Kind:
			f.holds = fixed64sContent
		default:
			continue
		}
		for i, name := range repeated {
			if name == fd.FullName() {
				f.slot = uint8(i + 1)
			}
		}
		s.fields[int(fd.Number())<<3|wireType] = f
	}
	return s
}

// fits reports whether generated code reads b exactly as the reference does, and writes it again:
// each field is known and has its wire type, each length and number is within its bounds, and
// each text is UTF-8. If fits returns false, b may still be valid.
func (s *shape) fits(b []byte, n *counts) bool {
	for i := 0; i < len(b); {
		tag := b[i]
		i++
		if tag >= 0x80 { // a tag of two bytes: its second byte, 1, stands for the bit that is already set
			if i == len(b) || b[i] != 1 {
				return false
			}
			i++
		}
		f := &s.fields[tag]
		if f.holds == nothing || i == len(b) {
			return false
		}
		v := uint64(b[i])
		i++
		switch { // most numbers and lengths have one byte or two
		case v < 0x80:
		case i < len(b) && b[i] < 0x80:
			v = v&0x7f | uint64(b[i])<<7
			i++
		default:
			var size int
			if v, size = binary.Uvarint(b[i-1:]); size <= 0 {
				return false
			}
			i += size - 1
		}
		if f.holds == varintContent {
			continue
		}
		if v > uint64(len(b)-i) {
			return false
		}
		part := b[i : i+int(v)]
		i += int(v)
		switch f.holds {
		case textContent:
			if !utf8.Valid(part) {
				return false
			}
		case messageContent:
			if !f.inner.fits(part, n) {
				return false
			}
		case fixed64sContent:
			if len(part)%8 != 0 {
				return false
			}
		}
		n[f.slot]++
	}
	return true
}

var (
	memoryBlobShape         = newShape((*pb.MemoryBlob)(nil).ProtoReflect().Descriptor())
	toolIntentShape         = newShape((*pb.ToolIntent)(nil).ProtoReflect().Descriptor())
	toolResultShape         = newShape((*pb.ToolResult)(nil).ProtoReflect().Descriptor())
	traceEventShape         = newShape((*pb.TraceEvent)(nil).ProtoReflect().Descriptor())
	agentEnvelopeShape      = newShape((*pb.AgentEnvelope)(nil).ProtoReflect().Descriptor())
	approvalShape           = newShape((*pb.AgentEnvelope_Approval)(nil).ProtoReflect().Descriptor())
	stateExportRequestShape = newShape((*pb.AgentEnvelope_StateExportRequest)(nil).ProtoReflect().Descriptor())
	continuationShape       = newShape((*pb.Continuation)(nil).ProtoReflect().Descriptor())
	llmCacheBlobShape       = newShape((*pb.LlmCacheBlob)(nil).ProtoReflect().Descriptor())
	errorRecordShape        = newShape((*pb.ActivationErrorRecord)(nil).ProtoReflect().Descriptor())
	stateSnapshotShape      = newShape((*pb.StateSnapshot)(nil).ProtoReflect().Descriptor())
	keyControlShape         = newShape((*runtimepb.KeyControl)(nil).ProtoReflect().Descriptor())
	deferredEventShape      = newShape((*runtimepb.DeferredEvent)(nil).ProtoReflect().Descriptor())
)

// shapeOf returns the shape of a message of the schema, or nil for any other message.
func shapeOf(m proto.Message) *shape {
	switch m.(type) {
	case *pb.MemoryBlob:
		return memoryBlobShape
	case *pb.ToolIntent:
		return toolIntentShape
	case *pb.ToolResult:
		return toolResultShape
	case *pb.TraceEvent:
		return traceEventShape
	case *pb.AgentEnvelope:
		return agentEnvelopeShape
	case *pb.AgentEnvelope_Approval:
		return approvalShape
	case *pb.AgentEnvelope_StateExportRequest:
		return stateExportRequestShape
	case *pb.Continuation:
		return continuationShape
	case *pb.LlmCacheBlob:
		return llmCacheBlobShape
	case *pb.ActivationErrorRecord:
		return errorRecordShape
	case *pb.StateSnapshot:
		return stateSnapshotShape
	case *runtimepb.KeyControl:
		return keyControlShape
	case *runtimepb.DeferredEvent:
		return deferredEventShape
	}
	return nil
}
