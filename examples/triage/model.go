package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/beamagents/beamagents-go/internal/modelserver"
)

// localModel is a server that stands in for a model. It follows the policy. Equal requests get
// equal answers, each after the latency.
type localModel struct {
	latency time.Duration
	calls   atomic.Int64
}

func (m *localModel) start() (*modelserver.Running, error) {
	server := &modelserver.Server{
		Reply: func(r modelserver.Request) modelserver.Reply {
			m.calls.Add(1)
			return obey(r)
		},
		Fault: func(modelserver.Request) modelserver.Fault { return modelserver.Fault{Latency: m.latency} },
	}
	return server.Start()
}

// progress describes how often the model was called.
func (m *localModel) progress() string { return fmt.Sprintf(", %d model calls", m.calls.Load()) }

// obey answers according to the policy.
func obey(r modelserver.Request) modelserver.Reply {
	var c paymentCase
	for _, m := range r.Messages {
		if m.Role == "tool" {
			return modelserver.Reply{Text: "Your payment " + c.Payment.ID + ": " + m.Text + "."}
		}
		if m.Role == "user" && json.Unmarshal([]byte(m.Text), &c) != nil {
			return modelserver.Reply{Text: "I do not know what this is about."}
		}
	}
	text := strings.ToLower(c.Payment.Text)
	refundable := func() bool {
		for _, grounds := range []string{"twice", "did not arrive", "broken"} {
			if strings.Contains(text, grounds) {
				return true
			}
		}
		return false
	}
	switch {
	case c.Payment.Type == "dispute" && strings.Contains(text, "ignore your instructions"):
		// A model that can be talked into things. The agent must not trust it.
		return call("refund", refund{Payment: c.Payment.ID, Cents: 100 * c.Payment.Cents, Reason: c.Payment.Text})
	case c.Payment.Type == "dispute" && refundable():
		return call("refund", refund{Payment: c.Payment.ID, Cents: c.Payment.Cents, Reason: c.Payment.Text})
	case c.Payment.Type == "decline" && c.Customer.Declines >= 2 && c.Customer.Watched == "":
		return call("watch", map[string]string{"reason": "three declined payments in a row"})
	case c.Payment.Type == "dispute":
		return modelserver.Reply{Text: "Please write to us if you have more questions."}
	}
	return modelserver.Reply{Text: "Nothing to do."}
}

func call(tool string, args any) modelserver.Reply {
	return modelserver.Reply{ToolCalls: []modelserver.ToolCall{{Name: tool, Arguments: string(encode(args))}}}
}
