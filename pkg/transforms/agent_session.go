package transforms

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
	"github.com/beamagents/beamagents-go/pkg/memory"
	"github.com/beamagents/beamagents-go/pkg/migrate"
	"github.com/beamagents/beamagents-go/pkg/replay"
	"github.com/beamagents/beamagents-go/pkg/state"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// What a session, an input and a record cost besides the bytes of their content.
const (
	sessionBytes = 2 << 10
	inputBytes   = 256
	effectBytes  = 256
)

// maxAbandoned is how many activations of a worker process may go on after their end.
const maxAbandoned = 64

// agentSession is a key within a bundle: its state is read once, at first use, and written
// once, when the session is committed. Its inputs run one after the other.
type agentSession struct {
	bundle *agentBundle
	key    []byte

	// The state of the key. Only the goroutine that runs the session uses it, or, while the
	// session is idle, that of the bundle.
	sp       beamstate.Provider
	control  state.Control
	memory   state.Memory
	cache    state.ReplayCache
	deferred deferredEvents

	handle    *state.Handle[*runtimepb.KeyControl]
	memHandle *state.MemoryHandle
	cacheOpen *state.ReplayCacheHandle
	memForm   storedForm
	cacheForm storedForm
	k         activation.Key
	found     bool  // the key had a control cell
	armedMS   int64 // the due time of the deadline timer, unless wake has still to set it
	rest      bool  // deferred events are left that could run now

	// For the bundle's goroutine alone.
	woken  bool  // the tag wake is set
	holdMS int64 // at which wake holds the watermark

	mu      sync.Mutex
	changed sync.Cond
	queue   []agentInput
	busy    bool
	effects []activation.Effect
	counts  []agentCount
	spent   []int64 // ms of activations
	samples []activation.Sample
	left    int   // activations that ignore the end of their time
	held    int64 // bytes that count for the bundle
	cells   int64 // bytes of them that are state
}

// agentCount is by how much a counter grows.
type agentCount struct {
	name string
	n    int64
}

// notArmed says that no deadline timer is set, as far as the session knows.
const notArmed = -1

// agentInput is what a session is to take: the timer of a tag, or an envelope.
type agentInput struct {
	tag string
	env *pb.AgentEnvelope
}

func (in agentInput) bytes() int64 {
	return inputBytes + int64(proto.Size(in.env))
}

func newAgentSession(b *agentBundle, key []byte, sp beamstate.Provider) *agentSession {
	s := &agentSession{bundle: b, key: bytes.Clone(key), sp: sp, armedMS: notArmed}
	s.changed.L = &s.mu
	s.hold(s.base())
	return s
}

// base is what the session holds before it has opened a cell.
func (s *agentSession) base() int64 { return sessionBytes + int64(len(s.key)) }

// hold counts bytes that the session holds from here on.
func (s *agentSession) hold(n int64) {
	s.held += n
	s.bundle.held.Add(n)
}

// enqueue gives the session an input, and runs it here if the bundle runs one activation
// at a time.
func (s *agentSession) enqueue(in agentInput) {
	s.mu.Lock()
	s.queue = append(s.queue, in)
	s.hold(in.bytes())
	start := !s.busy
	s.busy = true
	s.mu.Unlock()
	switch {
	case !start:
	case s.bundle.host.concurrency == 1:
		s.run()
	default:
		s.bundle.running.Go(s.run)
	}
}

// run takes what is queued until nothing is left.
func (s *agentSession) run() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 || s.bundle.failed() != nil {
			s.queue, s.busy = nil, false
			s.changed.Broadcast()
			s.mu.Unlock()
			return
		}
		in := s.queue[0]
		s.queue = s.queue[1:]
		s.mu.Unlock()
		if err := s.take(in); err != nil {
			s.bundle.fail(err)
		}
	}
}

// wait returns when the session is idle, with the error of the bundle.
func (s *agentSession) wait() error {
	s.mu.Lock()
	for s.busy {
		s.changed.Wait()
	}
	s.mu.Unlock()
	return s.bundle.failed()
}

func (s *agentSession) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.busy
}

