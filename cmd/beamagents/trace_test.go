package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/internal/messagejson"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const (
	traceA = "aaaaaaaaaaaaaaaa"
	traceB = "bbbbbbbbbbbbbbbb"
)

// traceEvent is an event of key "k" at a time in ms, with attributes in pairs.
func traceEvent(trace, span, parent string, t pb.TraceEvent_EventType, ms int64, attributes ...string) *pb.TraceEvent {
	m := &pb.TraceEvent{
		TraceId: []byte(trace), SpanId: []byte(span), ParentSpanId: []byte(parent), EntityKey: []byte("k"),
		EventType: t, StartMs: ms, EndMs: ms,
	}
	for i := 0; i < len(attributes); i += 2 {
		if m.Attributes == nil {
			m.Attributes = map[string]string{}
		}
		m.Attributes[attributes[i]] = attributes[i+1]
	}
	return m
}

// delimited are events as a file has them.
func delimited(t testing.TB, all ...*pb.TraceEvent) string {
	t.Helper()
	var b bytes.Buffer
	for _, m := range all {
		if err := writeFrame(&b, deterministic(t, m), true); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// lines are events as the file traces.jsonl of WriteFolder has them.
func lines(all ...*pb.TraceEvent) string {
	var b []byte
	for _, m := range all {
		b = append(messagejson.AppendReadable(b, m.ProtoReflect()), '\n')
	}
	return string(b)
}

// aDay is an activation that waits for a day, with measured durations and an event of each
// type.
func aDay() []*pb.TraceEvent {
	const at, day = 1700000000000, 86400000
	denied := traceEvent(traceA, "tool----", "chat----", pb.TraceEvent_TOOL_CALL, at, "gen_ai.tool.name", "bash", "error.type", "permission_denied")
	denied.StepIndex = 1
	return []*pb.TraceEvent{
		traceEvent(traceA, "first---", "", pb.TraceEvent_ACTIVATION_START, at, "beam_agents.activation.kind", "start", "gen_ai.agent.name", "refunds"),
		traceEvent(traceA, "chat----", "first---", pb.TraceEvent_LLM_CALL, at, "gen_ai.request.model", "m-1", "beam_agents.cache_hit", "true",
			"gen_ai.usage.input_tokens", "1200", "gen_ai.usage.cache_read.input_tokens", "1000", "gen_ai.usage.output_tokens", "80",
			"beam_agents.offset_ms", "5", "beam_agents.duration_ms", "1234"),
		denied,
		traceEvent(traceA, "agent---", "first---", pb.TraceEvent_TOOL_CALL, at, "gen_ai.operation.name", "invoke_agent", "gen_ai.agent.name", "scout", "beam_agents.incomplete", "true"),
		traceEvent(traceA, "intent--", "first---", pb.TraceEvent_INTENT_EMITTED, at, "beam_agents.tool_name", "refund", "beam_agents.intent_kind", "APPROVAL", "beam_agents.intent_id", "i-1", "beam_agents.offset_ms", "1300"),
		traceEvent(traceA, "suspend-", "first---", pb.TraceEvent_SUSPENDED, at, "beam_agents.adapter", "refunds", "beam_agents.deadline_ms", "1700086400001", "beam_agents.pending_intent_ids", "i-1,i-2"),
		traceEvent(traceA, "first---", "", pb.TraceEvent_ACTIVATION_END, at, "beam_agents.activation.kind", "start", "beam_agents.activation.status", "suspended", "beam_agents.duration_ms", "1301", "gen_ai.agent.name", "refunds",
			"beam_agents.traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
		traceEvent(traceA, "second--", "first---", pb.TraceEvent_ACTIVATION_START, at, "beam_agents.activation.kind", "resume"),
		traceEvent(traceA, "second--", "first---", pb.TraceEvent_ACTIVATION_END, at+day, "beam_agents.activation.kind", "resume", "beam_agents.activation.status", "completed", "beam_agents.duration_ms", "0"),
		traceEvent(traceA, "error---", "first---", pb.TraceEvent_ERROR, at+day+1, "gen_ai.operation.name", "invoke_agent", "beam_agents.reason", "activation_error", "error.type", "panic"),
		traceEvent(traceA, "newer---", "first---", 99, at+day+2),
	}
}

const aDayTree = `trace 61616161616161616161616161616161  key "k"  seq 0  from 2023-11-14T22:13:20Z  9 spans
invoke_agent refunds        +0ms          1.301s  suspended  called from trace 0af7651916cd43dd8448eb211c80319c
├─ invoke_agent scout       +0ms          -       incomplete
├─ chat m-1                 +5ms          1.234s  from the replay cache  in 1200 (1000 cached)  out 80
│  └─ execute_tool bash     +0ms          -       error permission_denied
├─ request_approval refund  +1.3s         -       id i-1
├─ suspend refunds          +0ms          -       until 2023-11-15T22:13:20.001Z  waits for 2 intents
├─ invoke_agent             +24h0m0s      0ms     resumed  completed
├─ invoke_agent             +24h0m0.001s  -       error panic  reason activation_error
└─ event 99                 +24h0m0.002s  -
`

func TestTraceTreeText(t *testing.T) {
	const at = 1700000000000
	start, end := pb.TraceEvent_ACTIVATION_START, pb.TraceEvent_ACTIVATION_END
	for name, tc := range map[string]struct {
		events []*pb.TraceEvent
		want   string
	}{
		"all types": {aDay(), aDayTree},
		"two traces, by their beginning, with duplicates": {
			[]*pb.TraceEvent{
				traceEvent(traceB, "s", "", start, 7), traceEvent(traceA, "s", "", start, 8), traceEvent(traceA, "s", "", start, 8),
				traceEvent(traceB, "s", "", end, 7, "beam_agents.duration_ms", "1000"), traceEvent(traceA, "s", "", end, 8), traceEvent(traceA, "s", "", start, 8),
			},
			`trace 62626262626262626262626262626262  key "k"  seq 0  from 1970-01-01T00:00:00.007Z  1 span
invoke_agent  +0ms  1s

trace 61616161616161616161616161616161  key "k"  seq 0  from 1970-01-01T00:00:00.008Z  1 span  2 duplicates left out
invoke_agent  +0ms  -
`,
		},
		"orphans": {
			[]*pb.TraceEvent{
				traceEvent(traceA, "a", "gone", pb.TraceEvent_SUSPENDED, at), traceEvent(traceA, "b", "a", pb.TraceEvent_ERROR, at),
				traceEvent(traceA, "half", "", start, at), traceEvent(traceA, "other", "", end, at),
			},
			`trace 61616161616161616161616161616161  key "k"  seq 0  from 2023-11-14T22:13:20Z  4 spans
invoke_agent  +0ms  -  no end
invoke_agent  +0ms  -  no start
suspend       +0ms  -  orphan of 676f6e65
└─ error      +0ms  -  error _OTHER
`,
		},
		"parents in a cycle": {
			[]*pb.TraceEvent{
				traceEvent(traceA, "a", "b", pb.TraceEvent_LLM_CALL, 3), traceEvent(traceA, "b", "c", pb.TraceEvent_TOOL_CALL, 2),
				traceEvent(traceA, "c", "a", pb.TraceEvent_TOOL_CALL, 1), traceEvent(traceA, "d", "a", pb.TraceEvent_ERROR, 0),
				traceEvent(traceA, "self", "self", pb.TraceEvent_ERROR, 9),
			},
			`trace 61616161616161616161616161616161  key "k"  seq 0  from 1970-01-01T00:00:00Z  5 spans
execute_tool     +1ms  -  orphan: its parents are a cycle
└─ execute_tool  +2ms  -
   └─ chat       +3ms  -
      └─ error   +0ms  -  error _OTHER
error            +9ms  -  error _OTHER  orphan: its parents are a cycle
`,
		},
		"no ids": {
			[]*pb.TraceEvent{
				traceEvent("", "s", "", start, 2), traceEvent("", "s", "", start, 2), traceEvent("", "t", "s", pb.TraceEvent_LLM_CALL, 1),
				traceEvent(traceA, "", "", pb.TraceEvent_LLM_CALL, 3), traceEvent(traceA, "", "", pb.TraceEvent_LLM_CALL, 3),
			},
			`trace 61616161616161616161616161616161  key "k"  seq 0  from 1970-01-01T00:00:00.003Z  2 spans
chat  +0ms  -
chat  +0ms  -

no trace id  3 spans
chat          +0ms  -
invoke_agent  +1ms  -  no end
invoke_agent  +1ms  -  no end
`,
		},
		"times that are not": {
			[]*pb.TraceEvent{
				{TraceId: []byte(traceA), SpanId: []byte("s"), EventType: pb.TraceEvent_LLM_CALL, StartMs: math.MinInt64, EndMs: math.MaxInt64},
				{TraceId: []byte(traceA), SpanId: []byte("t"), EventType: pb.TraceEvent_LLM_CALL, StartMs: 5, EndMs: 4},
				traceEvent(traceA, "u", "", pb.TraceEvent_LLM_CALL, math.MaxInt64, "beam_agents.offset_ms", "9", "beam_agents.duration_ms", "-1"),
				traceEvent(traceA, "v", "", pb.TraceEvent_LLM_CALL, 6, "beam_agents.offset_ms", "x", "beam_agents.duration_ms", "9223372036854775807"),
			},
			`trace 61616161616161616161616161616161  key ""  seq 0  from 1970-01-01T00:00:00Z  4 spans
chat  +0ms                 2562047h47m16.854s
chat  +5ms                 -
chat  +6ms                 2562047h47m16.848s
chat  +2562047h47m16.854s  -
`,
		},
		"text that a terminal acts upon": {
			[]*pb.TraceEvent{
				{TraceId: []byte(traceA), EntityKey: []byte("a\xff\x1b"), SpanId: []byte("s"), EventType: pb.TraceEvent_TOOL_CALL, Attributes: map[string]string{
					"gen_ai.tool.name": "rm\x1b[2J\nx", "error.type": "a b\u202e", "beam_agents.reason": strings.Repeat("é", 100),
					"gen_ai.usage.input_tokens": "many", "gen_ai.usage.output_tokens": "-3",
				}},
			},
			`trace 61616161616161616161616161616161  key "a\xff\x1b"  seq 0  from 1970-01-01T00:00:00Z  1 span
execute_tool "rm\x1b[2J\nx"  +0ms  -  error "a b\u202e"  reason ` + strings.Repeat("é", 64) + "…\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for form, input := range map[string]string{"delimited": delimited(t, tc.events...), "lines": lines(tc.events...)} {
				if diff := cmp.Diff(result{0, tc.want, ""}, runWith(input, "trace", "tree")); diff != "" {
					t.Errorf("%s: %s", form, diff)
				}
			}
		})
	}
}

func TestTraceTreeJSON(t *testing.T) {
	first := traceEvent(traceA, "s", "", pb.TraceEvent_ACTIVATION_START, 5, "beam_agents.activation.kind", "start")
	first.EntityKey = []byte{0xff}
	input := delimited(t,
		first,
		traceEvent(traceA, "c", "s", pb.TraceEvent_LLM_CALL, 6, "gen_ai.request.model", "<m>", "gen_ai.request.temperature", "NaN", "beam_agents.duration_ms", "7", "beam_agents.offset_ms", "1"),
		traceEvent(traceA, "o", "x", pb.TraceEvent_ERROR, 7),
		traceEvent("", "", "", pb.TraceEvent_ERROR, 7),
	)
	want := `{"trace_id":"61616161616161616161616161616161","span_id":"73","depth":0,"name":"invoke_agent","kind":"internal","events":["ACTIVATION_START"],"start_ms":5,"duration_ms":0,"measured":false,"attributes":{"beam_agents.activation.kind":"start","beam_agents.entity_key":"0xff","beam_agents.seq":0,"beam_agents.step":0,"gen_ai.operation.name":"invoke_agent"}}
{"trace_id":"61616161616161616161616161616161","span_id":"63","parent_span_id":"73","depth":1,"name":"chat <m>","kind":"client","events":["LLM_CALL"],"start_ms":7,"duration_ms":7,"measured":true,"attributes":{"beam_agents.duration_ms":7,"beam_agents.entity_key":"k","beam_agents.offset_ms":1,"beam_agents.seq":0,"beam_agents.step":0,"gen_ai.operation.name":"chat","gen_ai.request.model":"<m>","gen_ai.request.temperature":"NaN"}}
{"trace_id":"61616161616161616161616161616161","span_id":"6f","parent_span_id":"78","depth":0,"orphan":"missing","name":"error","kind":"internal","events":["ERROR"],"start_ms":7,"duration_ms":0,"measured":false,"error":true,"attributes":{"beam_agents.entity_key":"k","beam_agents.seq":0,"beam_agents.step":0,"error.type":"_OTHER"}}
{"depth":0,"name":"error","kind":"internal","events":["ERROR"],"start_ms":7,"duration_ms":0,"measured":false,"error":true,"attributes":{"beam_agents.entity_key":"k","beam_agents.seq":0,"beam_agents.step":0,"error.type":"_OTHER"}}
`
	if diff := cmp.Diff(result{0, want, ""}, runWith(input, "trace", "tree", "--output", "json")); diff != "" {
		t.Error(diff)
	}
}

func TestTraceTreeInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	day := aDay()
	one, two, empty := file("1", delimited(t, day[:6]...)), file("2", lines(day[5:]...)), file("3", "")
	bad, cut, badLine := file("4", "\x02\x28\x80"), file("5", "\x7b\x28"), file("6", "{\"seq\":7}\n{\"seq\":x}\n\n")
	dayTree := strings.Replace(aDayTree, "9 spans", "9 spans  1 duplicate left out", 1)
	const seven = "no trace id  1 span\nevent 0  +0ms  -\n"
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		want  result
	}{
		"parts of a trace":          {"", []string{one, two, empty}, result{0, dayTree, ""}},
		"parts in another order":    {delimited(t, day[:6]...), []string{two, "-"}, result{0, dayTree, ""}},
		"one of two traces":         {delimited(t, append(day, traceEvent(traceB, "s", "", pb.TraceEvent_ERROR, 0))...), []string{"--trace-id", strings.Repeat("61", 16)}, result{0, aDayTree, ""}},
		"a trace that is not there": {"\x02\x28\x07", []string{"--trace-id", strings.Repeat("62", 16)}, result{1, "", "beamagents: there is no event of trace " + strings.Repeat("62", 16) + "\n"}},
		"no id of a trace":          {"", []string{"--trace-id", "0a"}, result{2, "", "beamagents: --trace-id \"0a\" is not valid: use 32 digits in hex\n"}},
		"another format":            {"", []string{"--output", "yaml"}, result{2, "", "beamagents: --output \"yaml\" is not valid: use text or json\n"}},
		"nothing":                   {"", nil, result{0, "", "beamagents: the input is empty\n"}},
		"nothing in two files":      {"", []string{empty, empty}, result{0, "", "beamagents: the input is empty\n"}},
		"no such file":              {"", []string{"nowhere"}, result{2, "", "beamagents: open nowhere: no such file or directory\n"}},
		"bad":                       {"\x02\x28\x80", nil, result{1, "", "beamagents: message 1 at byte 1: TraceEvent.seq is cut short\n"}},
		"bad in the middle":         {"\x02\x28\x07\x02\x28\x80\x02\x28\x07", nil, result{1, "", "beamagents: message 2 at byte 4: TraceEvent.seq is cut short\n"}},
		"bad, keep going":           {"\x02\x28\x07\x02\x28\x80", []string{"--keep-going"}, result{1, seven, "beamagents: message 2 at byte 4: TraceEvent.seq is cut short\n"}},
		"bad framing":               {"\x02\x28\x07\x05\x28", nil, result{1, "", "beamagents: message 2 at byte 4: a message of 5 bytes is cut short after 1\n"}},
		"bad framing, keep going":   {"\x02\x28\x07\x05\x28", []string{"--keep-going"}, result{1, seven, "beamagents: message 2 at byte 4: a message of 5 bytes is cut short after 1\n"}},
		"bad line":                  {"{\"seq\":7}\n{\"seq\":x}\n", nil, result{1, "", "beamagents: line 2: seq: not valid JSON: invalid character 'x' at start of value\n"}},
		"many files, keep going": {"", []string{"--keep-going", bad, cut, badLine}, result{1, seven,
			"beamagents: " + bad + ": message 1 at byte 1: TraceEvent.seq is cut short\n" +
				"beamagents: " + cut + ": message 1 at byte 1: a message of 123 bytes is cut short after 1\n" +
				"beamagents: " + badLine + ": line 2: seq: not valid JSON: invalid character 'x' at start of value\n"}},
		"many files": {"", []string{one, cut}, result{1, "", "beamagents: " + cut + ": message 1 at byte 1: a message of 123 bytes is cut short after 1\n"}},
		"a brace as a length": {delimited(t, &pb.TraceEvent{EntityKey: []byte(strings.Repeat("x", 121))}), nil,
			result{0, "no trace id  1 span\nevent 0  +0ms  -\n", ""}},
		"an empty object": {" {}\n", nil, result{1, "", "beamagents: message 1 at byte 1: a message of 32 bytes is cut short after 3\n"}},
		"a long line": {"{\"seq\":7}\n{\"key\":\"" + strings.Repeat("x", maxLineBytes) + "\"}\n", []string{"--keep-going"},
			result{1, seven, "beamagents: line 2: the line is longer than 67108864 bytes\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, runWith(tc.stdin, append([]string{"trace", "tree"}, tc.args...)...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The memory for events is bounded, and a duplicate takes none.
func TestTraceTreeLimit(t *testing.T) {
	event := traceEvent(traceA, "s", "", pb.TraceEvent_ERROR, 1)
	set, err := newTraceSet(nil)
	if err != nil {
		t.Fatal(err)
	}
	set.limit = proto.Size(event) + eventOverheadBytes
	for range 3 {
		if err := set.add(event); err != nil {
			t.Fatal(err)
		}
	}
	event.SpanId = []byte("t")
	if err := set.add(event); err == nil || !strings.Contains(err.Error(), "name traces with --trace-id") {
		t.Errorf("a second event: %v", err)
	}
}

// A chain of parents costs time and output in proportion to its length.
func TestTraceTreeDeep(t *testing.T) {
	const depth = 20_000
	all := make([]*pb.TraceEvent, depth)
	for i := range all {
		all[i] = traceEvent(traceA, strconv.Itoa(i+1), strconv.Itoa(i), pb.TraceEvent_TOOL_CALL, 0)
	}
	all[0].ParentSpanId = nil
	got := runWith(delimited(t, all...), "trace", "tree")
	if lines := strings.Count(got.Stdout, "\n"); got.Code != 0 || lines != depth+1 || len(got.Stdout) > 200*depth {
		t.Errorf("status %d, %d lines of %d bytes", got.Code, lines, len(got.Stdout))
	}
	if want := "(depth 19999) execute_tool  +0ms  -\n"; !strings.HasSuffix(got.Stdout, want) {
		t.Errorf("the end is %q", got.Stdout[len(got.Stdout)-200:])
	}
}

// Whatever the events are, each is shown once. The order does not depend on the order of the
// events, and the text has no control characters for a terminal.
func TestTraceTreeProperties(t *testing.T) {
	id := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "f"})
	text := rapid.SampledFrom([]string{"", "x", "a b", "\x1b", "\u202e", "start", "resume", "7", "-1", "9223372036854775807"})
	event := rapid.Custom(func(t *rapid.T) *pb.TraceEvent {
		m := traceEvent(rapid.SampledFrom([]string{"", traceA, traceB}).Draw(t, "trace"), id.Draw(t, "span"), id.Draw(t, "parent"),
			pb.TraceEvent_EventType(rapid.Int32Range(0, 8).Draw(t, "type")), rapid.Int64Range(-2, 2).Draw(t, "ms"))
		m.EntityKey = rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, "key")
		m.EndMs = rapid.SampledFrom([]int64{0, 3, math.MinInt64, math.MaxInt64}).Draw(t, "end")
		m.Attributes = rapid.MapOfN(rapid.SampledFrom([]string{
			"beam_agents.activation.kind", "beam_agents.offset_ms", "beam_agents.duration_ms", "gen_ai.tool.name", "error.type", "beam_agents.deadline_ms",
		}), text, 0, 4).Draw(t, "attributes")
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(event, 1, 12).Draw(t, "events")
		shuffled := rapid.Permutation(all).Draw(t, "shuffled")
		var text, asJSON result
		for i, form := range []string{lines(all...), lines(shuffled...), lines(append(shuffled, all...)...)} {
			gotText, gotJSON := runWith(form, "trace", "tree"), runWith(form, "trace", "tree", "--output", "json")
			switch i {
			case 0:
				text, asJSON = gotText, gotJSON
			case 1:
				if diff := cmp.Diff(text, gotText) + cmp.Diff(asJSON, gotJSON); diff != "" {
					t.Fatalf("in another order:\n%s", diff)
				}
			case 2:
				if gotText.Code != 0 || gotJSON.Code != 0 {
					t.Fatalf("twice: %+v", gotText)
				}
			}
		}
		if text.Code != 0 || asJSON.Code != 0 || text.Stderr+asJSON.Stderr != "" {
			t.Fatalf("%+v\n%+v", text, asJSON)
		}
		for _, r := range text.Stdout {
			if r != '\n' && !strconv.IsPrint(r) {
				t.Fatalf("%q in\n%s", r, text.Stdout)
			}
		}
		shown, want := map[string]int{}, map[string]int{}
		for line := range strings.Lines(asJSON.Stdout) {
			var s struct {
				TraceID string   `json:"trace_id"`
				SpanID  string   `json:"span_id"`
				Events  []string `json:"events"`
			}
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatal(err)
			}
			for _, e := range s.Events {
				shown[s.TraceID+s.SpanID+e]++
			}
		}
		for _, m := range all {
			key := fmt.Sprintf("%x%x%s", m.GetTraceId(), m.GetSpanId(), m.GetEventType())
			if len(m.GetTraceId()) == 0 || len(m.GetSpanId()) == 0 {
				want[key]++
			} else {
				want[key] = 1
			}
		}
		if diff := cmp.Diff(want, shown); diff != "" {
			t.Fatalf("(-events +shown):\n%s", diff)
		}
	})
}
