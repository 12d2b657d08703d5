package transforms_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/prismtest"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func TestMain(m *testing.M) {
	log.LogLevel = "warn"
	os.Exit(ptest.MainRetWithDefault(m, "prism"))
}

func init() {
	register.Function2x1(stampedEnvelope)
	register.Function2x1(stampedLetter)
	register.Function3x1(keyedEvent)
	register.Function3x1(keyedToolResult)
	register.Function3x1(keyedApproval)
	register.Function3x1(keyedExportRequest)
	register.Function3x1(keyedEnvelope)
	register.Function2x1(encodedError)
	register.Function2x0(stamp)
	register.Function2x0(timeless)
	register.Function1x2(keyed)
	register.Function1x2(nilVariants)
	register.Function1x2(noPayload)
	register.Function1x1(withBadText)
	register.Function2x2(userFunction)
	register.Function2x2(failing)
	register.Emitter2[beam.EventTime, []byte]()
}

// The functions below print an element, so that passert can compare it.

func stampedEnvelope(ts beam.EventTime, env *pb.AgentEnvelope) string {
	return fmt.Sprintf("%s %x", when(ts), canonical(env))
}

func stampedLetter(ts beam.EventTime, rec *pb.ActivationErrorRecord) string {
	l, err := deadletter.Read(rec)
	if err != nil {
		return err.Error()
	}
	// Inputs of many MB make unreadable failures.
	input := fmt.Sprintf("%x", l.Input)
	if len(input) > 200 {
		input = fmt.Sprintf("%d bytes", len(l.Input))
	}
	redriven := fmt.Sprint(l.Position.Redriven)
	if l.Position.RefusedReason != "" {
		redriven += fmt.Sprintf(" refused=%s/%s", l.Position.RefusedReason, l.Position.RefusedCode)
	}
	return fmt.Sprintf("%s %s/%s key=%s time=%d %s=%s redriven=%s: %s",
		when(ts), l.Reason, l.Code, l.EntityKey, l.EventTimeMS, l.InputKind, input, redriven, l.Error)
}

func when(ts beam.EventTime) string {
	if ts == mtime.MinTimestamp {
		return "-inf"
	}
	return fmt.Sprint(int64(ts))
}

func canonical(m proto.Message) []byte {
	if !m.ProtoReflect().IsValid() {
		panic("a nil message, which its coder refuses")
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func keyedEvent(ts beam.EventTime, key, event []byte) string {
	return fmt.Sprintf("%s %s event %s", when(ts), key, event)
}

func keyedToolResult(ts beam.EventTime, key []byte, m *pb.ToolResult) string {
	return fmt.Sprintf("%s %s tool_result %x", when(ts), key, canonical(m))
}

func keyedApproval(ts beam.EventTime, key []byte, m *pb.AgentEnvelope_Approval) string {
	return fmt.Sprintf("%s %s approval %x", when(ts), key, canonical(m))
}

func keyedExportRequest(ts beam.EventTime, key []byte, m *pb.AgentEnvelope_StateExportRequest) string {
	return fmt.Sprintf("%s %s export_request %x", when(ts), key, canonical(m))
}

func keyedEnvelope(ts beam.EventTime, key []byte, m *pb.AgentEnvelope) string {
	return fmt.Sprintf("%s %q %x", when(ts), key, canonical(m))
}

func encodedError(key, envelope []byte) string { return fmt.Sprintf("%s %x", key, envelope) }

// stamp puts an element at the time that its first byte says, in ms.
func stamp(raw []byte, emit func(beam.EventTime, []byte)) {
	emit(beam.EventTime(raw[0])*1000, raw[1:])
}

// source is inputs at the beginning of time. beam.Create alone has that timestamp on
// Prism; the legacy direct runner stamps with the clock.
func source(s beam.Scope, inputs ...[]byte) beam.PCollection {
	return beam.ParDo(s, timeless, beam.CreateList(s, inputs))
}

func timeless(raw []byte, emit func(beam.EventTime, []byte)) { emit(mtime.MinTimestamp, raw) }

func keyed(raw []byte) ([]byte, []byte) { return []byte("kv-key"), raw }

func event(ms int64, key, content string) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{
		EntityKey: []byte(key), EventTimeMs: ms,
		Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(content)},
	}
}

