package transforms

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/tracing"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// exporterFunc is an exporter of spans.
type exporterFunc func(context.Context, []sdktrace.ReadOnlySpan) error

func (f exporterFunc) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	return f(ctx, spans)
}

func (exporterFunc) Shutdown(context.Context) error { return nil }

// exportKit runs the DoFn of ExportTraces as a worker does, with an exporter of its own.
type exportKit struct {
	t   *testing.T
	fn  *beamagentsExportTracesFn
	ctx context.Context // holds the counters
}

var exporterNumber atomic.Int64

func newExportKit(t *testing.T, p ExportTracesParams, export exporterFunc) *exportKit {
	t.Helper()
	if export != nil {
		p.Exporter = fmt.Sprint("test-", exporterNumber.Add(1)) // a name is for ever
		RegisterExporter(p.Exporter, func(context.Context) (sdktrace.SpanExporter, error) { return export, nil })
	}
	fn, err := newExportTracesFn(p)
	if err != nil {
		t.Fatal(err)
	}
	fn.Setup()
	return &exportKit{t, fn, countingContext()}
}

// bundle processes events as one bundle.
func (k *exportKit) bundle(events ...*pb.TraceEvent) {
	k.t.Helper()
	k.fn.StartBundle(nil)
	for _, e := range events {
		k.fn.ProcessElement(k.ctx, e, nil)
	}
	k.fn.FinishBundle(k.ctx, nil)
}

func (k *exportKit) expect(want map[string]int64) {
	k.t.Helper()
	if diff := cmp.Diff(want, countedIn(k.ctx, k.t)); diff != "" {
		k.t.Errorf("(-want +got):\n%s", diff)
	}
}

// calls are n events of model calls, each of a trace of its own.
func calls(n int) (events []*pb.TraceEvent) {
	for i := range n {
		trace, span := intent.TraceID([]byte("k"), int64(i)), intent.SpanID([]byte("k"), int64(i), "LLM_CALL", 0)
		events = append(events, &pb.TraceEvent{
			TraceId: trace[:], SpanId: span[:], EntityKey: []byte("k"), Seq: int64(i), EventType: pb.TraceEvent_LLM_CALL,
			StartMs: 1000, EndMs: 1500, Attributes: map[string]string{
				"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-opus-4-8",
				"gen_ai.usage.input_tokens": "1234", "gen_ai.usage.output_tokens": "567", "beam_agents.cache_hit": "false",
			},
		})
	}
	return events
}

func TestExportTracesBatches(t *testing.T) {
	var sizes []int
	k := newExportKit(t, ExportTracesParams{BatchSize: 2}, func(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
		sizes = append(sizes, len(spans))
		return nil
	})
	k.bundle(calls(5)...)
	k.bundle()
	k.bundle(calls(1)...)
	if diff := cmp.Diff([]int{2, 2, 1, 1}, sizes); diff != "" {
		t.Errorf("sizes of the batches (-want +got):\n%s", diff)
	}
	k.expect(map[string]int64{"spans_exported": 6, "batches_sent": 4})
}

// An event that does not become a span is counted, and has no other effect.
func TestExportTracesCountsWhatIsNoSpan(t *testing.T) {
	exported := tracetest.NewInMemoryExporter()
	k := newExportKit(t, ExportTracesParams{}, exported.ExportSpans)
	events := calls(5)
	events[0].TraceId = nil
	events[1].TraceId = events[1].GetTraceId()[:8]
	events[2].SpanId = append(events[2].GetSpanId(), 1)
	events[3].EventType = pb.TraceEvent_ACTIVATION_START
	k.bundle(events...)
	k.expect(map[string]int64{"events_without_trace": 1, "events_invalid": 2, "spans_exported": 1, "batches_sent": 1})
	if got := exported.GetSpans(); len(got) != 1 || got[0].Name != "chat claude-opus-4-8" {
		t.Errorf("exported %v", got)
	}
}

// A retried bundle exports the same spans again and no others.
func TestExportTracesRetriedBundle(t *testing.T) {
	exported := tracetest.NewInMemoryExporter()
	k := newExportKit(t, ExportTracesParams{BatchSize: 2}, exported.ExportSpans)
	k.fn.StartBundle(nil)
	for _, e := range calls(3) { // two leave, then the bundle fails
		k.fn.ProcessElement(k.ctx, e, nil)
	}
	k.bundle(calls(4)...)
	got := exported.GetSpans()
	if len(got) != 6 {
		t.Fatalf("%d spans", len(got))
	}
	if diff := cmp.Diff(fmt.Sprint(got[:2]), fmt.Sprint(got[2:4])); diff != "" {
		t.Errorf("the second try differs:\n%s", diff)
	}
}

