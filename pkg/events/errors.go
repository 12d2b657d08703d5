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
	// CodeUnsupportedVersion: an envelope of sound shape whose version is not
	// [EnvelopeVersion].
	CodeUnsupportedVersion ErrorCode = "unsupported_version"
	// CodeMissingField: a required member is not there.
	CodeMissingField ErrorCode = "missing_field"
	// CodeWrongType: a member has the wrong JSON type, a number out of its
	// range, an unknown word where the words are fixed (an unknown event type
	// for a typed event included), or is unknown where nothing unknown may be.
	CodeWrongType ErrorCode = "wrong_type"
	// CodeDuplicateField: a known member is there twice.
	CodeDuplicateField ErrorCode = "duplicate_field"
	// CodeTooDeep: nested deeper than [MaxDepth].
	CodeTooDeep ErrorCode = "too_deep"
)

// Error returns the word itself.
func (c ErrorCode) Error() string { return string(c) }

// DecodeError is the one error type of everything in this package that reads.
// Its text is that of the protocol where the protocol fixes it, without a
// prefix, for example "missing field `payload`". It quotes at most 256 bytes of
// any one piece of the input.
type DecodeError struct {
	Code ErrorCode
	text string
}

// Error returns the text.
func (e *DecodeError) Error() string { return e.text }

// Unwrap returns the code, for errors.Is.
func (e *DecodeError) Unwrap() error { return e.Code }

// The three ways in which an event cannot become an envelope. Their texts are
// those of the protocol; errors.Is tells them apart.
var (
	// ErrSerialize: a field holds what the wire cannot carry: NaN, an
	// infinity, invalid UTF-8, a word outside a fixed list, a missing union
	// member, or a value that is nested too deep.
	ErrSerialize = errors.New("failed to serialize agent event")
	// ErrRuntimeShape: there is no event: nil, a nil pointer, or a caller's
	// type with no event in it.
	ErrRuntimeShape = errors.New("serialized AgentEvent must be a JSON object with a string `type` field")
	// ErrTypeDrift: a caller's type embeds an event but names another type
	// than that event has.
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

// wrongType names the JSON value that text starts with, which must be valid.
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

// outOfRange is for a number of the right kind that does not fit.
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

// unknownName is the text for a name outside a fixed list. what is "variant"
// or "field".
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
