package memory

// Saved makes the memory as it is the one that Changed compares with.
func (m *Memory) Saved() { m.changes = 0 }
