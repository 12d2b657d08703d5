package modelserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
)

func readResponses(body []byte) (Request, error) {
	type item struct {
		Type      string          `json:"type"`
		Role      string          `json:"role"`
		Content   text            `json:"content"`
		CallID    string          `json:"call_id"`
		Name      string          `json:"name"`
		Arguments string          `json:"arguments"`
		Output    json.RawMessage `json:"output"`
	}
	var in struct {
		Model        string          `json:"model"`
		Stream       bool            `json:"stream"`
		Instructions string          `json:"instructions"`
		Input        json.RawMessage `json:"input"`
		Tools        []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	fail := func(err error) (Request, error) {
		return Request{}, fmt.Errorf("the body is not a request for a response: %w", err)
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return fail(err)
	}
	var items []item
	if len(in.Input) > 0 && in.Input[0] == '"' {
		items = []item{{Role: "user"}}
		if err := json.Unmarshal(in.Input, &items[0].Content); err != nil {
			return fail(err)
		}
	} else if err := json.Unmarshal(in.Input, &items); err != nil {
		return fail(err)
	}
	req := Request{Model: in.Model, Stream: in.Stream, System: in.Instructions}
	for _, i := range items {
		switch {
		case i.Type == "function_call":
			req.Messages = append(req.Messages, Message{Role: "assistant", ToolCalls: []ToolCall{{i.CallID, i.Name, i.Arguments}}})
		case i.Type == "function_call_output":
			var output text
			if err := json.Unmarshal(i.Output, &output); err != nil {
				return fail(err)
			}
			req.Messages = append(req.Messages, Message{Role: "tool", Text: string(output), ToolCallID: i.CallID})
		case i.Role == "system" || i.Role == "developer":
			req.instruct(string(i.Content))
		case i.Role != "":
			req.Messages = append(req.Messages, Message{Role: i.Role, Text: string(i.Content)})
		}
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, t.Name)
	}
	return req, nil
}

// responseItems returns the items of an output: a message, if there is text, and calls.
func responseItems(req Request, r Reply) (items []object) {
	if r.Text != "" || len(r.ToolCalls) == 0 {
		items = append(items, object{
			"type": "message", "id": "msg_" + req.id, "status": "completed", "role": "assistant",
			"content": []object{responseText(r.Text)},
		})
	}
	for i, c := range r.ToolCalls {
		items = append(items, object{
			"type": "function_call", "id": "fc_" + req.id + "_" + strconv.Itoa(i), "status": "completed",
			"call_id": c.ID, "name": c.Name, "arguments": c.Arguments,
		})
	}
	return items
}

func responseText(s string) object {
	return object{"type": "output_text", "text": s, "annotations": []object{}, "logprobs": []object{}}
}

func response(req Request, status string, output []object, usage any) object {
	return object{
		"id": "resp_" + req.id, "object": "response", "created_at": created, "status": status, "model": req.Model,
		"output": output, "usage": usage, "error": nil, "incomplete_details": nil, "instructions": nil,
		"metadata": object{}, "parallel_tool_calls": true, "temperature": 1, "tool_choice": "auto", "tools": []object{}, "top_p": 1,
	}
}

func responseUsage(u Usage) object {
	return object{
		"input_tokens": u.Input, "output_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"input_tokens_details":  object{"cached_tokens": u.Cached},
		"output_tokens_details": object{"reasoning_tokens": 0},
	}
}

func responsesPlain(req Request, r Reply, u Usage) any {
	return response(req, "completed", responseItems(req, r), responseUsage(u))
}

func responsesStream(req Request, r Reply, u Usage) (events []event) {
	add := func(name string, isText bool, members object) {
		members["type"], members["sequence_number"] = name, len(events)
		events = append(events, event{name: name, data: members, text: isText})
	}
	add("response.created", false, object{"response": response(req, "in_progress", []object{}, nil)})
	items := responseItems(req, r)
	for i, item := range items {
		id := item["id"]
		begun := maps.Clone(item)
		begun["status"] = "in_progress"
		if item["type"] == "function_call" {
			begun["arguments"] = ""
			add("response.output_item.added", false, object{"output_index": i, "item": begun})
			for _, p := range pieces(item["arguments"].(string)) {
				add("response.function_call_arguments.delta", false, object{"output_index": i, "item_id": id, "delta": p})
			}
			add("response.function_call_arguments.done", false, object{
				"output_index": i, "item_id": id, "name": item["name"], "arguments": item["arguments"],
			})
		} else {
			begun["content"] = []object{}
			add("response.output_item.added", false, object{"output_index": i, "item": begun})
			at := func(more object) object {
				more["output_index"], more["item_id"], more["content_index"] = i, id, 0
				return more
			}
			add("response.content_part.added", false, at(object{"part": responseText("")}))
			for _, p := range pieces(r.Text) {
				add("response.output_text.delta", true, at(object{"delta": p, "logprobs": []object{}}))
			}
			add("response.output_text.done", false, at(object{"text": r.Text, "logprobs": []object{}}))
			add("response.content_part.done", false, at(object{"part": responseText(r.Text)}))
		}
		add("response.output_item.done", false, object{"output_index": i, "item": item})
	}
	add("response.completed", false, object{"response": response(req, "completed", items, responseUsage(u))})
	return events
}
