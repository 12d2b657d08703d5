package state_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"
)

// The runner splits a bundle that is slow, and then takes the elements of a key out of
// order, as a test of its own shows. This keeps it from that.
const noSplits = "prism_disable_sdf_split"

func TestMain(m *testing.M) {
	log.LogLevel = "error"
	*jobopts.Experiments = noSplits
	os.Exit(ptest.MainRetWithDefault(m, "prism"))
}

func init() {
	beam.RegisterDoFn(&recordFn{})
	beam.RegisterDoFn(&elementsFn{})
	beam.RegisterFunction(splitElement)
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
	_, err := prism.Execute(context.Background(), p)
	records.Lock()
	defer records.Unlock()
	return records.lines[run], err
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

// stream is elements that come at times of the test, in ms from 0, and a watermark that
// moves. Each batch of elements is a bundle: the runner waits for all that one has caused
// before it goes on.
type stream struct {
	t      *testing.T
	config teststream.Config
}

func newStream(t *testing.T) *stream { return &stream{t, teststream.NewConfig()} }

func (st *stream) add(ms int64, list ...element) {
	st.t.Helper()
	lines := make([]any, len(list))
	for i, e := range list {
		lines[i] = e.Key + "\t" + e.Value
	}
	if err := st.config.AddElements(ms, lines...); err != nil {
		st.t.Fatal(err)
	}
}

func (st *stream) watermark(ms int64) {
	st.t.Helper()
	if err := st.config.AdvanceWatermark(ms); err != nil {
		st.t.Fatal(err)
	}
}

// create ends the stream. It must be the first of a pipeline.
func (st *stream) create(s beam.Scope) beam.PCollection {
	st.t.Helper()
	if err := st.config.AdvanceWatermarkToInfinity(); err != nil {
		st.t.Fatal(err)
	}
	return beam.ParDo(s, splitElement, teststream.Create(s, st.config))
}

func splitElement(line string) (string, string) {
	key, value, _ := strings.Cut(line, "\t")
	return key, value
}
