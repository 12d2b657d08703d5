package coders

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ErrText is the error for text that is not UTF-8, which cannot be encoded.
var ErrText = errors.New("text is not UTF-8")

// CheckText returns an error if some text in m, at any depth, is not UTF-8. The error wraps
// ErrText and names the field. Check text that a user controls before you emit or store a
// message: a coder error fails the bundle and every retry of it.
func CheckText(m proto.Message) error {
	if m == nil || validText(m) {
		return nil
	}
	if path := invalidText(m.ProtoReflect()); path != "" {
		return fmt.Errorf("coders: %s: %s: %w", m.ProtoReflect().Descriptor().FullName(), path, ErrText)
	}
	return nil
}

// invalidText returns the path of a text that is not UTF-8, or "" if all text is valid. It
// reports the first field by number. All texts in a map have the same path.
func invalidText(m protoreflect.Message) string {
	check := func(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
		switch {
		case fd.Kind() == protoreflect.StringKind && !utf8.ValidString(v.String()):
			return "."
		case fd.Message() != nil:
			if inner := invalidText(v.Message()); inner != "" {
				return "." + inner
			}
		}
		return ""
	}
	var fields []protoreflect.FieldDescriptor
	m.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, fd)
		return true
	})
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
	for _, fd := range fields {
		v, found := m.Get(fd), ""
		switch {
		case fd.IsList():
			for i := 0; i < v.List().Len() && found == ""; i++ {
				if inner := check(fd, v.List().Get(i)); inner != "" {
					found = fmt.Sprintf("[%d]%s", i, inner)
				}
			}
		case fd.IsMap():
			v.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				for _, inner := range []string{check(fd.MapKey(), key.Value()), check(fd.MapValue(), value)} {
					if inner != "" && (found == "" || inner < found) {
						found = inner
					}
				}
				return true
			})
		default:
			found = check(fd, v)
		}
		if found != "" {
			return strings.TrimSuffix(string(fd.Name())+found, ".")
		}
	}
	return ""
}
