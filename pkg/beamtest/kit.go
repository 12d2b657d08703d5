// Package beamtest runs the methods of a stateful DoFn without a runner. It is for unit tests
// that check state to the byte, RPCs and timers.
//
// # Behaviour
//
// [New] makes a [Kit] from a DoFn, in the form in which Beam would take it. A Kit provides the
// state.Provider and the timers.Provider for the calls of a test. It keeps state as encoded
// bytes, so a call reads what a coder wrote, and never a pointer that another call kept.
//
// A [Kit.Run] is a bundle with one element, unless [Kit.StartBundle] has begun a longer bundle,
// with several keys and timers. The kit calls [Kit.Start] and [Kit.Finish] at the start and the
// end of a bundle. When a bundle fails, the kit drops what the bundle has written and emitted to
// an [Output], as a runner does before it retries. [Kit.Replay] runs a call twice, [Kit.FailAt]
// makes an RPC fail, [Kit.CrashAt] makes the worker crash at any step, and [Kit.Fire] fires the
// timers that are due. [Kit.RPCs] returns how many RPCs the calls would have sent to a runner. An
// RPC takes about 80 microseconds on the embedded runner. RPCs are the main cost of keyed state
// on every runner.
//
// Here a DoFn that collects the elements of a key, and works and commits in FinishBundle, is
// tested with a crash at each step:
//
//	for n := 1; ; n++ {
//		fn := new(batchFn) // a bundle is retried by a new one
//		kit.Start = func() error { return fn.StartBundle(out.Emit) }
//		kit.Finish = func() error { return fn.FinishBundle(out.Emit) }
//		kit.CrashAt(n)
//		_ = kit.StartBundle()
//		_ = kit.Run("a", process(fn, "1"))
//		_ = kit.Run("b", process(fn, "2"))
//		_ = kit.Fire(1000, onTimer(fn))
//		if err := kit.FinishBundle(); !errors.Is(err, beamtest.ErrCrash) {
//			break // there are no more steps; err must be nil
//		}
//	}
//
// The kit's own provider behaves like the SDK's, including its faults. A Value that was read as
// absent and then written is still absent to a second Read of the same call. If a timer is
// cleared in a bundle in which a later timer of the key fires, the cleared timer fires itself, at
// event time 0. A timer that is set through the provider of an earlier call belongs to the key of
// the current call. If [Kit.SDK] is set, state goes through the SDK's own provider, which is
// slower but also knows Map, Set and OrderedList.
//
// # Limits
//
// A Kit belongs to one goroutine. While a bundle is open, other goroutines may use its state.
// They must not use timers and outputs, as in the SDK, and the race detector reports it. The
// kit's own provider knows Value, Bag and Combining; a call for another kind of state returns an
// error. The state of a window is kept when the window has ended. The kit accepts a DoFn with two timer families, although the embedded runner
// hangs on one.
//
// The kit calls only the functions that it is given; the test supplies elements and side inputs.
//
// # Differences from runners
//
// A runner may order the calls of a key, and timers of equal time, in any way. The kit orders
// timers by time, family and tag, and treats timers in event time and in processing time alike.
package beamtest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
)

// Kit holds the state and the timers of all keys of one DoFn.
type Kit struct {
	// Window is the window of the calls that follow, because state and timers are per key and
	// window. Nil is the global window; otherwise it must be an interval window.
	Window typex.Window
	// SDK makes the calls that follow use the state provider of the SDK instead of the kit's own.
	SDK bool
	// Start and Finish call the DoFn's StartBundle and FinishBundle, if it has them. The kit
	// calls them for each bundle, as an SDK does: Finish comes after the last call, unless a call
	// has failed. An error or a panic of either fails the bundle.
	Start, Finish func() error

	cells    map[string]*cell
	families map[string]timers.TimeDomain

	state  map[scope]map[addr][][]byte
	timers map[scope]map[timerID]timers.TimerMap
	bundle *bundle

	mu      sync.Mutex // guards state, the cells of a bundle, and the fields below
	rpcs    Counts
	failIn  int
	fail    error
	crashIn int
}

// Call calls a method of the DoFn with the providers that the method would get, and returns the
// error of the method. An error fails the bundle.
type Call func(sp state.Provider, tp timers.Provider) error

