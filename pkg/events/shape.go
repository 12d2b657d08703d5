package events

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A shape is how a Go type looks on the wire. Shapes are built once, from the types and from
// the tags of their fields:
//
//	wire:"name"               the member is required
//	wire:"name,omit"          an absent member is left out; null is read as absent
//	wire:"name,null"          an absent member is written as null; null is read as absent
//	wire:"name,default"       a missing member is zero; it is always written, and never null
//	wire:"name,default=4"     the same with 4 in place of zero; also written for an empty word
//	wire:"name,empty"         an empty list is left out; it is never null
//	wire:"name,...,strict"    unknown members are refused in the value
//	alias:"other"             a second name that is accepted when reading
type shape struct {
	kind   shapeKind
	name   string // of the type, as [Field] and errors show it
	elem   *shape // of a list
	object *object
	union  *union
	words  []string
}

type shapeKind int

const (
	stringShape shapeKind = iota
	boolShape
	intShape
	uintShape
	floatShape
	anyShape
	wordShape
	listShape
	objectShape
	unionShape
)

// object is the shape of a struct.
type object struct {
	name   string
	tag    string // the member "type" if the struct belongs to a union
	fields []field
	// The two orders of members, as indices of fields; -1 is the tag.
	declared, sorted []int
	byName           map[string]int
	strict           bool
	positional       bool
}

type field struct {
	name     string
	key      string // the name as it is written, with quotes and colon
	presence presence
	fallback string // the default, if the presence is defaulted
	shape    *shape
	pointer  bool
}

type presence int

const (
	required presence = iota
	omitted
	nulled
	defaulted
	emptied
)

// union is a set of structs. The member "type" tells which one a value is.
type union struct {
	name    string
	tags    []string // in order
	members []*object
	types   []reflect.Type
	byTag   map[string]int
	byType  map[reflect.Type]int
}

// words is implemented by string types that have a fixed list of values.
type words interface{ words() []string }

// positional is implemented by structs that may also be read from an array of their fields.
type positional interface{ positional() }

var (
	valueType = reflect.TypeFor[Value]()
	wordsType = reflect.TypeFor[words]()
)

// unions holds the shapes of the interface types that fields may have.
type unions map[reflect.Type]*union

// unionOf builds a union of the struct types of members, and adds it to known.
func unionOf[T any](known unions, name string, tag func(T) string, members []T) *union {
	u := &union{name: name, byTag: map[string]int{}, byType: map[reflect.Type]int{}}
	for i, m := range members {
		t := reflect.TypeOf(m)
		o := known.object(t, false)
		o.tag = tag(m)
		o.declared = append([]int{-1}, o.declared...)
		o.sort()
		u.tags = append(u.tags, o.tag)
		u.members = append(u.members, o)
		u.types = append(u.types, t)
		u.byTag[o.tag], u.byType[t] = i, i
	}
	known[reflect.TypeFor[T]()] = u
	return u
}

func (o *object) sort() {
	name := func(i int) string {
		if i < 0 {
			return "type"
		}
		return o.fields[i].name
	}
	o.sorted = slices.SortedFunc(slices.Values(o.declared), func(a, b int) int { return strings.Compare(name(a), name(b)) })
}

func (known unions) object(t reflect.Type, strict bool) *object {
	o := &object{name: t.Name(), byName: map[string]int{}, strict: strict}
	_, o.positional = reflect.TypeAssert[positional](reflect.Zero(t))
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, ok := sf.Tag.Lookup("wire")
		if !ok {
			panic(fmt.Sprintf("events: %v.%s has no wire name", t, sf.Name))
		}
		options := strings.Split(tag, ",")
		f := field{name: options[0], key: `"` + options[0] + `":`}
		below := strict
		for _, option := range options[1:] {
			option, word, _ := strings.Cut(option, "=")
			switch option {
			case "omit":
				f.presence = omitted
			case "null":
				f.presence = nulled
			case "default":
				f.presence, f.fallback = defaulted, word
			case "empty":
				f.presence = emptied
			case "strict":
				below = true
			default:
				panic(fmt.Sprintf("events: %v.%s has the unknown option %q", t, sf.Name, option))
			}
		}
		ft := sf.Type
		if f.pointer = ft.Kind() == reflect.Pointer; f.pointer {
			ft = ft.Elem()
		}
		f.shape = known.shape(ft, below)
		o.fields = append(o.fields, f)
		o.declared = append(o.declared, i)
		o.byName[f.name] = i
		if alias := sf.Tag.Get("alias"); alias != "" {
			o.byName[alias] = i
		}
	}
	o.sort()
	return o
}

func (known unions) shape(t reflect.Type, strict bool) *shape {
	bits := func(kind shapeKind, letter string) *shape {
		return &shape{kind: kind, name: fmt.Sprintf("%s%d", letter, t.Bits())}
	}
	switch {
	case t == valueType:
		return &shape{kind: anyShape, name: "any"}
	case known[t] != nil:
		return &shape{kind: unionShape, name: t.Name(), union: known[t]}
	case t.Implements(wordsType):
		return &shape{kind: wordShape, name: t.Name(), words: reflect.Zero(t).Interface().(words).words()}
	}
	switch t.Kind() {
	case reflect.String:
		return &shape{kind: stringShape, name: "string"}
	case reflect.Bool:
		return &shape{kind: boolShape, name: "bool"}
	case reflect.Int32, reflect.Int64:
		return bits(intShape, "i")
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return bits(uintShape, "u")
	case reflect.Float32, reflect.Float64:
		return bits(floatShape, "f")
	case reflect.Slice:
		elem := known.shape(t.Elem(), strict)
		return &shape{kind: listShape, name: "[" + elem.name + "]", elem: elem}
	case reflect.Struct:
		return &shape{kind: objectShape, name: t.Name(), object: known.object(t, strict)}
	}
	panic(fmt.Sprintf("events: no wire shape for %v", t))
}
