package events

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Value is any JSON value without loss: an integer of 64 bits is not the float
// of the same size. The zero Value is null. A Value does not change and is
// safe to share; one that was decoded keeps the text it was decoded from, so
// compare with [Value.Equal], not with ==.
type Value struct {
	text      string // accepted by a scanner; an empty text stands for null
	deep      int    // how many levels of objects and arrays it has, at most MaxDepth-2
	canonical bool   // text is surely the canonical form already
}

// ParseValue reads one JSON value. It accepts what may be the payload of an envelope: the
// same text, nested as deep. Errors are of type *[DecodeError].
func ParseValue(data []byte) (Value, error) { return parse(string(data), 1) }

// parse reads text that holds one value, which lies inside depth objects and arrays. The
// error is a *DecodeError.
func parse(text string, depth int) (Value, error) {
	sc := scanner{s: text}
	v, ok := sc.keep(depth)
	if !ok || !sc.end() {
		return Value{}, sc.err
	}
	return v, nil
}

// keep scans a value that lies inside depth objects and arrays, and returns it.
func (sc *scanner) keep(depth int) (Value, bool) {
	sc.peek()
	start := sc.i
	sc.canonical, sc.deepest = true, depth
	if !sc.value(depth) {
		return Value{}, false
	}
	return Value{sc.s[start:sc.i], sc.deepest - depth, sc.canonical}, true
}

// end reports whether only white space follows, and fails otherwise.
func (sc *scanner) end() bool {
	sc.space()
	return sc.i == len(sc.s) || sc.fail("trailing characters")
}

// accepted makes a Value of a part of text that a scanner has accepted.
func accepted(text string) Value {
	sc := scanner{s: text}
	v, _ := sc.keep(0)
	return v
}

// ValueOf makes a Value of nil, a Value, a bool, a string, a number, a json.Number, a
// json.RawMessage, and of slices, arrays and maps with string keys of these. An integer
// stays an integer and a float stays a float; one of 32 bits is widened to 64. A
// json.Number becomes the number that it spells. A json.RawMessage becomes the value that
// its text stands for, as [ParseValue] reads it; nil becomes null.
//
// The error wraps [ErrSerialize] for everything else: bytes (encode them as a string
// first), a type with a MarshalJSON or MarshalText method (pass what it returns as a
// json.RawMessage), NaN, an infinity, invalid UTF-8, nesting that is too deep, and all other
// types.
func ValueOf(v any) (Value, error) {
	e := encoder{depth: 1, deepest: 1}
	e.any(reflect.ValueOf(v))
	if e.err != nil {
		return Value{}, e.err
	}
	return Value{string(e.dst), e.deepest - 1, true}, nil
}

func (e *encoder) any(v reflect.Value) {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch k := v.Kind(); {
	case k == reflect.Invalid:
		e.dst = append(e.dst, "null"...)
	case v.Type() == valueType:
		e.value(v)
	case v.Type() == numberType:
		e.number(v.String())
	case v.Type() == rawType:
		e.raw(v.Bytes(), v.IsNil())
	case marshalsItself(v.Type()):
		e.fail(fmt.Sprintf("the Go type %v has a form of its own; pass it as json.RawMessage", v.Type()))
	case k == reflect.Bool:
		e.bool(v.Bool())
	case k == reflect.String:
		e.string(v.String())
	case v.CanInt():
		e.int(v.Int())
	case v.CanUint():
		e.uint(v.Uint())
	case v.CanFloat():
		e.float(v.Float(), 64)
	case (k == reflect.Slice || k == reflect.Array) && v.Type().Elem().Kind() == reflect.Uint8:
		e.fail(fmt.Sprintf("bytes have no JSON value: the Go type %v; encode them as a string", v.Type()))
	case k == reflect.Slice || k == reflect.Array:
		e.list(v, e.any)
	case k == reflect.Map && v.Type().Key().Kind() == reflect.String && !marshalsItself(v.Type().Key()):
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		e.enter('{')
		for i, key := range keys {
			if e.err != nil {
				return
			}
			e.name(i > 0, key.String())
			e.any(v.MapIndex(key))
		}
		e.leave('}')
	default:
		e.fail(fmt.Sprintf("no JSON value for the Go type %v", v.Type()))
	}
}

