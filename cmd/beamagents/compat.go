package main

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/beamagents/beamagents-go/pkg/compat"
)

func newCompat() *cobra.Command {
	return group(&cobra.Command{Use: "compat", Short: "Compare pipelines before an update"}, newCompatCheck())
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

Each difference is printed with what Dataflow and Flink would do, where that is known
from and how to avoid it. A summary goes to standard error. Exit status 1 if a difference
is unsafe: on either runner, or with --runner on that one.`,
		Example: `  $ beamagents compat check golden/pipeline/transforms.json - < golden/pipeline/transforms.json
  0 differences, 0 unsafe`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var runners []compat.Runner
			switch r := compat.Runner(runner); r {
			case "":
			case compat.Dataflow, compat.Flink:
				runners = append(runners, r)
			default:
				return fmt.Errorf("--runner %q is unknown: use dataflow or flink", runner)
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
			out := bufio.NewWriter(cmd.OutOrStdout())
			found, unsafe := compat.Check(pipelines[0], pipelines[1]), 0
			for _, f := range found {
				if f.Severity = f.Rule.Severity(runners...); f.Severity == compat.Unsafe {
					unsafe++
				}
				fmt.Fprintf(out, "%s\n\n", f)
			}
			if err := out.Flush(); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "%d %s, %d unsafe\n", len(found), plural(len(found), "difference"), unsafe); err != nil {
				return err
			}
			if unsafe > 0 {
				return &dataError{}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&runner, "runner", "", "the runner to judge by: dataflow or flink; both by default")
	return cmd
}

// readFingerprint reads the fingerprint in the file of that name. A file that holds none
// is a wrong call, as one that is not there: nothing was compared.
func readFingerprint(cmd *cobra.Command, name string) (compat.Fingerprint, error) {
	in, err := openInput(cmd, []string{name})
	if err != nil {
		return compat.Fingerprint{}, err
	}
	defer func() { _ = in.Close() }() // opened to read
	return compat.Read(in)
}
