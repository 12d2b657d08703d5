package transforms_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/events"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	register.Function2x1(stampedAgentEvent)
	register.Function3x1(keyedAgentEvent)
	register.Function2x1(stampedProjection)
	register.Function3x1(stampedKeyedEnvelope)
	register.Function2x1(stampedTrace)
	register.Function1x2(keyedByFirst)
	register.Function1x2(keyedTrace)
	register.Function2x1(countedTraces)
	register.Iter1[*pb.TraceEvent]()
	register.Function2x0(stampedByMetadata)
	register.Emitter2[beam.EventTime, events.Envelope]()
}

func stampedAgentEvent(ts beam.EventTime, env events.Envelope) string {
	return when(ts) + " " + jsonOf(env)
}

func keyedAgentEvent(ts beam.EventTime, key []byte, env events.Envelope) string {
	return fmt.Sprintf("%s %q %s", when(ts), key, jsonOf(env))
}

func stampedProjection(ts beam.EventTime, p events.Projection) string {
	return when(ts) + " " + string(p.AppendJSON(nil))
}

func stampedKeyedEnvelope(ts beam.EventTime, key []byte, env *pb.AgentEnvelope) string {
	return fmt.Sprintf("%s %q %q %d %s", when(ts), key, env.GetEntityKey(), env.GetEventTimeMs(), env.GetExternalEvent())
}

// stampedTrace leaves the ids to the tests of the fold.
func stampedTrace(ts beam.EventTime, e *pb.TraceEvent) string {
	return fmt.Sprintf("%s %s key=%s step=%d %d..%d", when(ts), e.GetEventType(), e.GetEntityKey(), e.GetStepIndex(), e.GetStartMs(), e.GetEndMs())
}

func keyedTrace(e *pb.TraceEvent) ([]byte, *pb.TraceEvent) { return e.GetEntityKey(), e }

func countedTraces(key []byte, next func(**pb.TraceEvent) bool) string {
	n := 0
	for e := (*pb.TraceEvent)(nil); next(&e); {
		n++
	}
	return fmt.Sprintf("%s %d", key, n)
}

func keyedByFirst(raw []byte) ([]byte, []byte) { return raw[:1], raw[1:] }

// stampedByMetadata puts an event at the time in its metadata.
func stampedByMetadata(env events.Envelope, emit func(beam.EventTime, events.Envelope)) {
	v, _ := env.Metadata.Get("timestamp_ms")
	ms, _ := v.Int64()
	emit(beam.EventTime(ms), env)
}

