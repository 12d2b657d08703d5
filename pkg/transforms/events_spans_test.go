package transforms

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/beamagents/beamagents-go/pkg/events"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// runOf makes the events of a run from "time type payload" lines, numbered from first.
func runOf(t testing.TB, first uint64, lines ...string) (run []runEvent) {
	t.Helper()
	for i, line := range lines {
		var ms int64
		parts := strings.SplitN(line, " ", 3)
		if _, err := fmt.Sscan(parts[0], &ms); err != nil {
			t.Fatal(err)
		}
		env, err := events.DecodeEnvelope(fmt.Appendf(nil,
			`{"version":1,"type":%q,"payload":%s,"metadata":{"run_id":"r","session_id":"s","sequence":%d,"timestamp_ms":%d}}`,
			parts[1], parts[2], first+uint64(i), ms))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		e := runEvent{env: env}
		var text string
		if e.runPosition, _, text = positionOf(env.Metadata); text != "" {
			t.Fatalf("%s: %s", line, text)
		}
		if e.event, err = events.FromEnvelope(env); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		run = append(run, e)
	}
	return run
}

// story prints a trace: each span under its parent, with what is not the same in all.
func story(traces []*pb.TraceEvent) string {
	var b strings.Builder
	var show func(parent []byte, indent string)
	show = func(parent []byte, indent string) {
		for _, e := range traces {
			if !bytes.Equal(e.GetParentSpanId(), parent) {
				continue
			}
			fmt.Fprintf(&b, "%s%s %d..%d step %d", indent, e.GetEventType(), e.GetStartMs(), e.GetEndMs(), e.GetStepIndex())
			var attributes []string
			for name, value := range e.GetAttributes() {
				switch name {
				case "beam_agents.run_id", "gen_ai.conversation.id", "beam_agents.activation.kind", "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.agent.name":
				default:
					attributes = append(attributes, strings.NewReplacer("beam_agents.", "", "gen_ai.", "").Replace(name)+"="+value)
				}
			}
			slices.Sort(attributes)
			fmt.Fprintln(&b, strings.Join(append([]string{""}, attributes...), " "))
			if e.GetEventType() != pb.TraceEvent_ACTIVATION_START {
				show(e.GetSpanId(), indent+"  ")
			}
		}
	}
	show(nil, "")
	return b.String()
}

const (
	agentEnd = `agent_end {"text":"done","usage":{"prompt_tokens":30,"completion_tokens":9,"total_tokens":39,"cache_read_tokens":4,"cache_write_tokens":null},"verification_summary":{"status":"passed","report_count":1,"required_check_count":1,"pending_required_check_count":0,"failed_check_count":0,"residual_risk_count":0},"meta":{"provider":"p","request_model":"m","response_model":"m-1","response_id":"x"}}`
	usage    = `"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13}`
)

func modelUsage(prompt, completion int) string {
	return fmt.Sprintf(`model_usage_bound {"snapshot":{"schema":"a3s.code.model-usage-snapshot.v1","callSequence":1,"inputSnapshotDigest":"d","estimatedPromptTokens":1,"reportedPromptTokens":%d,"reportedCompletionTokens":%d,"reportedTotalTokens":0,"reportedCacheReadTokens":null,"reportedCacheWriteTokens":2,"toolResults":{"totalCount":0,"uniqueCount":0,"repeatedCount":0,"contentBytes":0,"repeatedContentBytes":0,"estimatedTokens":0,"repeatedEstimatedTokens":0,"contentsDigest":null,"repeatedContentsDigest":null},"snapshotDigest":"d"}}`, prompt, completion)
}

// Two events at one place of a run, a fault of its source, have spans of their own.
func TestTraceRunOfOnePlace(t *testing.T) {
	run := append(runOf(t, 7, `1 tool_start {"id":"a","name":"read"}`), runOf(t, 7, `1 tool_start {"id":"b","name":"read"}`)...)
	run = append(run, runOf(t, 7, `1 tool_start {"id":"c","name":"read"}`)...)
	ids := map[string]string{}
	for _, e := range traceRun([]byte("k"), run) {
		if e.GetEventType() != pb.TraceEvent_TOOL_CALL {
			continue
		}
		call := e.GetAttributes()["gen_ai.tool.call.id"]
		if other, taken := ids[string(e.GetSpanId())]; taken {
			t.Errorf("the calls %s and %s have one span id", other, call)
		}
		ids[string(e.GetSpanId())] = call
	}
	if len(ids) != 3 {
		t.Errorf("span ids %v, want one for each of 3 calls", ids)
	}
}

