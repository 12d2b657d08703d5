package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/beamagents/beamagents-go/internal/terminaltext"
)

// A conversion is one run of a command that turns messages into output. It has the output, and
// says whether the run continues after a bad message.
type conversion struct {
	cmd       *cobra.Command
	out       *bufio.Writer
	name      string // the name of the input, if there are several
	keepGoing bool
	bad       bool
}

func addConversionFlags(cmd *cobra.Command, delimited, keepGoing *bool) {
	cmd.Flags().BoolVar(delimited, "delimited", false, "any number of messages, each behind its length as a varint")
	cmd.Flags().BoolVar(keepGoing, "keep-going", false, "report a bad message and do the rest; the exit status is still 1")
}

// convert runs f on the input of cmd. It flushes the output in any case, and reports an empty
// input.
func convert(cmd *cobra.Command, args []string, keepGoing bool, f func(*conversion, io.Reader) error) (err error) {
	in, err := openInput(cmd, args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	c := &conversion{cmd: cmd, out: bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16), keepGoing: keepGoing}
	err = f(c, liveReader{in, c.out})
	if err == nil && c.bad {
		err = &dataError{} // each fault is reported already
	}
	return in.noteEmpty(cmd, flush(c.out, err))
}

// eachMessage calls f for each message of the input: of each line if the input is JSON, and
// otherwise of each frame. For a bad frame fromFrame returns the offset of the fault and what is
// wrong.
func eachMessage[M any](c *conversion, in io.Reader, delimited bool, fromJSON func(text []byte) (M, error),
	fromFrame func(frame []byte) (m M, offset int, fault string), f func(M) error,
) error {
	r := bufio.NewReaderSize(in, 1<<16)
	if !delimited {
		first, err := r.Peek(1)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if string(first) == "{" { // no message of the schema begins with it
			return documents(r, true, func(line int, text []byte) error {
				m, err := fromJSON(text)
				if err != nil {
					return c.fault("line %d: %w", line, err)
				}
				return f(m)
			})
		}
	}
	return eachFrame(r, delimited, func(p place, frame []byte) error {
		m, offset, fault := fromFrame(frame)
		if fault != "" {
			return c.fault("%s: %s", p.at(offset), fault)
		}
		return f(m)
	})
}

// fault handles a bad message: it ends the run, or reports the message and lets the run continue.
func (c *conversion) fault(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if c.name != "" {
		err = fmt.Errorf("%s: %w", c.name, err)
	}
	if !c.keepGoing {
		return &dataError{err}
	}
	c.bad = true
	if err := c.out.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.cmd.ErrOrStderr(), "beamagents:", terminaltext.Lines(err.Error()))
	return err
}
