package canonjson

import (
	"bytes"
	"math"
	"strconv"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

// compareNames orders two names in canonical form by the text that they stand for: a line
// break sorts below every letter, which its escape would not.
func compareNames(a, b []byte, escaped bool) int {
	if !escaped {
		return bytes.Compare(a, b)
	}
	for len(a) > 0 && len(b) > 0 {
		var x, y byte
		x, a = unescape(a)
		y, b = unescape(b)
		if x != y {
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

// unescape returns the first byte of the text that s stands for, and the rest of s. It reads
// canonical form, in which an escape stands for one byte.
func unescape(s []byte) (c byte, rest []byte) {
	if s[0] != '\\' {
		return s[0], s[1:]
	}
	r, n, _ := jsontoken.Escape(s)
	return byte(r), s[n:]
}

// appendNumber appends the canonical form of a number token. It returns false if the number
// is beyond float64.
func appendNumber[T string | []byte](dst []byte, token T, n jsontoken.Number) ([]byte, bool) {
	if !n.IsFloat() {
		if string(token) == "-0" {
			return append(dst, '0'), true
		}
		return append(dst, token...), true
	}
	if isCanonicalFloat(token, n) {
		return append(dst, token...), true
	}
	f, err := strconv.ParseFloat(string(token), 64)
	if err != nil {
		return dst, false
	}
	return appendFloat(dst, f, 64), true
}

// isCanonicalFloat reports whether a number that is a float is surely canonical already. It
// does not parse the number, and misses few that are.
func isCanonicalFloat[T string | []byte](token T, n jsontoken.Number) bool {
	return n.Exp == n.End && jsontoken.IsShortest(token[n.Whole:n.Point], token[n.Point+1:n.Exp], 3)
}

// appendFloat appends the canonical form of a finite float of 32 or 64 bits.
func appendFloat(dst []byte, f float64, bits int) []byte {
	low, high := 1e-4, 1e16
	if bits == 32 {
		low, high = float64(float32(low)), float64(float32(high))
	}
	if abs := math.Abs(f); abs != 0 && (abs < low || abs >= high) {
		return strconv.AppendFloat(dst, f, 'e', -1, bits)
	}
	n := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
	if bytes.IndexByte(dst[n:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}