// ErrInjected is the default error of an RPC that fails because of [Kit.FailAt].
var ErrInjected = errors.New("beamtest: injected failure")

// New returns an empty Kit for a DoFn with state. fn is a pointer to a struct whose element is a
// key and a value. If Beam would refuse the DoFn in a pipeline, New returns Beam's error.
func New(fn any) (k *Kit, err error) {
	if reflect.ValueOf(fn).Kind() != reflect.Pointer {
		return nil, fmt.Errorf("beamtest: %T is not a pointer to a DoFn: cells of a DoFn that is passed by value are copied for each call", fn)
	}
	defer func() {
		if p := recover(); p != nil { // beam.ParDo panics, too, for cells that it cannot store
			k, err = nil, fmt.Errorf("beamtest: %v", p)
		}
	}()
	dofn, err := graph.NewDoFn(fn, graph.NumMainInputs(graph.MainKv))
	if err != nil {
		return nil, fmt.Errorf("beamtest: %w", err)
	}
	k = &Kit{
		cells:    map[string]*cell{},
		families: map[string]timers.TimeDomain{},
		state:    map[scope]map[addr][][]byte{},
		timers:   map[scope]map[timerID]timers.TimerMap{},
	}
	for _, ps := range dofn.PipelineState() {
		if k.cells[ps.StateKey()], err = newCell(ps); err != nil {
			return nil, fmt.Errorf("beamtest: cell %s: %w", ps.StateKey(), err)
		}
	}
	pipelineTimers, _ := dofn.PipelineTimers()
	for _, pt := range pipelineTimers {
		maps.Copy(k.families, pt.Timers())
	}
	return k, nil
}

// Run makes a call for a key. A panic of the call is returned as an error, because a panic fails
// a bundle, and is the only way for an OnTimer to do so. Outside of a bundle of [Kit.StartBundle]
// the call is a bundle of its own: its writes are kept if it returns nil, and dropped otherwise.
func (k *Kit) Run(key string, call Call) error {
	if k.bundle == nil {
		k.resetRPCs()
		k.begin()
		_ = k.Run(key, call)
		return k.FinishBundle()
	}
	b := k.bundle
	return b.do(func() error { return b.run(k.scope(key), call) })
}

func (k *Kit) resetRPCs() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rpcs = Counts{}
}

// Writes says what [Kit.Replay] does with the writes of the first run.
type Writes int

const (
	// Dropped simulates a bundle that fails after the call, even if the call succeeded, and is
	// retried.
	Dropped Writes = iota
	// Kept simulates an element that is delivered twice.
	Kept
)

// Replay makes a call for a key twice. It returns the error of the second run, or of the first
// run if that fails and its writes are to be kept. If the writes are dropped, a deterministic
// call emits the same both times.
func (k *Kit) Replay(key string, first Writes, call Call) error {
	if k.bundle != nil {
		return errors.New("beamtest: Replay starts its own bundles: finish the open bundle first")
	}
	switch first {
	case Dropped:
		k.begin()
		_ = k.Run(key, call)
		_ = k.bundle.do(k.Finish)
		k.FailBundle()
	case Kept:
		if err := k.Run(key, call); err != nil {
			return err
		}
	}
	return k.Run(key, call)
}

// StartBundle begins a bundle of several calls, for any keys and timers. The calls see each
// other's writes. The providers of a call may be used until the bundle ends, also in Finish. The
// state of such a provider is that of its call's key; any goroutine may use it, but only one at a
// time. A timer belongs to the key of the current or latest call, and must be set on the
// goroutine of the calls. StartBundle drops a bundle that is open. It returns the error of Start.
func (k *Kit) StartBundle() error {
	k.resetRPCs()
	k.begin()
	return k.bundle.err
}

// FinishBundle ends the bundle. If Start, a call or Finish has returned an error, FinishBundle
// returns it and drops what the bundle has written and emitted. Otherwise it keeps all of that.
func (k *Kit) FinishBundle() error {
	b := k.bundle
	if b == nil {
		return errors.New("beamtest: no bundle is open")
	}
	_ = b.do(k.Finish)
	err := b.do(func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		return b.step() // the runner may still fail to commit it
	})
	k.FailBundle()
	if err == nil {
		b.keep()
	}
	return err
}

