package state

import (
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"github.com/beamagents/beamagents-go/pkg/memory"
	"github.com/beamagents/beamagents-go/pkg/migrate"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Memory is the cell of a key's working memory, which is a MemoryBlob. Its id is "memory".
type Memory struct {
	memoryCell
	opened[*MemoryHandle]
}

type memoryCell struct{ valueOf[*pb.MemoryBlob] }

// StateKey returns the id of the cell.
func (memoryCell) StateKey() string { return memoryID }

// MemoryHandle is the memory of a key during one call.
type MemoryHandle struct {
	*memory.Memory
	*stored[*pb.MemoryBlob]
}

// Open reads the memory. Entries that are used from here on are stamped with nowMS, in ms. Take
// it from the element, such as its event_time_ms, never from a clock. Fail the bundle if Open
// returns an error.
func (c *Memory) Open(sp beamstate.Provider, nowMS int64) (*MemoryHandle, error) {
	h, err := c.get(sp, func() (*MemoryHandle, error) {
		blob, cell, err := read[*pb.MemoryBlob](sp, memoryID, migrate.Stored())
		if err != nil {
			return nil, err
		}
		return &MemoryHandle{Memory: memory.New(blob, nowMS), stored: cell}, nil
	})
	if err != nil {
		return nil, err
	}
	h.SetNow(nowMS)
	return h, nil
}

// Commit writes the memory if it has changed, or clears the cell if the memory is empty. Fail the
// bundle if it returns an error.
func (h *MemoryHandle) Commit() error { return h.save(h.Memory) }

func (c *Memory) open(sp beamstate.Provider, nowMS int64) (func() error, error) {
	h, err := c.Open(sp, nowMS)
	if err != nil {
		return nil, err
	}
	return func() error { return h.drop(h.Memory) }, nil
}
