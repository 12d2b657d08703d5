package coders_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Decoded messages keep their buffer, which is sound only while Beam reads each element
// into a fresh one: neither the stream nor the next element may change a message.
func TestBeamReadsEachElementIntoAFreshBuffer(t *testing.T) {
	var stream bytes.Buffer
	var want []proto.Message
	for _, text := range []string{"first", "other", "third"} {
		m := &pb.ToolResult{IntentId: text, Payload: []byte(text), EntityKey: []byte(text)}
		if err := beam.NewElementEncoder(reflect.TypeOf(m)).Encode(m, &stream); err != nil {
			t.Fatal(err)
		}
		want = append(want, m)
	}
	raw := stream.Bytes()
	dec, r := beam.NewElementDecoder(reflect.TypeFor[*pb.ToolResult]()), bytes.NewReader(raw)
	var got []proto.Message
	for range want {
		m, err := dec.Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.(proto.Message))
	}
	clear(raw)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("Beam reuses a buffer: decode must copy (-want +got):\n%s", diff)
	}
}

// What the documentation tells users: text and bytes are views of the buffer, and an
// append copies.
func TestAliasing(t *testing.T) {
	element, err := encodeElement(&pb.ToolIntent{IntentId: "id", EntityKey: []byte("key"), ToolName: "tool"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := decodeElement(reflect.TypeFor[*pb.ToolIntent](), element)
	if err != nil {
		t.Fatal(err)
	}
	intent := m.(*pb.ToolIntent)
	longer := append(intent.EntityKey, "-and-more"...) //nolint:gocritic // what it does to the message is the test
	if string(longer) != "key-and-more" || intent.GetToolName() != "tool" {
		t.Errorf("append changed the message to %v", intent)
	}
	intent.EntityKey = []byte("another")
	if intent.GetIntentId() != "id" || intent.GetToolName() != "tool" {
		t.Errorf("a new key changed the message to %v", intent)
	}
}
