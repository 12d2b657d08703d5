// Beamagents is the command line of the library. It reads and writes the data that pipelines
// exchange, without a pipeline: envelopes, intents, dead letters, traces, exported state, events
// of coding agents and fingerprints of pipelines. It links no Beam and does not use the network.
//
//	beamagents deadletter show FILE
//	beamagents decode --type TraceEvent FILE
//
// docs/cli.md shows each command with its output.
//
// # Behaviour
//
// A command reads FILE. Without FILE, or if it is "-", the command reads standard input. Results
// go to standard output, and errors to standard error.
//
// The exit status is 0 on success, 1 for bad data, and 2 for a wrong call, a file that cannot be
// read, or output that cannot be written. Without a command the program prints its help. A
// command that only has subcommands, such as intent, is a wrong call without one of them.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/beamagents/beamagents-go/internal/terminaltext"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is main with its inputs and outputs as parameters. It returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	completeUsage(root)
	helped := checkHelp(root, stdout)
	err := root.Execute()
	if err == nil {
		err = *helped
	}
	var bad *dataError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &bad):
		if text := strings.TrimSpace(err.Error()); text != "" {
			fmt.Fprintln(stderr, "beamagents:", terminaltext.Lines(text))
		}
		return 1
	default:
		fmt.Fprintln(stderr, "beamagents:", terminaltext.Lines(err.Error()))
		return 2
	}
}

// dataError ends the program with status 1: the call is right, but the data is bad. err is nil if
// the command has already reported each fault.
type dataError struct{ err error }

func (e *dataError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *dataError) Unwrap() error { return e.err }

// flush flushes out at the end of a command that has ended with err. If the output cannot be
// written, that error is returned instead of faults that were already reported.
func flush(out *bufio.Writer, err error) error {
	failed := out.Flush()
	var bad *dataError
	switch {
	case failed == nil || errors.Is(err, failed):
		return err
	case errors.As(err, &bad) && bad.err == nil:
		return failed
	}
	return errors.Join(err, failed)
}

// liveReader flushes the output before each read of the input, because a read may take long. So
// the reader of the output sees everything that is ready.
type liveReader struct {
	in  io.Reader
	out *bufio.Writer
}

func (r liveReader) Read(p []byte) (int, error) {
	if err := r.out.Flush(); err != nil {
		return 0, err
	}
	return r.in.Read(p)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "beamagents",
		Short:         "Read and write what durable agents on Beam exchange",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(newDecode(), newEncode(), newTypes(), newDeadletter(), newSnapshot(), newIntent(), newEvents(), newTrace(), newCompat(), newVersion())
	return root
}

// group makes cmd a command that only has subcommands.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%[1]s needs a command; see %[1]s --help", cmd.CommandPath())
	}
	cmd.AddCommand(commands...)
	return cmd
}

// completeUsage makes the two commands that cobra adds refuse unknown names, as all other
// commands do.
func completeUsage(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			group(cmd)
		case "help":
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				found, rest, err := cmd.Root().Find(args)
				if err != nil || len(rest) > 0 {
					return fmt.Errorf("there is no command %q: see beamagents --help", strings.Join(args, " "))
				}
				found.InitDefaultHelpFlag()
				return found.Help()
			}
		}
	}
}

// checkHelp makes help for an unknown command an error. It returns a pointer to the error of
// printing help, because cobra does not return that error.
func checkHelp(root *cobra.Command, stdout io.Writer) *error {
	var failed error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasSubCommands() {
			if failed = cmd.ValidateArgs(cmd.Flags().Args()); failed != nil {
				return
			}
		}
		var text bytes.Buffer
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(stdout)
		_, failed = stdout.Write(text.Bytes())
	})
	return &failed
}

// An input is the FILE argument or standard input.
type input struct {
	io.ReadCloser
	some bool // whether any byte was read
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.ReadCloser.Read(p)
	in.some = in.some || n > 0
	return n, err
}

// noteEmpty reports an empty input on standard error, because an empty input is more often a
// mistake before this command than intended. It is for a command that has read all of its input
// and reports nothing else there. It returns err, which is the result of the command, or the
// error of writing the report.
func (in *input) noteEmpty(cmd *cobra.Command, err error) error {
	if in.some || err != nil && err.Error() != "" {
		return err
	}
	if failed := noteEmptyInput(cmd); failed != nil {
		return failed
	}
	return err
}

func noteEmptyInput(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.ErrOrStderr(), "beamagents: the input is empty")
	return err
}

func openInput(cmd *cobra.Command, args []string) (*input, error) {
	if len(args) == 0 || args[0] == "-" {
		return &input{ReadCloser: io.NopCloser(cmd.InOrStdin())}, nil
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s is a folder", args[0]), f.Close())
	}
	return &input{ReadCloser: f}, nil
}
