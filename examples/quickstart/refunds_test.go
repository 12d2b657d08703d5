package main

import (
	"errors"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func params() agenttest.AgentParams {
	return agenttest.AgentParams{Name: "refunds", Agent: &refunds{LimitCents: 5000}}
}

// decided fails the test unless the only output has this decision about an order.
func decided(t *testing.T, out agenttest.Result, order, refund string) {
	t.Helper()
	var got struct {
		Order  string `json:"order"`
		Refund string `json:"refund"`
	}
	out.OutputJSON(&got)
	if got.Order != order || got.Refund != refund {
		t.Errorf("got %+v, want %s, %s", got, order, refund)
	}
}

func TestSmallRefundIsPaid(t *testing.T) {
	ann := agenttest.New(t, params()).Key("ann")
	refund := ann.Event(order{ID: "order-1", Cents: 5000}).Intent("refund")
	if refund.GetKind() != pb.ToolIntent_TOOL {
		t.Errorf("a human is asked about %s", refund.GetArgsJson())
	}
	decided(t, ann.Answer(refund, pb.ToolResult_OK, nil), "order-1", "OK")
}

func TestLargeRefundIsApproved(t *testing.T) {
	r := agenttest.New(t, params())
	bob := r.Key("bob")
	asked := bob.Event(order{ID: "order-2", Cents: 5001}).Intent("refund")
	if asked.GetKind() != pb.ToolIntent_APPROVAL {
		t.Errorf("nobody is asked about %s", asked.GetArgsJson())
	}
	r.Wait(23 * time.Hour)
	refund := bob.Approve(asked, "dana").Intent("refund")
	if refund.GetArgsJson() != asked.GetArgsJson() {
		t.Errorf("approved were %s, the tool gets %s", asked.GetArgsJson(), refund.GetArgsJson())
	}
	decided(t, bob.Answer(refund, pb.ToolResult_ERROR, errors.New("the card is closed")), "order-2", "ERROR")
}

func TestLargeRefundIsDenied(t *testing.T) {
	cleo := agenttest.New(t, params()).Key("cleo")
	asked := cleo.Event(order{ID: "order-3", Cents: 70_000}).Intent("refund")
	decided(t, cleo.Deny(asked, "dana"), "order-3", "denied by dana")
}

func TestNobodyDecides(t *testing.T) {
	r := agenttest.New(t, params())
	dave := r.Key("dave")
	dave.Event(order{ID: "order-5", Cents: 60_000})
	out := r.Wait(24 * time.Hour)
	if len(out.Outputs) != 1 || string(out.Outputs[0].Value) != agent.DefaultTimeoutOutput {
		t.Errorf("at the deadline:\n%v", out)
	}
	if _, suspended := dave.Suspended(); suspended {
		t.Error("dave is suspended")
	}
}

func TestNoOrderIsADeadLetter(t *testing.T) {
	ann := agenttest.New(t, params()).Key("ann")
	if letter := ann.Event([]string{"no order"}).DeadLetter(); letter.Code != "rejected" {
		t.Errorf("got %s: %s", letter.Code, letter.Error)
	}
}

// A crash and a retry at any place, and bundles that end at any place, change nothing.
func TestEverywhere(t *testing.T) {
	agenttest.Everywhere(t, params(), func(r *agenttest.Runtime) {
		ann, bob, dave := r.Key("ann"), r.Key("bob"), r.Key("dave")
		small := ann.Event(order{ID: "order-1", Cents: 1200}).Intent("refund")
		asked := bob.Event(order{ID: "order-2", Cents: 90_000}).Intent("refund")
		ann.Event(order{ID: "order-4", Cents: 800}) // waits until the first order is done
		dave.Event(order{ID: "order-5", Cents: 60_000})
		large := bob.Approve(asked, "dana").Intent("refund")
		ann.Answer(small, pb.ToolResult_OK, nil)
		bob.Answer(large, pb.ToolResult_OK, nil)
		ann.Event("no order")
		r.Wait(48 * time.Hour)
	})
}
