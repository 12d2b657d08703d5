package transforms

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/state"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// maxHeldBytes bounds the bytes that the sessions of a bundle hold: queued inputs, state and
// outputs. When they hold more, idle sessions are committed before the bundle ends.
var maxHeldBytes int64 = 64 << 20

// maxParallelWrites bounds the sessions that write their state at the same time.
const maxParallelWrites = 16

// The first and the last time, in ms, for which a timer can be set.
const (
	firstTimer = int64(mtime.MinTimestamp)
	lastTimer  = int64(mtime.EndOfGlobalWindowTime)
)

// agentBundle holds the sessions of the keys of one bundle.
//
// Only the goroutine of the bundle uses emitters and timers. A timer belongs to the key of the
// call that sets it. So when a call returns while its session still runs, the timer with the tag
// wake is set, and the other timers of the session are set when wake fires.
type agentBundle struct {
	host     *agentHost
	scope    string // the scope of model calls, see workerOf
	sessions map[string]*agentSession
	order    []*agentSession // in the order of their first elements
	ctx      context.Context //nolint:containedctx // it is the bundle's own
	cancel   context.CancelFunc
	running  sync.WaitGroup
	err      atomic.Pointer[error]
	held     atomic.Int64
}

func newAgentBundle(h *agentHost) *agentBundle {
	b := &agentBundle{host: h, sessions: map[string]*agentSession{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// cancelled stops what still runs for the bundle, and drops its sessions. b may be nil.
func (b *agentBundle) cancelled() {
	if b != nil {
		b.fail(errEnded)
		b.cancel()
		b.sessions, b.order = nil, nil
	}
}

var errEnded = errors.New("transforms.RunAgent: the bundle has ended")

// endUnless cancels the bundle if a call of it has failed. It is deferred, because emitters panic
// and nothing else tells the bundle.
func (b *agentBundle) endUnless(ok bool) {
	if !ok {
		b.cancelled()
	}
}

// fail stores the error, unless an earlier one is stored.
func (b *agentBundle) fail(err error) {
	if b.err.CompareAndSwap(nil, &err) {
		b.cancel()
	}
}

func (b *agentBundle) failed() error {
	if err := b.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (b *agentBundle) session(key []byte, sp beamstate.Provider) *agentSession {
	s := b.sessions[string(key)]
	if s == nil {
		s = newAgentSession(b, key, sp)
		b.sessions[string(key)] = s
		b.order = append(b.order, s)
	}
	return s
}

// element queues an element in the session of its key.
func (b *agentBundle) element(
	ctx context.Context, sp beamstate.Provider, tp timers.Provider, key []byte, env *pb.AgentEnvelope, out agentOutputs,
) error {
	if err := b.failed(); err != nil {
		return err
	}
	s := b.session(key, sp)
	atMS := env.GetEventTimeMs()
	if b.host.hold && b.host.concurrency > 1 && !s.woken {
		// The key may have a suspension from an earlier bundle whose deadline timer is not set
		// yet. That is the job of wake, and setting wake anew replaces the time at which it holds
		// the watermark.
		if err := s.wait(); err != nil {
			return err
		}
		if err := s.open(); err != nil {
			return err
		}
		atMS = min(atMS, earliestOutput(s.k.Control))
	}
	s.enqueue(agentInput{env: env})
	if err := s.settle(tp, atMS); err != nil {
		return err
	}
	return b.early(ctx, out)
}

// settle sets the timers of the session. With a concurrency of 1 the session has ended and its
// timers are known; otherwise settle sets wake. The call must be for the key of the session.
func (s *agentSession) settle(tp timers.Provider, atMS int64) error {
	if s.bundle.host.concurrency > 1 {
		s.wake(tp, atMS)
		return nil
	}
	if err := s.wait(); err != nil {
		return err
	}
	s.arm(tp)
	if s.rest {
		s.wake(tp, s.k.Control.GetDrainNowMs())
	}
	return nil
}

// timer handles a timer that fires.
func (b *agentBundle) timer(
	ctx context.Context, sp beamstate.Provider, tp timers.Provider, key []byte, tag string, out agentOutputs,
) error {
	if err := b.failed(); err != nil {
		return err
	}
	s := b.session(key, sp)
	if err := s.fired(ctx, tp, tag, out); err != nil {
		return err
	}
	return b.early(ctx, out)
}

func (s *agentSession) fired(ctx context.Context, tp timers.Provider, tag string, out agentOutputs) error {
	if err := s.wait(); err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	if !s.found && !s.k.Changed && tag != activation.WakeTag {
		// These timers are only set for a key that has state. But on Flink, the state of a
		// bounded input is cleared before the last timers fire.
		agentTimersWithoutState.Inc(ctx, 1)
		log.Warnf(ctx, "transforms.RunAgent: agent %q: the timer %s of key %q found no state", s.bundle.host.Name, tag, s.key)
		return nil
	}
	switch tag {
	case activation.WakeTag:
		s.woken = false
		for s.rest = s.rest || activation.Rest(s.k.Control); s.rest; {
			if err := s.now(agentInput{tag: tag}); err != nil {
				return err
			}
			if err := s.commitIfFull(ctx, out); err != nil {
				return err
			}
		}
		s.armedMS = notArmed // the bundle that stored the deadline has set only wake, not the deadline timer
		s.arm(tp)
		return nil
	case activation.DeadlineTag:
		due, suspended := activation.Deadline(s.k.Control)
		if !suspended || due != s.armedMS {
			// The suspension that this timer was set for has ended. If the key is suspended
			// again, wake sets the timer of the new deadline.
			return nil
		}
		s.armedMS = notArmed
		s.enqueue(agentInput{tag: tag})
		return s.settle(tp, due)
	case activation.TTLTag:
		control := s.k.Control
		mark, ok := s.bundle.host.TTLMark(control)
		due := ok && mark <= control.GetTtlArmedMs()
		control.TtlArmedMs = 0
		s.k.Changed = true
		if due {
			if err := s.now(agentInput{tag: tag}); err != nil {
				return err
			}
		}
		s.arm(tp)
		if s.rest {
			s.wake(tp, s.k.Control.GetDrainNowMs())
		}
		return nil
	}
	return fmt.Errorf("transforms.RunAgent: a timer with the unknown tag %q", tag)
}

// now queues an input and waits until it has run.
func (s *agentSession) now(in agentInput) error {
	s.enqueue(in)
	return s.wait()
}

// arm sets the deadline and TTL timers that the control cell asks for, unless they are set. The
// session must be idle.
func (s *agentSession) arm(tp timers.Provider) {
	if s.handle == nil {
		return
	}
	if due, ok := activation.Deadline(s.k.Control); ok && due != s.armedMS {
		var hold int64 = noHold
		if s.bundle.host.hold {
			hold = due
		}
		setTimer(tp, activation.DeadlineTag, due, hold)
		s.armedMS = due
	}
	if mark, ok := s.bundle.host.TTLMark(s.k.Control); ok {
		if armed := s.k.Control.GetTtlArmedMs(); armed == 0 || armed > mark {
			setTimer(tp, activation.TTLTag, mark, noHold)
			s.k.Control.TtlArmedMs = mark
			s.k.Changed = true
		}
	}
}

// wake sets the timer with the tag wake to the minimum timestamp, so that it fires before every
// deadline timer, also one whose deadline the session has replaced in this bundle. With
// HoldWatermark it holds the watermark at the earliest time for which no other timer is set yet.
func (s *agentSession) wake(tp timers.Provider, atMS int64) {
	if !s.bundle.host.hold {
		if !s.woken {
			setTimer(tp, activation.WakeTag, firstTimer, noHold)
		}
		s.woken = true
		return
	}
	if s.woken && s.holdMS <= atMS {
		return
	}
	s.woken, s.holdMS = true, atMS
	setTimer(tp, activation.WakeTag, firstTimer, atMS)
}

// earliestOutput returns the earliest time, in ms, at which the key can emit something without
// another element.
func earliestOutput(c *runtimepb.KeyControl) int64 {
	if due, ok := activation.Deadline(c); ok {
		return due
	}
	if activation.Rest(c) {
		return c.GetDrainNowMs()
	}
	return math.MaxInt64
}

// noHold stands for a timer that does not hold the watermark.
const noHold = math.MinInt64

// setTimer sets the timer of a tag to atMS. The timer holds the watermark at holdMS.
func setTimer(tp timers.Provider, tag string, atMS, holdMS int64) {
	output := timers.WithNoOutputTimestamp()
	if holdMS != noHold {
		output = timers.WithOutputTimestamp(time.UnixMilli(min(holdMS, lastTimer)))
	}
	timers.InEventTime(state.TimerFamily).Set(tp, time.UnixMilli(min(atMS, lastTimer)), timers.WithTag(tag), output)
}

// early commits idle sessions while the bundle holds too much. If no session is idle, it waits
// for one.
func (b *agentBundle) early(ctx context.Context, out agentOutputs) error {
	for b.held.Load() > maxHeldBytes && len(b.order) > 0 {
		var idle []*agentSession
		var busy []*agentSession
		for _, s := range b.order {
			if s.idle() {
				idle = append(idle, s)
			} else {
				busy = append(busy, s)
			}
		}
		if len(idle) == 0 {
			if err := busy[0].wait(); err != nil {
				return err
			}
			continue
		}
		if err := b.commit(ctx, idle, out); err != nil {
			return err
		}
		b.order = busy
		for _, s := range idle {
			delete(b.sessions, string(s.key))
		}
	}
	return b.failed()
}

// commitAll waits for all sessions and commits them.
func (b *agentBundle) commitAll(ctx context.Context, out agentOutputs) error {
	for _, s := range b.order {
		if err := s.wait(); err != nil {
			return err
		}
	}
	return b.commit(ctx, b.order, out)
}

// commit writes the state of idle sessions, and then emits their outputs. An error fails the
// bundle, because a write may have cleared a cell without filling it again.
func (b *agentBundle) commit(ctx context.Context, sessions []*agentSession, out agentOutputs) error {
	if err := b.failed(); err != nil {
		return err
	}
	var group sync.WaitGroup
	writers := make(chan struct{}, min(b.host.concurrency, maxParallelWrites))
	for _, s := range sessions {
		if b.host.concurrency == 1 || len(sessions) == 1 {
			if err := s.write(); err != nil {
				b.fail(err)
				break
			}
			continue
		}
		writers <- struct{}{}
		group.Go(func() {
			defer func() { <-writers }()
			defer func() {
				if p := recover(); p != nil {
					b.fail(fmt.Errorf("transforms.RunAgent: write the state of key %q: panic: %v", s.key, p))
				}
			}()
			if err := s.write(); err != nil {
				b.fail(err)
			}
		})
	}
	group.Wait()
	if err := b.failed(); err != nil {
		return err
	}
	for _, s := range sessions {
		s.emit(ctx, out)
		b.held.Add(-s.held)
		s.held = 0
	}
	return nil
}

// commitIfFull commits the session if the bundle holds too much. The session stays open.
func (s *agentSession) commitIfFull(ctx context.Context, out agentOutputs) error {
	if s.bundle.held.Load() <= maxHeldBytes {
		return nil
	}
	if err := s.bundle.commit(ctx, []*agentSession{s}, out); err != nil {
		return err
	}
	s.hold(s.base() + s.cells)
	return nil
}

// emit emits the outputs of the session in order of arrival, and updates the metrics.
func (s *agentSession) emit(ctx context.Context, out agentOutputs) {
	for _, c := range s.counts {
		agentCounters[c.name].Inc(ctx, c.n)
	}
	for _, ms := range s.spent {
		activationMS.Update(ctx, ms)
	}
	for _, n := range s.flying {
		activationsInFlight.Update(ctx, n)
	}
	for _, sample := range s.samples {
		agentDistributions[sample.Name].Update(ctx, sample.Value)
	}
	for _, e := range s.effects {
		at := mtime.FromMilliseconds(e.AtMS)
		switch {
		case e.Intent != nil:
			out.intents(at, e.Intent)
		case e.Trace != nil:
			out.traces(at, e.Trace)
		case e.Snapshot != nil:
			out.snapshots(at, e.Snapshot)
		case e.Error != nil:
			errorsByReason[deadletter.Reason(e.Error.GetReason())].Inc(ctx, 1)
			out.errs(at, e.Error)
		default:
			out.outputs(at, s.key, e.Output)
		}
	}
	if s.left > 0 {
		activationsAbandoned.Inc(ctx, int64(s.left))
		log.Warnf(ctx, "transforms.RunAgent: agent %q: %d activations of key %q still run after their time limit", s.bundle.host.Name, s.left, s.key)
	}
	if s.memHandle != nil {
		memoryBytes.Update(ctx, s.memHandle.ValueBytes())
		if evicted, _ := s.memHandle.Evicted(); evicted > s.evicted {
			memoryEvictions.Inc(ctx, int64(evicted-s.evicted))
			s.evicted = evicted
		}
		if s.memHandle.SoftCapReached() {
			softCapWarnings.Inc(ctx, 1)
		}
	}
	s.counts, s.spent, s.flying, s.samples, s.effects, s.left = nil, nil, nil, nil, nil, 0
}
