package events

import (
	"strings"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

// cursor reads text that a scanner has accepted, so it checks nothing.
type cursor struct {
	s string
	i int
}

// peek skips white space and returns the next byte.
func (c *cursor) peek() byte {
	for c.s[c.i] == ' ' || c.s[c.i] == '\n' || c.s[c.i] == '\t' || c.s[c.i] == '\r' {
		c.i++
	}
	return c.s[c.i]
}

// raw steps over one value and returns its text.
func (c *cursor) raw() string {
	open := c.peek()
	start := c.i
	switch open {
	case '"':
		c.quoted()
	case '{', '[':
		for depth := 0; ; {
			switch c.s[c.i] {
			case '"':
				c.quoted()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			c.i++
			if depth == 0 {
				break
			}
		}
	default:
		c.literal()
	}
	return c.s[start:c.i]
}

// literal steps over a number, true, false or null.
func (c *cursor) literal() string {
	start := c.i
	for c.i < len(c.s) {
		switch c.s[c.i] {
		case ',', ']', '}', ' ', '\n', '\t', '\r':
			return c.s[start:c.i]
		}
		c.i++
	}
	return c.s[start:c.i]
}

// quoted steps over a string and returns what is between the quotes.
func (c *cursor) quoted() (inner string, escaped bool) {
	const short = 16 // a loop is faster than a search
	start := c.i + 1
	for c.i = start; c.s[c.i] != '"'; c.i++ {
		if c.s[c.i] == '\\' {
			escaped = true
			c.i++
		} else if c.i-start == short && !escaped {
			end := c.i + strings.IndexByte(c.s[c.i:], '"')
			if strings.IndexByte(c.s[c.i:end], '\\') < 0 {
				c.i = end
				break
			}
		}
	}
	c.i++
	return c.s[start : c.i-1], escaped
}

// str steps over a string and returns its value.
func (c *cursor) str() string {
	inner, escaped := c.quoted()
	if escaped {
		return unescape(inner)
	}
	return inner
}

// open steps over an opening bracket and reports whether anything is inside. If not, it
// steps over the closing bracket, too.
func (c *cursor) open(closing byte) bool {
	c.i++
	if c.peek() == closing {
		c.i++
		return false
	}
	return true
}

// more steps over a comma (true) or the closing bracket.
func (c *cursor) more() bool {
	c.i++
	return c.s[c.i-1] == ','
}

// key steps over a member's name and the colon.
func (c *cursor) key() string {
	c.peek()
	name := c.str()
	c.peek()
	c.i++
	return name
}

// unescape decodes the inside of a string. Surrogates are paired.
func unescape(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		r, size, _ := jsontoken.Escape(s[i:])
		b.WriteRune(r)
		s = s[i+size:]
	}
}
