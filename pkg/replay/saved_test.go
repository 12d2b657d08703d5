package replay

// Saved makes the cache as it is the one that Changed compares with.
func (c *Cache) Saved() { c.changes = 0 }
