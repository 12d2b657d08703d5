package transforms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
)

// The exporters that need no registration.
const (
	otlpExporter    = "otlp"
	consoleExporter = "console"
	noExporter      = "none"
)

const (
	endpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"
	protocolVariable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	grpcProtocol     = "grpc"
)

// exporters are the functions that make exporters, by name.
var exporters = struct {
	sync.Mutex
	byName map[string]func(context.Context) (sdktrace.SpanExporter, error)
}{byName: map[string]func(context.Context) (sdktrace.SpanExporter, error){
	otlpExporter: newOTLPExporter,
	consoleExporter: func(context.Context) (sdktrace.SpanExporter, error) {
		return stdouttrace.New(stdouttrace.WithWriter(os.Stdout))
	},
	noExporter: nil,
}}

// RegisterExporter gives an exporter of spans a name for [ExportTracesParams].Exporter. Call
// it in an init function: workers find the exporter by the name. The function is called on
// a worker, before the first batch, and again after it has failed. It runs within the
// deadline of that batch. The exporter serves all bundles of the worker process, one batch
// at a time, and is never shut down.
//
// It panics if the name is empty or taken, or make is nil.
func RegisterExporter(name string, makeExporter func(context.Context) (sdktrace.SpanExporter, error)) {
	exporters.Lock()
	defer exporters.Unlock()
	_, taken := exporters.byName[name]
	if name == "" || taken || makeExporter == nil {
		panic(fmt.Errorf("transforms.RegisterExporter: the name %q is empty or taken, or the function is nil", name))
	}
	exporters.byName[name] = makeExporter
}

func exporterRegistered(name string) bool {
	exporters.Lock()
	defer exporters.Unlock()
	_, ok := exporters.byName[name]
	return ok
}

// OTLPExporter returns the [ExportTracesParams].Exporter of a program with a flag such as
// --otlp:
//
//	transforms.ExportTraces(s, transforms.ExportTracesParams{Exporter: transforms.OTLPExporter(*otlp)}, traces)
//
// It returns "otlp" if OTEL_EXPORTER_OTLP_ENDPOINT is set or wanted is true, and "none"
// otherwise. If wanted is true and the variable is not set, OTLPExporter sets it to a collector on
// this machine, without TLS: http://localhost:4318, or http://localhost:4317 if
// OTEL_EXPORTER_OTLP_PROTOCOL is grpc. Only workers in this process see that, such as those
// of the embedded runner; other workers have an environment of their own.
func OTLPExporter(wanted bool) string {
	switch {
	case os.Getenv(endpointVariable) != "":
		return otlpExporter
	case !wanted:
		return noExporter
	}
	url := "http://localhost:4318"
	if os.Getenv(protocolVariable) == grpcProtocol {
		url = "http://localhost:4317"
	}
	if err := os.Setenv(endpointVariable, url); err != nil {
		panic(err) // the name and the value are good
	}
	return otlpExporter
}

// newOTLPExporter makes the exporter that the OTEL_EXPORTER_OTLP_* variables ask for. All
// but the protocol is read by the exporters themselves.
func newOTLPExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if err := checkSecrets(); err != nil {
		return nil, err
	}
	const traces, all = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocolVariable
	switch protocol := cmp.Or(os.Getenv(traces), os.Getenv(all), "http/protobuf"); protocol {
	case "http/protobuf":
		return otlptracehttp.New(ctx)
	case grpcProtocol:
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("%s or %s is %q; use http/protobuf or grpc", traces, all, protocol)
	}
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// checkSecrets refuses what the exporters could not read of the variables that may hold
// credentials: they would log the text of it. The errors do not show it.
func checkSecrets() error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		if strings.TrimSpace(os.Getenv(name)) == "" {
			continue
		}
		for i, pair := range strings.Split(os.Getenv(name), ",") {
			header, value, found := strings.Cut(pair, "=")
			_, err := url.PathUnescape(value)
			if !found || err != nil || !headerName.MatchString(strings.TrimSpace(header)) {
				return fmt.Errorf("part %d of %s is not name=value: separate the headers by commas, and write %%2C for a comma and %%25 for a %% in a value", i+1, name)
			}
		}
	}
	for _, name := range []string{endpointVariable, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if _, err := url.Parse(strings.TrimSpace(os.Getenv(name))); err != nil {
			return fmt.Errorf("%s is not a URL: use one such as http://localhost:4318", name)
		}
	}
	return nil
}

// defaultServiceName is the service.name where the worker's environment has none.
const defaultServiceName = "beamagents"

// newSpanResource is the origin of spans as the environment of the worker says it.
func newSpanResource() *resource.Resource {
	// The error is that of a variable which cannot be read, and the rest is there.
	fromEnv, _ := resource.New(context.Background(), resource.WithFromEnv(), resource.WithTelemetrySDK())
	named, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", defaultServiceName)), fromEnv)
	if err != nil {
		return fromEnv
	}
	return named
}

// Pauses of an exporter that has failed.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

