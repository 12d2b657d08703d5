package canonjson

import (
	"bytes"
	"math"
	"strconv"
)

// plain tells the bytes that a string holds as they are. The rest is a quote, a
// backslash, a control byte or part of a longer UTF-8 sequence.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// appendEscape appends the escape of c: a quote, a backslash or a byte below 0x20.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\t':
		return append(dst, `\t`...)
	case '\n':
		return append(dst, `\n`...)
	case '\f':
		return append(dst, `\f`...)
	case '\r':
		return append(dst, `\r`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// compareNames orders two names that are written canonically by what they stand
// for: a line break sorts below every letter, though its escape would not.
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

// unescape takes one byte off canonically written s.
func unescape(s []byte) (c byte, rest []byte) {
	if s[0] != '\\' {
		return s[0], s[1:]
	}
	switch s[1] {
	case 'b':
		return '\b', s[2:]
	case 't':
		return '\t', s[2:]
	case 'n':
		return '\n', s[2:]
	case 'f':
		return '\f', s[2:]
	case 'r':
		return '\r', s[2:]
	case 'u':
		hi, _ := unhex(s[4])
		lo, _ := unhex(s[5])
		return byte(hi<<4 | lo), s[6:]
	}
	return s[1], s[2:]
}

func unhex(c byte) (rune, bool) {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0'), true
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10, true
	}
	return 0, false
}

// scanNumber finds the end of the number that starts at s[i]. Where there is
// none, end is the offset of the byte that is wrong.
func scanNumber[T string | []byte](s T, i int) (end int, float, ok bool) {
	digits := func() bool {
		start := i
		for i < len(s) && '0' <= s[i] && s[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(s) && s[i] == '-' {
		i++
	}
	if i < len(s) && s[i] == '0' {
		i++
	} else if !digits() {
		return i, false, false
	}
	if i < len(s) && s[i] == '.' {
		i++
		if float = true; !digits() {
			return i, true, false
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if float = true; !digits() {
			return i, true, false
		}
	}
	return i, float, true
}

// appendNumber appends the canonical form of a number token. It is false for one
// beyond float64.
func appendNumber[T string | []byte](dst []byte, token T, float bool) ([]byte, bool) {
	if !float {
		if string(token) == "-0" {
			return append(dst, '0'), true
		}
		return append(dst, token...), true
	}
	if isCanonicalFloat(token) {
		return append(dst, token...), true
	}
	f, err := strconv.ParseFloat(string(token), 64)
	if err != nil {
		return dst, false
	}
	return appendFloat(dst, f, 64), true
}

// isCanonicalFloat finds most of the floats that are canonical already, without
// reading them. No two numbers of up to 15 digits are the same float64, so that
// none of them can be written shorter.
func isCanonicalFloat[T string | []byte](token T) bool {
	if len(token) > 16 {
		return false
	}
	first, dot, low := 0, 0, 0 // digit, point, zeros that the fraction starts with
	if token[0] == '-' {
		first = 1
	}
	for i := range len(token) {
		switch c := token[i]; {
		case c == '.':
			dot = i
		case c == 'e' || c == 'E':
			return false
		case c == '0' && dot > 0 && low == i-dot-1:
			low++
		}
	}
	if token[len(token)-1] == '0' {
		return len(token)-dot-1 == 1
	}
	return token[first] != '0' || low < 4
}

// appendFloat appends finite f, which has the given number of bits.
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
