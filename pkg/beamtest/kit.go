// Package beamtest runs the methods of a stateful DoFn without a runner, for unit tests
// that see every byte of state, every RPC and every timer.
//
// # Behaviour
//
// A [Kit] is made from a DoFn, in the form in which Beam would take it, and provides the
// state.Provider and the timers.Provider for the calls of a test. State is held as encoded
// bytes, so that a call reads what a coder wrote and never a pointer that another call
// kept.
//
// One [Kit.Run] is one bundle of one element, unless [Kit.StartBundle] has begun a longer
// bundle, with several keys and timers. The kit calls [Kit.Start] and [Kit.Finish] at the
// ends of a bundle. When a bundle fails, the kit drops what it wrote and what it emitted to
// an [Output], as a runner does before it tries again. [Kit.Replay] runs a call twice,
// [Kit.FailAt] lets an RPC fail, [Kit.CrashAt] lets the worker die at any step, and
// [Kit.Fire] delivers the timers that are due. [Kit.RPCs] lists the RPCs that the calls
// would have sent to a runner. They cost about 80 microseconds each on the embedded runner
// and are the main cost of keyed state on every runner.
//
// A DoFn that gathers the elements of a key, and works and commits in FinishBundle, is
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
// The kit's own provider reproduces the SDK's, faults included. A Value that was read as
// absent and then written is still absent to a second Read of the same call. A timer that
// is cleared in a bundle in which a later timer of the key fires is fired itself, at event
// time 0. A timer that is set through the provider of an earlier call belongs to the key of
// the current call. With [Kit.SDK] set, state goes through the SDK's own provider, which is
// slower and also knows Map, Set and OrderedList.
//
// # Limits
//
// A Kit belongs to one goroutine. Only state may be used from others while a bundle is
// open; timers and outputs may not, as in the SDK, and the race detector reports it. The
// kit's own provider knows Value, Bag and Combining. The state of a window remains when the
// window has ended. The kit accepts a DoFn with two timer families, although the embedded
// runner hangs on one.
//
// The kit calls nothing but the functions that it is given: the test supplies elements and
// side inputs.
//
// # Differences
//
// A runner may order the calls of a key, and timers of equal time, as it likes. The kit
// orders timers by time, family and tag, and fires timers of event time and of processing
// time alike.
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
	// Window of the calls that follow: state and timers are per key and window. Nil is
	// the global window; else an interval window.
	Window typex.Window
	// SDK lets the calls that follow use the state provider of the SDK instead of the
	// kit's own.
	SDK bool
	// Start and Finish are the calls of the DoFn's StartBundle and FinishBundle, if it has
	// them. The kit makes them for each bundle, as an SDK does: Finish after the last call,
	// unless one has failed. An error of theirs, or a panic, fails the bundle.
	Start, Finish func() error

	cells    map[string]*cell
	families map[string]timers.TimeDomain

	state  map[scope]map[addr][][]byte
	timers map[scope]map[timerID]timers.TimerMap
	bundle *bundle

	mu      sync.Mutex // for state, the cells of a bundle, and what follows
	rpcs    Counts
	failIn  int
	fail    error
	crashIn int
}

// Call is a call of a DoFn's method, with the providers that it would get. What it
// returns is what the method returns: an error fails the bundle.
type Call func(sp state.Provider, tp timers.Provider) error

// ErrInjected is the error of an RPC that [Kit.FailAt] lets fail.
var ErrInjected = errors.New("beamtest: injected failure")

// New returns an empty Kit for a DoFn with state, a pointer to a struct whose element is
// a key and a value. The error is Beam's own if Beam would refuse the DoFn in a pipeline.
func New(fn any) (k *Kit, err error) {
	if reflect.ValueOf(fn).Kind() != reflect.Pointer {
		return nil, fmt.Errorf("beamtest: %T is not a pointer to a DoFn: cells of a DoFn that is passed by value are copied for each call", fn)
	}
	defer func() {
		if p := recover(); p != nil { // as beam.ParDo does with cells that it cannot store
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

// Run makes a call for a key. A panic in it is its error, as it fails a bundle: the only
// way of an OnTimer. Outside a bundle of [Kit.StartBundle] the call is a bundle
// of its own: its writes are kept if it returns nil, else dropped.
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

// Writes says what becomes of the writes of a call's first run in [Kit.Replay].
type Writes int

const (
	// Dropped is for a bundle that failed after the call, whatever that returned, and is retried.
	Dropped Writes = iota
	// Kept is for an element that was delivered twice.
	Kept
)

// Replay makes a call for a key twice, and returns the error of the second run, or of
// the first, if its writes are to be kept. A call that is deterministic emits the same
// both times when the writes are dropped.
func (k *Kit) Replay(key string, first Writes, call Call) error {
	if k.bundle != nil {
		return errors.New("beamtest: Replay makes bundles of its own; finish the one that is open")
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

// StartBundle begins a bundle of several calls, of any keys and timers, which see each
// other's writes. A provider of one of its calls may be used until the bundle ends, in
// Finish too: its state is that of the call's key, from any goroutine, as long as no other
// uses the same provider; a timer that it sets belongs to the key of the call that is
// running, or ran last, and is set on the goroutine of the calls. An open bundle is
// dropped. The error is that of Start.
func (k *Kit) StartBundle() error {
	k.resetRPCs()
	k.begin()
	return k.bundle.err
}

// FinishBundle ends the bundle. What it wrote and emitted is kept, unless Start, one of its
// calls, or Finish returned an error: that is returned, and all is dropped.
func (k *Kit) FinishBundle() error {
	b := k.bundle
	if b == nil {
		return errors.New("beamtest: no bundle is open")
	}
	_ = b.do(k.Finish)
	err := b.do(func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		return b.step() // the runner may yet refuse it
	})
	k.FailBundle()
	if err == nil {
		b.keep()
	}
	return err
}

// FailBundle ends the bundle without Finish, and drops what it wrote and emitted. Without a
// bundle it does nothing.
func (k *Kit) FailBundle() {
	if k.bundle != nil {
		k.bundle.end()
		k.bundle = nil
	}
}

// FailAt lets the n-th RPC from now fail, with err, or with [ErrInjected] if that is nil.
// The first is 1; 0 takes the order back.
func (k *Kit) FailAt(n int, err error) {
	if err == nil {
		err = ErrInjected
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failIn, k.fail = n, err
}

// Keys are the keys that have state or timers, in order.
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

// Bytes are the bytes of a cell as the runner would hold them, nil if it is empty. A
// message of a Value has its length in front, as a varint. Bags hold their items one
// after the other.
func (k *Kit) Bytes(key, cell string) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []byte
	for _, chunk := range k.state[k.scope(key)][addr{cell: cell}] {
		all = append(all, chunk...)
	}
	return all
}

// Values are the messages or other values in a cell, decoded by its coder: at most one of a
// Value, all of a Bag.
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

// SetBytes sets what [Kit.Bytes] returns, for state that another program left. An empty
// b clears the cell.
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

// SetValue sets a Value, or adds an item to a Bag, encoded by the coder of the cell.
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

// scope is what owns state and timers: a key in a window.
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
