package beamagentspb_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/golden"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The tests of this file read golden blobs and compare with values spelled out
// here, so that neither a blob nor its text is believed.

// blobBytes is the encoding of the golden blob of that name.
func blobBytes(t *testing.T, name string) []byte {
	t.Helper()
	b, err := golden.Lookup("v1/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes
}

// read decodes the golden blob of that name into m and returns m.
func read[M proto.Message](t *testing.T, name string, m M) M {
	t.Helper()
	if err := proto.Unmarshal(blobBytes(t, name), m); err != nil {
		t.Fatal(err)
	}
	return m
}

func encode(t interface{ Fatal(args ...any) }, m proto.Message) []byte {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func unhex(t *testing.T, digits string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestEntryOrderIsKept(t *testing.T) {
	var got []string
	for _, e := range read(t, "memory_blob_order", &pb.MemoryBlob{}).GetEntries() {
		got = append(got, fmt.Sprintf("%s=%s@%d", e.GetKey(), e.GetValue(), e.GetLastAccessMs()))
	}
	want := []string{"zeta=1@1700000000009", "alpha=22@1700000000000", "zeta=@1700000000005", "alpha=333@1700000000005"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("memory (-want +got):\n%s", diff)
	}

	cache := read(t, "llm_cache_blob_digest_only", &pb.LlmCacheBlob{})
	if keys := cache.GetEntries(); len(keys) != 2 || keys[0].GetCacheKey()[0] != 'b' || keys[1].GetCacheKey()[0] != 'a' {
		t.Errorf("cache: %v", keys)
	}

	ids := read(t, "continuation_order", &pb.Continuation{}).GetPendingIntentIds()
	const id1, id2 = "11111111-2222-5333-8444-555555555555", "aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee"
	if diff := cmp.Diff([]string{id2, "", id1, id2}, ids); diff != "" {
		t.Errorf("pending ids (-want +got):\n%s", diff)
	}

	pending := read(t, "state_snapshot", &pb.StateSnapshot{}).GetPending()
	if len(pending) != 2 || pending[0].GetIntentId() != id1 || pending[1].GetIntentId() != id2 {
		t.Errorf("pending: %v", pending)
	}
}

func TestVersions(t *testing.T) {
	type versioned interface {
		proto.Message
		GetStateSchemaVersion() uint32
	}
	for name, tc := range map[string]struct {
		m    versioned
		want uint32
	}{
		"memory_blob":                   {&pb.MemoryBlob{}, 1},
		"memory_blob_stamp_0":           {&pb.MemoryBlob{}, 0},
		"memory_blob_future_version":    {&pb.MemoryBlob{}, 1000},
		"continuation":                  {&pb.Continuation{}, 1},
		"continuation_stamp_0":          {&pb.Continuation{}, 0},
		"continuation_future_version":   {&pb.Continuation{}, 1000},
		"llm_cache_blob":                {&pb.LlmCacheBlob{}, 1},
		"llm_cache_blob_stamp_0":        {&pb.LlmCacheBlob{}, 0},
		"llm_cache_blob_future_version": {&pb.LlmCacheBlob{}, 1000},
		"state_snapshot":                {&pb.StateSnapshot{}, 1},
		"state_snapshot_empty_cells":    {&pb.StateSnapshot{}, 0},
	} {
		raw := blobBytes(t, name)
		if got := read(t, name, tc.m).GetStateSchemaVersion(); got != tc.want {
			t.Errorf("%s has version %d, want %d", name, got, tc.want)
		}
		if stamped := bytes.HasPrefix(raw, []byte{0x08}); stamped != (tc.want != 0) {
			t.Errorf("%s: stamp written: %v", name, stamped)
		}
		if !bytes.Equal(encode(t, tc.m), raw) {
			t.Errorf("%s: reading and writing touches the stamp", name)
		}
	}

	mixed := read(t, "state_snapshot_mixed_versions", &pb.StateSnapshot{})
	got := []uint32{
		mixed.GetStateSchemaVersion(), mixed.GetMemory().GetStateSchemaVersion(),
		mixed.GetLlmCache().GetStateSchemaVersion(), mixed.GetContinuation().GetStateSchemaVersion(),
	}
	if diff := cmp.Diff([]uint32{1, 0, 1000, 1000}, got); diff != "" {
		t.Errorf("versions of the snapshot, memory, cache, continuation (-want +got):\n%s", diff)
	}
}

func TestIntentFields(t *testing.T) {
	trace := unhex(t, "0123456789abcdef0123456789abcdef")
	got := read(t, "tool_intent_all_fields", &pb.ToolIntent{})
	if len(got.GetSignature()) != 32 {
		t.Errorf("signature of %d bytes", len(got.GetSignature()))
	}
	want := &pb.ToolIntent{
		IntentId: "dddddddd-eeee-5fff-8000-111111111111", EntityKey: []byte("entity-1"), Seq: 7, StepIndex: 5,
		ToolName: "http.post", ArgsJson: `{"url":"https://example.test"}`,
		CreatedAtMs: 1700000000000, ExpiresAtMs: 1700000060000, Attempt: 3, Kind: pb.ToolIntent_APPROVAL, TraceId: trace,
		SignatureScheme: pb.ToolIntent_HMAC_SHA256, SigningKeyId: "golden-k1",
		Signature: unhex(t, "d0fbc9489f1f0bc8f5c33820fff40d42bd49108faa927c7af238ac96c09cad61"),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("all fields (-want +got):\n%s", diff)
	}

	args := read(t, "tool_intent_args_verbatim", &pb.ToolIntent{}).GetArgsJson()
	if want := "{ \"b\": 1.50, \"a\": 1e2,\t\"b\": \"\\u00e9é<>&\u2028\", \"n\": 12345678901234567890 } \r\n"; args != want {
		t.Errorf("args_json %q, want %q", args, want)
	}
	if args := read(t, "tool_intent_args_not_json", &pb.ToolIntent{}).GetArgsJson(); args != "not json \x00" {
		t.Errorf("args_json %q", args)
	}
	if seq := read(t, "tool_intent_seq_negative", &pb.ToolIntent{}).GetSeq(); seq != -1 {
		t.Errorf("seq %d, want -1", seq)
	}
	not := read(t, "tool_intent_not_canonical", &pb.ToolIntent{})
	if diff := cmp.Diff(blobBytes(t, "tool_intent_signed_seq_0"), encode(t, not)); diff != "" {
		t.Errorf("a careless encoding written again (-want +got):\n%s", diff)
	}
}

func TestStages(t *testing.T) {
	before := read(t, "tool_intent", &pb.ToolIntent{})
	if before.GetKind() != 0 || before.GetKind() != pb.ToolIntent_TOOL_KIND_UNSPECIFIED {
		t.Errorf("before kinds: %v", before.GetKind())
	}
	if id := read(t, "tool_intent_approval", &pb.ToolIntent{}).GetTraceId(); len(id) > 0 {
		t.Errorf("before trace ids: %x", id)
	}
	for name, want := range map[string]struct {
		scheme  pb.ToolIntent_SignatureScheme
		keyID   string
		signed  bool
		unknown int
	}{
		"tool_intent":                 {0, "", false, 0},
		"tool_intent_approval":        {0, "", false, 0},
		"tool_intent_traced":          {0, "", false, 0},
		"tool_intent_empty_signature": {1, "golden-k1", false, 0},
		"tool_intent_scheme_unknown":  {99, "golden-k1", true, 0},
		"tool_intent_signed":          {1, "golden-k1", true, 0},
		"tool_intent_future_field":    {1, "golden-k1", true, 3},
	} {
		i := read(t, name, &pb.ToolIntent{})
		if i.GetSignatureScheme() != want.scheme || i.GetSigningKeyId() != want.keyID || (len(i.GetSignature()) > 0) != want.signed ||
			len(i.ProtoReflect().GetUnknown()) != want.unknown {
			t.Errorf("%s: scheme %d, key %q, signature %x, unknown %x", name,
				i.GetSignatureScheme(), i.GetSigningKeyId(), i.GetSignature(), i.ProtoReflect().GetUnknown())
		}
	}
	if n := read(t, "continuation", &pb.Continuation{}).GetEscalations(); n != 0 {
		t.Errorf("before escalations: %d", n)
	}
	if n := read(t, "continuation_escalated", &pb.Continuation{}).GetEscalations(); n != 1 {
		t.Errorf("escalations %d, want 1", n)
	}
}

// TestSigningInput holds the encoding without fields 12 to 14 to bytes that other
// programs signed: a field that is unknown here stays in it, behind the rest.
func TestSigningInput(t *testing.T) {
	for name, tc := range map[string]struct{ key, input, mac string }{
		"tool_intent_signed": {
			"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
			"0a2464646464646464642d656565652d356666662d383030302d3131313131313131313131311208656e746974792d31180720052a09687474702e706f7374321e7b2275726c223a2268747470733a2f2f6578616d706c652e74657374227d3880d095ffbc3140e0a499ffbc315001",
			"d0fbc9489f1f0bc8f5c33820fff40d42bd49108faa927c7af238ac96c09cad61",
		},
		"tool_intent_future_field": {
			"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
			"0a2465656565656565652d666666662d353030302d383131312d3232323232323232323232321208656e746974792d31180720062a09687474702e706f7374321e7b2275726c223a2268747470733a2f2f6578616d706c652e74657374227d3880d095ffbc3140e0a499ffbc315001a01f2a",
			"04d78c1f21c8eb79f2d5dd2f4586b66d7f33f1a460ea4a45b60518fd37f14862",
		},
		"tool_intent_signed_seq_0": {
			strings.Repeat("01", 32),
			"0a2432653034373436382d316262382d353731372d386362302d64386539386631356137363712016b20012a09687474702e706f7374320b7b2275726c223a2278227d38e80740c8dc0350015a102bf05d87d33251718085abe0727ad51a",
			"99da73578aca8cfada0c6619ba0e860067eb74aafe85d606d4de043c438a6a94",
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := read(t, name, &pb.ToolIntent{})
			mac := i.GetSignature()
			i.SignatureScheme, i.SigningKeyId, i.Signature = 0, "", nil
			if diff := cmp.Diff(tc.input, hex.EncodeToString(encode(t, i))); diff != "" {
				t.Errorf("signed bytes (-want +got):\n%s", diff)
			}
			sum := hmac.New(sha256.New, unhex(t, tc.key))
			sum.Write(unhex(t, tc.input))
			if want := unhex(t, tc.mac); !bytes.Equal(mac, want) || !bytes.Equal(sum.Sum(nil), want) {
				t.Errorf("signature %x, want %s", mac, tc.mac)
			}
		})
	}
}

func TestStatuses(t *testing.T) {
	for name, want := range map[string]pb.ToolResult_Status{
		"tool_result": pb.ToolResult_OK, "tool_result_error": pb.ToolResult_ERROR, "tool_result_expired": pb.ToolResult_EXPIRED,
		"tool_result_rejected": pb.ToolResult_REJECTED, "tool_result_status_unset": pb.ToolResult_STATUS_UNSPECIFIED,
		"tool_result_status_unknown": 99,
	} {
		if got := read(t, name, &pb.ToolResult{}).GetStatus(); got != want {
			t.Errorf("%s has status %v, want %v", name, got, want)
		}
	}
}

func TestEventTypes(t *testing.T) {
	for name, want := range map[string]pb.TraceEvent_EventType{
		"trace_event_activation_start": pb.TraceEvent_ACTIVATION_START, "trace_event": pb.TraceEvent_LLM_CALL,
		"trace_event_tool_call": pb.TraceEvent_TOOL_CALL, "trace_event_intent_emitted": pb.TraceEvent_INTENT_EMITTED,
		"trace_event_activation_end": pb.TraceEvent_ACTIVATION_END, "trace_event_error": pb.TraceEvent_ERROR,
		"trace_event_suspended": pb.TraceEvent_SUSPENDED, "trace_event_type_unset": pb.TraceEvent_EVENT_TYPE_UNSPECIFIED,
		"trace_event_type_unknown": 99,
	} {
		if got := read(t, name, &pb.TraceEvent{}).GetEventType(); got != want {
			t.Errorf("%s has type %v, want %v", name, got, want)
		}
	}
}

// TestEnums reads unset enums as UNSPECIFIED and keeps unknown numbers.
func TestEnums(t *testing.T) {
	for name, got := range map[string]fmt.Stringer{
		"TOOL_KIND_UNSPECIFIED":        read(t, "tool_intent_empty", &pb.ToolIntent{Kind: 7}).GetKind(),
		"SIGNATURE_SCHEME_UNSPECIFIED": read(t, "tool_intent_empty", &pb.ToolIntent{}).GetSignatureScheme(),
		"STATUS_UNSPECIFIED":           read(t, "tool_result_status_unset", &pb.ToolResult{}).GetStatus(),
		"EVENT_TYPE_UNSPECIFIED":       read(t, "trace_event_type_unset", &pb.TraceEvent{}).GetEventType(),
		"99":                           read(t, "tool_intent_kind_unknown", &pb.ToolIntent{}).GetKind(),
		"-2147483648":                  read(t, "tool_intent_kind_negative", &pb.ToolIntent{}).GetKind(),
		"TOOL":                         read(t, "tool_intent_untraced", &pb.ToolIntent{}).GetKind(),
		"APPROVAL":                     read(t, "tool_intent_approval", &pb.ToolIntent{}).GetKind(),
		"HMAC_SHA256":                  read(t, "tool_intent_signed", &pb.ToolIntent{}).GetSignatureScheme(),
	} {
		if got.String() != name {
			t.Errorf("%T reads %s, want %s", got, got, name)
		}
	}
}

// variants is one envelope of each variant.
func variants() []*pb.AgentEnvelope {
	return []*pb.AgentEnvelope{
		{Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte("event")}},
		{Payload: &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{IntentId: "result"}}},
		{Payload: &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{IntentId: "approval"}}},
		{Payload: &pb.AgentEnvelope_ExportRequest{ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: "export"}}},
	}
}

