package memory_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/pkg/memory"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// transaction runs a transaction on p and on a copy of its model. Afterwards the model of p is
// the copy if the transaction was kept, or the old model if it was rolled back.
func (p *pair) transaction(t failer, keep bool, do func(in *pair)) {
	t.Helper()
	copied := *p.want
	copied.blob = proto.CloneOf(p.want.blob)
	in := &pair{p.m, &copied}
	p.m.Begin()
	do(in)
	if keep {
		p.m.Keep()
		p.want = in.want
	} else {
		p.m.Rollback()
	}
}

// compareAll compares everything that can be observed. Blob is left out if asked, since it
// compacts the entries.
func (p *pair) compareAll(t failer, blob bool) {
	t.Helper()
	p.do(t, 7, "", nil)
	if !blob {
		return
	}
	got, err := proto.MarshalOptions{Deterministic: true}.Marshal(p.m.Blob())
	if err != nil {
		t.Fatalf("%v", err)
	}
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(p.want.blob)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("blob of %d bytes, want %d (%v)", len(got), len(want), err)
	}
}

// After Rollback a memory shows and does the same as before the transaction. After Keep it has
// the changes of the transaction.
func TestTransactions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := openPair(drawBlob(t), rapid.Int64Range(0, 1<<42).Draw(t, "now"))
		operation := func(p *pair) {
			op := rapid.IntRange(0, operations-1).Draw(t, "operation")
			if op == 4 && rapid.IntRange(0, 3).Draw(t, "spare") > 0 {
				op = 0 // else little lives long
			}
			p.do(t, op, drawKey(t), drawValue(t))
		}
		for range rapid.IntRange(1, 4).Draw(t, "transactions") {
			for range rapid.IntRange(0, 10).Draw(t, "before") {
				operation(p)
			}
			p.transaction(t, rapid.IntRange(0, 2).Draw(t, "keep") == 0, func(in *pair) {
				for range rapid.IntRange(0, 20).Draw(t, "within") {
					operation(in)
				}
			})
			p.compareAll(t, rapid.Bool().Draw(t, "blob"))
		}
		for range rapid.IntRange(0, 10).Draw(t, "after") {
			operation(p)
		}
		p.compareAll(t, true)
		p.reopen(t, 1)
	})
}

// Many moves in many transactions, so that the array is compacted and the index built within
// transactions and between them.
func TestManyTransactions(t *testing.T) {
	for _, keys := range []int{5, 9, 100} {
		p := openPair(new(pb.MemoryBlob), 7)
		next := uint32(keys)
		draw := func(n int) int {
			next = next*1664525 + 1013904223 // a fixed sequence that looks random
			return int(next>>8) % n
		}
		some := func(p *pair, n int) {
			for i := range n {
				p.do(t, []int{0, 0, 0, 1, 1, 3}[draw(6)], fmt.Sprint(draw(keys)), []byte{byte(i)})
			}
		}
		for i := range 100 {
			some(p, draw(10))
			n := []int{3, 10, 500}[draw(3)]
			p.transaction(t, draw(4) == 0, func(in *pair) {
				some(in, n)
				if i%10 == 0 {
					in.compareBlob(t)
					in.do(t, 4, "", nil)
					some(in, 20)
				}
			})
			p.compareAll(t, draw(3) == 0)
		}
	}
}

// Rollback restores all entries after a Put that has evicted all others.
func TestRollbackOfEviction(t *testing.T) {
	p := openPair(filled(100, 1000), 7)
	for range 3 {
		p.transaction(t, false, func(in *pair) {
			in.do(t, 1, "large", make([]byte, memory.MaxValueBytes))
			if n, _ := in.m.Evicted(); n != 100 || in.m.Len() != 1 || !in.m.SoftCapReached() {
				t.Fatalf("%d evicted, %d left", n, in.m.Len())
			}
		})
		p.compareAll(t, false)
	}
	if p.m.Changed() || p.m.Len() != 100 || p.m.SoftCapReached() {
		t.Errorf("changed %v, %d entries", p.m.Changed(), p.m.Len())
	}
}

func TestTransactionsDoNotNest(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(m *memory.Memory)
		want string
	}{
		"begin in one":              {func(m *memory.Memory) { m.Begin(); m.Begin() }, "Begin in a transaction"},
		"begin in one, cleared":     {func(m *memory.Memory) { m.Begin(); m.Clear(); m.Begin() }, "Begin in a transaction"},
		"keep outside":              {func(m *memory.Memory) { m.Keep() }, "Keep outside"},
		"rollback outside":          {func(m *memory.Memory) { m.Rollback() }, "Rollback outside"},
		"rollback after keep":       {func(m *memory.Memory) { m.Begin(); m.Keep(); m.Rollback() }, "Rollback outside"},
		"keep after rollback":       {func(m *memory.Memory) { m.Begin(); m.Rollback(); m.Keep() }, "Keep outside"},
		"one after the other, fine": {func(m *memory.Memory) { m.Begin(); m.Keep(); m.Begin(); m.Rollback(); m.Begin() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			func() {
				defer func() {
					if v := recover(); v != nil {
						got = v.(string)
					}
				}()
				tc.do(memory.New(filled(1, 1), 7))
			}()
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("panic %q, want %q", got, tc.want)
			}
		})
	}
}

// threeOperations runs a transaction and rolls it back. It reads an old entry, replaces a
// newer one and adds a new one.
func threeOperations(tb testing.TB, m *memory.Memory, old, newer string, value []byte) {
	m.Begin()
	m.Get(old)
	if err := m.Put(newer, value); err != nil {
		tb.Fatal(err)
	}
	if err := m.Put("new", value); err != nil {
		tb.Fatal(err)
	}
	m.Rollback()
}

const kib100 = 100 << 10

// The memory that a transaction allocates does not depend on the number of entries.
func TestTransactionAllocations(t *testing.T) {
	allocated := map[int]uint64{}
	for _, n := range []int{100, 10_000} {
		stored := filled(n, kib100/n)
		old, newer := stored.Entries[n/4].Key, stored.Entries[n/2].Key
		m := memory.New(stored, 1_700_000_000_001)
		value := make([]byte, 10)
		threeOperations(t, m, old, newer, value) // the array grows once
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			threeOperations(t, m, old, newer, value)
		}
		runtime.ReadMemStats(&after)
		allocated[n] = after.TotalAlloc - before.TotalAlloc
	}
	if allocated[10_000] > 2*allocated[100]+10_000 {
		t.Errorf("bytes of 100 transactions, by entries: %v", allocated)
	}
}

// BenchmarkRollback measures one transaction of three operations on a memory of 100 KiB.
func BenchmarkRollback(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			stored := filled(n, kib100/n)
			old, newer := stored.Entries[n/4].Key, stored.Entries[n/2].Key
			m := memory.New(stored, 1_700_000_000_001)
			value := make([]byte, 10)
			b.ReportAllocs()
			for b.Loop() {
				threeOperations(b, m, old, newer, value)
			}
		})
	}
}
