// Sample writes sample.jsonl, the file that the quickstart ships with: orders, and the answers to
// the agent's intents. An answer names its intent, whose id is derived from the customer, the
// number of the activation and the step. Run it in its folder. It writes the same file every
// time.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/beamagents/beamagents-go/pkg/intent"
)

const start = 1700000000000 // ms; 14 November 2023

func main() {
	if err := os.WriteFile("sample.jsonl", sample(), 0o666); err != nil { // the umask decides
		fmt.Fprintln(os.Stderr, "sample:", err)
		os.Exit(1)
	}
}

func sample() []byte {
	var file bytes.Buffer
	minute := int64(0)
	line := func(customer, payload string, value any) {
		b, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&file, `{"key":%q,"event_time_ms":"%d",%q:%s}`+"\n", customer, start+minute*60_000, payload, b)
		minute++
	}
	order := func(customer, id string, cents int) {
		line(customer, "external_event", map[string]any{"id": id, "cents": cents})
	}
	approval := func(customer string, seq int64, step uint32, approved bool) {
		line(customer, "approval", map[string]any{
			"intent_id": intent.ID([]byte(customer), seq, step), "approved": approved, "approver": "dana@example.test",
		})
	}
	result := func(customer string, seq int64, step uint32) {
		line(customer, "tool_result", map[string]any{
			"intent_id": intent.ID([]byte(customer), seq, step), "seq": strconv.FormatInt(seq, 10), "status": "OK",
		})
	}

	order("ann", "order-1", 1200) // below the limit: paid at once
	order("bob", "order-2", 90000)
	order("cleo", "order-3", 70000)
	result("ann", 0, 0)
	approval("bob", 0, 0, true) // then the refund tool is called with what was approved
	approval("cleo", 0, 0, false)
	order("ann", "order-4", 800) // the third activation of ann
	result("bob", 0, 1)
	line("ann", "external_event", []string{"no order"}) // a dead letter, when ann's order is done
	result("ann", 2, 0)
	order("dave", "order-5", 60000) // nobody answers: it ends after a day
	line("dave", "export_request", map[string]string{"request_id": "what does dave wait for"})
	return file.Bytes()
}
