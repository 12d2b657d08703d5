package canonjson

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

// text reads one JSON text and appends its canonical form to dst.
//
// It writes values in the order in which they stand in the text, and notes the objects
// whose members are not sorted. It sorts these in one pass at the end: if each object were
// sorted where it closes, a byte would move once for each object around it.
type text struct {
	src []byte
	pos int
	dst []byte

	open     []member // of all objects that are not closed yet
	unsorted []object // in the order of their start
	members  []member // of the unsorted objects, sorted
	ordered  []byte   // what emit has written
}

// member is the place of "name":value in dst.
type member struct {
	start, nameEnd, end int  // the name with its quotes is start:nameEnd, the value ends at end
	escaped             bool // the name holds a backslash
	next                int  // the first object of text.unsorted that may lie in the value
	offset              int  // of the name in src
}

// object is an object in dst whose members have to be sorted: text.members[first:last]. It
// is noted when it begins, before its order is known. If its members turn out to be sorted,
// but those of an object in it do not, it keeps its place with an empty range.
type object struct {
	start, end  int // of {"name":value, without the closing brace
	first, last int
	after       int // the first object of text.unsorted that lies behind it
}

func (t *text) release() {
	t.src, t.dst = nil, nil
	t.open = keep(t.open, keepBytes/64)
	t.unsorted = keep(t.unsorted, keepBytes/40)
	t.members = keep(t.members, keepBytes/64)
	t.ordered = keep(t.ordered, keepBytes)
}

// canonicalize appends the canonical form of src, which lies inside depth arrays and
// objects, to dst.
func (t *text) canonicalize(dst, src []byte, depth int) ([]byte, error) {
	t.src, t.pos, t.dst = src, 0, dst
	t.open, t.unsorted, t.members = t.open[:0], t.unsorted[:0], t.members[:0]
	t.space()
	if err := t.value(depth); err != nil {
		return nil, err
	}
	if t.space(); t.pos < len(src) {
		return nil, t.unexpected(t.pos, "after the value")
	}
	if len(t.unsorted) > 0 {
		t.ordered = t.ordered[:0]
		t.emit(len(dst), len(t.dst), 0)
		copy(t.dst[len(dst):], t.ordered)
	}
	return t.dst, nil
}

// emit appends dst[from:to] to ordered and sorts all objects in it. The first unsorted
// object that starts at from or later is t.unsorted[next].
func (t *text) emit(from, to, next int) {
	for next < len(t.unsorted) && t.unsorted[next].start < to {
		o := t.unsorted[next]
		if o.first == o.last {
			next++
			continue
		}
		t.ordered = append(t.ordered, t.dst[from:o.start+1]...)
		for i, m := range t.members[o.first:o.last] {
			if i > 0 {
				t.ordered = append(t.ordered, ',')
			}
			t.emit(m.start, m.end, m.next)
		}
		from, next = o.end, o.after
	}
	t.ordered = append(t.ordered, t.dst[from:to]...)
}

func (t *text) space() {
	for t.pos < len(t.src) {
		switch t.src[t.pos] {
		case ' ', '\t', '\n', '\r':
			t.pos++
		default:
			return
		}
	}
}

// unexpected reports the byte at offset i, or that the text ends there.
func (t *text) unexpected(i int, where string) error {
	if i >= len(t.src) {
		return fault(ErrSyntax, len(t.src), noEnd)
	}
	return fault(ErrSyntax, i, fmt.Sprintf("byte 0x%02x %s", t.src[i], where))
}

