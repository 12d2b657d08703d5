package events

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// EnvelopeVersion is the one version that is read and written.
const EnvelopeVersion = 1

// Envelope is one event as it travels. The version is not kept: it is always
// [EnvelopeVersion].
type Envelope struct {
	// Type names the event. The set is open: an event whose type is not in the catalogue
	// keeps its name and its whole payload. Type may be empty.
	Type string
	// Payload may be any value, null included.
	Payload Value
	// Metadata may be any value. Null means that there is no metadata.
	Metadata Value
}

// NewEnvelope returns an envelope without metadata.
func NewEnvelope(eventType string, payload Value) Envelope {
	return Envelope{Type: eventType, Payload: payload}
}

// WithMetadata returns a copy with that metadata; null removes it.
func (e Envelope) WithMetadata(metadata Value) Envelope {
	e.Metadata = metadata
	return e
}

// Equal reports whether both envelopes are encoded as the same bytes; see [Value.Equal].
func (e Envelope) Equal(o Envelope) bool {
	return e.Type == o.Type && e.Payload.Equal(o.Payload) && e.Metadata.Equal(o.Metadata)
}

// DecodeEnvelope reads one envelope. The package documentation says what it refuses. It
// copies data once, and the envelope refers to the copy. Errors are of type *[DecodeError];
// a fault in the shape is reported before a wrong version.
func DecodeEnvelope(data []byte) (Envelope, error) { return DecodeEnvelopeString(string(data)) }

// DecodeEnvelopeString is [DecodeEnvelope] for text that is a string already. The envelope
// refers to it, and nothing is copied.
func DecodeEnvelopeString(text string) (Envelope, error) {
	sc := scanner{s: text}
	var env Envelope
	version, err := sc.envelope(&env)
	switch {
	case err != nil:
		return Envelope{}, err
	case version != EnvelopeVersion:
		return Envelope{}, &DecodeError{CodeUnsupportedVersion,
			fmt.Sprintf("unsupported event envelope version %d; expected %d", version, EnvelopeVersion)}
	}
	return env, nil
}

// The members of an envelope, as bits of a set.
const (
	hasVersion = 1 << iota
	hasType
	hasPayload
	hasMetadata
)

func (sc *scanner) envelope(env *Envelope) (version uint64, err error) {
	if sc.peek() != '{' {
		return 0, sc.notObject("an event envelope object")
	}
	seen := 0
	sc.enter(1)
	more := sc.peek() != '}'
	if !more {
		sc.i++
	}
	for more {
		name, ok := sc.key()
		if !ok {
			return 0, sc.err
		}
		if strings.IndexByte(name, '\\') >= 0 {
			name = unescape(name)
		}
		member := 0
		switch name {
		case "version":
			member = hasVersion
		case "type":
			member = hasType
		case "payload":
			member = hasPayload
		case "metadata":
			member = hasMetadata
		}
		if seen&member != 0 {
			return 0, duplicateField(name)
		}
		seen |= member
		v, ok := sc.keep(1)
		if !ok {
			return 0, sc.err
		}
		switch member {
		case hasVersion:
			if version, err = v.unsigned("u16", 1<<16-1); err != nil {
				return 0, err
			}
		case hasType:
			if env.Type, ok = v.Str(); !ok {
				return 0, wrongType(v.text, "a string")
			}
		case hasPayload:
			env.Payload = v
		case hasMetadata:
			env.Metadata = v
		}
		if more, ok = sc.next('}'); !ok {
			return 0, sc.err
		}
	}
	switch {
	case seen&hasVersion == 0:
		return 0, missingField("version")
	case seen&hasType == 0:
		return 0, missingField("type")
	case seen&hasPayload == 0:
		return 0, missingField("payload")
	case !sc.end():
		return 0, sc.err
	}
	return version, nil
}

// notObject is the error for text that does not begin with an object: it is malformed, or it
// is another value.
func (sc *scanner) notObject(expected string) *DecodeError {
	v, ok := sc.keep(0)
	if !ok || !sc.end() {
		return sc.err
	}
	return wrongType(v.text, expected)
}

// unsigned returns v as an integer from 0 to limit. Errors call its type name.
func (v Value) unsigned(name string, limit uint64) (uint64, error) {
	n, isFloat, ok := v.number()
	if !ok || isFloat {
		return 0, wrongType(v.text, name)
	}
	if u, ok := n.uint64(); ok && u <= limit {
		return u, nil
	}
	return 0, outOfRange(v.text, name)
}

// AppendJSON appends the envelope to dst: compact, the members in the order version, type,
// payload, metadata, payload and metadata in their canonical form. Metadata that is null is
// left out. The error wraps [ErrSerialize]: the type is not valid UTF-8, which cannot happen
// with an envelope that was decoded.
func (e Envelope) AppendJSON(dst []byte) ([]byte, error) {
	if !utf8.ValidString(e.Type) {
		return dst, fmt.Errorf("%w: the event type is not valid UTF-8", ErrSerialize)
	}
	dst = append(dst, `{"version":1,"type":`...)
	dst = appendString(dst, e.Type)
	dst = append(dst, `,"payload":`...)
	dst = e.Payload.AppendJSON(dst)
	if !e.Metadata.IsNull() {
		dst = append(dst, `,"metadata":`...)
		dst = e.Metadata.AppendJSON(dst)
	}
	return append(dst, '}'), nil
}

// MarshalJSON returns what [Envelope.AppendJSON] appends. When encoding/json calls it,
// encoding/json then escapes <, > and & in the result. Call it or AppendJSON directly where
// the exact bytes matter.
func (e Envelope) MarshalJSON() ([]byte, error) {
	return e.AppendJSON(make([]byte, 0, 64+len(e.Type)+len(e.Payload.text)+len(e.Metadata.text)))
}

// UnmarshalJSON is [DecodeEnvelope]. When encoding/json calls it, encoding/json has checked
// the text before, with errors of its own.
func (e *Envelope) UnmarshalJSON(data []byte) (err error) {
	*e, err = DecodeEnvelope(data)
	return err
}