func TestOneofIsExclusive(t *testing.T) {
	for i, first := range variants() {
		for j, last := range variants() {
			if i == j {
				continue // the same variant twice is merged, not replaced
			}
			got := &pb.AgentEnvelope{}
			if err := proto.Unmarshal(append(encode(t, first), encode(t, last)...), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(last, got, protocmp.Transform()); diff != "" {
				t.Errorf("variant %d and then %d (-want +got):\n%s", i, j, diff)
			}
		}
	}
}

// TestPresence tells a variant that is set but empty from one that is not set.
func TestPresence(t *testing.T) {
	for name, want := range map[string]string{
		"agent_envelope_event_empty":       "external_event",
		"agent_envelope_tool_result_empty": "tool_result",
		"agent_envelope_approval_empty":    "approval",
		"agent_envelope_export_empty":      "export_request",
		"agent_envelope_no_payload":        "",
		"agent_envelope_newer_variant":     "",
	} {
		m := read(t, name, &pb.AgentEnvelope{}).ProtoReflect()
		got := ""
		if fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("payload")); fd != nil {
			got = string(fd.Name())
		}
		if got != want {
			t.Errorf("%s reads as %q, want %q", name, got, want)
		}
	}
	raw := read(t, "agent_envelope_newer_variant", &pb.AgentEnvelope{}).ProtoReflect().GetUnknown()
	if number, _, n := protowire.ConsumeField(raw); number != 507 || n != len(raw) {
		t.Errorf("the newer variant is %x", []byte(raw))
	}
	for name, want := range map[string]bool{"state_snapshot_idle": false, "state_snapshot_empty_cells": true} {
		s := read(t, name, &pb.StateSnapshot{})
		if s.Memory != nil != want || s.LlmCache != nil != want || s.Continuation != nil != want || len(s.GetPending()) > 0 != want {
			t.Errorf("%s: cells are there: want %v, got %v", name, want, s)
		}
	}
}

