// Route is the main job. It reads AgentEnvelopes from a file, parses, keys and routes them, and
// writes each kind, and the dead letters, to files in a folder.
//
//	go run ./examples/route --input FILE --out DIR [--runner prism|direct|agents-flink] [--fingerprint FILE]
//
// At the end it prints a table of counts. Exit status: 0 if the pipeline ran, with or without
// dead letters, or if the fingerprint was written; 1 if the pipeline failed; 2 for a wrong flag,
// a missing file or an unwritable folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
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
	info               fs.FileInfo // of the input
}

func main() {
	var o options
	flag.StringVar(&o.input, "input", "", "file of AgentEnvelopes: .jsonl, JSON, one a line; or .binpb, each after its length as a varint")
	flag.StringVar(&o.out, "out", "", "folder for the outputs, created if need be")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: route --input FILE --out DIR [--runner prism|direct|agents-flink] [--fingerprint FILE]")
		for _, name := range []string{"input", "out"} {
			fmt.Fprintf(os.Stderr, "  --%-8s %s\n", name, flag.Lookup(name).Usage)
		}
		fmt.Fprintln(os.Stderr, "  --fingerprint "+flag.Lookup("fingerprint").Usage)
		fmt.Fprintln(os.Stderr, "  --runner   prism, the embedded runner (default), direct, Beam's legacy one, or agents-flink")
	}
	flag.Parse()
	log.LogLevel = "warn" // at "info" the embedded runner reports every step it takes
	beam.Init()           // does not return in a worker, which gets none of our flags
	o.runner = *runners.Runner
	if err := o.validate(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "route:", err)
		os.Exit(2)
	}
	p, s := beam.NewPipelineWithRoot()
	build(s, o)
	graph.WriteIfAsked(p)
	if err := prepare(o.out, o.info); err != nil {
		fmt.Fprintln(os.Stderr, "route:", err)
		os.Exit(2)
	}
	if err := run(context.Background(), p, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "route:", err)
		os.Exit(1)
	}
}

// validate fills in the defaults, and checks what would otherwise fail only in a worker.
func (o *options) validate(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q", args[0])
	case o.input == "":
		return errors.New("--input is missing: name a file of envelopes")
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

// run runs the pipeline and prints the table.
func run(ctx context.Context, p *beam.Pipeline, o options, stdout io.Writer) error {
	result, err := beam.Run(ctx, o.runner, p)
	if err != nil {
		return err
	}
	return printCounts(stdout, result.Metrics().AllMetrics().Counters())
}

// build builds the pipeline.
func build(s beam.Scope, o options) {
	read := transforms.ReadEnvelopes(s, transforms.ReadParams{}, o.input)
	keyed := transforms.KeyByEntity(s, read.Envelopes)
	routed := transforms.Route(s, keyed)
	letters := beam.Flatten(s, read.Errors, routed.Errors)
	encoded := transforms.EncodeErrors(s, transforms.EncodeErrorsParams{}, letters)

	transforms.WriteFolder(s, o.out, map[string]beam.PCollection{
		eventsFile:          beam.ParDo(s, eventEnvelope, routed.Events),
		toolResultsFile:     beam.ParDo(s, toolResultEnvelope, routed.ToolResults),
		approvalsFile:       beam.ParDo(s, approvalEnvelope, routed.Approvals),
		exportRequestsFile:  beam.ParDo(s, exportRequestEnvelope, routed.ExportRequests),
		deadLettersFile:     letters,
		tooLargeFile:        encoded.TooLarge,
		deadLetterTopicFile: encoded.Encoded,
	})
}

// printCounts prints the counters: where elements were routed, and why others were not.
func printCounts(w io.Writer, counters []metrics.CounterResult) error {
	counts := map[string]int64{}
	for _, c := range counters {
		if c.Key.Namespace == transforms.MetricsNamespace {
			counts[c.Key.Name] += c.Result()
		}
	}
	var reasons []string
	for name := range counts {
		if reason, ok := strings.CutPrefix(name, "errors_"); ok {
			reasons = append(reasons, reason)
		}
	}
	slices.Sort(reasons)
	var text strings.Builder
	section := func(title, prefix string, names []string) {
		total := int64(0)
		fmt.Fprintf(&text, "%s\n", title)
		for _, name := range names {
			total += counts[prefix+name]
			fmt.Fprintf(&text, "  %-20s %8d\n", name, counts[prefix+name])
		}
		fmt.Fprintf(&text, "  %-20s %8d\n", "total", total)
	}
	section("routed", "envelopes_routed_", []string{"event", "tool_result", "approval", "export_request"})
	section("dead letters", "errors_", reasons)
	_, err := io.WriteString(w, text.String())
	return err
}
