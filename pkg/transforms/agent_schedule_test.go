package transforms

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/intent"
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

// makeHistory makes a random history of some keys. Answers answer intents that were
// emitted, so it runs while it is made.
func makeHistory(t *testing.T, seed uint64, params AgentParams, keys, ops int) history {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	params.Concurrency = 1
	k := newAgentKit(t, params)
	var h history
	now := int64(1000)
	for range ops {
		var op historyOp
		if r.IntN(3) > 0 {
			for range 1 + r.IntN(6) {
				op.bundle = append(op.bundle, randomEnvelope(r, k, fmt.Sprintf("k%d", r.IntN(keys)), now-int64(r.IntN(500))+int64(r.IntN(3000))))
			}
		}
		if len(op.bundle) == 0 || r.IntN(3) == 0 {
			now += int64(r.IntN(4000))
			op.advanceMS = now
		}
		k.apply(op)
		h.ops = append(h.ops, op)
	}
	h.ops = append(h.ops, historyOp{advanceMS: int64(mtime.EndOfGlobalWindowTime)})
	return h
}

// randomEnvelope is an event, or an answer to one of the latest intents of the key.
func randomEnvelope(r *rand.Rand, k *agentKit, key string, at int64) *pb.AgentEnvelope {
	at = max(at, 0)
	var open []*pb.ToolIntent
	for _, e := range k.intents.All() {
		if string(e.Value.GetEntityKey()) == key {
			open = append(open, e.Value)
		}
	}
	open = open[max(0, len(open)-3):]
	if len(open) > 0 && r.IntN(2) == 0 {
		in := open[r.IntN(len(open))]
		if (intent.KindOf(in) == intent.Approval) != (r.IntN(8) == 0) {
			return approvalFor(in, at, r.IntN(3) > 0)
		}
		return resultFor(in, at, fmt.Sprint("result ", at))
	}
	if r.IntN(20) == 0 {
		return &pb.AgentEnvelope{EntityKey: []byte(key), EventTimeMs: at, Payload: &pb.AgentEnvelope_ExportRequest{
			ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: fmt.Sprint("r", at)},
		}}
	}
	return eventFor(key, at, randomScript(r, 3))
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

// apply lets an operation happen.
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

// byKey are the records of each key, in their order, as texts with their bytes.
func (k *agentKit) byKey() map[string][]string {
	all := map[string][]string{}
	add := func(kind, key string, at int64, m any) {
		text, _ := m.(string)
		if m, ok := m.(proto.Message); ok {
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				k.t.Fatal(err)
			}
			text = fmt.Sprintf("%x", b)
		}
		all[key+" "+kind] = append(all[key+" "+kind], fmt.Sprintf("@%d %s", at, text))
	}
	for _, e := range k.outputs.All() {
		add("outputs", e.Value.key, e.EventTime.Milliseconds(), e.Value.value)
	}
	for _, e := range k.intents.All() {
		add("intents", string(e.Value.GetEntityKey()), e.EventTime.Milliseconds(), e.Value)
	}
	for _, e := range k.traces.All() {
		add("traces", string(e.Value.GetEntityKey()), e.EventTime.Milliseconds(), e.Value)
	}
	for _, e := range k.snapshots.All() {
		add("snapshots", string(e.Value.GetEntityKey()), e.EventTime.Milliseconds(), e.Value)
	}
	for _, e := range k.errs.All() {
		add("errors", string(e.Value.GetEntityKey()), e.EventTime.Milliseconds(), e.Value)
	}
	return all
}

// compare reports the first difference to another run of the same history.
func (k *agentKit) compare(name string, want *agentKit) {
	k.t.Helper()
	got, wanted := k.byKey(), want.byKey()
	maps.Copy(got, statesOf(k))
	maps.Copy(wanted, statesOf(want))
	names := slices.Sorted(maps.Keys(wanted))
	for key := range got {
		if _, ok := wanted[key]; !ok {
			names = append(names, key)
		}
	}
	for _, key := range names {
		for i := range max(len(got[key]), len(wanted[key])) {
			g, w := at(got[key], i), at(wanted[key], i)
			if g != w {
				k.t.Errorf("%s: %s, number %d:\ngot  %.600s\nwant %.600s", name, key, i, g, w)
				return
			}
		}
	}
}

func statesOf(k *agentKit) map[string][]string {
	all := map[string][]string{}
	for name, b := range k.states() {
		all["state "+name] = []string{fmt.Sprintf("%x", b)}
	}
	return all
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

// Outputs of each key in their order, and all state bytes, are the same for every
// Concurrency, under delays, with early commits, and with a crash and a retry anywhere.
func TestAgentSameForEverySchedule(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 10
	}
	defer func(old int64) { maxHeldBytes = old }(maxHeldBytes)
	normal := maxHeldBytes
	for seed := range seeds {
		routes := []string{"", "drop", "resume", "escalate", "panic"}
		params := AgentParams{
			Agent:       &scriptedAgent{Route: routes[seed%uint64(len(routes))]},
			MaxDeferred: 4 + int(seed%3)*10, TTL: time.Duration(seed%2) * 10 * time.Second,
			HoldWatermark: seed%4 == 0,
		}
		if seed%7 == 0 {
			params.MaxActivationsPerHour = 12
		}
		maxHeldBytes = normal
		h := makeHistory(t, seed, params, 1+int(seed%5), 25)
		params.Concurrency = 1
		want := newAgentKit(t, params)
		for _, op := range h.ops {
			want.apply(op)
		}
		for _, form := range []struct {
			concurrency int
			held        int64
			jitter      int
		}{
			{1, 64 << 10, 0}, {1, 1, 0}, {2, normal, 0}, {16, normal, 200}, {16, 64 << 10, 0}, {64, 1, 200},
		} {
			p := params
			p.Concurrency, maxHeldBytes = form.concurrency, form.held
			jittered := *params.Agent.(*scriptedAgent)
			jittered.Jitter = form.jitter
			p.Agent = &jittered
			k := newAgentKit(t, p)
			for _, op := range h.ops {
				k.apply(op)
			}
			k.compare(fmt.Sprintf("seed %d, %+v", seed, form), want)
			if t.Failed() {
				t.Logf("the history of seed %d:\n%v", seed, h)
				return
			}
		}
	}
}