func (t *text) value(depth int) error {
	if t.pos >= len(t.src) {
		return t.unexpected(t.pos, "")
	}
	switch c := t.src[t.pos]; c {
	case '"':
		_, err := t.str()
		return err
	case '{':
		return t.object(depth)
	case '[':
		return t.array(depth)
	case 't':
		return t.literal("true")
	case 'f':
		return t.literal("false")
	case 'n':
		return t.literal("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return t.number()
	}
	return t.unexpected(t.pos, "where a value starts")
}

func (t *text) literal(word string) error {
	for i := range len(word) {
		if t.pos+i >= len(t.src) || t.src[t.pos+i] != word[i] {
			return t.unexpected(t.pos+i, "in "+word)
		}
	}
	t.dst = append(t.dst, word...)
	t.pos += len(word)
	return nil
}

func (t *text) number() error {
	n, ok := jsontoken.ScanNumber(t.src[t.pos:])
	end := t.pos + n.End
	if !ok {
		return t.unexpected(end, "in a number")
	}
	if t.dst, ok = appendNumber(t.dst, t.src[t.pos:end], n); !ok {
		return fault(ErrNumber, t.pos, beyondF64)
	}
	t.pos = end
	return nil
}

func (t *text) array(depth int) error {
	if depth >= MaxDepth {
		return fault(ErrDepth, t.pos, "")
	}
	t.dst = append(t.dst, '[')
	t.pos++
	if t.space(); t.pos < len(t.src) && t.src[t.pos] == ']' {
		t.dst = append(t.dst, ']')
		t.pos++
		return nil
	}
	for {
		if err := t.value(depth + 1); err != nil {
			return err
		}
		if t.space(); t.pos >= len(t.src) {
			return t.unexpected(t.pos, "")
		}
		c := t.src[t.pos]
		if c != ',' && c != ']' {
			return t.unexpected(t.pos, "in an array")
		}
		t.dst = append(t.dst, c)
		t.pos++
		if c == ']' {
			return nil
		}
		t.space()
	}
}

func (t *text) object(depth int) error {
	if depth >= MaxDepth {
		return fault(ErrDepth, t.pos, "")
	}
	base, place, start := len(t.open), len(t.unsorted), len(t.dst)
	t.unsorted = append(t.unsorted, object{start: start})
	t.dst = append(t.dst, '{')
	t.pos++
	sorted := true
	if t.space(); t.pos < len(t.src) && t.src[t.pos] == '}' {
		t.dst = append(t.dst, '}')
		t.pos++
		t.unsorted = t.unsorted[:place]
		return nil
	}
	for {
		m := member{start: len(t.dst), offset: t.pos}
		if t.pos >= len(t.src) || t.src[t.pos] != '"' {
			return t.unexpected(t.pos, "where a name starts")
		}
		var err error
		if m.escaped, err = t.str(); err != nil {
			return err
		}
		m.nameEnd, m.next = len(t.dst), len(t.unsorted)
		if sorted && len(t.open) > base {
			switch c := t.compare(t.open[len(t.open)-1], m); {
			case c == 0:
				return t.duplicate(m)
			case c > 0:
				sorted = false
			}
		}
		if t.space(); t.pos >= len(t.src) || t.src[t.pos] != ':' {
			return t.unexpected(t.pos, "after a name")
		}
		t.dst = append(t.dst, ':')
		t.pos++
		t.space()
		// The member is pushed first: the value pushes and pops its own above it.
		at := len(t.open)
		t.open = append(t.open, m)
		if err := t.value(depth + 1); err != nil {
			return err
		}
		t.open[at].end = len(t.dst)
		if t.space(); t.pos >= len(t.src) {
			return t.unexpected(t.pos, "")
		}
		c := t.src[t.pos]
		if c != ',' && c != '}' {
			return t.unexpected(t.pos, "in an object")
		}
		t.dst = append(t.dst, c)
		t.pos++
		if c == '}' {
			break
		}
		t.space()
	}
	switch {
	case !sorted:
		if err := t.sort(t.open[base:]); err != nil {
			return err
		}
		first := len(t.members)
		t.members = append(t.members, t.open[base:]...)
		t.unsorted[place] = object{
			start: start, end: len(t.dst) - 1,
			first: first, last: len(t.members),
			after: len(t.unsorted),
		}
	case len(t.unsorted) == place+1:
		t.unsorted = t.unsorted[:place]
	}
	t.open = t.open[:base]
	return nil
}

// sort sorts the members of one object. The error is about a duplicate: the first one in
// the text if there are several.
func (t *text) sort(ms []member) error {
	slices.SortFunc(ms, func(a, b member) int {
		if c := t.compare(a, b); c != 0 {
			return c
		}
		return a.offset - b.offset
	})
	var twice *member
	for i := 1; i < len(ms); i++ {
		if t.compare(ms[i-1], ms[i]) == 0 && (twice == nil || ms[i].offset < twice.offset) {
			twice = &ms[i]
		}
	}
	if twice != nil {
		return t.duplicate(*twice)
	}
	return nil
}

func (t *text) compare(a, b member) int {
	return compareNames(t.dst[a.start+1:a.nameEnd-1], t.dst[b.start+1:b.nameEnd-1], a.escaped || b.escaped)
}

func (t *text) duplicate(m member) error {
	name := t.dst[m.start:m.nameEnd]
	if len(name) > 64 {
		return fault(ErrDuplicate, m.offset, "a name of "+strconv.Itoa(len(name))+" bytes")
	}
	return fault(ErrDuplicate, m.offset, string(name))
}

// str reads a string with its quotes, and reports whether its canonical form holds an
// escape.
func (t *text) str() (escaped bool, err error) {
	src, i := t.src, t.pos+1
	start := t.pos // of the bytes that are not copied yet
	for {
		for i < len(src) && jsontoken.IsPlain(src[i]) {
			i++
		}
		if i >= len(src) {
			return false, t.unexpected(i, "")
		}
		switch c := src[i]; {
		case c == '"':
			t.dst = append(t.dst, src[start:i+1]...)
			t.pos = i + 1
			return escaped, nil
		case c == '\\':
			t.dst = append(t.dst, src[start:i]...)
			r, n, ok := jsontoken.Escape(src[i:])
			switch {
			case !ok && n == 0:
				return false, fault(ErrUnicode, i, "lone surrogate")
			case !ok:
				return false, t.unexpected(i+n, "in an escape")
			case r < 0x20 || r == '"' || r == '\\':
				t.dst = jsontoken.AppendEscape(t.dst, byte(r))
				escaped = true
			default:
				t.dst = utf8.AppendRune(t.dst, r)
			}
			i += n
			start = i
		case c < 0x20:
			return false, t.unexpected(i, "in a string")
		default:
			r, n := utf8.DecodeRune(src[i:])
			if r == utf8.RuneError && n <= 1 {
				return false, fault(ErrUnicode, i, badUTF8)
			}
			i += n
		}
	}
}
