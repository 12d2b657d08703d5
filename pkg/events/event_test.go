package events_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/pkg/events"
)

// A caller's own types that embed an event.
type (
	tagged struct {
		Source string
		events.TextDelta
	}
	byPtr    struct{ *events.TextDelta }
	byIface  struct{ events.Event }
	drifting struct{ events.TextDelta }
	twice    struct{ tagged }
)

func (drifting) EventType() string { return events.EventToolEnd }

func TestToEnvelopeErrors(t *testing.T) {
	deep := parse(t, nested(126))
	for _, c := range []struct {
		name  string
		event events.Event
		want  error
		text  string
	}{
		{"NaN", events.BudgetThresholdHit{Consumed: math.NaN()}, events.ErrSerialize, "failed to serialize agent event: no JSON number for NaN"},
		{"infinity", events.MemoryRecalled{Relevance: float32(math.Inf(1))}, events.ErrSerialize, "failed to serialize agent event: no JSON number for +Inf"},
		{"nested infinity", events.GoalExtracted{Goal: events.AgentGoal{Progress: float32(math.Inf(-1))}}, events.ErrSerialize, "failed to serialize agent event: no JSON number for -Inf"},
		{"invalid UTF-8", events.TextDelta{Text: "\xff"}, events.ErrSerialize, `failed to serialize agent event: invalid UTF-8 in "\xff"`},
		{"invalid UTF-8 in a list", events.ContextResolving{Providers: []string{"a", "\xc0"}}, events.ErrSerialize, `failed to serialize agent event: invalid UTF-8 in "\xc0"`},
		{"unknown word", events.StepEnd{Status: "Completed"}, events.ErrSerialize, "failed to serialize agent event: unknown variant `Completed`, expected one of `pending`, `in_progress`, `completed`, `failed`, `skipped`, `cancelled`"},
		{"no word", events.StepEnd{}, events.ErrSerialize, ""},
		{"too deep", events.ToolExecutionStart{Args: deep}, events.ErrSerialize, "failed to serialize agent event: recursion limit exceeded"},
		{"foreign error kind", events.ToolEnd{ErrorKind: struct{ events.ToolErrorKind }{}}, events.ErrSerialize, ""},
		{"nil", nil, events.ErrRuntimeShape, "serialized AgentEvent must be a JSON object with a string `type` field"},
		{"nil pointer", (*events.TextDelta)(nil), events.ErrRuntimeShape, ""},
		{"nil inside", byPtr{}, events.ErrRuntimeShape, ""},
		{"nil interface inside", byIface{}, events.ErrRuntimeShape, ""},
		{"embedded twice", twice{}, events.ErrRuntimeShape, ""},
		{"another name", drifting{}, events.ErrTypeDrift, "AgentEvent wire type drifted: canonical type is `tool_end`, serde emitted `text_delta`"},
		{"pointer to another name", &drifting{}, events.ErrTypeDrift, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			env, err := events.ToEnvelope(c.event)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if c.text != "" && err.Error() != c.text {
				t.Errorf("text %q, want %q", err, c.text)
			}
			if !env.Equal(events.Envelope{}) {
				t.Error("an envelope beside an error")
			}
			if _, err := events.ProjectEvent(c.event); !errors.Is(err, c.want) {
				t.Errorf("ProjectEvent: %v", err)
			}
			if _, err := (events.RunRecord{Event: c.event}).ToEnvelope("r", "s"); !errors.Is(err, c.want) {
				t.Errorf("RunRecord.ToEnvelope: %v", err)
			}
			if c.name == "too deep" { // an envelope is one level deeper than the direct form
				return
			}
			if dst, err := events.AppendEvent([]byte("kept"), c.event); !errors.Is(err, c.want) || string(dst) != "kept" {
				t.Errorf("AppendEvent: %q, %v", dst, err)
			}
			if dst, err := (events.RunRecord{Event: c.event}).AppendJSON([]byte("kept")); !errors.Is(err, c.want) || string(dst) != "kept" {
				t.Errorf("RunRecord.AppendJSON: %q, %v", dst, err)
			}
		})
	}
}

