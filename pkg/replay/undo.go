package replay

import (
	"slices"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// undo is what Rollback needs: the cache at Begin, and the entries that its blob had and their
// stamps. These two are recorded when the blob changes for the first time. No other field of
// an entry ever changes.
type undo struct {
	before   Cache
	recorded bool
	entries  []*pb.LlmCacheEntry
	stamps   []int64 // LastAccessMs of the entries
}

// Begin starts a transaction, which Keep or Rollback ends. Do not store the cache during a
// transaction, since Rollback also restores Changes. Begin panics if a transaction has
// started already.
func (c *Cache) Begin() {
	if c.undo != nil {
		panic("replay: Begin in a transaction: call Keep or Rollback first")
	}
	c.undo = &undo{before: *c}
}

// Keep ends the transaction and keeps its changes. It panics outside of a transaction.
func (c *Cache) Keep() {
	if c.undo == nil {
		panic("replay: Keep outside of a transaction: call Begin first")
	}
	c.undo = nil
}

// Rollback ends the transaction and restores what was there at Begin: the entries with their
// order and stamps, now, and the result of Changes. It panics outside of a transaction.
func (c *Cache) Rollback() {
	u := c.undo
	if u == nil {
		panic("replay: Rollback outside of a transaction: call Begin first")
	}
	*c = u.before
	if u.recorded {
		for i, e := range u.entries {
			e.LastAccessMs = u.stamps[i]
		}
		c.setEntries(u.entries)
	}
}

// record is called before the entries change. It records them once. After a Clear the blob is
// a new one, whose entries need not be recorded.
func (c *Cache) record() {
	u := c.undo
	if u == nil || u.recorded || c.blob != u.before.blob {
		return
	}
	u.recorded, u.entries = true, slices.Clone(c.blob.Entries)
	u.stamps = make([]int64, len(u.entries))
	for i, e := range u.entries {
		u.stamps[i] = e.LastAccessMs
	}
}
