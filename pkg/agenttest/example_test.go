package agenttest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Refunds pays small refunds at once and asks a human for the others.
type Refunds struct{ LimitCents int64 }

type order struct {
	ID    string `json:"id"`
	Cents int64  `json:"cents"`
}

type answer struct {
	Status  string `json:"status"`
	Refunds int    `json:"refunds"` // the refunds that the customer has had
}

// Run is one activation.
func (a *Refunds) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	t := act.Trigger()
	switch t.Kind {
	case agent.Event:
		var o order
		if err := t.JSON(&o); err != nil {
			return agent.Reject(err), nil
		}
		if o.Cents <= a.LimitCents {
			return agent.Suspend(nil, time.Hour), act.Act("refund", o)
		}
		return agent.Suspend(nil, 24*time.Hour), act.RequestApproval("refund", o)
	case agent.Approval:
		if t.Approved {
			return agent.Suspend(nil, time.Hour), act.ActApproved()
		}
		return agent.Done(), act.EmitJSON(answer{Status: "denied"})
	case agent.ToolResult:
		n, _, err := agent.Get[int](act, "refunds")
		if err != nil {
			return agent.Outcome{}, err
		}
		if t.Result.GetStatus() != pb.ToolResult_OK {
			return agent.Done(), act.EmitJSON(answer{Status: "failed", Refunds: n})
		}
		if err := agent.Put(act, "refunds", n+1); err != nil {
			return agent.Outcome{}, err
		}
		return agent.Done(), act.EmitJSON(answer{Status: "refunded", Refunds: n + 1})
	}
	return agent.Done(), act.EmitJSON(answer{Status: "nobody answered"})
}

func refunds() agenttest.AgentParams {
	return agenttest.AgentParams{Name: "refunds", Agent: &Refunds{LimitCents: 1000}}
}

func expect(t *testing.T, out agenttest.Result, want answer) {
	t.Helper()
	var got answer
	out.OutputJSON(&got)
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRefundBelowTheLimit(t *testing.T) {
	k := agenttest.New(t, refunds()).Key("customer-1")
	refund := k.Event(order{ID: "o1", Cents: 500}).Intent("refund")
	if got, want := refund.GetArgsJson(), `{"cents":500,"id":"o1"}`; got != want {
		t.Errorf("args %s, want %s", got, want)
	}
	expect(t, k.Answer(refund, pb.ToolResult_OK, nil), answer{"refunded", 1})
	if n, _ := agenttest.Memory[int](k, "refunds"); n != 1 {
		t.Errorf("the memory has %d refunds", n)
	}
}

func TestRefundIsApproved(t *testing.T) {
	r := agenttest.New(t, refunds())
	k := r.Key("customer-1")
	asked := k.Event(order{ID: "o1", Cents: 5000}).Intent("refund")
	r.Wait(23 * time.Hour)
	refund := k.Approve(asked, "alice").Intent("refund")
	if refund.GetArgsJson() != asked.GetArgsJson() {
		t.Errorf("approved were %s, the tool gets %s", asked.GetArgsJson(), refund.GetArgsJson())
	}
	expect(t, k.Answer(refund, pb.ToolResult_ERROR, errors.New("the card is closed")), answer{"failed", 0})
}

func TestRefundIsDenied(t *testing.T) {
	k := agenttest.New(t, refunds()).Key("customer-1")
	asked := k.Event(order{ID: "o1", Cents: 5000}).Intent("refund")
	expect(t, k.Deny(asked, "alice"), answer{"denied", 0})
	if _, suspended := k.Suspended(); suspended {
		t.Error("the key is suspended")
	}
}

func TestRefundWithoutAnAnswer(t *testing.T) {
	r := agenttest.New(t, refunds())
	r.Key("customer-1").Event(order{ID: "o1", Cents: 5000})
	out := r.Wait(24 * time.Hour)
	if len(out.Outputs) != 1 || string(out.Outputs[0].Value) != agent.DefaultTimeoutOutput {
		t.Errorf("at the deadline:\n%v", out)
	}
}

func TestRefundOfNonsense(t *testing.T) {
	k := agenttest.New(t, refunds()).Key("customer-1")
	letter := k.Event("no JSON").DeadLetter()
	if letter.Code != "rejected" {
		t.Errorf("got %s: %s", letter.Code, letter.Error)
	}
}

func TestRefundsEverywhere(t *testing.T) {
	agenttest.Everywhere(t, refunds(), func(r *agenttest.Runtime) {
		one, two := r.Key("customer-1"), r.Key("customer-2")
		small := one.Event(order{ID: "o1", Cents: 500}).Intent("refund")
		asked := two.Event(order{ID: "o2", Cents: 5000}).Intent("refund")
		one.Event(order{ID: "o3", Cents: 700}) // waits until the first refund is done
		refund := two.Approve(asked, "alice").Intent("refund")
		one.Answer(small, pb.ToolResult_OK, nil)
		two.Answer(refund, pb.ToolResult_OK, nil)
		r.Wait(48 * time.Hour)
	})
}
