package main

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// unknownMember holds the unknown fields of a message: their whole bytes, tags
// included, in hex. No field can have that name.
const unknownMember = "@unknown"

// appendJSON appends m as compact JSON: protobuf's JSON mapping with the field names of
// the schema, in order of number, and unknownMember last. Fields that are not set are
// left out. Text in m must be UTF-8, as it is in whatever proto.Unmarshal takes.
func appendJSON(b []byte, m protoreflect.Message) []byte {
	var set []protoreflect.FieldDescriptor
	m.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		set = append(set, fd)
		return true
	})
	slices.SortFunc(set, func(x, y protoreflect.FieldDescriptor) int { return cmp.Compare(x.Number(), y.Number()) })
	b = append(b, '{')
	for i, fd := range set {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), fd.Name()...), `":`...)
		b = appendField(b, fd, m.Get(fd))
	}
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		if len(set) > 0 {
			b = append(b, ',')
		}
		b = append(b, `"`+unknownMember+`":"`...)
		b = append(hex.AppendEncode(b, unknown), '"')
	}
	return append(b, '}')
}

func appendField(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch {
	case fd.IsMap():
		keys := make([]string, 0, v.Map().Len())
		v.Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
			keys = append(keys, key.String())
			return true
		})
		slices.Sort(keys)
		b = append(b, '{')
		for i, key := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, key), ':')
			b = appendSingular(b, fd.MapValue(), v.Map().Get(protoreflect.ValueOfString(key).MapKey()))
		}
		return append(b, '}')
	case fd.IsList():
		b = append(b, '[')
		for i := range v.List().Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendSingular(b, fd, v.List().Get(i))
		}
		return append(b, ']')
	default:
		return appendSingular(b, fd, v)
	}
}

// appendSingular knows the kinds of the schema; a test holds the schema to them.
func appendSingular(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return appendJSON(b, v.Message())
	case protoreflect.StringKind:
		return appendText(b, v.String())
	case protoreflect.BytesKind:
		b = append(b, '"')
		return append(base64.StdEncoding.AppendEncode(b, v.Bytes()), '"')
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool())
	case protoreflect.EnumKind:
		if named := fd.Enum().Values().ByNumber(v.Enum()); named != nil {
			return append(append(append(b, '"'), named.Name()...), '"')
		}
		return strconv.AppendInt(b, int64(v.Enum()), 10)
	case protoreflect.Uint32Kind:
		return strconv.AppendUint(b, v.Uint(), 10)
	default: // int64: text, since many readers round numbers above 2^53
		return append(strconv.AppendInt(append(b, '"'), v.Int(), 10), '"')
	}
}

func appendText(b []byte, text string) []byte {
	b, err := jsontext.AppendQuote(b, text)
	if err != nil {
		panic(err) // text of a decoded message is UTF-8
	}
	return b
}
