package coders

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// decodeFast decodes b into m, which is new, and m keeps b. If generated code may not read b,
// decodeFast returns false and the caller uses proto.Unmarshal.
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
	if err != nil { // does not happen for bytes that fit the shape
		proto.Reset(m)
		return false
	}
	clip(m)
	return true
}

// decodeBlob decodes a blob with generated code, but decodes its n entries, field 2, into one
// allocation. The entries keep each other alive, as all of them keep b. The fields of a blob have
// numbers up to 15, so a tag has one byte.
func decodeBlob[E any, P interface {
	*E
	UnmarshalVTUnsafe([]byte) error
}](blob generated, b []byte, list *[]P, n int) error {
	const entry = 2<<3 | byte(protowire.BytesType)
	entries := make([]E, n)
	*list = room[P](n)
	for len(b) > 0 {
		tag := b[0]
		v, size := binary.Uvarint(b[1:]) // a field that fits is a number, or a length and a content
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

// usualAttributes is the number of attributes for which the map is allocated at once.
const usualAttributes = 32

// makeRoom allocates each list and the map once, at its final size. Generated code does so for
// packed lists. A blob exists if it has elements, so makeRoom sets nothing that the bytes do not
// set.
func makeRoom(m proto.Message, n *counts) {
	switch m := m.(type) {
	case *pb.Continuation:
		m.PendingIntentIds = room[string](n[pendingIntentIDs])
	case *pb.TraceEvent:
		if n[attributes] > 0 {
			// Bounded, because the bytes may repeat one key many times.
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

// clip sets the capacity of every bytes field to its length. Otherwise an append to one would
// overwrite the next field in the buffer.
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
