package main

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/beamagents/beamagents-go/pkg/compat"
)

func newCompat() *cobra.Command {
	return group(&cobra.Command{Use: "compat", Short: "Compare pipelines before an update"}, newCompatCheck(), newCompatLint())
}

func newCompatCheck() *cobra.Command {
	var runner string
	cmd := &cobra.Command{
		Use:   "check OLD NEW",
		Short: "Print what an update from one pipeline to another would do",
		Long: `Print what an update of a running job would do. OLD is the fingerprint of the pipeline
that runs, NEW of the one that shall replace it; a pipeline binary that imports
pkg/compat/graph writes its own with --fingerprint FILE. One of the two may be -, for
standard input.

Each difference is printed with what each runner would do, where that is known from and
how to avoid it: dataflow, flink (Beam's Flink runner as the Beam SDK calls it) and
agents-flink (pkg/runners/flink). A summary goes to standard error. Exit status 1 if a
difference is unsafe: on one of the runners, or with --runner on that one.`,
		Example: `  $ beamagents compat check golden/pipeline/transforms.json - < golden/pipeline/transforms.json
  0 differences, 0 unsafe`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			runners, err := judges(runner, compat.Runners())
			if err != nil {
				return err
			}
			if args[0] == "-" && args[1] == "-" {
				return errors.New("only one of OLD and NEW can be standard input")
			}
			var pipelines [2]compat.Fingerprint
			for i, name := range args {
				var err error
				if pipelines[i], err = readFingerprint(cmd, name); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return printFindings(cmd, compat.Check(pipelines[0], pipelines[1]), runners, "difference")
		},
	}
	cmd.Flags().StringVar(&runner, "runner", "", "the runner to judge by: dataflow, flink or agents-flink; all by default")
	return cmd
}

func newCompatLint() *cobra.Command {
	var runner string
	cmd := &cobra.Command{
		Use:   "lint FILE",
		Short: "Print what a runner would accept and then break",
		Long: `Print what is wrong with a pipeline before any update: what a runner accepts and then
breaks as the job runs, or with the next update. FILE is its fingerprint, which a pipeline
binary that imports pkg/compat/graph writes with --fingerprint FILE; - is standard input.

Each problem is printed with what each runner does. A summary goes to standard error. Exit
status 1 if one is unsafe: on one of the runners, or with --runner on that one.`,
		Example: `  $ beamagents compat lint golden/pipeline/transforms.json
  0 problems, 0 unsafe`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			runners, err := judges(runner, append(compat.Runners(), compat.Prism))
			if err != nil {
				return err
			}
			pipeline, err := readFingerprint(cmd, args[0])
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return printFindings(cmd, compat.Lint(pipeline), runners, "problem")
		},
	}
	cmd.Flags().StringVar(&runner, "runner", "", "the runner to judge by: dataflow, flink, agents-flink or prism; all by default")
	return cmd
}

// judges returns the runner that --runner names, or none for all runners.
func judges(name string, known []compat.Runner) ([]compat.Runner, error) {
	if name == "" {
		return nil, nil
	}
	if r := compat.Runner(name); slices.Contains(known, r) {
		return []compat.Runner{r}, nil
	}
	names := make([]string, len(known))
	for i, r := range known {
		names[i] = string(r)
	}
	return nil, fmt.Errorf("--runner %q is unknown: use one of %s", name, strings.Join(names, ", "))
}

// printFindings prints the findings, and how many of them are unsafe on these runners.
func printFindings(cmd *cobra.Command, found []compat.Finding, runners []compat.Runner, noun string) error {
	out, unsafe := bufio.NewWriter(cmd.OutOrStdout()), 0
	for _, f := range found {
		if f.Severity = f.Rule.Severity(runners...); f.Severity == compat.Unsafe {
			unsafe++
		}
		fmt.Fprintf(out, "%s\n\n", f)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "%d %s, %d unsafe\n", len(found), plural(len(found), noun), unsafe); err != nil {
		return err
	}
	if unsafe > 0 {
		return &dataError{}
	}
	return nil
}

// readFingerprint reads the fingerprint in the file with that name. A file without a fingerprint
// is a wrong call, like a file that does not exist, because nothing was compared.
func readFingerprint(cmd *cobra.Command, name string) (compat.Fingerprint, error) {
	in, err := openInput(cmd, []string{name})
	if err != nil {
		return compat.Fingerprint{}, err
	}
	defer func() { _ = in.Close() }() // the file is only read
	return compat.Read(in)
}
