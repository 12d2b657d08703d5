package adapter

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Waiting lists the calls without an answer, in the order in which their open intents were
// staged. Keep it in the snapshot of the agent, for example as JSON.
type Waiting []Wait

// Wait is a call without an answer.
type Wait struct {
	ID   string `json:"id"` // the framework's id of the call
	Call `json:"call"`
	// Approved reports that a human has approved the call, so the open intent is the tool call.
	Approved bool `json:"approved,omitempty"`
}

// Answered is a call and its answer.
type Answered struct {
	ID     string
	Call   Call
	Answer Answer
}

// Stage stages the intent of a call and adds the call to the list.
func (w *Waiting) Stage(act *agent.Activation, id string, c Call) error {
	c, err := c.canonical()
	if err != nil {
		return err
	}
	stage := act.RequestApproval
	if c.Kind == ToolCall {
		stage = act.Act
	}
	if err := stage(c.Tool, c.Args); err != nil {
		return err
	}
	*w = append(*w, Wait{ID: id, Call: c})
	return nil
}

// Has reports whether a call with this id is waiting.
func (w *Waiting) Has(id string) bool {
	return slices.ContainsFunc(*w, func(other Wait) bool { return other.ID == id })
}

// Answer returns the calls that the trigger of the activation answers, and removes them from the
// list. A result or a decision answers one call. A trigger of time (Expired, TimedOut) answers
// all calls. A decision that approves an [ApprovedToolCall] answers none: Answer stages the
// approved call. A trigger for an intent that was not staged through the list is an error.
func (w *Waiting) Answer(act *agent.Activation) ([]Answered, error) {
	t := act.Trigger()
	switch t.Kind {
	case agent.ToolResult, agent.Approval:
	case agent.Expired, agent.TimedOut:
		all := make([]Answered, len(*w))
		for i, wait := range *w {
			answer := Answer{Approved: wait.Approved, Status: pb.ToolResult_EXPIRED}
			if wait.Kind == ToolCall || wait.Kind == ApprovedToolCall && wait.Approved {
				answer.Error = "no result came in time" // an effector may have made the call
			}
			all[i] = Answered{wait.ID, wait.Call, answer}
		}
		*w = nil
		return all, nil
	default:
		return nil, fmt.Errorf("adapter: a trigger of kind %v does not answer a call", t.Kind)
	}
	at := w.find(t.Intent, act.Open())
	if at < 0 {
		return nil, fmt.Errorf("adapter: nothing waits for the intent %s of %q", t.Intent.GetIntentId(), t.Intent.GetToolName())
	}
	wait := (*w)[at]
	*w = slices.Delete(*w, at, at+1)
	answer := Answer{Approved: wait.Approved}
	switch {
	case t.Kind == agent.ToolResult:
		answer.Status, answer.Payload, answer.Error = t.Result.GetStatus(), t.Result.GetPayload(), t.Result.GetErrorMessage()
	case t.Approved && wait.Kind == ApprovedToolCall:
		wait.Approved = true
		*w = append(*w, wait) // its intent was staged last
		return nil, act.ActApproved()
	default:
		answer.Approved = t.Approved
	}
	return []Answered{{wait.ID, wait.Call, answer}}, nil
}

// find returns the index of the call that waits for an intent, or -1. Each call has one intent
// that is open or was just answered, in the same order. So the n-th of several equal intents
// belongs to the n-th of the equal calls.
func (w *Waiting) find(in *pb.ToolIntent, open []*pb.ToolIntent) int {
	equal := slices.DeleteFunc(append(open, in), func(other *pb.ToolIntent) bool {
		return intent.KindOf(other) != intent.KindOf(in) || other.GetToolName() != in.GetToolName() || other.GetArgsJson() != in.GetArgsJson()
	})
	slices.SortFunc(equal, func(a, b *pb.ToolIntent) int { return cmp.Compare(a.GetStepIndex(), b.GetStepIndex()) })
	nth := slices.IndexFunc(equal, func(other *pb.ToolIntent) bool { return other.GetIntentId() == in.GetIntentId() })
	for i, wait := range *w {
		kind := intent.Approval
		if wait.Kind == ToolCall || wait.Approved {
			kind = intent.Tool
		}
		if kind != intent.KindOf(in) || wait.Tool != in.GetToolName() || string(wait.Args) != in.GetArgsJson() {
			continue
		}
		if nth == 0 {
			return i
		}
		nth--
	}
	return -1
}
