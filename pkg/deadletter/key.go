package deadletter

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxKeyBytes bounds the key that EnvelopeKey takes from bytes that were refused.
const maxKeyBytes = 1 << 10

// EnvelopeKey returns the entity key of an encoded AgentEnvelope that was refused before
// it was decoded, because it is too large or malformed. It reads the first field alone:
// the key is nil unless entity_key comes first, is whole, and has at most 1 KiB. The key
// is a copy.
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
