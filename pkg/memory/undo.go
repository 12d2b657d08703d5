package memory

import pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"

// undo is what Rollback needs. An entry that was there at Begin stays in its slot until it is
// taken from it for the first time. Only then it is recorded. So there are never more records
// than there were entries at Begin, and Rollback may apply them in any order.
type undo struct {
	before  Memory // as it was at Begin, but the array and the index of its order change
	cleared *order // the order before Clear

	// A slot below floor holds what it held at Begin, or it is empty and its entry is
	// recorded. All other slots belong to the transaction.
	floor int
	taken []taken
	few   [4]taken // the first ones need no allocation of their own
}

// taken is an entry that was in slot at Begin, with the value and the stamp that it had then.
// The bytes of the value never change: a Put replaces the slice.
type taken struct {
	slot         int
	entry        *pb.MemoryEntry
	value        []byte
	lastAccessMS int64
}

// Begin starts a transaction, which Keep or Rollback ends. Do not store the memory during a
// transaction, since Rollback also restores Changes. Begin panics if a transaction has
// started already.
func (m *Memory) Begin() {
	if m.undo != nil {
		panic("memory: Begin in a transaction: call Keep or Rollback first")
	}
	if m.order.live > 0 {
		m.order.first() // else each transaction that evicts would search for the first entry
	}
	u := &undo{before: *m, floor: len(m.order.slots)}
	u.taken = u.few[:0]
	m.undo, m.order.undo = u, u
}

// Keep ends the transaction and keeps its changes. It panics outside of a transaction.
func (m *Memory) Keep() {
	if m.undo == nil {
		panic("memory: Keep outside of a transaction: call Begin first")
	}
	m.undo, m.order.undo = nil, nil
}

// Rollback ends the transaction and restores what was there at Begin: the entries with their
// order and stamps, now, and the results of Changes, Evicted and SoftCapReached. It panics
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

// record records e, which is about to be taken from slot, if it was there at Begin.
func (u *undo) record(slot int, e *pb.MemoryEntry) {
	if slot < u.floor {
		u.taken = append(u.taken, taken{slot, e, e.Value, e.LastAccessMs})
	}
}

// untouched is the number of entries that are still in the slots that they had at Begin.
func (u *undo) untouched() int { return u.before.order.live - len(u.taken) }

// restore restores the order of Begin. It keeps the array and the index, which may have
// grown.
func (o *order) restore(u *undo) {
	was := &u.before.order
	for _, e := range o.slots[u.floor:] {
		if e != nil {
			delete(o.index, e.Key)
		}
	}
	clear(o.slots[u.floor:])
	o.slots = o.slots[:len(was.slots)] // the slots that trim has cut off are empty
	for _, t := range u.taken {
		t.entry.Value, t.entry.LastAccessMs = t.value, t.lastAccessMS
		o.slots[t.slot] = t.entry
		if o.index != nil {
			o.index[t.entry.Key] = t.slot
		}
	}
	o.head, o.live, o.bytes, o.valueBytes, o.undo = was.head, was.live, was.bytes, was.valueBytes, nil
}
