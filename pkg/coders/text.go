package coders

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ErrText is text that is not UTF-8, which no coder can encode.
var ErrText = errors.New("text is not UTF-8")

// CheckText returns an error that wraps ErrText and names the field, if a text in m, at
// any depth, is not UTF-8. Check what a user controls before it is written: the error of
// a coder fails the bundle, and every retry of it.
func CheckText(m proto.Message) error {
	if m == nil || validText(m) {
		return nil
	}
	if path := invalidText(m.ProtoReflect()); path != "" {
		return fmt.Errorf("coders: %s: %s: %w", m.ProtoReflect().Descriptor().FullName(), path, ErrText)
	}
	return nil
}

// invalidText is the path of a text that is not UTF-8, empty if there is none.
func invalidText(m protoreflect.Message) string {
	var path string
	check := func(kind protoreflect.Kind, v protoreflect.Value) string {
		switch {
		case kind == protoreflect.StringKind && !utf8.ValidString(v.String()):
			return "."
		case kind == protoreflect.MessageKind:
			if inner := invalidText(v.Message()); inner != "" {
				return "." + inner
			}
		}
		return ""
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		var found string
		switch {
		case fd.IsList():
			for i := 0; i < v.List().Len() && found == ""; i++ {
				if inner := check(fd.Kind(), v.List().Get(i)); inner != "" {
					found = fmt.Sprintf("[%d]%s", i, inner)
				}
			}
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				if found = check(fd.MapKey().Kind(), k.Value()); found == "" {
					found = check(fd.MapValue().Kind(), v)
				}
				return found == ""
			})
		default:
			found = check(fd.Kind(), v)
		}
		if found != "" {
			path = string(fd.Name()) + found
		}
		return path == ""
	})
	return strings.TrimSuffix(path, ".")
}
