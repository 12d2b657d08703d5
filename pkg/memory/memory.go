// Package memory is the bounded working memory of one key, over its stored MemoryBlob.
//
//	m := memory.New(blob, nowMS)
//	err := m.Put("open_tickets", []byte("3"))
//	value, ok := m.Get("open_tickets")
//
// # Behaviour
//
// A [Memory] maps keys to bytes. Its entries are ordered from the least to the most
// recently used one, and that order is the order of the entries in the blob. [Memory.Put]
// moves its entry to the end, and so does a [Memory.Get] that finds one. When a Put would
// exceed a limit, the least recently used entries are evicted. The entry that was just
// written is never evicted: a value that does not fit even alone is an error, and the
// memory stays as it was.
//
// Each entry carries a stamp of its last use, which is the "now" of [New] or
// [Memory.SetNow] (ms, event time). Eviction follows the order and never the stamp. No
// clock is read.
//
// [Memory.Changed] reports whether the blob has to be written. A Get of the most recent entry
// changes neither order nor stamp, so that a key that is only read is not written. A Get of
// any other entry changes the order. A Put always counts as a change, unless order, value
// and stamp stay the same.
//
// Values are copied on their way in and out. The blob itself is not: New takes it over, and
// [Memory.Blob] hands it back.
//
// New repairs inconsistent blobs: it recomputes a wrong total, drops nil entries, and keeps
// only the last entry of a duplicate key. A repair counts as a change, so that the repaired
// blob is written. A blob stored without a version (stamp 0) is read as version 1, and the
// next write stores the version. Unknown fields of the blob and of its entries are kept
// until Clear, Delete or eviction; a Put keeps those of its entry.
//
// [Memory.Begin] starts a transaction. [Memory.Keep] ends it with all changes, and
// [Memory.Rollback] restores what was there at Begin. A transaction costs in proportion to
// the entries that it touches, whatever the size of the memory.
//
// # Limits
//
// The values of a memory have at most [MaxValueBytes] together, and the encoded blob has at
// most [MaxBlobBytes]. A key is 1 to [MaxKeyBytes] bytes of UTF-8. A stored blob that
// exceeds the limits is kept until the next Put. A stored key that breaks the rule can be
// read and deleted, but not written.
//
// Get, Put and Delete take constant time, averaged over many calls. A Memory belongs to one
// goroutine. Create it with New: the zero value cannot be used.
//
// # Differences
//
// The Python side puts a kind byte before each value, writes unchanged memories too, and
// changes stamp and order on every hit. It has ring values, and a compactor that deletes
// entries at the soft cap, the one just written included; a write above the hard cap fails
// there. Here a value is exactly the user's bytes, and entries are evicted at the hard cap.
package memory

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/beamagents/beamagents-go/pkg/internal/protofield"
	"github.com/beamagents/beamagents-go/pkg/internal/storedkey"
	"github.com/beamagents/beamagents-go/pkg/migrate"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Limits, in bytes.
const (
	MaxValueBytes  = 1 << 20               // of all values together
	SoftValueBytes = MaxValueBytes / 4 * 3 // of all values; see SoftCapReached
	MaxBlobBytes   = 2 << 20               // of the encoded blob
	MaxKeyBytes    = 1024                  // of a key
)

// What errors of Put wrap.
var (
	// ErrOverflow: the value exceeds a limit even if it is the only one.
	ErrOverflow = errors.New("value does not fit")
	// ErrKey: the key is empty, too long, or not UTF-8.
	ErrKey = errors.New("unusable key")
)

// Memory is the working memory of one key.
type Memory struct {
	blob    *pb.MemoryBlob // its entries are in order
	order   order
	nowMS   int64
	changes int

	softCapReached bool
	evicted        int
	evictedBytes   int64

	undo *undo // nil outside of a transaction
}

// New opens a blob of the current schema version at nowMS. The memory owns the blob from then
// on. A nil blob is an empty memory.
func New(blob *pb.MemoryBlob, nowMS int64) *Memory {
	if blob == nil {
		blob = new(pb.MemoryBlob)
	}
	m := &Memory{blob: blob, nowMS: nowMS}
	m.order.init(blob.Entries)
	if m.order.live != len(blob.Entries) || m.order.valueBytes != blob.TotalValueBytes {
		m.changes++
	}
	return m
}

// Get returns a copy of the value of key and true, or nil and false if there is no such key.
// An empty value is nil. The entry becomes the most recent one and is stamped with now. If it
// was the most recent one already, nothing changes.
func (m *Memory) Get(key string) ([]byte, bool) {
	slot := m.order.find(key)
	if slot < 0 {
		return nil, false
	}
	e := m.order.slots[slot]
	if !m.order.isLast(slot) {
		m.order.take(slot)
		e.LastAccessMs = m.nowMS
		m.order.push(e)
		m.changes++
	}
	return append([]byte(nil), e.Value...), true
}