var (
	errExporterPaused = errors.New("the exporter has a pause after a failure")
	errExporterHangs  = errors.New("a call that has exceeded its deadline is still running")
)

// spanSender is an exporter in a worker process.
type spanSender struct {
	name     string
	makeNew  func(context.Context) (sdktrace.SpanExporter, error)
	resource *resource.Resource
	off      bool // it exports nothing

	turn     chan struct{} // an exporter takes one batch at a time
	exporter sdktrace.SpanExporter

	mu       sync.Mutex
	hanging  *spanCall // has the turn, and nobody waits for it any more
	failures int       // in a row
	until    time.Time // of the pause after a failure
}

// spanCall is a batch that an exporter is given.
type spanCall struct {
	ended   bool
	failure string // to be read only if the exporter has returned
}

var spanSenders struct {
	sync.Mutex
	byName map[string]*spanSender
}

// senderOf returns the sender of an exporter, the same one in the whole process.
func senderOf(name string) *spanSender {
	name = cmp.Or(name, os.Getenv("OTEL_TRACES_EXPORTER"), otlpExporter)
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		name = noExporter
	}
	spanSenders.Lock()
	defer spanSenders.Unlock()
	s := spanSenders.byName[name]
	if s == nil {
		s = newSpanSender(name)
		if spanSenders.byName == nil {
			spanSenders.byName = map[string]*spanSender{}
		}
		spanSenders.byName[name] = s
	}
	return s
}

func newSpanSender(name string) *spanSender {
	exporters.Lock()
	makeNew, known := exporters.byName[name]
	names := slices.Sorted(maps.Keys(exporters.byName))
	exporters.Unlock()
	if !known { // a mistake in the worker's environment, which must not stop the job
		makeNew = func(context.Context) (sdktrace.SpanExporter, error) {
			return nil, fmt.Errorf("no such exporter is registered; there are %s", strings.Join(names, ", "))
		}
	}
	return &spanSender{
		name: name, makeNew: makeNew, resource: newSpanResource(), off: makeNew == nil, turn: make(chan struct{}, 1),
	}
}

// send exports a batch. It reports whether the exporter was tried, or waited for; if not,
// the error is the failure of an earlier batch.
func (s *spanSender) send(ctx context.Context, limit time.Duration, batch []sdktrace.ReadOnlySpan) (tried bool, err error) {
	if err := s.unfit(); err != nil {
		return false, err
	}
	wait := time.NewTimer(limit)
	defer wait.Stop()
	select {
	case s.turn <- struct{}{}:
	case <-wait.C: // more than it can take: a pause, which its next success ends
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pause()
		return true, fmt.Errorf("exporter %q was busy with other batches for %v", s.name, limit)
	case <-ctx.Done():
		return true, ctx.Err()
	}
	if err := s.unfit(); err != nil { // the batch before has failed
		<-s.turn
		return false, err
	}
	call, parent := new(spanCall), ctx
	result, text := isolate.Run(ctx, limit, func(ctx context.Context) {
		defer s.end(call)
		if err := s.export(ctx, batch); err != nil {
			call.failure = isolate.Describe(err)
		}
	})
	switch result {
	case isolate.Returned:
		text = call.failure
	case isolate.Panicked:
		text = "panic: " + text
	case isolate.Exited:
		text = "it called runtime.Goexit"
	case isolate.TimedOut, isolate.Abandoned:
		text = fmt.Sprintf("it exceeded the deadline of %v", limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "" {
		s.failures = 0
		return true, nil
	}
	if !call.ended {
		s.hanging = call
	}
	if parent.Err() == nil { // or the bundle was cancelled, which says nothing of the exporter
		s.pause()
	}
	return true, fmt.Errorf("exporter %q: %.500s", s.name, strings.ToValidUTF8(text, "\ufffd"))
}

// pause begins a pause, longer with each failure in a row. The caller has the lock.
func (s *spanSender) pause() {
	s.until = time.Now().Add(min(firstPause<<min(s.failures, 16), lastPause))
	s.failures++
}

// unfit says why the exporter is not tried now.
func (s *spanSender) unfit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.hanging != nil:
		return errExporterHangs
	case s.failures > 0 && time.Now().Before(s.until):
		return errExporterPaused
	}
	return nil
}

// export makes the exporter if there is none yet. The caller has the turn.
func (s *spanSender) export(ctx context.Context, batch []sdktrace.ReadOnlySpan) (err error) {
	if s.exporter == nil {
		if s.exporter, err = s.makeNew(ctx); err != nil {
			s.exporter = nil
			return err
		}
		if s.exporter == nil {
			return errors.New("its function has returned neither an exporter nor an error")
		}
	}
	return s.exporter.ExportSpans(ctx, batch)
}

// end gives the turn back, however the call has ended.
func (s *spanSender) end(call *spanCall) {
	s.mu.Lock()
	call.ended = true
	if s.hanging == call {
		s.hanging = nil
	}
	s.mu.Unlock()
	<-s.turn
}