func TestAddCapped(t *testing.T) {
	const most = math.MaxUint64
	for _, c := range [][3]uint64{{0, 0, 0}, {1, 2, 3}, {most, 0, most}, {0, most, most}, {most - 1, 1, most}, {most, 1, most}, {1, most, most}, {most, most, most}} {
		if got := addCapped(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d is %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

func TestTraceRun(t *testing.T) {
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"a whole run": {[]string{
			`100 agent_start {"prompt":"p"}`,
			`110 turn_start {"turn":1}`,
			`115 ` + modelUsage(10, 3),
			`120 tool_start {"id":"a","name":"read"}`,
			`130 turn_end {"turn":1,` + usage + `}`,
			`140 tool_execution_start {"id":"a","name":"read","args":{}}`,
			`150 tool_end {"id":"a","name":"read","output":"","exit_code":0}`,
			`160 turn_start {"turn":2}`,
			`170 turn_end {"turn":2,` + usage + `}`,
			`180 ` + agentEnd,
		}, `ACTIVATION_START 100..100 step 0
ACTIVATION_END 100..180 step 2 activation.status=completed provider.name=p request.model=m response.id=x response.model=m-1 usage.cache_read.input_tokens=4 usage.input_tokens=30 usage.output_tokens=9 verification.status=passed
  LLM_CALL 110..130 step 1 turn=1 usage.input_tokens=10 usage.output_tokens=3
    TOOL_CALL 140..150 step 1 exit_code=0 tool.call.id=a tool_name=read
  LLM_CALL 160..170 step 2 turn=2 usage.input_tokens=10 usage.output_tokens=3
`},
		"failures": {[]string{
			`1 turn_start {"turn":1}`,
			`2 tool_execution_start {"id":"a","name":"sh","args":null}`,
			`3 tool_end {"id":"a","name":"sh","output":"","exit_code":2}`,
			`4 tool_execution_start {"id":"b","name":"sh","args":null}`,
			`5 tool_end {"id":"b","name":"sh","output":"","exit_code":1,"error_kind":{"type":"timeout","op":"o","duration_ms":1}}`,
			`6 tool_start {"id":"c","name":"rm"}`,
			`7 permission_denied {"tool_id":"c","tool_name":"rm","args":null,"reason":"no"}`,
			`8 permission_denied {"tool_id":"d","tool_name":"rm","args":null,"reason":"no"}`,
			`9 tool_end {"id":"d","name":"rm","output":"","exit_code":1}`,
			`10 subagent_start {"task_id":"a","session_id":"sub","parent_session_id":"s","agent":"scout","description":""}`,
			`11 subagent_end {"task_id":"a","session_id":"sub","agent":"scout","output":"","success":false}`,
			`12 error {"message":"overloaded"}`,
			`13 turn_end {"turn":1,` + usage + `}`,
			`14 persistence_failed {"session_id":"s","operation":"save","error":"disk full"}`,
			`15 command_dead_lettered {"command_id":"c","command_type":"index","lane":"","error":"gone","attempts":1}`,
		}, `ACTIVATION_START 1..1 step 0
ACTIVATION_END 1..15 step 1 activation.status=incomplete
  LLM_CALL 1..13 step 1 turn=1 usage.input_tokens=10 usage.output_tokens=3
    TOOL_CALL 2..3 step 1 error.type=_OTHER exit_code=2 tool.call.id=a tool_name=sh
    TOOL_CALL 4..5 step 1 error.type=timeout exit_code=1 tool.call.id=b tool_name=sh
    TOOL_CALL 6..7 step 1 error.type=permission_denied tool.call.id=c tool_name=rm
    TOOL_CALL 8..9 step 1 error.type=permission_denied exit_code=1 tool.call.id=d tool_name=rm
    TOOL_CALL 10..11 step 1 error.type=_OTHER subagent.session_id=sub tool.call.id=a tool_name=scout
    ERROR 12..12 step 1 error.type=_OTHER reason=overloaded
    ERROR 14..14 step 1 error.type=persistence_failed reason=save: disk full
    ERROR 15..15 step 1 error.type=command_dead_lettered reason=index: gone
`},
		"interrupted": {[]string{
			`1 ` + modelUsage(5, 6),
			`2 turn_start {"turn":1}`,
			`3 tool_start {"id":"a","name":"read"}`,
			`4 ` + modelUsage(1, 2),
			`5 ` + modelUsage(3, 4),
			`6 turn_start {"turn":1}`,
			`7 tool_start {"id":"a","name":"read"}`,
			`9 tool_execution_start {"id":"b","name":"sh","args":null}`,
			`8 tool_execution_start {"id":"b","name":"sh","args":null}`,
		}, `ACTIVATION_START 1..1 step 0
ACTIVATION_END 1..8 step 1 activation.status=incomplete usage.cache_creation.input_tokens=2 usage.input_tokens=5 usage.output_tokens=6
  LLM_CALL 2..6 step 1 incomplete=true turn=1 usage.cache_creation.input_tokens=4 usage.input_tokens=4 usage.output_tokens=6
    TOOL_CALL 3..7 step 1 incomplete=true tool.call.id=a tool_name=read
  LLM_CALL 6..8 step 1 incomplete=true turn=1
    TOOL_CALL 7..8 step 1 incomplete=true tool.call.id=a tool_name=read
    TOOL_CALL 9..9 step 1 incomplete=true tool.call.id=b tool_name=sh
    TOOL_CALL 8..8 step 1 incomplete=true tool.call.id=b tool_name=sh
`},
		"ends without a beginning": {[]string{
			`1 turn_end {"turn":18446744073709551615,` + usage + `}`,
			`2 tool_end {"id":"","name":"","output":"","exit_code":0}`,
			`3 subagent_end {"task_id":"","session_id":"","agent":"","output":"","success":true}`,
		}, `ACTIVATION_START 1..1 step 0
ACTIVATION_END 1..3 step 4294967295 activation.status=incomplete
  LLM_CALL 1..1 step 4294967295 turn=18446744073709551615 usage.input_tokens=10 usage.output_tokens=3
    TOOL_CALL 2..2 step 4294967295 exit_code=0 tool.call.id= tool_name=
    TOOL_CALL 3..3 step 4294967295 subagent.session_id= tool.call.id= tool_name=
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := traceRun([]byte("k"), runOf(t, 0, tc.lines...))
			if diff := cmp.Diff(tc.want, story(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			checkTrace(t, got)
		})
	}
}

// checkTrace checks what holds for every trace.
func checkTrace(t testing.TB, traces []*pb.TraceEvent) {
	t.Helper()
	ids := map[string]bool{}
	seen := map[string]bool{}
	for _, e := range traces {
		ids[string(e.GetSpanId())] = true
		place := fmt.Sprintf("%x %v", e.GetSpanId(), e.GetEventType())
		if seen[place] {
			t.Errorf("two events have the id %s", place)
		}
		seen[place] = true
		for name, value := range e.GetAttributes() {
			if !utf8.ValidString(value) || len(value) > maxAttributeBytes {
				t.Errorf("%s is %q", name, value)
			}
		}
		if e.GetEndMs() < e.GetStartMs() {
			t.Errorf("%s ends before it begins: %v", place, e)
		}
	}
	if len(ids) != len(traces)-1 {
		t.Errorf("%d ids for %d events, of which the first two share one", len(ids), len(traces))
	}
	for _, e := range traces {
		if parent := e.GetParentSpanId(); len(parent) > 0 && !ids[string(parent)] {
			t.Errorf("%v has a parent that is not there", e)
		}
	}
}

// vectorRun is a run of all events of the vectors that go into traces.
func vectorRun(t testing.TB) []runEvent {
	t.Helper()
	data, err := os.ReadFile("../events/testdata/event_protocol_v1.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Events []struct {
			EnvelopeJSON string `json:"envelope_json"`
		} `json:"events"`
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	var lines []string
	types := map[string]bool{}
	for i, v := range vectors.Events {
		env, err := events.DecodeEnvelope([]byte(v.EnvelopeJSON))
		if err != nil {
			t.Fatal(err)
		}
		if tracedTypes[env.Type] {
			types[env.Type] = true
			lines = append(lines, fmt.Sprintf("%d %s %s", 1000+i, env.Type, env.Payload.JSON()))
		}
	}
	if len(types) != len(tracedTypes) {
		t.Fatalf("the vectors have %d of %d traced types", len(types), len(tracedTypes))
	}
	return runOf(t, 1<<40, lines...)
}

func TestTraceRunIgnoresOrderAndRepetition(t *testing.T) {
	run := vectorRun(t)
	conflict := runOf(t, 1<<40, `1000 error {"message":"another event in the place of the first"}`)
	run = append(run, conflict...)
	want := traceRun([]byte("k"), slices.Clone(run))
	checkTrace(t, want)
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		again := append(slices.Clone(run), run[:random.IntN(len(run))]...)
		random.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		if diff := cmp.Diff(want, traceRun([]byte("k"), again), protocmp.Transform()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// Of the events that give no span the first and the last are left, in any order.
func TestWiden(t *testing.T) {
	at := func(sequence uint64, ms int64) runEvent {
		return runEvent{runPosition: runPosition{sequence: sequence, timeMS: ms}}
	}
	all := []runEvent{at(3, 9), at(3, 7), at(4, 8), at(4, 8), at(9, 2), at(9, 1)}
	want := []runPosition{at(3, 7).runPosition, at(9, 2).runPosition}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var ends []runEvent
		for _, e := range all {
			ends = widen(ends, e)
		}
		if len(ends) != 2 || ends[0].runPosition != want[0] || ends[1].runPosition != want[1] {
			t.Fatalf("%v of %v, want %v", ends, all, want)
		}
	}
}

// Other events make a run longer, and alone they make one.
func TestTraceRunOfOtherEvents(t *testing.T) {
	other := func(e runEvent) runEvent { return runEvent{runPosition: e.runPosition} }
	run := runOf(t, 0, `1 text_delta {"text":""}`, `2 turn_start {"turn":1}`, `3 text_delta {"text":""}`)
	for name, tc := range map[string]struct {
		run  []runEvent
		want string
	}{
		"around a turn": {[]runEvent{other(run[2]), run[1], other(run[0])}, `ACTIVATION_START 1..1 step 0
ACTIVATION_END 1..3 step 1 activation.status=incomplete
  LLM_CALL 2..3 step 1 incomplete=true turn=1
`},
		"alone": {[]runEvent{other(run[0])}, `ACTIVATION_START 1..1 step 0
ACTIVATION_END 1..1 step 0 activation.status=incomplete
`},
	} {
		got := traceRun([]byte("k"), tc.run)
		if diff := cmp.Diff(tc.want, story(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		checkTrace(t, got)
	}
}

// Pieces of a run, as windows cut it, share the trace and no span.
func TestTraceRunInPieces(t *testing.T) {
	run := vectorRun(t)
	seen := map[string]bool{}
	want := intent.TraceID([]byte("k"), 0)
	for piece := range slices.Chunk(run, 5) {
		traces := traceRun([]byte("k"), slices.Clone(piece))
		checkTrace(t, traces)
		for _, e := range traces {
			if !bytes.Equal(e.GetTraceId(), want[:]) {
				t.Errorf("%v is in another trace", e)
			}
			place := fmt.Sprintf("%x %v", e.GetSpanId(), e.GetEventType())
			if seen[place] {
				t.Errorf("%s is in two pieces", place)
			}
			seen[place] = true
		}
	}
}

func TestTraceAttributesAreCut(t *testing.T) {
	long := strings.Repeat("é", 5000)
	traces := traceRun([]byte("k"), runOf(t, 0, `1 error {"message":"x`+long+`"}`))
	got := traces[2].GetAttributes()["beam_agents.reason"]
	if want := "x" + long[:4094]; got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	checkTrace(t, traces)
}

// The ids are those that other programs derive, frozen here.
func TestTraceIDs(t *testing.T) {
	key, err := runKey("s", "r")
	if err != nil || string(key) != `["s","r"]` {
		t.Fatalf("%s, %v", key, err)
	}
	traces := traceRun(key, runOf(t, 7, `1 turn_start {"turn":1}`))
	traceID, root, turn := intent.TraceID(key, 0), intent.SpanID(key, 0, "activation@7", 0), intent.SpanID(key, 0, "LLM_CALL@7", 0)
	for i, want := range [][8]byte{root, root, turn} {
		if !bytes.Equal(traces[i].GetTraceId(), traceID[:]) || !bytes.Equal(traces[i].GetSpanId(), want[:]) {
			t.Errorf("event %d: %v, want span %x of trace %x", i, traces[i], want, traceID)
		}
	}
	other, err := runKey("s\",\"r", "")
	if err != nil || bytes.Equal(key, other) {
		t.Errorf("two sessions share the key %s", key)
	}
}

// Every type that leaves the filter is one that the fold knows.
func TestTracedTypesAreHandled(t *testing.T) {
	for _, e := range vectorRun(t) {
		before := traceRun([]byte("k"), runOf(t, 0, `1 agent_start {"prompt":""}`))
		run := append(runOf(t, 0, `1 agent_start {"prompt":""}`), e)
		after := traceRun([]byte("k"), run)
		if e.env.Type != events.EventAgentStart && cmp.Equal(attributesOf(before), attributesOf(after)) {
			t.Errorf("%s leaves no mark on a trace", e.env.Type)
		}
	}
}

func attributesOf(traces []*pb.TraceEvent) (all []map[string]string) {
	for _, e := range traces {
		all = append(all, e.GetAttributes())
	}
	return all
}
