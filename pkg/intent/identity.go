package intent

import (
	"crypto/sha1" // #nosec G505 -- version 5 UUIDs are defined with it
	"encoding/hex"
	"strconv"

	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The namespaces of the version 5 UUIDs. Other programs use the same, so they never change.
var (
	intentSpace = [16]byte{0x6f, 0x3e, 0x9d, 0x2a, 0x1c, 0x47, 0x5b, 0x8e, 0x9a, 0x10, 0x2d, 0x4f, 0x6b, 0x8c, 0x0e, 0x11}
	traceSpace  = [16]byte{0xb1, 0xd7, 0xc4, 0xe2, 0x93, 0xa6, 0x5f, 0x08, 0x8c, 0x31, 0x7e, 0x5a, 0x9d, 0x0f, 0x2b, 0x46}
)

// The roles of spans that are not named after their event type; see [RoleOf].
const (
	RoleActivation = "activation" // the span of an activation, ACTIVATION_START and ACTIVATION_END
	RoleTimer      = "timer"      // an ERROR that a timer reports
)

// ID returns the id of an intent: a version 5 UUID of 36 characters, made from the entity key,
// the number of the activation and the step at which the intent was staged. Tool, args and kind
// do not change it.
func ID(entityKey []byte, seq int64, step uint32) string {
	var buf [48]byte
	name := appendSeq(buf[:0], seq)
	name = append(name, '|')
	name = strconv.AppendUint(name, uint64(step), 10)
	id := uuid5(hashName(&intentSpace, entityKey, name))
	var text [36]byte
	hex.Encode(text[:8], id[:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:], id[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// TraceID returns the trace id of an activation: the bytes of a version 5 UUID.
//
// Six of its bits are the same in every id, and ratio samplers compare two of these first. So
// such a sampler takes no trace at a ratio of up to 0.5, and every trace from 0.75 on. Sample by
// a hash of the id instead, as tracing.Sampled does, or use [EvenTraceID].
func TraceID(entityKey []byte, seq int64) [16]byte {
	return uuid5(EvenTraceID(entityKey, seq))
}

// EvenTraceID returns a trace id for use with ratio samplers: [TraceID] with the six constant
// bits derived like the others. Programs that compute trace ids as version 5 UUIDs do not find
// these traces by entity key.
func EvenTraceID(entityKey []byte, seq int64) [16]byte {
	var buf [48]byte
	return hashName(&traceSpace, entityKey, appendSeq(buf[:0], seq))
}

// SpanID returns the id of a span in the activation's trace. role is a result of [RoleOf], or
// RoleTimer. index is the step at which the attempt began for an activation, the number of the
// tool call for TOOL_CALL, 0 for ERROR and RoleTimer, and otherwise the step of the event.
func SpanID(entityKey []byte, seq int64, role string, index uint32) [8]byte {
	var buf [128]byte
	name := appendSeq(buf[:0], seq)
	name = append(name, '|')
	name = append(name, role...)
	name = append(name, '|')
	name = strconv.AppendUint(name, uint64(index), 10)
	id := uuid5(hashName(&traceSpace, entityKey, name))
	return [8]byte(id[:8])
}

// RoleOf returns the role of the span of an event of type t: RoleActivation for ACTIVATION_START
// and ACTIVATION_END, and otherwise the name of the type, or its decimal number if this build
// does not know it.
func RoleOf(t beamagentspb.TraceEvent_EventType) string {
	switch t {
	case beamagentspb.TraceEvent_ACTIVATION_START, beamagentspb.TraceEvent_ACTIVATION_END:
		return RoleActivation
	default:
		return t.String()
	}
}

func appendSeq(dst []byte, seq int64) []byte {
	return strconv.AppendInt(append(dst, '|'), seq, 10)
}

// hashName returns the first 16 bytes of the SHA-1 of space, the key in lower-case hexadecimal,
// and tail. It processes the key in pieces, so that it does not allocate.
func hashName(space *[16]byte, key, tail []byte) (id [16]byte) {
	h := sha1.New() // #nosec G401 -- see the import
	var buf [128]byte
	h.Write(space[:])
	for len(key) > len(buf)/2 {
		h.Write(buf[:hex.Encode(buf[:], key[:len(buf)/2])])
		key = key[len(buf)/2:]
	}
	h.Write(buf[:hex.Encode(buf[:], key)])
	h.Write(tail)
	copy(id[:], h.Sum(buf[:0]))
	return id
}

// uuid5 sets the bits for version 5 and for the variant of RFC 9562.
func uuid5(id [16]byte) [16]byte {
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id
}
