// Beamagents is the command line of the library: it reads and writes what pipelines
// exchange, without a pipeline. It links no Beam and reaches no network.
//
// # Behaviour
//
// A command reads FILE, or standard input without one or for "-", and writes results to
// standard output and what went wrong to standard error. Exit status: 0; 1 when the
// data is bad; 2 when the call is wrong, an unreadable file or output that cannot be
// written included. Without a command the program prints its help; a command that only
// has commands of its own, such as intent, is a wrong call without one of them.
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

// run is main with everything that it touches passed in, and the exit status returned.
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

// dataError ends the program with status 1: the call is right, what it works on is not.
// A nil err is for a command that has already reported each fault.
type dataError struct{ err error }

func (e *dataError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *dataError) Unwrap() error { return e.err }

// flush ends a command that has written to out and found err. What cannot be written is
// returned, too, but once, and in place of faults that were reported there.
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

// liveReader writes out what there is of the output before it reads more of the input,
// which may take a while: whoever follows the output is never behind.
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

// group makes cmd a command of which only the commands below it do something.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%[1]s needs a command; see %[1]s --help", cmd.CommandPath())
	}
	cmd.AddCommand(commands...)
	return cmd
}

// completeUsage has the two commands that cobra brings refuse a name that they do not
// know, as all others do.
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
					return fmt.Errorf("there is no command %q; beamagents --help lists them", strings.Join(args, " "))
				}
				found.InitDefaultHelpFlag()
				return found.Help()
			}
		}
	}
}

// checkHelp returns where the error of printing help will be: cobra passes none on. It
// refuses help for a command that does not exist.
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

// An input is what a command reads: the FILE argument, or standard input.
type input struct {
	io.ReadCloser
	some bool // whether there was a byte in what has been read
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.ReadCloser.Read(p)
	in.some = in.some || n > 0
	return n, err
}

// noteEmpty tells on standard error that the input was empty, which is more often a fault
// in front of the command than what was meant. It is for a command that has read all of
// its input and says nothing else there. It returns err, the command's own result, or why
// the note could not be written.
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