// onBothRunners builds the pipeline once for each runner and runs it.
func onBothRunners(t *testing.T, build func(s beam.Scope), check ...func(t *testing.T, counters map[string]int64)) {
	t.Helper()
	for _, runner := range []string{"prism", "direct"} {
		t.Run(runner, func(t *testing.T) {
			p, s := beam.NewPipelineWithRoot()
			build(s)
			run := prismtest.Execute
			if runner == "direct" {
				run = func(p *beam.Pipeline) (beam.PipelineResult, error) { return beam.Run(context.Background(), runner, p) }
			}
			result, err := run(p)
			if err != nil {
				t.Fatal(err)
			}
			counters := map[string]int64{}
			for _, c := range result.Metrics().AllMetrics().Counters() {
				if c.Namespace() == transforms.MetricsNamespace {
					counters[c.Name()] += c.Result()
				}
			}
			for _, f := range check {
				f(t, counters)
			}
		})
	}
}

func wantCounters(want map[string]int64) func(*testing.T, map[string]int64) {
	return func(t *testing.T, got map[string]int64) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("counters (-want +got):\n%s", diff)
		}
	}
}

func toAny(lines []string) []any {
	var all []any
	for _, l := range lines {
		all = append(all, l)
	}
	return all
}

// equals compares a PCollection<string> with lines in any order; passert has no form
// for none.
func equals(s beam.Scope, col beam.PCollection, lines []string) {
	if len(lines) == 0 {
		passert.Empty(s, col)
		return
	}
	passert.Equals(s, col, toAny(lines)...)
}

func TestParseEnvelopesKeepsPoisonAndTheRest(t *testing.T) {
	const limit = 1 << 16
	good := [][]byte{
		canonical(event(1000, "a", "one")), canonical(event(0, "", "")), canonical(event(253402300799999, "z", "\xff")),
	}
	goodLines := []string{
		fmt.Sprintf("1000 %x", good[0]), fmt.Sprintf("0 %x", good[1]), fmt.Sprintf("253402300799999 %x", good[2]),
	}
	type poison struct {
		raw  []byte
		line string
	}
	huge := canonical(event(1, "h", strings.Repeat("x", limit)))
	longKey := canonical(event(1, strings.Repeat("k", limit), "e"))
	hugeLetter := canonical(wrapped(t, deadletter.Letter{
		Reason: deadletter.FunctionError, Code: deadletter.Failed, EntityKey: []byte("k"), InputKind: deadletter.BytesInput, Input: huge,
	}))
	deep := bytes.Repeat([]byte{0x43}, 20_000)
	early := canonical(event(-1, "early", "e"))
	poisons := map[string]poison{
		"nil":   {nil, "-inf malformed_envelope/empty_payload key= time=0 bytes= redriven=0: the envelope has no payload"},
		"empty": {[]byte{}, "-inf malformed_envelope/empty_payload key= time=0 bytes= redriven=0: the envelope has no payload"},
		"no payload": {
			[]byte{0x0a, 1, 'k'},
			"-inf malformed_envelope/empty_payload key=k time=0 bytes=0a016b redriven=0: the envelope has no payload",
		},
		"oversize": {
			huge,
			fmt.Sprintf("-inf malformed_envelope/oversize key=h time=0 bytes=%d bytes redriven=0: %d bytes, the limit is %d",
				len(huge), len(huge), limit),
		},
		"oversize, around a dead letter": {
			hugeLetter,
			fmt.Sprintf("-inf malformed_envelope/oversize key=k time=0 bytes=%d bytes redriven=0: %d bytes, the limit is %d",
				len(hugeLetter), len(hugeLetter), limit),
		},
		"oversize, with a long key": {
			longKey,
			fmt.Sprintf("-inf malformed_envelope/oversize key= time=0 bytes=%d bytes redriven=0: %d bytes, the limit is %d",
				len(longKey), len(longKey), limit),
		},
		"truncated behind the key": {
			[]byte{0x0a, 1, 'k', 0x1a, 3, 'x'},
			"-inf malformed_envelope/unparsable key=k time=0 bytes=0a016b1a0378 redriven=0: byte 3: AgentEnvelope.external_event is cut short",
		},
		"truncated, and the key is not the first": {
			[]byte{0x10, 1, 0x0a, 1, 'k', 0x1a, 3, 'x'},
			"-inf malformed_envelope/unparsable key= time=0 bytes=10010a016b1a0378 redriven=0: byte 5: AgentEnvelope.external_event is cut short",
		},
		"truncated": {
			[]byte{0x1a, 3, 'x'},
			"-inf malformed_envelope/unparsable key= time=0 bytes=1a0378 redriven=0: byte 0: AgentEnvelope.external_event is cut short",
		},
		"deeply nested": {
			deep,
			"-inf malformed_envelope/unparsable key= time=0 bytes=20000 bytes redriven=0: byte 0: field 8 of AgentEnvelope is not valid",
		},
		"time out of range": {
			early,
			fmt.Sprintf("-inf malformed_envelope/bad_event_time key=early time=0 bytes=%x redriven=0: "+
				"event_time_ms is -1, the range is 0 to 253402300799999", early),
		},
	}
	for name, p := range poisons {
		for place, order := range map[string][][]byte{
			"first":  {p.raw, good[0], good[1], good[2]},
			"middle": {good[0], p.raw, good[1], good[2]},
			"last":   {good[0], good[1], good[2], p.raw},
			"only":   {p.raw},
		} {
			if name != "truncated" && place == "middle" {
				continue // the place matters once; each poison is tested at three
			}
			t.Run(name+" "+place, func(t *testing.T) {
				n := int64(len(order) - 1)
				want := map[string]int64{"errors_malformed_envelope": 1}
				if n > 0 {
					want["envelopes_parsed"] = n
				}
				onBothRunners(t, func(s beam.Scope) {
					parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{MaxEnvelopeBytes: limit}, source(s, order...))
					equals(s, beam.ParDo(s, stampedEnvelope, parsed.Envelopes), goodLines[:n])
					equals(s, beam.ParDo(s, stampedLetter, parsed.Errors), []string{p.line})
				}, wantCounters(want))
			})
		}
	}
}