func TestIDs(t *testing.T) {
	e := read(t, "trace_event", &pb.TraceEvent{})
	for _, id := range []struct {
		name, want string
		got        []byte
	}{
		{"trace_id", "0123456789abcdef0123456789abcdef", e.GetTraceId()},
		{"span_id", "0011223344556677", e.GetSpanId()},
		{"parent_span_id", "7766554433221100", e.GetParentSpanId()},
		{"trace_id of an intent", "0123456789abcdef0123456789abcdef", read(t, "tool_intent_traced", &pb.ToolIntent{}).GetTraceId()},
		{"trace_id of zeros", strings.Repeat("00", 16), read(t, "tool_intent_extremes", &pb.ToolIntent{}).GetTraceId()},
		{"parent_span_id at the root", "", read(t, "trace_event_activation_start", &pb.TraceEvent{}).GetParentSpanId()},
	} {
		if hex.EncodeToString(id.got) != id.want {
			t.Errorf("%s is %x, want %s", id.name, id.got, id.want)
		}
	}
}

func TestAnyBytesPassThroughExternalEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &pb.AgentEnvelope{
			EntityKey:   rapid.SliceOf(rapid.Byte()).Draw(t, "key"),
			EventTimeMs: rapid.Int64().Draw(t, "time"),
			Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: rapid.OneOf(
				rapid.SliceOf(rapid.Byte()),
				// An envelope inside an envelope is bytes like any other.
				rapid.Map(rapid.SampledFrom(variants()), func(e *pb.AgentEnvelope) []byte { return encode(t, e) }),
			).Draw(t, "event")},
		}
		got := &pb.AgentEnvelope{}
		if err := proto.Unmarshal(encode(t, want), got); err != nil {
			t.Fatal(err)
		}
		event, ok := got.GetPayload().(*pb.AgentEnvelope_ExternalEvent)
		if !ok || !bytes.Equal(event.ExternalEvent, want.GetExternalEvent()) {
			t.Fatalf("event %x, want %x", got.GetExternalEvent(), want.GetExternalEvent())
		}
		if !proto.Equal(want, got) {
			t.Fatalf("envelope %v, want %v", got, want)
		}
	})
	every := read(t, "agent_envelope_event_any_bytes", &pb.AgentEnvelope{}).GetExternalEvent()
	if len(every) != 256 || every[0] != 0 || every[255] != 255 {
		t.Errorf("every byte: %x", every)
	}
}

// TestInvalidUTF8 shows that text is text: a string field with other bytes is
// refused in both directions.
func TestInvalidUTF8(t *testing.T) {
	if _, err := proto.Marshal(&pb.ToolIntent{ToolName: "\xff"}); err == nil {
		t.Error("encoded")
	}
	if err := proto.Unmarshal([]byte{0x2a, 1, 0xff}, &pb.ToolIntent{}); err == nil {
		t.Error("decoded")
	}
}
