// Sample writes sample.jsonl, the file that the example ships with: a week of a support desk for
// shops, with state of an older version and broken lines among the events. Run it in its folder.
// It writes the same file every time.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"

	supportpb "github.com/beamagents/beamagents-go/examples/memory/proto/support/v1"
)

func main() {
	b, err := lines()
	if err == nil {
		err = os.WriteFile("sample.jsonl", b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sample:", err)
		os.Exit(1)
	}
}

const (
	start = 1700000000000 // ms; 14 November 2023
	hour  = 3_600_000
)

// envelope is a line: an AgentEnvelope in readable JSON.
type envelope struct {
	Key         string `json:"key"`
	EventTimeMS int64  `json:"event_time_ms"`
	Event       event  `json:"external_event"`
}

// event is an event of a customer, or a broken line.
type event struct {
	Customer     string `json:"-"` // the entity key
	From         string `json:"from,omitempty"`
	Topic        string `json:"topic,omitempty"`
	Note         string `json:"note,omitempty"`
	AttachmentKB int    `json:"attachment_kb,omitempty"`
	Stored       []byte `json:"stored,omitempty"`

	broken string // the line, if it is broken
}

// week returns what happens, an hour apart.
func week() []event {
	return []event{
		// State that a build of version 1 has stored. It sometimes left out the stamp, which then
		// reads as 1, and the address, which not every contact has.
		{Customer: "bakery", Stored: encode(&supportpb.Customer{StateSchemaVersion: 1, Contact: "Mill Street Bakery <orders@bakery.test>", Events: 41})},
		{Customer: "cinema", Stored: encode(&supportpb.Customer{Contact: "Roxy", Events: 7})},
		{Customer: "florist", Stored: encode(&supportpb.Customer{StateSchemaVersion: 3, Name: "Green Hand", Events: 2})},

		{Customer: "bakery", Topic: "opening hours", Note: "closed on Mondays"},
		{Customer: "bookshop", From: "Old Town Books <till@books.test>", Topic: "invoice 17", Note: "charged twice"},
		{Customer: "bakery", Topic: "oven", Note: "error 12, photo", AttachmentKB: 300},
		{Customer: "cinema", Topic: "projector", Note: "recording of the noise", AttachmentKB: 900},
		{broken: `{"key":"bakery","event_time_ms":1700025200000,"external_event":{"topic":"ov`},
		{Customer: "bakery", Topic: "invoice 18", Note: "scan", AttachmentKB: 300},
		{Customer: "bakery", Topic: "delivery", Note: "broken box, photo", AttachmentKB: 300},
		{Customer: "bookshop", Topic: "shelf", Note: "too long by 2 cm"},
		{broken: `{"customer":"cinema","topic":"ticket prices","note":"not in an envelope"}`},
		// Asked again, so the oldest topic is no longer the least recently used one.
		{Customer: "bakery", Topic: "opening hours", Note: "closed on Mondays and in August"},
		{Customer: "bakery", Topic: "oven", Note: "error 12 again, photo", AttachmentKB: 300},
		{Customer: "bakery", Topic: "mixer", Note: "manual", AttachmentKB: 250},
		{Customer: "cinema", Topic: "seats", Note: "row 3, photo", AttachmentKB: 200},
		{Customer: "florist", From: "Green Hand <shop@florist.test>", Topic: "cold room", Note: "film", AttachmentKB: 1500},
		{Customer: "florist", From: "Green Hand <shop@florist.test>", Topic: "cold room", Note: "film, cut", AttachmentKB: 700},
		{Customer: "bakery", Topic: "invoice 19", Note: "scan", AttachmentKB: 400},
		{Customer: "bookshop", Note: "about nothing"},
		{Customer: "bookshop", Topic: "invoice 17", Note: "paid back"},
		{Customer: "cinema", From: "Roxy <box-office@cinema.test>", Topic: "popcorn", Note: "machine is loud, recording", AttachmentKB: 100},
		{broken: `{"key":"bookshop","event_time_ms":-1,"external_event":{"topic":"before time"}}`},
		{broken: `{"key":"bookshop","event_time_ms":1700000000000,"external_event":{"topik":"shelf"}}`},
	}
}

func encode(c *supportpb.Customer) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		panic(err)
	}
	return b
}

func lines() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	for i, ev := range week() {
		if ev.broken != "" {
			fmt.Fprintln(&out, ev.broken)
			continue
		}
		if err := e.Encode(envelope{Key: ev.Customer, EventTimeMS: start + int64(i)*hour, Event: ev}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
