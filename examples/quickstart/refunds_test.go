package main

import (
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

type decision struct{ Order, Refund string }

// What the sample shows, with a crash and a retry at every place.
func TestRefunds(t *testing.T) {
	params := agenttest.AgentParams{Name: "refunds", Agent: &refunds{LimitCents: 5000}}
	agenttest.Everywhere(t, params, func(r *agenttest.Runtime) {
		expect := func(out agenttest.Result, want decision) {
			t.Helper()
			var got map[string]string
			out.OutputJSON(&got)
			if got["order"] != want.Order || got["refund"] != want.Refund {
				t.Errorf("got %v, want %+v", got, want)
			}
		}
		ann, bob, cleo, dave := r.Key("ann"), r.Key("bob"), r.Key("cleo"), r.Key("dave")

		small := ann.Event(order{"order-1", 5000}).Intent("refund")
		expect(ann.Answer(small, pb.ToolResult_OK, nil), decision{"order-1", "OK"})

		asked := bob.Event(order{"order-2", 5001}).Intent("refund")
		refund := bob.Approve(asked, "dana").Intent("refund")
		if refund.GetArgsJson() != asked.GetArgsJson() || refund.GetKind() != pb.ToolIntent_TOOL || asked.GetKind() != pb.ToolIntent_APPROVAL {
			t.Errorf("dana approves %v, and %v runs", asked, refund)
		}
		expect(bob.Answer(refund, pb.ToolResult_ERROR, nil), decision{"order-2", "ERROR"})

		asked = cleo.Event(order{"order-3", 70000}).Intent("refund")
		expect(cleo.Deny(asked, "dana"), decision{"order-3", "denied by dana"})

		if letter := ann.Event([]string{"no order"}).DeadLetter(); letter.Code != "rejected" {
			t.Errorf("an event that is no order: %+v", letter)
		}

		dave.Event(order{"order-5", 60000})
		if out := r.Wait(24*time.Hour - time.Millisecond); len(out.Outputs) != 0 {
			t.Errorf("before the deadline:\n%v", out)
		}
		if out := r.Wait(time.Millisecond); len(out.Outputs) != 1 || string(out.Outputs[0].Value) != agent.DefaultTimeoutOutput {
			t.Errorf("at the deadline:\n%v", out)
		}
	})
}
