package transforms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/beamtest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() { RegisterAgent[*gatedAgent]() }

// gatedAgent waits at the gate in each activation that an event starts or, with AtDeadline, that a
// deadline starts.
type gatedAgent struct{ AtDeadline bool }

// gate is where the activations of gatedAgent wait. Each test makes a new gate.
var gate struct {
	open    chan struct{}
	running atomic.Int64
	made    int
}

// newGate returns a name that no other agent of the process has, because the host of an agent must
// not come from another synctest bubble.
func newGate() (name string) {
	gate.open = make(chan struct{})
	gate.running.Store(0)
	gate.made++
	return fmt.Sprint("gated", gate.made)
}

func (a *gatedAgent) TimeoutPolicy(agent.Timeout) agent.Route { return agent.Resume() }

func (a *gatedAgent) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	if a.AtDeadline && act.Trigger().Kind == agent.Event {
		return agent.Suspend(nil, time.Second), nil
	}
	gate.running.Add(1)
	defer gate.running.Add(-1)
	select {
	case <-gate.open:
		return agent.Done(), act.Emit([]byte("through"))
	case <-ctx.Done():
		return agent.Outcome{}, ctx.Err()
	}
}

func keyedEvents(n int, ms int64) (all []*pb.AgentEnvelope) {
	for i := range n {
		all = append(all, eventFor(fmt.Sprintf("k%03d", i), ms, script{}))
	}
	return all
}

// begin starts a bundle and gives it elements.
func (k *agentKit) begin(envelopes ...*pb.AgentEnvelope) {
	k.t.Helper()
	if err := k.StartBundle(); err != nil {
		k.t.Fatal(err)
	}
	for _, env := range envelopes {
		if err := k.Run(string(env.GetEntityKey()), k.element(env)); err != nil {
			k.t.Fatal(err)
		}
	}
}

func (k *agentKit) finish() {
	k.t.Helper()
	if err := k.FinishBundle(); err != nil {
		k.t.Fatal(err)
	}
}

// Concurrency belongs to the process: two bundles of two DoFns share it.
func TestAgentConcurrencyIsOfTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := newGate()
		params := AgentParams{Name: name, Agent: new(gatedAgent), Concurrency: 3}
		a, b := newAgentKit(t, params), newAgentKit(t, params)
		a.begin(keyedEvents(10, 1000)...)
		synctest.Wait()
		if n := gate.running.Load(); n != 3 {
			t.Errorf("%d activations at once in one bundle", n)
		}
		b.begin(keyedEvents(10, 1000)...)
		synctest.Wait()
		if n := gate.running.Load(); n != 3 {
			t.Errorf("%d activations at once in two bundles", n)
		}
		close(gate.open)
		a.finish()
		b.finish()
		if n := len(a.outputs.All()) + len(b.outputs.All()); n != 20 {
			t.Errorf("%d outputs", n)
		}
	})
}

// Deadlines of several keys that are due at the same time run at the same time.
func TestAgentDeadlinesRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := newGate()
		k := newAgentKit(t, AgentParams{Name: name, Agent: &gatedAgent{AtDeadline: true}, Concurrency: 64})
		k.run(keyedEvents(50, 1000)...)
		k.advance(1000) // wake
		k.begin()
		k.advance(2000)
		synctest.Wait()
		if n := gate.running.Load(); n != 50 {
			t.Errorf("%d of 50 deadlines run at once", n)
		}
		close(gate.open)
		k.finish()
		if n := len(k.outputs.All()); n != 50 {
			t.Errorf("%d outputs", n)
		}
	})
}

func withMaxHeld(t *testing.T, n int64) {
	t.Helper()
	old := maxHeldBytes
	maxHeldBytes = n
	t.Cleanup(func() { maxHeldBytes = old })
}

