package messagejson

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Error says where the fault in a JSON document is.
type Error struct {
	Offset int64  // offset in bytes
	Path   string // the member, or "" at the top; always one line
	Reason string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
}

// Read decodes text, one JSON object, into m. It accepts everything that [Append] writes. It also
// accepts what protobuf's JSON mapping allows for these types: names in lowerCamelCase, integers
// with and without quotes, also as 7.0 or 1e3, base64 of either alphabet with and without
// padding, and null for an absent member. Unlike protojson it refuses line breaks in base64. The
// error is an *[Error].
func Read(text []byte, m protoreflect.Message) error { return read(text, m, false) }

// ReadReadable is [Read] for both forms.
func ReadReadable(text []byte, m protoreflect.Message) error { return read(text, m, true) }

func read(text []byte, m protoreflect.Message, readable bool) error {
	r := reader{dec: jsontext.NewDecoder(bytes.NewReader(text)), readable: readable}
	if err := r.message("", m); err != nil {
		return err
	}
	if _, err := r.dec.ReadToken(); err == nil {
		return r.fault("", "more than one JSON value")
	} else if !errors.Is(err, io.EOF) {
		return r.syntax("", err)
	}
	return nil
}

// memberPath returns the path of a member. A name with other characters than letters, digits and
// underscores is quoted, because it could look like another report or a longer path.
func memberPath(path, name string) string {
	plain := name != ""
	for _, c := range []byte(strings.TrimPrefix(name, "@")) {
		plain = plain && (c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z')
	}
	if !plain {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

type reader struct {
	dec      *jsontext.Decoder
	readable bool
}

func (r *reader) fault(path, format string, args ...any) error {
	return &Error{Offset: r.dec.InputOffset(), Path: path, Reason: fmt.Sprintf(format, args...)}
}

// syntax converts an error of the decoder into an Error with a path.
func (r *reader) syntax(path string, err error) error {
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return r.fault(path, "a member occurs twice")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return r.fault(path, "the JSON is cut short")
	case errors.As(err, &syntactic):
		return &Error{Offset: syntactic.ByteOffset, Path: path, Reason: "not valid JSON: " + syntactic.Err.Error()}
	}
	return r.fault(path, "not valid JSON")
}

// open reads the beginning of an object or array.
func (r *reader) open(path string, kind jsontext.Kind, what string) error {
	token, err := r.dec.ReadToken()
	if err != nil {
		return r.syntax(path, err)
	}
	if token.Kind() != kind {
		return r.fault(path, "%s, want %s", nameOf(token.Kind()), what)
	}
	return nil
}

// skipNull reports whether the next value is null, and skips it.
func (r *reader) skipNull(path string) (bool, error) {
	if r.dec.PeekKind() != 'n' {
		return false, nil
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return false, r.syntax(path, err)
	}
	return true, nil
}

// members calls f for each member of an object that has been opened.
func (r *reader) members(path string, f func(name string) error) error {
	for {
		token, err := r.dec.ReadToken()
		if err != nil {
			return r.syntax(path, err)
		}
		if token.Kind() == '}' {
			return nil
		}
		if err := f(token.String()); err != nil {
			return err
		}
	}
}

func (r *reader) message(path string, m protoreflect.Message) error {
	if err := r.open(path, '{', "an object"); err != nil {
		return err
	}
	fields := m.Descriptor().Fields()
	seen := map[protoreflect.FieldNumber]bool{}
	return r.members(path, func(name string) error {
		at := memberPath(path, name)
		if name == unknownMember {
			return r.unknown(at, m)
		}
		fd := fields.ByName(protoreflect.Name(name))
		keyText := r.readable && name == keyMember && fd == nil && fields.ByName(keyField) != nil
		if keyText {
			fd = fields.ByName(keyField)
		}
		if fd == nil {
			fd = fields.ByJSONName(name)
		}
		if fd == nil {
			return r.fault(at, "%s has no such field", m.Descriptor().Name())
		}
		if seen[fd.Number()] {
			return r.fault(at, "a member occurs twice")
		}
		seen[fd.Number()] = true
		if null, err := r.skipNull(at); null || err != nil {
			return err
		}
		if keyText {
			return r.key(at, m, fd)
		}
		if one := fd.ContainingOneof(); one != nil {
			if other := m.WhichOneof(one); other != nil {
				return r.fault(at, "%s is set already, and only one of them can be", other.Name())
			}
		}
		return r.field(at, m, fd)
	})
}

func (r *reader) field(path string, m protoreflect.Message, fd protoreflect.FieldDescriptor) error {
	switch {
	case fd.IsMap():
		if err := r.open(path, '{', "an object"); err != nil {
			return err
		}
		values := m.Mutable(fd).Map()
		return r.members(path, func(key string) error {
			v, err := r.scalar(memberPath(path, key), fd.MapValue())
			if err == nil {
				values.Set(protoreflect.ValueOfString(key).MapKey(), v)
			}
			return err
		})
	case fd.IsList():
		if err := r.open(path, '[', "an array"); err != nil {
			return err
		}
		list := m.Mutable(fd).List()
		for r.dec.PeekKind() != ']' {
			at := fmt.Sprintf("%s[%d]", path, list.Len())
			if fd.Message() != nil {
				if err := r.message(at, list.AppendMutable().Message()); err != nil {
					return err
				}
				continue
			}
			v, err := r.scalar(at, fd)
			if err != nil {
				return err
			}
			list.Append(v)
		}
		if _, err := r.dec.ReadToken(); err != nil {
			return r.syntax(path, err)
		}
		return nil
	case fd.Message() != nil:
		return r.message(path, m.Mutable(fd).Message())
	}
	v, err := r.scalar(path, fd)
	if err == nil {
		m.Set(fd, v)
	}
	return err
}

// key reads an entity key that is text.
func (r *reader) key(path string, m protoreflect.Message, fd protoreflect.FieldDescriptor) error {
	token, err := r.dec.ReadToken()
	if err != nil {
		return r.syntax(path, err)
	}
	if token.Kind() != '"' {
		return r.fault(path, "%s, want a text", nameOf(token.Kind()))
	}
	m.Set(fd, protoreflect.ValueOfBytes([]byte(token.String())))
	return nil
}

// container reads an object or array as the text or bytes of a field.
func (r *reader) container(path string, fd protoreflect.FieldDescriptor) (v protoreflect.Value, err error) {
	raw, err := r.dec.ReadValue()
	switch {
	case err != nil:
		return v, r.syntax(path, err)
	case fd.Kind() == protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(bytes.Clone(raw)), nil
	}
	return protoreflect.ValueOfString(string(raw)), nil
}

func (r *reader) scalar(path string, fd protoreflect.FieldDescriptor) (v protoreflect.Value, err error) {
	if next := r.dec.PeekKind(); r.readable && mayHoldJSON(fd) && (next == '{' || next == '[') {
		return r.container(path, fd)
	}
	token, err := r.dec.ReadToken()
	if err != nil {
		return v, r.syntax(path, err)
	}
	kind, text := token.Kind(), token.String()
	var ok bool
	switch fd.Kind() {
	case protoreflect.StringKind:
		ok, v = kind == '"', protoreflect.ValueOfString(text)
	case protoreflect.BytesKind:
		raw, err := fromBase64(text)
		ok, v = kind == '"' && err == nil, protoreflect.ValueOfBytes(raw)
	case protoreflect.BoolKind:
		ok, v = kind == 't' || kind == 'f', protoreflect.ValueOfBool(kind == 't')
	case protoreflect.EnumKind:
		if named := fd.Enum().Values().ByName(protoreflect.Name(text)); named != nil {
			ok, v = kind == '"', protoreflect.ValueOfEnum(named.Number())
			break
		}
		n, err := strconv.ParseInt(wholeNumber(text), 10, 32)
		ok, v = kind == '0' && err == nil, protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
	case protoreflect.Uint32Kind:
		n, err := strconv.ParseUint(wholeNumber(text), 10, 32)
		ok, v = (kind == '0' || kind == '"') && err == nil, protoreflect.ValueOfUint32(uint32(n))
	default: // int64
		n, err := strconv.ParseInt(wholeNumber(text), 10, 64)
		ok, v = (kind == '0' || kind == '"') && err == nil, protoreflect.ValueOfInt64(n)
	}
	if !ok {
		return v, r.fault(path, "%s, want %s", nameOf(kind), wants(fd))
	}
	return v, nil
}

func (r *reader) unknown(path string, m protoreflect.Message) error {
	token, err := r.dec.ReadToken()
	if err != nil {
		return r.syntax(path, err)
	}
	raw, err := hex.DecodeString(token.String())
	if token.Kind() != '"' || err != nil {
		return r.fault(path, "%s, want bytes in hex", nameOf(token.Kind()))
	}
	probe := m.New()
	if proto.Unmarshal(raw, probe.Interface()) != nil || !bytes.Equal(probe.GetUnknown(), raw) {
		return r.fault(path, "these are not whole fields that %s does not know", m.Descriptor().Name())
	}
	m.SetUnknown(raw)
	return nil
}

// wholeNumber returns the JSON number in text without fraction and exponent. It returns "" if
// text is not a number, or if the number is not whole or is too large for all integer types.
func wholeNumber(text string) string {
	number := jsontext.Value(text)
	if strings.TrimSpace(text) != text || number.Kind() != '0' || !number.IsValid() {
		return ""
	}
	unsigned, negative := strings.CutPrefix(text, "-")
	mantissa, exponent := unsigned, 0
	if i := strings.IndexAny(unsigned, "eE"); i >= 0 {
		n, err := strconv.Atoi(unsigned[i+1:])
		if err != nil {
			return ""
		}
		mantissa, exponent = unsigned[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(digits, "0")
	zeros := exponent - len(fraction) + len(digits) - len(significant)
	switch {
	case significant == "":
		return "0"
	case zeros < 0 || zeros > 20: // an integer of 64 bits has at most 20 digits
		return ""
	}
	if negative {
		significant = "-" + significant
	}
	return significant + strings.Repeat("0", zeros)
}

// fromBase64 decodes either alphabet, with and without padding.
func fromBase64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") { // package base64 ignores line breaks
		return nil, errors.New("a line break")
	}
	encoding := base64.StdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.URLEncoding
	}
	if !strings.HasSuffix(text, "=") {
		encoding = encoding.WithPadding(base64.NoPadding)
	}
	return encoding.DecodeString(text)
}

func nameOf(kind jsontext.Kind) string {
	switch kind {
	case '{', '}':
		return "an object"
	case '[', ']':
		return "an array"
	case '"':
		return "a text that does not fit"
	case '0':
		return "a number that does not fit"
	case 'n':
		return "null"
	default:
		return "true or false"
	}
}

func wants(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return "a text"
	case protoreflect.BytesKind:
		return "bytes in base64"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.EnumKind:
		return fmt.Sprintf("a name or number of %s", fd.Enum().Name())
	case protoreflect.Uint32Kind:
		return "an integer from 0 to 4294967295"
	default:
		return "an integer of 64 bits"
	}
}
