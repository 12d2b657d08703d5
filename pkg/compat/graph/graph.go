// Package graph takes the fingerprint of a Beam pipeline, which package compat compares with
// another one.
//
//	p, s := beam.NewPipelineWithRoot()
//	build(s)
//	graph.WriteIfAsked(p) // beamagents compat check OLD NEW reads what it writes
//	_, err := beam.Run(ctx, "dataflow", p)
//
// # Behaviour
//
// [Fingerprint] translates the pipeline as the SDK does for a runner, and keeps what a runner
// compares on an update. Every process that builds the pipeline in the same way gets the same
// fingerprint. It does not contain what varies: the ids of coders and windowing strategies, the
// order of maps, and the values in DoFns, such as paths and keys.
//
// Importing the package adds the flag --fingerprint FILE to package flag. If the program is called
// with that flag, [WriteIfAsked] writes the fingerprint and ends the program, so the job does not
// run. Otherwise it does nothing. It finds the flag whatever package parses the program's
// arguments. It needs no runner and starts none.
//
// A runner can add the platform of the job (environment, parallelism, chaining) to the
// fingerprint, with [RegisterPlatform]. pkg/runners/flink does so for programs that parse their
// flags with package flag and are called with --runner agents-flink and the other flags of the
// job.
//
// # Limits
//
// A program that defines its own flag --fingerprint panics when it starts, as for every flag that
// is defined twice.
//
// Types and functions must be registered, as for every job that runs in several processes.
//
// # Differences from the pipeline proto
//
// Do not compare the pipeline protos that the SDK sends to a runner. They contain the ids, and
// maps in payloads are encoded in random order. Compare fingerprints.
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

// fileValue is the value of --fingerprint and whether the flag was given.
type fileValue struct {
	name  string
	given bool
}

func (v *fileValue) String() string { return v.name }

// Set records that the flag was given even if it refuses the value: a program that goes on after
// the error must not run its job.
func (v *fileValue) Set(name string) error {
	v.name, v.given = name, true
	if !namesFile(name) {
		v.name = ""
		return errNoFile
	}
	return nil
}

// namesFile reports whether arg is a file and not another flag, in which case the file was
// forgotten.
func namesFile(arg string) bool {
	return arg == "-" || arg != "" && arg[0] != '-'
}

var errNoFile = errors.New("no file is named: write --fingerprint FILE, or --fingerprint - for standard output")

// WriteIfAsked does nothing unless the program was called with --fingerprint FILE. In that case
// it writes the fingerprint of p to FILE, or to standard output for "-", and ends the program:
// with status 0, or with status 2 and an error on standard error. Call it when p is complete and
// before p runs.
//
// It finds the flag anywhere before an argument "--", also after other arguments, and whether or
// not the program parses its flags with package flag. If FILE is missing, empty or another flag,
// the program ends with status 2; write ./-x for a file -x. The job never runs if the flag is
// given in any form. The flag is in flag.CommandLine; a parser that refuses unknown flags must be
// told of it (docs/updates.md).
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

// fileArgument finds --fingerprint among arguments without knowing the other flags. If the flag
// has no value, the name is empty.
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

// platforms are the functions of RegisterPlatform, by the names of the runners.
var platforms = map[string]func() (compat.Platform, error){}

// RegisterPlatform registers the function with which a runner describes the platform of a job
// from its flags. It is called for the fingerprint of a program that is called with --runner of
// that name. A runner registers it in an init function.
func RegisterPlatform(runner string, describe func() (compat.Platform, error)) {
	platforms[runner] = describe
}

// platform returns the platform for the runner that the program is called with, or nil if that
// runner has registered none.
func platform() (*compat.Platform, error) {
	runner := flag.Lookup("runner")
	if runner == nil || platforms[runner.Value.String()] == nil {
		return nil, nil //nolint:nilnil // most runners register no platform
	}
	p, err := platforms[runner.Value.String()]()
	if err != nil {
		return nil, fmt.Errorf("graph: the platform of --runner %s: %w", runner.Value, err)
	}
	return &p, nil
}

// write writes the fingerprint of p to the file with that name, or to stdout.
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
		return err // an existing file is unchanged
	}
	if err := os.WriteFile(name, text.Bytes(), 0o666); err != nil {
		return fmt.Errorf("graph: %w", err)
	}
	return nil
}

// Fingerprint returns the fingerprint of p. Its errors are those of the SDK for a pipeline that
// cannot be translated: it is empty, or has unregistered types.
func Fingerprint(p *beam.Pipeline) (f compat.Fingerprint, err error) {
	defer func() {
		if r := recover(); r != nil { // the SDK panics for some pipelines that it cannot translate
			f, err = compat.Fingerprint{}, fmt.Errorf("graph: cannot translate the pipeline: %v", r)
		}
	}()
	edges, _, err := p.Build()
	if err != nil {
		return compat.Fingerprint{}, fmt.Errorf("graph: %w", err)
	}
	// The environment of the workers is not part of a fingerprint.
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
			continue // a scope: the names of its parts contain its name
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
