package beamtest

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
)

// addr is a part of a scope's state: a cell or, in a Map or Set, an entry of one.
type addr struct {
	cell, mapKey string
	entry        bool
}

// bundle holds what its calls have written; what they read and have not written is the
// kit's.
type bundle struct {
	kit    *Kit
	scopes map[scope]*overlay
	err    error
}

type overlay struct {
	kit   *Kit
	scope scope
	cells map[addr][][]byte // an empty list is a cleared cell
	timerChanges
	err error // of a provider method that returns none
}

func newBundle(k *Kit) *bundle {
	return &bundle{kit: k, scopes: map[scope]*overlay{}}
}

func (b *bundle) overlay(s scope) *overlay {
	o := b.scopes[s]
	if o == nil {
		o = &overlay{kit: b.kit, scope: s}
		b.scopes[s] = o
	}
	return o
}

func (b *bundle) run(s scope, call Call) (err error) {
	o := b.overlay(s)
	sp, err := o.stateProvider()
	if err != nil {
		return err
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = fmt.Errorf("beamtest: panic: %w\n%s", p, debug.Stack())
		default:
			err = fmt.Errorf("beamtest: panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := call(sp, (*timerProvider)(o)); err != nil {
		return err
	}
	return o.err
}

func (o *overlay) stateProvider() (state.Provider, error) {
	if o.kit.SDK {
		return o.sdkProvider()
	}
	return &provider{overlay: o}, nil
}

// keep makes the bundle's writes the kit's.
func (b *bundle) keep() {
	for s, o := range b.scopes {
		for a, chunks := range o.cells {
			if len(chunks) == 0 {
				delete(b.kit.state[s], a)
			} else {
				b.kit.put(s, a, chunks)
			}
		}
		for id, t := range o.modified {
			if t.Clear {
				delete(b.kit.timers[s], id)
				continue
			}
			if b.kit.timers[s] == nil {
				b.kit.timers[s] = map[timerID]timers.TimerMap{}
			}
			b.kit.timers[s][id] = t
		}
	}
}

func (o *overlay) read(a addr) [][]byte {
	if chunks, ok := o.cells[a]; ok {
		return chunks
	}
	return o.kit.state[o.scope][a]
}

func (o *overlay) write(a addr, chunks [][]byte) {
	if o.cells == nil {
		o.cells = map[addr][][]byte{}
	}
	o.cells[a] = chunks
}

func (o *overlay) append(a addr, chunk []byte) {
	o.write(a, append(slices.Clip(o.read(a)), slices.Clone(chunk)))
}

// entries are the keys of a Map or Set that has one, in order.
func (o *overlay) entries(cell string) (keys []string) {
	seen := map[string]bool{}
	collect := func(cells map[addr][][]byte) {
		for a := range cells {
			if a.cell == cell && a.entry && !seen[a.mapKey] && len(o.read(a)) > 0 {
				seen[a.mapKey] = true
				keys = append(keys, a.mapKey)
			}
		}
	}
	collect(o.kit.state[o.scope])
	collect(o.cells)
	slices.Sort(keys)
	return keys
}

// Counts are RPCs of the state API, by kind.
type Counts struct {
	Reads   int // one for a Value, Bag or Combining that is read, however often
	Clears  int
	Appends int // one for each slice that the coder writes: two for a message or bytes, else mostly one
}

// Total is the number of RPCs.
func (c Counts) Total() int { return c.Reads + c.Clears + c.Appends }

func (c Counts) String() string {
	return fmt.Sprintf("%d reads, %d clears, %d appends", c.Reads, c.Clears, c.Appends)
}

// RPCs are what the last Run, the second run of the last Replay, or the last Fire asked
// of the runner.
func (k *Kit) RPCs() Counts { return k.rpcs }

// rpc counts one, in a counter of k.rpcs, and fails if it is its turn.
func (k *Kit) rpc(counter *int) error {
	*counter++
	if k.failIn > 0 {
		k.failIn--
		if k.failIn == 0 {
			return k.fail
		}
	}
	return nil
}