func TestParseEnvelopesTimestamps(t *testing.T) {
	raw := append([]byte{7}, canonical(event(42, "k", "e"))...)
	bad := []byte{9, 0x0a}
	line := "9000 malformed_envelope/unparsable key= time=9000 bytes=0a redriven=0: byte 0: AgentEnvelope.entity_key is cut short"
	for params, want := range map[transforms.ParseParams]string{
		{}:                     fmt.Sprintf("42 %x", raw[1:]),
		{KeepTimestamps: true}: fmt.Sprintf("7000 %x", raw[1:]),
	} {
		onBothRunners(t, func(s beam.Scope) {
			parsed := transforms.ParseEnvelopes(s, params, beam.ParDo(s, stamp, beam.CreateList(s, [][]byte{raw, bad})))
			equals(s, beam.ParDo(s, stampedEnvelope, parsed.Envelopes), []string{want})
			equals(s, beam.ParDo(s, stampedLetter, parsed.Errors), []string{line})
		})
	}
}

// wrapped is the envelope that carries a letter on an errors topic.
func wrapped(t *testing.T, l deadletter.Letter) *pb.AgentEnvelope {
	t.Helper()
	rec, err := l.Record()
	if err != nil {
		t.Fatal(err)
	}
	env, err := deadletter.Wrap(rec)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// An errors topic is a valid input: a wrapped record is an event. If it fails again, it is not
// wrapped a second time, and the record says why it failed again.
func TestParseEnvelopesRedriven(t *testing.T) {
	env := wrapped(t, deadletter.Letter{
		Reason: deadletter.FunctionError, Code: deadletter.Failed, Error: "boom", EntityKey: []byte("k"), EventTimeMS: -5,
		InputKind: deadletter.EnvelopeInput, Input: canonical(event(-5, "k", "e")),
	})
	onBothRunners(t, func(s beam.Scope) {
		parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, source(s, canonical(env)))
		equals(s, beam.ParDo(s, stampedEnvelope, parsed.Envelopes), []string{fmt.Sprintf("0 %x", canonical(env))})
		equals(s, beam.ParDo(s, stampedLetter, parsed.Errors), nil)
	}, wantCounters(map[string]int64{"envelopes_parsed": 1}))
	env.EventTimeMs = -5
	again := fmt.Sprintf("-inf function_error/error key=k time=-5 envelope=%x "+
		"redriven=1 refused=malformed_envelope/bad_event_time: boom", canonical(event(-5, "k", "e")))
	forged := proto.CloneOf(env) // the same record, in an envelope of another key
	forged.EntityKey = []byte("attacker")
	ordinary := fmt.Sprintf("-inf malformed_envelope/bad_event_time key=attacker time=0 bytes=%d bytes redriven=0: "+
		"event_time_ms is -5, the range is 0 to 253402300799999", len(canonical(forged)))
	onBothRunners(t, func(s beam.Scope) {
		parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, source(s, canonical(env), canonical(forged)))
		equals(s, beam.ParDo(s, stampedEnvelope, parsed.Envelopes), nil)
		equals(s, beam.ParDo(s, stampedLetter, parsed.Errors), []string{again, ordinary})
	}, wantCounters(map[string]int64{"errors_malformed_envelope": 2}))
}

