package transforms

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/intent"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// history is what happens to a job: bundles of envelopes, and the passing of event time.
type history struct {
	ops []historyOp
}

type historyOp struct {
	bundle    []*pb.AgentEnvelope
	advanceMS int64 // fires what is due, in a bundle of its own or, with one, in that
}

// makeHistory makes a random history of some keys. Answers are to intents that were emitted, so the
// history runs while it is made.
func makeHistory(t *testing.T, seed uint64, params AgentParams, keys, ops int) history {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	o, err := newOracle(params)
	if err != nil {
		t.Fatal(err)
	}
	var h history
	now := int64(1000)
	for range ops {
		var op historyOp
		if r.IntN(3) > 0 {
			for range 1 + r.IntN(6) {
				op.bundle = append(op.bundle, randomEnvelope(r, o.key(fmt.Sprintf("k%d", r.IntN(keys))), now-int64(r.IntN(500))+int64(r.IntN(3000))))
			}
		}
		if len(op.bundle) == 0 || r.IntN(3) == 0 {
			now += int64(r.IntN(4000))
			op.advanceMS = now
		}
		if err := o.apply(op); err != nil {
			t.Fatal(err)
		}
		h.ops = append(h.ops, op)
	}
	h.ops = append(h.ops, historyOp{advanceMS: int64(mtime.EndOfGlobalWindowTime)})
	return h
}

// randomEnvelope is an event, or an answer to one of the latest intents of the key.
func randomEnvelope(r *rand.Rand, k *oracleKey, at int64) *pb.AgentEnvelope {
	at = max(at, 0)
	open := k.intents()
	open = open[max(0, len(open)-3):]
	if len(open) > 0 && r.IntN(2) == 0 {
		in := open[r.IntN(len(open))]
		if (intent.KindOf(in) == intent.Approval) != (r.IntN(8) == 0) {
			return approvalFor(in, at, r.IntN(3) > 0)
		}
		return resultFor(in, at, fmt.Sprint("result ", at))
	}
	if r.IntN(20) == 0 {
		return &pb.AgentEnvelope{EntityKey: k.Entity, EventTimeMs: at, Payload: &pb.AgentEnvelope_ExportRequest{
			ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: fmt.Sprint("r", at)},
		}}
	}
	return eventFor(string(k.Entity), at, randomScript(r, 3))
}

func randomScript(r *rand.Rand, depth int) script {
	s := script{Count: "n"}
	if r.IntN(4) == 0 {
		s.ID = fmt.Sprint("e", r.IntN(20))
	}
	if r.IntN(3) == 0 {
		s.Put = []string{fmt.Sprintf("m%d=%d", r.IntN(4), r.IntN(1000))}
	}
	if r.IntN(6) == 0 {
		s.Big = r.IntN(30_000)
	}
	switch n := r.IntN(10); {
	case n < 5 && depth > 0:
		s.Then, s.Timeout = "suspend", int64(1+r.IntN(6000))
		for range r.IntN(3) {
			s.Act = append(s.Act, fmt.Sprint("tool", r.IntN(3)))
		}
		for range r.IntN(2) {
			s.Ask = append(s.Ask, "ask")
		}
		if r.IntN(3) == 0 {
			s.Expire = 1 + r.IntN(4000)
		}
		next := randomScript(r, depth-1)
		s.Next = &next
	case n == 5:
		s.Then = []string{"fail", "panic", "exit", "reject", "nothing"}[r.IntN(5)]
	}
	return s
}

// apply applies an operation.
func (k *agentKit) apply(op historyOp) {
	k.t.Helper()
	switch {
	case op.advanceMS == 0:
		k.run(op.bundle...)
	case len(op.bundle) == 0:
		k.advance(op.advanceMS)
	default:
		// Elements and timers in one bundle.
		if err := k.StartBundle(); err != nil {
			k.t.Fatal(err)
		}
		for _, env := range op.bundle {
			if err := k.Run(string(env.GetEntityKey()), k.element(proto.CloneOf(env))); err != nil {
				k.t.Fatal(err)
			}
		}
		k.advance(op.advanceMS)
		if err := k.FinishBundle(); err != nil {
			k.t.Fatal(err)
		}
		k.advance(op.advanceMS)
	}
}

// sent returns what was emitted.
func (k *agentKit) sent() records {
	r := records{}
	for _, e := range k.outputs.All() {
		r.addEffect(e.Value.key, activation.Effect{AtMS: e.EventTime.Milliseconds(), Output: []byte(e.Value.value)})
	}
	for _, e := range k.intents.All() {
		r.addEffect(string(e.Value.GetEntityKey()), activation.Effect{AtMS: e.EventTime.Milliseconds(), Intent: e.Value})
	}
	for _, e := range k.traces.All() {
		r.addEffect(string(e.Value.GetEntityKey()), activation.Effect{AtMS: e.EventTime.Milliseconds(), Trace: e.Value})
	}
	for _, e := range k.snapshots.All() {
		r.addEffect(string(e.Value.GetEntityKey()), activation.Effect{AtMS: e.EventTime.Milliseconds(), Snapshot: e.Value})
	}
	for _, e := range k.errs.All() {
		r.addEffect(string(e.Value.GetEntityKey()), activation.Effect{AtMS: e.EventTime.Milliseconds(), Error: e.Value})
	}
	return r
}

