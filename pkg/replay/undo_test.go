package replay_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/pkg/replay"
)

// transaction runs a transaction on p and on a copy of its model. Afterwards the model of p is
// the copy if the transaction was kept, or the old model if it was rolled back.
func (p *pair) transaction(t failer, keep bool, do func(in *pair)) {
	t.Helper()
	copied := *p.want
	copied.entries = nil
	for _, e := range p.want.entries {
		copied.entries = append(copied.entries, proto.CloneOf(e))
	}
	p.c.Begin()
	do(&pair{p.c, &copied})
	if keep {
		p.c.Keep()
		p.want = &copied
	} else {
		p.c.Rollback()
	}
	got, want := encode(t, p.c.Blob()), encode(t, p.want.blob())
	if !bytes.Equal(got, want) || p.c.Changed() != p.want.changed {
		t.Fatalf("blob of %d bytes, want %d; changed %v, want %v", len(got), len(want), p.c.Changed(), p.want.changed)
	}
}

// After Rollback a cache shows and does the same as before the transaction. After Keep it has
// the changes of the transaction.
func TestTransactions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.SampledFrom([]int64{0, t0, -5}).Draw(t, "now")
		p := openPair(drawBlob(t, now), now)
		operation := func(p *pair) {
			op := rapid.IntRange(0, operations-1).Draw(t, "operation")
			if op == 4 && rapid.IntRange(0, 3).Draw(t, "spare") > 0 {
				op = 0 // else little lives long
			}
			p.do(t, op, drawKey(t), drawResponse(t))
		}
		for range rapid.IntRange(1, 4).Draw(t, "transactions") {
			for range rapid.IntRange(0, 10).Draw(t, "before") {
				operation(p)
			}
			p.transaction(t, rapid.IntRange(0, 2).Draw(t, "keep") == 0, func(in *pair) {
				for range rapid.IntRange(0, 15).Draw(t, "within") {
					operation(in)
				}
			})
		}
		for range rapid.IntRange(0, 10).Draw(t, "after") {
			operation(p)
		}
		p.reopen(t, now)
	})
}

func TestTransactionsDoNotNest(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(c *replay.Cache)
		want string
	}{
		"begin in one":              {func(c *replay.Cache) { c.Begin(); c.Begin() }, "Begin in a transaction"},
		"begin in one, cleared":     {func(c *replay.Cache) { c.Begin(); c.Clear(); c.Begin() }, "Begin in a transaction"},
		"keep outside":              {func(c *replay.Cache) { c.Keep() }, "Keep outside"},
		"rollback outside":          {func(c *replay.Cache) { c.Rollback() }, "Rollback outside"},
		"rollback after keep":       {func(c *replay.Cache) { c.Begin(); c.Keep(); c.Rollback() }, "Rollback outside"},
		"keep after rollback":       {func(c *replay.Cache) { c.Begin(); c.Rollback(); c.Keep() }, "Keep outside"},
		"one after the other, fine": {func(c *replay.Cache) { c.Begin(); c.Keep(); c.Begin(); c.Rollback(); c.Begin() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			func() {
				defer func() {
					if v := recover(); v != nil {
						got = v.(string)
					}
				}()
				tc.do(replay.New(filled(1, 1), t0))
			}()
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("panic %q, want %q", got, tc.want)
			}
		})
	}
}

// BenchmarkRollback measures a transaction without operations, and one with a hit and a new
// response.
func BenchmarkRollback(b *testing.B) {
	for _, n := range []int{1, 64} {
		for _, idle := range []bool{true, false} {
			b.Run(fmt.Sprintf("entries=%d/idle=%v", n, idle), func(b *testing.B) {
				stored := filled(n, 1000)
				key := stored.Entries[0].CacheKey
				c, response := replay.New(stored, t0+1), make([]byte, 1000)
				b.ReportAllocs()
				for b.Loop() {
					c.Begin()
					if !idle {
						c.Get(key)
						if _, err := c.Put("new", response); err != nil {
							b.Fatal(err)
						}
					}
					c.Rollback()
				}
			})
		}
	}
}
