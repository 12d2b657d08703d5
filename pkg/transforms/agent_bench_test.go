package transforms

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/state"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	RegisterAgent[*benchAgent]()
	register.DoFn4x1[beamstate.Provider, []byte, *pb.AgentEnvelope, func([]byte), error](new(benchStateFn))
	register.DoFn2x0[[]byte, func([]byte, *pb.AgentEnvelope)](new(benchEventsFn))
	register.Function2x0(benchDrain)
	register.Function1x0(benchDrainIntent)
	register.Function1x0(benchDrainTrace)
	register.Function1x0(benchDrainSnapshot)
	register.Function1x0(benchDrainError)
	register.Function1x0(benchDrainBytes)
	register.Emitter1[[]byte]()
	register.Emitter2[[]byte, *pb.AgentEnvelope]()
}

func benchDrain(_, _ []byte)                        {}
func benchDrainIntent(*pb.ToolIntent)               {}
func benchDrainTrace(*pb.TraceEvent)                {}
func benchDrainSnapshot(*pb.StateSnapshot)          {}
func benchDrainError(rec *pb.ActivationErrorRecord) { panic(rec) }
func benchDrainBytes([]byte)                        {}

// benchAgent does one thing in each activation.
type benchAgent struct {
	Do      string // nothing, write, suspend, memory
	Bytes   int    // of memory
	SleepMS int    // of a model call
	SlowMS  int    // of a model call of the key "slow"
}

func (a *benchAgent) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	if a.SlowMS > 0 && string(act.Key()) == "slow" {
		time.Sleep(time.Duration(a.SlowMS) * time.Millisecond)
	} else if a.SleepMS > 0 {
		time.Sleep(time.Duration(a.SleepMS) * time.Millisecond)
	}
	switch {
	case a.Do == "write":
		return agent.Done(), agent.Put(act, "last", act.Trigger().Bytes())
	case a.Do == "suspend" && act.Trigger().Kind == agent.Event:
		return agent.Suspend([]byte("snapshot"), time.Hour), act.Act("tool", map[string]any{"n": 1})
	case a.Do == "memory":
		if _, ok, err := agent.Get[[]byte](act, "turn-000"); !ok || err != nil {
			for i := range max(a.Bytes>>10, 1) {
				if err := agent.Put(act, fmt.Sprintf("turn-%03d", i), make([]byte, 1000)); err != nil {
					return agent.Outcome{}, err
				}
			}
		}
		return agent.Done(), agent.Put(act, "turn-000", slices.Concat(act.Trigger().Bytes(), make([]byte, 900)))
	}
	return agent.Done(), nil
}

// benchBundle gives a DoFn bundles of one element on the kit.
type benchBundle struct {
	b   *testing.B
	kit *beamtest.Kit
	fn  *beamagentsRunAgentFn
	out agentOutputs

	intents []*pb.ToolIntent
}

func newBenchBundle(b *testing.B, a agent.Agent, concurrency int, sdk bool) *benchBundle {
	b.Helper()
	made, err := newRunAgentFn(AgentParams{Name: "bench", Agent: a, Concurrency: concurrency})
	if err != nil {
		b.Fatal(err)
	}
	encoded, err := json.Marshal(made)
	if err != nil {
		b.Fatal(err)
	}
	k := &benchBundle{b: b, fn: new(beamagentsRunAgentFn)}
	if err := json.Unmarshal(encoded, k.fn); err != nil {
		b.Fatal(err)
	}
	if err := k.fn.Setup(context.Background()); err != nil {
		b.Fatal(err)
	}
	if k.kit, err = beamtest.New(k.fn); err != nil {
		b.Fatal(err)
	}
	k.kit.SDK = sdk
	k.out = agentOutputs{
		outputs:   func(beam.EventTime, []byte, []byte) {},
		intents:   func(_ beam.EventTime, in *pb.ToolIntent) { k.intents = append(k.intents[:0], in) },
		traces:    func(beam.EventTime, *pb.TraceEvent) {},
		snapshots: func(beam.EventTime, *pb.StateSnapshot) {},
		errs:      func(_ beam.EventTime, rec *pb.ActivationErrorRecord) { b.Fatal(rec) },
	}
	k.kit.Start = func() error {
		k.fn.StartBundle(k.out.outputs, k.out.intents, k.out.traces, k.out.snapshots, k.out.errs)
		return nil
	}
	k.kit.Finish = func() error {
		return k.fn.FinishBundle(b.Context(), k.out.outputs, k.out.intents, k.out.traces, k.out.snapshots, k.out.errs)
	}
	return k
}

