package events

import (
	"bytes"
	"slices"
	"strings"
)

// shortEscape returns the letter of a control character that has a short
// escape.
func shortEscape(b byte) (letter byte, ok bool) {
	switch b {
	case '\b':
		return 'b', true
	case '\t':
		return 't', true
	case '\n':
		return 'n', true
	case '\f':
		return 'f', true
	case '\r':
		return 'r', true
	}
	return 0, false
}

// appendString writes a quoted string. Only the quote, the backslash and
// control characters are escaped; s must be valid UTF-8.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		b := s[i]
		if b >= ' ' && b != '"' && b != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		if letter, ok := shortEscape(b); ok {
			dst = append(dst, '\\', letter)
		} else if b < ' ' {
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		} else {
			dst = append(dst, '\\', b)
		}
	}
	return append(append(dst, s[start:]...), '"')
}

// canonicalizer rewrites accepted text in its canonical form: no white space,
// members sorted by the UTF-8 bytes of their names, the last of equal names,
// one way to write each number and string.
type canonicalizer struct {
	cursor
	members []member // of all objects that are open, innermost last
	scratch []byte
}

// member is one object member and where its text, name included, lies in the
// output.
type member struct {
	name       string
	start, end int
}

func (c *canonicalizer) appendValue(dst []byte) []byte {
	switch c.peek() {
	case '{':
		return c.appendObject(dst)
	case '[':
		dst = append(dst, '[')
		for more := c.open(']'); more; {
			dst = c.appendValue(dst)
			c.peek()
			if more = c.more(); more {
				dst = append(dst, ',')
			}
		}
		return append(dst, ']')
	case '"':
		if inner, escaped := c.quoted(); escaped {
			return appendString(dst, unescape(inner))
		} else {
			return append(append(append(dst, '"'), inner...), '"')
		}
	case 't', 'f', 'n':
		return append(dst, c.literal()...)
	default:
		lit := c.literal()
		if plainNumber(lit) {
			return append(dst, lit...)
		}
		if n, float := parseNumber(lit); float {
			return appendFloat(dst, n.float, 64)
		}
		return append(dst, lit...)
	}
}

// appendObject writes the members in the order they come, then once more in
// the right order if that is another one.
func (c *canonicalizer) appendObject(dst []byte) []byte {
	dst = append(dst, '{')
	base, first, sorted := len(dst), len(c.members), true
	for more := c.open('}'); more; {
		start := len(dst)
		name := c.key()
		dst = append(appendString(dst, name), ':')
		dst = c.appendValue(dst)
		if len(c.members) > first && name <= c.members[len(c.members)-1].name {
			sorted = false
		}
		c.members = append(c.members, member{name, start, len(dst)})
		c.peek()
		if more = c.more(); more {
			dst = append(dst, ',')
		}
	}
	if !sorted {
		dst = c.reorder(dst, base, c.members[first:])
	}
	c.members = c.members[:first]
	return append(dst, '}')
}

func (c *canonicalizer) reorder(dst []byte, base int, members []member) []byte {
	c.scratch = append(c.scratch[:0], dst[base:]...)
	slices.SortStableFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	dst = dst[:base]
	for i, m := range members {
		if i+1 < len(members) && members[i+1].name == m.name {
			continue
		}
		dst = append(append(dst, c.scratch[m.start-base:m.end-base]...), ',')
	}
	return bytes.TrimSuffix(dst, []byte{','})
}
