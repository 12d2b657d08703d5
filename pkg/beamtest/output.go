package beamtest

import (
	"errors"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// Output is what a runner has of one output of a DoFn: what bundles emitted that were
// kept, in order. Its Emit is an emitter with an explicit time, for StartBundle,
// ProcessElement, OnTimer and FinishBundle alike; others are made of it by a closure:
//
//	func(key, value []byte) { out.Emit(now, pair{key, value}) }
type Output[T any] struct {
	kit  *Kit
	kept []Emitted[T]
}

// Emitted is a value, and its time.
type Emitted[T any] struct {
	EventTime beam.EventTime
	Value     T
}

// NewOutput returns an empty output of the DoFn of a kit.
func NewOutput[T any](k *Kit) *Output[T] { return &Output[T]{kit: k} }

// Emit emits a value. It panics where no bundle is open, and where [Kit.CrashAt] says so.
func (o *Output[T]) Emit(et beam.EventTime, value T) {
	b := o.kit.bundle
	if b == nil {
		panic(errors.New("beamtest: a value is emitted outside a bundle"))
	}
	b.mustStep()
	b.emitted = append(b.emitted, func() { o.kept = append(o.kept, Emitted[T]{et, value}) })
}

// All are the values that were kept so far.
func (o *Output[T]) All() []Emitted[T] { return slices.Clone(o.kept) }