func jsonOf(env events.Envelope) string {
	b, err := env.AppendJSON(nil)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// eventVectors are those of the protocol.
type eventVectors struct {
	Events []struct {
		EnvelopeJSON string          `json:"envelope_json"`
		Unsorted     string          `json:"envelope_json_if_preserve_order"`
		Projection   json.RawMessage `json:"projection"`
	} `json:"events"`
	RunEvents []struct {
		RunID        string `json:"run_id"`
		SessionID    string `json:"session_id"`
		EnvelopeJSON string `json:"envelope_json"`
		Unsorted     string `json:"envelope_json_if_preserve_order"`
	} `json:"run_events"`
	EnvelopeDecode []struct {
		Input        string `json:"input"`
		EnvelopeJSON string `json:"envelope_json"`
	} `json:"envelope_decode"`
	ProjectionEdges []struct {
		Input      string          `json:"input"`
		Projection json.RawMessage `json:"projection"`
	} `json:"projection_edges"`
}

var loadEventVectors = sync.OnceValues(func() (v eventVectors, err error) {
	data, err := os.ReadFile("../events/testdata/event_protocol_v1.json")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(data, &v)
})

func theEventVectors(t testing.TB) eventVectors {
	t.Helper()
	v, err := loadEventVectors()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func compact(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// brokenEvents are events that are refused, and what their dead letters say.
var brokenEvents = map[string]string{
	``:                                       "unparsable: expected a value at byte 0",
	`[]`:                                     "wrong_type: invalid type: sequence, expected an event envelope object",
	"\"\xff\"":                               "unparsable: invalid UTF-8 at byte 1",
	`{"version":2,"type":"t","payload":1}`:   "unsupported_version: unsupported event envelope version 2; expected 1",
	`{"version":1,"type":"t"}`:               "missing_field: missing field `payload`",
	`{"version":"1","type":"t","payload":1}`: "wrong_type: invalid type: string \"1\", expected u16",
	`{"version":1,"version":1,"type":"t","payload":1}`:   "duplicate_field: duplicate field `version`",
	strings.Repeat("[", 200) + strings.Repeat("]", 200):  "too_deep: recursion limit exceeded at byte 127",
	`{"version":1,"type":"t","payload":"` + "\\ud800\"}": "unparsable: lone surrogate at byte 35",
}

func TestDecodeEventsTakesTheVectors(t *testing.T) {
	v := theEventVectors(t)
	var inputs [][]byte
	var want, letters []string
	for _, e := range v.Events {
		inputs = append(inputs, []byte(e.Unsorted))
		want = append(want, "-inf "+e.EnvelopeJSON)
	}
	for _, e := range v.EnvelopeDecode {
		inputs = append(inputs, []byte(e.Input))
		if e.EnvelopeJSON != "" {
			want = append(want, "-inf "+e.EnvelopeJSON)
		} else if _, err := events.DecodeEnvelope([]byte(e.Input)); err != nil {
			decode, _ := errors.AsType[*events.DecodeError](err)
			letters = append(letters, letterOfEvent("-inf", "", 0, []byte(e.Input), string(decode.Code)+": "+decode.Error()))
		} else {
			t.Fatalf("%s is not refused", e.Input)
		}
	}
	onBothRunners(t, func(s beam.Scope) {
		decoded := transforms.DecodeEvents(s, source(s, inputs...))
		equals(s, beam.ParDo(s, stampedAgentEvent, decoded.Events), want)
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), letters)
	}, wantCounters(map[string]int64{"events_decoded": int64(len(want)), "errors_malformed_event": int64(len(letters))}))
}

// letterOfEvent is the line of a dead letter; says is its code, a colon and its text.
func letterOfEvent(ts, key string, ms int64, input []byte, says string) string {
	code, text, _ := strings.Cut(says, ": ")
	shown := fmt.Sprintf("%x", input)
	if len(shown) > 200 {
		shown = fmt.Sprintf("%d bytes", len(input))
	}
	return fmt.Sprintf("%s malformed_event/%s key=%s time=%d event=%s redriven=0: %s", ts, code, key, ms, shown, text)
}

func TestDecodeEventsKeepsPoisonAndTheRest(t *testing.T) {
	const good = `{"version":1,"type":"t","payload":null}`
	for _, order := range []string{"first", "middle", "last"} {
		t.Run(order, func(t *testing.T) {
			var inputs [][]byte
			var want, letters []string
			for raw, says := range brokenEvents {
				inputs = append(inputs, []byte(raw))
				letters = append(letters, letterOfEvent("-inf", "", 0, []byte(raw), says))
			}
			at := map[string]int{"first": len(inputs), "middle": len(inputs) / 2, "last": 0}[order]
			inputs = append(inputs[:at:at], append([][]byte{[]byte(good)}, inputs[at:]...)...)
			want = append(want, "-inf "+good)
			onBothRunners(t, func(s beam.Scope) {
				decoded := transforms.DecodeEvents(s, source(s, inputs...))
				equals(s, beam.ParDo(s, stampedAgentEvent, decoded.Events), want)
				equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), letters)
			}, wantCounters(map[string]int64{"events_decoded": 1, "errors_malformed_event": int64(len(letters))}))
		})
	}
}

func TestDecodeEventsUnderKeys(t *testing.T) {
	const good = `{"version":1,"type":"t","payload":{"b":1,"a":2}}`
	stampAt := func(s string) []byte { return append([]byte{7}, s...) }
	inputs := [][]byte{stampAt("k" + good), stampAt("k{"), stampAt("q" + good)}
	onBothRunners(t, func(s beam.Scope) {
		col := beam.ParDo(s, keyedByFirst, beam.ParDo(s, stamp, beam.CreateList(s, inputs)))
		decoded := transforms.DecodeEvents(s, col)
		const event = `{"version":1,"type":"t","payload":{"a":2,"b":1}}`
		equals(s, beam.ParDo(s, keyedAgentEvent, decoded.Events), []string{`7000 "k" ` + event, `7000 "q" ` + event})
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), []string{
			letterOfEvent("7000", "k", 7000, []byte("{"), "unparsable: expected a member name at byte 1"),
		})
	})
}

