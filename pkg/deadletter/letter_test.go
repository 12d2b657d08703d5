package deadletter_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/golden"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func mustRecord(t *testing.T, l deadletter.Letter) *pb.ActivationErrorRecord {
	t.Helper()
	rec, err := l.Record()
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func mustWrap(t *testing.T, rec *pb.ActivationErrorRecord) (*pb.AgentEnvelope, []byte) {
	t.Helper()
	env, err := deadletter.Wrap(rec)
	if err != nil {
		t.Fatal(err)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	return env, b
}

func TestRecordDetail(t *testing.T) {
	for name, tc := range map[string]struct {
		letter deadletter.Letter
		want   string
	}{
		"bytes": {
			deadletter.Letter{
				Reason: deadletter.MalformedEnvelope, Code: deadletter.Unparsable, Error: "byte 0: <&>",
				InputKind: deadletter.BytesInput, Input: []byte{0xff, 0xfe},
			},
			`{"code":"unparsable","error":"byte 0: <&>","input":"//4=","input_kind":"bytes"}`,
		},
		"an empty input is an input": {
			deadletter.Letter{
				Reason: deadletter.MalformedEnvelope, Code: deadletter.EmptyPayload, InputKind: deadletter.BytesInput,
			},
			`{"code":"empty_payload","input":"","input_kind":"bytes"}`,
		},
		"none": {
			deadletter.Letter{
				Reason: deadletter.HITLTimeout, Code: deadletter.Dropped,
				Position: deadletter.Position{Seq: new(int64(0)), DeadlineMS: new(int64(61000))},
			},
			`{"code":"dropped","input_kind":"none","position":{"deadline_ms":61000,"seq":0}}`,
		},
		"everything": {
			deadletter.Letter{
				Reason: deadletter.ActivationError, Code: deadletter.Panicked, Error: "boom",
				InputKind: deadletter.EnvelopeInput, Input: []byte("x"),
				Position: deadletter.Position{
					Seq: new(int64(9007199254740993)), Step: new(int64(2)), LastEvent: "INTENT_EMITTED", Intents: new(int64(1)),
					ModelCalls: new(int64(0)), IntentID: "i", DeadlineMS: new(int64(-1)), Arrival: new(int64(4)), Redriven: 3,
					RefusedReason: deadletter.FunctionError, RefusedCode: deadletter.Failed,
				},
			},
			`{"code":"panic","error":"boom","input":"eA==","input_kind":"envelope","position":{"arrival":4,"deadline_ms":-1,` +
				`"intent_id":"i","intents":1,"last_event":"INTENT_EMITTED","model_calls":0,"redriven":3,` +
				`"refused_code":"error","refused_reason":"function_error","seq":9007199254740993,"step":2}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rec := mustRecord(t, tc.letter)
			if rec.GetDetail() != tc.want {
				t.Errorf("detail\n%s, want\n%s", rec.GetDetail(), tc.want)
			}
			back, err := deadletter.Read(rec)
			if err != nil {
				t.Fatal(err)
			}
			again := mustRecord(t, back)
			if diff := cmp.Diff(rec, again, protocmp.Transform()); diff != "" {
				t.Errorf("read and written again (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordRefuses(t *testing.T) {
	for name, l := range map[string]deadletter.Letter{
		"no reason":             {Code: deadletter.Unparsable},
		"an unknown reason":     {Reason: "sulking", Code: deadletter.Unparsable},
		"another reason's code": {Reason: deadletter.MalformedIntent, Code: deadletter.Oversize},
		"no code":               {Reason: deadletter.MalformedIntent},
		"an input of no kind":   {Reason: deadletter.MalformedIntent, Code: deadletter.Unparsable, Input: []byte("x")},
		"redriven less than never": {
			Reason: deadletter.HITLTimeout, Code: deadletter.Dropped, Position: deadletter.Position{Redriven: -1},
		},
		"a refused code without a reason": {
			Reason: deadletter.HITLTimeout, Code: deadletter.Dropped,
			Position: deadletter.Position{RefusedCode: deadletter.Failed},
		},
		"a refused code of another reason": {
			Reason: deadletter.HITLTimeout, Code: deadletter.Dropped,
			Position: deadletter.Position{RefusedReason: deadletter.FunctionError, RefusedCode: deadletter.Oversize},
		},
		"an unknown kind": {
			Reason: deadletter.MalformedIntent, Code: deadletter.Unparsable, InputKind: "letter", Input: []byte("x"),
		},
	} {
		if rec, err := l.Record(); err == nil {
			t.Errorf("%s: made %v", name, rec)
		}
	}
}

func TestErrorText(t *testing.T) {
	long := strings.Repeat("é", deadletter.MaxErrorBytes)
	for name, tc := range map[string]struct{ in, want string }{
		"as it is":          {"boom", "boom"},
		"first line":        {"boom\ngoroutine 1 [running]:", "boom"},
		"windows line":      {"boom\r\nmore", "boom"},
		"nothing before it": {"\r\n\nboom\nmore", "boom"},
		"only lines":        {"\n\n", ""},
		"no-break space":    {"proto:\u00a0syntax error", "proto: syntax error"},
		"addresses alone": {
			strings.Repeat("0x0123456789abcdef", 2000), strings.Repeat("0x?", deadletter.MaxErrorBytes/3) + "0",
		},
		"long and invalid": {strings.Repeat("\xff", 1<<20) + "boom", "\ufffdboom"},
		"invalid UTF-8":    {"a\xff\xfeb", "a\ufffdb"},
		"address":          {"at 0xc000012345, 0xdeadbe", "at 0x?, 0x?"},
		"no address":       {"0xdeadb 0XDEADBEEF 0xg00000", "0xdeadb 0XDEADBEEF 0xg00000"},
		"a long number":    {"0x" + strings.Repeat("a", 20), "0x?aaaa"},
		"long":             {long, long[:deadletter.MaxErrorBytes]},
		"long, cut in a rune": {
			"x" + long, "x" + long[:deadletter.MaxErrorBytes-2],
		},
		"an address at the end of what fits": {
			strings.Repeat("x", deadletter.MaxErrorBytes-3) + "0xc000012345", strings.Repeat("x", deadletter.MaxErrorBytes-3) + "0x?",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := deadletter.Read(mustRecord(t, deadletter.Letter{
				Reason: deadletter.FunctionError, Code: deadletter.Failed, Error: tc.in,
				InputKind: deadletter.EnvelopeInput, Position: deadletter.Position{LastEvent: tc.in, IntentID: tc.in},
			}))
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range []string{l.Error, l.Position.LastEvent, l.Position.IntentID} {
				if got != tc.want {
					t.Errorf("%q, want %q", got, tc.want)
				}
			}
		})
	}
}

func TestReadForeign(t *testing.T) {
	ours := mustRecord(t, deadletter.Letter{
		Reason: deadletter.MalformedEnvelope, Code: deadletter.Unparsable, InputKind: deadletter.BytesInput, Input: []byte("x"),
	})
	for name, change := range map[string]func(*pb.ActivationErrorRecord){
		"detail is text":         func(r *pb.ActivationErrorRecord) { r.Detail = "RuntimeError('boom')" },
		"detail is empty":        func(r *pb.ActivationErrorRecord) { r.Detail = "" },
		"detail is no object":    func(r *pb.ActivationErrorRecord) { r.Detail = `["unparsable"]` },
		"detail has a space":     func(r *pb.ActivationErrorRecord) { r.Detail = `{"code": "unparsable"}` },
		"members not sorted":     func(r *pb.ActivationErrorRecord) { r.Detail = `{"error":"e","code":"unparsable"}` },
		"no code":                func(r *pb.ActivationErrorRecord) { r.Detail = `{}` },
		"code of another reason": func(r *pb.ActivationErrorRecord) { r.Detail = `{"code":"limit"}` },
		"reason unknown":         func(r *pb.ActivationErrorRecord) { r.Reason = "budget_exceeded" },
		"input is not base64":    func(r *pb.ActivationErrorRecord) { r.Detail = `{"code":"unparsable","input":"%"}` },
		"position is a number":   func(r *pb.ActivationErrorRecord) { r.Detail = `{"code":"unparsable","position":1}` },
		"code in capitals":       func(r *pb.ActivationErrorRecord) { r.Detail = `{"CODE":"unparsable"}` },
		"code is null":           func(r *pb.ActivationErrorRecord) { r.Detail = `{"code":null}` },
		"loose base64": func(r *pb.ActivationErrorRecord) {
			r.Detail = `{"code":"unparsable","input":"eB==","input_kind":"bytes"}`
		},
		"base64 in two lines": func(r *pb.ActivationErrorRecord) {
			r.Detail = `{"code":"unparsable","input":"eA\n==","input_kind":"bytes"}`
		},
		"input of no kind": func(r *pb.ActivationErrorRecord) { r.Detail = `{"code":"unparsable","input":"eA=="}` },
		"input for none": func(r *pb.ActivationErrorRecord) {
			r.Detail = `{"code":"unparsable","input":"eA==","input_kind":"none"}`
		},
		"kind without input": func(r *pb.ActivationErrorRecord) { r.Detail = `{"code":"unparsable","input_kind":"bytes"}` },
		"unknown kind": func(r *pb.ActivationErrorRecord) {
			r.Detail = `{"code":"unparsable","input":"eA==","input_kind":"zzz"}`
		},
		"redriven below 0": func(r *pb.ActivationErrorRecord) { r.Detail = `{"code":"unparsable","position":{"redriven":-3}}` },
		"refused for no reason": func(r *pb.ActivationErrorRecord) {
			r.Detail = `{"code":"unparsable","position":{"refused_code":"error"}}`
		},
		"refused by no code": func(r *pb.ActivationErrorRecord) {
			r.Detail = `{"code":"unparsable","position":{"refused_reason":"function_error"}}`
		},
		"refused by another reason's code": func(r *pb.ActivationErrorRecord) {
			r.Detail = `{"code":"unparsable","position":{"refused_code":"oversize","refused_reason":"function_error"}}`
		},
		"redriven a fraction": func(r *pb.ActivationErrorRecord) { r.Detail = `{"code":"unparsable","position":{"redriven":1.5}}` },
		"redriven is text": func(r *pb.ActivationErrorRecord) {
			r.Detail = `{"code":"unparsable","position":{"redriven":"2"}}`
		},
	} {
		rec := proto.CloneOf(ours)
		change(rec)
		if l, err := deadletter.Read(rec); !errors.Is(err, deadletter.ErrForeign) {
			t.Errorf("%s: read as %+v, %v; want ErrForeign", name, l, err)
		}
	}
	newer := proto.CloneOf(ours)
	newer.Detail = `{"Input":"zzz","code":"unparsable","input":"eA==","input_kind":"bytes","position":{"Redriven":7},"severity":9}`
	if l, err := deadletter.Read(newer); err != nil || string(l.Input) != "x" || l.Position.Redriven != 0 {
		t.Errorf("a member of a newer version: %+v, %v", l, err)
	}
}

// The bytes of section 6 of the schema's facts: both records are another program's.
func TestWrapForeignRecords(t *testing.T) {
	for _, tc := range []struct {
		rec  *pb.ActivationErrorRecord
		want string
	}{
		{
			&pb.ActivationErrorRecord{
				EntityKey: []byte("k"), Reason: "activation_error", EventTimeMs: 1700000000000,
				Detail: "RuntimeError('boom') failed_at_step=2 after=INTENT_EMITTED",
			},
			"0a016b1080d095ffbc311a58" + "0a016b121061637469766174696f6e5f6572726f721a3a52756e74696d654572726f722827626f6f6d27292066" +
				"61696c65645f61745f737465703d322061667465723d494e54454e545f454d49545445442080d095ffbc31",
		},
		{
			&pb.ActivationErrorRecord{
				EntityKey: []byte("k"), Reason: "orphaned_result", EventTimeMs: 2000,
				Detail: "no_continuation:2e047468-1bb8-5717-8cb0-d8e98f15a767",
			},
			"0a016b10d00f1a4d" + "0a016b120f6f727068616e65645f726573756c741a346e6f5f636f6e74696e756174696f6e3a32653034373436382d31" +
				"6262382d353731372d386362302d64386539386631356137363720d00f",
		},
	} {
		env, b := mustWrap(t, tc.rec)
		if got := hex.EncodeToString(b); got != tc.want {
			t.Errorf("wrapped as\n%s, want\n%s", got, tc.want)
		}
		back, err := deadletter.Unwrap(env)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.rec, back, protocmp.Transform()); diff != "" {
			t.Errorf("unwrapped (-want +got):\n%s", diff)
		}
	}
}

// An errors topic is a valid input, so its envelopes are in time, whatever failed.
func TestWrapKeepsTimesInRange(t *testing.T) {
	for ms, want := range map[int64]int64{
		-5: 0, 0: 0, deadletter.MaxEventTimeMS: deadletter.MaxEventTimeMS, deadletter.MaxEventTimeMS + 1: deadletter.MaxEventTimeMS,
	} {
		env, _ := mustWrap(t, &pb.ActivationErrorRecord{Reason: "function_error", EventTimeMs: ms})
		rec, err := deadletter.Unwrap(env)
		if err != nil || env.GetEventTimeMs() != want || rec.GetEventTimeMs() != ms {
			t.Errorf("time %d: envelope at %d, record at %d, %v", ms, env.GetEventTimeMs(), rec.GetEventTimeMs(), err)
		}
	}
}

func TestWrapAndUnwrapRefuse(t *testing.T) {
	if env, err := deadletter.Wrap(&pb.ActivationErrorRecord{Reason: "\xff"}); err == nil {
		t.Errorf("wrapped text that is not UTF-8: %v", env)
	}
	for name, env := range map[string]*pb.AgentEnvelope{
		"nil":             nil,
		"a nil variant":   {Payload: (*pb.AgentEnvelope_ExternalEvent)(nil)},
		"another variant": {Payload: &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{}}},
		"empty":           {Payload: &pb.AgentEnvelope_ExternalEvent{}},
		"JSON":            {Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(`{"version":1}`)}},
		"a field number that does not exist": {Payload: &pb.AgentEnvelope_ExternalEvent{
			ExternalEvent: []byte{0x12, 1, 'r', 0xe8, 0xcb, 0xcb, 0xcb, 0x30, 0},
		}},
		"a number above 64 bits": {Payload: &pb.AgentEnvelope_ExternalEvent{
			ExternalEvent: append([]byte{0x12, 1, 'r', 0x20}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2),
		}},
		"a reason not in UTF-8": {Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte{0x12, 1, 0xff}}},
		"no reason":             {Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte{0x20, 1}}},
	} {
		if rec, err := deadletter.Unwrap(env); !errors.Is(err, deadletter.ErrUnwrap) {
			t.Errorf("%s: %v, %v; want ErrUnwrap", name, rec, err)
		}
	}
}

// A dead letter that is sent again, in its envelope or as bytes, and fails again.
func TestNeverWrappedTwice(t *testing.T) {
	first := mustRecord(t, deadletter.Letter{
		Reason: deadletter.FunctionError, Code: deadletter.Failed, Error: "boom", EntityKey: []byte("k"), EventTimeMS: 7,
		InputKind: deadletter.EnvelopeInput, Input: []byte{0x1a, 0},
	})
	rec := first
	for times := int64(1); times <= 3; times++ {
		_, sentAgain := mustWrap(t, rec)
		for _, kind := range []deadletter.InputKind{deadletter.EnvelopeInput, deadletter.BytesInput} {
			rec = mustRecord(t, deadletter.Letter{
				Reason: deadletter.MalformedEnvelope, Code: deadletter.BadEventTime, Error: "another", EntityKey: []byte("other"),
				EventTimeMS: 8, InputKind: kind, Input: sentAgain,
			})
			got, err := deadletter.Read(rec)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := deadletter.Read(first)
			want.Position.Redriven = times
			want.Position.RefusedReason, want.Position.RefusedCode = deadletter.MalformedEnvelope, deadletter.BadEventTime
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, sent again %d times (-want +got):\n%s", kind, times, diff)
			}
		}
	}
}

func TestRedrivenDetail(t *testing.T) {
	for name, tc := range map[string]struct{ detail, want string }{
		"no position yet": {
			`{"code":"error","input_kind":"none"}`,
			`{"code":"error","input_kind":"none","position":{"redriven":1,"refused_code":"exit","refused_reason":"function_error"}}`,
		},
		"members of a newer version stay": {
			`{"code":"error","position":{"redriven":9007199254740993,"shard":3},"severity":12345678901234567890}`,
			`{"code":"error","position":{"redriven":9007199254740994,"refused_code":"exit","refused_reason":"function_error","shard":3},"severity":12345678901234567890}`,
		},
		"the count saturates": {
			`{"code":"error","position":{"redriven":9223372036854775807}}`,
			`{"code":"error","position":{"redriven":9223372036854775807,"refused_code":"exit","refused_reason":"function_error"}}`,
		},
		"the latest refusal counts": {
			`{"code":"error","position":{"redriven":1,"refused_code":"error","refused_reason":"activation_error"}}`,
			`{"code":"error","position":{"redriven":2,"refused_code":"exit","refused_reason":"function_error"}}`,
		},
		"null is no position": {
			`{"code":"error","position":null}`,
			`{"code":"error","position":{"redriven":1,"refused_code":"exit","refused_reason":"function_error"}}`,
		},
	} {
		_, b := mustWrap(t, &pb.ActivationErrorRecord{Reason: string(deadletter.FunctionError), Detail: tc.detail})
		got := mustRecord(t, deadletter.Letter{
			Reason: deadletter.FunctionError, Code: deadletter.Exited, InputKind: deadletter.EnvelopeInput, Input: b,
		})
		if got.GetDetail() != tc.want {
			t.Errorf("%s: detail %s, want %s", name, got.GetDetail(), tc.want)
		}
	}
}

// Only our own dead letters are recognised. Any other content of an event is an input.
func TestOtherEventsAreWrapped(t *testing.T) {
	ours := mustRecord(t, deadletter.Letter{
		Reason: deadletter.FunctionError, Code: deadletter.Failed, InputKind: deadletter.EnvelopeInput,
	})
	newerField := proto.CloneOf(ours)
	newerField.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 500, protowire.VarintType), 1))
	foreign := proto.CloneOf(ours)
	foreign.Detail = "boom"
	unknownReason := proto.CloneOf(ours)
	unknownReason.Reason = "budget_exceeded"
	for name, rec := range map[string]*pb.ActivationErrorRecord{
		"unknown field": newerField, "foreign detail": foreign, "unknown reason": unknownReason,
	} {
		_, b := mustWrap(t, rec)
		got, err := deadletter.Read(mustRecord(t, deadletter.Letter{
			Reason: deadletter.FunctionError, Code: deadletter.Exited, InputKind: deadletter.EnvelopeInput, Input: b,
		}))
		if err != nil || got.Code != deadletter.Exited || !bytes.Equal(got.Input, b) {
			t.Errorf("%s: %+v, %v; want the envelope as input", name, got, err)
		}
	}
}

// Whoever can write to the input can write an envelope with a record about another key. Such an
// envelope stays the input of a dead letter of its own.
func TestRecordOfAnotherKeyIsWrapped(t *testing.T) {
	about := mustRecord(t, deadletter.Letter{
		Reason: deadletter.BadSignature, Code: deadletter.Code(deadletter.BadSignature), EntityKey: []byte("victim"),
		InputKind: deadletter.IntentInput, Input: []byte("x"),
	})
	for name, change := range map[string]func(*pb.AgentEnvelope){
		"another key": func(env *pb.AgentEnvelope) { env.EntityKey = []byte("attacker") },
		"no key":      func(env *pb.AgentEnvelope) { env.EntityKey = nil },
		"a longer key": func(env *pb.AgentEnvelope) {
			env.EntityKey = append(env.GetEntityKey(), 0)
		},
	} {
		env, _ := mustWrap(t, about)
		change(env)
		env.EventTimeMs = -1
		forged, err := proto.Marshal(env)
		if err != nil {
			t.Fatal(err)
		}
		want := deadletter.Letter{
			Reason: deadletter.MalformedEnvelope, Code: deadletter.BadEventTime, Error: "before 1970",
			EntityKey: env.GetEntityKey(), InputKind: deadletter.BytesInput, Input: forged,
		}
		got, err := deadletter.Read(mustRecord(t, want))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// Only an envelope that was decoded is examined. Bytes that were refused undecoded are not
// examined, and neither is an intent that could also be read as an envelope.
func TestOtherInputsAreNotLookedInto(t *testing.T) {
	_, wrapped := mustWrap(t, mustRecord(t, deadletter.Letter{Reason: deadletter.FunctionError, Code: deadletter.Failed}))
	for _, l := range []deadletter.Letter{
		{Reason: deadletter.MalformedEnvelope, Code: deadletter.Oversize, InputKind: deadletter.BytesInput},
		{Reason: deadletter.MalformedEnvelope, Code: deadletter.Unparsable, InputKind: deadletter.BytesInput},
		{Reason: deadletter.MalformedIntent, Code: deadletter.Unparsable, InputKind: deadletter.BytesInput},
		{Reason: deadletter.UnsignedIntent, Code: deadletter.Code(deadletter.UnsignedIntent), InputKind: deadletter.IntentInput},
		{Reason: deadletter.MalformedEvent, Code: deadletter.WrongType, InputKind: deadletter.EventInput},
	} {
		l.Input = wrapped
		if got, err := deadletter.Read(mustRecord(t, l)); err != nil || got.Reason != l.Reason || !bytes.Equal(got.Input, wrapped) {
			t.Errorf("%s, %s: became %+v, %v", l.Reason, l.Code, got, err)
		}
	}
}

// A record is a third larger than its input, and making it takes little more than that,
// whatever the input is.
func TestRecordAllocatesItsTextAlone(t *testing.T) {
	const size = 4 << 20
	_, wrapped := mustWrap(t, mustRecord(t, deadletter.Letter{
		Reason: deadletter.FunctionError, Code: deadletter.Failed,
		InputKind: deadletter.EnvelopeInput, Input: bytes.Repeat([]byte{0xff}, size*3/4),
	}))
	for name, input := range map[string][]byte{
		"bytes": bytes.Repeat([]byte{0xff}, size), "a dead letter": wrapped,
	} {
		l := deadletter.Letter{
			Reason: deadletter.MalformedEnvelope, Code: deadletter.Oversize, InputKind: deadletter.BytesInput, Input: input,
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		mustRecord(t, l)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(len(input))*3/2; got > most {
			t.Errorf("%s: %d bytes allocated for an input of %d, at most %d", name, got, len(input), most)
		}
	}
}

func TestReasonsAreTheClosedList(t *testing.T) {
	want := map[deadletter.Reason]string{
		"malformed_envelope":  "unparsable, oversize, empty_payload, bad_event_time",
		"unknown_payload":     "newer_variant",
		"function_error":      "error, panic, exit",
		"malformed_event":     "unparsable, unsupported_version, missing_field, wrong_type, duplicate_field, too_deep",
		"malformed_intent":    "unparsable, empty",
		"unknown_kind":        "unknown_kind",
		"intent_dead_letter":  "serialize, sign, too_large",
		"unsigned_intent":     "unsigned_intent",
		"bad_signature":       "bad_signature",
		"unknown_signing_key": "unknown_signing_key",
		"activation_error": "error, panic, exit, rejected, snapshot_version, memory_overflow, too_many_intents, " +
			"invalid_text, output_too_large, snapshot_too_large",
		"activation_timeout": "limit",
		"orphaned_result": "no_continuation, unknown_intent, approval_too_late, intent_expired, kind_mismatch, " +
			"identity_mismatch",
		"adapter_mismatch":  "adapter_mismatch",
		"suspended":         "rejected",
		"deferred_overflow": "count, bytes",
		"budget_exceeded":   "tokens, activations",
		"hitl_timeout":      "dropped, policy_error, endless",
	}
	got := map[deadletter.Reason]string{}
	for _, r := range deadletter.Reasons() {
		var words []string
		for _, c := range deadletter.Codes(r) {
			words = append(words, string(c))
		}
		got[r] = strings.Join(words, ", ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons and codes (-want +got):\n%s", diff)
	}
	if codes := deadletter.Codes("sulking"); codes != nil {
		t.Errorf("an unknown reason has codes %v", codes)
	}
	deadletter.Codes(deadletter.Suspended)[0] = "changed"
	if deadletter.Codes(deadletter.Suspended)[0] != deadletter.Rejected {
		t.Error("a caller can change the list")
	}
}

// The frozen dead letters are read, and written again to the byte.
func TestGoldenRecords(t *testing.T) {
	blobs, err := golden.Blobs()
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, blob := range blobs {
		value, err := blob.Value()
		if err != nil {
			t.Fatal(err)
		}
		var rec *pb.ActivationErrorRecord
		switch m := value.(type) {
		case *pb.ActivationErrorRecord:
			rec = m
		case *pb.AgentEnvelope:
			rec, _ = deadletter.Unwrap(m)
		}
		l, err := deadletter.Read(rec)
		if errors.Is(err, deadletter.ErrForeign) || len(rec.ProtoReflect().GetUnknown()) > 0 {
			continue
		}
		read++
		again := mustRecord(t, l)
		if diff := cmp.Diff(rec, again, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-frozen +written again):\n%s", blob.Name, diff)
		}
	}
	if read < 3 {
		t.Errorf("only %d golden dead letters of ours", read)
	}
}

func drawLetter(t *rapid.T) deadletter.Letter {
	reason := rapid.SampledFrom(deadletter.Reasons()).Draw(t, "reason")
	number := rapid.Ptr(rapid.Int64(), true)
	l := deadletter.Letter{
		Reason:      reason,
		Code:        rapid.SampledFrom(deadletter.Codes(reason)).Draw(t, "code"),
		Error:       string(rapid.SliceOf(rapid.Byte()).Draw(t, "error")),
		EntityKey:   rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "key"),
		EventTimeMS: rapid.Int64().Draw(t, "time"),
		InputKind: rapid.SampledFrom([]deadletter.InputKind{
			deadletter.NoInput, deadletter.BytesInput, deadletter.EnvelopeInput, deadletter.EventInput, deadletter.IntentInput,
		}).Draw(t, "kind"),
		Position: deadletter.Position{
			Seq: number.Draw(t, "seq"), Step: number.Draw(t, "step"), LastEvent: rapid.String().Draw(t, "last"),
			Intents: number.Draw(t, "intents"), ModelCalls: number.Draw(t, "calls"), IntentID: rapid.String().Draw(t, "id"),
			DeadlineMS: number.Draw(t, "deadline"), Arrival: number.Draw(t, "arrival"), Redriven: rapid.Int64Min(0).Draw(t, "redriven"),
		},
	}
	if rapid.Bool().Draw(t, "refused") {
		l.Position.RefusedReason = rapid.SampledFrom(deadletter.Reasons()).Draw(t, "refused reason")
		l.Position.RefusedCode = rapid.SampledFrom(deadletter.Codes(l.Position.RefusedReason)).Draw(t, "refused code")
	}
	if l.InputKind != deadletter.NoInput {
		l.Input = rapid.SliceOf(rapid.Byte()).Draw(t, "input")
	}
	return l
}

func TestLetterProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLetter(t)
		rec, err := l.Record()
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(rec.GetDetail()) || strings.ContainsAny(rec.GetDetail(), "\r\n") {
			t.Fatalf("detail %q", rec.GetDetail())
		}
		got, err := deadletter.Read(rec)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Input, l.Input) || got.InputKind != l.InputKind {
			t.Fatalf("input %s %x, want %s %x", got.InputKind, got.Input, l.InputKind, l.Input)
		}
		again, err := got.Record()
		if err != nil || !proto.Equal(rec, again) {
			t.Fatalf("written again as %v, %v; want %v", again, err, rec)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add("malformed_envelope", `{"code":"unparsable","error":"e","input":"eA==","input_kind":"bytes","position":{"redriven":1}}`)
	f.Add("hitl_timeout", `{"code":"dropped","position":{"seq":-1}}`)
	f.Add("activation_error", "RuntimeError('boom')")
	f.Fuzz(func(t *testing.T, reason, detail string) {
		rec := &pb.ActivationErrorRecord{Reason: reason, Detail: detail}
		l, err := deadletter.Read(rec)
		if err != nil {
			if !errors.Is(err, deadletter.ErrForeign) {
				t.Fatalf("%v is not ErrForeign", err)
			}
			return
		}
		// A letter that can be read can be redriven any number of times.
		env, err := deadletter.Wrap(rec)
		if err != nil {
			t.Fatal(err)
		}
		b, err := proto.Marshal(env)
		if err != nil {
			t.Fatal(err)
		}
		again, err := deadletter.Letter{
			Reason: deadletter.FunctionError, Code: deadletter.Failed, InputKind: deadletter.EnvelopeInput, Input: b,
		}.Record()
		if err != nil {
			t.Fatal(err)
		}
		got, err := deadletter.Read(again)
		if err != nil {
			t.Fatalf("%q became %q: %v", detail, again.GetDetail(), err)
		}
		if got.Position.RefusedReason != deadletter.FunctionError || got.Position.RefusedCode != deadletter.Failed {
			t.Fatalf("%q was refused for %q", detail, again.GetDetail())
		}
		if got.Position.Redriven != l.Position.Redriven+1 && l.Position.Redriven != math.MaxInt64 || got.Code != l.Code || !bytes.Equal(got.Input, l.Input) {
			t.Fatalf("%q became %q", detail, again.GetDetail())
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	for _, size := range []int{300, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			input := bytes.Repeat([]byte{0xff}, size)
			b.SetBytes(int64(base64.StdEncoding.EncodedLen(size)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (deadletter.Letter{
					Reason: deadletter.MalformedEnvelope, Code: deadletter.Unparsable, Error: "byte 0: the tag of a field is not valid",
					InputKind: deadletter.BytesInput, Input: input,
				}).Record(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