func (k *benchBundle) element(env *pb.AgentEnvelope) {
	if err := k.kit.Run(string(env.GetEntityKey()), func(sp beamstate.Provider, tp timers.Provider) error {
		return k.fn.ProcessElement(k.b.Context(), sp, tp, env.GetEntityKey(), env, k.out.outputs, k.out.intents, k.out.traces, k.out.snapshots, k.out.errs)
	}); err != nil {
		k.b.Fatal(err)
	}
}

func (k *benchBundle) bundle(envelopes ...*pb.AgentEnvelope) {
	if err := k.kit.StartBundle(); err != nil {
		k.b.Fatal(err)
	}
	for _, env := range envelopes {
		k.element(env)
	}
	if err := k.kit.FinishBundle(); err != nil {
		k.b.Fatal(err)
	}
}

// BenchmarkAgent: activations without a runner. An operation is a bundle, with its reads
// and writes, but for those of 100, where it is one of a hundred activations of a bundle of
// one key. Beside it stand the rules alone, which keep all state in memory, and for a
// commit the cell alone, which writes the same bytes.
func BenchmarkAgent(b *testing.B) {
	env := &pb.AgentEnvelope{EntityKey: []byte("customer-0001"), EventTimeMs: 1000, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(`{"n":1}`)}}
	hundred := slices.Repeat([]*pb.AgentEnvelope{env}, 100)
	perActivation := func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(100*b.N), "ns/activation")
	}
	for _, provider := range []string{"kit", "sdk"} {
		for _, do := range []string{"nothing", "write"} {
			b.Run(fmt.Sprintf("do=%s/provider=%s/by=rules", do, provider), func(b *testing.B) {
				k := newBenchRules(b, &benchAgent{Do: do})
				b.ReportAllocs()
				for b.Loop() {
					k.element(env)
				}
			})
			b.Run(fmt.Sprintf("do=%s/provider=%s/by=ours", do, provider), func(b *testing.B) {
				k := newBenchBundle(b, &benchAgent{Do: do}, 0, provider == "sdk")
				b.ReportAllocs()
				for b.Loop() {
					k.bundle(env)
				}
			})
			b.Run(fmt.Sprintf("do=%s_100_times/provider=%s/by=rules", do, provider), func(b *testing.B) {
				k := newBenchRules(b, &benchAgent{Do: do})
				for b.Loop() {
					for _, env := range hundred {
						k.element(env)
					}
				}
				perActivation(b)
			})
			b.Run(fmt.Sprintf("do=%s_100_times/provider=%s/by=ours", do, provider), func(b *testing.B) {
				k := newBenchBundle(b, &benchAgent{Do: do}, 0, provider == "sdk")
				for b.Loop() {
					k.bundle(hundred...)
				}
				perActivation(b)
			})
		}
		b.Run(fmt.Sprintf("do=suspend_resume/provider=%s/by=rules", provider), func(b *testing.B) {
			k := newBenchRules(b, &benchAgent{Do: "suspend"})
			b.ReportAllocs()
			for b.Loop() {
				k.element(env)
				k.element(resultFor(k.key.Control.GetPending()[0], 2000, "fine"))
			}
		})
		b.Run(fmt.Sprintf("do=suspend_resume/provider=%s/by=ours", provider), func(b *testing.B) {
			k := newBenchBundle(b, &benchAgent{Do: "suspend"}, 0, provider == "sdk")
			b.ReportAllocs()
			for b.Loop() {
				k.bundle(env)
				k.bundle(resultFor(k.intents[0], 2000, "fine"))
			}
		})
		for _, kib := range []int{1, 16, 64, 100} {
			b.Run(fmt.Sprintf("do=commit_%dKiB/provider=%s/by=cell", kib, provider), func(b *testing.B) {
				fn := &benchCellFn{}
				k, err := beamtest.New(fn)
				if err != nil {
					b.Fatal(err)
				}
				k.SDK = provider == "sdk"
				b.ReportAllocs()
				for b.Loop() {
					if err := k.Run("k", func(sp beamstate.Provider, _ timers.Provider) error { return fn.put(sp, kib) }); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("do=commit_%dKiB/provider=%s/by=ours", kib, provider), func(b *testing.B) {
				k := newBenchBundle(b, &benchAgent{Do: "memory", Bytes: kib << 10}, 0, provider == "sdk")
				k.bundle(env)
				b.ReportAllocs()
				for b.Loop() {
					k.bundle(env)
				}
			})
		}
	}
}

// benchRules is a key that only the rules handle.
type benchRules struct {
	b   *testing.B
	key *oracleKey
}

func newBenchRules(b *testing.B, a agent.Agent) *benchRules {
	b.Helper()
	o, err := newOracle(AgentParams{Name: "bench", Agent: a})
	if err != nil {
		b.Fatal(err)
	}
	return &benchRules{b, o.key("customer-0001")}
}

func (k *benchRules) element(env *pb.AgentEnvelope) {
	k.key.effects = k.key.effects[:0]
	if err := k.key.element(env); err != nil {
		k.b.Fatal(err)
	}
}

// BenchmarkAgentSlowKey measures how long a key with a call of 20 ms waits for its output if
// another key of its bundle has a call of 10 s. One of 1,000 events is slow. p99-ms is the time of
// the others, from the start of the bundle.
func BenchmarkAgentSlowKey(b *testing.B) {
	const events = 1000
	for _, bench := range []struct {
		slow, bundle int
	}{{0, 100}, {10_000, 100}, {10_000, 5}} {
		b.Run(fmt.Sprintf("slow=%dms/bundle=%d", bench.slow, bench.bundle), func(b *testing.B) {
			k := newBenchBundle(b, &benchAgent{SleepMS: 20, SlowMS: bench.slow}, 64, false)
			var start time.Time
			var waited []float64
			k.out.traces = func(_ beam.EventTime, m *pb.TraceEvent) {
				if m.GetEventType() == pb.TraceEvent_ACTIVATION_END && string(m.GetEntityKey()) != "slow" {
					waited = append(waited, float64(time.Since(start).Microseconds())/1000)
				}
			}
			for b.Loop() {
				for i := 0; i < events; i += bench.bundle {
					var bundle []*pb.AgentEnvelope
					for n := range bench.bundle {
						env := eventFor(fmt.Sprint("customer-", n), int64(1000+i), script{})
						if i+n == events/2 {
							env.EntityKey = []byte("slow")
						}
						bundle = append(bundle, env)
					}
					start = time.Now()
					k.bundle(bundle...)
				}
			}
			slices.Sort(waited)
			b.ReportMetric(waited[len(waited)*99/100], "p99-ms")
		})
	}
}

// benchCellFn writes the same memory with the cell alone.
type benchCellFn struct{ Memory state.Memory }

func (f *benchCellFn) ProcessElement(beamstate.Provider, []byte, int64, func(string)) {}

func (f *benchCellFn) put(sp beamstate.Provider, kib int) error {
	h, err := f.Memory.Open(sp, 1000)
	if err != nil {
		return err
	}
	if h.Len() == 0 {
		for i := range kib {
			if err := h.Put(fmt.Sprintf("turn-%03d", i), make([]byte, 1000)); err != nil {
				return err
			}
		}
	}
	if err := h.Put("turn-000", make([]byte, 907)); err != nil {
		return err
	}
	return h.Commit()
}

// benchStateFn reads and writes one Value for each element, and emits one value.
type benchStateFn struct {
	Count beamstate.Value[[]byte]
}

func (f *benchStateFn) ProcessElement(sp beamstate.Provider, _ []byte, env *pb.AgentEnvelope, emit func([]byte)) error {
	v, _, err := f.Count.Read(sp)
	if err != nil {
		return err
	}
	v = append(v[:0:0], env.GetExternalEvent()...)
	if err := f.Count.Write(sp, v); err != nil {
		return err
	}
	emit(v)
	return nil
}

type benchEventsFn struct{ Events, Keys int }

func (f *benchEventsFn) ProcessElement(_ []byte, emit func([]byte, *pb.AgentEnvelope)) {
	for i := range f.Events {
		key := fmt.Appendf(nil, "customer-%05d", i%f.Keys)
		emit(key, &pb.AgentEnvelope{EntityKey: key, EventTimeMs: int64(1000 + i), Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(`{"n":1}`)}})
	}
}