func TestDecodeEventsInEnvelopes(t *testing.T) {
	const good = `{"version":1,"type":"t","payload":1}`
	bad := event(5, "k", `{"version":1,"type":"t"}`)
	empty := event(6, "", "")
	approval := &pb.AgentEnvelope{EntityKey: []byte("a"), EventTimeMs: 7, Payload: &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{}}}
	letter := wrapped(t, deadletter.Letter{
		Reason: deadletter.FunctionError, Code: deadletter.Failed, Error: "boom", EntityKey: []byte("o"), EventTimeMS: 8,
		InputKind: deadletter.EnvelopeInput, Input: canonical(event(8, "o", good)),
	})
	inputs := [][]byte{canonical(event(4, "k", good)), canonical(bad), canonical(empty), canonical(approval), canonical(letter)}
	onBothRunners(t, func(s beam.Scope) {
		parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, source(s, inputs...))
		equals(s, beam.ParDo(s, stampedLetter, parsed.Errors), nil)
		decoded := transforms.DecodeEvents(s, parsed.Envelopes)
		equals(s, beam.ParDo(s, stampedAgentEvent, decoded.Events), []string{"4 " + good})
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), []string{
			fmt.Sprintf("5 malformed_event/missing_field key=k time=5 envelope=%x redriven=0: missing field `payload`", canonical(bad)),
			fmt.Sprintf("6 malformed_event/unparsable key= time=6 envelope=%x redriven=0: expected a value at byte 0", canonical(empty)),
			fmt.Sprintf("7 malformed_event/missing_field key=a time=7 envelope=%x redriven=0: the envelope has no external_event", canonical(approval)),
			// A dead letter of before, which is not wrapped again.
			fmt.Sprintf("8 function_error/error key=o time=8 envelope=%x redriven=1 refused=malformed_event/unparsable: boom", canonical(event(8, "o", good))),
		})
	}, wantCounters(map[string]int64{
		"envelopes_parsed": 5, "events_decoded": 1, "errors_malformed_event": 4,
	}))
}

const dropKey = ": the input is of KV<[]uint8,events.Envelope>: apply beam.DropKey to it"

// keyedEvents are events as DecodeEvents gives them for input with keys.
func keyedEvents(s beam.Scope) beam.PCollection {
	decoded := transforms.DecodeEvents(s, beam.ParDo(s, keyedByFirst, beam.Create(s, []byte{0})))
	_ = decoded.Errors
	return decoded.Events
}

func TestEventTransformsPanicAtConstruction(t *testing.T) {
	for name, tc := range map[string]struct {
		build func(s beam.Scope)
		want  string
	}{
		"another element": {func(s beam.Scope) {
			_ = transforms.DecodeEvents(s, beam.Create(s, "text")).Errors
		}, "transforms.DecodeEvents: the input is of string: give it []byte"},
		"another key": {func(s beam.Scope) {
			_ = transforms.DecodeEvents(s, beam.AddFixedKey(s, beam.Create(s, []byte{}))).Errors
		}, "give it []byte, KV<[]byte,[]byte>"},
		"bytes for events": {func(s beam.Scope) {
			_ = transforms.EventsToEnvelopes(s, beam.Create(s, []byte{})).Errors
		}, "transforms.EventsToEnvelopes: the input is of []uint8: give it events.Envelope, as DecodeEvents does"},
		"keyed for ProjectEvents":        {func(s beam.Scope) { transforms.ProjectEvents(s, keyedEvents(s)) }, "transforms.ProjectEvents" + dropKey},
		"keyed for DeadLetteredCommands": {func(s beam.Scope) { transforms.DeadLetteredCommands(s, keyedEvents(s)) }, "transforms.DeadLetteredCommands" + dropKey},
		"keyed for EventsToEnvelopes": {func(s beam.Scope) {
			_ = transforms.EventsToEnvelopes(s, keyedEvents(s)).Errors
		}, "transforms.EventsToEnvelopes" + dropKey},
		"keyed for EventsToTraces": {func(s beam.Scope) {
			_ = transforms.EventsToTraces(s, keyedEvents(s)).Errors
		}, "transforms.EventsToTraces" + dropKey},
		"windowed input": {func(s beam.Scope) {
			decoded := transforms.DecodeEvents(s, beam.WindowInto(s, window.NewFixedWindows(time.Second), beam.Create(s, []byte{})))
			_ = decoded.Errors
			_ = transforms.EventsToEnvelopes(s, decoded.Events).Errors
		}, "apply the windows to the output"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); !strings.Contains(fmt.Sprint(p), tc.want) {
					t.Errorf("panic %v, want something about %q", p, tc.want)
				}
			}()
			tc.build(beam.NewPipeline().Root())
		})
	}
}