// records returns what was emitted and what is stored.
func (k *agentKit) records() records {
	k.t.Helper()
	r := k.sent()
	for _, key := range k.Keys() {
		var waiting []*runtimepb.DeferredEvent
		for _, v := range k.values(key, "deferred") {
			waiting = append(waiting, v.(*runtimepb.DeferredEvent))
		}
		r.addState(key, k.control(key), one[*pb.MemoryBlob](k.values(key, "memory")), one[*pb.LlmCacheBlob](k.values(key, "llm_cache")), waiting)
	}
	return r
}

func (k *agentKit) values(key, cell string) []any {
	k.t.Helper()
	values, err := k.Values(key, cell)
	if err != nil {
		k.t.Fatal(err)
	}
	return values
}

func one[M any](values []any) (m M) {
	if len(values) > 0 {
		m = values[0].(M)
	}
	return m
}

// compare reports the first difference to another run of the same history, in what was emitted or
// in any byte of state.
func (k *agentKit) compare(name string, want *agentKit) {
	k.t.Helper()
	if d := k.records().difference(want.records()); d != "" {
		k.t.Errorf("%s: %s", name, d)
	}
	if got, want := k.states(), want.states(); !maps.Equal(got, want) {
		k.t.Errorf("%s: state\n%x\nwant\n%x", name, got, want)
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

func (h history) String() string {
	var text strings.Builder
	for i, op := range h.ops {
		fmt.Fprintf(&text, "%d: advance to %d\n", i, op.advanceMS)
		for _, env := range op.bundle {
			fmt.Fprintf(&text, "   %v\n", env)
		}
	}
	return text.String()
}

// historyParams are the parameters of the history of a seed.
func historyParams(seed uint64) AgentParams {
	routes := []string{"", "drop", "resume", "escalate", "panic"}
	params := AgentParams{
		Agent:       &scriptedAgent{Route: routes[seed%uint64(len(routes))]},
		MaxDeferred: 4 + int(seed%3)*10, TTL: time.Duration(seed%2) * 10 * time.Second,
		HoldWatermark: seed%4 == 0,
	}
	if seed%7 == 0 {
		params.MaxActivationsPerHour = 12
	}
	return params
}

// The outputs of each key, in their order, and the stored state are those of the oracle, and all
// bytes of state are the same: for every Concurrency, under delays, with early commits, and with
// both providers.
func TestAgentSameForEverySchedule(t *testing.T) {
	seeds := uint64(120)
	if racedetector.Enabled {
		seeds = 20
	}
	checkSchedules(t, 0, seeds)
}

func checkSchedules(t *testing.T, from, seeds uint64) {
	t.Helper()
	defer func(old int64) { maxHeldBytes = old }(maxHeldBytes)
	normal := maxHeldBytes
	forms := []struct {
		concurrency int
		held        int64
		jitter      int
		sdk         bool
	}{
		{1, normal, 0, false}, {1, 64 << 10, 0, false}, {1, 1, 0, true}, {2, normal, 0, false}, {16, normal, 200, false},
		{16, 64 << 10, 0, true}, {64, 1, 200, false},
	}
	for seed := from; seed < from+seeds; seed++ {
		params := historyParams(seed)
		h := makeHistory(t, seed, params, 1+int(seed%5), 25)
		o, err := newOracle(params)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range h.ops {
			if err := o.apply(op); err != nil {
				t.Fatal(err)
			}
		}
		want := o.records()
		var first map[string]string
		for _, form := range forms {
			p := params
			p.Concurrency, maxHeldBytes = form.concurrency, form.held
			jittered := *params.Agent.(*scriptedAgent)
			jittered.Jitter = form.jitter
			p.Agent = &jittered
			k := newAgentKit(t, p)
			k.SDK = form.sdk
			for _, op := range h.ops {
				k.apply(op)
			}
			if d := k.records().difference(want); d != "" {
				t.Errorf("seed %d, %+v: %s", seed, form, d)
			}
			if first == nil {
				first = k.states()
			} else if got := k.states(); !maps.Equal(got, first) {
				t.Errorf("seed %d, %+v: state\n%x\nwant\n%x", seed, form, got, first)
			}
			if t.Failed() {
				t.Logf("the history of seed %d:\n%v", seed, h)
				return
			}
		}
	}
}
