// Package graph takes the fingerprint of a Beam pipeline, for package compat to compare.
//
//	p, s := beam.NewPipelineWithRoot()
//	build(s)
//	graph.WriteIfAsked(p) // beamagents compat check OLD NEW reads what it writes
//	_, err := beam.Run(ctx, "dataflow", p)
//
// # Behaviour
//
// [Fingerprint] translates the pipeline as the SDK does for a runner and keeps what a
// runner compares on an update. The fingerprint is the same in every process that builds
// the pipeline the same way: the ids of coders and windowing strategies, the order of
// maps and the values inside of DoFns, such as paths and keys, are not in it.
//
// Importing the package adds the flag --fingerprint FILE to those of package flag, and
// [WriteIfAsked] obeys it, whatever reads the program's arguments. No runner is needed,
// and none runs.
//
// A runner that says so with [RegisterPlatform] adds the platform of the job to what
// WriteIfAsked writes: environment, parallelism, chaining. pkg/runners/flink does, for
// programs that parse their flags with package flag and are called with
// --runner agents-flink and the other flags of the job.
//
// # Limits
//
// A program that has a flag of its own with that name panics as it starts, as for every
// flag that is defined twice.
//
// Types and functions must be registered, as for any run that is not in one process.
//
// # Differences
//
// The proto that the SDK hands to a runner has the ids, and bytes that vary from run to
// run: maps inside of payloads are written in random order. Compare fingerprints.
package graph

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"

	"github.com/beamagents/beamagents-go/pkg/compat"
)

var file fileValue

func init() {
	flag.Var(&file, "fingerprint", "write the fingerprint of the pipeline to this file (- for standard output) and exit, without running it")
}

// fileValue is the value of --fingerprint, and whether the flag was given.
type fileValue struct {
	name  string
	given bool
}

func (v *fileValue) String() string { return v.name }

// Set also remembers a value that it refuses: a program that goes on after the error
// must not run its job.
func (v *fileValue) Set(name string) error {
	v.name, v.given = name, true
	if !namesFile(name) {
		v.name = ""
		return errNoFile
	}
	return nil
}

// namesFile tells a FILE from another flag: then FILE was forgotten.
func namesFile(arg string) bool {
	return arg == "-" || arg != "" && arg[0] != '-'
}

var errNoFile = errors.New("no file is named: write --fingerprint FILE, or --fingerprint - for standard output")

// WriteIfAsked does nothing unless the program was called with --fingerprint FILE. Then
// it writes the fingerprint of p to FILE, to standard output for "-", and ends the
// program: with status 0, or with 2 and what went wrong on standard error. Call it when
// p is complete, before p runs.
//
// The flag is found wherever it stands before an argument "--", behind other arguments,
// too, and whether the program parses its flags with package flag, with another package
// or not at all. Without FILE, with an empty one, or with another flag in its place, the
// program ends with status 2: a file -x is written ./-x. No
// spelling of the flag lets the job run. The flag is in flag.CommandLine; a parser that
// refuses flags that it does not know must be told of it (docs/updates.md).
func WriteIfAsked(p *beam.Pipeline) {
	name, given := file.name, file.given
	if !given {
		name, given = fileArgument(os.Args[1:])
	}
	if !given {
		return
	}
	if err := write(name, os.Stdout, p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

// fileArgument finds --fingerprint in arguments whose flags it does not know. Where the
// flag is given without a value, the name is empty.
func fileArgument(args []string) (name string, given bool) {
	for i, arg := range args {
		if arg == "--" {
			return "", false
		}
		flagName, value, hasValue := strings.Cut(arg, "=")
		if flagName != "-fingerprint" && flagName != "--fingerprint" {
			continue
		}
		if !hasValue && i+1 < len(args) {
			value = args[i+1]
		}
		if !namesFile(value) {
			value = ""
		}
		return value, true
	}
	return "", false
}

// platforms are what runners say of the platform of a job, by the runners' names.
var platforms = map[string]func() (compat.Platform, error){}

// RegisterPlatform lets a runner say what its flags make of the platform of a job, for the
// fingerprints of programs that are called with --runner of that name. A runner calls it
// in an init function.
func RegisterPlatform(runner string, describe func() (compat.Platform, error)) {
	platforms[runner] = describe
}

// platform is what the runner says that the program is called with, nil for one that
// says nothing.
func platform() (*compat.Platform, error) {
	runner := flag.Lookup("runner")
	if runner == nil || platforms[runner.Value.String()] == nil {
		return nil, nil //nolint:nilnil // most runners say nothing
	}
	p, err := platforms[runner.Value.String()]()
	if err != nil {
		return nil, fmt.Errorf("graph: the platform of --runner %s: %w", runner.Value, err)
	}
	return &p, nil
}

// write writes the fingerprint of p to the file of that name, or to stdout.
func write(name string, stdout io.Writer, p *beam.Pipeline) error {
	if name == "" {
		return fmt.Errorf("graph: %w", errNoFile)
	}
	f, err := Fingerprint(p)
	if err != nil {
		return err
	}
	if f.Platform, err = platform(); err != nil {
		return err
	}
	if name == "-" {
		return f.Write(stdout)
	}
	var text bytes.Buffer
	if err := f.Write(&text); err != nil {
		return err // and a file of before is as it was
	}
	if err := os.WriteFile(name, text.Bytes(), 0o666); err != nil {
		return fmt.Errorf("graph: %w", err)
	}
	return nil
}

// Fingerprint returns the fingerprint of p. Errors are those of the SDK for a pipeline
// that it cannot translate: one that is empty, or has types that are not registered.
func Fingerprint(p *beam.Pipeline) (f compat.Fingerprint, err error) {
	defer func() {
		if r := recover(); r != nil { // the SDK panics on some of what it cannot translate
			f, err = compat.Fingerprint{}, fmt.Errorf("graph: cannot translate the pipeline: %v", r)
		}
	}()
	edges, _, err := p.Build()
	if err != nil {
		return compat.Fingerprint{}, fmt.Errorf("graph: %w", err)
	}
	// Where the workers run is no part of a fingerprint.
	pipeline, err := graphx.Marshal(edges, &graphx.Options{Environment: &pipepb.Environment{}})
	if err != nil {
		return compat.Fingerprint{}, fmt.Errorf("graph: %w", err)
	}
	return fingerprint(pipeline)
}

func fingerprint(pipeline *pipepb.Pipeline) (compat.Fingerprint, error) {
	r := newReader(pipeline.GetComponents())
	f := compat.Fingerprint{Format: compat.Format}
	for id, t := range pipeline.GetComponents().GetTransforms() {
		if len(t.GetSubtransforms()) > 0 && t.GetSpec().GetUrn() == "" {
			continue // a scope: its name is in those of its parts
		}
		transform, err := r.transform(id, t)
		if err != nil {
			return compat.Fingerprint{}, fmt.Errorf("graph: %s: %w", t.GetUniqueName(), err)
		}
		f.Transforms = append(f.Transforms, transform)
	}
	slices.SortFunc(f.Transforms, byName)
	return f, f.Validate()
}
