package coders

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// decodeFast fills m, which is new, from b and keeps b; or it leaves both to the
// reference and reports false.
func decodeFast(m proto.Message, b []byte) bool {
	g, ok := m.(generated)
	if !ok {
		return false
	}
	s := shapeOf(m)
	var n counts
	if s == nil || !s.fits(b, &n) {
		return false
	}
	var err error
	switch m := m.(type) {
	case *pb.MemoryBlob:
		err = decodeBlob(m, b, &m.Entries, n[memoryEntries])
	case *pb.LlmCacheBlob:
		err = decodeBlob(m, b, &m.Entries, n[cacheEntries])
	default:
		makeRoom(m, &n)
		err = g.UnmarshalVTUnsafe(b)
	}
	if err != nil { // which no bytes do that fit
		proto.Reset(m)
		return false
	}
	clip(m)
	return true
}

// decodeBlob is generated code for all but the n entries, field 2, which it makes in one
// allocation. They keep each other, as all keep b. A blob has no field above 15, so a tag
// is one byte.
func decodeBlob[E any, P interface {
	*E
	UnmarshalVTUnsafe([]byte) error
}](blob generated, b []byte, list *[]P, n int) error {
	const entry = 2<<3 | byte(protowire.BytesType)
	entries := make([]E, n)
	*list = room[P](n)
	for len(b) > 0 {
		tag := b[0]
		v, size := binary.Uvarint(b[1:]) // all that fits is a number, or a length and a content
		size++
		if tag&7 == byte(protowire.BytesType) {
			size += int(v)
		}
		var err error
		if tag == entry {
			e := P(&entries[len(*list)])
			*list = append(*list, e)
			err = e.UnmarshalVTUnsafe(b[size-int(v) : size])
		} else {
			err = blob.UnmarshalVTUnsafe(b[:size])
		}
		if err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// usualAttributes is how many attributes need no second allocation.
const usualAttributes = 32

// makeRoom allocates lists and the map once, at their final size, but for packed lists,
// which generated code allocates so. A blob that has
// elements is there, so nothing is set that the bytes do not set.
func makeRoom(m proto.Message, n *counts) {
	switch m := m.(type) {
	case *pb.Continuation:
		m.PendingIntentIds = room[string](n[pendingIntentIDs])
	case *pb.TraceEvent:
		if n[attributes] > 0 {
			// Not more: the same key may come again and again.
			m.Attributes = make(map[string]string, min(n[attributes], usualAttributes))
		}
	case *pb.StateSnapshot:
		if n[memoryEntries] > 0 {
			m.Memory = &pb.MemoryBlob{Entries: room[*pb.MemoryEntry](n[memoryEntries])}
		}
		if n[cacheEntries] > 0 {
			m.LlmCache = &pb.LlmCacheBlob{Entries: room[*pb.LlmCacheEntry](n[cacheEntries])}
		}
		if n[pendingIntentIDs] > 0 {
			m.Continuation = &pb.Continuation{PendingIntentIds: room[string](n[pendingIntentIDs])}
		}
		m.Pending = room[*pb.ToolIntent](n[pendingIntents])
	case *runtimepb.KeyControl:
		if n[pendingIntentIDs] > 0 {
			m.Continuation = &pb.Continuation{PendingIntentIds: room[string](n[pendingIntentIDs])}
		}
		m.Pending = room[*pb.ToolIntent](n[controlPending])
		m.ExpiredIntentIds = room[string](n[expiredIntentIDs])
		m.EscalationIds = room[string](n[escalationIDs])
	}
}

func room[T any](n int) []T {
	if n == 0 {
		return nil
	}
	return make([]T, 0, n)
}

// clip ends the capacity of every bytes field at its length: an append to one would
// otherwise write over the field that follows it in the buffer.
func clip(m proto.Message) {
	switch m := m.(type) {
	case *pb.MemoryBlob:
		for _, e := range m.Entries {
			e.Value = slices.Clip(e.Value)
		}
	case *pb.ToolIntent:
		m.EntityKey, m.TraceId, m.Signature = slices.Clip(m.EntityKey), slices.Clip(m.TraceId), slices.Clip(m.Signature)
	case *pb.ToolResult:
		m.EntityKey, m.Payload = slices.Clip(m.EntityKey), slices.Clip(m.Payload)
	case *pb.TraceEvent:
		m.TraceId, m.SpanId, m.ParentSpanId = slices.Clip(m.TraceId), slices.Clip(m.SpanId), slices.Clip(m.ParentSpanId)
		m.EntityKey = slices.Clip(m.EntityKey)
	case *pb.AgentEnvelope:
		m.EntityKey = slices.Clip(m.EntityKey)
		switch p := m.Payload.(type) {
		case *pb.AgentEnvelope_ExternalEvent:
			p.ExternalEvent = slices.Clip(p.ExternalEvent)
		case *pb.AgentEnvelope_ToolResult:
			clip(p.ToolResult)
		}
	case *pb.Continuation:
		m.Snapshot = slices.Clip(m.Snapshot)
	case *pb.LlmCacheBlob:
		for _, e := range m.Entries {
			e.Response, e.ResponseDigest = slices.Clip(e.Response), slices.Clip(e.ResponseDigest)
		}
	case *pb.ActivationErrorRecord:
		m.EntityKey = slices.Clip(m.EntityKey)
	case *pb.StateSnapshot:
		m.EntityKey = slices.Clip(m.EntityKey)
		if m.Memory != nil {
			clip(m.Memory)
		}
		if m.LlmCache != nil {
			clip(m.LlmCache)
		}
		if m.Continuation != nil {
			clip(m.Continuation)
		}
		for _, intent := range m.Pending {
			clip(intent)
		}
	case *runtimepb.KeyControl:
		if m.Continuation != nil {
			clip(m.Continuation)
		}
		for _, intent := range m.Pending {
			clip(intent)
		}
	case *runtimepb.DeferredEvent:
		if m.Envelope != nil {
			clip(m.Envelope)
		}
	}
}
