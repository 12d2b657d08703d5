package state

import (
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"github.com/beamagents/beamagents-go/pkg/migrate"
	"github.com/beamagents/beamagents-go/pkg/replay"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// ReplayCache is the cell of a key's cached model responses, which is an LlmCacheBlob. Its id is
// "llm_cache".
type ReplayCache struct {
	replayCacheCell
	opened[*ReplayCacheHandle]
}

type replayCacheCell struct{ valueOf[*pb.LlmCacheBlob] }

// StateKey returns the id of the cell.
func (replayCacheCell) StateKey() string { return replayCacheID }

// ReplayCacheHandle is the replay cache of a key during one call.
type ReplayCacheHandle struct {
	*replay.Cache
	*stored[*pb.LlmCacheBlob]
}

// Open reads the cache. New entries are stamped with nowMS, in ms, and entries whose life has
// ended by then are ignored. Take it from the element, such as its event_time_ms, never from a
// clock. Fail the bundle if Open returns an error.
func (c *ReplayCache) Open(sp beamstate.Provider, nowMS int64) (*ReplayCacheHandle, error) {
	h, err := c.get(sp, func() (*ReplayCacheHandle, error) {
		blob, cell, err := read[*pb.LlmCacheBlob](sp, replayCacheID, migrate.Stored())
		if err != nil {
			return nil, err
		}
		return &ReplayCacheHandle{Cache: replay.New(blob, nowMS), stored: cell}, nil
	})
	if err != nil {
		return nil, err
	}
	h.SetNow(nowMS)
	return h, nil
}

// Commit writes the cache if it has changed, or clears the cell if the cache is empty. Fail the
// bundle if it returns an error.
func (h *ReplayCacheHandle) Commit() error { return h.save(h.Cache) }

func (c *ReplayCache) open(sp beamstate.Provider, nowMS int64) (func() error, error) {
	h, err := c.Open(sp, nowMS)
	if err != nil {
		return nil, err
	}
	return func() error { return h.drop(h.Cache) }, nil
}