// FailBundle ends the bundle without Finish, and drops what it has written and emitted. If no
// bundle is open, it does nothing.
func (k *Kit) FailBundle() {
	if k.bundle != nil {
		k.bundle.end()
		k.bundle = nil
	}
}

// FailAt makes the n-th RPC from now fail with err, or with [ErrInjected] if err is nil. 1 is the
// next RPC, and 0 cancels an earlier FailAt.
func (k *Kit) FailAt(n int, err error) {
	if err == nil {
		err = ErrInjected
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failIn, k.fail = n, err
}

// Keys returns the keys that have state or timers, in order.
func (k *Kit) Keys() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	keys := map[string]bool{}
	for s, cells := range k.state {
		if len(cells) > 0 && s == k.scope(s.key) {
			keys[s.key] = true
		}
	}
	for s, all := range k.timers {
		if len(all) > 0 && s == k.scope(s.key) {
			keys[s.key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// Bytes returns the bytes of a cell as the runner would store them, or nil if the cell is empty.
// A message in a Value has its length before it, as a varint. A Bag has its items one after the
// other.
func (k *Kit) Bytes(key, cell string) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []byte
	for _, chunk := range k.state[k.scope(key)][addr{cell: cell}] {
		all = append(all, chunk...)
	}
	return all
}

// Values returns the decoded contents of a cell: at most one value for a Value, and all items for
// a Bag.
func (k *Kit) Values(key, cell string) (values []any, err error) {
	c, ok := k.cells[cell]
	if !ok {
		return nil, fmt.Errorf("beamtest: the DoFn has no cell %q", cell)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	values, err = c.decodeAll(&chunkReader{chunks: k.state[k.scope(key)][addr{cell: cell}]})
	if err != nil {
		return nil, fmt.Errorf("beamtest: cell %s: %w", cell, err)
	}
	return values, nil
}

// SetBytes sets the bytes of a cell, as [Kit.Bytes] returns them. Use it for state that another
// program has left. An empty b clears the cell.
func (k *Kit) SetBytes(key, cell string, b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.scope(key)
	if len(b) == 0 {
		delete(k.state[s], addr{cell: cell})
		return
	}
	k.put(s, addr{cell: cell}, [][]byte{append([]byte(nil), b...)})
}

// SetValue encodes a value with the coder of the cell. It sets a Value, or adds an item to a Bag.
func (k *Kit) SetValue(key, cell string, value any) error {
	c, ok := k.cells[cell]
	if !ok {
		return fmt.Errorf("beamtest: the DoFn has no cell %q", cell)
	}
	switch {
	case c.kind != state.TypeValue && c.kind != state.TypeBag:
		return fmt.Errorf("beamtest: cell %s is neither a Value nor a Bag", cell)
	case reflect.TypeOf(value) != c.typ:
		return fmt.Errorf("beamtest: cell %s holds %v, not %T", cell, c.typ, value)
	}
	chunks := &chunkWriter{}
	if err := c.enc.Encode(&exec.FullValue{Elm: value}, chunks); err != nil {
		return fmt.Errorf("beamtest: cell %s: %w", cell, err)
	}
	s := k.scope(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.kind == state.TypeBag {
		chunks.chunks = slices.Concat(k.state[s][addr{cell: cell}], chunks.chunks)
	}
	k.put(s, addr{cell: cell}, chunks.chunks)
	return nil
}

func (k *Kit) put(s scope, a addr, chunks [][]byte) {
	if k.state[s] == nil {
		k.state[s] = map[addr][][]byte{}
	}
	k.state[s][a] = chunks
}

// scope is a key in a window, which owns state and timers.
type scope struct {
	key    string
	window typex.Window
}

func (k *Kit) scope(key string) scope {
	if k.Window == nil {
		return scope{key, window.GlobalWindow{}}
	}
	return scope{key, k.Window}
}

func windowCoder(w typex.Window) *coder.WindowCoder {
	if _, ok := w.(window.IntervalWindow); ok {
		return coder.NewIntervalWindow()
	}
	return coder.NewGlobalWindow()
}
