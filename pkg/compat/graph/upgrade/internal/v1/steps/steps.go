// Package steps has the DoFns of the first version of a job. The second version has different
// DoFns with the same names.
package steps

import (
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*Split]())
	beam.RegisterDoFn(reflect.TypeFor[*Sided]())
	beam.RegisterType(reflect.TypeFor[Sum]())
}

// Split has one output.
type Split struct{}

// ProcessElement passes the text on.
func (*Split) ProcessElement(text string, emit func(string)) { emit(text) }

// Sided has one side input.
type Sided struct{}

// ProcessElement adds the number of items of the side input to the text.
func (*Sided) ProcessElement(text string, side func(*string) bool, emit func(string)) {
	n := 0
	for v := ""; side(&v); {
		n++
	}
	emit(fmt.Sprint(text, " of ", n))
}

// Sum has a number for an accumulator.
type Sum struct{}

// MergeAccumulators adds.
func (Sum) MergeAccumulators(a, b int64) int64 { return a + b }
