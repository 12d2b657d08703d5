// Package protofield appends and measures single fields of a proto3 message, for code that
// encodes a message by hand. As the generated encoders do, it leaves out a field whose value
// is empty or 0.
package protofield

import "google.golang.org/protobuf/encoding/protowire"

// AppendBytes appends a field of text or bytes.
func AppendBytes[T string | []byte](b []byte, number protowire.Number, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = protowire.AppendTag(b, number, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(v)))
	return append(b, v...)
}

// AppendVarint appends a field of an integer, a boolean or an enum. A number below 0 has to
// be extended to 64 bits first, also that of an enum.
func AppendVarint(b []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

// SizeBytes is the length that [AppendBytes] appends for a value of n bytes.
func SizeBytes(number protowire.Number, n int) int {
	if n == 0 {
		return 0
	}
	return protowire.SizeTag(number) + protowire.SizeBytes(n)
}

// SizeVarint is the length that [AppendVarint] appends.
func SizeVarint(number protowire.Number, v uint64) int {
	if v == 0 {
		return 0
	}
	return protowire.SizeTag(number) + protowire.SizeVarint(v)
}
