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

// What a session, an input and an output cost in bytes, besides their content.
const (
	sessionBytes = 2 << 10
	inputBytes   = 256
	effectBytes  = 256
)

// maxAbandoned bounds the activations of a worker process that still run after their time limit.
const maxAbandoned = 64

// agentSession is a key within a bundle. It reads the state of the key once, at first use, and
// writes it once, when it is committed. It runs its inputs one after the other.
type agentSession struct {
	bundle *agentBundle
	key    []byte

	// The state of the key. It belongs to the goroutine that runs the session, and to the
	// goroutine of the bundle while the session is idle.
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
	armedMS   int64 // the time to which the deadline timer is set, or notArmed
	rest      bool  // there are deferred events that can run now

	// Only the goroutine of the bundle uses these.
	woken  bool  // the timer with the tag wake is set
	holdMS int64 // the time at which wake holds the watermark

	mu      sync.Mutex
	changed sync.Cond
	queue   []agentInput
	busy    bool
	effects []activation.Effect
	counts  []agentCount
	spent   []int64 // the duration of each activation, in ms
	flying  []int64 // for each activation: how many ran in the process when it began
	samples []activation.Sample
	evicted int   // evicted memory entries that the counter has
	left    int   // activations that run on after their time limit
	held    int64 // bytes that the bundle counts for this session
	cells   int64 // the part of held that is state
}

// agentCount is an amount to add to a counter.
type agentCount struct {
	name string
	n    int64
}

// notArmed is the armedMS of a session that knows of no deadline timer.
const notArmed = -1

// agentInput is an input of a session: an envelope, or the tag of a timer that fires.
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

// base is the number of bytes that a session counts before it has opened a cell.
func (s *agentSession) base() int64 { return sessionBytes + int64(len(s.key)) }

// hold adds n bytes to what the session, and so the bundle, holds.
func (s *agentSession) hold(n int64) {
	s.held += n
	s.bundle.held.Add(n)
}

// enqueue queues an input and starts the session if it is idle. With a concurrency of 1 it
// returns when the session has run.
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

// run takes the queued inputs until the queue is empty or the bundle has failed.
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

// wait returns when the session is idle. The error is that of the bundle.
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

// take runs one input when the process has a free slot.
func (s *agentSession) take(in agentInput) (err error) {
	defer func() {
		if p := recover(); p != nil { // a bug in the rules fails the bundle, not the worker
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
	s.hold(more + int64(16*len(step.DurationsMS)+24*len(step.Samples)) - in.bytes() + s.grown())
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
		// An estimate: the exact size needs reflection over a map, which took an eighth of the
		// whole run.
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

// open reads the control cell, unless it is open.
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
		// This read and the one of Open are one RPC: the SDK caches the cell. The blob itself
		// belongs to the handle once Open has returned.
		blob, err := readStored[*pb.MemoryBlob](s.sp, s.memory.StateKey())
		if err != nil {
			return nil, err
		}
		s.memForm = formOf(blob)
		if s.memHandle, err = s.memory.Open(s.sp, 0); err != nil { // the rules set the time in each step
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

// storedForm is what stored needs to know of a blob as it was read, and the handle does not keep.
type storedForm struct {
	found   bool
	version uint32 // 0 if the blob has none
}

func formOf[M migrate.Message](blob M) storedForm {
	return storedForm{blob.ProtoReflect().IsValid(), blob.GetStateSchemaVersion()}
}

// grown returns by how many bytes the open cells have grown since the last call.
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

// stored returns both blobs as they are stored, or, where they have changed, as the commit will
// write them.
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

// readStored reads a cell as it is stored, without migrating it.
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

// call runs the agent's code with the time limit.
func (s *agentSession) call(f func(context.Context)) *activation.Failure {
	s.mu.Lock()
	s.flying = append(s.flying, int64(len(s.bundle.host.slots)))
	s.mu.Unlock()
	result, text := isolate.Run(s.bundle.ctx, s.bundle.host.limit, f)
	if result == isolate.Abandoned {
		s.mu.Lock()
		s.left++
		s.mu.Unlock()
		if n := isolate.Running(); n > maxAbandoned {
			s.bundle.fail(fmt.Errorf("transforms.RunAgent: agent %q, key %q: %d activations in this worker still run after their time limit; "+
				"an agent must return when its context is cancelled", s.bundle.host.Name, s.key, n))
		}
	}
	return activation.FailureOf(result, text, s.bundle.host.limit)
}

// measure starts a clock and returns a function that reads it, in ms.
func (s *agentSession) measure() func() int64 {
	start := time.Now()
	return func() int64 { return time.Since(start).Milliseconds() }
}

// write writes the cells that have changed. The session must be idle.
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

// deferredEvents is the deferred cell of a session. It knows how many bytes it holds in memory.
type deferredEvents struct {
	*state.DeferredHandle

	bytes int64
}

// Events implements activation.Deferred.
func (d *deferredEvents) Events() ([]*runtimepb.DeferredEvent, error) {
	events, err := d.DeferredHandle.Events()
	d.bytes = 0
	for _, e := range events {
		d.bytes += inputBytes + int64(proto.Size(e))
	}
	return events, err
}

// Add implements activation.Deferred.
func (d *deferredEvents) Add(e *runtimepb.DeferredEvent) error {
	d.bytes += inputBytes + int64(proto.Size(e))
	return d.DeferredHandle.Add(e)
}

// Clear implements activation.Deferred.
func (d *deferredEvents) Clear() {
	d.bytes = 0
	d.DeferredHandle.Clear()
}
