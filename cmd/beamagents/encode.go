package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/beamagents/beamagents-go/internal/messagejson"
)

func newEncode() *cobra.Command {
	var typeName string
	var delimited, keepGoing bool
	cmd := &cobra.Command{
		Use:   "encode --type TYPE [--delimited] [FILE]",
		Short: "Write JSON as encoded messages",
		Long: `Write JSON as encoded messages: the inverse of beamagents decode. The input is one
document, or with --delimited one on each line; empty lines are passed over. The readable
form is taken, too, which the files of transforms.WriteFolder have: the member key is an
entity_key that is text, and a JSON object or array may stand for bytes and for the text of
args_json and detail. The bytes are the deterministic encoding, "@unknown" appended, with --delimited behind their
length as a varint.

A bad document is reported with its line.`,
		Example: `  $ echo '{"intent_id":"i","seq":7,"@unknown":"a01f2a"}' | beamagents encode --type ToolIntent | od -An -tx1
   0a 01 69 18 07 a0 1f 2a`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mt, err := messageType(typeName)
			if err != nil {
				return err
			}
			return convert(cmd, args, keepGoing, func(c *conversion, in io.Reader) error {
				return documents(in, delimited, func(line int, text []byte) error {
					b, err := encodeJSON(text, mt)
					if bad, ok := errors.AsType[*messagejson.Error](err); ok {
						line += bytes.Count(text[:min(int(bad.Offset), len(text))], []byte("\n"))
						return c.fault("line %d: %w", line, err)
					} else if err != nil {
						return err
					}
					return writeFrame(c.out, b, delimited)
				})
			})
		},
	}
	typeFlag(cmd, &typeName)
	addConversionFlags(cmd, &delimited, &keepGoing)
	cmd.Flags().Lookup("delimited").Usage = "one document on each line; each message is written behind its length as a varint"
	return cmd
}

// encodeJSON is the deterministic encoding of the message that text holds.
func encodeJSON(text []byte, mt protoreflect.MessageType) ([]byte, error) {
	m := mt.New()
	if err := messagejson.ReadReadable(text, m); err != nil {
		return nil, err
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Descriptor().FullName(), err)
	}
	return b, nil
}

// documents calls f with each document and the number of its first line, from 1.
func documents(in io.Reader, lines bool, f func(line int, text []byte) error) error {
	if !lines {
		text, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		return f(1, text)
	}
	r := bufio.NewReaderSize(in, 1<<16)
	for line, last := 1, false; !last; line++ {
		text, err := r.ReadBytes('\n')
		if last = errors.Is(err, io.EOF); err != nil && !last {
			return err
		}
		// A fault behind a line break would be reported on the next line.
		if document := bytes.TrimRight(text, " \t\r\n"); len(document) > 0 {
			if err := f(line, document); err != nil {
				return err
			}
		}
	}
	return nil
}
