// Events reads a recording of coding agents, which has one event of the agent event protocol per
// line. It writes a timeline of each session, statistics of each tool, the traces, and the dead
// letters.
//
//	go run ./examples/events --input FILE --out DIR [--otlp] [--runner prism|direct|agents-flink] [--fingerprint FILE]
//
// With --otlp, or if OTEL_EXPORTER_OTLP_ENDPOINT is set, it also sends the traces to an
// OpenTelemetry collector. At the end it prints a table of the tools. Exit status: 0 if the
// pipeline ran, with or without dead letters, or if the fingerprint was written; 1 if the
// pipeline failed; 2 for a wrong flag, a missing file or an unwritable folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/beamagents/beamagents-go/pkg/compat/graph"
	"github.com/beamagents/beamagents-go/pkg/runners/flink"
	"github.com/beamagents/beamagents-go/pkg/transforms"
)

// options are the checked flags.
type options struct {
	input, out, runner string
	otlp               bool
	info               fs.FileInfo // of the input
}

func main() {
	var o options
	flag.StringVar(&o.input, "input", "", "file of events, one envelope a line")
	flag.StringVar(&o.out, "out", "", "folder for the outputs, created if need be")
	flag.BoolVar(&o.otlp, "otlp", false, "send the traces to an OpenTelemetry collector")
	flag.CommandLine.Init("events", flag.ContinueOnError) // otherwise a wrong flag prints the usage, too
	flag.CommandLine.SetOutput(io.Discard)
	switch err := flag.CommandLine.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(os.Stderr, "usage: events --input FILE --out DIR [--otlp] [--runner prism|direct|agents-flink] [--fingerprint FILE]")
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "events:", err)
		os.Exit(2)
	}
	log.LogLevel = "warn" // at "info" the embedded runner reports every step it takes
	beam.Init()           // does not return in a worker, which gets none of our flags
	o.runner = *runners.Runner
	if err := o.validate(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "events:", err)
		os.Exit(2)
	}
	p, s := beam.NewPipelineWithRoot()
	build(s, o)
	graph.WriteIfAsked(p)
	if err := prepare(o.out, o.info); err != nil {
		fmt.Fprintln(os.Stderr, "events:", err)
		os.Exit(2)
	}
	if err := run(context.Background(), p, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "events:", err)
		os.Exit(1)
	}
}

// validate fills in the defaults, and checks what would otherwise fail only in a worker.
func (o *options) validate(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q", args[0])
	case o.input == "":
		return errors.New("--input is missing: name a file of events")
	case o.out == "":
		return errors.New("--out is missing: name a folder for the outputs")
	}
	if o.runner == "" {
		o.runner = "prism"
	}
	if o.runner != "prism" && o.runner != "direct" && o.runner != flink.Name {
		return fmt.Errorf("--runner %q is not in this binary: use prism, direct or agents-flink", o.runner)
	}
	info, err := os.Stat(o.input)
	switch {
	case err != nil:
		return fmt.Errorf("cannot read the input: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("cannot read the input: %s is not a file", o.input)
	}
	f, err := os.Open(o.input)
	if err != nil {
		return fmt.Errorf("cannot read the input: %w", err)
	}
	_ = f.Close() // opened only to check that it can be read
	o.info = info
	return nil
}

// run runs the pipeline and prints the tables.
func run(ctx context.Context, p *beam.Pipeline, o options, stdout io.Writer) error {
	result, err := beam.Run(ctx, o.runner, p)
	if err != nil {
		return err
	}
	if err := printTools(stdout, o.out); err != nil {
		return err
	}
	return printCounts(stdout, result.Metrics().AllMetrics().Counters())
}

// build builds the pipeline.
func build(s beam.Scope, o options) {
	decoded := transforms.DecodeEvents(s, readEvents(s, o.input))
	bySession := transforms.EventsToEnvelopes(s, decoded.Events)
	traced := transforms.EventsToTraces(s, decoded.Events)
	letters := beam.Flatten(s, decoded.Errors, bySession.Errors, traced.Errors,
		transforms.DeadLetteredCommands(s, decoded.Events))

	transforms.ExportTraces(s, transforms.ExportTracesParams{Exporter: transforms.OTLPExporter(o.otlp)}, traced.Traces)
	transforms.WriteFolder(s, o.out, map[string]beam.PCollection{
		timelinesFile:   timelines(s, bySession.Envelopes),
		toolsFile:       toolStatistics(s, traced.Traces),
		tracesFile:      traced.Traces,
		deadLettersFile: eachLetterOnce(s, letters),
	})
}