// failing is a user's function that cannot handle dead letters.
func failing(context.Context, *pb.AgentEnvelope) (*pb.AgentEnvelope, error) {
	return nil, errors.New("not an order")
}

// A MapEnvelopes that reads an errors topic records its own failures.
func TestMapEnvelopesRedriven(t *testing.T) {
	env := wrapped(t, deadletter.Letter{
		Reason: deadletter.BadSignature, Code: deadletter.Code(deadletter.BadSignature), EntityKey: []byte("k"), EventTimeMS: 5,
		InputKind: deadletter.IntentInput, Input: []byte("x"),
	})
	onBothRunners(t, func(s beam.Scope) {
		parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, source(s, canonical(env)))
		equals(s, beam.ParDo(s, stampedLetter, parsed.Errors), nil)
		mapped := transforms.MapEnvelopes(s, failing, parsed.Envelopes)
		equals(s, beam.ParDo(s, stampedEnvelope, mapped.Envelopes), nil)
		equals(s, beam.ParDo(s, stampedLetter, mapped.Errors), []string{
			"5 bad_signature/bad_signature key=k time=5 intent=78 redriven=1 refused=function_error/error: ",
		})
	}, wantCounters(map[string]int64{"envelopes_parsed": 1, "errors_function_error": 1}))
}