func TestToEnvelopeTakesPointersAndEmbeddings(t *testing.T) {
	text := events.TextDelta{Text: "x"}
	for _, event := range []events.Event{text, &text, tagged{"s", text}, &tagged{"s", text}, byPtr{&text}, byIface{text}, byIface{&text}} {
		env, err := events.ToEnvelope(event)
		if err != nil || encode(t, env) != `{"version":1,"type":"text_delta","payload":{"text":"x"}}` {
			t.Errorf("%T: %v (%v)", event, env, err)
		}
	}
	// A Value in a struct that a caller's struct embeds.
	env, err := events.ToEnvelope(struct{ events.ToolExecutionStart }{events.ToolExecutionStart{Args: parse(t, "[1]")}})
	if err != nil || !strings.Contains(encode(t, env), `"args":[1]`) {
		t.Errorf("embedded Value: %v", err)
	}
}

// Fields that are absent, null, zero, empty or missing, when written and when read.
func TestFieldPresence(t *testing.T) {
	const binding = `"schema":"s","packageId":"p","packageVersion":"1","lifecycleGeneration":1,"generationDigest":"g","capabilitySnapshotDigest":"c","knowledge":{"schema":"s","surfaceId":"i","formatVersion":"f","contentDigest":"d","searchSchema":"a","readSchema":"b","citationSchema":"c","lifecycleGeneration":1,"generationDigest":"g"}`
	for _, c := range []struct{ name, in, want string }{
		{"omitted, missing", `{"type":"tool_input_delta","delta":"d"}`, ``},
		{"omitted, null", `{"type":"tool_input_delta","delta":"d","id":null}`, `{"type":"tool_input_delta","delta":"d"}`},
		{"omitted, empty", `{"type":"tool_input_delta","id":"","delta":"d"}`, ``},
		{"omitted any, false", `{"type":"tool_end","id":"i","name":"n","args":false,"output":"","exit_code":-1,"metadata":[]}`, ``},
		{"omitted any, null", `{"type":"tool_end","id":"i","name":"n","args":null,"output":"","exit_code":-1}`, `{"type":"tool_end","id":"i","name":"n","output":"","exit_code":-1}`},
		{"nulled, missing", `{"type":"confirmation_received","tool_id":"t","approved":true}`, `{"type":"confirmation_received","tool_id":"t","approved":true,"reason":null}`},
		{"nulled, null", `{"type":"confirmation_received","tool_id":"t","approved":true,"reason":null}`, ``},
		{"nulled, empty", `{"type":"confirmation_received","tool_id":"t","approved":true,"reason":""}`, ``},
		{"default, missing", `{"type":"subagent_end","task_id":"a","session_id":"b","agent":"d","output":"","success":true}`, `{"type":"subagent_end","task_id":"a","session_id":"b","agent":"d","output":"","success":true,"finished_ms":0}`},
		{"required any, null", `{"type":"subagent_progress","task_id":"a","session_id":"b","status":"s","metadata":null}`, ``},
		{"f64 from an integer", `{"type":"budget_threshold_hit","resource":"r","kind":"k","consumed":3,"limit":-0}`, `{"type":"budget_threshold_hit","resource":"r","kind":"k","consumed":3.0,"limit":-0.0}`},
		{"f32 keeps its digits", `{"type":"memory_recalled","memory_id":"m","content":"c","relevance":0.1}`, ``},
		{"f32 fixed to 1e-6", `{"type":"memory_recalled","memory_id":"m","content":"c","relevance":1e-6}`, `{"type":"memory_recalled","memory_id":"m","content":"c","relevance":0.000001}`},
		{"f32 not fixed from 1e13", `{"type":"memory_recalled","memory_id":"m","content":"c","relevance":1e13}`, ``},
		{"f32 fixed below 1e13", `{"type":"memory_recalled","memory_id":"m","content":"c","relevance":9999999e6}`, `{"type":"memory_recalled","memory_id":"m","content":"c","relevance":9999999000000.0}`},
		{"task defaults", `{"type":"task_updated","session_id":"s","tasks":[{"id":"1","description":"c","status":"failed","dependencies":[]}]}`, `{"type":"task_updated","session_id":"s","tasks":[{"id":"1","content":"c","status":"failed","priority":"medium"}]}`},
		{"task in full", `{"type":"task_updated","session_id":"s","tasks":[{"id":"1","content":"c","status":"pending","priority":"low","tool":"t","dependencies":["0"],"success_criteria":""}]}`, ``},
		{"limits default", `{"type":"cognitive_context_bound","binding":{` + binding + `,"limits":{"maxTotalBytes":0}}}`, `{"type":"cognitive_context_bound","binding":{` + binding + `,"limits":{"maxResults":4,"maxDocumentBytes":6144,"maxTotalBytes":0}}}`},
		{"unknown members", `{"type":"turn_end","turn":1,"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"x":[]},"y":{}}`, `{"type":"turn_end","turn":1,"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"cache_read_tokens":null,"cache_write_tokens":null}}`},
		{"type not first", `{"turn":1,"type":"turn_start"}`, `{"type":"turn_start","turn":1}`},
		{"any keeps all but duplicates", `{"type":"tool_execution_start","id":"i","name":"n","args":{"b":1e2,"a":{"z":1,"z":2},"b":-0}}`, `{"type":"tool_execution_start","id":"i","name":"n","args":{"a":{"z":2},"b":-0.0}}`},
		{"rate limited", `{"type":"tool_end","id":"i","name":"n","output":"","exit_code":1,"error_kind":{"type":"rate_limited","more":1}}`, `{"type":"tool_end","id":"i","name":"n","output":"","exit_code":1,"error_kind":{"type":"rate_limited","retry_after_ms":null}}`},
		{"error kind, type last", `{"type":"tool_end","id":"i","name":"n","output":"","exit_code":1,"error_kind":{"path":"p","type":"not_found"}}`, `{"type":"tool_end","id":"i","name":"n","output":"","exit_code":1,"error_kind":{"type":"not_found","path":"p"}}`},
		{"empty subjects", `{"type":"agent_end","text":"","usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0},"verification_summary":["failed",1,1,0,1,0,[],["s"]]}`, `{"type":"agent_end","text":"","usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"cache_read_tokens":null,"cache_write_tokens":null},"verification_summary":{"status":"failed","report_count":1,"required_check_count":1,"pending_required_check_count":0,"failed_check_count":1,"residual_risk_count":0,"failed_subjects":["s"]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			event, err := events.DecodeEvent([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				c.want = c.in
			}
			if got, err := events.AppendEvent(nil, event); err != nil || string(got) != c.want {
				t.Errorf("%s (%v)\nwant %s", got, err, c.want)
			}
			env, err := events.ToEnvelope(event)
			if err != nil {
				t.Fatal(err)
			}
			back, err := events.FromEnvelope(decode(t, encode(t, env)))
			if diff := cmp.Diff(event, back); err != nil || diff != "" {
				t.Errorf("through an envelope (%v, -want +got):\n%s", err, diff)
			}
		})
	}
}

// Structs with zero fields, and members that are null.
func TestZeroFieldsAreWritten(t *testing.T) {
	for _, c := range []struct {
		event events.Event
		want  string
	}{
		{events.ToolEnd{Args: parse(t, "null")}, `{"type":"tool_end","id":"","name":"","output":"","exit_code":0}`},
		{events.ToolEnd{Args: parse(t, "[null]")}, `{"type":"tool_end","id":"","name":"","args":[null],"output":"","exit_code":0}`},
		{events.TaskUpdated{Tasks: []events.Task{{Status: events.TaskPending}}},
			`{"type":"task_updated","session_id":"","tasks":[{"id":"","content":"","status":"pending","priority":"medium"}]}`},
	} {
		got, err := events.AppendEvent(nil, c.event)
		if err != nil || string(got) != c.want {
			t.Errorf("%s (%v), want %s", got, err, c.want)
		}
	}
	if _, err := events.AppendEvent(nil, events.TaskUpdated{Tasks: []events.Task{{}}}); !errors.Is(err, events.ErrSerialize) {
		t.Errorf("a task without a status: %v", err)
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	usage := `"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
	summary := func(s string) string {
		return `{"type":"agent_end","text":"",` + usage + `,"verification_summary":` + s + `}`
	}
	request := `"schema":"s","origin":"agent","toolIdDigest":"","toolNameDigest":"","argumentsBytes":1,"argumentsDigest":"","snapshotDigest":""`
	bound := func(s string) string {
		return `{"type":"tool_request_bound","tool_id":"","tool_name":"","snapshot":{` + s + `}}`
	}
	for _, c := range []struct {
		name, in string
		code     events.ErrorCode
		text     string
	}{
		{"not an object", `[]`, events.CodeWrongType, ""},
		{"broken", `{"type":"turn_start","turn":1`, events.CodeUnparsable, ""},
		{"trailing", `{"type":"turn_start","turn":1}]`, events.CodeUnparsable, ""},
		{"two types", `{"type":"turn_start","turn":1,"type":"turn_start"}`, events.CodeDuplicateField, "duplicate field `type`"},
		{"two fields", `{"type":"turn_start","turn":1,"turn":1}`, events.CodeDuplicateField, "duplicate field `turn`"},
		{"field and alias", `{"type":"task_updated","session_id":"s","tasks":[{"id":"1","content":"c","description":"c","status":"failed"}]}`, events.CodeDuplicateField, "duplicate field `content`"},
		{"first missing", `{"type":"tool_end"}`, events.CodeMissingField, "missing field `id`"},
		{"nested missing", `{"type":"turn_end","turn":1,"usage":{"prompt_tokens":0}}`, events.CodeMissingField, "missing field `completion_tokens`"},
		{"u64 overflow", `{"type":"turn_start","turn":18446744073709551616}`, events.CodeWrongType, ""},
		{"u16 overflow", `{"type":"run_capability_bound","call_sequence":1,"snapshot":{"retrieval":{"coverageBps":65536}}}`, events.CodeWrongType, "invalid value: integer `65536`, expected u16"},
		{"i32 underflow", `{"type":"tool_end","id":"","name":"","output":"","exit_code":-2147483649}`, events.CodeWrongType, "invalid value: integer `-2147483649`, expected i32"},
		{"i64 overflow", `{"type":"goal_achieved","goal":"","total_steps":0,"duration_ms":9223372036854775808}`, events.CodeWrongType, ""},
		{"f32 overflow", `{"type":"memory_recalled","memory_id":"","content":"","relevance":1e39}`, events.CodeWrongType, "invalid value: floating point `1e39`, expected f32"},
		{"f32 overflow without an exponent", `{"type":"memory_recalled","memory_id":"","content":"","relevance":-` + strings.Repeat("9", 40) + `}`, events.CodeWrongType,
			"invalid value: floating point `-" + strings.Repeat("9", 40) + "`, expected f32"},
		{"f32 string", `{"type":"memory_recalled","memory_id":"","content":"","relevance":"1"}`, events.CodeWrongType, "invalid type: string \"1\", expected f32"},
		{"bool number", `{"type":"external_task_completed","task_id":"","session_id":"","success":1}`, events.CodeWrongType, "invalid type: integer `1`, expected a boolean"},
		{"list null", `{"type":"context_resolving","providers":null}`, events.CodeWrongType, "invalid type: null, expected a sequence"},
		{"list of numbers", `{"type":"context_resolving","providers":["a",1]}`, events.CodeWrongType, "invalid type: integer `1`, expected a string"},
		{"empty list null", `{"type":"task_updated","session_id":"s","tasks":[{"id":"1","content":"c","status":"failed","dependencies":null}]}`, events.CodeWrongType, ""},
		{"struct array", `{"type":"turn_end","turn":1,"usage":[1,2,3,null,null]}`, events.CodeWrongType, "invalid type: sequence, expected struct TokenUsage"},
		{"error kind without type", `{"type":"tool_end","id":"","name":"","output":"","exit_code":1,"error_kind":{}}`, events.CodeMissingField, "missing field `type`"},
		{"error kind unknown", `{"type":"tool_end","id":"","name":"","output":"","exit_code":1,"error_kind":{"type":"Timeout"}}`, events.CodeWrongType, ""},
		{"error kind string", `{"type":"tool_end","id":"","name":"","output":"","exit_code":1,"error_kind":"timeout"}`, events.CodeWrongType, ""},
		{"error kind short", `{"type":"tool_end","id":"","name":"","output":"","exit_code":1,"error_kind":{"type":"timeout","op":""}}`, events.CodeMissingField, "missing field `duration_ms`"},
		{"summary of five", summary(`["passed",0,0,0,0]`), events.CodeMissingField, "missing field `residual_risk_count`"},
		{"summary of nine", summary(`["passed",0,0,0,0,0,[],[],1]`), events.CodeWrongType, ""},
		{"summary null subjects", summary(`["passed",0,0,0,0,0,null]`), events.CodeWrongType, ""},
		{"summary word", summary(`["Passed",0,0,0,0,0]`), events.CodeWrongType, ""},
		{"unknown in a snapshot", bound(request + `,"more":null`), events.CodeWrongType, "unknown field `more`, expected one of `schema`, `origin`, `toolIdDigest`, `toolNameDigest`, `argumentsBytes`, `argumentsDigest`, `snapshotDigest`"},
		{"snake case in a snapshot", bound(`"tool_id_digest":""`), events.CodeWrongType, ""},
		{"two in a snapshot", bound(request + `,"schema":"s"`), events.CodeDuplicateField, "duplicate field `schema`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			event, err := events.DecodeEvent([]byte(c.in))
			var de *events.DecodeError
			if !errors.As(err, &de) || de.Code != c.code || event != nil {
				t.Fatalf("%v, error %v, want %s", event, err, c.code)
			}
			if c.text != "" && err.Error() != c.text {
				t.Errorf("text %q, want %q", err, c.text)
			}
		})
	}
	if _, err := events.DecodeEvent([]byte(bound(request))); err != nil {
		t.Errorf("the snapshot itself: %v", err)
	}
}

// Snapshots refuse unknown members at every level, also inside an envelope.
func TestSnapshotsAreStrict(t *testing.T) {
	seen := 0
	for _, v := range theVectors(t).Events {
		if !strings.HasPrefix(v.Name, "representative: ") || !strings.HasSuffix(v.Name, "_bound") {
			continue
		}
		// Each object below the event gets one more member, one object at a time.
		for at, b := range v.EnvelopeJSON {
			start := strings.Index(v.EnvelopeJSON, `"snapshot":`)
			if start < 0 {
				start = strings.Index(v.EnvelopeJSON, `"binding":`)
			}
			if b != '{' || at < start {
				continue
			}
			seen++
			text := v.EnvelopeJSON[:at+1] + `"zzz":1,` + v.EnvelopeJSON[at+1:]
			_, err := events.FromEnvelope(decode(t, text))
			if err == nil || !strings.HasPrefix(err.Error(), "unknown field `zzz`, expected one of `") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if seen != 13 {
		t.Errorf("%d objects in snapshots, want 13", seen)
	}
}

func TestFromEnvelope(t *testing.T) {
	for _, c := range []struct {
		name, in string
		code     events.ErrorCode
	}{
		{"unknown type", `{"version":1,"type":"user_question","payload":{}}`, events.CodeWrongType},
		{"type in the payload alone", `{"version":1,"type":"","payload":{"type":"turn_start","turn":1}}`, events.CodeWrongType},
		{"null payload", `{"version":1,"type":"turn_start","payload":null}`, events.CodeWrongType},
		{"array payload", `{"version":1,"type":"turn_start","payload":[1]}`, events.CodeWrongType},
		{"missing", `{"version":1,"type":"turn_start","payload":{}}`, events.CodeMissingField},
	} {
		if event, err := events.FromEnvelope(decode(t, c.in)); !errors.Is(err, c.code) || event != nil {
			t.Errorf("%s: %v, %v", c.name, event, err)
		}
	}
	// The payload is a Value: the last of equal names wins, whatever the first.
	event, err := events.FromEnvelope(decode(t, `{"version":1,"type":"turn_start","payload":{"turn":"no","type":7,"turn":3},"metadata":1}`))
	if want := (events.TurnStart{Turn: 3}); err != nil || event != want {
		t.Errorf("%v (%v), want %v", event, err, want)
	}
}

// An event that is nested as deep as an envelope may be.
func TestEventDepth(t *testing.T) {
	event := events.ToolExecutionStart{Args: parse(t, nested(125))}
	env, err := events.ToEnvelope(event)
	if err != nil {
		t.Fatal(err)
	}
	back, err := events.FromEnvelope(decode(t, encode(t, env)))
	if diff := cmp.Diff(events.Event(event), back); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	again, err := events.ValueOf([]any{env.Payload})
	if err == nil {
		t.Errorf("a value of 127 levels: %d bytes", len(again.JSON()))
	}
}

func TestLookup(t *testing.T) {
	for name, want := range map[string]string{
		"tool_end":          "id string, name string, args? any, output string, exit_code i32, metadata? any, error_kind? ToolErrorKind",
		"memories_searched": "query? string, tags [string], result_count u64",
		"subagent_end":      "task_id string, session_id string, agent string, output string, success bool, finished_ms? u64",
		"task_updated":      "session_id string, tasks [Task]",
		"goal_progress":     "goal string, progress f32, completed_steps u64, total_steps u64",
		"step_end":          "step_id string, status TaskStatus, step_number u64, total_steps u64",
	} {
		info, ok := events.Lookup(name)
		var fields []string
		for _, f := range info.Fields {
			fields = append(fields, f.String())
		}
		if got := strings.Join(fields, ", "); !ok || info.Name != name || got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
	}
	for _, name := range []string{"", "TOOL_END", "user_question"} {
		if info, ok := events.Lookup(name); ok {
			t.Errorf("%q is %v", name, info)
		}
	}
	events.Types()[0] = "changed"
	if events.Types()[0] != events.EventAgentStart {
		t.Error("Types is no copy")
	}
}
