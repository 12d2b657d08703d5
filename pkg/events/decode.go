package events

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// decoder reads typed values from text that a scanner has accepted.
type decoder struct{ cursor }

// shaped reads one value into v, which has that shape and can be set.
func (d *decoder) shaped(v reflect.Value, sh *shape) *DecodeError {
	b := d.peek()
	if sh.kind <= wordShape && sh.kind != anyShape {
		return d.scalar(b, v, sh)
	}
	switch sh.kind {
	case anyShape:
		*v.Addr().Interface().(*Value) = accepted(d.raw())
		return nil
	case listShape:
		if b != '[' {
			return wrongType(d.raw(), "a sequence")
		}
		return d.list(v, sh.elem)
	case objectShape:
		return d.object(v, sh.object)
	default:
		i, err := d.variant(sh.union)
		if err != nil {
			return err
		}
		member := reflect.New(sh.union.types[i]).Elem()
		if err := d.object(member, sh.union.members[i]); err != nil {
			return err
		}
		v.Set(member)
		return nil
	}
}

func (d *decoder) scalar(b byte, v reflect.Value, sh *shape) *DecodeError {
	switch sh.kind {
	case stringShape, wordShape:
		if b != '"' {
			return wrongType(d.raw(), "a string")
		}
		s := d.str()
		if sh.kind == wordShape && !slices.Contains(sh.words, s) {
			return unknownName("variant", s, sh.words)
		}
		v.SetString(s)
		return nil
	case boolShape:
		if b != 't' && b != 'f' {
			return wrongType(d.raw(), "a boolean")
		}
		v.SetBool(d.literal() == "true")
		return nil
	}
	text := d.raw()
	n, isFloat, ok := Value{text: text}.number()
	if !ok || isFloat && sh.kind != floatShape {
		return wrongType(text, sh.name)
	}
	switch sh.kind {
	case intShape:
		if i, ok := n.int64(); ok && !v.OverflowInt(i) {
			v.SetInt(i)
			return nil
		}
	case uintShape:
		if u, ok := n.uint64(); ok && !v.OverflowUint(u) {
			v.SetUint(u)
			return nil
		}
	default:
		if f, err := strconv.ParseFloat(text, v.Type().Bits()); err == nil {
			v.SetFloat(f)
			return nil
		}
	}
	return outOfRange(text, sh.name)
}

func (d *decoder) list(v reflect.Value, elem *shape) *DecodeError {
	list := reflect.Zero(v.Type()) // an empty list is nil
	for more := d.open(']'); more; {
		list = reflect.Append(list, reflect.Zero(v.Type().Elem()))
		if err := d.shaped(list.Index(list.Len()-1), elem); err != nil {
			return err
		}
		d.peek()
		more = d.more()
	}
	v.Set(list)
	return nil
}

// object reads a struct. It steps over unknown members, and so over the member "type" of a
// struct in a union, which is not one of its fields.
func (d *decoder) object(v reflect.Value, o *object) *DecodeError {
	switch b := d.peek(); {
	case b == '[' && o.positional:
		return d.elements(v, o)
	case b != '{':
		return wrongType(d.raw(), "struct "+o.name)
	}
	var seen uint64 // bit i for field i; no struct has more than 24
	for more := d.open('}'); more; {
		name := d.key()
		i, known := o.byName[name]
		switch {
		case !known && o.strict:
			return o.unknownField(name)
		case !known:
			d.raw()
		case seen>>i&1 != 0:
			return duplicateField(o.fields[i].name)
		default:
			seen |= 1 << i
			if err := d.field(v.Field(i), &o.fields[i]); err != nil {
				return err
			}
		}
		d.peek()
		more = d.more()
	}
	return o.complete(v, seen)
}

// elements reads a struct from an array that holds its fields in their order.
func (d *decoder) elements(v reflect.Value, o *object) *DecodeError {
	start, n := d.cursor, 0
	for more := d.open(']'); more; n++ {
		if n == len(o.fields) {
			return wrongType(start.raw(), fmt.Sprintf("struct %s with %d elements", o.name, n))
		}
		if err := d.field(v.Field(n), &o.fields[n]); err != nil {
			return err
		}
		d.peek()
		more = d.more()
	}
	return o.complete(v, 1<<n-1)
}

// complete gives the fields that were not seen the value of a missing member. The error is
// about a required one.
func (o *object) complete(v reflect.Value, seen uint64) *DecodeError {
	for i := range o.fields {
		if seen>>i&1 != 0 {
			continue
		}
		if err := o.fields[i].missing(v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

func (o *object) unknownField(name string) *DecodeError {
	names := make([]string, len(o.fields))
	for i, f := range o.fields {
		names[i] = f.name
	}
	return unknownName("field", name, names)
}

func (d *decoder) field(v reflect.Value, f *field) *DecodeError {
	if (f.presence == omitted || f.presence == nulled) && d.peek() == 'n' {
		d.raw()
		return nil
	}
	if f.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	return d.shaped(v, f.shape)
}

// missing gives v the value that the field has when its member is missing.
func (f *field) missing(v reflect.Value) *DecodeError {
	switch {
	case f.presence == required:
		return missingField(f.name)
	case f.fallback == "":
	case v.Kind() == reflect.String:
		v.SetString(f.fallback)
	default:
		c := decoder{cursor{s: f.fallback}}
		return c.shaped(v, f.shape)
	}
	return nil
}

// variant reads the member "type" of the object at the cursor and returns which member of u
// it names. The cursor stays where it is.
func (d *decoder) variant(u *union) (int, *DecodeError) {
	c := d.cursor
	if c.peek() != '{' {
		return 0, wrongType(c.raw(), "internally tagged enum "+u.name)
	}
	tag := ""
	for more := c.open('}'); more; {
		name, text := c.key(), c.raw()
		if name == "type" {
			if tag != "" {
				return 0, duplicateField("type")
			}
			tag = text
		}
		c.peek()
		more = c.more()
	}
	if tag == "" {
		return 0, missingField("type")
	}
	name, ok := Value{text: tag}.Str()
	if !ok {
		return 0, wrongType(tag, "variant identifier")
	}
	i, ok := u.byTag[name]
	if !ok {
		return 0, unknownName("variant", name, u.tags)
	}
	return i, nil
}
