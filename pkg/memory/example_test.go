package memory_test

import (
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/memory"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// For one element: decode the stored blob, use the memory, and encode the blob if it has
// changed. In a pipeline a cell of pkg/state does that.
func Example() {
	visit := func(stored []byte, nowMS int64) ([]byte, error) {
		blob := new(pb.MemoryBlob)
		if err := proto.Unmarshal(stored, blob); err != nil {
			return nil, err
		}
		m := memory.New(blob, nowMS)
		visits := 0
		if v, ok := m.Get("visits"); ok {
			visits, _ = strconv.Atoi(string(v))
		}
		visits++
		if err := m.Put("visits", strconv.AppendInt(nil, int64(visits), 10)); err != nil {
			return nil, err
		}
		fmt.Println("visit", visits, "-", m.Len(), "entry of", m.ValueBytes(), "byte")
		if !m.Changed() {
			return stored, nil
		}
		return proto.MarshalOptions{Deterministic: true}.Marshal(m.Blob())
	}
	stored, err := visit(nil, 1_700_000_000_000)
	if err != nil {
		panic(err)
	}
	if _, err := visit(stored, 1_700_000_060_000); err != nil {
		panic(err)
	}
	// Output:
	// visit 1 - 1 entry of 1 byte
	// visit 2 - 1 entry of 1 byte
}

// Put evicts the least recently used entries when a limit is exceeded.
func ExampleMemory_Put() {
	m := memory.New(nil, 0)
	half := make([]byte, memory.MaxValueBytes/2)
	for _, key := range []string{"a", "b"} {
		if err := m.Put(key, half); err != nil {
			panic(err)
		}
	}
	m.Get("a")
	if err := m.Put("c", half); err != nil {
		panic(err)
	}
	for key := range m.Keys() {
		fmt.Print(key, " ")
	}
	fmt.Println(m.Evicted())

	err := m.Put("d", make([]byte, memory.MaxValueBytes+1))
	fmt.Println(errors.Is(err, memory.ErrOverflow), m.Len())
	// Output:
	// a c 1 524288
	// true 2
}
