package transforms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/beamagents/beamagents-go/pkg/tracing"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsExportTracesFn).ProcessElement, func(f *beamagentsExportTracesFn, a []any) []any {
		f.ProcessElement(a[0].(context.Context), a[1].(*pb.TraceEvent), a[2].(func(*pb.TraceEvent)))
		return nil
	})
	register.Emitter1[*pb.TraceEvent]()
}

// Defaults of [ExportTracesParams].
const (
	DefaultExportDeadline = 5 * time.Second
	DefaultExportBatch    = 512
)

// Bounds of [ExportTracesParams].
const (
	maxExportDeadline = 5 * time.Minute
	maxExportBatch    = 8192
)

// maxExportBytes bounds a batch, in bytes as spanBytes counts them. By default, receivers of OTLP
// over gRPC refuse messages of more than 4 MiB.
const maxExportBytes = 2 << 20

// The bytes that spanBytes adds for each span and each value: at least what OTLP and the memory
// of a span need beside the text.
const (
	spanOverheadBytes  = 128
	valueOverheadBytes = 16
)

// maxExportTime bounds the time that all batches of a bundle may take together. A runner gives a
// bundle, or a checkpoint that waits for the bundle, some minutes.
const maxExportTime = time.Minute

// ExportTracesParams are the options of [ExportTraces]. The zero value of a field stands for its
// default.
type ExportTracesParams struct {
	// Exporter is the name of the exporter: otlp, console, none, or a name given to
	// [RegisterExporter]. If it is empty, the worker uses its variable OTEL_TRACES_EXPORTER, or
	// otlp if that is not set.
	Exporter string
	// SampleRatio is the share of the traces that are exported, above 0 and up to 1; 0 stands for
	// 1. The trace id decides, so a trace is exported as a whole or not at all; see
	// tracing.Sampled.
	SampleRatio float64
	// Deadline is the time that an exporter has for a batch, 1 ms to 5 minutes; 0 is 5 seconds. A
	// batch that takes longer is dropped and counted.
	Deadline time.Duration
	// BatchSize bounds the spans of a batch, 1 to 8,192; 0 is 512. A batch is sent earlier if the
	// next span would take it above 2 MiB, and when the bundle ends.
	BatchSize int
	// Contents exports the text of users, models and tools where the events have it. By default
	// these attributes are left out.
	Contents bool
}

func (p ExportTracesParams) validate() error {
	switch {
	case p.Exporter != "" && !exporterRegistered(p.Exporter):
		return fmt.Errorf("ExportTracesParams.Exporter %q is not registered: use otlp, console or none, "+
			"or call transforms.RegisterExporter with that name in an init function", p.Exporter)
	case math.IsNaN(p.SampleRatio) || p.SampleRatio < 0 || p.SampleRatio > 1:
		return fmt.Errorf("ExportTracesParams.SampleRatio is %v; use a number above 0 and up to 1, or 0 for 1", p.SampleRatio)
	case p.Deadline != 0 && (p.Deadline < time.Millisecond || p.Deadline > maxExportDeadline):
		return fmt.Errorf("ExportTracesParams.Deadline is %v; use 1ms to %v, or 0 for %v", p.Deadline, maxExportDeadline, DefaultExportDeadline)
	case p.BatchSize < 0 || p.BatchSize > maxExportBatch:
		return fmt.Errorf("ExportTracesParams.BatchSize is %d; use 1 to %d, or 0 for %d", p.BatchSize, maxExportBatch, DefaultExportBatch)
	}
	return nil
}

// ExportTraces sends the spans of a PCollection<*pb.TraceEvent>, such as RunAgent and
// EventsToTraces return, to an OpenTelemetry exporter. Package tracing says which spans these
// are.
//
// The worker configures the exporter from the OpenTelemetry variables in its environment. The
// exporter otlp reads OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL (http/protobuf or
// grpc), OTEL_EXPORTER_OTLP_HEADERS and the other OTEL_EXPORTER_OTLP variables. OTEL_SERVICE_NAME
// (by default beamagents) and OTEL_RESOURCE_ATTRIBUTES set the resource of the spans.
// OTEL_SDK_DISABLED=true turns the export off.
//
// # Failures
//
// Delivery is best effort: a failing exporter neither fails a bundle nor makes dead letters. The
// spans of a bundle are sent in batches before the bundle ends.
//
//   - An exporter that refuses a batch, panics, or exceeds the deadline loses the spans of that
//     batch. Then it is paused, 1 second after the first failure and up to 1 minute after
//     further failures in a row. During a pause, spans are dropped at once.
//   - While a call that ignores its deadline still runs, spans are dropped, too. So a collector
//     that is down delays a bundle by one deadline now and then, or by two if the exporter
//     ignores the deadline.
//   - A slow exporter that keeps its deadline gets 1 minute of each bundle, or one deadline if
//     that is longer. The remaining spans of the bundle are dropped.
//
// Memory holds one batch for each bundle, and the batch of a call that still runs.
//
// If a runner retries a bundle, the same spans are exported again, with the same ids.
//
// # Counters
//
// In the namespace [ExportNamespace]: spans_exported, spans_dropped, spans_unsampled,
// events_without_trace (without a trace id), events_invalid (an id of the wrong length),
// batches_sent (accepted by the exporter), export_failures (batches that were not).
func ExportTraces(s beam.Scope, params ExportTracesParams, col beam.PCollection) {
	fn, err := newExportTracesFn(params)
	if err == nil && (!col.IsValid() || col.Type().Type() != reflect.TypeFor[*pb.TraceEvent]()) {
		err = errors.New("the input is not a PCollection<*pb.TraceEvent>; use the Traces of RunAgent or EventsToTraces")
	}
	if err != nil {
		panic(fmt.Errorf("transforms.ExportTraces: %w", err))
	}
	beam.ParDo(s.Scope("ExportTraces"), fn, col)
}

