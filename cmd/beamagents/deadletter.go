package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/messagejson"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func newDeadletter() *cobra.Command {
	return group(&cobra.Command{Use: "deadletter", Short: "Read dead letters"}, newDeadletterShow())
}

func newDeadletterShow() *cobra.Command {
	var delimited, keepGoing bool
	cmd := &cobra.Command{
		Use:   "show [--delimited] [FILE]",
		Short: "Print dead letters as JSON",
		Long: `Print dead letters as JSON, each on one line. The input is one ActivationErrorRecord, or
one AgentEnvelope that holds it, or with --delimited any number of either. It may also be
JSON with one of them on each line, as the file dead_letters.jsonl of
transforms.WriteFolder has them.

A line is what beamagents decode prints of the record, with detail as the object that it
is, and with the input decoded into a member of its own where that can be done: an
AgentEnvelope, a ToolIntent, or the JSON of an event. A detail that another program wrote
as plain text stays a text.`,
		Example: `  $ beamagents deadletter show golden/v1/agent_envelope_dead_letter_python.binpb
  {"entity_key":"aw==","reason":"activation_error","detail":"RuntimeError('boom') failed_at_step=2 after=INTENT_EMITTED","event_time_ms":"1700000000000"}`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return convert(cmd, args, keepGoing, func(c *conversion, in io.Reader) error {
				return eachMessage(c, in, delimited, readJSONRecord, readRecord, func(rec *pb.ActivationErrorRecord) error {
					_, err := c.out.Write(append(appendRecord(nil, rec), '\n'))
					return err
				})
			})
		},
	}
	addConversionFlags(cmd, &delimited, &keepGoing)
	return cmd
}

// readJSONRecord reads a record, or the envelope around a record, from readable JSON. If text is
// neither, the error is that of the message of which more was read.
func readJSONRecord(text []byte) (*pb.ActivationErrorRecord, error) {
	rec, env := new(pb.ActivationErrorRecord), new(pb.AgentEnvelope)
	err := messagejson.ReadReadable(text, rec.ProtoReflect())
	switch {
	case err == nil && rec.GetReason() == "":
		return nil, errors.New("ActivationErrorRecord.reason is empty")
	case err == nil:
		return rec, nil
	}
	envErr := messagejson.ReadReadable(text, env.ProtoReflect())
	if envErr == nil && env.GetPayload() != nil {
		return deadletter.Unwrap(env)
	}
	ofRecord, _ := errors.AsType[*messagejson.Error](err)
	if ofEnvelope, ok := errors.AsType[*messagejson.Error](envErr); ok && ofEnvelope.Offset > ofRecord.Offset {
		return nil, envErr
	}
	return nil, err
}

// readRecord reads a record, or the envelope around a record. If frame has no record, it returns
// the offset of the fault and what is wrong.
func readRecord(frame []byte) (rec *pb.ActivationErrorRecord, offset int, fault string) {
	event, isRecord := scanRecord(frame)
	rec = new(pb.ActivationErrorRecord)
	if isRecord {
		if proto.Unmarshal(frame, rec) != nil {
			offset, fault = deadletter.Locate(frame, rec)
			return nil, offset, fault
		}
		if rec.GetReason() == "" {
			return nil, 0, "ActivationErrorRecord.reason is empty"
		}
		return rec, 0, ""
	}
	env := new(pb.AgentEnvelope)
	if proto.Unmarshal(frame, env) != nil {
		offset, fault = deadletter.Locate(frame, env)
		return nil, offset, fault
	}
	if inner := env.GetExternalEvent(); proto.Unmarshal(inner, rec) != nil {
		offset, fault = deadletter.Locate(inner, rec)
		return nil, event + offset, "AgentEnvelope.external_event: " + fault
	}
	rec, err := deadletter.Unwrap(env)
	if err != nil {
		if _, some := env.GetPayload().(*pb.AgentEnvelope_ExternalEvent); !some {
			event = 0
		}
		return nil, event, err.Error()
	}
	return rec, 0, ""
}

// scanRecord reports whether frame, which may be malformed, is a record or an envelope. In a
// record, field 2 is the reason, a text; in an envelope it is the time, a varint. event is the
// offset of the content of external_event, or 0 if there is none.
func scanRecord(frame []byte) (event int, isRecord bool) {
	for off := 0; off < len(frame); {
		num, typ, n := protowire.ConsumeTag(frame[off:])
		if n < 0 {
			break
		}
		if num == 2 && typ == protowire.BytesType { // the content may be cut short
			return 0, true
		}
		value := off + n
		if n = protowire.ConsumeFieldValue(num, typ, frame[value:]); n < 0 {
			break
		}
		off = value + n
		if num == 3 && typ == protowire.BytesType { // the last occurrence counts
			content, _ := protowire.ConsumeBytes(frame[value:])
			event = off - len(content)
		}
	}
	return event, false
}

// appendRecord appends rec as JSON, with its detail and its input decoded.
func appendRecord(b []byte, rec *pb.ActivationErrorRecord) []byte {
	detail := jsontext.Value(rec.GetDetail())
	if !detail.IsValid() || detail.Kind() != '{' || detail.Compact() != nil {
		return messagejson.Append(b, rec.ProtoReflect())
	}
	newer := new(pb.ActivationErrorRecord)
	newer.ProtoReflect().SetUnknown(rec.ProtoReflect().GetUnknown())
	objects := [][]byte{
		messagejson.Append(nil, (&pb.ActivationErrorRecord{EntityKey: rec.GetEntityKey(), Reason: rec.GetReason()}).ProtoReflect()),
		fmt.Appendf(nil, `{"detail":%s}`, detail),
		messagejson.Append(nil, (&pb.ActivationErrorRecord{EventTimeMs: rec.GetEventTimeMs()}).ProtoReflect()),
	}
	if input := decodedInput(rec); input != nil {
		objects = append(objects, fmt.Appendf(nil, `{"input":%s}`, input))
	}
	objects = append(objects, messagejson.Append(nil, newer.ProtoReflect()))
	b = append(b, '{')
	for i, object := range slices.DeleteFunc(objects, func(o []byte) bool { return len(o) == len("{}") }) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, object[1:len(object)-1]...)
	}
	return append(b, '}')
}

// decodedInput returns the input of a dead letter as JSON. It returns nil if the input cannot be
// decoded: malformed bytes, or the detail of another program.
func decodedInput(rec *pb.ActivationErrorRecord) []byte {
	letter, err := deadletter.Read(rec)
	if err != nil {
		return nil
	}
	var m proto.Message
	switch letter.InputKind {
	case deadletter.EnvelopeInput:
		m = new(pb.AgentEnvelope)
	case deadletter.BytesInput:
		if letter.Reason != deadletter.MalformedEnvelope {
			return nil // such as bytes of an intent, which could be decoded as another message
		}
		m = new(pb.AgentEnvelope)
	case deadletter.IntentInput:
		m = new(pb.ToolIntent)
	case deadletter.EventInput:
		event := jsontext.Value(letter.Input)
		if !event.IsValid() || event.Compact() != nil {
			return nil
		}
		return event
	default:
		return nil
	}
	if proto.Unmarshal(letter.Input, m) != nil {
		return nil
	}
	return messagejson.Append(nil, m.ProtoReflect())
}
