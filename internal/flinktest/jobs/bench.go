package main

import (
	"context"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
)

func init() {
	for _, t := range []reflect.Type{
		reflect.TypeFor[*rangesFn](), reflect.TypeFor[*numbersFn](), reflect.TypeFor[*keyedNumbersFn](),
		reflect.TypeFor[*addFn](), reflect.TypeFor[*addToCellFn](), reflect.TypeFor[*dropFn](),
	} {
		beam.RegisterDoFn(t)
	}
}

// ranges is the number of elements of the first stage.
const ranges = 100

// buildBench builds a pipeline of three stages. The first two emit ranges and, after a Reshuffle,
// their numbers. The last one comes after another Reshuffle, or has one cell for each key.
func buildBench(s beam.Scope, j job) {
	spread := beam.Reshuffle(s, beam.ParDo(s, &rangesFn{Numbers: j.numbers}, beam.Impulse(s)))
	if j.kind == "keyed" {
		keyed := beam.ParDo(s, &keyedNumbersFn{Keys: j.keys}, spread)
		beam.ParDo0(s, &dropFn{}, beam.ParDo(s, &addToCellFn{Sum: beamstate.MakeValueState[int]("sum")}, keyed))
		return
	}
	numbers := beam.Reshuffle(s, beam.ParDo(s, &numbersFn{}, spread))
	beam.ParDo0(s, &dropFn{}, beam.ParDo(s, &addFn{}, numbers))
}

// rangesFn emits the sizes of ranges.
type rangesFn struct {
	Numbers int
}

// ProcessElement emits the sizes.
func (f *rangesFn) ProcessElement(_ []byte, emit func(int)) {
	for range ranges {
		emit(f.Numbers / ranges)
	}
}

// numbersFn emits the numbers of a range.
type numbersFn struct{}

// ProcessElement emits the numbers.
func (f *numbersFn) ProcessElement(size int, emit func(int)) {
	for n := range size {
		emit(n)
	}
}

// keyedNumbersFn emits the numbers of a range with keys.
type keyedNumbersFn struct {
	Keys int
}

// ProcessElement emits the numbers with their keys.
func (f *keyedNumbersFn) ProcessElement(size int, emit func(string, int)) {
	for n := range size {
		emit(keyOf(n, f.Keys), n)
	}
}

// addFn adds 1.
type addFn struct{}

// ProcessElement adds 1.
func (f *addFn) ProcessElement(n int) int { return n + 1 }

// addToCellFn adds the numbers of a key in state.
type addToCellFn struct {
	Sum beamstate.Value[int]
}

// ProcessElement adds a number to the cell of its key.
func (f *addToCellFn) ProcessElement(sp beamstate.Provider, _ string, n int, emit func(int)) error {
	sum, _, err := f.Sum.Read(sp)
	if err != nil {
		return err
	}
	emit(sum + n)
	return f.Sum.Write(sp, sum+n)
}

// dropFn counts its input. It has no output.
type dropFn struct{}

var dropped = beam.NewCounter("bench", "dropped")

// ProcessElement counts a number.
func (f *dropFn) ProcessElement(ctx context.Context, _ int) { dropped.Inc(ctx, 1) }
