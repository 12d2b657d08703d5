// Triage is a desk for payment events. An agent for each customer asks a model what to do,
// remembers the customer, pays small refunds, and asks a human about large ones.
//
//	go run . --input FILE --out DIR [--model NAME] [--latency 20ms] [--concurrency 64]
//		[--otlp] [--metrics] [--runner prism|agents-flink] [--fingerprint FILE]
//
// It prints a summary, and its progress on standard error. All outputs of the agent are in the
// folder. The model is a server in this process that follows the rules of the prompt and answers
// after the latency. If OPENAI_BASE_URL is set, the model is the one at that address, with the
// key in OPENAI_API_KEY. With --otlp, or if OTEL_EXPORTER_OTLP_ENDPOINT is set, it also sends the
// traces to an OpenTelemetry collector. With --metrics it prints the metrics of the job on
// standard error, except on Flink, where the job is cancelled at its end.
//
// Exit status: 0 if the pipeline ran, with or without dead letters, or if the fingerprint was
// written; 1 if the pipeline failed; 2 for a wrong flag or a missing file.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/beamagents/beamagents-go/pkg/compat/graph"
	"github.com/beamagents/beamagents-go/pkg/runners/flink"
	"github.com/beamagents/beamagents-go/pkg/transforms"
)

const usage = "usage: triage --input FILE --out DIR [--model NAME] [--latency 20ms] [--concurrency 64] [--otlp] [--metrics] [--runner prism|agents-flink] [--fingerprint FILE]"

func main() {
	input := flag.String("input", "", "file of envelopes, one a line in JSON")
	out := flag.String("out", "", "folder for the outputs, created if need be")
	model := flag.String("model", "gpt-4.1-mini", "name of the model")
	latency := flag.Duration("latency", 20*time.Millisecond, "after which the model in this process answers")
	concurrency := flag.Int("concurrency", 64, "activations at once")
	otlp := flag.Bool("otlp", false, "send the traces to an OpenTelemetry collector")
	metrics := flag.Bool("metrics", false, "print the metrics of the job on standard error")
	flag.CommandLine.Init("triage", flag.ContinueOnError) // otherwise a wrong flag prints all flags of Beam
	flag.CommandLine.SetOutput(io.Discard)
	switch err := flag.CommandLine.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(os.Stderr, usage)
		return
	case err != nil:
		end(2, err)
	}
	log.LogLevel = "warn" // at "info" the embedded runner reports every step it takes
	beam.Init()           // does not return in a worker, which gets none of our flags
	desk := triage{BaseURL: os.Getenv("OPENAI_BASE_URL"), Model: *model, LimitCents: 5000}
	err := check(*input, *out, flag.Args())
	if err == nil {
		err = checkModel(desk.BaseURL, *model, *latency, *concurrency)
	}
	if err != nil {
		end(2, err)
	}
	slog.SetDefault(slog.New(quietEnd{slog.Default().Handler()}))

	calls := func() string { return "" }
	if desk.BaseURL == "" {
		local := &localModel{latency: *latency}
		running, err := local.start()
		if err != nil {
			end(1, err)
		}
		defer func() { _ = running.Close() }() // the process ends next
		desk.BaseURL, calls = running.URL+"/v1", local.progress
	}
	p, s := beam.NewPipelineWithRoot()
	runner := cmp.Or(*runners.Runner, "prism")
	err = job{
		input: *input, out: *out, concurrency: *concurrency, desk: &desk, open: runner == flink.Name, exporter: transforms.OTLPExporter(*otlp),
	}.build(s)
	if err != nil {
		end(1, err)
	}
	graph.WriteIfAsked(p)
	stop := report(calls)
	var result beam.PipelineResult
	if runner == flink.Name {
		err = runOpen(p, *out)
	} else {
		result, err = beam.Run(context.Background(), runner, p)
	}
	stop()
	if err == nil && *metrics && result != nil {
		err = transforms.WriteMetrics(os.Stderr, result)
	}
	if err == nil {
		err = printSummary(os.Stdout, *out)
	}
	if err != nil {
		end(1, err)
	}
}

func end(status int, err error) {
	fmt.Fprintln(os.Stderr, "triage:", err)
	os.Exit(status)
}

// check checks what would otherwise fail only when the pipeline runs.
func check(input, out string, args []string) error {
	switch runner := *runners.Runner; {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q", args[0])
	case runner != "" && runner != "prism" && runner != flink.Name:
		return fmt.Errorf("--runner %q is not in this binary: use prism, the embedded runner, or agents-flink; an agent needs keyed state and timers", runner)
	case input == "":
		return errors.New("--input is missing: name a file of envelopes")
	case out == "":
		return errors.New("--out is missing: name a folder for the outputs")
	}
	info, err := os.Stat(input)
	switch {
	case err != nil:
		return fmt.Errorf("cannot read the input: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("cannot read the input: %s is not a file", input)
	}
	// The pipeline writes only at its end, after all model calls have been paid for.
	if err := os.MkdirAll(out, 0o777); err != nil {
		return fmt.Errorf("cannot write to --out: %w", err)
	}
	probe, err := os.MkdirTemp(out, ".triage-*")
	if err == nil {
		err = os.Remove(probe)
	}
	if err != nil {
		return fmt.Errorf("cannot write to --out: %w", err)
	}
	return nil
}

// checkModel checks the options of the model. The endpoint, which is "" for the model in this
// process, is part of the pipeline, so it must not contain a password.
func checkModel(endpoint, model string, latency time.Duration, concurrency int) error {
	at, err := url.Parse(endpoint)
	switch {
	case endpoint != "" && (err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil):
		return errors.New("OPENAI_BASE_URL must be like https://host/v1, without a password") // the value is not shown
	case model == "":
		return errors.New("--model is empty")
	case latency < 0:
		return fmt.Errorf("--latency is %v; use 0 or more", latency)
	case concurrency < 1 || concurrency > 1024:
		return fmt.Errorf("--concurrency is %d; use 1 to 1024", concurrency)
	}
	return nil
}

// report prints the progress each second. stop prints how long the run took.
func report(calls func() string) (stop func()) {
	began, done, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	line := func() { fmt.Fprintf(os.Stderr, "%5.1f s%s\n", time.Since(began).Seconds(), calls()) }
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
				line()
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
		line()
	}
}

// quietEnd drops a message that the SDK sometimes logs at the end of a job, when the embedded
// runner closes its connections.
type quietEnd struct{ slog.Handler }

// Handle implements slog.Handler.
func (h quietEnd) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "[SDK] StateChannel[") &&
		(strings.HasSuffix(r.Message, ".read: closed") || strings.HasSuffix(r.Message, "context canceled")) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
