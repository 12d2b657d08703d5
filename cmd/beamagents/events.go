package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/beamagents/beamagents-go/internal/terminaltext"
	"github.com/beamagents/beamagents-go/pkg/events"
)

const (
	// maxLineBytes bounds a line of events, 64 MiB. A longer line is refused and skipped without
	// keeping it, so that memory stays bounded for every input.
	maxLineBytes = 64 << 20
	// memoryBytes is the memory limit above which garbage is collected more often. A line needs
	// less: its text twice while it is read, and then once, together with its columns and the
	// order of its members.
	memoryBytes = 4 * maxLineBytes
)

func newEvents() *cobra.Command {
	return group(
		&cobra.Command{Use: "events", Short: "Read the events of coding agents (agent event protocol 1)"},
		newEventsProject(), newEventsCheck(), newEventsTypes(),
	)
}

const eventLines = `FILE, or standard input, holds one envelope a line. An empty line is a line, too, and
refused; so is one of more than 64 MiB. Input of any size is read in flat memory.`

func newEventsProject() *cobra.Command {
	return &cobra.Command{
		Use:   "project [FILE]",
		Short: "Print the flat view of each event",
		Long: `Print the flat view of each event: for each line one line, a JSON object of 17 columns,
null where absent. A line that is refused gives {"error":"..."} and exit status 1.

` + eventLines,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			refused, lines, err := eachEvent(cmd, args, func(out *bufio.Writer, _ int, env events.Envelope, err error) error {
				if err != nil {
					_, err = fmt.Fprintf(out, `{"error":%s}`, jsonText(err.Error()))
				} else {
					err = env.WriteProjection(out)
				}
				if err != nil {
					return err
				}
				return out.WriteByte('\n')
			}, events.DecodeEnvelopeString)
			if err == nil && lines == 0 {
				err = noteEmptyInput(cmd)
			}
			return orRefused(refused, err)
		},
	}
}

func newEventsCheck() *cobra.Command {
	var payload bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Print which events are refused, and why",
		Long: `Print one line for each line that is refused: its number, from 1, and why. A summary goes
to standard error. Exit status 1 if any was refused.

` + eventLines,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			decode := events.DecodeEnvelopeString
			if payload {
				decode = decodeTyped
			}
			refused, lines, err := eachEvent(cmd, args, func(out *bufio.Writer, line int, _ events.Envelope, err error) error {
				if err == nil {
					return nil
				}
				_, err = fmt.Fprintf(out, "line %d: %s\n", line, terminaltext.Line(err.Error()))
				return err
			}, decode)
			if err == nil {
				_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%d %s, %d refused\n", lines, plural(lines, "line"), refused)
			}
			return orRefused(refused, err)
		},
	}
	cmd.Flags().BoolVar(&payload, "payload", false,
		"also check the payloads of the types in the catalogue; other types stay legal")
	return cmd
}

// decodeTyped decodes an event. It also refuses an event whose type is in the catalogue and whose
// payload does not match it.
func decodeTyped(line string) (events.Envelope, error) {
	env, err := events.DecodeEnvelopeString(line)
	if err != nil {
		return env, err
	}
	if _, known := events.Lookup(env.Type); known {
		_, err = events.FromEnvelope(env)
	}
	return env, err
}

func newEventsTypes() *cobra.Command {
	return &cobra.Command{
		Use:   "types",
		Short: "Print the types of the catalogue and their fields",
		Long: `Print the types of the catalogue in order, one a line: the name, then the fields of the
payload with their types. A field with a question mark may be absent.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := bufio.NewWriter(cmd.OutOrStdout())
			for _, name := range events.Types() {
				info, _ := events.Lookup(name)
				fields := make([]string, len(info.Fields))
				for i, f := range info.Fields {
					fields[i] = f.String()
				}
				fmt.Fprintf(out, "%-24s %s\n", name, strings.Join(fields, ", "))
			}
			return out.Flush()
		},
	}
}

func orRefused(refused int, err error) error {
	if err == nil && refused > 0 {
		return &dataError{}
	}
	return err
}

// eachEvent decodes each line of the input, and calls visit with the number of the line and the
// event or the error.
func eachEvent(
	cmd *cobra.Command, args []string,
	visit func(out *bufio.Writer, line int, env events.Envelope, err error) error,
	decode func(string) (events.Envelope, error),
) (refused, lines int, err error) {
	in, err := openInput(cmd, args)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = in.Close() }() // the file is only read
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), memoryBytes)))
	r := lineReader{r: bufio.NewReaderSize(liveReader{in, out}, 1<<16)}
	for {
		line, err := r.next()
		if errors.Is(err, io.EOF) {
			return refused, lines, out.Flush()
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return refused, lines, flush(out, err)
		}
		lines++
		var env events.Envelope
		if err == nil {
			env, err = decode(line)
		}
		if err != nil {
			refused++
		}
		if err := visit(out, lines, env, err); err != nil {
			return refused, lines, err
		}
	}
}

var errLongLine = fmt.Errorf("the line is longer than %d bytes", maxLineBytes)

// lineReader reads lines.
type lineReader struct{ r *bufio.Reader }

// next returns the next line without its end. For a line above the bound it returns errLongLine,
// and the next call returns the line after it. Text after the last line end is a line, unless it
// is empty.
func (l lineReader) next() (string, error) {
	// Keep the parts of a line that is longer than the reader's buffer until the line is
	// complete. A single growing buffer would need several times the memory of the line.
	var pieces [][]byte
	size := 0
	piece, err := l.r.ReadSlice('\n')
	for ; errors.Is(err, bufio.ErrBufferFull); piece, err = l.r.ReadSlice('\n') {
		if size += len(piece); size > maxLineBytes {
			pieces = nil
		} else {
			pieces = append(pieces, bytes.Clone(piece))
		}
	}
	if err != nil && (!errors.Is(err, io.EOF) || size+len(piece) == 0) {
		return "", err
	}
	piece = bytes.TrimSuffix(piece, []byte("\n"))
	if size += len(piece); size > maxLineBytes {
		return "", errLongLine
	}
	var line strings.Builder
	line.Grow(size)
	for _, p := range pieces {
		line.Write(p)
	}
	line.Write(piece)
	return line.String(), nil
}

// jsonText returns a text as a JSON string.
func jsonText(text string) string {
	v, _ := events.ValueOf(strings.ToValidUTF8(text, "\ufffd")) // fails only for invalid UTF-8
	return v.JSON()
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