var (
	numberType    = reflect.TypeFor[json.Number]()
	rawType       = reflect.TypeFor[json.RawMessage]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// marshalsItself reports whether t, or a pointer to it, has a method that encoding/json
// calls. Among the types that ValueOf accepts, only those with a name can have methods.
// pkg/canonjson has a function of its own, which also looks at pointers: its error says what
// to do with one.
func marshalsItself(t reflect.Type) bool {
	if t.PkgPath() == "" {
		return false
	}
	t = reflect.PointerTo(t)
	return t.Implements(jsonMarshaler) || t.Implements(textMarshaler)
}

// number writes a json.Number.
func (e *encoder) number(text string) {
	v, err := ParseValue([]byte(text))
	if _, _, ok := v.number(); err != nil || !ok || v.text != text {
		e.fail("no JSON number: json.Number " + strconv.Quote(quoted(text)))
		return
	}
	e.dst = v.AppendJSON(e.dst)
}

// raw writes a json.RawMessage.
func (e *encoder) raw(text []byte, null bool) {
	if null {
		e.dst = append(e.dst, "null"...)
		return
	}
	v, err := ParseValue(text)
	if err != nil {
		e.fail("json.RawMessage: " + err.Error())
		return
	}
	e.nest(v.deep)
	e.dst = v.AppendJSON(e.dst)
}

// head returns the first byte of the text, which tells the kind of v.
func (v Value) head() byte {
	if v.text == "" {
		return 'n'
	}
	return v.text[0]
}

// number returns the number that v is, if it is one.
func (v Value) number() (n number, isFloat, ok bool) {
	if b := v.head(); b != '-' && (b < '0' || b > '9') {
		return number{}, false, false
	}
	n, isFloat = parseNumber(v.text)
	return n, isFloat, true
}

// IsNull reports whether v is null.
func (v Value) IsNull() bool { return v.head() == 'n' }

// Bool returns v if it is true or false.
func (v Value) Bool() (value, ok bool) {
	b := v.head()
	return b == 't', b == 't' || b == 'f'
}

// Str returns v if it is a string.
func (v Value) Str() (string, bool) {
	if v.head() != '"' {
		return "", false
	}
	c := cursor{s: v.text}
	return c.str(), true
}

// Int64 returns v if it is an integer in the range of int64.
func (v Value) Int64() (int64, bool) {
	if n, isFloat, ok := v.number(); ok && !isFloat {
		return n.int64()
	}
	return 0, false
}

// Uint64 returns v if it is an integer in the range of uint64.
func (v Value) Uint64() (uint64, bool) {
	if n, isFloat, ok := v.number(); ok && !isFloat {
		return n.uint64()
	}
	return 0, false
}

// Float64 returns v if it is a float. An integer is not a float: use [Value.Int64].
func (v Value) Float64() (float64, bool) {
	n, isFloat, _ := v.number()
	return n.float, isFloat
}

// Get returns the member of that name if v is an object that has one. If there are several
// of that name, it returns the last.
func (v Value) Get(name string) (Value, bool) {
	var found [1]string
	if !v.members([]string{name}, found[:]) || found[0] == "" {
		return Value{}, false
	}
	return accepted(found[0]), true
}

// members sets found[i] to the text of the member names[i], and leaves it empty if there is
// no such member. It reports whether v is an object.
func (v Value) members(names, found []string) bool {
	if v.head() != '{' {
		return false
	}
	c := cursor{s: v.text}
	for more := c.open('}'); more; {
		name := c.key()
		text := c.raw()
		for i, n := range names {
			if n == name {
				found[i] = text
			}
		}
		c.peek()
		more = c.more()
	}
	return true
}

// Any returns v as nil, bool, string, int64, uint64 (above the range of
// int64), float64, []any or map[string]any. [ValueOf] takes it back.
func (v Value) Any() any {
	if v.text == "" {
		return nil
	}
	c := cursor{s: v.text}
	return c.any()
}

func (c *cursor) any() any {
	switch c.peek() {
	case '{':
		m := map[string]any{}
		for more := c.open('}'); more; {
			name := c.key()
			m[name] = c.any()
			c.peek()
			more = c.more()
		}
		return m
	case '[':
		list := []any{}
		for more := c.open(']'); more; {
			list = append(list, c.any())
			c.peek()
			more = c.more()
		}
		return list
	case '"':
		return c.str()
	}
	switch lit := c.literal(); lit {
	case "null":
		return nil
	case "true", "false":
		return lit == "true"
	default:
		n, isFloat := parseNumber(lit)
		if isFloat {
			return n.float
		}
		if n.negative || n.abs <= math.MaxInt64 {
			i, _ := n.int64()
			return i
		}
		return n.abs
	}
}

// JSON returns the canonical text. It is compact, its members are sorted by the UTF-8 bytes
// of their names at every level, and only the last of equal names is there. Numbers and
// strings are written as the package documentation says.
func (v Value) JSON() string {
	switch {
	case v.text == "":
		return "null"
	case v.canonical:
		return v.text
	}
	return string(v.AppendJSON(make([]byte, 0, len(v.text)+8)))
}

// AppendJSON appends the canonical text to dst.
func (v Value) AppendJSON(dst []byte) []byte {
	switch {
	case v.text == "":
		return append(dst, "null"...)
	case v.canonical:
		return append(dst, v.text...)
	}
	o := output{text: dst}
	new(canonicalizer).rewrite(v, &o)
	return o.text
}

// Equal reports whether the canonical texts are equal. So 1 and 1.0 differ, and neither the
// order of members nor the way in which a number is written matters.
func (v Value) Equal(w Value) bool {
	return v.text == w.text || v.JSON() == w.JSON()
}

// MarshalJSON returns the canonical text. When encoding/json calls it, encoding/json then
// escapes <, > and & in the result.
func (v Value) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil), nil }

// UnmarshalJSON is [ParseValue]. When encoding/json calls it, encoding/json has checked the
// text before, with errors of its own.
func (v *Value) UnmarshalJSON(data []byte) (err error) {
	*v, err = ParseValue(data)
	return err
}