func TestConstructionPanics(t *testing.T) {
	for name, tc := range map[string]struct {
		build func(s beam.Scope)
		want  string
	}{
		"negative MaxEnvelopeBytes": {func(s beam.Scope) {
			_ = transforms.ParseEnvelopes(s, transforms.ParseParams{MaxEnvelopeBytes: -1}, beam.Create(s, []byte{})).Errors
		}, "ParseParams.MaxEnvelopeBytes is -1; set"},
		"windowed input": {func(s beam.Scope) {
			col := beam.WindowInto(s, window.NewFixedWindows(time.Second), beam.Create(s, []byte{}))
			_ = transforms.ParseEnvelopes(s, transforms.ParseParams{}, col).Errors
		}, "apply the windows to the output"},
		"negative MaxBytes": {func(s beam.Scope) {
			errs := beam.Create(s, &pb.ActivationErrorRecord{})
			_ = transforms.EncodeErrors(s, transforms.EncodeErrorsParams{MaxBytes: -1}, errs).TooLarge
		}, "EncodeErrorsParams.MaxBytes is -1; set"},
		"closure": {func(s beam.Scope) {
			fn := func(_ context.Context, env *pb.AgentEnvelope) (*pb.AgentEnvelope, error) { return env, nil }
			_ = transforms.MapEnvelopes(s, fn, beam.Create(s, event(0, "", ""))).Errors
		}, "use a function declared at package level"},
		"another type": {func(s beam.Scope) {
			_ = transforms.ParseEnvelopes(s, transforms.ParseParams{}, beam.Create(s, "text")).Errors
		}, "string"},
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

func TestWindowedInputWithKeptTimestamps(t *testing.T) {
	raw := canonical(event(42, "k", "e"))
	onBothRunners(t, func(s beam.Scope) {
		col := beam.WindowInto(s, window.NewFixedWindows(time.Second), beam.ParDo(s, stamp, beam.CreateList(s, [][]byte{append([]byte{7}, raw...)})))
		parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{KeepTimestamps: true}, col)
		lines := beam.WindowInto(s, window.NewGlobalWindows(), beam.ParDo(s, stampedEnvelope, parsed.Envelopes))
		equals(s, lines, []string{fmt.Sprintf("7000 %x", raw)})
		equals(s, beam.WindowInto(s, window.NewGlobalWindows(), beam.ParDo(s, stampedLetter, parsed.Errors)), nil)
	})
}

func TestKeyByEntity(t *testing.T) {
	a, empty := event(1, "a\x00\xff", "x"), event(2, "", "y")
	onBothRunners(t, func(s beam.Scope) {
		parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, source(s, canonical(a), canonical(empty)))
		equals(s, beam.ParDo(s, stampedLetter, parsed.Errors), nil)
		keyed := transforms.KeyByEntity(s, parsed.Envelopes)
		equals(s, beam.ParDo(s, keyedEnvelope, keyed), []string{
			fmt.Sprintf("1 %q %x", "a\x00\xff", canonical(a)), fmt.Sprintf("2 %q %x", "", canonical(empty)),
		})
	})
}

func TestRoute(t *testing.T) {
	result := &pb.ToolResult{IntentId: "i", Status: 77, Payload: []byte{0}}
	approval := &pb.AgentEnvelope_Approval{IntentId: "i", Approved: true}
	newer := append(canonical(&pb.AgentEnvelope{EntityKey: []byte("e"), EventTimeMs: 5}), 0x3a, 1, 'x')
	inputs := [][]byte{
		canonical(event(1, "a", "e1")),
		canonical(event(1, "a", "")),
		canonical(&pb.AgentEnvelope{EntityKey: []byte("b"), EventTimeMs: 2, Payload: &pb.AgentEnvelope_ToolResult{ToolResult: result}}),
		canonical(&pb.AgentEnvelope{EntityKey: []byte("c"), EventTimeMs: 3, Payload: &pb.AgentEnvelope_Approval_{Approval: approval}}),
		canonical(&pb.AgentEnvelope{EntityKey: []byte("d"), EventTimeMs: 4, Payload: &pb.AgentEnvelope_ExportRequest{
			ExportRequest: &pb.AgentEnvelope_StateExportRequest{},
		}}),
		newer,
	}
	onBothRunners(t, func(s beam.Scope) {
		parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, source(s, inputs...))
		equals(s, beam.ParDo(s, stampedLetter, parsed.Errors), nil)
		routed := transforms.Route(s, transforms.KeyByEntity(s, parsed.Envelopes))
		equals(s, beam.ParDo(s, keyedEvent, routed.Events), []string{"1 a event e1", "1 a event "})
		equals(s, beam.ParDo(s, keyedToolResult, routed.ToolResults), []string{fmt.Sprintf("2 b tool_result %x", canonical(result))})
		equals(s, beam.ParDo(s, keyedApproval, routed.Approvals), []string{fmt.Sprintf("3 c approval %x", canonical(approval))})
		equals(s, beam.ParDo(s, keyedExportRequest, routed.ExportRequests), []string{"4 d export_request "})
		equals(s, beam.ParDo(s, stampedLetter, routed.Errors), []string{fmt.Sprintf(
			"5 unknown_payload/newer_variant key=e time=5 envelope=%x redriven=0: the payload is of a newer schema", newer)})
	}, wantCounters(map[string]int64{
		"envelopes_parsed": 6, "envelopes_routed_event": 2, "envelopes_routed_tool_result": 1,
		"envelopes_routed_approval": 1, "envelopes_routed_export_request": 1, "errors_unknown_payload": 1,
	}))
}

