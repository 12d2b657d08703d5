package beamtest

import (
	"errors"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// Output collects what kept bundles emitted to one output of a DoFn, in order. Its method Emit is
// an emitter with an explicit time, for StartBundle, ProcessElement, OnTimer and FinishBundle.
// Make other emitters from it with a closure:
//
//	func(key, value []byte) { out.Emit(now, pair{key, value}) }
type Output[T any] struct {
	kit  *Kit
	kept []Emitted[T]
}

// Emitted is an emitted value and its time.
type Emitted[T any] struct {
	EventTime beam.EventTime
	Value     T
}

// NewOutput returns an empty output of the DoFn of a kit.
func NewOutput[T any](k *Kit) *Output[T] { return &Output[T]{kit: k} }

// Emit emits a value. It panics if no bundle is open, and at the step of [Kit.CrashAt].
func (o *Output[T]) Emit(et beam.EventTime, value T) {
	b := o.kit.bundle
	if b == nil {
		panic(errors.New("beamtest: a value is emitted outside of a bundle"))
	}
	b.mustStep()
	b.emitted = append(b.emitted, func() { o.kept = append(o.kept, Emitted[T]{et, value}) })
}

// All returns the values that were kept so far.
func (o *Output[T]) All() []Emitted[T] { return slices.Clone(o.kept) }