func TestProjectEventsGivesTheVectors(t *testing.T) {
	v := theEventVectors(t)
	var inputs [][]byte
	var want []string
	for _, e := range v.Events {
		inputs = append(inputs, []byte(e.EnvelopeJSON))
		want = append(want, "-inf "+compact(t, e.Projection))
	}
	for _, e := range v.ProjectionEdges {
		inputs = append(inputs, []byte(e.Input))
		want = append(want, "-inf "+compact(t, e.Projection))
	}
	onBothRunners(t, func(s beam.Scope) {
		decoded := transforms.DecodeEvents(s, source(s, inputs...))
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), nil)
		equals(s, beam.ParDo(s, stampedProjection, transforms.ProjectEvents(s, decoded.Events)), want)
	})
}

func TestEventsToEnvelopes(t *testing.T) {
	const odd = "wrong_type: metadata.timestamp_ms is not an integer from 0 to 253402300799999"
	var inputs [][]byte
	var want, letters []string
	for _, e := range theEventVectors(t).RunEvents {
		inputs = append(inputs, []byte(e.Unsorted))
		env, err := events.DecodeEnvelope([]byte(e.EnvelopeJSON))
		if err != nil {
			t.Fatal(err)
		}
		v, _ := env.Metadata.Get("timestamp_ms")
		ms, ok := v.Int64()
		if !ok { // one vector has the largest number of 64 bits there, which is no date
			letters = append(letters, letterOfEvent("-inf", e.SessionID, 0, []byte(e.EnvelopeJSON), odd))
			continue
		}
		want = append(want, fmt.Sprintf("%d %q %q %d %s", ms, e.SessionID, e.SessionID, ms, e.EnvelopeJSON))
	}
	of := func(metadata string) []byte {
		return []byte(`{"version":1,"type":"t","payload":{"z":1,"a":1.50},"metadata":` + metadata + `}`)
	}
	canonicalOf := func(metadata string) []byte {
		return []byte(`{"version":1,"type":"t","payload":{"a":1.5,"z":1},"metadata":` + metadata + `}`)
	}
	for metadata, line := range map[string]string{
		`{"timestamp_ms":0,"session_id":""}`:                `0 "" "" 0`,
		`{"timestamp_ms":253402300799999,"session_id":"é"}`: `253402300799999 "é" "é" 253402300799999`,
	} {
		inputs = append(inputs, of(metadata))
		sorted, err := events.ParseValue([]byte(metadata))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, line+" "+string(canonicalOf(sorted.JSON())))
	}
	for metadata, says := range map[string]string{
		`{"session_id":"s"}`:                    "missing_field: missing field `metadata.timestamp_ms`",
		`{"timestamp_ms":1}`:                    "missing_field: missing field `metadata.session_id`",
		`{}`:                                    "missing_field: missing field `metadata.session_id`",
		`"s"`:                                   "wrong_type: metadata is not an object",
		`{"session_id":null,"timestamp_ms":1}`:  "wrong_type: metadata.session_id is not a string",
		`{"session_id":7,"timestamp_ms":1}`:     "wrong_type: metadata.session_id is not a string",
		`{"session_id":"s","timestamp_ms":1.0}`: odd,
		`{"session_id":"s","timestamp_ms":-1}`:  odd,
		`{"session_id":"s","timestamp_ms":253402300800000}`: odd,
		`{"session_id":"s","timestamp_ms":"1"}`:             odd,
	} {
		inputs = append(inputs, of(metadata))
		key, ms := "", int64(0)
		if strings.Contains(metadata, `"s"`) && metadata != `"s"` {
			key = "s"
		}
		if strings.Contains(metadata, `"timestamp_ms":1}`) {
			ms = 1
		}
		letters = append(letters, letterOfEvent("-inf", key, ms, canonicalOf(metadata), says))
	}
	bare := []byte(`{"version":1,"type":"t","payload":1}`)
	inputs = append(inputs, bare)
	letters = append(letters, letterOfEvent("-inf", "", 0, bare, "missing_field: missing field `metadata`"))
	onBothRunners(t, func(s beam.Scope) {
		decoded := transforms.DecodeEvents(s, source(s, inputs...))
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), nil)
		out := transforms.EventsToEnvelopes(s, decoded.Events)
		equals(s, beam.ParDo(s, stampedKeyedEnvelope, out.Envelopes), want)
		equals(s, beam.ParDo(s, stampedLetter, out.Errors), letters)
	}, wantCounters(map[string]int64{
		"events_decoded": int64(len(inputs)), "events_enveloped": int64(len(want)), "errors_malformed_event": int64(len(letters)),
	}))
}

