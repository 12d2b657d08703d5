// Package prismtest runs pipelines on Prism, the embedded runner, in tests.
//
// # Behaviour
//
// On a busy machine Prism 2.77.0 now and then fails a job before any of it has run. A progress
// tick of 100 ms comes before the result of a stage that the runner executes itself, and Prism
// asks the worker, which such a stage does not have (docs/sdk.md). If a job has failed with that
// error, [Run] runs it again, up to [Tries] times in all. It does not repeat any other failure. A
// test that starts a program uses [Fault] to recognize the error in the output of the program.
//
// # Limits
//
// Run takes no context, because on Prism the end of a context ends the process. Limit the time of
// a run with the time limit of the test.
package prismtest

import (
	"context"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism" // registers the runner
)

// Tries bounds how often a job runs.
const Tries = 5

// Fault reports whether text, an error or the output of a program, has Prism's error.
func Fault(text string) bool { return strings.Contains(text, "worker.(*W).NextInst") }

// Execute runs a pipeline and returns its error.
func Execute(p *beam.Pipeline) (beam.PipelineResult, error) {
	for try := 1; ; try++ {
		result, err := beam.Run(context.Background(), "prism", p)
		if err == nil || try == Tries || !Fault(err.Error()) {
			return result, err
		}
	}
}

// Run runs a pipeline and fails the test if the pipeline fails.
func Run(t testing.TB, p *beam.Pipeline) beam.PipelineResult {
	t.Helper()
	result, err := Execute(p)
	if err != nil {
		t.Fatalf("the pipeline failed: %v", err)
	}
	return result
}
