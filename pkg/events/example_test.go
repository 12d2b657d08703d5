package events_test

import (
	"errors"
	"fmt"

	"github.com/beamagents/beamagents-go/pkg/events"
)

func ExampleDecodeEnvelope() {
	env, err := events.DecodeEnvelope([]byte(`{"version":1,"type":"tool_start","payload":{"name":"read","id":"tool-1"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	name, _ := env.Payload.Get("name")
	text, _ := name.Str()
	fmt.Println(env.Type, text)

	_, err = events.DecodeEnvelope([]byte(`{"version":2,"type":"tool_start","payload":{}}`))
	fmt.Println(err)
	fmt.Println(errors.Is(err, events.CodeUnsupportedVersion))
	// Output:
	// tool_start read
	// unsupported event envelope version 2; expected 1
	// true
}

func ExampleDecodeError() {
	_, err := events.DecodeEnvelope([]byte(`{"version":1,"type":"tool_start"}`))
	if de, ok := errors.AsType[*events.DecodeError](err); ok {
		fmt.Printf("%s: %v\n", de.Code, de)
	}
	// Output: missing_field: missing field `payload`
}

func ExampleNewEnvelope() {
	payload, err := events.ValueOf(map[string]any{"question": "Which branch?", "weight": 1.0, "options": []string{"main", "next"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	metadata, err := events.ValueOf(map[string]any{"session_id": "session-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := events.NewEnvelope("user_question", payload).WithMetadata(metadata).AppendJSON(nil)
	fmt.Println(string(text), err)
	// Output: {"version":1,"type":"user_question","payload":{"options":["main","next"],"question":"Which branch?","weight":1.0},"metadata":{"session_id":"session-1"}} <nil>
}

func ExampleFromEnvelope() {
	env, err := events.DecodeEnvelope([]byte(`{"version":1,"type":"tool_end","payload":{"id":"t1","name":"bash","output":"","exit_code":124,"error_kind":{"type":"timeout","op":"exec","duration_ms":5000}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	event, err := events.FromEnvelope(env)
	if err != nil {
		fmt.Println(err)
		return
	}
	switch e := event.(type) {
	case events.ToolEnd:
		if timeout, ok := e.ErrorKind.(events.ToolErrorTimeout); ok {
			fmt.Printf("%s: no end of %s after %d ms\n", e.Name, timeout.Op, timeout.DurationMs)
		}
	case events.Error:
		fmt.Println(e.Message)
	}
	// Output: bash: no end of exec after 5000 ms
}

func ExampleToEnvelope() {
	env, err := events.ToEnvelope(events.ConfirmationReceived{ToolID: "t1", Approved: true, Reason: new("reviewed")})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := env.AppendJSON(nil)
	fmt.Println(string(text), err)
	// Output: {"version":1,"type":"confirmation_received","payload":{"approved":true,"reason":"reviewed","tool_id":"t1"}} <nil>
}

func ExampleEnvelope_Project() {
	env, err := events.DecodeEnvelope([]byte(`{"version":1,"type":"turn_end","payload":{"turn":2,"usage":{"total_tokens":12}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p := env.Project()
	fmt.Println(*p.Turn, *p.TotalTokens, p.Text == nil)
	// Output: 2 12 true
}

func ExampleRunRecord_ToEnvelope() {
	record := events.RunRecord{Sequence: 7, TimestampMs: 1700000000000, Event: events.TextDelta{Text: "hello"}}
	env, err := record.ToEnvelope("run-1", "session-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := env.AppendJSON(nil)
	fmt.Println(string(text), err)
	// Output: {"version":1,"type":"text_delta","payload":{"text":"hello"},"metadata":{"run_id":"run-1","sequence":7,"session_id":"session-1","timestamp_ms":1700000000000}} <nil>
}

func ExampleLookup() {
	info, _ := events.Lookup("tool_input_delta")
	fmt.Println(info.Name, info.Fields)
	_, known := events.Lookup("user_question")
	fmt.Println(known)
	// Output:
	// tool_input_delta [id? string delta string]
	// false
}