func TestDeadLetteredCommands(t *testing.T) {
	const (
		whole  = `{"version":1,"type":"command_dead_lettered","payload":{"attempts":3,"command_id":"c1","command_type":"index","error":"disk full\nat 0xc000123456","lane":"Execute"},"metadata":{"session_id":"s","timestamp_ms":9}}`
		bare   = `{"version":1,"type":"command_dead_lettered","payload":{"attempts":1,"command_id":"c2","command_type":"index","error":"disk full","lane":""}}`
		broken = `{"version":1,"type":"command_dead_lettered","payload":{"attempts":3},"metadata":{"session_id":"s","timestamp_ms":9}}`
		other  = `{"version":1,"type":"command_retry","payload":{}}`
		newer  = `{"version":1,"type":"from_next_year","payload":{}}`
	)
	onBothRunners(t, func(s beam.Scope) {
		decoded := transforms.DecodeEvents(s, source(s, []byte(whole), []byte(bare), []byte(broken), []byte(other), []byte(newer)))
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), nil)
		equals(s, beam.ParDo(s, stampedLetter, transforms.DeadLetteredCommands(s, decoded.Events)), []string{
			fmt.Sprintf("-inf activation_error/error key=s time=9 event=%d bytes redriven=0: "+
				"command c1 (index) in lane Execute failed after 3 attempts: disk full", len(whole)),
			fmt.Sprintf("-inf activation_error/error key= time=0 event=%d bytes redriven=0: "+
				"command c2 (index) in lane  failed after 1 attempt: disk full", len(bare)),
			letterOfEvent("-inf", "s", 9, []byte(broken), "missing_field: missing field `command_id`"),
		})
	}, wantCounters(map[string]int64{"events_decoded": 5, "errors_activation_error": 2, "errors_malformed_event": 1}))
}

// runLines are a short run, out of order and with a repeated event.
var runLines = []string{
	`{"version":1,"type":"tool_end","payload":{"id":"t1","name":"read","output":"","exit_code":0},"metadata":{"run_id":"r","session_id":"s","sequence":3,"timestamp_ms":1300}}`,
	`{"version":1,"type":"agent_start","payload":{"prompt":"p"},"metadata":{"run_id":"r","session_id":"s","sequence":0,"timestamp_ms":1000}}`,
	`{"version":1,"type":"text_delta","payload":{"text":"not in a trace"}}`,
	`{"version":1,"type":"turn_start","payload":{"turn":1},"metadata":{"run_id":"r","session_id":"s","sequence":1,"timestamp_ms":1100}}`,
	`{"version":1,"type":"tool_execution_start","payload":{"id":"t1","name":"read","args":null},"metadata":{"run_id":"r","session_id":"s","sequence":2,"timestamp_ms":1200}}`,
	`{"version":1,"type":"agent_start","payload":{"prompt":"p"},"metadata":{"run_id":"r","session_id":"s","sequence":0,"timestamp_ms":1000}}`,
	`{"version":1,"type":"turn_end","payload":{"turn":1,"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}},"metadata":{"run_id":"r","session_id":"s","sequence":4,"timestamp_ms":2400}}`,
}