// BenchmarkPrismAgent sends events through RunAgent, and through a DoFn with one Value that
// is read and written for each, or through RunAgent with one activation at a time. make
// bench prints the ratio of the throughputs.
func BenchmarkPrismAgent(b *testing.B) {
	run := func(b *testing.B, events, keys int, build func(s beam.Scope, keyed beam.PCollection)) {
		b.Helper()
		for b.Loop() {
			p, s := beam.NewPipelineWithRoot()
			build(s, beam.ParDo(s, &benchEventsFn{events, keys}, beam.Impulse(s)))
			if _, err := beam.Run(context.Background(), "prism", p); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(events*b.N)/b.Elapsed().Seconds(), "elements/s")
	}
	ours := func(concurrency int, a agent.Agent) func(s beam.Scope, keyed beam.PCollection) {
		return func(s beam.Scope, keyed beam.PCollection) {
			out := RunAgent(s, AgentParams{Name: "bench", Agent: a, Concurrency: concurrency}, keyed)
			beam.ParDo0(s, benchDrain, out.Outputs)
			beam.ParDo0(s, benchDrainIntent, out.Intents)
			beam.ParDo0(s, benchDrainTrace, out.Traces)
			beam.ParDo0(s, benchDrainSnapshot, out.Snapshots)
			beam.ParDo0(s, benchDrainError, out.Errors)
		}
	}
	value := func(s beam.Scope, keyed beam.PCollection) {
		beam.ParDo0(s, benchDrainBytes, beam.ParDo(s, &benchStateFn{Count: beamstate.MakeValueState[[]byte]("count")}, keyed))
	}
	for _, bench := range []struct {
		name, by     string
		events, keys int
		build        func(s beam.Scope, keyed beam.PCollection)
	}{
		{"Agent_20000_of_1000", "value", 20_000, 1000, value},
		{"Agent_20000_of_1000", "ours", 20_000, 1000, ours(0, &benchAgent{})},
		{"Agent_20000_of_100", "value", 20_000, 100, value},
		{"Agent_20000_of_100", "ours", 20_000, 100, ours(0, &benchAgent{})},
		{"Agent_5000_of_5000", "value", 5000, 5000, value},
		{"Agent_5000_of_5000", "ours", 5000, 5000, ours(0, &benchAgent{})},
		{"Agent_call_of_20ms", "one", 500, 100, ours(1, &benchAgent{SleepMS: 20})},
		{"Agent_call_of_20ms", "ours", 500, 100, ours(64, &benchAgent{SleepMS: 20})},
	} {
		b.Run("transform="+bench.name+"/by="+bench.by, func(b *testing.B) { run(b, bench.events, bench.keys, bench.build) })
	}
}
