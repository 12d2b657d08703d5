package state

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"github.com/beamagents/beamagents-go/pkg/coders"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
)

// Deferred is the cell of the events that wait for the end of a suspension. It is a bag of
// DeferredEvent. Its id is "deferred".
type Deferred struct {
	deferredCell
	opened[*DeferredHandle]
}

type deferredCell struct{}

// StateKey returns the id of the cell.
func (deferredCell) StateKey() string { return deferredID }

// KeyCoderType tells Beam that the cell is not a map.
func (deferredCell) KeyCoderType() reflect.Type { return nil }

// CoderType tells Beam the type that the cell holds.
func (deferredCell) CoderType() reflect.Type { return reflect.TypeFor[*runtimepb.DeferredEvent]() }

// StateType tells Beam that the cell is a bag.
func (deferredCell) StateType() beamstate.TypeEnum { return beamstate.TypeBag }

// DeferredHandle holds the deferred events of a key during one call.
type DeferredHandle struct {
	bag     beamstate.Bag[*runtimepb.DeferredEvent]
	sp      beamstate.Provider
	read    bool                       // the bag was read
	stored  []*runtimepb.DeferredEvent // events in the bag that stay there
	added   []*runtimepb.DeferredEvent
	cleared bool  // the bag must be cleared
	err     error // of a failed RPC, after which the stored events are unknown
}

// Open returns a handle without reading the cell, because adding an event needs no read.
func (c *Deferred) Open(sp beamstate.Provider) *DeferredHandle {
	h, err := c.get(sp, func() (*DeferredHandle, error) {
		return &DeferredHandle{bag: beamstate.MakeBagState[*runtimepb.DeferredEvent](deferredID), sp: sp}, nil
	})
	if err != nil {
		return &DeferredHandle{err: err}
	}
	return h
}

// Events returns the events in the order of their arrival numbers, because a bag has no order. It
// reads the cell at its first call. Fail the bundle if it returns an error.
func (h *DeferredHandle) Events() ([]*runtimepb.DeferredEvent, error) {
	if h.err != nil {
		return nil, h.err
	}
	if !h.read {
		stored, _, err := h.bag.Read(h.sp)
		if err != nil {
			return nil, h.fail("read", err)
		}
		h.stored, h.read = stored, true
	}
	events := slices.Concat(h.stored, h.added)
	slices.SortStableFunc(events, func(a, b *runtimepb.DeferredEvent) int { return cmp.Compare(a.GetArrival(), b.GetArrival()) })
	return events, nil
}

// Add adds an event. An error says why it cannot be stored, as for [Handle.Put].
func (h *DeferredHandle) Add(event *runtimepb.DeferredEvent) error {
	if event.GetEnvelope() == nil {
		return fmt.Errorf("state: add to %s: the event has no envelope: %w", deferredID, coders.ErrNil)
	}
	if err := coders.CheckText(event); err != nil {
		return fmt.Errorf("state: add to %s: %w", deferredID, err)
	}
	h.added = append(h.added, event)
	return nil
}

// Clear removes all events. To keep some of them, add them again: a bag can only be cleared as a
// whole.
func (h *DeferredHandle) Clear() {
	h.cleared = h.cleared || !h.read || len(h.stored) > 0
	h.read, h.stored, h.added = true, nil, nil
}

// Commit clears the bag if Clear was called, with 1 RPC, and writes each event that was added
// since, with 2 RPCs. Fail the bundle if it returns an error.
func (h *DeferredHandle) Commit() error {
	if h.err != nil {
		return h.err
	}
	if h.cleared {
		if err := h.bag.Clear(h.sp); err != nil {
			return h.fail("clear", err)
		}
		h.cleared = false
	}
	for _, event := range h.added {
		if err := h.bag.Add(h.sp, event); err != nil {
			return h.fail("add to", err)
		}
	}
	h.stored, h.added = append(h.stored, h.added...), nil // a later read replaces stored
	return nil
}

func (h *DeferredHandle) fail(what string, err error) error {
	h.err = fmt.Errorf("state: %s %s: %w", what, deferredID, err)
	return h.err
}

func (c *Deferred) open(sp beamstate.Provider, _ int64) (func() error, error) {
	h := c.Open(sp)
	return func() error {
		h.Clear()
		return h.Commit()
	}, nil
}