// nilVariants makes envelopes that only a fused step can hand to Route: on the wire
// they are envelopes with an empty variant.
func nilVariants(raw []byte) ([]byte, *pb.AgentEnvelope) {
	env := &pb.AgentEnvelope{}
	switch raw[0] {
	case 't':
		env.Payload = &pb.AgentEnvelope_ToolResult{}
	case 'a':
		env.Payload = &pb.AgentEnvelope_Approval_{}
	case 'x':
		env.Payload = &pb.AgentEnvelope_ExportRequest{}
	case 'e':
		env.Payload = &pb.AgentEnvelope_ExternalEvent{}
	}
	return raw, env
}

func noPayload(raw []byte) ([]byte, *pb.AgentEnvelope) {
	env := &pb.AgentEnvelope{EntityKey: []byte("another"), EventTimeMs: 6}
	switch raw[0] { // nil pointers in place of a variant
	case 't':
		env.Payload = (*pb.AgentEnvelope_ToolResult)(nil)
	case 'a':
		env.Payload = (*pb.AgentEnvelope_Approval_)(nil)
	case 'x':
		env.Payload = (*pb.AgentEnvelope_ExportRequest)(nil)
	case 'e':
		env.Payload = (*pb.AgentEnvelope_ExternalEvent)(nil)
	}
	return raw, env
}

func TestRouteOfWhatWasNeverParsed(t *testing.T) {
	onBothRunners(t, func(s beam.Scope) {
		inputs := source(s, []byte{'t'}, []byte{'a'}, []byte{'x'}, []byte{'e'})
		routed := transforms.Route(s, beam.ParDo(s, nilVariants, inputs))
		equals(s, beam.ParDo(s, keyedEvent, routed.Events), []string{"-inf e event "})
		equals(s, beam.ParDo(s, keyedToolResult, routed.ToolResults), []string{"-inf t tool_result "})
		equals(s, beam.ParDo(s, keyedApproval, routed.Approvals), []string{"-inf a approval "})
		equals(s, beam.ParDo(s, keyedExportRequest, routed.ExportRequests), []string{"-inf x export_request "})
		equals(s, beam.ParDo(s, stampedLetter, routed.Errors), nil)
	})
	onBothRunners(t, func(s beam.Scope) {
		routed := transforms.Route(s, beam.ParDo(s, noPayload, source(s, []byte{'k'}, []byte{'t'}, []byte{'a'}, []byte{'x'}, []byte{'e'})))
		equals(s, beam.ParDo(s, keyedEvent, routed.Events), nil)
		var letters []string
		for _, key := range "ktaxe" {
			letters = append(letters, fmt.Sprintf("-inf malformed_envelope/empty_payload key=%c time=6 "+
				"envelope=0a07616e6f746865721006 redriven=0: the envelope has no payload", key))
		}
		equals(s, beam.ParDo(s, stampedLetter, routed.Errors), letters)
	})
	onBothRunners(t, func(s beam.Scope) {
		decoded := transforms.DecodeEvents(s, beam.DropKey(s, beam.ParDo(s, noPayload, source(s, []byte{'e'}))))
		passert.Empty(s, decoded.Events)
		equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), []string{
			"-inf malformed_event/missing_field key=another time=6 envelope=0a07616e6f746865721006 redriven=0: " +
				"the envelope has no external_event",
		})
	})
}

// badError panics in its method Error.
type badError struct{}

func (*badError) Error() string { panic("no words") }

// worseError panics with itself, so formatting the panic panics, too.
type worseError struct{}

func (worseError) Error() string { panic(worseError{}) }

// exitError ends the goroutine that calls its method Error.
type exitError struct{}

func (exitError) Error() string {
	runtime.Goexit()
	return ""
}

var escaped *int