// While the bundle holds too much, ProcessElement and OnTimer wait, whatever it holds.
func TestAgentBundleWaits(t *testing.T) {
	withMaxHeld(t, 64<<10)
	big := func(key string, n int) *pb.AgentEnvelope {
		return &pb.AgentEnvelope{EntityKey: []byte(key), EventTimeMs: 1000, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: make([]byte, n)}}
	}
	for name, test := range map[string]struct {
		bundle   []*pb.AgentEnvelope
		deadline bool
		most     int64 // calls that return
	}{
		"inputs of a key":       {slices.Repeat([]*pb.AgentEnvelope{big("a", 1<<10)}, 200), false, 51},
		"small inputs of a key": {slices.Repeat([]*pb.AgentEnvelope{big("a", 0)}, 2000), false, 250},
		"sessions":              {keyedEvents(200, 1000), false, 31},
		"long keys":             {[]*pb.AgentEnvelope{big(strings.Repeat("a", 20<<10), 0), big(strings.Repeat("b", 20<<10), 0), big("c", 0)}, false, 1},
		"timers":                {keyedEvents(200, 1000), true, 31},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				name := newGate()
				k := newAgentKit(t, AgentParams{Name: name, Agent: &gatedAgent{AtDeadline: test.deadline}, Concurrency: 64})
				if test.deadline {
					k.run(test.bundle...)
					k.advance(1000)
				}
				var returned atomic.Int64
				feed := func() {
					k.begin()
					if test.deadline {
						if err := k.Fire(2000, func(tm beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
							err := k.onTimer(tm, sp, tp)
							returned.Add(1)
							return err
						}); err != nil {
							t.Error(err)
						}
						return
					}
					for _, env := range test.bundle {
						if err := k.Run(string(env.GetEntityKey()), k.element(env)); err != nil {
							t.Error(err)
						}
						returned.Add(1)
					}
				}
				done := make(chan struct{})
				go func() {
					feed()
					close(done)
				}()
				synctest.Wait()
				if n := returned.Load(); n > test.most || n == 0 {
					t.Errorf("%d calls have returned, at most %d can", n, test.most)
				}
				close(gate.open)
				<-done
				k.finish()
				if n := len(k.outputs.All()); n != len(test.bundle) {
					t.Errorf("%d outputs of %d inputs", n, len(test.bundle))
				}
			})
		})
	}
}

// Everything that sessions hold is counted: deferred events that were read or added, steps without
// records, outputs, and memory. The bundle does not hold more than it counts.
func TestAgentBundleCounts(t *testing.T) {
	suspend := eventFor("a", 1000, script{Then: "suspend", Timeout: 1000})
	held := func(t *testing.T, before, bundle []*pb.AgentEnvelope) int64 {
		t.Helper()
		k := newAgentKit(t, AgentParams{Concurrency: 4})
		if len(before) > 0 {
			k.run(before...)
		}
		k.begin(bundle...)
		for _, s := range k.fn.bundle.order {
			if err := s.wait(); err != nil {
				t.Fatal(err)
			}
		}
		b := k.fn.bundle
		n := b.held.Load()
		k.finish()
		if left := b.held.Load(); left != 0 {
			t.Errorf("%d bytes are held after the end", left)
		}
		return n
	}
	long := func(n int) *pb.AgentEnvelope {
		return &pb.AgentEnvelope{EntityKey: []byte("a"), EventTimeMs: 1000, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: make([]byte, n)}}
	}
	answer := resultFor(firstIntent("a"), 1500, "")
	asking := eventFor("a", 1000, script{Act: []string{"t"}, Then: "suspend", Timeout: 1000})
	for name, test := range map[string]struct {
		before, bundle []*pb.AgentEnvelope
		least, most    int64
	}{
		"a session":               {nil, []*pb.AgentEnvelope{eventFor("a", 1000, script{})}, 2 << 10, 5 << 10},
		"an output":               {nil, []*pb.AgentEnvelope{eventFor("a", 1000, script{Big: 50_000})}, 52_000, 56_000},
		"memory":                  {nil, []*pb.AgentEnvelope{eventFor("a", 1000, script{Put: []string{"x=" + strings.Repeat("y", 50_000)}})}, 52_000, 56_000},
		"deferred events":         {nil, []*pb.AgentEnvelope{suspend, long(50_000), long(50_000)}, 102_000, 108_000},
		"deferred, and not read":  {[]*pb.AgentEnvelope{suspend, long(50_000)}, []*pb.AgentEnvelope{eventFor("a", 1001, script{})}, 2 << 10, 5 << 10},
		"deferred, read and done": {[]*pb.AgentEnvelope{asking, eventFor("a", 1001, script{Big: 1})}, []*pb.AgentEnvelope{answer}, 2 << 10, 7 << 10},
		"deferred, read and waiting": {
			append([]*pb.AgentEnvelope{asking}, append([]*pb.AgentEnvelope{suspend}, long(50_000))...), []*pb.AgentEnvelope{answer}, 52_000, 60_000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if n := held(t, test.before, test.bundle); n < test.least || n > test.most {
				t.Errorf("%d bytes are held, want %d to %d", n, test.least, test.most)
			}
		})
	}
}

