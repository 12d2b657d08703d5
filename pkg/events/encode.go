package events

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// encoder writes typed values and stops at the first error. It writes one of two forms. In
// that of the envelope, members are sorted and floats of 32 bits are widened. In the direct
// form, members are in the order of the fields.
type encoder struct {
	dst            []byte
	direct         bool
	depth, deepest int
	err            error
}

func (e *encoder) fail(why string) {
	if e.err == nil {
		e.err = fmt.Errorf("%w: %s", ErrSerialize, why)
	}
}

func (e *encoder) enter(bracket byte) {
	e.depth++
	e.nest(0)
	e.dst = append(e.dst, bracket)
}

func (e *encoder) leave(bracket byte) {
	e.depth--
	e.dst = append(e.dst, bracket)
}

// nest checks that deep more levels of objects and arrays are allowed here.
func (e *encoder) nest(deep int) {
	if e.depth+deep >= MaxDepth {
		e.fail("recursion limit exceeded")
	}
	e.deepest = max(e.deepest, e.depth+deep)
}

func (e *encoder) name(comma bool, name string) {
	if comma {
		e.dst = append(e.dst, ',')
	}
	e.string(name)
	e.dst = append(e.dst, ':')
}

func (e *encoder) string(s string) {
	if !utf8.ValidString(s) {
		e.fail("invalid UTF-8 in " + strconv.Quote(quoted(s)))
		return
	}
	e.dst = appendString(e.dst, s)
}

func (e *encoder) bool(b bool)   { e.dst = strconv.AppendBool(e.dst, b) }
func (e *encoder) int(i int64)   { e.dst = strconv.AppendInt(e.dst, i, 10) }
func (e *encoder) uint(u uint64) { e.dst = strconv.AppendUint(e.dst, u, 10) }

func (e *encoder) float(f float64, bits int) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		e.fail("no JSON number for " + strconv.FormatFloat(f, 'g', -1, 64))
		return
	}
	e.dst = appendFloat(e.dst, f, bits)
}

// value writes a Value. It reads v field by field: v may be part of an embedded struct whose
// name is not exported, and then reflection refuses v.Interface.
func (e *encoder) value(v reflect.Value) {
	value := Value{text: v.Field(0).String(), deep: int(v.Field(1).Int()), canonical: v.Field(2).Bool()}
	e.nest(value.deep)
	e.dst = value.AppendJSON(e.dst)
}

func (e *encoder) list(v reflect.Value, elem func(reflect.Value)) {
	e.enter('[')
	for i := range v.Len() {
		if e.err != nil {
			return
		}
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		elem(v.Index(i))
	}
	e.leave(']')
}

func (e *encoder) shaped(v reflect.Value, sh *shape) {
	switch sh.kind {
	case stringShape:
		e.string(v.String())
	case boolShape:
		e.bool(v.Bool())
	case intShape:
		e.int(v.Int())
	case uintShape:
		e.uint(v.Uint())
	case floatShape:
		bits := 64
		if e.direct {
			bits = v.Type().Bits()
		}
		e.float(v.Float(), bits)
	case anyShape:
		e.value(v)
	case wordShape:
		e.word(v.String(), sh)
	case listShape:
		e.list(v, func(item reflect.Value) { e.shaped(item, sh.elem) })
	case objectShape:
		e.object(v, sh.object, false)
	case unionShape:
		o, member, ok := sh.union.find(v)
		if !ok {
			e.fail(fmt.Sprintf("no %s in %v", sh.union.name, v.Type()))
			return
		}
		e.object(member, o, true)
	}
}

func (e *encoder) word(w string, sh *shape) {
	if slices.Contains(sh.words, w) {
		e.dst = appendString(e.dst, w)
		return
	}
	e.fail(unknownName("variant", w, sh.words).text)
}

// object writes a struct, and its member "type" if tagged.
func (e *encoder) object(v reflect.Value, o *object, tagged bool) {
	e.enter('{')
	order := o.sorted
	if e.direct {
		order = o.declared
	}
	comma := false
	for _, i := range order {
		switch {
		case e.err != nil:
			return
		case i >= 0:
			comma = e.field(comma, v.Field(i), &o.fields[i]) || comma
		case tagged:
			e.name(comma, "type")
			e.string(o.tag)
			comma = true
		}
	}
	e.leave('}')
}

// field writes one member, unless it is absent and left out. It reports whether it wrote.
func (e *encoder) field(comma bool, v reflect.Value, f *field) bool {
	absent := false
	switch {
	case f.pointer || f.shape.kind == unionShape:
		absent = v.IsNil()
	case f.presence == emptied:
		absent = v.Len() == 0
	case f.presence == omitted: // this is a Value, and null counts as absent
		absent = v.Field(0).Len() == 0 || v.Field(0).String() == "null"
	}
	if absent && f.presence != nulled {
		return false
	}
	if comma {
		e.dst = append(e.dst, ',')
	}
	e.dst = append(e.dst, f.key...)
	switch {
	case absent:
		e.dst = append(e.dst, "null"...)
	case f.shape.kind == wordShape && f.fallback != "" && v.Len() == 0:
		e.string(f.fallback)
	case f.pointer:
		e.shaped(v.Elem(), f.shape)
	default:
		e.shaped(v, f.shape)
	}
	return true
}

// find returns the member of u that v is, that v points to, or that a caller's struct v
// embeds directly.
func (u *union) find(v reflect.Value) (o *object, member reflect.Value, ok bool) {
	if v = target(v); !v.IsValid() {
		return nil, v, false
	}
	if i, ok := u.byType[v.Type()]; ok {
		return u.members[i], v, true
	}
	// A caller's type can have the unexported method only by embedding, as a struct.
	for f := range v.NumField() {
		if !v.Type().Field(f).Anonymous {
			continue
		}
		if inner := target(v.Field(f)); inner.IsValid() {
			if i, ok := u.byType[inner.Type()]; ok {
				return u.members[i], inner, true
			}
		}
	}
	return nil, v, false
}

// target follows one interface and one pointer. The result is not valid if one of them is
// nil.
func target(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}