// userFunction does what its event says, after changing its argument.
func userFunction(_ context.Context, env *pb.AgentEnvelope) (*pb.AgentEnvelope, error) {
	word := string(env.GetExternalEvent())
	env.EntityKey = append(env.EntityKey, "-changed"...)
	env.GetExternalEvent()[0] = 'X'
	switch word {
	case "error":
		return env, errors.New("no price\nat all")
	case "bad error":
		return nil, &badError{}
	case "worse error":
		return nil, worseError{}
	case "worse panic":
		panic(worseError{})
	case "exit error":
		return nil, exitError{}
	case "exit panic":
		panic(exitError{})
	case "empty":
		return &pb.AgentEnvelope{}, nil
	case "too early":
		env.EventTimeMs = -1
	case "broken unknown":
		env.ProtoReflect().SetUnknown([]byte{0x43})
	case "panic":
		escaped = new(int)
		panic(fmt.Sprintf("at 0x%x", uintptr(unsafe.Pointer(escaped))))
	case "panic error":
		panic(fmt.Errorf("wrapped: %w", os.ErrNotExist))
	case "nil map":
		var m map[string]int
		m["x"] = 1 //nolint:staticcheck // the panic is what is tested
	case "exit":
		runtime.Goexit()
	case "nil":
		return nil, nil
	case "bad text":
		return &pb.AgentEnvelope{Payload: &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{Approver: "\xff"}}}, nil
	case "later":
		env.EventTimeMs += 1_000_000
	}
	return env, nil
}

func TestMapEnvelopes(t *testing.T) {
	texts := map[string]string{
		"error":       "error: no price",
		"bad error":   "error: %!v(PANIC=Error method: no words)",
		"panic":       "panic: at 0x?",
		"panic error": "panic: wrapped: file does not exist",
		"nil map":     "panic: assignment to entry in nil map",
		"exit":        "exit: the function called runtime.Goexit",
		"nil":         "error: the function returned neither an envelope nor an error",
		"bad text":    "error: the function returned an envelope that has no encoding: text that is not UTF-8",
		"worse error": "error: a transforms_test.worseError that panics when it is asked what is wrong",
		"worse panic": "panic: a transforms_test.worseError that panics when it is asked what is wrong",
		"exit error":  "exit: the function called runtime.Goexit",
		"exit panic":  "exit: the function called runtime.Goexit",
		"empty":       "error: the function returned an envelope that cannot be used: the envelope has no payload",
		"too early": "error: the function returned an envelope that cannot be used: " +
			"event_time_ms is -1, the range is 0 to 253402300799999",
		"broken unknown": "error: the function returned an envelope that cannot be read: " +
			"byte 29: field 8 of AgentEnvelope is cut short",
	}
	inputs := [][]byte{canonical(event(1, "k", "good")), canonical(event(2, "k", "later"))}
	var letters []string
	for word, text := range texts {
		in := canonical(event(3, "k", word))
		inputs = append(inputs, in)
		code, message, _ := strings.Cut(text, ": ")
		letters = append(letters, fmt.Sprintf("3 function_error/%s key=k time=3 envelope=%x redriven=0: %s", code, in, message))
	}
	onBothRunners(t, func(s beam.Scope) {
		parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, source(s, inputs...))
		equals(s, beam.ParDo(s, stampedLetter, parsed.Errors), nil)
		mapped := transforms.MapEnvelopes(s, userFunction, parsed.Envelopes)
		equals(s, beam.ParDo(s, stampedEnvelope, mapped.Envelopes), []string{
			fmt.Sprintf("1 %x", canonical(event(1, "k-changed", "Xood"))),
			fmt.Sprintf("2 %x", canonical(event(1_000_002, "k-changed", "Xater"))),
		})
		equals(s, beam.ParDo(s, stampedLetter, mapped.Errors), letters)
	}, wantCounters(map[string]int64{"envelopes_parsed": int64(len(inputs)), "errors_function_error": int64(len(letters))}))
}

// withBadText makes a record that only a fused step can hand to EncodeErrors.
func withBadText(raw []byte) *pb.ActivationErrorRecord {
	return &pb.ActivationErrorRecord{EntityKey: raw, Reason: "r\xff", Detail: "d\xfe"}
}