// With HoldWatermark, wake holds the watermark at the earliest deadline whose timer is not set yet,
// even if another session of the key has left that deadline.
func TestAgentWakeHolds(t *testing.T) {
	suspend, later := eventFor("a", 1000, script{Then: "suspend", Timeout: 500}), eventFor("a", 5000, script{})
	wakeAt := func(k *agentKit) int64 {
		for _, tm := range k.Timers("a") {
			if tm.Tag == "wake" {
				return tm.EventTime.Milliseconds()
			}
		}
		t.Fatalf("no wake: %q", k.armed("a"))
		return 0
	}
	for name, test := range map[string]struct {
		held int64
		run  func(k *agentKit)
		want int64
	}{
		"one bundle":         {64 << 20, func(k *agentKit) { k.run(suspend, later) }, 1000},
		"times go backwards": {64 << 20, func(k *agentKit) { k.run(later, suspend) }, 1000},
		"an early commit":    {1, func(k *agentKit) { k.run(suspend, later) }, 1500},
		"two bundles":        {64 << 20, func(k *agentKit) { k.run(suspend); k.run(later) }, 1500},
	} {
		t.Run(name, func(t *testing.T) {
			withMaxHeld(t, test.held)
			k := newAgentKit(t, AgentParams{Concurrency: 4, HoldWatermark: true})
			test.run(k)
			if at := wakeAt(k); at != test.want {
				t.Errorf("wake holds the watermark at %d, want %d", at, test.want)
			}
		})
	}
}

// A step that the runner has fused with RunAgent may pass a nil envelope.
func TestAgentNilEnvelope(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		k := newAgentKit(t, AgentParams{Concurrency: concurrency})
		k.run(nil, eventFor("a", 1000, script{Count: "n"}))
		k.expect("a output@1000 n 1 at 1000", " error@0 malformed_envelope/empty_payload")
	})
}

// Only with HoldWatermark do the timers hold the watermark: wake at the time of the element, and
// the deadline timer at the deadline.
func TestAgentTimersHold(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		for _, hold := range []bool{false, true} {
			k := newAgentKit(t, AgentParams{Concurrency: concurrency, HoldWatermark: hold, TTL: time.Minute})
			k.run(eventFor("a", 1000, script{Then: "suspend", Timeout: 500}))
			got := map[string]int64{}
			note := func() {
				for _, tm := range k.Timers("a") {
					got[tm.Tag] = tm.EventTime.Milliseconds()
				}
			}
			note()
			k.advance(1000)
			note()
			none := mtime.MaxTimestamp.Milliseconds()
			want := map[string]int64{"deadline": none, "ttl": none}
			if hold {
				want["deadline"] = 1500
			}
			if concurrency > 1 {
				want["wake"] = none
				if hold {
					want["wake"] = 1000
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("HoldWatermark %v: the timers hold at %v, want %v", hold, got, want)
			}
		}
	})
}

// badProvider fails, or panics, when a Value is written.
type badProvider struct {
	beamstate.Provider

	panics bool
}

var errBadProvider = errors.New("bad provider")

func (p *badProvider) WriteValueState(beamstate.Transaction) error {
	if p.panics {
		panic(errBadProvider)
	}
	return errBadProvider
}

