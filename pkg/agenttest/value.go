package agenttest

import (
	"encoding/json"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/memory"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// payload encodes a value of a test for sending.
func (r *Runtime) payload(v any) []byte {
	r.t.Helper()
	switch v := v.(type) {
	case []byte:
		return v
	case json.RawMessage:
		return v
	case string:
		return []byte(v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		r.t.Fatalf("agenttest: %T cannot be sent as JSON: %v", v, err)
	}
	return b
}

// Memory returns the value under name in the memory of the key, and whether the memory has one,
// as agent.Get does. It fails the test if the value cannot be decoded into a T.
func Memory[T any](k *Key, name string) (value T, ok bool) {
	k.r.t.Helper()
	blob := k.MemoryBlob()
	act := agent.Begin(agent.Start{Memory: func() (*memory.Memory, error) { return memory.New(blob, 0), nil }})
	value, ok, err := agent.Get[T](act, name)
	if err != nil {
		k.r.t.Fatalf("agenttest: key %q: %v", k.key, err)
	}
	return value, ok
}

// MemoryBlob returns a copy of the stored memory of the key, or nil if the key has none.
func (k *Key) MemoryBlob() *pb.MemoryBlob {
	k.r.t.Helper()
	blob, err := k.r.state[k.key].memoryBlob()
	if err != nil {
		k.r.t.Fatalf("agenttest: the memory of key %q cannot be read: %v", k.key, err)
	}
	return blob
}
