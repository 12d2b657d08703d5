package transforms

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/golden"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func mustMarshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func event(ms int64, content string) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{
		EntityKey: []byte("k"), EventTimeMs: ms,
		Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(content)},
	}
}

func TestParseEnvelope(t *testing.T) {
	good := mustMarshal(t, event(1, "e"))
	for name, tc := range map[string]struct {
		raw  []byte
		want deadletter.Code
	}{
		"good":                      {good, ""},
		"at the limit":              {mustMarshal(t, event(1, strings.Repeat("e", 1000-8))), ""},
		"above the limit":           {mustMarshal(t, event(1, strings.Repeat("e", 1000-7))), deadletter.Oversize},
		"nil":                       {nil, deadletter.EmptyPayload},
		"empty":                     {[]byte{}, deadletter.EmptyPayload},
		"only a key":                {good[:3], deadletter.EmptyPayload},
		"empty event":               {[]byte{0x1a, 0}, ""},
		"empty export request":      {[]byte{0x32, 0}, ""},
		"empty tool result":         {[]byte{0x22, 0}, ""},
		"newer variant":             {append(bytes.Clone(good[:3]), 0x3a, 1, 'x'), ""},
		"unknown number only":       {[]byte{0xa0, 0x1f, 0x2a}, ""},
		"cut short":                 {good[:len(good)-1], deadletter.Unparsable},
		"text":                      {[]byte("no protobuf"), deadletter.Unparsable},
		"invalid UTF-8":             {[]byte{0x2a, 3, 0x0a, 1, 0xff}, deadletter.Unparsable},
		"too deep":                  {bytes.Repeat([]byte{0x43}, 900), deadletter.Unparsable},
		"time 0":                    {mustMarshal(t, event(0, "e")), ""},
		"time before 1970":          {mustMarshal(t, event(-1, "e")), deadletter.BadEventTime},
		"the last ms of 9999":       {mustMarshal(t, event(253402300799999, "e")), ""},
		"the first of 10000":        {mustMarshal(t, event(253402300800000, "e")), deadletter.BadEventTime},
		"bad time, nothing in it":   {[]byte{0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, deadletter.EmptyPayload},
		"bad time, a newer variant": {[]byte{0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0x3a, 0}, deadletter.BadEventTime},
	} {
		_, code, text := parseEnvelope(tc.raw, 1000)
		if code != tc.want || (code == "") != (text == "") {
			t.Errorf("%s: code %q (%s), want %q", name, code, text, tc.want)
		}
	}
}

// Groups nest without end in unknown fields; protobuf's own bound is 10,000.
func TestParseEnvelopeNested(t *testing.T) {
	nested := func(depth int) []byte {
		b := bytes.Repeat(protowire.AppendTag(nil, 8, protowire.StartGroupType), depth)
		return append(b, bytes.Repeat(protowire.AppendTag(nil, 8, protowire.EndGroupType), depth)...)
	}
	if _, code, _ := parseEnvelope(nested(1000), DefaultMaxBytes); code != "" {
		t.Errorf("1,000 deep: %q, want it kept as an unknown field", code)
	}
	if _, code, _ := parseEnvelope(nested(1_000_000), DefaultMaxBytes); code != deadletter.Unparsable {
		t.Errorf("1,000,000 deep: %q, want unparsable", code)
	}
}

func TestGoldenEnvelopesParse(t *testing.T) {
	blobs, err := golden.Blobs()
	if err != nil {
		t.Fatal(err)
	}
	parsed := 0
	for _, b := range blobs {
		if b.Message != "beam_agents.v1.AgentEnvelope" {
			continue
		}
		want, err := b.Value()
		if err != nil {
			t.Fatal(err)
		}
		got, code, text := parseEnvelope(b.Bytes, DefaultMaxBytes)
		if code == deadletter.EmptyPayload || code == deadletter.BadEventTime {
			continue // a legal message, and no usable envelope
		}
		if code != "" || !proto.Equal(want, got) {
			t.Errorf("%s: %v, %q (%s)", b.Name, got, code, text)
		}
		parsed++
	}
	if parsed < 6 {
		t.Errorf("only %d golden envelopes", parsed)
	}
}

func TestDateMS(t *testing.T) {
	for ts, want := range map[beam.EventTime]int64{
		mtime.MinTimestamp: 0, mtime.MaxTimestamp: 0, mtime.EndOfGlobalWindowTime: 0,
		-1: 0, 0: 0, 1: 1, 253402300799999: 253402300799999, 253402300800000: 0,
	} {
		if got := dateMS(ts); got != want {
			t.Errorf("dateMS(%d) = %d, want %d", ts, got, want)
		}
	}
}

func FuzzParseEnvelope(f *testing.F) {
	f.Add(mustMarshal(f, event(1, "e")))
	f.Add([]byte{0x2a, 3, 0x0a, 1, 0xff})
	f.Add([]byte{0x3a, 1, 'x', 0x43, 0x44})
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		env, code, text := parseEnvelope(raw, 1<<16)
		if !bytes.Equal(before, raw) {
			t.Fatal("the input changed")
		}
		if code == "" {
			if _, err := proto.Marshal(env); err != nil {
				t.Fatalf("emitted what its coder refuses: %v", err)
			}
			return
		}
		rec, err := deadletter.Letter{
			Reason: deadletter.MalformedEnvelope, Code: code, Error: text, InputKind: deadletter.BytesInput, Input: raw,
		}.Record()
		if err != nil {
			t.Fatal(err)
		}
		l, err := deadletter.Read(rec)
		if err != nil {
			t.Fatal(err)
		}
		if l.Position.Redriven == 0 && !bytes.Equal(l.Input, raw) {
			t.Fatalf("kept %x, want %x", l.Input, raw)
		}
		if strings.Contains(l.Error, "proto") {
			t.Fatalf("a text of protobuf-go: %q", l.Error)
		}
	})
}
