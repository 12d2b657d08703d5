package deadletter

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxKeyBytes bounds the keys that EnvelopeKey returns.
const maxKeyBytes = 1 << 10

// EnvelopeKey returns the entity key of an encoded AgentEnvelope that was not decoded because it
// is too large or malformed. It reads only the first field. It returns nil unless that field is
// entity_key, is complete, and has at most 1 KiB. The key is a copy.
func EnvelopeKey(raw []byte) []byte {
	num, typ, n := protowire.ConsumeTag(raw)
	if n < 0 || num != 1 || typ != protowire.BytesType {
		return nil
	}
	key, n := protowire.ConsumeBytes(raw[n:])
	if n < 0 || len(key) > maxKeyBytes {
		return nil
	}
	return bytes.Clone(key)
}