func newExportTracesFn(p ExportTracesParams) (*beamagentsExportTracesFn, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	return &beamagentsExportTracesFn{
		Exporter: p.Exporter, SampleRatio: cmp.Or(p.SampleRatio, 1),
		DeadlineMS: cmp.Or(p.Deadline, DefaultExportDeadline).Milliseconds(),
		BatchSize:  cmp.Or(p.BatchSize, DefaultExportBatch), Contents: p.Contents,
	}, nil
}

// beamagentsExportTracesFn has an output that stays empty, because Prism busy-waits while a stage
// without outputs runs.
type beamagentsExportTracesFn struct {
	Exporter    string
	SampleRatio float64
	DeadlineMS  int64
	BatchSize   int
	Contents    bool

	sender  *spanSender
	options tracing.Options
	batch   []sdktrace.ReadOnlySpan
	bytes   int           // the size of batch, as spanBytes counts it
	spent   time.Duration // time spent on the batches of this bundle
}

// Setup finds the exporter. All bundles of the worker process share it.
func (f *beamagentsExportTracesFn) Setup() {
	f.sender = senderOf(f.Exporter)
	f.options = tracing.Options{Contents: f.Contents, Resource: f.sender.resource}
}

// StartBundle drops what a failed bundle has left.
func (f *beamagentsExportTracesFn) StartBundle(_ func(*pb.TraceEvent)) {
	f.clear()
	f.spent = 0
}

// ProcessElement adds the span of an event to the batch.
func (f *beamagentsExportTracesFn) ProcessElement(ctx context.Context, e *pb.TraceEvent, _ func(*pb.TraceEvent)) {
	if f.sender.off {
		return
	}
	span, verdict := tracing.Span(e, f.options) //nolint:contextcheck // it does no I/O
	switch verdict {
	case tracing.Covered:
		return
	case tracing.NoTrace:
		eventsWithoutTrace.Inc(ctx, 1)
		return
	case tracing.BadIDs:
		eventsInvalid.Inc(ctx, 1)
		return
	}
	if !tracing.Sampled(e.GetTraceId(), f.SampleRatio) {
		spansUnsampled.Inc(ctx, 1)
		return
	}
	bytes := spanBytes(span)
	if bytes > maxExportBytes {
		spansDropped.Inc(ctx, 1)
		return
	}
	if f.bytes+bytes > maxExportBytes {
		f.send(ctx)
	}
	f.batch, f.bytes = append(f.batch, span), f.bytes+bytes
	if len(f.batch) >= f.BatchSize {
		f.send(ctx)
	}
}

// FinishBundle sends the last batch of the bundle.
func (f *beamagentsExportTracesFn) FinishBundle(ctx context.Context, _ func(*pb.TraceEvent)) {
	f.send(ctx)
}

// spanBytes estimates the size of a span: the text that is sent, which may be longer than in the
// event or occur twice, and the overhead of each value.
func spanBytes(span sdktrace.ReadOnlySpan) int {
	bytes := spanOverheadBytes + len(span.Name()) + len(span.Status().Description)
	for _, a := range span.Attributes() {
		bytes += valueOverheadBytes + len(a.Key)
		switch a.Value.Type() {
		case attribute.STRING:
			bytes += len(a.Value.AsString())
		case attribute.STRINGSLICE:
			for _, text := range a.Value.AsStringSlice() {
				bytes += valueOverheadBytes + len(text)
			}
		}
	}
	return bytes
}

func (f *beamagentsExportTracesFn) clear() { f.batch, f.bytes = nil, 0 }

// send sends the batch and counts the result.
func (f *beamagentsExportTracesFn) send(ctx context.Context) {
	n := int64(len(f.batch))
	if n == 0 {
		return
	}
	limit := time.Duration(f.DeadlineMS) * time.Millisecond
	if f.spent >= max(maxExportTime, limit) {
		f.clear()
		spansDropped.Inc(ctx, n)
		return
	}
	began := time.Now()
	tried, err := f.sender.send(ctx, limit, f.batch)
	f.spent += time.Since(began)
	f.clear() // not reused: an exporter that still runs may read it
	switch {
	case err == nil:
		batchesSent.Inc(ctx, 1)
		spansExported.Inc(ctx, n)
		return
	case tried:
		exportFailures.Inc(ctx, 1)
		log.Warnf(ctx, "transforms.ExportTraces: %d spans are dropped: %v", n, err)
	}
	spansDropped.Inc(ctx, n)
}
