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

// canonicalizer rewrites accepted text in its canonical form: without white space, with the
// members sorted by the UTF-8 bytes of their names, with the last of equal names alone, and
// with one way to write each number and string.
//
// It finds the order of an object's members before it writes them, so that it never moves
// what it has written. For that it has to step over their values. Spans tell where deep
// values end: without them the innermost text would be read once for each object around it.
type canonicalizer struct {
	cursor
	*output
	spans []span // of some objects and arrays, in the order of their start
	spare []int  // memory for the names of the next large object
}

// span is where an object or array lies in the text.
type span struct{ start, end int }

const (
	// Objects and arrays of every fourth level have spans. Text that is nested no deeper has
	// no spans.
	spanLevels = 4
	// An object or array that is shorter than spanBytes has no span.
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

// rewrite writes the canonical text of v without looking whether it is canonical already.
func (c *canonicalizer) rewrite(v Value, o *output) {
	c.cursor, c.output, c.spans = cursor{s: v.text}, o, c.spans[:0]
	if v.deep > spanLevels {
		c.findSpans()
	}
	c.value()
}

// findSpans reads the whole text once and notes its spans.
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

// skip steps over a member's value and over what follows: a comma (more) or the closing
// brace.
func (c *canonicalizer) skip() (more bool) {
	if b := c.peek(); (b == '{' || b == '[') && len(c.spans) > 0 {
		c.skipNested()
	} else {
		c.raw()
	}
	c.peek()
	return c.more()
}

// skipNested steps over an object or array like [cursor.raw], but jumps over each span.
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

// An object of at most fewMembers members is sorted without an allocation.
const fewMembers = 16

func (c *canonicalizer) object() {
	var few [fewMembers]int
	names, n, sorted := few[:0], 0, true // names holds the offset of each name
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

// inOrder writes an object whose names start at these offsets. It sorts them, and writes
// only the last of equal names.
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

// member writes the member at the cursor and steps over it.
func (c *canonicalizer) member() {
	c.peek()
	c.rewritten(c.quoted())
	c.text = append(c.text, ':')
	c.peek()
	c.i++
	c.value()
	c.peek()
}

// compare orders two names, given by their offsets, by their text.
func (c *canonicalizer) compare(a, b int) int {
	x, y := cursor{c.s, a}, cursor{c.s, b}
	return strings.Compare(x.str(), y.str())
}
