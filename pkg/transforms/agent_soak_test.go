//go:build soak

package transforms

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

var soakPart = flag.Int("soak-part", 1, "run this part of the elements of the long tests of agents: 10 is a tenth")

func init() {
	register.Function1x0(soakCount)
	register.DoFn4x0[beamstate.Provider, []byte, *pb.AgentEnvelope, func(*pb.TraceEvent)](new(soakFn))
	register.Emitter1[*pb.TraceEvent]()
}

// soakFn emits what RunAgent does, from a stage with state that it does not use.
type soakFn struct {
	Count beamstate.Value[[]byte]
}

func (f *soakFn) ProcessElement(_ beamstate.Provider, key []byte, env *pb.AgentEnvelope, emit func(*pb.TraceEvent)) {
	for range 2 {
		emit(&pb.TraceEvent{
			EntityKey: key, TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"), StartMs: env.GetEventTimeMs(), EndMs: env.GetEventTimeMs(),
			Attributes: map[string]string{"beam_agents.activation.kind": "event", "beam_agents.activation.status": "completed"},
		})
	}
}

var soakTraces atomic.Int64

func soakCount(*pb.TraceEvent) { soakTraces.Add(1) }

// soakHeap runs work and returns the largest heap that it needed, in bytes of objects.
func soakHeap(work func()) uint64 {
	runtime.GC()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		largest := uint64(0)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				metrics.Read(sample)
				largest = max(largest, sample[0].Value.Uint64())
			case <-stop:
				peak <- largest
				return
			}
		}
	}()
	work()
	close(stop)
	return <-peak
}

// TestSoakAgent sends 300,000 envelopes of 100,000 keys through RunAgent on Prism, and
// through a stage that emits as many traces and does nothing. Prism keeps all elements and
// all state in the process, so only what RunAgent needs besides is bounded: its sessions,
// and the state of the keys.
func TestSoakAgent(t *testing.T) {
	run := func(name string, keys int, build func(s beam.Scope, keyed beam.PCollection)) int64 {
		p, s := beam.NewPipelineWithRoot()
		build(s, beam.ParDo(s, &benchEventsFn{3 * keys, keys}, beam.Impulse(s)))
		soakTraces.Store(0)
		start := time.Now()
		peak := soakHeap(func() {
			if _, err := beam.Run(context.Background(), "prism", p); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%-8s %7d keys, %7d envelopes: %6.1f s, peak heap %5d MiB", name, keys, 3*keys, time.Since(start).Seconds(), peak>>20)
		return int64(peak)
	}
	more := func(keys int) int64 {
		nothing := run("nothing", keys, func(s beam.Scope, keyed beam.PCollection) {
			beam.ParDo0(s, soakCount, beam.ParDo(s, &soakFn{Count: beamstate.MakeValueState[[]byte]("count")}, keyed))
		})
		ours := run("RunAgent", keys, func(s beam.Scope, keyed beam.PCollection) {
			out := RunAgent(s, AgentParams{Name: "soak", Agent: new(benchAgent)}, keyed)
			beam.ParDo0(s, benchDrain, out.Outputs)
			beam.ParDo0(s, benchDrainIntent, out.Intents)
			beam.ParDo0(s, soakCount, out.Traces)
			beam.ParDo0(s, benchDrainSnapshot, out.Snapshots)
			beam.ParDo0(s, benchDrainError, out.Errors)
		})
		if got, want := soakTraces.Load(), int64(2*3*keys); got != want {
			t.Errorf("%d traces, want %d", got, want)
		}
		return ours - nothing
	}
	keys := 100_000 / *soakPart
	few, many := more(keys/10), more(keys)
	t.Logf("RunAgent needs %d MiB more than the other stage with %d keys, %d MiB with %d", few>>20, keys/10, many>>20, keys)
	if limit := max(few, 0) + 256<<20 + int64(keys)*4<<10; many > limit {
		t.Errorf("that is more than %d MiB", limit>>20)
	}
}

// TestSoakAgentBundle takes a bundle of 50,000 keys on the kit, whose sessions hold more
// than a bundle may: they are committed before its end.
func TestSoakAgentBundle(t *testing.T) {
	keys := 50_000 / *soakPart
	withMaxHeld(t, maxHeldBytes/int64(*soakPart))
	made, err := newRunAgentFn(AgentParams{Name: "soak", Agent: new(scriptedAgent)})
	if err != nil {
		t.Fatal(err)
	}
	k := newAgentKit(t, AgentParams{Name: "soak", Agent: new(scriptedAgent), Concurrency: made.Concurrency})
	var outputs, most int64
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	var heap int64
	start := time.Now()
	peak := soakHeap(func() {
		k.begin()
		for i := range keys {
			key := fmt.Sprintf("customer-%06d", i)
			env := eventFor(key, int64(1000+i), script{Count: "n", Big: 2000})
			if err := k.Run(key, func(sp beamstate.Provider, tp timers.Provider) error {
				out := k.out()
				out.outputs = func(beam.EventTime, []byte, []byte) { outputs++ }
				out.traces = func(beam.EventTime, *pb.TraceEvent) {}
				return k.fn.ProcessElement(t.Context(), sp, tp, []byte(key), env, out.outputs, out.intents, out.traces, out.snapshots, out.errs)
			}); err != nil {
				t.Fatal(err)
			}
			most = max(most, k.fn.bundle.held.Load())
			if i%(keys/20) == keys/20-1 {
				heap = max(heap, live()-before)
			}
		}
		early := outputs
		k.finish()
		if early == 0 {
			t.Error("nothing was committed early")
		}
		outputs += int64(len(k.outputs.All()))
	})
	t.Logf("%d keys: %.1f s, peak heap %d MiB, live %d MiB, held at most %d MiB", keys, time.Since(start).Seconds(), peak>>20, heap>>20, most>>20)
	if outputs != int64(2*keys) {
		t.Errorf("%d outputs", outputs)
	}
	if most > maxHeldBytes {
		t.Errorf("%d bytes were held when an element had been taken, the limit is %d", most, maxHeldBytes)
	}
	// The kit keeps what a bundle has written, some 4 KiB for a key of this test.
	if limit := 2*maxHeldBytes + int64(keys)*8<<10; heap > limit {
		t.Errorf("%d MiB of heap for %d MiB that are held", heap>>20, most>>20)
	}
}
