// Package migrate brings stored messages of older schema versions to the current one.
//
// # Behaviour
//
// A [Schema] has one current version and, for each message type and each older version, a
// step that produces the next version. [ToCurrent] runs the steps that a message lacks, one
// after the other. A current message is returned as it is, without a copy. A message stored
// without a version (stamp 0) counts as version 1, since some writers of version 1 left the
// stamp out; [StoredVersion] tells the two apart. This package writes nothing: the caller
// stores the migrated message together with its next change, or leaves the old bytes alone.
//
// [Stored] is the schema of this library's own state. A pipeline with versioned messages of
// its own makes a Schema with [New], keeps it in a package variable, and adds the steps in
// an init function. [Schema.Gaps] lists missing steps, for a test.
//
// # Limits
//
// Return an error of this package from the DoFn, so that the bundle fails. The stored bytes
// then stay as they are, and the key waits for a build that can read them. A [FutureError]
// ends when the newer build is deployed again, a [GapError] or [StepError] when the step is
// corrected. A program that treats one of these errors as an empty state loses the state of
// the key.
//
// Add the steps before the first message is read, and from one goroutine.
//
// # Differences
//
// None: programs in other languages read the stamps in the same way.
package migrate

import (
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Message is a stored message with a version stamp. Generated code has the method for
// a field `uint32 state_schema_version`.
type Message interface {
	proto.Message
	GetStateSchemaVersion() uint32
}

// Schema is a current version and the steps that lead to it.
type Schema struct {
	current uint32
	steps   map[stepKey]func(Message) (Message, error)
}

type stepKey struct {
	message protoreflect.FullName
	from    uint32
}

// New returns a schema without steps. Its current version, the one that this build
// writes, is at least 1: New panics on 0.
func New(current uint32) *Schema {
	if current == 0 {
		panic("migrate: the current version is at least 1; a stamp of 0 reads as 1")
	}
	return &Schema{current: current, steps: map[stepKey]func(Message) (Message, error){}}
}

// Current is the version that this build writes.
func (s *Schema) Current() uint32 { return s.current }

// AddStep adds the step that takes an M of version from, 1 to Current-1, to version
// from+1. It returns a new message, with that stamp, and leaves the one it was given
// alone. It is a function of its argument, and total: whatever was once stored must
// come through, or its key is stuck. A stamp of 0 arrives as 0 in the first step. The
// simplest way to keep fields that it does not know is to begin with proto.Clone.
//
// AddStep panics on a version out of range and on a second step for one version.
func AddStep[M Message](s *Schema, from uint32, step func(M) (M, error)) {
	name := fullName[M]()
	if from == 0 || from >= s.current {
		panic(fmt.Sprintf("migrate: a step of %s from version %d in a schema whose current version is %d", name, from, s.current))
	}
	key := stepKey{name, from}
	if _, ok := s.steps[key]; ok {
		panic(fmt.Sprintf("migrate: two steps of %s from version %d", name, from))
	}
	s.steps[key] = func(m Message) (Message, error) {
		next, err := step(m.(M))
		if err != nil {
			return nil, err
		}
		return next, nil
	}
}

// StoredVersion is the version of a message as it is stored. An absent stamp, and a nil
// message, is version 1 and not stamped.
func StoredVersion(m Message) (version uint32, stamped bool) {
	if isNil(m) || m.GetStateSchemaVersion() == 0 {
		return 1, false
	}
	return m.GetStateSchemaVersion(), true
}

// Check returns a *FutureError if m is of a version after the current one: this build
// must neither use nor replace it. A nil message is of no version.
func (s *Schema) Check(m Message) error {
	if version, _ := StoredVersion(m); version > s.current {
		return &FutureError{Message: m.ProtoReflect().Descriptor().FullName(), Found: version, Current: s.current}
	}
	return nil
}

// ToCurrent returns m at the current version of s: m itself if it is current or nil,
// else a new message. On an error, a *FutureError, *GapError or *StepError, it returns
// the zero M: no half migrated message.
func ToCurrent[M Message](s *Schema, m M) (M, error) {
	var none M
	if isNil(m) {
		return none, nil
	}
	if err := s.Check(m); err != nil {
		return none, err
	}
	version, _ := StoredVersion(m)
	var at Message = m
	for ; version < s.current; version++ {
		name := m.ProtoReflect().Descriptor().FullName()
		step, ok := s.steps[stepKey{name, version}]
		if !ok {
			return none, &GapError{Message: name, From: version, Current: s.current}
		}
		next, err := run(step, at)
		if err != nil {
			return none, &StepError{Message: name, From: version, Err: err}
		}
		if produced := next.GetStateSchemaVersion(); produced != version+1 {
			return none, &StepError{Message: name, From: version, Err: fmt.Errorf("it produced version %d", produced)}
		}
		at = next
	}
	return at.(M), nil
}

// run is a step that neither panics nor returns nothing.
func run(step func(Message) (Message, error), m Message) (next Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			next, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	next, err = step(m)
	switch {
	case err != nil:
		return nil, err
	case isNil(next):
		return nil, errors.New("it produced no message")
	case next == m:
		return nil, errors.New("it changed the message that it was given")
	}
	return next, nil
}

// Gaps returns a *GapError for each step that messages, which may be nil pointers, lack
// on their way from version 1 to the current one.
func (s *Schema) Gaps(messages ...Message) (gaps []error) {
	for _, m := range messages {
		name := m.ProtoReflect().Descriptor().FullName()
		for from := uint32(1); from < s.current; from++ {
			if _, ok := s.steps[stepKey{name, from}]; !ok {
				gaps = append(gaps, &GapError{Message: name, From: from, Current: s.current})
			}
		}
	}
	return gaps
}

func fullName[M Message]() protoreflect.FullName {
	var m M
	return m.ProtoReflect().Descriptor().FullName()
}

func isNil(m Message) bool {
	if m == nil {
		return true
	}
	v := reflect.ValueOf(m)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
