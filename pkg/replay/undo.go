package replay

import (
	"slices"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// undo is what a Rollback needs: the cache at Begin and, from the first change of its
// blob on, the entries that the blob had and their stamps. All else of an entry never
// changes.
type undo struct {
	before   Cache
	recorded bool
	entries  []*pb.LlmCacheEntry
	stamps   []int64
}

// Begin starts a transaction: until Keep or Rollback ends it, what is done can be undone.
// Store the cache before or after a transaction, not in it, since Rollback sets Changes
// back, too. Begin panics in a transaction.
func (c *Cache) Begin() {
	if c.undo != nil {
		panic("replay: Begin in a transaction: call Keep or Rollback first")
	}
	c.undo = &undo{before: *c}
}

// Keep ends the transaction and keeps all that was done in it. It panics outside of one.
func (c *Cache) Keep() {
	if c.undo == nil {
		panic("replay: Keep outside of a transaction: call Begin first")
	}
	c.undo = nil
}

// Rollback ends the transaction and makes the cache what it was at Begin: entries, their
// order and stamps, now, and what Changes says. It panics outside of a transaction.
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

// record is called before the entries change. After a Clear the blob is another one, with
// nothing to record.
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
