package replay

// Saved sets Changes to 0, as if the cache had just been opened.
func (c *Cache) Saved() { c.changes = 0 }
