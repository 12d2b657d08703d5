package intent

import "encoding/hex"

// ErrorSpanID returns the span id of an ERROR event about an input that failed. input is the
// SHA-256 of that input. Other implementations use SpanID with index 0, which is the same for all
// failures of an activation.
func ErrorSpanID(entityKey []byte, seq int64, input [32]byte) [8]byte {
	var buf [128]byte
	name := append(appendSeq(buf[:0], seq), "|ERROR|"...)
	name = hex.AppendEncode(name, input[:])
	id := uuid5(hashName(&traceSpace, entityKey, name))
	return [8]byte(id[:8])
}
