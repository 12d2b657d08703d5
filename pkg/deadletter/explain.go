package deadletter

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Explain says why raw is no encoding of m's type: the offset of the first fault in
// bytes, the field and what is wrong with it. The words are ours, since those of
// protobuf-go vary from binary to binary. For bytes that do decode the answer has no
// meaning.
func Explain(raw []byte, m proto.Message) string {
	offset, fault := Locate(raw, m)
	return fmt.Sprintf("byte %d: %s", offset, fault)
}

// Locate is [Explain] with the offset apart, for a raw that is part of something larger.
func Locate(raw []byte, m proto.Message) (offset int, fault string) {
	md := m.ProtoReflect().Descriptor()
	if offset, fault = locate(raw, 0, string(md.Name()), md); fault == "" {
		fault = "the bytes are not a valid encoding"
	}
	return offset, fault
}

func locate(raw []byte, base int, path string, md protoreflect.MessageDescriptor) (offset int, fault string) {
	for off := 0; off < len(raw); {
		num, typ, n := protowire.ConsumeTag(raw[off:])
		if n < 0 {
			return base + off, fmt.Sprintf("%s: the tag of a field %s", path, wireFault(n))
		}
		if num > protowire.MaxValidNumber { // which ConsumeTag lets pass
			return base + off, path + ": the tag of a field is not valid"
		}
		name := fmt.Sprintf("field %d of %s", num, path)
		fd := md.Fields().ByNumber(num)
		if fd != nil {
			name = fmt.Sprintf("%s.%s", path, fd.Name())
		}
		value := off + n
		n = protowire.ConsumeFieldValue(num, typ, raw[value:])
		if n < 0 {
			return base + off, name + " " + wireFault(n)
		}
		if fd != nil && typ == protowire.BytesType {
			content, prefix := protowire.ConsumeBytes(raw[value:])
			start := base + value + prefix - len(content)
			switch {
			case fd.Kind() == protoreflect.StringKind && !utf8.Valid(content):
				return start, name + " is not UTF-8"
			case fd.Message() != nil:
				if offset, fault = locate(content, start, name, fd.Message()); fault != "" {
					return offset, fault
				}
			}
		}
		off = value + n
	}
	return 0, ""
}

func wireFault(n int) string {
	if errors.Is(protowire.ParseError(n), io.ErrUnexpectedEOF) {
		return "is cut short"
	}
	return "is not valid"
}
