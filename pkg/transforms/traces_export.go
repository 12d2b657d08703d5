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

// maxExportBytes bounds a batch as spanBytes counts it. Receivers of OTLP over gRPC refuse
// messages of more than 4 MiB by default.
const maxExportBytes = 2 << 20

// What spanBytes counts for a span and for a value, beside their text: as much as OTLP and
// the memory of a span need at least.
const (
	spanOverheadBytes  = 128
	valueOverheadBytes = 16
)

// maxExportTime bounds how long the batches of a bundle may take together. A runner gives a
// bundle, or a checkpoint that waits for it, some minutes.
const maxExportTime = time.Minute

// ExportTracesParams are the options of [ExportTraces]. A zero value of a field is its
// default.
type ExportTracesParams struct {
	// Exporter names the exporter: otlp, console, none, or a name of [RegisterExporter]. If it
	// is empty, the variable OTEL_TRACES_EXPORTER of the worker names it, which is otlp if it
	// is not set.
	Exporter string
	// SampleRatio is the share of the traces that are exported, above 0 and up to 1; 0 is 1,
	// which is all. The trace id decides, so that a trace is exported as a whole; see
	// tracing.Sampled.
	SampleRatio float64
	// Deadline is the time that an exporter has for a batch, 1 ms to 5 minutes; 0 is 5
	// seconds. What it has not taken by then is dropped and counted.
	Deadline time.Duration
	// BatchSize bounds the spans of a batch, 1 to 8,192; 0 is 512. A batch is smaller where it
	// would have more than 2 MiB, and ends with the bundle.
	BatchSize int
	// Contents exports what users, models and tools said, where the events have it. By default
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
// EventsToTraces return, to an exporter of OpenTelemetry. Package tracing says which spans
// these are.
//
// The exporter is configured on the worker, by the variables of OpenTelemetry: otlp by
// OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL (http/protobuf, or grpc),
// OTEL_EXPORTER_OTLP_HEADERS and their kin, the resource of the spans by OTEL_SERVICE_NAME
// (beamagents if it is not set) and OTEL_RESOURCE_ATTRIBUTES. OTEL_SDK_DISABLED=true
// exports nothing.
//
// Traces are no data: nothing that an exporter does fails a bundle, or is a dead letter.
// The spans of a bundle leave in batches before the bundle ends. An exporter that refuses a
// batch, panics, or exceeds the deadline costs the spans of that batch. Then it has a pause,
// of 1 second after the first failure and up to 1 minute after further ones in a row, in
// which spans are dropped at once. While a call that ignores the deadline goes on, spans
// are dropped, too. So a collector that is down holds up a bundle for a deadline now and
// then, or for two if the exporter ignores it. An exporter that is slow and keeps its deadline
// gets 1 minute of a bundle, or one deadline if that is longer; then the rest of the bundle's
// spans are dropped. Memory holds one batch for each bundle, and the one of a call that goes on.
//
// A runner that retries a bundle makes it export the same spans, with the same ids, again.
//
// Counters, in the namespace [ExportNamespace]: spans_exported, spans_dropped,
// spans_unsampled, events_without_trace (no trace id), events_invalid (ids of wrong width),
// batches_sent (that the exporter has taken), export_failures (batches that it has not).
func ExportTraces(s beam.Scope, params ExportTracesParams, col beam.PCollection) {
	fn, err := newExportTracesFn(params)
	if err == nil && (!col.IsValid() || col.Type().Type() != reflect.TypeFor[*pb.TraceEvent]()) {
		err = errors.New("the input is no PCollection<*pb.TraceEvent>; use the Traces of RunAgent or EventsToTraces")
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

// beamagentsExportTracesFn has an output, which stays empty, because Prism busy-waits while
// a stage without one runs.
type beamagentsExportTracesFn struct {
	Exporter    string
	SampleRatio float64
	DeadlineMS  int64
	BatchSize   int
	Contents    bool

	sender  *spanSender
	options tracing.Options
	batch   []sdktrace.ReadOnlySpan
	bytes   int           // of batch, as spanBytes counts them
	spent   time.Duration // on the batches of this bundle
}

// Setup finds the exporter, which all bundles of the worker process share.
func (f *beamagentsExportTracesFn) Setup() {
	f.sender = senderOf(f.Exporter)
	f.options = tracing.Options{Contents: f.Contents, Resource: f.sender.resource}
}

// StartBundle forgets what a bundle that failed has left.
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

// spanBytes is the size of a span: of the text that is sent, some of which is longer than in
// the event or stands there twice, and of what its values need beside it.
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

// send hands over the batch, and counts what became of it.
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
	f.clear() // not kept for the next batch: an exporter that goes on may still read it
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
