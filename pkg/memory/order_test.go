package memory

import (
	"fmt"
	"testing"
)

// The array and the index of a memory that is long in use stay in proportion to it.
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
