package migrate

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// FutureError says that a message has a version that this build does not know. A newer build
// wrote it, and only such a build may read or replace it.
type FutureError struct {
	Message        protoreflect.FullName
	Found, Current uint32
}

func (e *FutureError) Error() string {
	return fmt.Sprintf("migrate: %s is of schema version %d and this build reads up to %d: run the newer build; the stored state is untouched",
		e.Message, e.Found, e.Current)
}

// GapError says that a step on the way to the current version is missing.
type GapError struct {
	Message       protoreflect.FullName
	From, Current uint32
}

func (e *GapError) Error() string {
	return fmt.Sprintf("migrate: no step takes %s from schema version %d to %d (current is %d): add it; the stored state is untouched",
		e.Message, e.From, e.From+1, e.Current)
}

// StepError says that a step failed, or returned another version than the next one.
type StepError struct {
	Message protoreflect.FullName
	From    uint32
	Err     error // the error of the step, or what is wrong with its result
}

func (e *StepError) Error() string {
	return fmt.Sprintf("migrate: the step of %s from schema version %d to %d: %v; the stored state is untouched",
		e.Message, e.From, e.From+1, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }
