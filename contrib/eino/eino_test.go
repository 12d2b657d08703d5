package eino_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/internal/modelserver"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func serve(t *testing.T) (*modelserver.Server, string) {
	t.Helper()
	s := &modelserver.Server{Reply: modelserver.CallWords}
	running, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Close() })
	t.Setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
	return s, running.URL + "/v1"
}

func refunds(url string) agenttest.AgentParams {
	return agenttest.AgentParams{Name: "refunds", Agent: &Refunds{BaseURL: url, LimitCents: 1000}}
}

func output(t *testing.T, r agenttest.Result) string {
	t.Helper()
	if len(r.Outputs) != 1 {
		t.Fatalf("%d outputs:\n%v", len(r.Outputs), r)
	}
	return string(r.Outputs[0].Value)
}

func TestAnswer(t *testing.T) {
	_, url := serve(t)
	k := agenttest.New(t, refunds(url)).Key("a")
	r := k.Event("hello")
	t.Log(r)
	for _, e := range r.Errors {
		t.Log(e.Error)
	}
	if got := output(t, r); got != "nothing to do" {
		t.Errorf("got %q", got)
	}
}

func TestToolCalls(t *testing.T) {
	_, url := serve(t)
	agenttest.Everywhere(t, refunds(url), func(r *agenttest.Runtime) {
		k := r.Key("a")
		out := k.Event("refund:500 and refund:700 and refund:500")
		t.Log(out)
		for _, e := range out.Errors {
			t.Log(e.Error)
		}
		if len(out.Intents) != 3 {
			t.Fatalf("%v", out)
		}
		t.Log(string(k.Snapshot()))
		k.Answer(out.Intents[2], pb.ToolResult_OK, "third")
		k.Answer(out.Intents[0], pb.ToolResult_OK, "first")
		if got := output(t, k.Answer(out.Intents[1], pb.ToolResult_ERROR, fmt.Errorf("no money"))); got != "first; The call failed: no money; third" {
			t.Errorf("got %q", got)
		}
	})
}

// The tool call of the model is shown to a human, and the approved call is made.
func TestApproval(t *testing.T) {
	_, url := serve(t)
	agenttest.Everywhere(t, refunds(url), func(r *agenttest.Runtime) {
		yes, no, both := r.Key("yes"), r.Key("no"), r.Key("both")
		asked := yes.Event("refund:5000").Intent("refund")
		if asked.GetKind() != pb.ToolIntent_APPROVAL {
			t.Errorf("got %v", asked)
		}
		refund := yes.Approve(asked, "alice").Intent("refund")
		if refund.GetKind() != pb.ToolIntent_TOOL || refund.GetArgsJson() != `{"cents":5000}` || refund.GetArgsJson() != asked.GetArgsJson() {
			t.Errorf("asked for %v, got %v", asked, refund)
		}
		if got := output(t, yes.Answer(refund, pb.ToolResult_OK, "paid")); got != "paid" {
			t.Errorf("got %q", got)
		}

		if got := output(t, no.Deny(no.Event("refund:5000").Intent("refund"), "alice")); got != "The call was not made: it was denied." {
			t.Errorf("got %q", got)
		}

		// Equal calls are told apart, also if one is approved before the other.
		out := both.Event("refund:5000 refund:5000 refund:10")
		second := both.Approve(out.Intents[1], "alice").Intent("refund")
		first := both.Approve(out.Intents[0], "alice").Intent("refund")
		both.Answer(first, pb.ToolResult_OK, "first")
		both.Answer(second, pb.ToolResult_OK, "second")
		if got := output(t, both.Answer(out.Intents[2], pb.ToolResult_OK, "third")); got != "first; second; third" {
			t.Errorf("got %q", got)
		}
	})
}

// The model gets an error as the answer to a call that is not valid.
func TestNonsense(t *testing.T) {
	_, url := serve(t)
	k := agenttest.New(t, refunds(url)).Key("a")
	if got := output(t, k.Event("refund:[1,1e999]")); !strings.HasPrefix(got, "The call was not made: ") {
		t.Errorf("got %q", got)
	}
}
