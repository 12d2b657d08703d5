package transforms

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/beamagents/beamagents-go/internal/prismtest"
)

// exportedOnPrism keeps the spans of the pipelines of this file.
var exportedOnPrism = tracetest.NewInMemoryExporter()

// The exporter prism-hangs hangs until hangOnPrism is closed.
var hangOnPrism = make(chan struct{})

func init() {
	RegisterExporter("prism-memory", func(context.Context) (sdktrace.SpanExporter, error) { return exportedOnPrism, nil })
	RegisterExporter("prism-hangs", func(context.Context) (sdktrace.SpanExporter, error) {
		return exporterFunc(func(context.Context, []sdktrace.ReadOnlySpan) error { <-hangOnPrism; return nil }), nil
	})
	RegisterExporter("prism-dies", func(context.Context) (sdktrace.SpanExporter, error) {
		var once sync.Once
		return exporterFunc(func(_ context.Context, spans []sdktrace.ReadOnlySpan) (err error) {
			once.Do(func() { panic(fmt.Sprintf("with %d spans", len(spans))) })
			return nil
		}), nil
	})
}

// One agent suspends, is resumed at its deadline and ends, and another agent fails. The outputs of
// the pipeline are the same whatever the exporter does, and the parent of each span is exported.
func TestExportTracesOnPrism(t *testing.T) {
	defer close(hangOnPrism)
	for _, exporter := range []string{"none", "prism-memory", "prism-hangs", "prism-dies"} {
		p, s := beam.NewPipelineWithRoot()
		var raw [][]byte
		for i := range 20 {
			key := fmt.Sprint("k", i)
			raw = append(raw,
				encoded(t, eventFor(key, 1000, script{Act: []string{"t"}, Then: "suspend", Timeout: 1000, Next: &script{Act: []string{"u"}}})),
				encoded(t, eventFor(key, 1001, script{Then: "fail"})))
		}
		agents := RunAgent(s, AgentParams{Name: "test", Agent: &scriptedAgent{Route: "resume"}, MeasureDurations: true},
			KeyByEntity(s, beam.ParDo(s, parseRaw, beam.CreateList(s, raw))))
		ExportTraces(s, ExportTracesParams{Exporter: exporter, Deadline: 200 * time.Millisecond, BatchSize: 16}, agents.Traces)
		passert.Count(s, agents.Outputs, "outputs", 20)
		passert.Count(s, agents.Intents, "intents", 40)
		passert.Count(s, agents.Errors, "dead letters", 20)
		start := time.Now()
		result := prismtest.Run(t, p)
		counted := map[string]int64{}
		for _, c := range result.Metrics().AllMetrics().Counters() {
			if c.Namespace() == ExportNamespace {
				counted[c.Name()] += c.Result()
			}
		}
		// Of each key: 2 activations, 2 intents, 1 suspension and 1 failure.
		if sum := counted["spans_exported"] + counted["spans_dropped"]; sum != 120 && exporter != "none" {
			t.Errorf("%s: counted %v, want 120 in all", exporter, counted)
		}
		switch exporter {
		case "prism-memory":
			if counted["spans_exported"] != 120 {
				t.Errorf("%s: %v", exporter, counted)
			}
		case "prism-hangs":
			if took := time.Since(start); counted["spans_exported"] != 0 || took > time.Minute {
				t.Errorf("%s: %v after %v", exporter, counted, took)
			}
		case "prism-dies":
			if counted["spans_dropped"] == 0 || counted["export_failures"] != 1 {
				t.Errorf("%s: %v", exporter, counted)
			}
		}
	}
	spans := exportedOnPrism.GetSpans()
	ids := map[string]bool{}
	for _, span := range spans {
		id := fmt.Sprint(span.SpanContext.TraceID(), span.SpanContext.SpanID())
		if ids[id] {
			t.Errorf("two spans have the id %s", id)
		}
		ids[id] = true
	}
	names := map[string]int{}
	for _, span := range spans {
		if span.Parent.IsValid() && !ids[fmt.Sprint(span.Parent.TraceID(), span.Parent.SpanID())] {
			t.Errorf("the parent of %s is not exported", span.Name)
		}
		names[span.Name]++
	}
	wantNames := map[string]int{"invoke_agent test": 60, "emit_intent t": 20, "emit_intent u": 20, "suspend test": 20}
	for name, n := range wantNames {
		if names[name] != n {
			t.Errorf("%d spans %s, want %d; all are %v", names[name], name, n, names)
		}
	}
	if !slices.ContainsFunc(spans, func(s tracetest.SpanStub) bool { return s.Status.Code != 0 }) {
		t.Error("no span has failed")
	}
}

// The metrics of a job as a demo prints them.
func TestWriteMetricsOnPrism(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	raw := [][]byte{encoded(t, eventFor("a", 1000, script{Act: []string{"t"}})), encoded(t, eventFor("b", 1000, script{Then: "fail"}))}
	agents := RunAgent(s, AgentParams{Name: "test", Agent: new(scriptedAgent), Concurrency: 1}, KeyByEntity(s, beam.ParDo(s, parseRaw, beam.CreateList(s, raw))))
	ExportTraces(s, ExportTracesParams{Exporter: "none"}, agents.Traces)
	passert.Count(s, agents.Errors, "dead letters", 1)
	var text strings.Builder
	if err := WriteMetrics(&text, prismtest.Run(t, p)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"activations              1\n", "activations_in_flight    count 2, sum 2, min 1, max 1\n",
		"agent_errors             1\n", "errors_activation_error  1\n", "intents_emitted          1\n",
	} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("%q is not in\n%s", line, text.String())
		}
	}
	if lines := strings.Split(text.String(), "\n"); !slices.IsSorted(lines[:len(lines)-1]) || strings.Contains(text.String(), "passert") {
		t.Errorf("these are not our metrics in the order of their names:\n%s", text.String())
	}
}
