package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

// payment is an event.
type payment struct {
	ID    string `json:"id"`
	Type  string `json:"type"` // charge, decline or dispute
	Cents int64  `json:"cents"`
	Text  string `json:"text,omitempty"` // what the customer writes
}

// customer is what is remembered about a customer.
type customer struct {
	Payments int       `json:"payments"`
	Disputes int       `json:"disputes"`
	Declines int       `json:"declines"` // declined payments in a row
	Watched  string    `json:"watched,omitempty"`
	Recent   []payment `json:"recent,omitempty"`
}

const maxRecent = 3

// paymentCase is a payment event, and what was known about the customer when it arrived. It is
// the snapshot of a suspension.
type paymentCase struct {
	Payment  payment  `json:"payment"`
	Customer customer `json:"customer"`
}

// read returns the case of an activation: from the event, or after a suspension from the
// snapshot.
func read(trigger agent.Trigger, snapshot []byte) (c paymentCase, err error) {
	if trigger.Kind != agent.Event {
		return c, json.Unmarshal(snapshot, &c)
	}
	if err := trigger.JSON(&c.Payment); err != nil {
		return c, err
	}
	if c.Payment.ID == "" || c.Payment.Cents <= 0 {
		return c, errors.New("a payment needs an id and an amount")
	}
	return c, nil
}

// recall adds what is known about the customer, unless the snapshot contains it.
func (c *paymentCase) recall(act *agent.Activation) (err error) {
	if act.Trigger().Kind == agent.Event {
		c.Customer, _, err = agent.Get[customer](act, "customer")
	}
	return err
}

// snapshot encodes the case for read.
func (c paymentCase) snapshot() []byte { return encode(c) }

// remember adds the payment to what is known about the customer.
func (c paymentCase) remember(act *agent.Activation) error {
	known := c.Customer
	switch c.Payment.Type {
	case "decline":
		known.Declines++
	case "dispute":
		known.Disputes++
	default:
		known.Payments++
		known.Declines = 0
	}
	known.Recent = append(known.Recent, payment{ID: c.Payment.ID, Type: c.Payment.Type, Cents: c.Payment.Cents})
	known.Recent = known.Recent[max(0, len(known.Recent)-maxRecent):]
	return agent.Put(act, "customer", known)
}

// decision encodes an output.
func (c paymentCase) decision(what, reply string) []byte {
	return encode(map[string]any{"payment": c.Payment.ID, "cents": c.Payment.Cents, "decision": what, "reply": reply})
}

func (c paymentCase) emit(act *agent.Activation, what, reply string) error {
	return act.Emit(c.decision(what, reply))
}

// encode encodes values that always have JSON: text, numbers, and structs and maps of these.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

const policy = `You decide about the payment events of a customer. The user message has the event, and what is known about the customer.
Call the tool refund for a dispute about a payment that was made twice, or about goods that did not arrive or arrived broken. Refund what the event says and no more.
Call the tool watch for the third declined payment in a row, unless the customer is watched already.
Otherwise call no tool, and answer with one sentence. After a refund was tried, tell the customer in one sentence what has become of it.`

var tools = []openai.ChatCompletionToolUnionParam{
	tool("refund", "Pays a payment back.", map[string]any{
		"payment": map[string]any{"type": "string", "description": "the id of the event"},
		"cents":   map[string]any{"type": "integer"},
		"reason":  map[string]any{"type": "string"},
	}, "payment", "cents", "reason"),
	tool("watch", "Marks the customer.", map[string]any{"reason": map[string]any{"type": "string"}}, "reason"),
}

func tool(name, description string, properties map[string]any, required ...string) openai.ChatCompletionToolUnionParam {
	return openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: name, Description: openai.String(description),
		Parameters: openai.FunctionParameters{"type": "object", "properties": properties, "required": required},
	})
}

// conversation returns the messages that ask the model about the case.
func (c paymentCase) conversation() []openai.ChatCompletionMessageParamUnion {
	return []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(policy), openai.UserMessage(string(encode(c)))}
}

// refund are the arguments of the tool refund.
type refund struct {
	Payment string `json:"payment"`
	Cents   int64  `json:"cents"`
	Reason  string `json:"reason"`
}

// toolCall is what the model asks for. Name is empty if it asks for nothing.
type toolCall struct {
	refund // watch has a reason, too

	ID, Name string
}

// toolCall checks what the model asks for, because a customer may have influenced the model.
func (c paymentCase) toolCall(answer openai.ChatCompletionMessage) (call toolCall, err error) {
	if len(answer.ToolCalls) == 0 {
		return call, nil
	}
	asked := answer.ToolCalls[0]
	call.ID, call.Name = asked.ID, asked.Function.Name
	if err := json.Unmarshal([]byte(asked.Function.Arguments), &call.refund); err != nil {
		return call, fmt.Errorf("the model calls %s with unusable arguments: %w", call.Name, err)
	}
	switch {
	case call.Name == "watch":
	case call.Name != "refund":
		return call, fmt.Errorf("the model calls %q, which is not a tool", call.Name)
	case call.Payment != c.Payment.ID || call.Cents <= 0 || call.Cents > c.Payment.Cents:
		return call, fmt.Errorf("the model wants to refund %d for %q, and the event is %d for %q",
			call.Cents, call.Payment, c.Payment.Cents, c.Payment.ID)
	}
	return call, nil
}