func TestEventsToTraces(t *testing.T) {
	inputs := [][]byte{}
	for _, line := range runLines {
		inputs = append(inputs, []byte(line))
	}
	var letters []string
	for line, says := range map[string]string{
		`{"version":1,"type":"agent_start","payload":{"prompt":"p"}}`:                                                                                             "missing_field: missing field `metadata`",
		`{"version":1,"type":"agent_start","payload":{"prompt":"p"},"metadata":{"session_id":"s","timestamp_ms":1}}`:                                              "missing_field: missing field `metadata.run_id`",
		`{"version":1,"type":"agent_start","payload":{"prompt":"p"},"metadata":{"run_id":"r","session_id":"s","timestamp_ms":1}}`:                                 "missing_field: missing field `metadata.sequence`",
		`{"version":1,"type":"agent_start","payload":{"prompt":"p"},"metadata":{"run_id":"r","sequence":-1,"session_id":"s","timestamp_ms":1}}`:                   "wrong_type: metadata.sequence is not an integer from 0 to 2^64-1",
		`{"version":1,"type":"turn_start","payload":{"turn":1.0},"metadata":{"run_id":"r","sequence":1,"session_id":"s","timestamp_ms":1}}`:                       "wrong_type: invalid type: floating point `1.0`, expected u64",
		`{"version":1,"type":"agent_start","payload":{"prompt":"p"},"metadata":{"run_id":"r","sequence":0,"session_id":"s","timestamp_ms":18446744073709551615}}`: "wrong_type: metadata.timestamp_ms is not an integer from 0 to 253402300799999",
	} {
		inputs = append(inputs, []byte(line))
		key, ms := "s", int64(1)
		if !strings.Contains(line, "metadata") {
			key, ms = "", 0
		}
		if strings.Contains(says, "timestamp_ms") {
			ms = 0
		}
		letters = append(letters, letterOfEvent("-inf", key, ms, []byte(line), says))
	}
	onBothRunners(t, func(s beam.Scope) {
		decoded := transforms.DecodeEvents(s, source(s, inputs...))
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), nil)
		out := transforms.EventsToTraces(s, decoded.Events)
		equals(s, beam.ParDo(s, stampedLetter, out.Errors), letters)
		equals(s, beam.ParDo(s, stampedTrace, out.Traces), []string{
			endOfTime + " ACTIVATION_START key=s step=0 1000..1000",
			endOfTime + " ACTIVATION_END key=s step=1 1000..2400",
			endOfTime + " LLM_CALL key=s step=1 1100..2400",
			endOfTime + " TOOL_CALL key=s step=1 1200..1300",
		})
	}, wantCounters(map[string]int64{
		"events_decoded": int64(len(inputs)), "events_traced": 6, "errors_malformed_event": int64(len(letters)),
	}))
}

// endOfTime is the end of the global window, in ms.
const endOfTime = "9223371950454775"

// inGlobal takes elements out of their windows, to be compared.
func inGlobal(s beam.Scope, col beam.PCollection) beam.PCollection {
	return beam.WindowInto(s, window.NewGlobalWindows(), col)
}

// What comes out is not late for windows and groups downstream.
func TestEventsToTracesThenWindows(t *testing.T) {
	inputs := [][]byte{}
	for _, line := range runLines {
		inputs = append(inputs, []byte(line))
	}
	onBothRunners(t, func(s beam.Scope) {
		decoded := transforms.DecodeEvents(s, source(s, inputs...))
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), nil)
		out := transforms.EventsToTraces(s, decoded.Events)
		equals(s, beam.ParDo(s, stampedLetter, out.Errors), nil)
		windowed := beam.WindowInto(s, window.NewFixedWindows(time.Second), out.Traces)
		grouped := beam.ParDo(s, countedTraces, beam.GroupByKey(s, beam.ParDo(s, keyedTrace, windowed)))
		equals(s, inGlobal(s, grouped), []string{"s 4"})
	})
}

// longCall is a run in which a tool works for long, at most 3 s between two events.
func longCall() (inputs [][]byte) {
	add := func(ms int64, eventType, payload string) {
		inputs = append(inputs, fmt.Appendf(nil, `{"version":1,"type":%q,"payload":%s,"metadata":{"run_id":"r","session_id":"s","sequence":%d,"timestamp_ms":%d}}`,
			eventType, payload, len(inputs), ms))
	}
	add(1000, "agent_start", `{"prompt":"p"}`)
	add(2000, "tool_start", `{"id":"t1","name":"sh"}`)
	for ms := int64(4000); ms <= 20000; ms += 2000 {
		add(ms, "tool_output_delta", `{"id":"t1","name":"sh","delta":"."}`)
	}
	add(21000, "tool_end", `{"id":"t1","name":"sh","output":"","exit_code":0}`)
	add(24000, "from_next_year", `[]`)
	return inputs
}

