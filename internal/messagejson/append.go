package messagejson

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
)

// unknownMember holds the unknown fields of a message: their complete bytes, with tags, in
// hexadecimal. A field cannot have this name.
const unknownMember = "@unknown"

// keyMember holds an entity key that is text, in the readable form. In the schema, a message with
// an entity_key has no field of this name.
const keyMember = "key"

const keyField = "entity_key"

// Append appends m as compact JSON: protobuf's JSON mapping with the field names of the schema,
// ordered by field number, with @unknown at the end. Unset fields are left out. Text in m must be
// UTF-8, as in every message that proto.Unmarshal returns.
func Append(b []byte, m protoreflect.Message) []byte { return writer{}.message(b, m) }

// AppendReadable is [Append] in the readable form. It writes U+FFFD for invalid UTF-8, which a
// decoded message does not contain.
func AppendReadable(b []byte, m protoreflect.Message) []byte {
	return writer{readable: true}.message(b, m)
}

type writer struct{ readable bool }

func (w writer) message(b []byte, m protoreflect.Message) []byte {
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
		if w.readable && fd.Name() == keyField && utf8.Valid(m.Get(fd).Bytes()) {
			b = w.text(append(b, `"`+keyMember+`":`...), string(m.Get(fd).Bytes()))
			continue
		}
		b = append(append(append(b, '"'), fd.Name()...), `":`...)
		b = w.field(b, fd, m.Get(fd))
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

func (w writer) field(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
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
			b = append(w.text(b, key), ':')
			b = w.singular(b, fd.MapValue(), v.Map().Get(protoreflect.ValueOfString(key).MapKey()))
		}
		return append(b, '}')
	case fd.IsList():
		b = append(b, '[')
		for i := range v.List().Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = w.singular(b, fd, v.List().Get(i))
		}
		return append(b, ']')
	default:
		return w.singular(b, fd, v)
	}
}

// singular handles the kinds of fields that the schema uses. A test checks that it knows all of
// them.
func (w writer) singular(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return w.message(b, v.Message())
	case protoreflect.StringKind:
		if w.readable && mayHoldJSON(fd) && isContainer([]byte(v.String())) {
			return append(b, v.String()...)
		}
		return w.text(b, v.String())
	case protoreflect.BytesKind:
		if w.readable && mayHoldJSON(fd) && isContainer(v.Bytes()) {
			return append(b, v.Bytes()...)
		}
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

func (w writer) text(b []byte, text string) []byte {
	if w.readable {
		text = strings.ToValidUTF8(text, string(utf8.RuneError))
	}
	b, err := jsontext.AppendQuote(b, text)
	if err != nil {
		panic(err) // text of a decoded message is UTF-8
	}
	return b
}

// mayHoldJSON reports whether the readable form shows JSON in a field directly: in each bytes
// field, and in the two string fields that are always JSON when we write them.
func mayHoldJSON(fd protoreflect.FieldDescriptor) bool {
	switch fd.FullName() {
	case "beam_agents.v1.ActivationErrorRecord.detail", "beam_agents.v1.ToolIntent.args_json":
		return true
	}
	return fd.Kind() == protoreflect.BytesKind
}

// isContainer reports whether b is a JSON object or array that can be written into a line as it
// is and read back without a change. Other JSON values could be mistaken for base64.
func isContainer(b []byte) bool {
	if len(b) < 2 || b[0] != '{' && b[0] != '[' || b[len(b)-1] != b[0]+2 || bytes.ContainsAny(b, "\r\n") {
		return false
	}
	_, err := canonjson.Canonicalize(nil, b)
	return err == nil
}
