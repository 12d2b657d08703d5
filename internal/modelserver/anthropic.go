package modelserver

import (
	"encoding/json"
	"fmt"
)

func readMessages(body []byte) (Request, error) {
	type block struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
		Content   text            `json:"content"`
	}
	var in struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		System   text   `json:"system"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	fail := func(err error) (Request, error) {
		return Request{}, fmt.Errorf("the body is not a request for a message: %w", err)
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return fail(err)
	}
	req := Request{Model: in.Model, Stream: in.Stream, System: string(in.System)}
	for _, m := range in.Messages {
		var blocks []block
		if len(m.Content) > 0 && m.Content[0] == '"' {
			blocks = []block{{Type: "text"}}
			if err := json.Unmarshal(m.Content, &blocks[0].Text); err != nil {
				return fail(err)
			}
		} else if err := json.Unmarshal(m.Content, &blocks); err != nil {
			return fail(err)
		}
		said := Message{Role: m.Role}
		for _, b := range blocks {
			switch b.Type {
			case "tool_result":
				req.Messages = append(req.Messages, Message{Role: "tool", Text: string(b.Content), ToolCallID: b.ToolUseID})
			case "tool_use":
				said.ToolCalls = append(said.ToolCalls, ToolCall{b.ID, b.Name, string(b.Input)})
			default:
				if said.Text != "" {
					said.Text += "\n"
				}
				said.Text += b.Text
			}
		}
		if said.Text != "" || len(said.ToolCalls) > 0 {
			req.Messages = append(req.Messages, said)
		}
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, t.Name)
	}
	return req, nil
}

// messageBlocks returns the blocks of an answer: the text, if any, and tool uses.
func messageBlocks(r Reply) []object {
	blocks := []object{}
	if r.Text != "" {
		blocks = append(blocks, object{"type": "text", "text": r.Text})
	}
	for _, c := range r.ToolCalls {
		blocks = append(blocks, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.Arguments)})
	}
	return blocks
}

func message(req Request, content []object, stop any, usage object) object {
	return object{
		"id": "msg_" + req.id, "type": "message", "role": "assistant", "model": req.Model,
		"content": content, "stop_reason": stop, "stop_sequence": nil, "usage": usage,
	}
}

// messageUsage counts like Anthropic: the input tokens exclude tokens that are read from the
// cache or written to it.
func messageUsage(u Usage, output int64) object {
	return object{
		"input_tokens": u.Input - u.Cached - u.CacheWritten, "output_tokens": output,
		"cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": u.CacheWritten,
	}
}

func stopReason(r Reply) string {
	if len(r.ToolCalls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func messagesPlain(req Request, r Reply, u Usage) any {
	return message(req, messageBlocks(r), stopReason(r), messageUsage(u, u.Output))
}

func messagesStream(req Request, r Reply, u Usage) (events []event) {
	add := func(name string, isText bool, members object) {
		members["type"] = name
		events = append(events, event{name: name, data: members, text: isText})
	}
	add("message_start", false, object{"message": message(req, []object{}, nil, messageUsage(u, 1))})
	for i, b := range messageBlocks(r) {
		begun, whole := object{"type": "text", "text": ""}, r.Text
		delta, member, isText := "text_delta", "text", true
		if b["type"] == "tool_use" {
			begun, whole = object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}, string(b["input"].(json.RawMessage))
			delta, member, isText = "input_json_delta", "partial_json", false
		}
		add("content_block_start", false, object{"index": i, "content_block": begun})
		if i == 0 {
			add("ping", false, object{})
		}
		for _, p := range pieces(whole) {
			add("content_block_delta", isText, object{"index": i, "delta": object{"type": delta, member: p}})
		}
		add("content_block_stop", false, object{"index": i})
	}
	add("message_delta", false, object{
		"delta": object{"stop_reason": stopReason(r), "stop_sequence": nil},
		"usage": object{"output_tokens": u.Output},
	})
	add("message_stop", false, object{})
	return events
}

func anthropicError(status int, text string) any {
	kind := "invalid_request_error"
	switch {
	case status == 429:
		kind = "rate_limit_error"
	case status == 529:
		kind = "overloaded_error"
	case status >= 500:
		kind = "api_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": text}, "request_id": nil}
}
