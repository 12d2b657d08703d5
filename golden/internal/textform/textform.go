// Package textform writes and reads the text form of a golden blob.
//
// # Behaviour
//
// A text file is a message in protobuf text format with comment lines above it:
//
//	# proto-message: beam_agents.v1.ToolIntent
//	# Signed, with a field of a newer schema.
//	# unknown: a01f2a
//	# unknown pending[0]: a01f2a
//
//	intent_id: "..."
//
// The first line names the type. Each unknown line has the complete bytes of the unknown fields
// of one message, in lower-case hexadecimal: of the message itself, or of the message at the
// path. A path has one step per field, joined by dots: pending[0] is the first element of a
// repeated field, and tool_result is a single field. Other comment lines are for people.
//
// [Marshal] always returns the same bytes for the same value.
//
// # Limits
//
// Unknown fields in the values of a map have no path, so Marshal refuses them.
//
// # Differences from prototext
//
// The text format cannot express unknown fields of which only the bytes are known, and the output
// of prototext is deliberately unstable. So this package has its own form.
package textform

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// ErrFormat is the error for a text file that is not in this form.
var ErrFormat = errors.New("textform: not in the form")

const header = "# proto-message: "

var (
	// prototext writes one or two spaces after a field's colon.
	fieldStart  = regexp.MustCompile(`(?m)^( *[a-z][a-z0-9_]*:) +`)
	unknownLine = regexp.MustCompile(`^# unknown(?: ([a-z0-9_.\[\]]+))?: ((?:[0-9a-f]{2})+)$`)
	pathStep    = regexp.MustCompile(`^([a-z][a-z0-9_]*)(?:\[([0-9]+)\])?$`)
)

// Marshal writes m, with doc as a line for people after the header.
func Marshal(doc string, m proto.Message) ([]byte, error) {
	if doc == "" || strings.ContainsAny(doc, "\r\n") || strings.HasPrefix("# "+doc, "# unknown") {
		return nil, fmt.Errorf("%w: %q is not one line for people", ErrFormat, doc)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s%s\n# %s\n", header, m.ProtoReflect().Descriptor().FullName(), doc)
	if err := unknownLines(&out, m.ProtoReflect()); err != nil {
		return nil, err
	}
	text, err := prototext.MarshalOptions{Multiline: true, Indent: "  ", EmitASCII: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("textform: %w", err)
	}
	if text = fieldStart.ReplaceAll(text, []byte("$1 ")); len(text) > 0 {
		out.WriteByte('\n')
		out.Write(text)
	}
	return out.Bytes(), nil
}

func unknownLines(out *bytes.Buffer, m protoreflect.Message) error {
	return protorange.Options{Stable: true}.Range(m, func(v protopath.Values) error {
		if v.Index(-1).Step.Kind() != protopath.UnknownAccessStep {
			return nil
		}
		var path strings.Builder
		for _, step := range v.Path {
			switch step.Kind() {
			case protopath.FieldAccessStep:
				path.WriteByte('.')
				path.WriteString(string(step.FieldDescriptor().Name()))
			case protopath.ListIndexStep:
				fmt.Fprintf(&path, "[%d]", step.ListIndex())
			case protopath.MapIndexStep, protopath.AnyExpandStep:
				return fmt.Errorf("%w: unknown fields at %v have no path", ErrFormat, v.Path)
			case protopath.RootStep, protopath.UnknownAccessStep:
			}
		}
		out.WriteString("# unknown")
		if p := path.String(); p != "" {
			out.WriteString(" " + p[1:])
		}
		fmt.Fprintf(out, ": %x\n", v.Index(-1).Value.Bytes())
		return nil
	}, nil)
}

// MessageName returns the type that the first line of text names.
func MessageName(text []byte) (protoreflect.FullName, error) {
	line, _, _ := strings.Cut(string(text), "\n")
	name := protoreflect.FullName(strings.TrimPrefix(line, header))
	if !strings.HasPrefix(line, header) || !name.IsValid() {
		return "", fmt.Errorf("%w: the first line is %q, not %q with a type", ErrFormat, line, header)
	}
	return name, nil
}

// Unmarshal reads text into a new message of the type that it names. The type must be linked into
// the program.
func Unmarshal(text []byte) (proto.Message, error) {
	name, err := MessageName(text)
	if err != nil {
		return nil, err
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		return nil, fmt.Errorf("%w: type %s: %w", ErrFormat, name, err)
	}
	m := mt.New()
	if err := prototext.Unmarshal(text, m.Interface()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "# unknown") {
			continue
		}
		parts := unknownLine.FindStringSubmatch(line)
		if parts == nil {
			return nil, fmt.Errorf("%w: line %q", ErrFormat, line)
		}
		if err := setUnknown(m, parts[1], parts[2]); err != nil {
			return nil, fmt.Errorf("%w: line %q: %w", ErrFormat, line, err)
		}
	}
	return m.Interface(), nil
}

func setUnknown(m protoreflect.Message, path, digits string) error {
	m, err := messageAt(m, path)
	if err != nil {
		return err
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return err
	}
	if len(m.GetUnknown()) > 0 {
		return errors.New("a second line for one message")
	}
	for rest := raw; len(rest) > 0; {
		num, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if fd := m.Descriptor().Fields().ByNumber(num); fd != nil {
			return fmt.Errorf("field %d is known: %s", num, fd.Name())
		}
		rest = rest[n:]
	}
	m.SetUnknown(raw)
	return nil
}

// messageAt follows path without creating messages, because a message that is not in the text
// cannot have unknown fields.
func messageAt(m protoreflect.Message, path string) (protoreflect.Message, error) {
	if path == "" {
		return m, nil
	}
	for step := range strings.SplitSeq(path, ".") {
		parts := pathStep.FindStringSubmatch(step)
		if parts == nil {
			return nil, fmt.Errorf("path step %q", step)
		}
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(parts[1]))
		switch {
		case fd == nil || fd.Message() == nil || fd.IsMap() || fd.IsList() != (parts[2] != "") || !m.Has(fd):
			return nil, fmt.Errorf("no message at %q", step)
		case fd.IsList():
			i, err := strconv.Atoi(parts[2])
			if err != nil || i >= m.Get(fd).List().Len() {
				return nil, fmt.Errorf("no message at %q", step)
			}
			m = m.Get(fd).List().Get(i).Message()
		default:
			m = m.Get(fd).Message()
		}
	}
	return m, nil
}
