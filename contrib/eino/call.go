package eino

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/beamagents/beamagents-go/pkg/adapter"
)

// Call is what a component of a graph waits for.
type Call = adapter.Call

// Answer is how a [Call] ended.
type Answer = adapter.Answer

// Act asks for a tool call, with args as for Activation.Act. Its error interrupts the graph
// and must be returned as it is.
func Act(ctx context.Context, toolName string, args any) (Answer, error) {
	return await(ctx, adapter.ToolCall, toolName, args)
}

// ActApproved asks a human, and calls the tool with exactly the arguments that were
// approved. Its error interrupts the graph and must be returned as it is.
func ActApproved(ctx context.Context, toolName string, args any) (Answer, error) {
	return await(ctx, adapter.ApprovedToolCall, toolName, args)
}

// RequestApproval asks a human whether the tool may be called with args, and calls nothing.
// Its error interrupts the graph and must be returned as it is.
func RequestApproval(ctx context.Context, toolName string, args any) (Answer, error) {
	return await(ctx, adapter.Decision, toolName, args)
}

// asked is what a component that has asked leaves in the checkpoint.
type asked struct {
	Done    []answered
	Waiting Call
}

type answered struct {
	Call   Call
	Answer Answer
}

// await returns the answer to a call, or the interrupt that asks for it.
func await(ctx context.Context, kind adapter.Kind, toolName string, args any) (Answer, error) {
	call, err := adapter.NewCall(kind, toolName, args)
	if err != nil {
		return Answer{}, err
	}
	var before asked
	interrupted, found, text := compose.GetInterruptState[string](ctx)
	if interrupted && found {
		if err := json.Unmarshal([]byte(text), &before); err != nil { //nolint:musttag // only this package reads it
			return Answer{}, fmt.Errorf("eino: the state of the call of %q: %w", toolName, err)
		}
		if _, ok, answer := compose.GetResumeContext[Answer](ctx); ok {
			before.Done = append(before.Done, answered{before.Waiting, answer})
			before.Waiting = Call{}
		}
		for _, d := range before.Done {
			if d.Call.Equal(call) {
				return d.Answer, nil
			}
		}
		if w := before.Waiting; w.Kind != "" && !w.Equal(call) {
			return Answer{}, fmt.Errorf("eino: the component waits for %s %q with %s and asks for %s %q with %s now: it must make the same calls each time",
				w.Kind, w.Tool, w.Args, kind, toolName, call.Args)
		}
	}
	before.Waiting = call
	state, err := json.Marshal(before) //nolint:musttag // only this package reads it
	if err != nil {
		return Answer{}, fmt.Errorf("eino: the state of the call of %q: %w", toolName, err)
	}
	return Answer{}, compose.StatefulInterrupt(ctx, call, string(state))
}

// Tool returns a tool whose calls by a model are intents, with the name of the tool and the
// model's arguments. A human is asked first where approve, which may be nil, returns true
// for the arguments. The model is told Answer.Text.
func Tool(info *schema.ToolInfo, approve func(arguments string) bool) tool.InvokableTool {
	return &intentTool{info, approve}
}

type intentTool struct {
	info    *schema.ToolInfo
	approve func(string) bool
}

func (t *intentTool) Info(context.Context) (*schema.ToolInfo, error) { return t.info, nil }

func (t *intentTool) InvokableRun(ctx context.Context, arguments string, _ ...tool.Option) (string, error) {
	if _, err := adapter.NewCall(adapter.ToolCall, t.info.Name, json.RawMessage(arguments)); err != nil {
		// The model can do better, the author of the agent cannot.
		return "The call was not made: " + err.Error(), nil //nolint:nilerr // the error is the model's answer
	}
	ask := Act
	if t.approve != nil && t.approve(arguments) {
		ask = ActApproved
	}
	answer, err := ask(ctx, t.info.Name, json.RawMessage(arguments))
	if err != nil {
		return "", err
	}
	return answer.Text(), nil
}
