package protofield_test

import (
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/pkg/internal/protofield"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// A message that is written field by field is the one that package proto writes.
func TestFieldsAreThoseOfPackageProto(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &pb.ToolIntent{
			IntentId:  rapid.String().Draw(t, "id"),
			EntityKey: rapid.SliceOf(rapid.Byte()).Draw(t, "key"),
			Seq:       rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, "seq"),
			Kind:      pb.ToolIntent_Kind(rapid.OneOf(rapid.Just(int32(0)), rapid.Int32()).Draw(t, "kind")),
		}
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		b := protofield.AppendBytes(nil, 1, m.IntentId)
		b = protofield.AppendBytes(b, 2, m.EntityKey)
		b = protofield.AppendVarint(b, 3, uint64(m.Seq))
		b = protofield.AppendVarint(b, 10, uint64(m.Kind))
		if string(b) != string(want) {
			t.Fatalf("%x, want %x", b, want)
		}
	})
}

func TestSizes(t *testing.T) {
	for _, number := range []protowire.Number{1, 15, 16, 2047, 2048, protowire.MaxValidNumber} {
		for _, v := range []uint64{0, 1, 127, 128, 1 << 20, math.MaxUint64} {
			if got, want := protofield.SizeVarint(number, v), len(protofield.AppendVarint(nil, number, v)); got != want {
				t.Errorf("field %d of the value %d: %d bytes, want %d", number, v, got, want)
			}
		}
		for _, n := range []int{0, 1, 127, 128, 1 << 14} {
			if got, want := protofield.SizeBytes(number, n), len(protofield.AppendBytes(nil, number, make([]byte, n))); got != want {
				t.Errorf("field %d of %d bytes: %d bytes, want %d", number, n, got, want)
			}
		}
	}
}
