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

	"github.com/beamagents/beamagents-go/internal/terminaltext"
	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
)

// The names of the built-in exporters.
const (
	otlpExporter    = "otlp"
	consoleExporter = "console"
	noExporter      = "none"
)

const (
	endpointVariable       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	protocolVariable       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	tracesProtocolVariable = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	grpcProtocol           = "grpc"
	httpProtocol           = "http/protobuf"
)

// otlpProtocol returns the protocol of the exporter "otlp".
func otlpProtocol() string {
	return cmp.Or(os.Getenv(tracesProtocolVariable), os.Getenv(protocolVariable), httpProtocol)
}

// exporters maps a name to the function that makes the exporter.
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

// RegisterExporter registers an exporter of spans under a name for [ExportTracesParams].Exporter.
// Call it in an init function, because workers look the exporter up by the name.
//
// A worker calls makeExporter before the first batch, and again if it has failed. The call runs
// within the deadline of that batch. The exporter serves all bundles of the worker process, one
// batch at a time, and is never shut down.
//
// RegisterExporter panics if the name is empty or taken, or if makeExporter is nil.
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
// this machine, without TLS: http://localhost:4318, or http://localhost:4317 if the protocol is
// grpc. The protocol is that of OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, or else of
// OTEL_EXPORTER_OTLP_PROTOCOL. Only workers in this process see that, such as those of the
// embedded runner; other workers have an environment of their own.
func OTLPExporter(wanted bool) string {
	switch {
	case os.Getenv(endpointVariable) != "":
		return otlpExporter
	case !wanted:
		return noExporter
	}
	url := "http://localhost:4318"
	if otlpProtocol() == grpcProtocol {
		url = "http://localhost:4317"
	}
	if err := os.Setenv(endpointVariable, url); err != nil {
		panic(err) // the name and the value are good
	}
	return otlpExporter
}

// newOTLPExporter makes the exporter for the protocol in the OTEL_EXPORTER_OTLP_* variables. The
// exporters read the other variables themselves.
func newOTLPExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if err := checkSecrets(); err != nil {
		return nil, err
	}
	switch protocol := otlpProtocol(); protocol {
	case httpProtocol:
		return otlptracehttp.New(ctx)
	case grpcProtocol:
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("%s or %s is %q; use http/protobuf or grpc", tracesProtocolVariable, protocolVariable, protocol)
	}
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// checkSecrets refuses headers and endpoints that the exporters could not parse, because the
// exporters would log their text, which may hold credentials. Its own errors do not show the
// text.
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

// defaultServiceName is the service.name if the environment of the worker sets none.
const defaultServiceName = "beamagents"

// newSpanResource returns the resource of spans that the environment of the worker describes.
func newSpanResource() *resource.Resource {
	// An error is about a variable that cannot be parsed. The resource has the others.
	fromEnv, _ := resource.New(context.Background(), resource.WithFromEnv(), resource.WithTelemetrySDK())
	named, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", defaultServiceName)), fromEnv)
	if err != nil {
		return fromEnv
	}
	return named
}

// The pauses after failures of an exporter.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

var (
	errExporterPaused = errors.New("the exporter is paused after a failure")
	errExporterHangs  = errors.New("a call that has exceeded its deadline is still running")
)

// spanSender is an exporter in a worker process.
type spanSender struct {
	name     string
	makeNew  func(context.Context) (sdktrace.SpanExporter, error)
	resource *resource.Resource
	off      bool // the exporter is none

	turn     chan struct{} // held during a batch: an exporter takes one at a time
	exporter sdktrace.SpanExporter

	mu       sync.Mutex
	hanging  *spanCall // a call that still runs after its deadline, and holds the turn
	failures int       // failures in a row
	until    time.Time // the end of the pause
}

// spanCall is one call of an exporter.
type spanCall struct {
	ended   bool
	failure string // read it only if the exporter has returned
}

var spanSenders struct {
	sync.Mutex
	byName map[string]*spanSender
}

// senderOf returns the sender of an exporter. The whole process shares it.
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
			return nil, fmt.Errorf("no such exporter is registered: use one of %s", strings.Join(names, ", "))
		}
	}
	return &spanSender{
		name: name, makeNew: makeNew, resource: newSpanResource(), off: makeNew == nil, turn: make(chan struct{}, 1),
	}
}

// send exports a batch. tried is false if the exporter was not called because of an earlier
// failure; then err is about that failure.
func (s *spanSender) send(ctx context.Context, limit time.Duration, batch []sdktrace.ReadOnlySpan) (tried bool, err error) {
	if err := s.unavailable(); err != nil {
		return false, err
	}
	wait := time.NewTimer(limit)
	defer wait.Stop()
	select {
	case s.turn <- struct{}{}:
	case <-wait.C: // the exporter is overloaded: pause until its next success
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pause()
		return true, fmt.Errorf("exporter %q was busy with other batches for %v", s.name, limit)
	case <-ctx.Done():
		return true, ctx.Err()
	}
	if err := s.unavailable(); err != nil { // the previous batch may have failed
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
	if parent.Err() == nil { // a cancelled bundle says nothing about the exporter
		s.pause()
	}
	return true, fmt.Errorf("exporter %q: %.500s", s.name, terminaltext.Line(text))
}

// pause begins a pause, twice as long for each failure in a row. The caller holds the lock.
func (s *spanSender) pause() {
	s.until = time.Now().Add(min(firstPause<<min(s.failures, 16), lastPause))
	s.failures++
}

// unavailable returns an error if the exporter must not be called now.
func (s *spanSender) unavailable() error {
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

// export makes the exporter at first use and exports a batch. The caller holds the turn.
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

// end gives the turn back, however the call ended.
func (s *spanSender) end(call *spanCall) {
	s.mu.Lock()
	call.ended = true
	if s.hanging == call {
		s.hanging = nil
	}
	s.mu.Unlock()
	<-s.turn
}
