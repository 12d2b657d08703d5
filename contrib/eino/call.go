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

// Call is a call for which a component of a graph waits.
type Call = adapter.Call

// Answer says how a [Call] ended.
type Answer = adapter.Answer

// Act asks for a tool call. args are encoded as by Activation.Act. The error interrupts the
// graph; return it unchanged.
func Act(ctx context.Context, toolName string, args any) (Answer, error) {
	return await(ctx, adapter.ToolCall, toolName, args)
}

// ActApproved asks a human, and then calls the tool with exactly the approved arguments. The
// error interrupts the graph; return it unchanged.
func ActApproved(ctx context.Context, toolName string, args any) (Answer, error) {
	return await(ctx, adapter.ApprovedToolCall, toolName, args)
}

// RequestApproval asks a human whether the tool may be called with args. It does not call the
// tool. The error interrupts the graph; return it unchanged.
func RequestApproval(ctx context.Context, toolName string, args any) (Answer, error) {
	return await(ctx, adapter.Decision, toolName, args)
}

// asked is the state that a waiting component leaves in the checkpoint.
type asked struct {
	Done    []answered
	Waiting Call
}

type answered struct {
	Call   Call
	Answer Answer
}

// await returns the answer to a call, or the interrupt that asks for the answer.
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

// Tool returns a tool for a model. A call of the model becomes an intent with the name of the
// tool and the model's arguments. If approve, which may be nil, returns true for the arguments, a
// human is asked first. The model gets Answer.Text.
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
		// The model can correct the call; the author of the agent cannot.
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
