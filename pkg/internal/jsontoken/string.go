package jsontoken

import (
	"unicode/utf16"
	"unicode/utf8"
)

var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// IsPlain reports whether c is an ASCII character that stands for itself in a string. A
// quote, a backslash and the bytes below 0x20 do not.
func IsPlain(c byte) bool { return plain[c] }

// AppendEscape appends the shortest escape of c, which must be a quote, a backslash or a
// byte below 0x20. Hexadecimal digits are lower case.
func AppendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
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
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// AppendEscaped appends what stands between the quotes of the string s. It escapes quotes,
// backslashes and the bytes below 0x20 and copies all other bytes, so s may be cut anywhere.
// It does not check that s is UTF-8.
func AppendEscaped[T string | []byte](dst []byte, s T) []byte {
	start := 0 // of the bytes that are not copied yet
	for i := range len(s) {
		c := s[i]
		if plain[c] || c >= utf8.RuneSelf {
			continue
		}
		dst = AppendEscape(append(dst, s[start:i]...), c)
		start = i + 1
	}
	return append(dst, s[start:]...)
}

var short = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r'}

// ShortEscape returns the character of the escape that is a backslash and c, or 0 if there is
// no such escape.
func ShortEscape(c byte) byte { return short[c] }

// Escape decodes the escape that s begins with; s[0] is a backslash. Two escapes that are a
// pair of surrogates count as one. Escape returns the character and the length of the escape.
//
// If ok is false, n is the offset of the first byte that cannot belong to an escape, or
// len(s) if s ends too early. For a lone surrogate, n is 0.
func Escape[T string | []byte](s T) (r rune, n int, ok bool) {
	switch {
	case len(s) < 2:
		return 0, len(s), false
	case ShortEscape(s[1]) != 0:
		return rune(ShortEscape(s[1])), 2, true
	case s[1] != 'u':
		return 0, 1, false
	}
	r, n, ok = hex4(s, 2)
	if !ok || !utf16.IsSurrogate(r) {
		return r, n, ok
	}
	if r < 0xdc00 && len(s) > 7 && s[6] == '\\' && s[7] == 'u' {
		low, n, ok := hex4(s, 8)
		if !ok {
			return 0, n, false
		}
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			return r, n, true
		}
	}
	return 0, 0, false
}

// hex4 reads the four hexadecimal digits s[i:end]. If ok is false, end is the offset of the
// first byte that is not a digit, or len(s).
func hex4[T string | []byte](s T, i int) (r rune, end int, ok bool) {
	for end = i; end < i+4; end++ {
		if end >= len(s) {
			return 0, len(s), false
		}
		c := s[end]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, end, false
		}
		r = r<<4 | rune(c)
	}
	return r, end, true
}
