package memory

import pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"

// undo is what a Rollback needs. An entry that was there at Begin stays in its slot until
// it is taken from there for the first time; only then it is recorded. So there are never
// more records than entries at Begin, and their order is of no consequence.
type undo struct {
	before  Memory // as it was at Begin; the array and the index of its order have changed since
	cleared *order // the order that Clear put away

	// The slots below floor hold what they held at Begin, or are empty and recorded. All
	// others belong to the transaction.
	floor int
	taken []taken
	few   [4]taken // the first ones need no allocation of their own
}

// taken is an entry that was in slot at Begin, as it was then. Its value is never written
// to: a Put replaces it.
type taken struct {
	slot         int
	entry        *pb.MemoryEntry
	value        []byte
	lastAccessMS int64
}

// Begin starts a transaction: until Keep or Rollback ends it, what is done can be undone.
// Store the memory before or after a transaction, not in it, since Rollback sets Changes
// back, too. Begin panics in a transaction.
func (m *Memory) Begin() {
	if m.undo != nil {
		panic("memory: Begin in a transaction: call Keep or Rollback first")
	}
	if m.order.live > 0 {
		m.order.first() // or each transaction that evicts would search for it again
	}
	u := &undo{before: *m, floor: len(m.order.slots)}
	u.taken = u.few[:0]
	m.undo, m.order.undo = u, u
}

// Keep ends the transaction and keeps all that was done in it. It panics outside of one.
func (m *Memory) Keep() {
	if m.undo == nil {
		panic("memory: Keep outside of a transaction: call Begin first")
	}
	m.undo, m.order.undo = nil, nil
}

// Rollback ends the transaction and makes the memory what it was at Begin: entries, their
// order and stamps, now, and what Changes, Evicted and SoftCapReached say. It panics
// outside of a transaction.
func (m *Memory) Rollback() {
	u := m.undo
	if u == nil {
		panic("memory: Rollback outside of a transaction: call Begin first")
	}
	o := m.order
	if u.cleared != nil {
		o = *u.cleared
	}
	o.restore(u)
	*m = u.before
	m.order = o
}

// record keeps e, which is about to be taken from slot, if it was there at Begin.
func (u *undo) record(slot int, e *pb.MemoryEntry) {
	if slot < u.floor {
		u.taken = append(u.taken, taken{slot, e, e.Value, e.LastAccessMs})
	}
}

// untouched is how many entries are in the slots where they were at Begin.
func (u *undo) untouched() int { return u.before.order.live - len(u.taken) }

// restore makes the order what it was at Begin. It keeps the array and the index, which
// may have grown.
func (o *order) restore(u *undo) {
	was := &u.before.order
	for _, e := range o.slots[u.floor:] {
		if e != nil {
			delete(o.index, e.Key)
		}
	}
	clear(o.slots[u.floor:])
	o.slots = o.slots[:len(was.slots)] // what trim cut off is empty
	for _, t := range u.taken {
		t.entry.Value, t.entry.LastAccessMs = t.value, t.lastAccessMS
		o.slots[t.slot] = t.entry
		if o.index != nil {
			o.index[t.entry.Key] = t.slot
		}
	}
	o.head, o.live, o.bytes, o.valueBytes, o.undo = was.head, was.live, was.bytes, was.valueBytes, nil
}