// A commit that fails or panics fails the bundle, whatever was emitted before.
func TestAgentCommitFails(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		for _, early := range []bool{false, true} {
			for _, panics := range []bool{false, true} {
				t.Run(fmt.Sprintf("early %v, panic %v", early, panics), func(t *testing.T) {
					if early {
						withMaxHeld(t, 1)
					}
					k := newAgentKit(t, AgentParams{Concurrency: concurrency})
					if err := k.StartBundle(); err != nil {
						t.Fatal(err)
					}
					b := k.fn.bundle
					good, bad := eventFor("good", 1000, script{Count: "n"}), eventFor("bad", 1000, script{Count: "n"})
					err := k.Run("good", k.element(good))
					err = cmp.Or(err, k.Run("bad", func(sp beamstate.Provider, tp timers.Provider) error {
						return k.element(bad)(&badProvider{sp, panics}, tp)
					}))
					if failed := err != nil; failed != early {
						t.Errorf("the element: %v", err)
					}
					// A bundle that ends early has a new session for this one.
					err = cmp.Or(err, k.Run("good", k.element(good)))
					if err == nil {
						err = k.FinishBundle()
					} else {
						k.FailBundle()
					}
					if err == nil || !strings.Contains(err.Error(), errBadProvider.Error()) {
						t.Errorf("error %v", err)
					}
					if said := k.said(); len(said) > 0 || len(k.Keys()) > 0 {
						t.Errorf("%q of %q are kept", said, k.Keys())
					}
					if b.ctx.Err() == nil || b.failed() == nil || b.sessions != nil {
						t.Error("the bundle goes on")
					}
				})
			}
		}
	})
}

// The bundle fails whichever RPC fails.
func TestAgentRPCFails(t *testing.T) {
	bundle := []*pb.AgentEnvelope{
		eventFor("a", 1000, script{Count: "n", Then: "suspend", Timeout: 1000}), eventFor("b", 1000, script{Count: "n"}), eventFor("a", 1001, script{}),
	}
	eachForm(t, func(t *testing.T, concurrency int) {
		for _, held := range []int64{64 << 20, 1} {
			withMaxHeld(t, held)
			failed := 0
			for n := 1; ; n++ {
				k := newAgentKit(t, AgentParams{Concurrency: concurrency, TTL: time.Hour})
				k.FailAt(n, nil)
				err := k.try(bundle...)
				if err == nil {
					break
				}
				failed++
				if !errors.Is(err, beamtest.ErrInjected) {
					t.Fatalf("RPC %d: %v", n, err)
				}
			}
			if failed < 15 {
				t.Errorf("%d RPCs", failed)
			}
		}
	})
}

// If an emitter panics, as the SDK's emitters do when a later step fails, the bundle ends.
func TestAgentEmitterPanics(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		withMaxHeld(t, 1)
		k := newAgentKit(t, AgentParams{Concurrency: concurrency})
		if err := k.StartBundle(); err != nil {
			t.Fatal(err)
		}
		b := k.fn.bundle
		err := k.Run("a", func(sp beamstate.Provider, tp timers.Provider) error {
			out := k.out()
			out.traces = func(beam.EventTime, *pb.TraceEvent) { panic("a later step") }
			env := eventFor("a", 1000, script{})
			return k.fn.ProcessElement(context.Background(), sp, tp, []byte("a"), env, out.outputs, out.intents, out.traces, out.snapshots, out.errs)
		})
		if err == nil || b.ctx.Err() == nil || b.sessions != nil {
			t.Errorf("error %v; the bundle goes on: %v", err, b.ctx.Err() == nil)
		}
	})
}

