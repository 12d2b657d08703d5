package modelserver

import (
	"encoding/json"
	"fmt"
	"strings"
)

// created is the time of every answer, in seconds since the Unix epoch.
const created = 1_735_689_600

// object is a JSON object.
type object = map[string]any

// text is the text of a content, which is a string or a list of parts. Parts of other kinds have
// no text.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		var parts []struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(b, &parts); err != nil {
			return err
		}
		texts := make([]string, len(parts))
		for i, p := range parts {
			texts[i] = p.Text
		}
		*t = text(strings.Join(texts, "\n"))
		return nil
	}
	return json.Unmarshal(b, (*string)(t))
}

// chatCall is a tool call of a chat completion.
type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func readChat(body []byte) (Request, error) {
	var in struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Role       string     `json:"role"`
			Content    text       `json:"content"`
			ToolCalls  []chatCall `json:"tool_calls"`
			ToolCallID string     `json:"tool_call_id"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, fmt.Errorf("the body is not a chat completion request: %w", err)
	}
	req := Request{Model: in.Model, Stream: in.Stream, usage: in.StreamOptions.IncludeUsage}
	for _, m := range in.Messages {
		if m.Role == "system" || m.Role == "developer" {
			req.instruct(string(m.Content))
			continue
		}
		out := Message{Role: m.Role, Text: string(m.Content), ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			out.ToolCalls = append(out.ToolCalls, ToolCall{c.ID, c.Function.Name, c.Function.Arguments})
		}
		req.Messages = append(req.Messages, out)
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, t.Function.Name)
	}
	return req, nil
}

// instruct appends to the instructions.
func (r *Request) instruct(s string) {
	if r.System != "" && s != "" {
		r.System += "\n"
	}
	r.System += s
}

func chatUsage(u Usage) object {
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details": object{"cached_tokens": u.Cached},
	}
}

// finish returns the reason why a chat completion ends.
func (r Reply) finish() string {
	if len(r.ToolCalls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func chatCalls(calls []ToolCall) []chatCall {
	out := make([]chatCall, len(calls))
	for i, c := range calls {
		out[i] = chatCall{c.ID, "function", chatFunction{c.Name, c.Arguments}}
	}
	return out
}

func chatPlain(req Request, r Reply, u Usage) any {
	message := object{"role": "assistant", "content": r.Text, "refusal": nil}
	if len(r.ToolCalls) > 0 {
		message["tool_calls"] = chatCalls(r.ToolCalls)
	}
	return object{
		"id": "chatcmpl-" + req.id, "object": "chat.completion", "created": created, "model": req.Model,
		"choices": []object{{"index": 0, "message": message, "finish_reason": r.finish(), "logprobs": nil}},
		"usage":   chatUsage(u),
	}
}

func chatStream(req Request, r Reply, u Usage) (events []event) {
	chunk := func(isText bool, choices []object, usage any) {
		o := object{
			"id": "chatcmpl-" + req.id, "object": "chat.completion.chunk", "created": created, "model": req.Model,
			"choices": choices,
		}
		if req.usage {
			o["usage"] = usage
		}
		events = append(events, event{data: o, text: isText})
	}
	delta := func(isText bool, d object, finish any) {
		chunk(isText, []object{{"index": 0, "delta": d, "finish_reason": finish}}, nil)
	}
	delta(false, object{"role": "assistant", "content": ""}, nil)
	for _, p := range pieces(r.Text) {
		delta(true, object{"content": p}, nil)
	}
	for i, c := range chatCalls(r.ToolCalls) {
		arguments := c.Function.Arguments
		c.Function.Arguments = ""
		delta(false, object{"tool_calls": []object{{"index": i, "id": c.ID, "type": c.Type, "function": c.Function}}}, nil)
		for _, p := range pieces(arguments) {
			delta(false, object{"tool_calls": []object{{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	delta(false, object{}, r.finish())
	if req.usage {
		chunk(false, []object{}, chatUsage(u))
	}
	return append(events, event{data: "[DONE]"})
}

// pieces splits a text into words, each with the spaces after it.
func pieces(s string) []string {
	words := strings.SplitAfter(s, " ")
	if words[len(words)-1] == "" {
		words = words[:len(words)-1]
	}
	return words
}

func openAIError(status int, text string) any {
	kind := "invalid_request_error"
	switch {
	case status == 429:
		kind = "rate_limit_error"
	case status >= 500:
		kind = "server_error"
	}
	return object{"error": object{"message": text, "type": kind, "param": nil, "code": nil}}
}