// However an exporter fails, the spans of its batch are lost. Then spans are dropped at once during
// a pause, which gets longer with each failure. When the exporter works again, spans are exported
// again.
func TestExportTracesFailures(t *testing.T) {
	for name, fail := range map[string]exporterFunc{
		"error":  func(context.Context, []sdktrace.ReadOnlySpan) error { return errors.New("refused") },
		"panic":  func(context.Context, []sdktrace.ReadOnlySpan) error { panic("boom") },
		"exit":   func(context.Context, []sdktrace.ReadOnlySpan) error { runtime.Goexit(); return nil },
		"slow":   func(ctx context.Context, _ []sdktrace.ReadOnlySpan) error { <-ctx.Done(); return ctx.Err() },
		"bad":    func(context.Context, []sdktrace.ReadOnlySpan) error { return badError{} },
		"absent": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				healthy, tries := false, 0
				export := func(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
					if tries++; healthy {
						return nil
					}
					return fail(ctx, spans)
				}
				k := newExportKit(t, ExportTracesParams{BatchSize: 10}, export)
				if fail == nil { // the exporter cannot be made
					k.fn.sender.makeNew = func(context.Context) (sdktrace.SpanExporter, error) {
						if tries++; !healthy {
							return nil, errors.New("no certificate")
						}
						tries--
						return exporterFunc(export), nil
					}
				}
				k.bundle(calls(25)...)
				if tries != 1 {
					t.Errorf("%d tries in the first bundle, want 1", tries)
				}
				k.expect(map[string]int64{"spans_dropped": 25, "export_failures": 1})
				for pause, n := time.Second, 2; n < 10; pause, n = min(2*pause, time.Minute), n+1 {
					time.Sleep(pause - time.Millisecond)
					k.bundle(calls(1)...)
					if tries != n-1 {
						t.Fatalf("try %d is %v after the one before", n, pause-time.Millisecond)
					}
					time.Sleep(time.Millisecond)
					k.bundle(calls(1)...)
					if tries != n {
						t.Fatalf("try %d is not made %v after the one before", n, pause)
					}
				}
				healthy = true
				time.Sleep(time.Minute)
				k.bundle(calls(20)...)
				if got := countedIn(k.ctx, t); got["spans_exported"] != 20 || got["spans_dropped"] != 25+16 {
					t.Errorf("at the end: %v", got)
				}
			})
		})
	}
}

type badError struct{}

func (badError) Error() string { panic("this error cannot say what it is") }

// An exporter that ignores its deadline delays one bundle. While its call still runs, no other call
// is made, and the spans of all bundles are dropped at once.
func TestExportTracesHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var calling atomic.Int64
		k := newExportKit(t, ExportTracesParams{Deadline: time.Second, BatchSize: 10}, func(context.Context, []sdktrace.ReadOnlySpan) error {
			calling.Add(1)
			<-release
			return nil
		})
		start := time.Now()
		k.bundle(calls(100)...)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the first bundle took %v with a deadline of 1s", took)
		}
		start = time.Now()
		for range 1000 {
			k.bundle(calls(10)...)
			time.Sleep(time.Second)
		}
		if took := time.Since(start); took != 1000*time.Second {
			t.Errorf("the bundles after it waited %v", took-1000*time.Second)
		}
		if n := calling.Load(); n != 1 {
			t.Errorf("%d calls hang", n)
		}
		k.expect(map[string]int64{"spans_dropped": 10100, "export_failures": 1})
		close(release)
		time.Sleep(time.Minute)
		k.bundle(calls(10)...)
		if got := countedIn(k.ctx, t)["spans_exported"]; got != 10 {
			t.Errorf("%d spans exported when it works again", got)
		}
	})
}

