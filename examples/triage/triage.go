package main

import (
	"context"
	"errors"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// How long the agent waits. The sum is less than six hours, which is how long the replay cache
// keeps an answer of the model.
const (
	approvalWait = 4 * time.Hour
	refundWait   = time.Hour
)

// triage decides about the payment events of a customer: a model pays refunds, watches the
// customer, or does nothing. An approval is needed for a refund above the limit, and for every
// refund of a customer who is watched.
type triage struct {
	BaseURL    string // of the model's API
	Model      string
	LimitCents int64

	client openai.Client
}

const (
	approvalAttribute = "triage.approval" // of the trace: what a human has decided
	timedOut          = "timed out"       // a decision that nobody has made
)

func init() { transforms.RegisterAgent[*triage]() }

// Setup opens the client on the worker, whose environment has OPENAI_API_KEY.
func (t *triage) Setup(context.Context) error { //nolint:unparam // of the interface
	t.client = openai.NewClient(option.WithBaseURL(t.BaseURL))
	return nil
}

// Run is one activation: for a payment event, for the decision of a human, or for the result of
// the refund tool. It asks the model from the beginning each time. The replay cache answers what
// was asked before the suspension.
func (t *triage) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	c, err := read(act.Trigger(), act.Snapshot())
	if err != nil {
		return agent.Reject(err), nil // a dead letter; the next event runs as usual
	}
	if err := c.recall(act); err != nil {
		return agent.Outcome{}, err
	}
	talk := c.conversation()
	answer, err := t.ask(ctx, act, talk)
	if err != nil {
		return agent.Outcome{}, err
	}
	call, err := c.toolCall(answer)
	if err != nil {
		return agent.Outcome{}, err
	}

	var result string
	switch trigger := act.Trigger(); {
	case trigger.Kind != agent.Event && call.Name != "refund":
		// The answer came after the cache had forgotten the question: a dead letter keeps it.
		return agent.Outcome{}, errors.New("the model no longer wants the refund of " + c.Payment.ID)
	case call.Name == "":
		return agent.Done(), errors.Join(c.remember(act), c.emit(act, "no action", answer.Content))
	case call.Name == "watch":
		c.Customer.Watched = call.Reason
		return agent.Done(), errors.Join(c.remember(act), c.emit(act, "watched", call.Reason))
	case trigger.Kind == agent.Event && call.Cents <= t.LimitCents && c.Customer.Watched == "":
		return agent.Suspend(c.snapshot(), refundWait), errors.Join(c.remember(act), act.Act("refund", call.refund))
	case trigger.Kind == agent.Event:
		return agent.Suspend(c.snapshot(), approvalWait), errors.Join(c.remember(act), act.RequestApproval("refund", call.refund))
	case trigger.Approved:
		return agent.Suspend(c.snapshot(), refundWait), errors.Join(
			act.SetAttribute(approvalAttribute, "approved"), act.ActApproved()) // exactly the approved arguments
	case trigger.Kind == agent.Approval:
		result = "denied"
		if err := act.SetAttribute(approvalAttribute, result); err != nil {
			return agent.Outcome{}, err
		}
	case trigger.Result.GetStatus() == pb.ToolResult_OK:
		result = "refunded"
	default:
		result = "refund failed"
	}
	talk = append(talk, answer.ToParam(), openai.ToolMessage(result, call.ID))
	if answer, err = t.ask(ctx, act, talk); err != nil {
		return agent.Outcome{}, err
	}
	return agent.Done(), c.emit(act, result, answer.Content)
}

// ask makes one call of the model. The call is replayed, because it uses the client of the
// activation.
func (t *triage) ask(ctx context.Context, act *agent.Activation, talk []openai.ChatCompletionMessageParamUnion) (openai.ChatCompletionMessage, error) {
	completion, err := t.client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model: t.Model, Messages: talk, Tools: tools, ParallelToolCalls: openai.Bool(false),
	}, option.WithHTTPClient(act.HTTPClient()))
	switch {
	case err != nil:
		return openai.ChatCompletionMessage{}, err
	case len(completion.Choices) == 0:
		return openai.ChatCompletionMessage{}, errors.New("the model has answered without a choice")
	}
	return completion.Choices[0].Message, nil
}

// TimeoutPolicy decides what happens if nobody answers. A missing approval is a denial. A missing
// result of the refund tool becomes a dead letter, so that somebody looks into it.
func (t *triage) TimeoutPolicy(timeout agent.Timeout) agent.Route {
	c, err := read(agent.Trigger{}, timeout.Snapshot)
	if err != nil {
		return agent.Drop(err.Error())
	}
	if timeout.Pending[0].GetKind() == pb.ToolIntent_APPROVAL {
		return agent.Deny(c.decision(timedOut, "Nobody has approved the refund in time."))
	}
	return agent.Drop("the refund tool has not answered about " + c.Payment.ID)
}

// EventID names an event, so that an event that is delivered twice is decided once.
func (t *triage) EventID(event []byte) string {
	var p payment
	if err := (agent.Trigger{Kind: agent.Event, Event: event}).JSON(&p); err != nil {
		return "" // Run rejects it
	}
	return p.ID
}
