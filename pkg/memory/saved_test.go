package memory

// Saved sets Changes to 0, as if the memory had just been opened.
func (m *Memory) Saved() { m.changes = 0 }