// An exporter gets one batch at a time, whatever the bundles of a worker do, and each span is
// either exported or counted.
func TestExportTracesSharedExporter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at, most, got atomic.Int64
		first := newExportKit(t, ExportTracesParams{Deadline: time.Second, BatchSize: 3}, func(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			time.Sleep(300 * time.Millisecond)
			got.Add(int64(len(spans)))
			return nil
		})
		kits := []*exportKit{first}
		for range 7 {
			fn := *first.fn
			kits = append(kits, &exportKit{t, &fn, countingContext()})
		}
		var running sync.WaitGroup
		for _, k := range kits {
			running.Go(func() { k.bundle(calls(10)...) })
		}
		running.Wait()
		var exported, dropped int64
		for _, k := range kits {
			counted := countedIn(k.ctx, t)
			exported, dropped = exported+counted["spans_exported"], dropped+counted["spans_dropped"]
		}
		if most.Load() != 1 || exported != got.Load() || exported+dropped != 80 || exported == 0 || dropped == 0 {
			t.Errorf("%d at once, %d exported, %d counted as such, %d dropped", most.Load(), got.Load(), exported, dropped)
		}
	})
}

// A bundle holds one batch, with a bounded number of spans and bytes. A span that is too large for
// a batch does not affect the other spans.
func TestExportTracesMemory(t *testing.T) {
	var largest, spans int
	k := newExportKit(t, ExportTracesParams{}, func(_ context.Context, batch []sdktrace.ReadOnlySpan) error {
		size := 0
		for _, s := range batch {
			for _, kv := range s.Attributes() {
				size += len(kv.Key) + len(kv.Value.String())
			}
		}
		largest, spans = max(largest, size), max(spans, len(batch))
		return nil
	})
	k.fn.StartBundle(nil)
	events := calls(3000)
	for i, e := range events {
		if i%2 == 0 {
			e.Attributes["text"] = strings.Repeat("x", 100_000)
		}
		k.fn.ProcessElement(k.ctx, e, nil)
		if len(k.fn.batch) >= DefaultExportBatch || k.fn.bytes > maxExportBytes {
			t.Fatalf("%d spans with %d bytes are held", len(k.fn.batch), k.fn.bytes)
		}
	}
	huge := calls(1)[0]
	huge.Attributes["text"] = strings.Repeat("x", maxExportBytes+1)
	k.fn.ProcessElement(k.ctx, huge, nil)
	k.fn.FinishBundle(k.ctx, nil)
	if largest > maxExportBytes+DefaultExportBatch*200 || spans > DefaultExportBatch || k.fn.batch != nil || k.fn.bytes != 0 {
		t.Errorf("a batch had %d bytes, one %d spans; %d are left", largest, spans, len(k.fn.batch))
	}
	if got := countedIn(k.ctx, t); got["spans_exported"] != 3000 || got["spans_dropped"] != 1 {
		t.Errorf("%v", got)
	}
}

// A trace is exported as a whole or not at all.
func TestExportTracesSamples(t *testing.T) {
	exported := tracetest.NewInMemoryExporter()
	k := newExportKit(t, ExportTracesParams{SampleRatio: 0.3}, exported.ExportSpans)
	events := append(calls(1000), calls(1000)...)
	k.bundle(events...)
	byTrace := map[string]int{}
	for _, s := range exported.GetSpans() {
		byTrace[s.SpanContext.TraceID().String()]++
	}
	for id, n := range byTrace {
		if n != 2 {
			t.Errorf("%d of the two spans of trace %s", n, id)
		}
	}
	if n := len(byTrace); n < 240 || n > 360 {
		t.Errorf("%d of 1000 traces with a ratio of 0.3", n)
	}
	k.expect(map[string]int64{
		"spans_exported": int64(2 * len(byTrace)), "spans_unsampled": int64(2000 - 2*len(byTrace)),
		"batches_sent": int64((2*len(byTrace) + 511) / 512),
	})
}

func TestExportTracesContents(t *testing.T) {
	for _, contents := range []bool{false, true} {
		exported := tracetest.NewInMemoryExporter()
		k := newExportKit(t, ExportTracesParams{Contents: contents}, exported.ExportSpans)
		e := calls(1)[0]
		e.Attributes["gen_ai.input.messages"] = "secret"
		k.bundle(e)
		if got := strings.Contains(fmt.Sprint(exported.GetSpans()), "secret"); got != contents {
			t.Errorf("contents %t: %t", contents, got)
		}
	}
}

