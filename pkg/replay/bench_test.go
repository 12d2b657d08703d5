package replay_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/replay"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// filled is a blob of n entries of size bytes each.
func filled(n, size int) *pb.LlmCacheBlob {
	b := blob(int64(n * size))
	response := string(make([]byte, size))
	for i := range n {
		b.Entries = append(b.Entries, whole(fmt.Sprintf("%064x", i), response, t0, t0))
	}
	return b
}

// BenchmarkCell does what a cell does with a cache for one element: it opens the decoded blob,
// finds an old response, puts a new one, and takes the blob.
func BenchmarkCell(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("%dx1400", n), func(b *testing.B) {
			stored := filled(n, 1400)
			response := make([]byte, 1400)
			list := make([]*pb.LlmCacheEntry, n, n+1)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				copy(list, stored.Entries)
				stored.Entries = list
				c := replay.New(stored, t0+1)
				if _, ok := c.Get(list[0].CacheKey); !ok {
					b.Fatal("no hit")
				}
				if _, err := c.Put(list[n-1].CacheKey, response); err != nil {
					b.Fatal(err)
				}
				stored = c.Blob()
			}
		})
	}
}

// BenchmarkOpen compares New with the decoding that comes before it.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		stored := filled(n, 1400)
		wire := encode(b, stored)
		b.Run(fmt.Sprintf("%dx1400/decode", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := proto.Unmarshal(wire, new(pb.LlmCacheBlob)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%dx1400/new", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				replay.New(stored, t0+1)
			}
		})
	}
}
