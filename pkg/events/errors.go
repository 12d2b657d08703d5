package events

import (
	"errors"
	"strconv"
)

// ErrorCode is the class of a [DecodeError]: one word of a closed list, the
// codes of a dead letter with the reason malformed_event. It is an error
// itself, so errors.Is(err, events.CodeMissingField) asks for a class.
type ErrorCode string

// The closed list of error codes.
const (
	// CodeUnparsable: not JSON, not UTF-8, a lone surrogate, or a number
	// beyond the range of a 64-bit float.
	CodeUnparsable ErrorCode = "unparsable"
	// CodeUnsupportedVersion: the shape of the envelope is right, but its version is not
	// [EnvelopeVersion].
	CodeUnsupportedVersion ErrorCode = "unsupported_version"
	// CodeMissingField: a required member is missing.
	CodeMissingField ErrorCode = "missing_field"
	// CodeWrongType: a member has the wrong JSON type, its number is out of range, or its
	// word is not one of a fixed list, such as the type of a typed event. Or a member is
	// unknown where unknown members are refused.
	CodeWrongType ErrorCode = "wrong_type"
	// CodeDuplicateField: a known member occurs twice.
	CodeDuplicateField ErrorCode = "duplicate_field"
	// CodeTooDeep: nested deeper than [MaxDepth].
	CodeTooDeep ErrorCode = "too_deep"
)

// Error returns the word itself.
func (c ErrorCode) Error() string { return string(c) }

// DecodeError is the error type of all functions of this package that read. Where the
// protocol fixes the text of an error, DecodeError has that text, without a prefix: for
// example "missing field `payload`". It quotes at most 256 bytes of any one piece of the
// input.
type DecodeError struct {
	Code ErrorCode
	text string
}

// Error returns the text.
func (e *DecodeError) Error() string { return e.text }

// Unwrap returns the code, for errors.Is.
func (e *DecodeError) Unwrap() error { return e.Code }

// The three reasons why an event cannot be written as an envelope. Their texts are those of
// the protocol; errors.Is tells them apart.
var (
	// ErrSerialize: a field holds a value that JSON or the protocol cannot express. It is
	// NaN, an infinity, invalid UTF-8, a word that is not in a fixed list, a nil interface
	// where a value is required, or nested too deep.
	ErrSerialize = errors.New("failed to serialize agent event")
	// ErrRuntimeShape: the argument is not an event. It is nil, a nil pointer, or of a
	// caller's type that does not embed an event.
	ErrRuntimeShape = errors.New("serialized AgentEvent must be a JSON object with a string `type` field")
	// ErrTypeDrift: a caller's type embeds an event, but its EventType returns another name
	// than that of the event.
	ErrTypeDrift = errors.New("AgentEvent wire type drifted")
)

// maxQuoted bounds what an error text quotes of one piece of input, in bytes.
const maxQuoted = 256

// quoted cuts s to maxQuoted bytes at a rune boundary.
func quoted(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	end := maxQuoted
	for end > 0 && s[end]&0xC0 == 0x80 {
		end--
	}
	return s[:end] + "..."
}

func unparsable(what string, at int) *DecodeError {
	return &DecodeError{CodeUnparsable, what + " at byte " + strconv.Itoa(at)}
}

func missingField(name string) *DecodeError {
	return &DecodeError{CodeMissingField, "missing field `" + name + "`"}
}

func duplicateField(name string) *DecodeError {
	return &DecodeError{CodeDuplicateField, "duplicate field `" + name + "`"}
}

// wrongType is the error for a JSON value of the wrong type. The text begins with the value,
// and a scanner has accepted it.
func wrongType(text, expected string) *DecodeError {
	c := cursor{s: text}
	var found string
	switch text[0] {
	case 'n':
		found = "null"
	case 't', 'f':
		found = "boolean `" + c.literal() + "`"
	case '"':
		found = "string " + strconv.Quote(quoted(c.str()))
	case '[':
		found = "sequence"
	case '{':
		found = "map"
	default:
		found = kindOf(c.literal())
	}
	return &DecodeError{CodeWrongType, "invalid type: " + found + ", expected " + expected}
}

// outOfRange is the error for a number of the right kind that is too large or too small.
func outOfRange(lit, expected string) *DecodeError {
	return &DecodeError{CodeWrongType, "invalid value: " + kindOf(lit) + ", expected " + expected}
}

// kindOf names a number and its kind.
func kindOf(lit string) string {
	kind := "integer"
	if _, float := parseNumber(lit); float {
		kind = "floating point"
	}
	return kind + " `" + quoted(lit) + "`"
}

// unknownName is the error for a name that is not in a fixed list. What is named is a
// "variant" or a "field".
func unknownName(what, name string, known []string) *DecodeError {
	text := []byte("unknown " + what + " `" + quoted(name) + "`, expected ")
	if len(known) > 1 {
		text = append(text, "one of "...)
	}
	for i, k := range known {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(append(append(text, '`'), k...), '`')
	}
	return &DecodeError{CodeWrongType, string(text)}
}
