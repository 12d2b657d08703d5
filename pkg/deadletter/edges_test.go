package deadletter_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// What is valid in front of a fault, however odd, is passed over.
func TestExplainPassesOverWhatIsValid(t *testing.T) {
	fault := protowire.AppendString(protowire.AppendTag(nil, 4, protowire.BytesType), "\x0a\x01\xff") // tool_result.intent_id
	for name, front := range map[string][]byte{
		"nothing":                            nil,
		"bytes of an unknown field":          protowire.AppendString(protowire.AppendTag(nil, 500, protowire.BytesType), "\x0a\x01\xff"),
		"an unknown field without content":   protowire.AppendString(protowire.AppendTag(nil, 500, protowire.BytesType), ""),
		"the largest number of a field":      protowire.AppendVarint(protowire.AppendTag(nil, protowire.MaxValidNumber, protowire.VarintType), 1),
		"a message in another wire type":     protowire.AppendVarint(protowire.AppendTag(nil, 4, protowire.VarintType), 1),
		"bytes in another wire type":         protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), 1),
		"a number in another wire type":      protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "\xff"),
		"a message without fields":           protowire.AppendString(protowire.AppendTag(nil, 5, protowire.BytesType), ""),
		"a group of a field that is unknown": {0xa3, 0x1f, 0xa4, 0x1f}, // 500
	} {
		raw := append(append([]byte{}, front...), fault...)
		offset, text := deadletter.Locate(raw, &pb.AgentEnvelope{})
		if offset != len(raw)-1 || text != "AgentEnvelope.tool_result.intent_id is not UTF-8" {
			t.Errorf("%s: byte %d of %d: %s", name, offset, len(raw), text)
		}
	}
}

// A detail without input_kind is one without input.
func TestReadWithoutInputKind(t *testing.T) {
	l, err := deadletter.Read(&pb.ActivationErrorRecord{Reason: string(deadletter.HITLTimeout), Detail: `{"code":"dropped"}`})
	if err != nil || l.InputKind != deadletter.NoInput {
		t.Errorf("Read gives the input kind %q, %v; want %q", l.InputKind, err, deadletter.NoInput)
	}
}
