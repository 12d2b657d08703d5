package events

import (
	"cmp"
	"slices"
	"strings"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

// appendString writes a quoted string; s must be valid UTF-8.
func appendString(dst []byte, s string) []byte {
	return append(jsontoken.AppendEscaped(append(dst, '"'), s), '"')
}

// canonicalizer rewrites accepted text in its canonical form: no white space,
// members sorted by the UTF-8 bytes of their names, the last of equal names,
// one way to write each number and string.
//
// It finds the order of an object's members before it writes them, so that nothing
// that is written moves again. To do so it steps over their values, which spans bounds:
// otherwise the innermost text would be read once for each object around it.
type canonicalizer struct {
	cursor
	*output
	spans []span // of some objects and arrays, by their start
	spare []int  // where names start, for the next large object
}

// span is where an object or array lies in the text.
type span struct{ start, end int }

const (
	// Every spanLevels levels have spans. What lies less deep needs none.
	spanLevels = 4
	// spanBytes is the length below which an object or array has no span.
	spanBytes = 64
)

// write writes the canonical text of v to o.
func (c *canonicalizer) write(v Value, o *output) {
	if v.text == "" || v.canonical {
		o.copy(cmp.Or(v.text, "null"))
	} else {
		c.rewrite(v, o)
	}
}

// rewrite is write for a text that may not be canonical.
func (c *canonicalizer) rewrite(v Value, o *output) {
	c.cursor, c.output, c.spans = cursor{s: v.text}, o, c.spans[:0]
	if v.deep > spanLevels {
		c.findSpans()
	}
	c.value()
}

func (c *canonicalizer) findSpans() {
	open := make([]int, 0, MaxDepth/spanLevels) // indices of the spans that have no end yet
	walk, depth := c.cursor, 0
	for walk.i < len(walk.s) {
		switch walk.s[walk.i] {
		case '"':
			walk.quoted()
			continue
		case '{', '[':
			if depth%spanLevels == 0 {
				open = append(open, len(c.spans))
				c.spans = append(c.spans, span{start: walk.i})
			}
			depth++
		case '}', ']':
			if depth--; depth%spanLevels == 0 {
				at := open[len(open)-1]
				open = open[:len(open)-1]
				if walk.i-c.spans[at].start < spanBytes {
					c.spans = c.spans[:at]
				} else {
					c.spans[at].end = walk.i + 1
				}
			}
		}
		walk.i++
	}
}

// nextSpan returns the index of the first span that starts here or later.
func (c *canonicalizer) nextSpan() int {
	i, _ := slices.BinarySearchFunc(c.spans, c.i, func(s span, at int) int { return cmp.Compare(s.start, at) })
	return i
}

// skip steps over a member's value, and the comma (more) or the closing brace.
func (c *canonicalizer) skip() (more bool) {
	if b := c.peek(); (b == '{' || b == '[') && len(c.spans) > 0 {
		c.skipNested()
	} else {
		c.raw()
	}
	c.peek()
	return c.more()
}

// skipNested is [cursor.raw] for an object or array. What has a span is not read.
func (c *canonicalizer) skipNested() {
	next, depth := c.nextSpan(), 0
	for {
		switch c.s[c.i] {
		case '"':
			c.quoted()
			continue
		case '{', '[':
			if next < len(c.spans) && c.spans[next].start == c.i {
				c.i = c.spans[next].end - 1 // the closing bracket
				next = c.nextSpan()
			} else {
				depth++
			}
		case '}', ']':
			depth--
		}
		c.i++
		if depth == 0 {
			return
		}
	}
}

func (c *canonicalizer) value() {
	switch c.peek() {
	case '{':
		c.object()
	case '[':
		c.text = append(c.text, '[')
		for more := c.open(']'); more; {
			c.value()
			c.peek()
			if more = c.more(); more {
				c.text = append(c.text, ',')
			}
		}
		c.text = append(c.text, ']')
	case '"':
		c.rewritten(c.quoted())
	case 't', 'f', 'n':
		c.text = append(c.text, c.literal()...)
	default:
		lit := c.literal()
		if parts, _ := jsontoken.ScanNumber(lit); plainNumber(lit, parts) {
			c.copy(lit)
		} else {
			n, _ := parseNumber(lit) // plainNumber knows every integer, so this is a float
			c.text = appendFloat(c.text, n.float, 64)
		}
	}
	c.hand(pieceBytes)
}

// fewMembers is how many members of an object are put in order without an allocation.
const fewMembers = 16

func (c *canonicalizer) object() {
	var few [fewMembers]int
	names, n, sorted := few[:0], 0, true // names holds where each name starts
	start := c.i
	previous := ""
	for more := c.open('}'); more; n++ {
		c.peek()
		if n < fewMembers {
			names = append(names, c.i)
		}
		name := c.key()
		sorted = sorted && (n == 0 || previous < name)
		previous = name
		more = c.skip()
	}
	end := c.i
	switch {
	case sorted:
		c.text = append(c.text, '{')
		c.i = start
		for more := c.open('}'); more; {
			c.member()
			if more = c.more(); more {
				c.text = append(c.text, ',')
			}
		}
		c.text = append(c.text, '}')
	case n <= fewMembers:
		c.inOrder(names)
	default:
		all := c.spare[:0]
		if c.spare = nil; cap(all) < n {
			all = make([]int, 0, n)
		}
		c.i = start
		for more := c.open('}'); more; {
			c.peek()
			all = append(all, c.i)
			c.key()
			more = c.skip()
		}
		c.inOrder(all)
		c.spare = all
	}
	c.i = end
}

// inOrder writes an object of the members whose names start there, sorted. Of equal names
// the last one wins.
func (c *canonicalizer) inOrder(names []int) {
	slices.SortFunc(names, func(a, b int) int { return cmp.Or(c.compare(a, b), cmp.Compare(a, b)) })
	c.text = append(c.text, '{')
	for i, at := range names {
		if i+1 < len(names) && c.compare(at, names[i+1]) == 0 {
			continue
		}
		c.i = at
		c.member()
		if i+1 < len(names) {
			c.text = append(c.text, ',')
		}
	}
	c.text = append(c.text, '}')
}

// member writes a member and steps over it.
func (c *canonicalizer) member() {
	c.peek()
	c.rewritten(c.quoted())
	c.text = append(c.text, ':')
	c.peek()
	c.i++
	c.value()
	c.peek()
}

// compare orders two names by where they start.
func (c *canonicalizer) compare(a, b int) int {
	x, y := cursor{c.s, a}, cursor{c.s, b}
	return strings.Compare(x.str(), y.str())
}
