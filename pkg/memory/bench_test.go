package memory_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/memory"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// filled is a blob of n entries of size bytes each.
func filled(n, size int) *pb.MemoryBlob {
	b := blob(int64(n * size))
	for i := range n {
		b.Entries = append(b.Entries, &pb.MemoryEntry{
			Key: fmt.Sprintf("customer/fact/%06d", i), Value: make([]byte, size), LastAccessMs: 1_700_000_000_000,
		})
	}
	return b
}

// BenchmarkCell does what a cell does with a memory for one element: it opens the decoded
// blob, reads an old entry, writes the newest one, and takes the blob. Values have 1,000
// bytes.
func BenchmarkCell(b *testing.B) {
	for _, kib := range []int{1, 16, 64, 100} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			stored := filled(kib, 1000)
			oldest, newest := stored.Entries[0].Key, stored.Entries[kib-1].Key
			value := make([]byte, 1000)
			list := make([]*pb.MemoryEntry, kib)
			b.ReportAllocs()
			for b.Loop() {
				copy(list, stored.Entries)
				stored.Entries = list
				m := memory.New(stored, 1_700_000_000_001)
				m.Get(oldest)
				if err := m.Put(newest, value); err != nil {
					b.Fatal(err)
				}
				stored = m.Blob()
				oldest = stored.Entries[0].Key
			}
		})
	}
}

// BenchmarkOpen compares New with the decoding that comes before it.
func BenchmarkOpen(b *testing.B) {
	for _, kib := range []int{1, 16, 64, 100} {
		stored := filled(kib, 1000)
		wire := encode(b, stored)
		b.Run(fmt.Sprintf("%dKiB/decode", kib), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := proto.Unmarshal(wire, new(pb.MemoryBlob)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%dKiB/new", kib), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				memory.New(stored, 1_700_000_000_001)
			}
		})
	}
}

// BenchmarkMove reads the least recently used entry of many small ones. The time must not
// depend on their number.
func BenchmarkMove(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := memory.New(filled(n, 1), 1_700_000_000_001)
			var keys []string
			for k := range m.Keys() {
				keys = append(keys, k)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m.Get(keys[i%n])
			}
		})
	}
}