// Every event holds a session window open, traced or not.
func TestEventsToTracesInSessions(t *testing.T) {
	onBothRunners(t, func(s beam.Scope) {
		decoded := transforms.DecodeEvents(s, source(s, longCall()...))
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), nil)
		windowed := beam.WindowInto(s, window.NewSessions(5*time.Second), beam.ParDo(s, stampedByMetadata, decoded.Events))
		out := transforms.EventsToTraces(s, windowed)
		equals(s, inGlobal(s, beam.ParDo(s, stampedLetter, out.Errors)), nil)
		equals(s, inGlobal(s, beam.ParDo(s, stampedTrace, out.Traces)), longCallTrace)
	}, wantCounters(map[string]int64{"events_decoded": 13, "events_traced": 3}))
}

var longCallTrace = []string{
	"28999 ACTIVATION_START key=s step=0 1000..1000",
	"28999 ACTIVATION_END key=s step=0 1000..24000",
	"28999 TOOL_CALL key=s step=0 2000..21000",
}

// The way that docs/events.md shows for a source whose timestamps are not those of the
// events. A pause cuts a run into pieces.
func TestEventsToTracesOfAStream(t *testing.T) {
	inputs := append(longCall(),
		[]byte(`{"version":1,"type":"text_delta","payload":{"text":"again"},"metadata":{"run_id":"r","session_id":"s","sequence":13,"timestamp_ms":40000}}`))
	onBothRunners(t, func(s beam.Scope) {
		decoded := transforms.DecodeEvents(s, source(s, inputs...))
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), nil)
		bySession := transforms.EventsToEnvelopes(s, decoded.Events)
		equals(s, beam.ParDo(s, stampedLetter, bySession.Errors), nil)
		windowed := beam.WindowInto(s, window.NewSessions(5*time.Second), bySession.Envelopes)
		again := transforms.DecodeEvents(s, beam.DropKey(s, windowed))
		equals(s, inGlobal(s, beam.ParDo(s, stampedLetter, again.Errors)), nil)
		out := transforms.EventsToTraces(s, again.Events)
		equals(s, inGlobal(s, beam.ParDo(s, stampedLetter, out.Errors)), nil)
		equals(s, inGlobal(s, beam.ParDo(s, stampedTrace, out.Traces)), append([]string{
			"44999 ACTIVATION_START key=s step=0 40000..40000",
			"44999 ACTIVATION_END key=s step=0 40000..40000",
		}, longCallTrace...))
	})
}

// In windows a run is as many pieces as it has windows, each with a root of its own.
func TestEventsToTracesInWindows(t *testing.T) {
	var inputs [][]byte
	for _, line := range runLines {
		if !strings.Contains(line, "text_delta") {
			inputs = append(inputs, []byte(line))
		}
	}
	onBothRunners(t, func(s beam.Scope) {
		decoded := transforms.DecodeEvents(s, source(s, inputs...))
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), nil)
		windowed := beam.WindowInto(s, window.NewFixedWindows(2*time.Second), beam.ParDo(s, stampedByMetadata, decoded.Events))
		out := transforms.EventsToTraces(s, windowed)
		equals(s, inGlobal(s, beam.ParDo(s, stampedLetter, out.Errors)), nil)
		equals(s, inGlobal(s, beam.ParDo(s, stampedTrace, out.Traces)), []string{
			"1999 ACTIVATION_START key=s step=0 1000..1000",
			"1999 ACTIVATION_END key=s step=1 1000..1300",
			"1999 LLM_CALL key=s step=1 1100..1300",
			"1999 TOOL_CALL key=s step=1 1200..1300",
			"3999 ACTIVATION_START key=s step=0 2400..2400",
			"3999 ACTIVATION_END key=s step=1 2400..2400",
			"3999 LLM_CALL key=s step=1 2400..2400",
		})
	})
}
