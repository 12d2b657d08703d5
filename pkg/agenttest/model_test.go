package agenttest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/internal/modelagent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// After a resume no call is made, and no output has a credential.
func TestModelCallsReplay(t *testing.T) {
	addr, calls := modelagent.Serve(t, nil)
	k := agenttest.New(t, agenttest.AgentParams{Name: "models", Agent: &modelagent.Agent{Addr: addr}}).Key("k")
	first := k.Event("go")
	again := k.Answer(first.Intent("tool"), pb.ToolResult_OK, nil)
	if n := calls.Load(); n != 4 || len(first.Outputs) != 5 || len(again.Outputs) != 5 {
		t.Fatalf("%d calls, %d outputs, then %d", n, len(first.Outputs), len(again.Outputs))
	}
	for i, o := range first.Outputs {
		if string(o.Value) != string(again.Outputs[i].Value) {
			t.Errorf("output %d: %s, then %s", i, o.Value, again.Outputs[i].Value)
		}
	}
	if text := fmt.Sprint(first, again, first.Traces, again.Traces, k.Export()); strings.Contains(text, modelagent.Secret) || strings.Contains(text, "session=") {
		t.Error("a credential is in what went out, or is stored")
	}
}

// The outputs are the same wherever bundles end and fail.
func TestModelCallsEverywhere(t *testing.T) {
	addr, _ := modelagent.Serve(t, nil)
	agenttest.Everywhere(t, agenttest.AgentParams{Name: "models", Agent: &modelagent.Agent{Addr: addr}}, func(r *agenttest.Runtime) {
		k := r.Key("k")
		k.Answer(k.Event("go").Intent("tool"), pb.ToolResult_OK, nil)
	})
}

// A request that differs after a resume is counted, and the trace names the difference.
func TestReplayDivergenceIsNamed(t *testing.T) {
	addr, _ := modelagent.Serve(t, nil)
	r := agenttest.New(t, agenttest.AgentParams{Name: "models", Agent: &modelagent.Agent{Addr: addr, Clock: " at 10:01"}})
	k := r.Key("k")
	out := k.Answer(k.Event("go").Intent("tool"), pb.ToolResult_OK, nil)
	end := out.Traces[len(out.Traces)-1]
	text := end.GetAttributes()["beam_agents.replay_divergence"]
	if want := "request 3: body.messages[0]; request 4: body.messages[0]"; text != want {
		t.Errorf("got %q in %v, want %q", text, end, want)
	}
}

// An activation with too many tokens fails, even if it ignores the error, and shows no credential.
func TestTokenBudgetIsADeadLetter(t *testing.T) {
	addr, calls := modelagent.Serve(t, nil)
	r := agenttest.New(t, agenttest.AgentParams{Name: "models", Agent: &modelagent.Agent{Addr: addr}, MaxTokens: 15})
	out := r.Key("k").Event("go")
	if l := out.DeadLetter(); l.Reason != "budget_exceeded" || l.Code != "tokens" || strings.Contains(fmt.Sprint(l), modelagent.Secret) || len(out.Outputs) > 0 {
		t.Errorf("got %+v", l)
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
	if p := out.DeadLetter().Position; p.ModelCalls == nil || *p.ModelCalls != 2 {
		t.Errorf("position %+v", p)
	}
	last := out.Traces[len(out.Traces)-1]
	if last.GetAttributes()["beam_agents.failure.llm_calls"] != "2" {
		t.Errorf("trace %v", last)
	}
}

// The error of a failed request has the URL, and the URL has a key.
func TestErrorsShowNoCredential(t *testing.T) {
	r := agenttest.New(t, agenttest.AgentParams{Name: "models", Agent: &modelagent.Agent{Addr: "127.0.0.1:1"}})
	if l := r.Key("k").Event("go").DeadLetter(); strings.Contains(l.Error, modelagent.Secret) || !strings.Contains(l.Error, "key=[hidden]") {
		t.Errorf("got %q", l.Error)
	}
}
