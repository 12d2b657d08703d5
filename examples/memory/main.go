// Memory is a support desk that remembers its customers. It reads envelopes with events of
// customers from a file. For each customer it keeps a bounded memory of topics and a versioned
// record, whose shape has changed, and clears both when the customer stays away.
//
//	go run ./examples/memory --input FILE --out DIR [--runner prism|agents-flink] [--fingerprint FILE]
//
// At the end it prints a table of the customers. Exit status: 0 if the pipeline ran, with or
// without dead letters, or if the fingerprint was written; 1 if the pipeline failed; 2 for a
// wrong flag, a missing file or an unwritable folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners"
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
	flag.StringVar(&o.input, "input", "", "file of envelopes with events, one a line")
	flag.StringVar(&o.out, "out", "", "folder for the outputs, created if need be")
	flag.CommandLine.Init("memory", flag.ContinueOnError) // otherwise a wrong flag prints the usage, too
	flag.CommandLine.SetOutput(io.Discard)
	switch err := flag.CommandLine.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(os.Stderr, "usage: memory --input FILE --out DIR [--runner prism|agents-flink] [--fingerprint FILE]")
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(2)
	}
	log.LogLevel = "warn" // at "info" the embedded runner reports every step it takes
	beam.Init()           // does not return in a worker, which gets none of our flags
	o.runner = *runners.Runner
	if err := o.validate(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(2)
	}
	slog.SetDefault(slog.New(quietEnd{slog.Default().Handler()}))
	p, s := beam.NewPipelineWithRoot()
	build(s, o)
	graph.WriteIfAsked(p)
	if err := prepare(o.out, o.info); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(2)
	}
	if err := run(context.Background(), p, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

// validate fills in the defaults, and checks what would otherwise fail only in a worker.
func (o *options) validate(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("unexpected argument %q", args[0])
	case o.runner == "direct":
		return errors.New("--runner direct: keyed state needs prism, the embedded runner, or a portable one; the legacy direct runner has none")
	case o.runner != "" && o.runner != "prism" && o.runner != flink.Name:
		return fmt.Errorf("--runner %q is not in this binary: use prism or agents-flink", o.runner)
	case o.input == "":
		return errors.New("--input is missing: name a file of events")
	case o.out == "":
		return errors.New("--out is missing: name a folder for the outputs")
	}
	if o.runner == "" {
		o.runner = "prism"
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
	if _, err := beam.Run(ctx, o.runner, p); err != nil {
		return err
	}
	return printTable(stdout, o.out)
}

// build builds the pipeline.
func build(s beam.Scope, o options) {
	read := transforms.ReadEnvelopes(s, transforms.ReadParams{}, o.input)
	keyed := transforms.KeyByEntity(s, read.Envelopes)
	// The DoFn is passed by pointer, because its cells keep the handles of the current call.
	summaries, refused := beam.ParDo2(s.Scope("Desk"), newDeskFn(), keyed)

	transforms.WriteFolder(s, o.out, map[string]beam.PCollection{
		customersFile:   summaries,
		deadLettersFile: beam.Flatten(s, read.Errors, refused),
	})
}
