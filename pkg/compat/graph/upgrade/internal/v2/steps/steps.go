// Package steps has the DoFns of the second version of a job, under the names that those
// of the first version have.
package steps

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*Split]())
	beam.RegisterDoFn(reflect.TypeFor[*Sided]())
	beam.RegisterType(reflect.TypeFor[Sum]())
}

// Split has two outputs.
type Split struct{}

// ProcessElement passes the text on.
func (*Split) ProcessElement(text string, emit, _ func(string)) { emit(text) }

// Sided has two side inputs.
type Sided struct{}

// ProcessElement adds the number of items of the side inputs to the text.
func (*Sided) ProcessElement(text string, left, right func(*string) bool, emit func(string)) {
	n := 0
	for _, side := range []func(*string) bool{left, right} {
		for v := ""; side(&v); {
			n++
		}
	}
	emit(fmt.Sprint(text, " of ", n))
}

// Sum has a text for an accumulator.
type Sum struct{}

// CreateAccumulator returns zero.
func (Sum) CreateAccumulator() string { return "0" }

// AddInput adds.
func (Sum) AddInput(a string, n int64) (string, error) {
	old, err := strconv.ParseInt(a, 10, 64)
	return strconv.FormatInt(old+n, 10), err
}

// MergeAccumulators adds.
func (s Sum) MergeAccumulators(a, b string) (string, error) {
	n, err := strconv.ParseInt(b, 10, 64)
	if err != nil {
		return "", err
	}
	return s.AddInput(a, n)
}

// ExtractOutput returns the sum.
func (Sum) ExtractOutput(a string) (int64, error) { return strconv.ParseInt(a, 10, 64) }