func TestEncodeAndDecodeErrors(t *testing.T) {
	ours, err := deadletter.Letter{
		Reason: deadletter.MalformedEnvelope, Code: deadletter.Unparsable, Error: "e", EntityKey: []byte("k"), EventTimeMS: 7,
		InputKind: deadletter.BytesInput, Input: []byte("x"),
	}.Record()
	if err != nil {
		t.Fatal(err)
	}
	env, err := deadletter.Wrap(ours)
	if err != nil {
		t.Fatal(err)
	}
	foreign := &pb.ActivationErrorRecord{EntityKey: []byte("f"), Reason: "budget_exceeded", Detail: "any text"}
	foreignEnv, err := deadletter.Wrap(foreign)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("there and back", func(t *testing.T) {
		onBothRunners(t, func(s beam.Scope) {
			encoded := transforms.EncodeErrors(s, transforms.EncodeErrorsParams{}, beam.Create(s, ours, foreign))
			equals(s, beam.ParDo(s, encodedError, encoded.Encoded), []string{
				fmt.Sprintf("k %x", canonical(env)), fmt.Sprintf("f %x", canonical(foreignEnv)),
			})
			passert.Empty(s, encoded.TooLarge)
			decoded := transforms.DecodeErrors(s, encoded.Encoded)
			passert.Equals(s, decoded.Records, ours, foreign)
			passert.Empty(s, decoded.Errors)
		})
	})
	t.Run("too large", func(t *testing.T) {
		size := len(canonical(env))
		for limit, fits := range map[int]bool{size: true, size - 1: false} {
			onBothRunners(t, func(s beam.Scope) {
				encoded := transforms.EncodeErrors(s, transforms.EncodeErrorsParams{MaxBytes: limit}, beam.Create(s, ours))
				if fits {
					passert.Count(s, encoded.Encoded, "encoded", 1)
					passert.Empty(s, encoded.TooLarge)
				} else {
					passert.Empty(s, encoded.Encoded)
					passert.Equals(s, encoded.TooLarge, ours)
				}
			})
		}
	})
	t.Run("text that is not UTF-8", func(t *testing.T) {
		onBothRunners(t, func(s beam.Scope) {
			encoded := transforms.EncodeErrors(s, transforms.EncodeErrorsParams{}, beam.ParDo(s, withBadText, beam.CreateList(s, [][]byte{{'k'}})))
			passert.Empty(s, encoded.TooLarge)
			decoded := transforms.DecodeErrors(s, encoded.Encoded)
			passert.Equals(s, decoded.Records, &pb.ActivationErrorRecord{EntityKey: []byte("k"), Reason: "r\ufffd", Detail: "d\ufffd"})
			passert.Empty(s, decoded.Errors)
		})
	})
	t.Run("no record in it", func(t *testing.T) {
		inputs := [][]byte{
			{0x0a}, canonical(&pb.AgentEnvelope{EntityKey: []byte("k")}), canonical(event(1, "k", "no record")),
			{0x1a, 3, 0x12, 1, 'r', 0xe8, 0xcb, 0xcb, 0xcb, 0x30, 0}, // a record, then a field number that does not exist
		}
		onBothRunners(t, func(s beam.Scope) {
			decoded := transforms.DecodeErrors(s, beam.ParDo(s, keyed, source(s, inputs...)))
			passert.Empty(s, decoded.Records)
			equals(s, beam.ParDo(s, stampedLetter, decoded.Errors), []string{
				"-inf malformed_envelope/unparsable key=kv-key time=0 bytes=0a redriven=0: byte 0: AgentEnvelope.entity_key is cut short",
				"-inf malformed_envelope/unparsable key=kv-key time=0 bytes=0a016b redriven=0: " +
					"deadletter: envelope holds no dead letter: it has no external_event",
				fmt.Sprintf("-inf malformed_envelope/unparsable key=kv-key time=0 bytes=%x redriven=0: "+
					"deadletter: envelope holds no dead letter: external_event, byte 0: field 13 of ActivationErrorRecord is not valid", inputs[2]),
				fmt.Sprintf("-inf malformed_envelope/unparsable key=kv-key time=0 bytes=%x redriven=0: "+
					"byte 5: AgentEnvelope: the tag of a field is not valid", inputs[3]),
			})
		}, wantCounters(map[string]int64{"errors_malformed_envelope": 4}))
	})
}
