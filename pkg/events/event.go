package events

import (
	"fmt"
	"reflect"
)

// Event is one event with its fields. The set is closed: it has the structs of this package
// whose names are the wire names in Go's spelling, such as [ToolEnd] for tool_end. Functions
// that read return structs; functions that write accept pointers too. A caller's own struct
// that embeds an event directly is written as that event.
type Event interface {
	// EventType returns the wire name.
	EventType() string
	sealed()
}

// ToEnvelope returns the envelope of an event, without metadata. Floats of 32 bits are
// widened to 64. The error wraps [ErrSerialize], [ErrRuntimeShape] or [ErrTypeDrift].
func ToEnvelope(event Event) (Envelope, error) {
	e := encoder{dst: make([]byte, 0, 256), depth: 1, deepest: 1}
	o, err := e.event(event, false)
	if err != nil {
		return Envelope{}, err
	}
	return NewEnvelope(o.tag, Value{string(e.dst), e.deepest - 1, true}), nil
}

// FromEnvelope returns the event of an envelope. It ignores the metadata. It also ignores
// unknown members of the payload, except in the snapshots, where they are an error. Errors
// are of type *[DecodeError]; for a type that is not in the catalogue the code is
// [CodeWrongType].
func FromEnvelope(env Envelope) (Event, error) {
	i, ok := catalogue.byTag[env.Type]
	if !ok {
		return nil, unknownName("variant", env.Type, catalogue.tags)
	}
	// The canonical text, in which the last of equal names has won.
	d := decoder{cursor{s: env.Payload.JSON()}}
	return d.event(i)
}

// AppendEvent appends an event in its direct form to dst: an object with the member "type"
// first, then the fields in their order. Floats of 32 bits have their own shortest digits.
// Errors are those of [ToEnvelope].
func AppendEvent(dst []byte, event Event) ([]byte, error) {
	e := encoder{dst: dst, direct: true}
	if _, err := e.event(event, true); err != nil {
		return dst, err
	}
	return e.dst, nil
}

// DecodeEvent reads an event in its direct form. Its members may be in any order. A known
// member that occurs twice is an error. Errors are of type *[DecodeError].
func DecodeEvent(data []byte) (Event, error) {
	v, err := parse(string(data), 0)
	if err != nil {
		return nil, err
	}
	return (&decoder{cursor{s: v.text}}).tagged()
}

// event writes an event, with its member "type" if tagged, and returns its shape.
func (e *encoder) event(event Event, tagged bool) (*object, error) {
	o, v, ok := catalogue.find(reflect.ValueOf(event))
	if !ok {
		return nil, ErrRuntimeShape
	}
	if name := event.EventType(); name != o.tag {
		return nil, fmt.Errorf("%w: canonical type is `%s`, serde emitted `%s`", ErrTypeDrift, name, o.tag)
	}
	e.object(v, o, tagged)
	return o, e.err
}

// tagged reads an event that the member "type" names.
func (d *decoder) tagged() (Event, error) {
	i, err := d.variant(catalogue)
	if err != nil {
		return nil, err
	}
	return d.event(i)
}

func (d *decoder) event(i int) (Event, error) {
	v := reflect.New(catalogue.types[i]).Elem()
	if err := d.object(v, catalogue.members[i]); err != nil {
		return nil, err
	}
	return v.Interface().(Event), nil
}
