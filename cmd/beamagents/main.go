// Beamagents is the command line of the library: it reads and writes what pipelines
// exchange, without a pipeline. It links no Beam and reaches no network.
//
// # Behaviour
//
// A command reads FILE, or standard input without one or for "-", and writes results to
// standard output and what went wrong to standard error. Exit status: 0; 1 when the
// data is bad; 2 when the call is wrong, an unreadable file included.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is main with everything that it touches passed in, and the exit status returned.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	var bad *dataError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &bad):
		if text := strings.TrimSpace(err.Error()); text != "" {
			fmt.Fprintln(stderr, "beamagents:", text)
		}
		return 1
	default:
		fmt.Fprintln(stderr, "beamagents:", err)
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

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "beamagents",
		Short:         "Read and write what durable agents on Beam exchange",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(newDecode(), newEncode(), newTypes(), newDeadletter(), newIntent(), newEvents(), newVersion())
	return root
}

// openInput returns the FILE argument of a command, or standard input.
func openInput(cmd *cobra.Command, args []string) (io.ReadCloser, error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(fmt.Errorf("%s is a folder", args[0]), f.Close())
	}
	return f, nil
}
