package main

import (
	"context"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/transforms"
)

// refunds pays small refunds at once and asks a human about the others.
type refunds struct{ LimitCents int64 }

type order struct {
	ID    string `json:"id"`
	Cents int64  `json:"cents"`
}

func init() { transforms.RegisterAgent[*refunds]() }

// Run is one activation: for an order, for the answer of the refund tool, or for the
// decision of a human.
func (r *refunds) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	switch t := act.Trigger(); t.Kind {
	case agent.Event:
		var o order
		if err := t.JSON(&o); err != nil {
			return agent.Reject(err), nil // a dead letter; the next event runs as usual
		}
		if o.Cents <= r.LimitCents {
			return agent.Suspend([]byte(o.ID), time.Hour), act.Act("refund", o)
		}
		return agent.Suspend([]byte(o.ID), 24*time.Hour), act.RequestApproval("refund", o)
	case agent.Approval:
		if t.Approved {
			return agent.Suspend(act.Snapshot(), time.Hour), act.ActApproved() // these arguments and no others
		}
		return agent.Done(), act.EmitJSON(map[string]string{"order": string(act.Snapshot()), "refund": "denied by " + t.Approver})
	case agent.ToolResult:
		return agent.Done(), act.EmitJSON(map[string]string{"order": string(act.Snapshot()), "refund": t.Result.GetStatus().String()})
	}
	return agent.Done(), nil
}
