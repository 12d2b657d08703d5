package textform

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func withUnknown[M proto.Message](m M, raw string) M {
	m.ProtoReflect().SetUnknown([]byte(raw))
	return m
}

func sample() *pb.StateSnapshot {
	return withUnknown(&pb.StateSnapshot{
		EntityKey: []byte{0, 0xff, '\n', 'k'},
		Seq:       -1,
		Memory: withUnknown(&pb.MemoryBlob{Entries: []*pb.MemoryEntry{
			{Key: "é: # unknown\n"},
			withUnknown(&pb.MemoryEntry{Key: "b", Value: []byte("v")}, "\xa0\x1f\x2a"),
		}}, "\x20\x01"),
		Pending: []*pb.ToolIntent{{Kind: 99}},
	}, "\xa0\x1f\x01\xa0\x1f\x02")
}

const sampleText = `# proto-message: beam_agents.v1.StateSnapshot
# All of it.
# unknown memory.entries[1]: a01f2a
# unknown memory: 2001
# unknown: a01f01a01f02

entity_key: "\x00\xff\nk"
seq: -1
memory: {
  entries: {
    key: "\u00e9: # unknown\n"
  }
  entries: {
    key: "b"
    value: "v"
  }
}
pending: {
  kind: 99
}
`

func TestMarshal(t *testing.T) {
	got, err := Marshal("All of it.", sample())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sampleText, string(got)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	back, err := Unmarshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), back, protocmp.Transform()); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestMarshalEmpty(t *testing.T) {
	got, err := Marshal("Nothing.", &pb.ToolIntent{})
	if want := "# proto-message: beam_agents.v1.ToolIntent\n# Nothing.\n"; err != nil || string(got) != want {
		t.Errorf("Marshal = %q, %v; want %q", got, err, want)
	}
	back, err := Unmarshal(got)
	if err != nil || !proto.Equal(back, &pb.ToolIntent{}) {
		t.Errorf("Unmarshal = %v, %v", back, err)
	}
}

func TestMarshalRefuses(t *testing.T) {
	for _, doc := range []string{"", "two\nlines", "unknown: a01f2a"} {
		if got, err := Marshal(doc, &pb.ToolIntent{}); !errors.Is(err, ErrFormat) {
			t.Errorf("Marshal(%q) = %q, %v; want ErrFormat", doc, got, err)
		}
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	const head = "# proto-message: beam_agents.v1.AgentEnvelope\n"
	for name, text := range map[string]string{
		"empty":                     "",
		"no header":                 "entity_key: \"k\"\n",
		"no type":                   "# proto-message: \n",
		"type not known":            "# proto-message: beam_agents.v1.Nothing\n",
		"field not known":           head + "nothing: 1\n",
		"no digits":                 head + "# unknown:\n",
		"upper case":                head + "# unknown: A01F2A\n",
		"odd digits":                head + "# unknown: a01f2\n",
		"no colon":                  head + "# unknown a01f2a\n",
		"cut off":                   head + "# unknown: a01f\n",
		"known number":              head + "# unknown: 1007\n",
		"two lines for one message": head + "# unknown: a01f2a\n# unknown: a01f2a\n",
		"path to nothing":           head + "# unknown tool_result: a01f2a\n",
		"path to no message":        head + "# unknown entity_key: a01f2a\nentity_key: \"k\"\n",
		"path to no field":          head + "# unknown nothing: a01f2a\n",
		"index of a single field":   head + "# unknown tool_result[0]: a01f2a\ntool_result: {}\n",
		"list without index": strings.Replace(head, "AgentEnvelope", "MemoryBlob", 1) +
			"# unknown entries: a01f2a\nentries: {}\n",
		"index too high": strings.Replace(head, "AgentEnvelope", "MemoryBlob", 1) +
			"# unknown entries[1]: a01f2a\nentries: {}\n",
		"map": strings.Replace(head, "AgentEnvelope", "TraceEvent", 1) +
			"# unknown attributes[0]: a01f2a\nattributes: {}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := Unmarshal([]byte(text)); !errors.Is(err, ErrFormat) {
				t.Errorf("Unmarshal = %v, %v; want ErrFormat", m, err)
			}
		})
	}
}
