package transforms

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/modelagent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() { RegisterAgent[*modelagent.Agent]() }

func modelEvent() *pb.AgentEnvelope {
	return &pb.AgentEnvelope{
		EntityKey: []byte("k"), EventTimeMs: agenttest.StartMS, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte("go")},
	}
}

// RunAgent and agenttest leave the same bytes, a resume makes no call, and no credential is emitted
// or stored.
func TestModelCallsInBothRuntimes(t *testing.T) {
	addr, calls := modelagent.Serve(t, nil)
	params := AgentParams{Name: "models", Agent: &modelagent.Agent{Addr: addr}}
	kit := newAgentKit(t, params)
	common, err := params.common()
	if err != nil {
		t.Fatal(err)
	}
	r := agenttest.New(t, common)
	got := map[string][]string{}
	send := func(env *pb.AgentEnvelope) agenttest.Result {
		kit.run(proto.CloneOf(env))
		out := r.Key("k").Send(env)
		addResult(t, got, out)
		return out
	}
	first := send(modelEvent())
	if n := calls.Load(); n != 2*modelagent.Requests {
		t.Errorf("%d calls", n)
	}
	send(resultFor(first.Intent("tool"), agenttest.StartMS+1, `{}`))
	send(&pb.AgentEnvelope{EntityKey: []byte("k"), EventTimeMs: agenttest.StartMS, Payload: &pb.AgentEnvelope_ExportRequest{
		ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: "state"},
	}})
	if n := calls.Load(); n != 2*modelagent.Requests {
		t.Errorf("the resume has made %d calls", n-2*modelagent.Requests)
	}
	want := kit.sent()
	spans := map[string]bool{}
	for name, texts := range want {
		for i, text := range texts {
			if !strings.HasSuffix(name, " outputs") {
				_, texts[i], _ = strings.Cut(text, " ")
			}
			if strings.Contains(text, fmt.Sprintf("%x", modelagent.Secret)) {
				t.Errorf("%s shows a credential", name)
			}
		}
		if !slices.Equal(got[name], texts) {
			t.Errorf("%s: agenttest has\n%s\nRunAgent\n%s", name, strings.Join(got[name], "\n"), strings.Join(texts, "\n"))
		}
	}
	llm := 0
	for _, e := range kit.traces.All() {
		if e.Value.GetEventType() == pb.TraceEvent_LLM_CALL {
			llm++
			if id := string(e.Value.GetSpanId()); spans[id] {
				t.Errorf("the span %x is there twice", id)
			} else {
				spans[id] = true
			}
		}
	}
	if llm != 2*(modelagent.Requests+1) {
		t.Errorf("%d trace events of model calls", llm)
	}
	for _, cell := range []string{"control", "memory", "llm_cache"} {
		if bytes.Contains(kit.Bytes("k", cell), []byte(modelagent.Secret)) || bytes.Contains(kit.Bytes("k", cell), []byte("session")) {
			t.Errorf("the cell %s has a credential", cell)
		}
	}
}

// A dead letter has the number of answered calls, and shows no credential.
func TestModelCallsInALetter(t *testing.T) {
	addr, _ := modelagent.Serve(t, nil)
	kit := newAgentKit(t, AgentParams{Name: "models-budget", Agent: &modelagent.Agent{Addr: addr}, MaxTokens: 15})
	for range 2 { // the second one is answered from the memory of the process, and says the same
		kit.run(modelEvent())
	}
	for _, e := range kit.errs.All() {
		l, err := deadletter.Read(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		if l.Code != deadletter.Tokens || l.Position.ModelCalls == nil || *l.Position.ModelCalls != 2 || strings.Contains(l.Error, modelagent.Secret) {
			t.Errorf("letter %+v", l)
		}
	}
	if n := len(kit.errs.All()); n != 2 {
		t.Errorf("%d letters", n)
	}
}

// If a worker crashes at any model call, before or after the response, all bytes stay the same. The
// retry in the same process repeats only the call whose response was lost.
func TestAgentDiesAtModelCalls(t *testing.T) {
	run := func(crashAt int64, lost bool) (out records, calls int64) {
		var kit *agentKit
		var bundle atomic.Pointer[agentBundle] // that is open
		addr, made := modelagent.Serve(t, func(n int64) bool {
			if n != crashAt {
				return true
			}
			bundle.Load().fail(beamtest.ErrCrash)
			return !lost
		})
		// Of one process, but not of another run.
		kit = newAgentKit(t, AgentParams{Name: fmt.Sprintf("dies-%d-%v", crashAt, lost), Agent: &modelagent.Agent{Addr: addr}})
		try := func(env *pb.AgentEnvelope) {
			for {
				err := kit.StartBundle()
				bundle.Store(kit.fn.bundle)
				err = errors.Join(err, kit.Run("k", kit.element(proto.CloneOf(env))))
				if err == nil {
					err = kit.FinishBundle()
				}
				if err == nil {
					return
				}
				kit.FailBundle()
				if !errors.Is(err, beamtest.ErrCrash) {
					t.Fatal(err)
				}
			}
		}
		try(modelEvent())
		if crashAt > 0 && made.Load() <= modelagent.Requests && lost {
			t.Errorf("crash at %d: %d calls", crashAt, made.Load())
		}
		if len(kit.intents.All()) != 1 {
			t.Fatalf("crash at %d: no intent; said %q", crashAt, kit.said())
		}
		try(resultFor(kit.intents.All()[0].Value, agenttest.StartMS+1, `{}`))
		out = kit.sent()
		out["cache"] = []string{fmt.Sprintf("%x", kit.Bytes("k", "llm_cache"))}
		return out, made.Load()
	}
	want, calls := run(0, false)
	if calls != modelagent.Requests {
		t.Fatalf("%d calls without a crash", calls)
	}
	for crashAt := int64(1); crashAt <= modelagent.Requests; crashAt++ {
		for _, lost := range []bool{false, true} {
			got, calls := run(crashAt, lost)
			// One that ran beside it may be cancelled with the bundle.
			if most := int64(modelagent.Requests + 2); calls > most || !lost && crashAt <= 2 && calls > modelagent.Requests+1 {
				t.Errorf("crash at %d, lost %v: %d calls", crashAt, lost, calls)
			}
			for name := range want {
				// Traces contain the name of the agent, which differs from run to run.
				if name != "k traces" && !slices.Equal(got[name], want[name]) {
					t.Errorf("crash at %d, lost %v: other %s:\n%v\n%v", crashAt, lost, name, got[name], want[name])
				}
			}
		}
	}
}
