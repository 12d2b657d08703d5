// Sample writes the two files that the example ships with, sample.jsonl and sample.binpb: the
// same envelopes in both formats, mixed with the broken input that each format can hold. Run it
// in their folder. It writes the same files every time.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func main() {
	for name, content := range map[string]func() ([]byte, error){"sample.jsonl": jsonl, "sample.binpb": delimited} {
		b, err := content()
		if err == nil {
			err = os.WriteFile(name, b, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "sample:", err)
			os.Exit(1)
		}
	}
}

const start = 1700000000000 // ms; 14 November 2023

// envelopes are an afternoon of a shop's support agent: customers write, tools answer, people
// approve refunds, and an operator exports state.
func envelopes() []*pb.AgentEnvelope {
	var all []*pb.AgentEnvelope
	for i := range int64(300) {
		key := fmt.Sprintf("order-%d", 1000+i%37)
		intentID := uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s/%d", key, i)).String()
		env := &pb.AgentEnvelope{EntityKey: []byte(key), EventTimeMs: start + i*1700}
		switch {
		case i%25 == 24:
			env.Payload = &pb.AgentEnvelope_ExportRequest{ExportRequest: &pb.AgentEnvelope_StateExportRequest{
				RequestId: fmt.Sprintf("export-%d", i),
			}}
		case i%10 == 7:
			env.Payload = &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{
				IntentId: intentID, Approved: i%20 == 7, Approver: "refunds@example.test", DecidedAtMs: env.EventTimeMs - 40,
			}}
		case i%5 == 3:
			result := &pb.ToolResult{
				IntentId: intentID, EntityKey: env.EntityKey, Seq: i / 37, Status: pb.ToolResult_OK,
				Payload: fmt.Appendf(nil, `{"carrier":"parcel","eta_days":%d}`, i%6), CompletedAtMs: env.EventTimeMs - 5,
			}
			if i%15 == 3 {
				result.Status, result.Payload, result.ErrorMessage = pb.ToolResult_ERROR, nil, "carrier did not answer within 10 s"
			}
			env.Payload = &pb.AgentEnvelope_ToolResult{ToolResult: result}
		default:
			env.Payload = &pb.AgentEnvelope_ExternalEvent{ExternalEvent: fmt.Appendf(nil,
				`{"version":1,"type":"text_delta","payload":{"text":"Where is my parcel? (%d)"}}`, i)}
		}
		all = append(all, env)
	}
	return all
}

// interleave writes a poison element first, last and in the middle, after each n good elements.
func interleave(good, poison [][]byte, write func([]byte)) {
	gap := len(good)/(len(poison)-1) + 1
	for i, g := range good {
		if i%gap == 0 {
			write(poison[i/gap])
		}
		write(g)
	}
	write(poison[len(poison)-1])
}

func jsonl() ([]byte, error) {
	var good [][]byte
	for _, env := range envelopes() {
		b, err := protojson.Marshal(env)
		if err != nil {
			return nil, err
		}
		line, err := canonjson.Canonicalize(nil, b)
		if err != nil {
			return nil, err
		}
		good = append(good, line)
	}
	poison := [][]byte{
		[]byte(`{"entityKey":"b3JkZXItMTAwMQ==","eventTimeMs":"17000000`),
		[]byte(`{"entityKey":"b3JkZXItMTAwMQ==","eventTimeMs":"1700000000001"}`),
		[]byte(`{"version":1,"type":"agent_start","payload":{"prompt":"no envelope around me"}}`),
		[]byte(`{"entityKey":"b3JkZXItMTAwMg==","eventTimeMs":"-1","externalEvent":"e30="}`),
		[]byte(`{"entityKey":"b3JkZXItMTAwMg==","eventTimeMs":"253402300800000","externalEvent":"e30="}`),
		[]byte(`{"entityKey":"%%%","eventTimeMs":"1700000000002","externalEvent":"e30="}`),
		[]byte(`no JSON at all`),
	}
	var out bytes.Buffer
	interleave(good, poison, func(line []byte) { out.Write(append(line, '\n')) })
	return out.Bytes(), nil
}

func delimited() ([]byte, error) {
	var good [][]byte
	for _, env := range envelopes() {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(env)
		if err != nil {
			return nil, err
		}
		good = append(good, b)
	}
	head := good[0][:len("\x0a\x0aorder-1000")+7] // key and event time
	field := func(num protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), content)
	}
	poison := [][]byte{
		[]byte("no protobuf at all"),
		{},
		head,
		good[3][:len(good[3])-9],
		append(bytes.Clone(head), field(5, field(1, []byte{'i', 0xff}))...),
		append(bytes.Clone(head), field(7, []byte("a variant of next year"))...),
		bytes.Repeat([]byte{0x43}, 20000),
		protowire.AppendVarint(append(field(3, []byte("{}")), 0x10), 1<<62),
	}
	var out bytes.Buffer
	interleave(good, poison, func(b []byte) {
		out.Write(binary.AppendUvarint(nil, uint64(len(b))))
		out.Write(b)
	})
	out.Write([]byte{0x7f, 0x0a, 0x0a}) // the file ends in the middle of a message
	return out.Bytes(), nil
}
