package events_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/pkg/events"
)

func TestDecodeRunRecordRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in string
		code     events.ErrorCode
	}{
		{"broken", `{"sequence":0,`, events.CodeUnparsable},
		{"trailing", `{"sequence":0,"timestamp_ms":0,"event":{"type":"turn_start","turn":1}} 1`, events.CodeUnparsable},
		{"array", `[0,0,{"type":"turn_start","turn":1}]`, events.CodeWrongType},
		{"no sequence", `{"timestamp_ms":0,"event":{"type":"turn_start","turn":1}}`, events.CodeMissingField},
		{"null time", `{"sequence":0,"timestamp_ms":null,"event":{"type":"turn_start","turn":1}}`, events.CodeWrongType},
		{"negative", `{"sequence":-1,"timestamp_ms":0,"event":{"type":"turn_start","turn":1}}`, events.CodeWrongType},
		{"no event", `{"sequence":0,"timestamp_ms":0}`, events.CodeMissingField},
		{"null event", `{"sequence":0,"timestamp_ms":0,"event":null}`, events.CodeWrongType},
		{"bad event", `{"sequence":0,"timestamp_ms":0,"event":{"type":"turn_start"}}`, events.CodeMissingField},
		{"two events", `{"sequence":0,"timestamp_ms":0,"event":{"type":"turn_start","turn":1},"event":{}}`, events.CodeDuplicateField},
		{"a field twice in the event", `{"sequence":0,"timestamp_ms":0,"event":{"type":"turn_start","turn":1,"turn":1}}`, events.CodeDuplicateField},
	} {
		if r, err := events.DecodeRunRecord([]byte(c.in)); !errors.Is(err, c.code) || r.Event != nil {
			t.Errorf("%s: %v, %v, want %s", c.name, r, err, c.code)
		}
	}
}

func TestFromRunEnvelope(t *testing.T) {
	const start = `{"version":1,"type":"turn_start","payload":{"turn":1}`
	for _, c := range []struct {
		name, in string
		code     events.ErrorCode
		text     string
	}{
		{"no metadata", start + `}`, events.CodeMissingField, "missing field `metadata`"},
		{"other metadata", start + `,"metadata":[]}`, events.CodeWrongType, ""},
		{"no run", start + `,"metadata":{"session_id":"s","sequence":1,"timestamp_ms":2}}`, events.CodeMissingField, "missing field `run_id`"},
		{"float time", start + `,"metadata":{"run_id":"r","session_id":"s","sequence":1,"timestamp_ms":2.0}}`, events.CodeWrongType, ""},
		{"unknown type", `{"version":1,"type":"x","payload":{},"metadata":{"run_id":"r","session_id":"s","sequence":1,"timestamp_ms":2}}`, events.CodeWrongType, ""},
	} {
		_, _, _, err := events.FromRunEnvelope(decode(t, c.in))
		if !errors.Is(err, c.code) || c.text != "" && err.Error() != c.text {
			t.Errorf("%s: %v, want %s %s", c.name, err, c.code, c.text)
		}
	}
	in := start + `,"metadata":{"run_id":"","session_id":"","sequence":1,"timestamp_ms":2,"more":{"a":[]},"run_id":"r"}}`
	record, runID, sessionID, err := events.FromRunEnvelope(decode(t, in))
	want := events.RunRecord{Sequence: 1, TimestampMs: 2, Event: events.TurnStart{Turn: 1}}
	if diff := cmp.Diff(want, record); err != nil || diff != "" || runID != "r" || sessionID != "" {
		t.Errorf("%q %q %v\n%s", runID, sessionID, err, diff)
	}
	if _, err := want.ToEnvelope("\xff", ""); !errors.Is(err, events.ErrSerialize) {
		t.Errorf("invalid UTF-8 in an id: %v", err)
	}
}

// The types can be marshaled and unmarshaled by encoding/json.
func TestMarshalers(t *testing.T) {
	record := events.RunRecord{Sequence: 1, TimestampMs: 2, Event: events.MemoryRecalled{MemoryID: "m", Relevance: 0.9}}
	env, err := record.ToEnvelope("r", "s")
	if err != nil {
		t.Fatal(err)
	}
	type all struct {
		Value  events.Value
		Record events.RunRecord
	}
	in := all{env.Payload, record}
	text, err := json.Marshal(in)
	if want := `{"Value":{"content":"","memory_id":"m","relevance":0.8999999761581421},"Record":{"sequence":1,"timestamp_ms":2,"event":{"type":"memory_recalled","memory_id":"m","content":"","relevance":0.9}}}`; err != nil || string(text) != want {
		t.Fatalf("%s (%v)\nwant %s", text, err, want)
	}
	var out all
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Errorf("through encoding/json (-want +got):\n%s", diff)
	}
	if text, err := json.Marshal(env.Project()); err != nil || string(text) != string(env.Project().AppendJSON(nil)) {
		t.Errorf("projection through encoding/json %s (%v)", text, err)
	}
}
