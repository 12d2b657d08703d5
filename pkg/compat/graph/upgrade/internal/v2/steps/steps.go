// Package steps has the DoFns of the second version of a job, with the names of those of the
// first version.
package steps

import (
	"reflect"
	"strconv"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*Split]())
	beam.RegisterType(reflect.TypeFor[Sum]())
}

// Split has two outputs.
type Split struct{}

// ProcessElement passes the text on.
func (*Split) ProcessElement(text string, emit, _ func(string)) { emit(text) }

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
