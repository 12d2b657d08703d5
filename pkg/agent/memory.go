package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/memory"
)

// Get returns the value that the memory of the key has under name, and whether there is
// one. A []byte or json.RawMessage comes back as its bytes, a protobuf message from its
// encoding, everything else from JSON. An error is one of the value, which is of another
// form, or ErrActivationEnded.
//
// A Get that finds an entry marks it as the most recently used, which counts as a change
// of the memory unless it was that already.
func Get[T any](act *Activation, name string) (value T, ok bool, err error) {
	b, ok, err := act.get(name)
	if err != nil || !ok {
		return value, false, err
	}
	switch v := any(&value).(type) {
	case *[]byte:
		*v = b
	case *json.RawMessage:
		*v = b
	default:
		if m, isMessage := newMessage(&value); isMessage {
			err = proto.Unmarshal(b, m)
		} else {
			err = decodeJSON(b, &value)
		}
	}
	if err != nil {
		return *new(T), false, fmt.Errorf("agent: memory %q: %w", name, err)
	}
	return value, true, nil
}

// newMessage sets value to a new message if T is a pointer to one.
func newMessage[T any](value *T) (proto.Message, bool) {
	m, ok := any(*value).(proto.Message)
	if !ok {
		return nil, false
	}
	m = m.ProtoReflect().New().Interface()
	*value = m.(T)
	return m, true
}

// Put stores value under name in the memory of the key, as the most recently used entry.
// When the memory exceeds 1 MiB of values the least recently used entries are evicted. A
// value that is too large even alone is an error that wraps memory.ErrOverflow. A name that
// is empty, longer than 1,024 bytes or not UTF-8, and a value that cannot be encoded, is an
// error that wraps ErrInvalidText. After an error nothing has changed.
func Put[T any](act *Activation, name string, value T) (err error) {
	var b []byte
	switch v := any(value).(type) {
	case []byte:
		b = v
	case json.RawMessage:
		b = v
	case proto.Message:
		b, err = proto.MarshalOptions{Deterministic: true}.Marshal(v)
	default:
		b, err = encodeJSON(value)
	}
	if err != nil {
		return fmt.Errorf("agent: memory %q: %w: %w", name, ErrInvalidText, err)
	}
	return act.put(name, b)
}

// Delete removes what the memory has under name. It is no error if there is nothing.
func Delete(act *Activation, name string) error {
	act.mu.Lock()
	defer act.mu.Unlock()
	m, err := act.memory()
	if err != nil {
		return err
	}
	m.Delete(name)
	return nil
}

// Names returns the names in the memory of the key, the least recently used first.
func Names(act *Activation) ([]string, error) {
	act.mu.Lock()
	defer act.mu.Unlock()
	m, err := act.memory()
	if err != nil {
		return nil, err
	}
	return slices.Collect(m.Keys()), nil
}

func (a *Activation) get(name string) ([]byte, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.memory()
	if err != nil {
		return nil, false, err
	}
	b, ok := m.Get(name) // a copy
	return b, ok, nil
}

func (a *Activation) put(name string, b []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := a.memory()
	if err != nil {
		return err
	}
	switch err := m.Put(name, b); {
	case errors.Is(err, memory.ErrKey):
		return fmt.Errorf("agent: %w: %w", ErrInvalidText, err)
	case err != nil:
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}
