package events_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/pkg/events"
)

func TestProjectionsAreReadBack(t *testing.T) {
	v := theVectors(t)
	var texts []string
	for _, e := range v.Events {
		texts = append(texts, e.Projection.compact(t))
	}
	for _, e := range v.ProjectionEdges {
		texts = append(texts, e.Projection.compact(t))
	}
	for _, text := range texts {
		var p events.Projection
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := string(p.AppendJSON(nil)); got != text {
			t.Errorf("read %s\nwrote %s", text, got)
		}
	}
}

// A member that is missing or does not fit leaves its column null.
func TestProjectWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct{ eventType, payload, column, want string }{
		{events.EventToolEnd, `{"exit_code":-2147483648}`, "exit_code", "-2147483648"},
		{events.EventToolEnd, `{"exit_code":-2147483649}`, "exit_code", "null"},
		{events.EventToolEnd, `{"exit_code":2147483647}`, "exit_code", "2147483647"},
		{events.EventToolEnd, `{"exit_code":2147483648}`, "exit_code", "null"},
		{events.EventToolEnd, `{"exit_code":1.0}`, "exit_code", "null"},
		{events.EventSubagentProgress, `{"session_id":"s","status":"busy"}`, "text", `"s: busy"`},
		{events.EventSubagentProgress, `{"status":"busy"}`, "text", "null"},
		{events.EventSubagentProgress, `{"session_id":1,"status":"busy"}`, "text", "null"},
		{events.EventSubagentProgress, `{"session_id":"s"}`, "text", "null"},
		{events.EventSubagentProgress, `{"session_id":"s","status":1}`, "text", "null"},
		{events.EventSubagentProgress, `{}`, "text", "null"},
	} {
		text := events.NewEnvelope(c.eventType, parse(t, c.payload)).Project().AppendJSON(nil)
		var columns map[string]json.RawMessage
		if err := json.Unmarshal(text, &columns); err != nil {
			t.Fatal(err)
		}
		if got := string(columns[c.column]); got != c.want {
			t.Errorf("%s %s: %s is %s, want %s", c.eventType, c.payload, c.column, got, c.want)
		}
	}
}

func TestDecodeProjectionRefuses(t *testing.T) {
	for text, want := range map[string]events.ErrorCode{
		``:                                  events.CodeUnparsable,
		`[]`:                                events.CodeWrongType,
		`{"payload_json":"{}","version":1}`: events.CodeMissingField,
		`{"event_type":"t","payload_json":"{}","version":1,"version":1}`:              events.CodeDuplicateField,
		`{"event_type":"t","payload_json":"{}","version":65536}`:                      events.CodeWrongType,
		`{"event_type":"t","payload_json":"{}","version":1,"exit_code":2147483648}`:   events.CodeWrongType,
		`{"event_type":"t","payload_json":"{}","version":1,"turn":1.0}`:               events.CodeWrongType,
		`{"event_type":"t","payload_json":"{}","version":1} x`:                        events.CodeUnparsable,
		`{"event_type":"t","payload_json":null,"version":1}`:                          events.CodeWrongType,
		`{"event_type":"t","payload_json":"{}","version":1,"text":"\ud800","turn":1}`: events.CodeUnparsable,
	} {
		if p, err := events.DecodeProjection([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v, %v; want %v", text, p, err, want)
		}
	}
	p, err := events.DecodeProjection([]byte(`{"version":1,"text":"x","newer":[],"event_type":"t","payload_json":"{}","turn":null}`))
	if diff := cmp.Diff(events.Projection{Version: 1, Text: new("x"), EventType: "t", PayloadJSON: "{}"}, p); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