// No goroutine, handle or provider of a session outlives its bundle, even if the bundle fails.
func TestAgentSessionsEndWithTheirBundle(t *testing.T) {
	for name, end := range map[string]func(k *agentKit){
		"finished": func(k *agentKit) {
			close(gate.open)
			k.finish()
		},
		"an element fails": func(k *agentKit) {
			// A session fails after its call has returned, at its first RPC, if it gets a slot.
			k.FailAt(1, nil)
			if err := k.Run("z", k.element(eventFor("z", 1000, script{}))); err != nil && !errors.Is(err, beamtest.ErrInjected) {
				k.t.Error(err) // the session may have failed before the call returns
			}
			synctest.Wait()
			if k.fn.Concurrency == 4 {
				k.fn.bundle.fail(beamtest.ErrInjected)
			}
			if err := k.Run("z", k.element(eventFor("z", 1000, script{}))); err == nil {
				k.t.Error("no error")
			}
			k.FailBundle()
		},
		"a timer fails": func(k *agentKit) {
			k.FailAt(1, nil)
			if err := k.Run("z", func(sp beamstate.Provider, tp timers.Provider) error {
				return k.onTimer(beamtest.Timer{Key: "z", Family: "agent", Tag: "ttl"}, sp, tp)
			}); err == nil {
				k.t.Error("no error")
			}
			k.FailBundle()
		},
		"given up": func(k *agentKit) {
			// The runner does not announce that it has dropped the bundle, and starts another one
			// later.
			k.FailBundle()
			out := k.out()
			k.fn.StartBundle(out.outputs, out.intents, out.traces, out.snapshots, out.errs)
		},
	} {
		for _, concurrency := range []int{4, 64} { // some wait for a slot, or none does
			t.Run(fmt.Sprintf("%s/%d", name, concurrency), func(t *testing.T) {
				var fn *beamagentsRunAgentFn
				var left []interface{ gone() bool }
				synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
					name := newGate()
					k := newAgentKit(t, AgentParams{Name: name, Agent: new(gatedAgent), Concurrency: concurrency})
					k.begin()
					for _, env := range keyedEvents(20, 1000) {
						if err := k.Run(string(env.GetEntityKey()), func(sp beamstate.Provider, tp timers.Provider) error {
							mine := &struct{ beamstate.Provider }{sp}
							left = append(left, watched[struct{ beamstate.Provider }]{weak.Make(mine)})
							return k.element(env)(mine, tp)
						}); err != nil {
							t.Fatal(err)
						}
					}
					synctest.Wait()
					for _, s := range k.fn.bundle.order {
						left = append(left, watched[agentSession]{weak.Make(s)})
					}
					end(k)
					synctest.Wait()
					if n := gate.running.Load(); n != 0 {
						t.Errorf("%d activations are running", n)
					}
					fn = k.fn
				})
				runtime.GC()
				for i, l := range left {
					if !l.gone() {
						t.Fatalf("number %d of %d providers and sessions is kept", i, len(left))
					}
				}
				if len(left) != 40 {
					t.Errorf("%d were watched", len(left))
				}
				runtime.KeepAlive(fn)
			})
		}
	}
}

// watched is a pointer that keeps nothing.
type watched[T any] struct{ weak.Pointer[T] }

func (w watched[T]) gone() bool { return w.Value() == nil }

// A wake that brings many deferred events commits between their steps.
func TestAgentWakeCommitsInBetween(t *testing.T) {
	withMaxHeld(t, 64<<10)
	eachForm(t, func(t *testing.T, concurrency int) {
		k := newAgentKit(t, AgentParams{Concurrency: concurrency})
		bundle := []*pb.AgentEnvelope{eventFor("a", 1000, script{Act: []string{"t"}, Then: "suspend", Timeout: 1000})}
		for i := range 60 {
			bundle = append(bundle, eventFor("a", int64(1001+i), script{Count: "n", Big: 20_000}))
		}
		k.run(bundle...)
		k.advance(1000)
		k.run(resultFor(firstIntent("a"), 1500, ""))
		k.begin()
		most := int64(0)
		if err := k.Fire(1600, func(tm beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
			out := k.out()
			emit := out.outputs
			out.outputs = func(at beam.EventTime, key, value []byte) {
				most = max(most, k.fn.bundle.held.Load())
				emit(at, key, value)
			}
			k.fn.OnTimer(context.Background(), sp, tp, []byte(tm.Key), tm.Context(), out.outputs, out.intents, out.traces, out.snapshots, out.errs)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		k.finish()
		k.advance(10_000)
		if n := len(k.outputs.All()); n != 1+120 {
			t.Errorf("%d outputs", n)
		}
		if most == 0 || most > 300_000 { // a step of 8 events, and what waits
			t.Errorf("%d bytes were held", most)
		}
		if c := k.control("a"); c.GetDeferredCount() != 0 || c.GetSeq() != 62 {
			t.Errorf("control %v", c)
		}
	})
}
