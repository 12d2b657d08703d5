package memory

import (
	"fmt"
	"testing"
)

// The array and the index stay in proportion to the entries, however long a memory is used.
func TestOrderStaysSmall(t *testing.T) {
	for _, n := range []int{2, maxScan, 100} {
		m := New(nil, 1)
		for i := range 10_000 {
			key := fmt.Sprint(i % n)
			if _, ok := m.Get(key); !ok {
				if err := m.Put(key, nil); err != nil {
					t.Fatal(err)
				}
			}
			if i%(3*n) == 0 {
				m.Delete(key)
			}
		}
		if got := cap(m.order.slots); got > 4*n+8 {
			t.Errorf("%d slots for %d entries", got, n)
		}
		if got := len(m.order.index); got > n {
			t.Errorf("%d keys in the index of %d entries", got, n)
		}
	}
}

// A long transaction records each entry of its beginning at most once, and the array stays in
// proportion to the entries.
func TestTransactionStaysSmall(t *testing.T) {
	for _, n := range []int{2, maxScan, 100} {
		m := New(nil, 1)
		for i := range n {
			if err := m.Put(fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			m.Begin()
			for i := range 2_000 {
				m.Get(fmt.Sprint(i % n))
			}
			if got := len(m.undo.taken); got > n {
				t.Errorf("%d records for %d entries", got, n)
			}
			m.Rollback()
		}
		if got := cap(m.order.slots); got > 8*n+8 {
			t.Errorf("%d slots for %d entries", got, n)
		}
		if m.undo != nil || m.order.undo != nil || len(m.order.index) > n {
			t.Errorf("after the transactions: %d keys in the index of %d entries", len(m.order.index), n)
		}
	}
}
