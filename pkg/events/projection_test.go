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

// A column is null if its member is missing or has another type.
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

// The text of a summary is that of the typed event, whose summary is read from canonical text.
// If the typed event cannot be read, the column is null.
func TestSummaryTextIsOfTheEvent(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
	const counts = `"report_count":1,"required_check_count":2,"pending_required_check_count":3,"failed_check_count":4,"residual_risk_count":5`
	texts := 0
	for _, summary := range []string{
		`{"status":"failed",` + counts + `}`,
		` { "status" : "failed" , ` + counts + ` , "failed_subjects" : [ "a" , "\u0062\n" ] } `,
		`{"status":"failed","failed_subjects":["1","2","3","4","5","6","7"],` + counts + `}`,
		`{"status":"failed","failed_subjects":["1","2","3","4","5"],` + counts + `}`,
		`{"status":"failed","failed_subjects":["1","2","3","4","5","6",7],` + counts + `}`,
		`{"status":"failed","failed_subjects":{},` + counts + `}`,
		`{"status":"failed","failed_subjects":null,` + counts + `}`,
		`{"status":"needs_review","failed_subjects":["f"],"pending_subjects":["p"],` + counts + `}`,
		`{"status":"x","\u0073tatus":"passed","more":[1e15],` + counts + `}`,
		`{"status":"passed","status":"x",` + counts + `}`,
		`{"status":"passed"}`, `{}`, `[]`, `null`, `"passed"`, `7`,
		`["failed",1,2,3,4,5]`, `["failed",1,2,3,4,5,["p"],["f"]]`, `["failed",1,2,3,4,5,[],[],0]`,
		`["failed",1,2,3,4]`, `["failed",1,2,3,4,5,[7]]`, `["failed",1.0,2,3,4,5]`, `["failed",-1,2,3,4,5]`,
		`["failed",1e0,2,3,4,5]`, `["failed",18446744073709551616,2,3,4,5]`, `[ "skipped" , 1 , 0 , 0 , 0 , 0 ]`,
	} {
		env := decode(t, `{"version":1,"type":"agent_end","payload":{"text":"",`+usage+`,"verification_summary":`+summary+`}}`)
		got := env.Project().VerificationSummaryText
		canonical := decode(t, `{"version":1,"type":"agent_end","payload":`+env.Payload.JSON()+`}`)
		event, err := events.FromEnvelope(canonical)
		switch {
		case err != nil && got != nil:
			t.Errorf("%s: %q, and the event fails: %v", summary, *got, err)
		case err == nil && got == nil:
			t.Errorf("%s: no text", summary)
		case err == nil:
			texts++
			if want := event.(events.AgentEnd).VerificationSummary.Text(); *got != want {
				t.Errorf("%s: %q, want %q", summary, *got, want)
			}
		}
	}
	if texts < 9 {
		t.Errorf("only %d summaries have a text", texts)
	}
}
