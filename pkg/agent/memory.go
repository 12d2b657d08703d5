package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/memory"
)

// Get returns the value under name in the memory of the key, and whether the memory has one. It
// returns a []byte or json.RawMessage as the stored bytes, decodes a protobuf message from its
// encoding, and everything else from JSON. An error says that the value cannot be decoded into a
// T, or is ErrActivationEnded.
//
// Get marks the entry as the most recently used. This changes the memory, unless the entry
// already was the most recently used.
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

// newMessage sets value to a new message if T is a pointer to a message.
func newMessage[T any](value *T) (proto.Message, bool) {
	m, ok := any(*value).(proto.Message)
	if !ok {
		return nil, false
	}
	m = m.ProtoReflect().New().Interface()
	*value = m.(T)
	return m, true
}

// Put stores value under name in the memory of the key, as the most recently used entry. When the
// values of the memory exceed 1 MiB, the least recently used entries are evicted. The error wraps
// memory.ErrOverflow if the value alone is too large. It wraps ErrInvalidText if the name is
// empty, longer than 1,024 bytes or not UTF-8, or if the value cannot be encoded. After an error
// the memory is unchanged.
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

// Delete removes the entry under name. It succeeds also if there is no such entry.
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

// Names returns the names in the memory of the key, least recently used first.
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
