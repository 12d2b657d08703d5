package intent

import "encoding/hex"

// ErrorSpanID returns the id of the span of an ERROR event: of an input that failed, known
// by its SHA-256. SpanID with index 0, which other implementations use, is the same for all
// failures of an activation.
func ErrorSpanID(entityKey []byte, seq int64, input [32]byte) [8]byte {
	var buf [128]byte
	name := append(appendSeq(buf[:0], seq), "|ERROR|"...)
	name = hex.AppendEncode(name, input[:])
	id := uuid5(hashName(&traceSpace, entityKey, name))
	return [8]byte(id[:8])
}