// take runs one input, in a slot of the process.
func (s *agentSession) take(in agentInput) (err error) {
	defer func() {
		if p := recover(); p != nil { // a bug of the rules: it must fail the bundle, not the worker
			err = fmt.Errorf("transforms.RunAgent: agent %q, key %q: panic: %v", s.bundle.host.Name, s.key, p)
		}
	}()
	select {
	case s.bundle.host.slots <- struct{}{}:
		defer func() { <-s.bundle.host.slots }()
	case <-s.bundle.ctx.Done():
		return s.bundle.ctx.Err()
	}
	if err := s.open(); err != nil {
		return err
	}
	rules := &s.bundle.host.Rules
	var step activation.Step
	switch in.tag {
	case "":
		step, err = rules.Envelope(&s.k, in.env)
	case activation.DeadlineTag:
		step, err = rules.Timeout(&s.k)
	case activation.TTLTag:
		step, err = rules.Idle(&s.k)
	case activation.WakeTag:
		step, err = rules.Drain(&s.k)
	default:
		err = fmt.Errorf("transforms.RunAgent: a timer with the unknown tag %q", in.tag)
	}
	if err != nil {
		return fmt.Errorf("transforms.RunAgent: agent %q, key %q: %w", s.bundle.host.Name, s.key, err)
	}
	var more int64
	for _, e := range step.Effects {
		more += bytesOf(e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.effects = append(s.effects, step.Effects...)
	s.spent = append(s.spent, step.DurationsMS...)
	s.samples = append(s.samples, step.Samples...)
	for _, name := range step.Counters {
		s.count(name)
	}
	s.rest = step.Rest
	s.hold(more + int64(8*len(step.DurationsMS)+24*len(step.Samples)) - in.bytes() + s.grown())
	return nil
}

func (s *agentSession) count(name string) {
	for i := range s.counts {
		if s.counts[i].name == name {
			s.counts[i].n++
			return
		}
	}
	s.counts = append(s.counts, agentCount{name, 1})
}

func bytesOf(e activation.Effect) int64 {
	n := len(e.Output)
	switch {
	case e.Intent != nil:
		n = proto.Size(e.Intent)
	case e.Trace != nil:
		// About that: the exact size, by reflection over a map, takes an eighth of all.
		n = len(e.Trace.GetEntityKey())
		for name, value := range e.Trace.GetAttributes() {
			n += len(name) + len(value)
		}
	case e.Snapshot != nil:
		n = proto.Size(e.Snapshot)
	case e.Error != nil:
		n = proto.Size(e.Error)
	}
	return effectBytes + int64(n)
}

// open reads the control of the key, once.
func (s *agentSession) open() error {
	if s.handle != nil {
		return nil
	}
	handle, err := s.control.Open(s.sp)
	if err != nil {
		return err
	}
	control, found := handle.Get()
	if !found {
		control = new(runtimepb.KeyControl)
	}
	s.handle, s.found = handle, found
	s.deferred.DeferredHandle = new(state.Deferred).Open(s.sp)
	s.k = activation.Key{
		Entity: s.key, Control: control, Deferred: &s.deferred,
		Memory: s.openMemory, Cache: s.openCache, Stored: s.stored, Call: s.call, Measure: s.measure,
		Scope: s.bundle.scope,
	}
	if due, ok := activation.Deadline(control); ok {
		s.armedMS = due
	}
	return nil
}

func (s *agentSession) openMemory() (*memory.Memory, error) {
	if s.memHandle == nil {
		// The SDK reads a cell once for both. The blob itself is the handle's from here on.
		blob, err := readStored[*pb.MemoryBlob](s.sp, s.memory.StateKey())
		if err != nil {
			return nil, err
		}
		s.memForm = formOf(blob)
		if s.memHandle, err = s.memory.Open(s.sp, 0); err != nil { // a step sets the time
			return nil, err
		}
	}
	return s.memHandle.Memory, nil
}

func (s *agentSession) openCache() (*replay.Cache, error) {
	if s.cacheOpen == nil {
		blob, err := readStored[*pb.LlmCacheBlob](s.sp, s.cache.StateKey())
		if err != nil {
			return nil, err
		}
		s.cacheForm = formOf(blob)
		if s.cacheOpen, err = s.cache.Open(s.sp, 0); err != nil {
			return nil, err
		}
	}
	return s.cacheOpen.Cache, nil
}

// storedForm is what a handle does not keep of the blob that it was opened with.
type storedForm struct {
	found   bool
	version uint32 // 0 if the blob has none
}

func formOf[M migrate.Message](blob M) storedForm {
	return storedForm{blob.ProtoReflect().IsValid(), blob.GetStateSchemaVersion()}
}

// grown is by how much the cells have grown since it was last asked.
func (s *agentSession) grown() int64 {
	n := int64(proto.Size(s.k.Control)) + s.deferred.bytes
	if s.memHandle != nil {
		n += int64(s.memHandle.BlobBytes())
	}
	if s.cacheOpen != nil {
		n += int64(s.cacheOpen.BlobBytes())
	}
	more := n - s.cells
	s.cells = n
	return more
}

// stored are both blobs as they are in the cells, or as the commit will write them.
func (s *agentSession) stored() (mem *pb.MemoryBlob, cache *pb.LlmCacheBlob, err error) {
	if h := s.memHandle; h == nil {
		mem, err = readStored[*pb.MemoryBlob](s.sp, s.memory.StateKey())
	} else if written := h.Changes() > 0 || isMigrated(h); written && !h.Empty() || !written && s.memForm.found {
		mem = proto.CloneOf(h.Blob())
		if !written {
			mem.StateSchemaVersion = s.memForm.version
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if h := s.cacheOpen; h == nil {
		cache, err = readStored[*pb.LlmCacheBlob](s.sp, s.cache.StateKey())
	} else if written := h.Changes() > 0 || isMigrated(h); written && !h.Empty() || !written && s.cacheForm.found {
		cache = proto.CloneOf(h.Blob())
		if !written {
			cache.StateSchemaVersion = s.cacheForm.version
		}
	}
	return mem, cache, err
}

// readStored reads a cell as it is stored, of whatever version.
func readStored[M any](sp beamstate.Provider, id string) (M, error) {
	value := beamstate.MakeValueState[M](id)
	m, _, err := value.Read(sp)
	if err != nil {
		return m, fmt.Errorf("read %s: %w", id, err)
	}
	return m, nil
}

func isMigrated(h interface{ Migrated() (uint32, bool) }) bool {
	_, migrated := h.Migrated()
	return migrated
}

// call runs code of the agent with a time limit.
func (s *agentSession) call(f func(context.Context)) *activation.Failure {
	result, text := isolate.Run(s.bundle.ctx, s.bundle.host.limit, f)
	if result == isolate.Abandoned {
		s.mu.Lock()
		s.left++
		s.mu.Unlock()
		if n := isolate.Running(); n > maxAbandoned {
			s.bundle.fail(fmt.Errorf("transforms.RunAgent: agent %q, key %q: %d activations in this worker go on after their time limit; "+
				"an agent must return when its context is cancelled", s.bundle.host.Name, s.key, n))
		}
	}
	return activation.FailureOf(result, text, s.bundle.host.limit)
}

// measure tells how long an activation takes.
func (s *agentSession) measure() func() int64 {
	start := time.Now()
	return func() int64 { return time.Since(start).Milliseconds() }
}

// write brings the cells to what the steps have left. The session must be idle.
func (s *agentSession) write() error {
	if s.handle == nil {
		return nil
	}
	if s.k.Changed {
		if err := s.handle.Put(s.k.Control); err != nil {
			return err
		}
		s.k.Changed = false
	}
	if err := s.handle.Commit(); err != nil {
		return err
	}
	if s.memHandle != nil {
		if err := s.memHandle.Commit(); err != nil {
			return err
		}
	}
	if s.cacheOpen != nil {
		if err := s.cacheOpen.Commit(); err != nil {
			return err
		}
	}
	return s.deferred.Commit()
}

// deferredEvents is the bag of a session, which knows what it holds in memory.
type deferredEvents struct {
	*state.DeferredHandle

	bytes int64
}

// Events is activation.Deferred's.
func (d *deferredEvents) Events() ([]*runtimepb.DeferredEvent, error) {
	events, err := d.DeferredHandle.Events()
	d.bytes = 0
	for _, e := range events {
		d.bytes += inputBytes + int64(proto.Size(e))
	}
	return events, err
}

// Add is activation.Deferred's.
func (d *deferredEvents) Add(e *runtimepb.DeferredEvent) error {
	d.bytes += inputBytes + int64(proto.Size(e))
	return d.DeferredHandle.Add(e)
}

// Clear is activation.Deferred's.
func (d *deferredEvents) Clear() {
	d.bytes = 0
	d.DeferredHandle.Clear()
}