// Put stores a copy of value under key. The entry becomes the most recent one and is stamped
// with now. Put then evicts other entries until no limit is exceeded. The error wraps ErrKey
// or ErrOverflow; then nothing has changed, and nothing was evicted.
func (m *Memory) Put(key string, value []byte) error {
	if fault := storedkey.Fault(key, MaxKeyBytes); fault != "" {
		return fmt.Errorf("memory: %w: %s", ErrKey, fault)
	}
	slot := m.order.find(key)
	var e *pb.MemoryEntry
	if slot >= 0 {
		e = m.order.slots[slot]
	}
	if err := m.checkFits(key, value, e); err != nil {
		return err
	}
	if slot < 0 || !m.order.isLast(slot) || e.LastAccessMs != m.nowMS || !bytes.Equal(e.Value, value) {
		if slot >= 0 {
			m.order.take(slot)
		} else {
			e = &pb.MemoryEntry{Key: key}
		}
		e.Value, e.LastAccessMs = append([]byte(nil), value...), m.nowMS
		m.order.push(e)
		m.changes++
	}
	for m.order.valueBytes > MaxValueBytes || m.BlobBytes() > MaxBlobBytes {
		first := m.order.first()
		m.evicted++
		m.evictedBytes += int64(len(m.order.slots[first].Value))
		m.order.drop(first)
		m.changes++
	}
	if m.order.valueBytes >= SoftValueBytes {
		m.softCapReached = true
	}
	return nil
}

// checkFits checks that value fits into a memory in which it is the only one. Its entry keeps
// the unknown fields of old, which is nil for a new key.
func (m *Memory) checkFits(key string, value []byte, old *pb.MemoryEntry) error {
	if len(value) > MaxValueBytes {
		return fmt.Errorf("memory: %w: it has %d bytes, the cap is %d (key %q)", ErrOverflow, len(value), MaxValueBytes, key)
	}
	entry := entryBytes(len(key), len(value), m.nowMS, unknownBytes(old))
	if alone := m.blobBytes(entry, int64(len(value))); alone > MaxBlobBytes {
		return fmt.Errorf("memory: %w: %d bytes make a blob of %d with nothing beside them, the cap is %d (key %q)",
			ErrOverflow, len(value), alone, MaxBlobBytes, key)
	}
	return nil
}

// Delete removes the entry of key and reports whether there was one. If not, nothing
// changes.
func (m *Memory) Delete(key string) bool {
	slot := m.order.find(key)
	if slot < 0 {
		return false
	}
	m.order.drop(slot)
	m.changes++
	return true
}

// Clear removes everything, also the unknown fields of the blob. If the memory is empty,
// nothing changes.
func (m *Memory) Clear() {
	if m.Empty() {
		return
	}
	if m.order.undo != nil {
		m.order.undo.cleared = new(m.order)
	}
	m.blob, m.order = new(pb.MemoryBlob), order{}
	m.changes++
}

// All yields the keys and copies of the values as they are when the loop begins, the least
// recently used first. It changes neither order nor stamps. The loop may change the memory.
func (m *Memory) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		type pair struct {
			key   string
			value []byte // its bytes never change: a Put replaces the slice
		}
		pairs := make([]pair, 0, m.order.live)
		for e := range m.order.all() {
			pairs = append(pairs, pair{e.Key, e.Value})
		}
		for _, p := range pairs {
			if !yield(p.key, append([]byte(nil), p.value...)) {
				return
			}
		}
	}
}

// Keys yields the keys as All does, without copying the values.
func (m *Memory) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		keys := make([]string, 0, m.order.live)
		for e := range m.order.all() {
			keys = append(keys, e.Key)
		}
		slices.Values(keys)(yield)
	}
}

// SetNow sets the "now", in ms, of the calls that follow.
func (m *Memory) SetNow(nowMS int64) { m.nowMS = nowMS }

// Empty reports whether there is nothing to store: neither an entry nor an unknown field.
func (m *Memory) Empty() bool { return m.order.live == 0 && unknownBytes(m.blob) == 0 }

// Len is the number of entries.
func (m *Memory) Len() int { return m.order.live }

// ValueBytes is the length of all values together, which MaxValueBytes limits.
func (m *Memory) ValueBytes() int64 { return m.order.valueBytes }

// BlobBytes is the length of the encoded blob, which MaxBlobBytes limits. It takes constant
// time, since it does not encode the blob.
func (m *Memory) BlobBytes() int { return m.blobBytes(m.order.bytes, m.order.valueBytes) }

// blobBytes is the length of an encoded blob whose entries take entries bytes, with their
// tags and lengths, and whose values have values bytes together.
func (m *Memory) blobBytes(entries int, values int64) int {
	return protofield.SizeVarint(1, uint64(migrate.Current)) + entries + protofield.SizeVarint(3, uint64(values)) + unknownBytes(m.blob)
}

// Changes is the number of changes and repairs since New. A caller that has stored Blob has
// to store it again when the number has changed.
func (m *Memory) Changes() int { return m.changes }

// Changed reports whether anything was changed or repaired since New.
func (m *Memory) Changed() bool { return m.changes > 0 }

// Evicted returns how many entries Put has evicted since New, and the length of their
// values together.
func (m *Memory) Evicted() (entries int, valueBytes int64) { return m.evicted, m.evictedBytes }

// SoftCapReached reports whether the values had SoftValueBytes or more after a Put since New:
// a sign that entries will soon be evicted.
func (m *Memory) SoftCapReached() bool { return m.softCapReached }

// Blob returns the blob to store, with the current version, the entries in order and the
// right total. It still belongs to the memory: encode it or clone it before the next call.
func (m *Memory) Blob() *pb.MemoryBlob {
	m.blob.StateSchemaVersion = migrate.Current
	m.blob.Entries = m.order.entries()
	m.blob.TotalValueBytes = m.order.valueBytes
	return m.blob
}