func TestExportTracesParams(t *testing.T) {
	for want, p := range map[string]ExportTracesParams{
		`Exporter "jaeger" is not registered: use otlp, console or none`: {Exporter: "jaeger"},
		"SampleRatio is -1": {SampleRatio: -1}, "SampleRatio is 1.5": {SampleRatio: 1.5}, "SampleRatio is NaN": {SampleRatio: math.NaN()},
		"Deadline is 1µs": {Deadline: time.Microsecond}, "Deadline is -1ns": {Deadline: -1}, "Deadline is 1h0m0s": {Deadline: time.Hour},
		"BatchSize is -1": {BatchSize: -1}, "BatchSize is 8193": {BatchSize: 8193},
		"the input is not a PCollection<*pb.TraceEvent>": {},
	} {
		var got any
		func() {
			defer func() { got = recover() }()
			p0, s := beam.NewPipelineWithRoot()
			ExportTraces(s, p, beam.Create(s, "x"))
			_ = p0
		}()
		if text := fmt.Sprint(got); !strings.HasPrefix(text, "transforms.ExportTraces: ") || !strings.Contains(text, want) {
			t.Errorf("%+v: %v, want something about %q", p, got, want)
		}
	}
	for name, makeExporter := range map[string]func(context.Context) (sdktrace.SpanExporter, error){
		"": newOTLPExporter, "otlp": newOTLPExporter, "none": newOTLPExporter, "nil": nil,
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was registered", name)
				}
			}()
			RegisterExporter(name, makeExporter)
		}()
	}
}

// forgetSenders makes the environment of the test that of a new worker.
func forgetSenders(t *testing.T) {
	t.Helper()
	spanSenders.Lock()
	defer spanSenders.Unlock()
	spanSenders.byName = nil
	t.Cleanup(func() {
		spanSenders.Lock()
		defer spanSenders.Unlock()
		spanSenders.byName = nil
	})
}

// The environment of the worker chooses the exporter, its protocol and the resource of spans. If it
// has a mistake, spans are lost, but no bundle fails.
func TestExportTracesEnvironment(t *testing.T) {
	for name, tt := range map[string]struct {
		env      map[string]string
		exporter string // its type
		failure  string
		service  string
	}{
		"nothing set":    {nil, "*otlptrace.Exporter", "", "beamagents"},
		"grpc":           {map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_SERVICE_NAME": "orders"}, "*otlptrace.Exporter", "", "orders"},
		"traces first":   {map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "x", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, "*otlptrace.Exporter", "", "beamagents"},
		"bad protocol":   {map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "", "use http/protobuf or grpc", "beamagents"},
		"console":        {map[string]string{"OTEL_TRACES_EXPORTER": "console", "OTEL_RESOURCE_ATTRIBUTES": "service.name=a,x=y"}, "*stdouttrace.Exporter", "", "a"},
		"unknown":        {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, "", "use one of console", "beamagents"},
		"none":           {map[string]string{"OTEL_TRACES_EXPORTER": "none"}, "off", "", "beamagents"},
		"disabled":       {map[string]string{"OTEL_SDK_DISABLED": "TRUE"}, "off", "", "beamagents"},
		"bad attributes": {map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "no pair", "OTEL_SERVICE_NAME": "b"}, "*otlptrace.Exporter", "", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			forgetSenders(t)
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			s := senderOf("")
			if s.off {
				if tt.exporter != "off" {
					t.Fatal("it exports nothing")
				}
				k := newExportKit(t, ExportTracesParams{}, nil)
				k.bundle(calls(3)...)
				k.expect(map[string]int64{})
				return
			}
			made, err := s.makeNew(t.Context())
			if got := fmt.Sprintf("%T", made); tt.failure == "" && (err != nil || got != tt.exporter) {
				t.Errorf("%s, %v", got, err)
			}
			if tt.failure != "" && (err == nil || !strings.Contains(err.Error(), tt.failure)) {
				t.Errorf("error %v", err)
			}
			if got, _ := s.resource.Set().Value("service.name"); got.AsString() != tt.service {
				t.Errorf("service.name is %q", got.AsString())
			}
			if senderOf("") != s {
				t.Error("each bundle has an exporter of its own")
			}
		})
	}
}

// If the collector does not exist, the real exporters delay a bundle by one deadline.
func TestExportTracesNoCollector(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		forgetSenders(t)
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+address)
		k := newExportKit(t, ExportTracesParams{Deadline: 300 * time.Millisecond, BatchSize: 10}, nil)
		k.bundle(calls(100)...)
		k.expect(map[string]int64{"spans_dropped": 100, "export_failures": 1})
	}
}

