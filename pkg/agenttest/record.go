package agenttest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/activation"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// record is a step of a script: its input and its results.
type record struct {
	input
	label   string   // describes the input for people
	effects [][]byte // the encoded effects
	lines   []string // describe the effects for people
	after   cells    // the state of the key
}

func newRecord(in input, step activation.Step, after cells) (record, error) {
	r := record{input: in, label: in.label(), after: after, lines: effectLines(in.key, step)}
	var err error
	r.effects, err = encodeEffects(step)
	return r, err
}

// label describes an input.
func (in input) label() string {
	at := fmt.Sprintf("at %s for key %q", timeText(in.atMS), in.key)
	switch in.tag {
	case activation.DeadlineTag:
		return "the deadline " + at
	case activation.TTLTag:
		return "the TTL " + at
	case activation.WakeTag:
		return "deferred events " + at
	}
	env := new(pb.AgentEnvelope)
	what := "an envelope without a payload"
	if err := proto.Unmarshal(in.env, env); err != nil {
		return what
	}
	switch p := env.GetPayload().(type) {
	case *pb.AgentEnvelope_ExternalEvent:
		what = "the event " + short(string(p.ExternalEvent))
	case *pb.AgentEnvelope_ToolResult:
		what = fmt.Sprintf("the result %v", p.ToolResult.GetStatus())
	case *pb.AgentEnvelope_Approval_:
		what = "the denial by " + short(p.Approval.GetApprover())
		if p.Approval.GetApproved() {
			what = "the approval by " + short(p.Approval.GetApprover())
		}
	case *pb.AgentEnvelope_ExportRequest:
		what = "the request for the state"
	}
	return what + " " + at
}

// again runs the input of a record again and compares the effects.
func (r *record) again(at int, s *session, w *worker) error {
	step, err := s.take(w, r.input)
	if err != nil {
		return fmt.Errorf("%s fails its bundle: %w", r.name(at), err)
	}
	effects, err := encodeEffects(step)
	if err != nil {
		return err
	}
	if slices.EqualFunc(effects, r.effects, bytes.Equal) {
		return nil
	}
	return fmt.Errorf("the outputs of %s differ:\n%s", r.name(at), difference(r.lines, effectLines(r.key, step)))
}

// compareState compares the state of the key after the step.
func (r *record) compareState(at int, after cells) error {
	if after.equal(r.after) {
		return nil
	}
	return fmt.Errorf("the state after %s differs:\n%s", r.name(at), difference(stateLines(r.after), stateLines(after)))
}

func encodeEffects(step activation.Step) (all [][]byte, err error) {
	for _, e := range step.Effects {
		var b []byte
		if m := message(e); m == nil {
			b = e.Output
		} else if b, err = encode(m); err != nil {
			return nil, err
		}
		all = append(all, fmt.Appendf(nil, "%T %d %s", message(e), e.AtMS, b))
	}
	return all, nil
}

// message returns the message of an effect, or nil for an output.
func message(e activation.Effect) proto.Message {
	switch {
	case e.Intent != nil:
		return e.Intent
	case e.Trace != nil:
		return e.Trace
	case e.Snapshot != nil:
		return e.Snapshot
	case e.Error != nil:
		return e.Error
	}
	return nil
}

// effectLines describes all effects of a step in lines.
func effectLines(key string, step activation.Step) (lines []string) {
	for _, e := range step.Effects {
		lines = append(lines, effectLine(key, e))
		if m := message(e); m != nil {
			lines = append(lines, messageLines(m)...)
		} else {
			lines = append(lines, fmt.Sprintf("  %q", e.Output))
		}
	}
	return lines
}

// stateLines describes the state of a key in lines.
func stateLines(c cells) (lines []string) {
	for _, cell := range []struct {
		name  string
		bytes [][]byte
		m     proto.Message
	}{
		{"control", [][]byte{c.control}, new(runtimepb.KeyControl)},
		{"memory", [][]byte{c.memory}, new(pb.MemoryBlob)},
		{"replay cache", [][]byte{c.cache}, new(pb.LlmCacheBlob)},
		{"deferred event", c.deferred, new(runtimepb.DeferredEvent)},
	} {
		for _, b := range cell.bytes {
			if b == nil {
				continue
			}
			lines = append(lines, cell.name+":")
			if err := proto.Unmarshal(b, cell.m); err != nil {
				lines = append(lines, fmt.Sprintf("  %x", b))
				continue
			}
			lines = append(lines, messageLines(cell.m)...)
		}
	}
	return lines
}

func messageLines(m proto.Message) (lines []string) {
	text := prototext.MarshalOptions{Multiline: true, Indent: "  ", EmitUnknown: true}.Format(m)
	for line := range strings.Lines(text) {
		lines = append(lines, "  "+strings.TrimSuffix(line, "\n"))
	}
	return lines
}

// difference shows where two texts differ, with a few lines of context.
func difference(first, again []string) string {
	const around, most = 2, 20
	same := 0
	for same < min(len(first), len(again)) && first[same] == again[same] {
		same++
	}
	end := 0
	for end < min(len(first), len(again))-same && first[len(first)-1-end] == again[len(again)-1-end] {
		end++
	}
	var out []string
	show := func(mark string, lines []string) {
		for i, line := range lines {
			if i == most {
				out = append(out, fmt.Sprintf("%s ... and %d more lines", mark, len(lines)-most))
				break
			}
			out = append(out, fmt.Sprintf("%s %.300s", mark, line))
		}
	}
	show(" ", first[max(0, same-around):same])
	show("-", first[same:len(first)-end])
	show("+", again[same:len(again)-end])
	show(" ", first[len(first)-end:min(len(first), len(first)-end+around)])
	return strings.Join(out, "\n")
}
