// Package prismtest runs pipelines on Prism, the embedded runner, in tests.
//
// # Behaviour
//
// On a busy machine Prism 2.77.0 fails a job now and then, before anything of it has run: a
// progress tick of 100 ms comes before the result of a stage that the runner executes
// itself, and it asks a worker that such a stage does not have (docs/sdk.md). [Run] runs the
// job again when it has failed with that text, and with no other. A test that runs a program
// finds the text in its output with [Fault].
//
// # Limits
//
// The time limit of a run is that of the test: a context that ends would end the process.
package prismtest

import (
	"context"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism" // the runner
)

// Tries bounds how often a job is run.
const Tries = 5

// Fault reports whether text, an error or the output of a program, tells of Prism's fault.
func Fault(text string) bool { return strings.Contains(text, "worker.(*W).NextInst") }

// Execute runs a pipeline.
func Execute(p *beam.Pipeline) (beam.PipelineResult, error) {
	for try := 1; ; try++ {
		result, err := beam.Run(context.Background(), "prism", p)
		if err == nil || try == Tries || !Fault(err.Error()) {
			return result, err
		}
	}
}

// Run runs a pipeline, which must succeed.
func Run(t testing.TB, p *beam.Pipeline) beam.PipelineResult {
	t.Helper()
	result, err := Execute(p)
	if err != nil {
		t.Fatalf("the pipeline failed: %v", err)
	}
	return result
}