// The exporter of the console writes the ids as they are.
func TestExportTracesConsole(t *testing.T) {
	forgetSenders(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	k := newExportKit(t, ExportTracesParams{Exporter: "console"}, nil)
	k.bundle(calls(1)...)
	os.Stdout = stdout
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`"TraceID":"%x"`, calls(1)[0].GetTraceId()); !strings.Contains(text.String(), want) {
		t.Errorf("%s is not in %s", want, text.String())
	}
	k.expect(map[string]int64{"spans_exported": 1, "batches_sent": 1})
}

// countOnly is the in-memory exporter of the benchmarks: it keeps nothing.
func countOnly(n *int) exporterFunc {
	return func(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
		*n += len(spans)
		return nil
	}
}

// Spans per second through the DoFn, beside bare loops that export the same events in batches
// of the same size: one that maps them, too, and one over spans that were mapped beforehand.
func BenchmarkExportTraces(b *testing.B) {
	events := calls(10_000)
	bare := func(b *testing.B, spanOf func(int) sdktrace.ReadOnlySpan) {
		n := 0
		export := countOnly(&n)
		for b.Loop() {
			var batch []sdktrace.ReadOnlySpan
			for i := range events {
				if batch = append(batch, spanOf(i)); len(batch) == DefaultExportBatch {
					if err := export(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
					batch = nil
				}
			}
			if err := export(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "spans/s")
	}
	mapped := func(i int) sdktrace.ReadOnlySpan {
		span, _ := tracing.Span(events[i], tracing.Options{})
		return span
	}
	b.Run("bare", func(b *testing.B) { bare(b, mapped) })
	b.Run("mapped", func(b *testing.B) {
		var spans []sdktrace.ReadOnlySpan
		for i := range events {
			spans = append(spans, mapped(i))
		}
		bare(b, func(i int) sdktrace.ReadOnlySpan { return spans[i] })
	})
	b.Run("ExportTraces", func(b *testing.B) {
		n := 0
		name := fmt.Sprint("bench-", exporterNumber.Add(1))
		RegisterExporter(name, func(context.Context) (sdktrace.SpanExporter, error) { return countOnly(&n), nil })
		fn, err := newExportTracesFn(ExportTracesParams{Exporter: name})
		if err != nil {
			b.Fatal(err)
		}
		fn.Setup()
		ctx := countingContext()
		for b.Loop() {
			fn.StartBundle(nil)
			for _, e := range events {
				fn.ProcessElement(ctx, e, nil)
			}
			fn.FinishBundle(ctx, nil)
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "spans/s")
	})
}

// An exporter that is slow in every batch, and keeps its deadline, gets a bounded time of a bundle.
// The next bundle has its own time.
func TestExportTracesSlowInEveryBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newExportKit(t, ExportTracesParams{BatchSize: 10}, func(context.Context, []sdktrace.ReadOnlySpan) error {
			time.Sleep(4 * time.Second)
			return nil
		})
		for n := range int64(2) {
			start := time.Now()
			k.bundle(calls(1000)...)
			if took := time.Since(start); took > maxExportTime+DefaultExportDeadline {
				t.Errorf("a bundle of 100 batches took %v", took)
			}
			if got := countedIn(k.ctx, t); got["spans_exported"] != 150*(n+1) || got["spans_dropped"] != 850*(n+1) || got["export_failures"] != 0 {
				t.Errorf("after bundle %d: %v", n, got)
			}
		}
	})
}

// A bundle that is cancelled in the middle of a batch is not a failure of the exporter: the next
// bundle uses it at once.
func TestExportTracesCancelledBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cancel context.CancelFunc
		k := newExportKit(t, ExportTracesParams{}, func(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
			if cancel != nil {
				cancel()
			}
			return ctx.Err()
		})
		whole := k.ctx
		k.ctx, cancel = context.WithCancel(whole)
		k.bundle(calls(1)...)
		k.ctx, cancel = whole, nil
		k.bundle(calls(2)...)
		k.expect(map[string]int64{"spans_dropped": 1, "export_failures": 1, "spans_exported": 2, "batches_sent": 1})
	})
}

