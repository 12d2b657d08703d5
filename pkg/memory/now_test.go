package memory

import (
	"testing"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func TestSetNow(t *testing.T) {
	m := New(nil, 1000)
	m.SetNow(2000)
	if err := m.Put("a", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if got := m.Blob().GetEntries()[0].GetLastAccessMs(); got != 2000 {
		t.Errorf("stamped at %d", got)
	}
}

func TestEmpty(t *testing.T) {
	newer := new(pb.MemoryBlob)
	newer.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x2a})
	m := New(newer, 0)
	if m.Empty() {
		t.Error("unknown fields are something to store")
	}
	m.Clear()
	if !m.Empty() {
		t.Error("not empty after Clear")
	}
	if err := m.Put("k", nil); err != nil || m.Empty() {
		t.Errorf("an entry without a value is nothing to store (%v)", err)
	}
	if m.Delete("k"); !m.Empty() {
		t.Error("not empty after Delete")
	}
}
