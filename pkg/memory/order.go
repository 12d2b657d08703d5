package memory

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/internal/protofield"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Up to maxScan entries are searched one by one. For more, an index is faster; for fewer, it
// costs more than it saves.
const maxScan = 8

// order holds entries in the order of their use, the least recently used first. An entry that
// moves or is removed leaves an empty slot, which is nil. The last slot is never empty.
type order struct {
	slots []*pb.MemoryEntry
	head  int            // no slot before it holds an entry
	live  int            // number of slots that hold an entry
	index map[string]int // key to slot; nil up to maxScan entries
	stale bool           // the index has to be updated before it is used

	bytes      int // of the encoded entries, with their tags and lengths
	valueBytes int64

	undo *undo // nil outside of a transaction
}

// init fills the order with entries, whose slice it keeps and changes. Of several entries with
// the same key it keeps the last.
func (o *order) init(entries []*pb.MemoryEntry) {
	o.slots = entries
	if len(entries) > maxScan {
		o.reindex()
	}
	for slot, e := range entries {
		if e == nil {
			continue
		}
		// With as many keys as entries, which is the usual case, there is no duplicate.
		if len(o.index) != len(entries) && o.find(e.Key) != slot {
			entries[slot] = nil
			continue
		}
		o.count(e, 1)
	}
	o.trim()
}

// reindex makes the index, or updates the slots in it. A key that no slot holds is never in
// the index, so nothing has to be removed.
func (o *order) reindex() {
	if o.index == nil {
		o.index = make(map[string]int, len(o.slots))
	}
	for slot, e := range o.slots {
		if e != nil {
			o.index[e.Key] = slot
		}
	}
	o.stale = false
}

// find returns the slot of key, the last one if there are several, or -1.
func (o *order) find(key string) int {
	if o.stale {
		o.reindex()
	}
	if o.index != nil {
		if slot, ok := o.index[key]; ok {
			return slot
		}
		return -1
	}
	for slot, e := range slices.Backward(o.slots) {
		if e != nil && e.Key == key {
			return slot
		}
	}
	return -1
}

func (o *order) isLast(slot int) bool { return slot == len(o.slots)-1 }

// first returns the slot of the least recently used entry. There must be one.
func (o *order) first() int {
	for o.slots[o.head] == nil {
		o.head++
	}
	return o.head
}

// count adds an entry to the sums. With sign -1 it subtracts the entry.
func (o *order) count(e *pb.MemoryEntry, sign int) {
	o.bytes += sign * framed(e)
	o.valueBytes += int64(sign * len(e.Value))
	o.live += sign
}

// trim cuts empty slots off the end.
func (o *order) trim() {
	n := len(o.slots)
	for n > 0 && o.slots[n-1] == nil {
		n--
	}
	o.slots = o.slots[:n]
	o.head = min(o.head, n)
	if o.undo != nil {
		o.undo.floor = min(o.undo.floor, n)
	}
}

// take empties a slot whose entry is going to be pushed again.
func (o *order) take(slot int) {
	if o.undo != nil {
		o.undo.record(slot, o.slots[slot])
	}
	o.count(o.slots[slot], -1)
	o.slots[slot] = nil
	o.trim()
}

// drop empties a slot and removes its key from the index.
func (o *order) drop(slot int) {
	delete(o.index, o.slots[slot].Key)
	o.take(slot)
}

// push adds an entry as the most recent one. No slot may hold its key.
func (o *order) push(e *pb.MemoryEntry) {
	// If the array is full and at least half of its slots are empty, compact makes room.
	// Each empty slot is removed once, which keeps a push at constant time on average, and
	// an array has at most four times as many slots as it had entries.
	if len(o.slots) == cap(o.slots) {
		if first, live := o.movable(); 2*live <= len(o.slots)-first {
			o.compact()
		}
	}
	o.slots = append(o.slots, e)
	o.count(e, 1)
	if o.index != nil {
		o.index[e.Key] = len(o.slots) - 1
	} else if o.live > maxScan {
		o.reindex()
	}
}

// movable returns the first slot whose entry may be moved, and the number of entries in it
// and after it.
func (o *order) movable() (first, live int) {
	if o.undo == nil {
		return 0, o.live
	}
	return o.undo.floor, o.live - o.undo.untouched()
}

// compact removes the empty slots among those whose entries may be moved.
func (o *order) compact() {
	first, live := o.movable()
	if live == len(o.slots)-first {
		return
	}
	kept := o.slots[:first]
	for _, e := range o.slots[first:] {
		if e == nil {
			continue
		}
		// In a transaction few entries move, and maybe often: reindexing all would cost more.
		if o.undo != nil && o.index != nil {
			o.index[e.Key] = len(kept)
		}
		kept = append(kept, e)
	}
	clear(o.slots[len(kept):])
	o.slots, o.head = kept, min(o.head, first)
	o.stale = o.stale || o.undo == nil && o.index != nil
}

// entries returns the entries in order. It returns the slots themselves, or in a transaction
// a copy.
func (o *order) entries() []*pb.MemoryEntry {
	if o.undo != nil {
		return slices.AppendSeq(make([]*pb.MemoryEntry, 0, o.live), o.all())
	}
	o.compact()
	return o.slots
}

// all yields the entries, the least recently used first.
func (o *order) all() iter.Seq[*pb.MemoryEntry] {
	return func(yield func(*pb.MemoryEntry) bool) {
		for _, e := range o.slots {
			if e != nil && !yield(e) {
				return
			}
		}
	}
}

// framed is the length of an entry in an encoded blob, with its tag and its length.
func framed(e *pb.MemoryEntry) int {
	return entryBytes(len(e.Key), len(e.Value), e.LastAccessMs, unknownBytes(e))
}

func entryBytes(key, value int, lastAccessMS int64, unknown int) int {
	return 1 + protowire.SizeBytes(protofield.SizeBytes(1, key)+protofield.SizeBytes(2, value)+
		protofield.SizeVarint(3, uint64(lastAccessMS))+unknown)
}

// unknownBytes is the length of the unknown fields of a message, which may be nil.
func unknownBytes(m proto.Message) int { return len(m.ProtoReflect().GetUnknown()) }
