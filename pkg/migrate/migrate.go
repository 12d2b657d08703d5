// Package migrate brings stored messages of older schema versions to the current version.
//
// # Behaviour
//
// A [Schema] has one current version. For each message type and each older version it has a step,
// which returns the message in the next version. [ToCurrent] runs the missing steps one after the
// other. It returns a current message as it is, without a copy. A message stored without a
// version (stamp 0) counts as version 1, because some writers of version 1 left the stamp out;
// [StoredVersion] tells the two apart. This package does not write: the caller stores the
// migrated message with its next change, or leaves the old bytes as they are.
//
// [Stored] is the schema of this library's own state. A pipeline with its own versioned messages
// makes a Schema with [New], keeps it in a package variable, and adds the steps in an init
// function. Test with [Schema.Gaps] that no step is missing.
//
// # Limits
//
// Return an error of this package from the DoFn, so that the bundle fails. Then the stored bytes
// stay as they are, and the runner retries the bundle until a build runs that can read them. To
// end a [FutureError], deploy the newer build again. To end a [GapError] or a [StepError], add or
// correct the step. A program that treats one of these errors as an empty state loses the state
// of the key.
//
// Add the steps before the first message is read, and from one goroutine.
//
// # Differences from other languages
//
// Programs in other languages read the stamps in the same way.
package migrate

import (
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Message is a stored message with a version stamp. Generated code has the method if the message
// has a field `uint32 state_schema_version`.
type Message interface {
	proto.Message
	GetStateSchemaVersion() uint32
}

// Schema has a current version and the steps that lead to it.
type Schema struct {
	current uint32
	steps   map[stepKey]func(Message) (Message, error)
}

type stepKey struct {
	message protoreflect.FullName
	from    uint32
}

// New returns a schema without steps. current is the version that this build writes. New panics
// if it is 0.
func New(current uint32) *Schema {
	if current == 0 {
		panic("migrate: the current version is 0: use at least 1, because a stamp of 0 is read as 1")
	}
	return &Schema{current: current, steps: map[stepKey]func(Message) (Message, error){}}
}

// Current returns the version that this build writes.
func (s *Schema) Current() uint32 { return s.current }

// AddStep adds the step that migrates an M from version from, 1 to Current-1, to version from+1.
// The step returns a new message with the new stamp and does not change its argument. It must
// depend only on its argument, and must succeed for every message that was ever stored; if it
// fails, the bundles of that key fail. The first step gets a missing stamp as 0. To keep unknown
// fields, begin with proto.Clone.
//
// AddStep panics if from is out of range or has a step already.
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

// StoredVersion returns the version of a message as it is stored, and whether it is stamped. A
// message without a stamp, and a nil message, is version 1 and not stamped.
func StoredVersion(m Message) (version uint32, stamped bool) {
	if isNil(m) || m.GetStateSchemaVersion() == 0 {
		return 1, false
	}
	return m.GetStateSchemaVersion(), true
}

// Check returns a *FutureError if m is of a newer version than the current one. This build must
// neither use nor replace such a message. Check accepts a nil message.
func (s *Schema) Check(m Message) error {
	if version, _ := StoredVersion(m); version > s.current {
		return &FutureError{Message: m.ProtoReflect().Descriptor().FullName(), Found: version, Current: s.current}
	}
	return nil
}

// ToCurrent returns m at the current version of s: m itself if it is current or nil, and
// otherwise a new message. On a *FutureError, *GapError or *StepError it returns the zero M, and
// never a half migrated message.
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

// run calls a step, and returns an error if the step panics, returns nil, or changes its
// argument.
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

// Gaps returns a *GapError for each step that is missing on the way from version 1 to the current
// version. messages name the message types; nil pointers suffice.
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