// The bound of a batch counts the bytes that are sent: of many values, and of a text that occurs
// twice in a span and gets longer because it is not UTF-8.
func TestExportTracesBatchAsSent(t *testing.T) {
	n := 500
	if racedetector.Enabled {
		n = 100
	}
	many, twice := calls(n), calls(40)
	for _, e := range many {
		for i := range 1000 {
			e.Attributes[fmt.Sprint(i)] = ""
		}
	}
	for _, e := range twice {
		e.Attributes["gen_ai.request.model"] = strings.Repeat("a\xff", 50_000)
	}
	for name, events := range map[string][]*pb.TraceEvent{"many": many, "twice": twice} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var largest atomic.Int64
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			largest.Store(max(largest.Load(), n))
		})}
		go func() { _ = server.Serve(listener) }() // until Close
		forgetSenders(t)
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
		k := newExportKit(t, ExportTracesParams{Exporter: "otlp", Deadline: time.Minute}, nil)
		k.bundle(events...)
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if got := countedIn(k.ctx, t); got["spans_exported"] != int64(len(events)) || largest.Load() > 4<<20 {
			t.Errorf("%s: a message has %d bytes; %v", name, largest.Load(), got)
		}
	}
}

// The error about a variable that holds credentials does not show them. The exporters, which would
// log them, are not called.
func TestExportTracesKeepsSecrets(t *testing.T) {
	for name, tt := range map[string]struct{ variable, value, want string }{
		"no name":         {"OTEL_EXPORTER_OTLP_HEADERS", "Bearer hunter2", "part 1 of OTEL_EXPORTER_OTLP_HEADERS is not name=value"},
		"a name of two":   {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b,api hunter2=c", "part 2 of OTEL_EXPORTER_OTLP_TRACES_HEADERS is not"},
		"a bad escape":    {"OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2%zz", "part 1 of OTEL_EXPORTER_OTLP_HEADERS is not"},
		"password in URL": {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:hunter2%@localhost", "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL"},
	} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
				t.Setenv(tt.variable, tt.value)
				_, err := newOTLPExporter(t.Context())
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("error %v, want something about %q", err, tt.want)
				}
			})
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", " authorization = Bearer%20hunter2 , x-tenant=a")
	if _, err := newOTLPExporter(t.Context()); err != nil {
		t.Errorf("good headers: %v", err)
	}
}

// The error of an exporter may be any text, such as the answer of a collector. It is logged on one
// line, which a terminal may show.
func TestExportTracesFailureText(t *testing.T) {
	k := newExportKit(t, ExportTracesParams{}, func(context.Context, []sdktrace.ReadOnlySpan) error {
		return errors.New("refused \xff" + strings.Repeat("x", 10_000))
	})
	_, err := k.fn.sender.send(k.ctx, time.Second, nil)
	if err == nil || !utf8.ValidString(err.Error()) || len(err.Error()) > 600 {
		t.Errorf("%.700q", fmt.Sprint(err))
	}
	k = newExportKit(t, ExportTracesParams{}, func(context.Context, []sdktrace.ReadOnlySpan) error {
		return errors.New("503: \x1b[2J\n2026/01/01 forged \u202eé")
	})
	const want = `: 503: \x1b[2J\n2026/01/01 forged \u202eé`
	if _, err := k.fn.sender.send(k.ctx, time.Second, nil); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%q, want the end %q", fmt.Sprint(err), want)
	}
}

func TestOTLPExporter(t *testing.T) {
	for name, tt := range map[string]struct {
		endpoint, protocol string
		wanted             bool
		exporter, then     string
	}{
		"not wanted":        {"", "", false, "none", ""},
		"wanted":            {"", "", true, "otlp", "http://localhost:4318"},
		"wanted over HTTP":  {"", "http/protobuf", true, "otlp", "http://localhost:4318"},
		"wanted over gRPC":  {"", "grpc", true, "otlp", "http://localhost:4317"},
		"set":               {"http://collector:1", "grpc", false, "otlp", "http://collector:1"},
		"set and wanted":    {"http://collector:1", "", true, "otlp", "http://collector:1"},
		"gRPC, not wanted":  {"", "grpc", false, "none", ""},
		"HTTP, set, wanted": {"http://collector:2", "http/protobuf", true, "otlp", "http://collector:2"},
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", tt.endpoint)
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", tt.protocol)
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "")
		if got, then := OTLPExporter(tt.wanted), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); got != tt.exporter || then != tt.then {
			t.Errorf("%s: the exporter %s and the endpoint %q, want %s and %q", name, got, then, tt.exporter, tt.then)
		}
	}
	for protocol, want := range map[string]string{"grpc": "http://localhost:4317", "http/protobuf": "http://localhost:4318"} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", map[string]string{"grpc": "http/protobuf", "http/protobuf": "grpc"}[protocol])
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocol)
		if OTLPExporter(true); os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != want {
			t.Errorf("%s for traces: the endpoint %q, want %q", protocol, os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), want)
		}
	}
}
