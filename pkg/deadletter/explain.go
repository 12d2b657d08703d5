package deadletter

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Explain says why raw is not an encoding of m's type: the byte offset of the first fault, the
// field, and what is wrong with it. It reads raw once and allocates only for the result. It does
// not use the texts of protobuf-go, which vary from binary to binary. If raw does decode, the
// result has no meaning.
func Explain(raw []byte, m proto.Message) string {
	offset, fault := Locate(raw, m)
	return fmt.Sprintf("byte %d: %s", offset, fault)
}

// Locate is [Explain] with a separate offset, for a raw that is part of something larger.
func Locate(raw []byte, m proto.Message) (offset int, fault string) {
	w := walk{root: m.ProtoReflect().Descriptor()}
	if offset, fault = w.message(raw, 0, w.root); fault == "" {
		fault = "the bytes are not a valid encoding"
	}
	return offset, fault
}

// walk reads an encoding of root. It builds names only for a fault.
type walk struct {
	root protoreflect.MessageDescriptor
	path []protoreflect.FieldDescriptor // the fields from root to the current message
}

// at names the current message.
func (w *walk) at() string {
	names := []string{string(w.root.Name())}
	for _, fd := range w.path {
		names = append(names, string(fd.Name()))
	}
	return strings.Join(names, ".")
}

// field names a field of the current message: fd, or the unknown field num if fd is nil.
func (w *walk) field(fd protoreflect.FieldDescriptor, num protowire.Number) string {
	if fd == nil {
		return fmt.Sprintf("field %d of %s", num, w.at())
	}
	return w.at() + "." + string(fd.Name())
}

// message returns the first fault in raw, an encoding of md that begins at offset base.
func (w *walk) message(raw []byte, base int, md protoreflect.MessageDescriptor) (offset int, fault string) {
	fields := md.Fields()
	for off := 0; off < len(raw); {
		num, typ, n := protowire.ConsumeTag(raw[off:])
		if n < 0 {
			return base + off, w.at() + ": the tag of a field " + wireFault(n)
		}
		if num > protowire.MaxValidNumber { // ConsumeTag accepts it
			return base + off, w.at() + ": the tag of a field is not valid"
		}
		value := off + n
		n = protowire.ConsumeFieldValue(num, typ, raw[value:])
		if n < 0 {
			return base + off, w.field(fields.ByNumber(num), num) + " " + wireFault(n)
		}
		off = value + n
		if typ != protowire.BytesType {
			continue
		}
		fd := fields.ByNumber(num)
		if fd == nil {
			continue
		}
		content, prefix := protowire.ConsumeBytes(raw[value:])
		start := base + value + prefix - len(content)
		switch {
		case fd.Kind() == protoreflect.StringKind && !utf8.Valid(content):
			return start, w.field(fd, num) + " is not UTF-8"
		case fd.Message() != nil:
			w.path = append(w.path, fd)
			if offset, fault = w.message(content, start, fd.Message()); fault != "" {
				return offset, fault
			}
			w.path = w.path[:len(w.path)-1]
		}
	}
	return 0, ""
}

func wireFault(n int) string {
	if errors.Is(protowire.ParseError(n), io.ErrUnexpectedEOF) {
		return "is cut short"
	}
	return "is not valid"
}
