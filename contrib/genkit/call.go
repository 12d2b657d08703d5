package genkit

import (
	"encoding/json"
	"fmt"

	"github.com/firebase/genkit/go/ai"

	"github.com/beamagents/beamagents-go/pkg/adapter"
)

// Call is a call for which a tool waits.
type Call = adapter.Call

// Answer says how a [Call] ended.
type Answer = adapter.Answer

// The metadata members of this package in interrupts and restarts. Their values are JSON as text,
// because Genkit turns numbers into float64.
const (
	callKey   = "beamagents_call"
	answerKey = "beamagents_answer"
)

// Act asks for a tool call. args are encoded as by Activation.Act. The error interrupts the
// generation; return it unchanged.
func Act(tc *ai.ToolContext, tool string, args any) (Answer, error) {
	return await(tc, adapter.ToolCall, tool, args)
}

// ActApproved asks a human, and then calls the tool with exactly the approved arguments. The
// error interrupts the generation; return it unchanged.
func ActApproved(tc *ai.ToolContext, tool string, args any) (Answer, error) {
	return await(tc, adapter.ApprovedToolCall, tool, args)
}

// RequestApproval asks a human whether the tool may be called with args. It does not call the
// tool. The error interrupts the generation; return it unchanged.
func RequestApproval(tc *ai.ToolContext, tool string, args any) (Answer, error) {
	return await(tc, adapter.Decision, tool, args)
}

// await returns the answer to a call, or the interrupt that asks for the answer.
func await(tc *ai.ToolContext, kind adapter.Kind, tool string, args any) (Answer, error) {
	call, err := adapter.NewCall(kind, tool, args)
	if err != nil {
		return Answer{}, err
	}
	text, err := json.Marshal(call)
	if err != nil {
		return Answer{}, fmt.Errorf("genkit: the call of %q: %w", tool, err)
	}
	encoded, resumed := ai.ResumedValue[string](tc, answerKey)
	if !resumed {
		return Answer{}, tc.Interrupt(&ai.InterruptOptions{Metadata: map[string]any{callKey: string(text)}})
	}
	if before, _ := ai.ResumedValue[string](tc, callKey); before != string(text) {
		return Answer{}, fmt.Errorf("genkit: the tool has waited for %s and asks for %s now: it must make the same one call each time", before, text)
	}
	var answer Answer
	if err := json.Unmarshal([]byte(encoded), &answer); err != nil {
		return Answer{}, fmt.Errorf("genkit: the answer to %q: %w", tool, err)
	}
	return answer, nil
}

// callOf returns the call of an interrupt. ours is false if the functions above have not made it.
func callOf(interrupt *ai.Part) (call Call, ours bool, err error) {
	meta, _ := interrupt.Metadata["interrupt"].(map[string]any)
	text, ours := meta[callKey].(string)
	if ours {
		err = json.Unmarshal([]byte(text), &call)
	}
	return call, ours, err
}

// restart returns the part that runs an interrupted tool again, with the answer to its call.
func restart(tool ai.Tool, interrupt *ai.Part, a Answer) (*ai.Part, error) {
	encoded, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("genkit: the answer for %q: %w", tool.Name(), err)
	}
	meta, _ := interrupt.Metadata["interrupt"].(map[string]any)
	return tool.Restart(interrupt, &ai.RestartOptions{
		ResumedMetadata: map[string]any{callKey: meta[callKey], answerKey: string(encoded)},
	}), nil
}
