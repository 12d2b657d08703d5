package deadletter

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func field(num protowire.Number, content ...byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), content)
}

func TestExplain(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  []byte
		want string
	}{
		"a tag that is cut short":   {[]byte{0x80}, "byte 0: AgentEnvelope: the tag of a field is cut short"},
		"field number 0":            {[]byte{0x10, 1, 0x00}, "byte 2: AgentEnvelope: the tag of a field is not valid"},
		"a field number too large":  {[]byte{0xe8, 0xcb, 0xcb, 0xcb, 0x30, 0}, "byte 0: AgentEnvelope: the tag of a field is not valid"},
		"a value that is cut short": {[]byte{0x0a, 9, 'k'}, "byte 0: AgentEnvelope.entity_key is cut short"},
		"a number too long":         {append([]byte{0x10}, []byte(strings.Repeat("\xff", 11))...), "byte 0: AgentEnvelope.event_time_ms is not valid"},
		"an unknown field":          {[]byte{0x7a, 5}, "byte 0: field 15 of AgentEnvelope is cut short"},
		"an open group":             {[]byte{0x43}, "byte 0: field 8 of AgentEnvelope is cut short"},
		"text in a message":         {field(4, field(1, 'i', 0xff)...), "byte 4: AgentEnvelope.tool_result.intent_id is not UTF-8"},
		"a message in a message":    {append(field(1, 'k'), field(5, 0x0a, 7)...), "byte 5: AgentEnvelope.approval.intent_id is cut short"},
	} {
		if got := Explain(tc.raw, &pb.AgentEnvelope{}); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	attribute := field(8, append(field(1, 'a'), field(2, 0xff)...)...)
	const want = "byte 7: TraceEvent.attributes.value is not UTF-8"
	if got := Explain(attribute, &pb.TraceEvent{}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Explaining an input is cheap: names are built only for the fault, however many fields come before
// it.
func TestExplainAllocatesForTheAnswerAlone(t *testing.T) {
	for name, fields := range map[string][]byte{
		"numbers":             {0x10, 1},
		"text":                field(7, 'i'),
		"unknown fields":      {0x7a, 1, 'x'},
		"messages":            field(4, field(1, 'i')...),
		"messages in unknown": field(6, 0x0a, 0),
	} {
		cost := func(times int) float64 {
			raw := append(bytes.Repeat(fields, times), 0x80)
			return testing.AllocsPerRun(10, func() { Explain(raw, &pb.AgentEnvelope{}) })
		}
		if few, many := cost(1000), cost(10_000); many > few+5 { // pools of the runtime
			t.Errorf("%s: %v allocations for 1,000 fields before the fault, %v for 10,000", name, few, many)
		}
	}
}

func TestEnvelopeKey(t *testing.T) {
	long := bytes.Repeat([]byte("k"), maxKeyBytes)
	for name, tc := range map[string]struct{ raw, want []byte }{
		"a key":                     {field(1, 'k'), []byte("k")},
		"a key and something":       {append(field(1, 'k'), 0xff), []byte("k")},
		"an empty key":              {field(1), []byte{}},
		"1 KiB":                     {field(1, long...), long},
		"more than 1 KiB":           {field(1, append(long, 'k')...), nil},
		"another field comes first": {append([]byte{0x10, 1}, field(1, 'k')...), nil},
		"a key of another type":     {[]byte{0x08, 1}, nil},
		"a key that is cut short":   {[]byte{0x0a, 2, 'k'}, nil},
		"a length that is":          {[]byte{0x0a, 0x80}, nil},
		"nothing":                   {nil, nil},
		"no tag":                    {[]byte{0x80}, nil},
	} {
		got := EnvelopeKey(tc.raw)
		if !bytes.Equal(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if len(got) > 0 {
			got[0] = 'x'
			if again := EnvelopeKey(tc.raw); again[0] == 'x' {
				t.Errorf("%s: the key is a part of the input", name)
			}
		}
	}
}

// Explain costs as much as a few parses, and as much as one if there are no unknown fields.
func BenchmarkExplain(b *testing.B) {
	raw := append(bytes.Repeat([]byte{0x10, 1}, 1<<19), 0x80)
	b.Run("unmarshal", func(b *testing.B) {
		for b.Loop() {
			if proto.Unmarshal(raw, new(pb.AgentEnvelope)) == nil {
				b.Fatal("no fault")
			}
		}
	})
	b.Run("explain", func(b *testing.B) {
		for b.Loop() {
			Explain(raw, new(pb.AgentEnvelope))
		}
	})
}

// Explain finds a fault exactly if protobuf refuses the input.
func FuzzExplain(f *testing.F) {
	messages := []proto.Message{&pb.AgentEnvelope{}, &pb.StateSnapshot{}, &pb.TraceEvent{}, &pb.ActivationErrorRecord{}}
	f.Add(uint8(0), field(4, field(1, 'i', 0xff)...))
	f.Add(uint8(1), field(5, 0x12, 3, 0x0a, 1, 0xff))
	f.Add(uint8(2), field(8, append(field(1, 'a'), field(2, 0xff)...)...))
	f.Add(uint8(3), []byte{0x43, 0x44, 0x4b})
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		m := messages[int(which)%len(messages)].ProtoReflect().New().Interface()
		err := proto.Unmarshal(raw, m)
		md := m.ProtoReflect().Descriptor()
		offset, fault := (&walk{root: md}).message(raw, 0, md)
		if (err != nil) != (fault != "") || offset < 0 || offset > len(raw) {
			t.Fatalf("protobuf says %v, we %q at byte %d", err, fault, offset)
		}
	})
}
