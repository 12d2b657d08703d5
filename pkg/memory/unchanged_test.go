package memory_test

import "testing"

// A Put of the value that the most recent entry already has, with the same stamp, changes
// nothing, wherever the entry is stored.
func TestPutOfTheSameChangesNothing(t *testing.T) {
	m := abc()
	for _, key := range []string{"a", "b"} {
		set(t, m, key, []byte("same"))
		before := m.Changes()
		set(t, m, key, []byte("same"))
		if after := m.Changes(); after != before {
			t.Errorf("%s: %d changes, then %d", key, before, after)
		}
	}
	m.Clear()
	set(t, m, "only", []byte("same"))
	before := m.Changes()
	set(t, m, "only", []byte("same"))
	if after := m.Changes(); after != before {
		t.Errorf("the only entry: %d changes, then %d", before, after)
	}
}
