package transforms

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// For each key, agenttest and RunAgent have the same outputs, intents, traces, dead letters and
// snapshots, to the byte and in the same order.
func TestAgenttestIsRunAgent(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(60) {
		routes := []string{"", "drop", "resume", "escalate", "panic"}
		params := AgentParams{
			Name: "test", Agent: &scriptedAgent{Route: routes[seed%uint64(len(routes))]},
			MaxDeferred: 4 + int(seed%3)*10, TTL: time.Duration(seed%2) * 10 * time.Second, Concurrency: 1 + int(seed%2)*3,
		}
		if seed%7 == 0 {
			params.MaxActivationsPerHour = 12
		}
		if seed%5 == 4 {
			params.WhileSuspended = Reject
		}
		common, err := params.common()
		if err != nil {
			t.Fatal(err)
		}
		kit := newAgentKit(t, params)
		r := agenttest.New(t, common)
		got := map[string][]string{}
		keys := map[string]bool{}
		send := func(env *pb.AgentEnvelope) {
			kit.run(proto.CloneOf(env))
			kit.advance(r.NowMS())
			keys[string(env.GetEntityKey())] = true
			addResult(t, got, r.Key(string(env.GetEntityKey())).Send(env))
		}
		export := func() {
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				send(&pb.AgentEnvelope{EntityKey: []byte(key), EventTimeMs: agenttest.StartMS, Payload: &pb.AgentEnvelope_ExportRequest{
					ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: "state"},
				}})
			}
		}
		h := makeHistory(t, seed, params, 1+int(seed%5), 25)
		for i, op := range h.ops {
			for _, env := range op.bundle {
				env = proto.CloneOf(env)
				env.EventTimeMs += agenttest.StartMS
				send(env)
			}
			switch until := op.advanceMS + agenttest.StartMS; {
			case i == len(h.ops)-1:
				export()
				addResult(t, got, r.Wait(math.MaxInt64))
				kit.advance(op.advanceMS)
			case op.advanceMS > 0:
				addResult(t, got, r.Wait(time.Duration(until-r.NowMS())*time.Millisecond))
				kit.advance(until)
			}
		}
		export()
		want := kit.sent()
		for name, texts := range want {
			if !strings.HasSuffix(name, " outputs") { // the others have their times in them
				for i, text := range texts {
					_, texts[i], _ = strings.Cut(text, " ")
				}
			}
		}
		for name := range want {
			if !slices.Equal(got[name], want[name]) {
				for i := range max(len(got[name]), len(want[name])) {
					if at(got[name], i) != at(want[name], i) {
						t.Fatalf("seed %d: %s, number %d:\nagenttest %.600s\nRunAgent  %.600s\n%v", seed, name, i, at(got[name], i), at(want[name], i), h)
					}
				}
			}
			counts[name[len("k0 "):]] += len(want[name])
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: agenttest has %v, RunAgent %v", seed, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
	}
	for _, kind := range []string{"outputs", "intents", "traces", "snapshots", "errors"} {
		if counts[kind] < 100 {
			t.Errorf("only %d %s were compared", counts[kind], kind)
		}
	}
}

// addResult adds what went out in the form of agentKit.sent.
func addResult(t *testing.T, all map[string][]string, out agenttest.Result) {
	t.Helper()
	for _, o := range out.Outputs {
		all[o.Key+" outputs"] = append(all[o.Key+" outputs"], fmt.Sprintf("@%d %x", o.AtMS, o.Value))
	}
	add := func(kind string, key []byte, m proto.Message) {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		all[string(key)+" "+kind] = append(all[string(key)+" "+kind], fmt.Sprintf("%x", b))
	}
	for _, m := range out.Intents {
		add("intents", m.GetEntityKey(), m)
	}
	for _, m := range out.Traces {
		add("traces", m.GetEntityKey(), m)
	}
	for _, m := range out.Snapshots {
		add("snapshots", m.GetEntityKey(), m)
	}
	for _, letter := range out.Errors {
		rec, err := letter.Record()
		if err != nil {
			t.Fatal(err)
		}
		add("errors", rec.GetEntityKey(), rec)
	}
}
