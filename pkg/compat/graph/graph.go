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
// Importing the package adds the flag --fingerprint FILE to the program's flags, and
// [WriteIfAsked] obeys it. No runner is needed, and none runs.
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

var file = flag.String("fingerprint", "", "write the fingerprint of the pipeline to this file (- for standard output) and exit, without running it")

// WriteIfAsked does nothing unless the program was called with --fingerprint FILE. Then
// it writes the fingerprint of p to FILE, to standard output for "-", and ends the
// program: with status 0, or with 2 and what went wrong on standard error. Call it when
// p is complete, before p runs.
//
// A program that never calls flag.Parse, or reads its flags with another package, need
// not do so for this: where the flag is among the arguments, WriteIfAsked parses them.
func WriteIfAsked(p *beam.Pipeline) {
	if !flag.Parsed() && slices.ContainsFunc(os.Args[1:], isFlag) {
		flag.Parse() // exits with 2 for a flag that is not defined
	}
	if *file == "" {
		return
	}
	if err := write(*file, os.Stdout, p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

// isFlag reports whether an argument is --fingerprint, with or without its value.
func isFlag(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return name == "-fingerprint" || name == "--fingerprint"
}

// write writes the fingerprint of p to the file of that name, or to stdout.
func write(name string, stdout io.Writer, p *beam.Pipeline) error {
	f, err := Fingerprint(p)
	if err != nil {
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
	r := newReader(pipeline.GetComponents())
	f.Format = compat.Format
	for _, t := range pipeline.GetComponents().GetTransforms() {
		if len(t.GetSubtransforms()) > 0 && t.GetSpec().GetUrn() == "" {
			continue // a scope: its name is in those of its parts
		}
		transform, err := r.transform(t)
		if err != nil {
			return compat.Fingerprint{}, fmt.Errorf("graph: %s: %w", t.GetUniqueName(), err)
		}
		f.Transforms = append(f.Transforms, transform)
	}
	slices.SortFunc(f.Transforms, byName)
	return f, f.Validate()
}
