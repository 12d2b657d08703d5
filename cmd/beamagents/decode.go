package main

import (
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/messagejson"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
)

func newDecode() *cobra.Command {
	var typeName string
	var delimited, keepGoing bool
	cmd := &cobra.Command{
		Use:   "decode --type TYPE [--delimited] [FILE]",
		Short: "Print encoded messages as JSON",
		Long: `Print encoded messages as JSON, each on one line. The input is one message, or with
--delimited any number of them, each behind its length as a varint.

The names are those of the schema, integers of 64 bits are text, bytes are base64, an
enum number without a name is a number. The unknown fields of a message are in its
member "@unknown", in hex with their tags. beamagents encode reads it all back.

A bad message is reported with its number and the offset of the fault in the input.`,
		Example: `  $ beamagents decode --type AgentEnvelope golden/v1/agent_envelope_export.binpb
  {"entity_key":"ZW50aXR5LTE=","event_time_ms":"1700000000500","export_request":{"request_id":"export-1"}}
  $ printf '\002\030\007\001\030\002\030\011' | beamagents decode --type ToolIntent --delimited --keep-going
  {"seq":"7"}
  beamagents: message 2 at byte 4: ToolIntent.seq is cut short
  {"seq":"9"}`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mt, err := messageType(typeName)
			if err != nil {
				return err
			}
			return convert(cmd, args, keepGoing, func(c *conversion, in io.Reader) error {
				var line []byte
				return eachFrame(in, delimited, func(p place, frame []byte) error {
					m := mt.New()
					if proto.Unmarshal(frame, m.Interface()) != nil {
						offset, fault := deadletter.Locate(frame, m.Interface())
						return c.fault("%s: %s", p.at(offset), fault)
					}
					line = append(messagejson.Append(line[:0], m), '\n')
					_, err := c.out.Write(line)
					return err
				})
			})
		},
	}
	typeFlag(cmd, &typeName)
	addConversionFlags(cmd, &delimited, &keepGoing)
	return cmd
}
