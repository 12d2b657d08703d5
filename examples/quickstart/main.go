// Quickstart is the smallest useful agent. It pays small refunds, asks a human about large ones,
// and waits for the answers.
//
//	go run ./examples/quickstart --input FILE --out DIR [--otlp] [--metrics] [--runner prism|agents-flink] [--fingerprint FILE]
//
// It prints what the agent has decided. All outputs of the agent are in the folder. With --otlp,
// or if OTEL_EXPORTER_OTLP_ENDPOINT is set, it also sends the traces to an OpenTelemetry
// collector. With --metrics it prints the metrics of the job on standard error. Exit status: 0 if
// the pipeline ran, with or without dead letters, or if the fingerprint was written; 1 if the
// pipeline failed; 2 for a wrong flag or a missing file.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/beamagents/beamagents-go/pkg/compat/graph"
	"github.com/beamagents/beamagents-go/pkg/runners/flink"
	"github.com/beamagents/beamagents-go/pkg/transforms"
)

func main() {
	input := flag.String("input", "", "file of envelopes, one a line in JSON")
	out := flag.String("out", "", "folder for the outputs, created if need be")
	otlp := flag.Bool("otlp", false, "send the traces to an OpenTelemetry collector")
	metrics := flag.Bool("metrics", false, "print the metrics of the job on standard error")
	flag.CommandLine.Init("quickstart", flag.ContinueOnError) // otherwise a wrong flag prints all flags of Beam
	flag.CommandLine.SetOutput(io.Discard)
	switch err := flag.CommandLine.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(os.Stderr, "usage: quickstart --input FILE --out DIR [--otlp] [--metrics] [--runner prism|agents-flink] [--fingerprint FILE]")
		return
	case err != nil:
		end(2, err)
	}
	log.LogLevel = "warn" // at "info" the embedded runner reports every step it takes
	beam.Init()           // does not return in a worker, which gets none of our flags
	if err := check(*input, *out, flag.Args()); err != nil {
		end(2, err)
	}
	slog.SetDefault(slog.New(quietEnd{slog.Default().Handler()}))
	p, s := beam.NewPipelineWithRoot()
	build(s, *input, *out, transforms.OTLPExporter(*otlp))
	graph.WriteIfAsked(p)
	result, err := beam.Run(context.Background(), cmp.Or(*runners.Runner, "prism"), p)
	if err != nil {
		end(1, err)
	}
	if *metrics {
		if err := transforms.WriteMetrics(os.Stderr, result); err != nil {
			end(1, err)
		}
	}
	if *jobopts.Async {
		return // the job still runs, and writes the outputs when it ends
	}
	decisions, err := os.ReadFile(filepath.Join(*out, "outputs.jsonl"))
	if err != nil {
		end(1, err)
	}
	fmt.Print(string(decisions))
}

func end(status int, err error) {
	fmt.Fprintln(os.Stderr, "quickstart:", err)
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
	return nil
}

// build builds the pipeline.
func build(s beam.Scope, input, out, exporter string) {
	read := transforms.ReadEnvelopes(s, transforms.ReadParams{}, input)
	agents := transforms.RunAgent(s, transforms.AgentParams{
		Name: "refunds", Agent: &refunds{LimitCents: 5000}, MeasureDurations: true,
	}, transforms.KeyByEntity(s, read.Envelopes))
	transforms.ExportTraces(s, transforms.ExportTracesParams{Exporter: exporter}, agents.Traces)
	transforms.WriteFolder(s, out, map[string]beam.PCollection{
		"outputs.jsonl":      agents.Outputs,
		"intents.jsonl":      agents.Intents,
		"traces.jsonl":       agents.Traces,
		"snapshots.jsonl":    agents.Snapshots,
		"dead_letters.jsonl": beam.Flatten(s, read.Errors, agents.Errors),
	})
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
