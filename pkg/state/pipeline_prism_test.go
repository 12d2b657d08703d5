package state_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"

	"github.com/beamagents/beamagents-go/internal/prismtest"
)

func TestMain(m *testing.M) {
	log.LogLevel = "error"
	os.Exit(ptest.MainRetWithDefault(m, "prism"))
}

func init() {
	beam.RegisterDoFn(&recordFn{})
	beam.RegisterDoFn(&elementsFn{})
	beam.RegisterFunction(splitBatch)
	register.Emitter1[string]()
	register.Emitter2[string, string]()
}

// records are the lines that reached the end of each pipeline, in order. The embedded
// runner works in this process, and delivers the elements of a stage in order.
var records = struct {
	sync.Mutex

	lines map[int][]string
}{lines: map[int][]string{}}

type recordFn struct{ Run int }

// ProcessElement emits nothing, but has an output: the runner spins while a stage without
// one is at work, which makes every RPC of that stage many times slower.
func (f *recordFn) ProcessElement(line string, _ func(string, string)) {
	records.Lock()
	defer records.Unlock()
	records.lines[f.Run] = append(records.lines[f.Run], line)
}

// runPrism runs a pipeline on the embedded runner, bounded by the time limit of the test
// alone: a context that ends would bring down the process. It returns the lines that
// build records, in order.
func runPrism(build func(s beam.Scope, record func(lines beam.PCollection))) ([]string, error) {
	p, s := beam.NewPipelineWithRoot()
	records.Lock()
	run := len(records.lines)
	records.lines[run] = nil
	records.Unlock()
	build(s, func(lines beam.PCollection) { beam.GroupByKey(s, beam.ParDo(s, &recordFn{Run: run}, lines)) })
	_, err := prismtest.Execute(p)
	records.Lock()
	defer records.Unlock()
	return slices.Clone(records.lines[run]), err
}

// element is a key and a value.
type element struct{ Key, Value string }

// elementsFn emits elements in order, in one bundle.
type elementsFn struct{ Elements []element }

func (f *elementsFn) ProcessElement(_ []byte, emit func(string, string)) {
	for _, e := range f.Elements {
		emit(e.Key, e.Value)
	}
}

func elements(s beam.Scope, list []element) beam.PCollection {
	return beam.ParDo(s, &elementsFn{Elements: list}, beam.Impulse(s))
}

// stream is elements that come in batches, and a watermark that moves, in ms. The runner
// takes a batch in when the watermark moves, and waits for all that this has caused.
type stream struct {
	t      *testing.T
	config teststream.Config
	mark   int64
}

func newStream(t *testing.T) *stream { return &stream{t, teststream.NewConfig(), -1} }

// add adds a batch, at a time that may be late, and moves the watermark by 1 ms.
func (st *stream) add(ms int64, list ...element) {
	st.t.Helper()
	var lines []string
	for _, e := range list {
		lines = append(lines, e.Key+"\t"+e.Value)
	}
	// As one element of the stream: the runner keeps no order among several.
	if err := st.config.AddElements(ms, strings.Join(lines, "\n")); err != nil {
		st.t.Fatal(err)
	}
	st.watermark(st.mark + 1)
}

func (st *stream) watermark(ms int64) {
	st.t.Helper()
	if err := st.config.AdvanceWatermark(ms); err != nil {
		st.t.Fatal(err)
	}
	st.mark = ms
}

// create ends the stream. It must be the first of a pipeline.
func (st *stream) create(s beam.Scope) beam.PCollection {
	st.t.Helper()
	if err := st.config.AdvanceWatermarkToInfinity(); err != nil {
		st.t.Fatal(err)
	}
	return beam.ParDo(s, splitBatch, teststream.Create(s, st.config))
}

func splitBatch(batch string, emit func(string, string)) {
	for line := range strings.SplitSeq(batch, "\n") {
		key, value, _ := strings.Cut(line, "\t")
		emit(key, value)
	}
}

// inSubprocess runs a function of a test in a process of its own, which may hang or die,
// for at most so long, and returns what it prints, and whether it ended well. In that
// process it does not return.
func inSubprocess(t *testing.T, limit time.Duration, run func()) (output string, ended bool) {
	t.Helper()
	if os.Getenv(subprocessOf) == t.Name() {
		run()
		os.Exit(0)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), subprocessOf+"="+t.Name())
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

const subprocessOf = "BEAMAGENTS_TEST_SUBPROCESS"
