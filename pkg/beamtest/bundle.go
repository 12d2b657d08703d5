package beamtest

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
)

// addr addresses a part of a scope's state: a cell, or an entry of a Map or Set.
type addr struct {
	cell, mapKey string
	entry        bool
}

// bundle holds what its calls have written. They read everything else from the kit. The mutex of
// the kit guards the cells and ended; the rest belongs to the goroutine of the bundle.
type bundle struct {
	kit     *Kit
	scopes  map[scope]*overlay
	current *string // the key of the current or latest call
	emitted []func()
	err     error
	ended   error // after the end: the error of every use of the state
}

type overlay struct {
	bundle *bundle
	kit    *Kit
	scope  scope
	cells  map[addr][][]byte // an empty list is a cleared cell
	timerChanges
}

var errEnded = errors.New("beamtest: the bundle of this provider has ended: the SDK closes its state with it")

// begin opens a bundle. If Start fails, the bundle has failed.
func (k *Kit) begin() {
	k.FailBundle()
	k.bundle = &bundle{kit: k, scopes: map[scope]*overlay{}}
	_ = k.bundle.do(k.Start)
}

func (b *bundle) overlay(s scope) *overlay {
	o := b.scopes[s]
	if o == nil {
		o = &overlay{bundle: b, kit: b.kit, scope: s}
		b.scopes[s] = o
	}
	return o
}

// do makes a call, unless an earlier call has failed, because an SDK stops there.
func (b *bundle) do(call func() error) error {
	if b.err != nil || call == nil {
		return b.err
	}
	b.err = guarded(call)
	b.kit.mu.Lock()
	defer b.kit.mu.Unlock()
	if b.ended != nil {
		b.err = b.ended // the bundle has crashed, even if the call ignored it
	}
	return b.err
}

func guarded(call func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = fmt.Errorf("beamtest: panic: %w\n%s", p, debug.Stack())
		default:
			err = fmt.Errorf("beamtest: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return call()
}

func (b *bundle) run(s scope, call Call) error {
	sp, err := b.overlay(s).stateProvider()
	if err != nil {
		return err
	}
	b.current = &s.key
	return call(sp, &timerProvider{kit: b.kit, window: s.window})
}

func (o *overlay) stateProvider() (state.Provider, error) {
	if o.kit.SDK {
		return o.sdkProvider()
	}
	return &provider{overlay: o}, nil
}

// end closes the state of the bundle.
func (b *bundle) end() {
	b.kit.mu.Lock()
	defer b.kit.mu.Unlock()
	b.ended = cmp.Or(b.ended, errEnded)
}

// keep applies what the bundle has written and emitted to the kit.
func (b *bundle) keep() {
	b.kit.mu.Lock()
	defer b.kit.mu.Unlock()
	for _, deliver := range b.emitted {
		deliver()
	}
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

// entries returns the keys of the entries in a Map or Set, in order.
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

// Counts counts RPCs of the state API by kind.
type Counts struct {
	Reads   int // one for each Value, Bag or Combining that is read, however often it is read
	Clears  int
	Appends int // one for each slice that the coder writes: two for a message or bytes, mostly one otherwise
}

// Total returns the number of RPCs.
func (c Counts) Total() int { return c.Reads + c.Clears + c.Appends }

func (c Counts) String() string {
	return fmt.Sprintf("%d reads, %d clears, %d appends", c.Reads, c.Clears, c.Appends)
}

// RPCs returns the RPCs of the last Run, of the second run of the last Replay, or of the last
// Fire, those of Start and Finish included. After [Kit.StartBundle] it returns the RPCs of the
// whole bundle.
func (k *Kit) RPCs() Counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rpcs
}

// rpc counts an RPC in a counter of k.rpcs and calls do, unless the RPC is to fail.
func (o *overlay) rpc(counter *int, do func()) error {
	k := o.kit
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := o.bundle.step(); err != nil {
		return err
	}
	*counter++
	if k.failIn > 0 {
		k.failIn--
		if k.failIn == 0 {
			return k.fail
		}
	}
	do()
	return nil
}
