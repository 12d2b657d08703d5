package events

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// number is a JSON number as the protocol reads it: an integer of 64 bits and its sign, or a
// float.
type number struct {
	negative bool
	abs      uint64
	float    float64
}

// parseNumber reads a literal that the scanner has accepted. A literal with a
// fraction or an exponent, -0, and an integer outside [-2^63, 2^64-1] are
// floats, rounded correctly.
func parseNumber(lit string) (n number, isFloat bool) {
	digits, negative := strings.CutPrefix(lit, "-")
	whole := !negative || digits != "0"
	for i := 0; whole && i < len(digits); i++ {
		whole = '0' <= digits[i] && digits[i] <= '9'
	}
	if whole {
		abs, err := strconv.ParseUint(digits, 10, 64)
		if err == nil && (!negative || abs <= 1<<63) {
			return number{negative: negative, abs: abs}, false
		}
	}
	f, _ := strconv.ParseFloat(lit, 64) // cannot fail: the scanner refuses what is out of range
	return number{float: f}, true
}

// uint64 returns the value of an integer that is not negative.
func (n number) uint64() (uint64, bool) {
	if n.negative {
		return 0, false
	}
	return n.abs, true
}

// int64 returns the value of an integer in the range of int64.
func (n number) int64() (int64, bool) {
	switch {
	case n.negative:
		return -int64(n.abs), true // abs is at most 2^63, whose negation wraps to itself
	case n.abs > math.MaxInt64:
		return 0, false
	}
	return int64(n.abs), true
}

// appendFloat writes a finite float of 32 or 64 bits with the shortest digits that read back
// as f, and always with a fraction or an exponent. It uses fixed notation for 1e-5 <= |f| <
// 1e16, and for 1e-6 <= |f| < 1e13 if f has 32 bits. An exponent has neither a plus nor
// leading zeros.
func appendFloat(dst []byte, f float64, bits int) []byte {
	low, high := 1e-5, 1e16
	if bits == 32 {
		low, high = float64(float32(1e-6)), float64(float32(1e13))
	}
	if abs := math.Abs(f); abs == 0 || low <= abs && abs < high {
		start := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
		if slices.Contains(dst[start:], '.') {
			return dst
		}
		return append(dst, ".0"...)
	}
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], f, 'e', -1, bits)
	mantissa, exponent, _ := strings.Cut(string(text), "e")
	dst = append(append(dst, mantissa...), 'e')
	if exponent[0] == '-' {
		dst = append(dst, '-')
	}
	return append(dst, strings.TrimLeft(exponent, "+-0")...)
}
