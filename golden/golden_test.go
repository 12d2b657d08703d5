package golden

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func blobs(t *testing.T) []Blob {
	t.Helper()
	all, err := Blobs()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no blobs")
	}
	return all
}

func lookup(t *testing.T, name string) Blob {
	t.Helper()
	b, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkValue compares what Bytes decode to with what Text says. With reencode it compares the value
// after one more encoding. It compares values and not bytes, because encoders may differ.
func checkValue(b Blob, reader proto.UnmarshalOptions, reencode bool) error {
	want, err := b.Value()
	if err != nil {
		return err
	}
	got := want.ProtoReflect().New().Interface()
	if err := reader.Unmarshal(b.Bytes, got); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if reencode {
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(got)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		got = got.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(again, got); err != nil {
			return fmt.Errorf("decode again: %w", err)
		}
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		return fmt.Errorf("value (-text +bytes):\n%s", diff)
	}
	return nil
}

func TestValues(t *testing.T) {
	for _, b := range blobs(t) {
		t.Run(b.Name, func(t *testing.T) {
			if err := checkValue(b, proto.UnmarshalOptions{}, false); err != nil {
				t.Error(err)
			}
			if err := checkValue(b, proto.UnmarshalOptions{}, true); err != nil {
				t.Errorf("re-encoded: %v", err)
			}
		})
	}
}

// TestValuesCanFail shows that checkValue sees each kind of loss.
func TestValuesCanFail(t *testing.T) {
	replace := func(from, to string) func(*Blob) {
		return func(b *Blob) { b.Text = strings.Replace(b.Text, from, to, 1) }
	}
	for name, tc := range map[string]struct {
		blob   string
		fault  func(*Blob)
		reader proto.UnmarshalOptions
	}{
		"another scalar":          {"tool_result", replace("seq: 7", "seq: 8"), proto.UnmarshalOptions{}},
		"a field too few":         {"tool_result", func(b *Blob) { b.Bytes = b.Bytes[:len(b.Bytes)-7] }, proto.UnmarshalOptions{}},
		"cut off":                 {"tool_result", func(b *Blob) { b.Bytes = b.Bytes[:len(b.Bytes)-1] }, proto.UnmarshalOptions{}},
		"empty is not absent":     {"agent_envelope_event_empty", func(b *Blob) { b.Bytes = nil }, proto.UnmarshalOptions{}},
		"another variant":         {"agent_envelope_event_empty", func(b *Blob) { b.Bytes = []byte{0x22, 0} }, proto.UnmarshalOptions{}},
		"unknown field not text":  {"tool_intent_future_field", replace("# unknown: a01f2a\n", ""), proto.UnmarshalOptions{}},
		"another unknown field":   {"tool_intent_future_field", replace("a01f2a", "a01f2b"), proto.UnmarshalOptions{}},
		"unknown field dropped":   {"tool_intent_future_field", func(*Blob) {}, proto.UnmarshalOptions{DiscardUnknown: true}},
		"unknown variant dropped": {"agent_envelope_newer_variant", func(*Blob) {}, proto.UnmarshalOptions{DiscardUnknown: true}},
		"unknown in a list":       {"memory_blob_newer_entry", func(*Blob) {}, proto.UnmarshalOptions{DiscardUnknown: true}},
		"order of entries": {"llm_cache_blob_digest_only", func(b *Blob) {
			head, tail, _ := strings.Cut(b.Text, "entries:")
			first, second, _ := strings.Cut(tail, "entries:")
			b.Text = head + "entries:" + second + "entries:" + first
		}, proto.UnmarshalOptions{}},
		"order of unknown fields": {"tool_intent_unknown_order", replace("b01f01", "b01f02"), proto.UnmarshalOptions{}},
		"no such enum value":      {"tool_intent_kind_unknown", replace("kind: 99", "kind: TOOL"), proto.UnmarshalOptions{}},
		"an empty map value":      {"trace_event_empty_attribute", replace(`"b"`, `"c"`), proto.UnmarshalOptions{}},
		"another type":            {"tool_result", replace(".ToolResult", ".ToolIntent"), proto.UnmarshalOptions{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := lookup(t, "v1/"+tc.blob)
			tc.fault(&b)
			if checkValue(b, tc.reader, false) == nil {
				t.Error("passes")
			}
		})
	}
}

func TestLookup(t *testing.T) {
	b := lookup(t, "v1/tool_intent_future_field")
	if b.Name != "v1/tool_intent_future_field" || b.Message != "beam_agents.v1.ToolIntent" {
		t.Errorf("Lookup = %q of %q", b.Name, b.Message)
	}
	b.Bytes[0]++
	if again := lookup(t, b.Name); again.Bytes[0] == b.Bytes[0] {
		t.Error("two lookups share their bytes")
	}
	for _, name := range []string{"v1/nothing", "tool_intent", "", "../golden.go", "v1"} {
		if _, err := Lookup(name); err == nil {
			t.Errorf("Lookup(%q) finds something", name)
		}
	}
	if _, err := Lookup("v1/nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lookup of nothing = %v; want fs.ErrNotExist", err)
	}
}

func unhex(t *testing.T, digits ...string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(strings.Join(digits, ""))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

const (
	// What is signed of tool_intent_signed, tool_intent_future_field and
	// tool_intent_signed_seq_0.
	inputSigned = "0a2464646464646464642d656565652d356666662d383030302d3131313131313131313131311208656e746974792d31" +
		"180720052a09687474702e706f7374321e7b2275726c223a2268747470733a2f2f6578616d706c652e74657374227d3880d095ffbc31" +
		"40e0a499ffbc315001"
	inputFuture = "0a2465656565656565652d666666662d353030302d383131312d3232323232323232323232321208656e746974792d31" +
		"180720062a09687474702e706f7374321e7b2275726c223a2268747470733a2f2f6578616d706c652e74657374227d3880d095ffbc31" +
		"40e0a499ffbc315001" + "a01f2a"
	inputSeq0 = "0a2432653034373436382d316262382d353731372d386362302d6438653938663135613736371" +
		"2016b20012a09687474702e706f7374320b7b2275726c223a2278227d38e80740c8dc0350015a102bf05d87d33251718085abe0727ad51a"

	recordError = "0a016b121061637469766174696f6e5f6572726f721a3a52756e74696d654572726f722827626f6f6d2729206661696c65645f" +
		"61745f737465703d322061667465723d494e54454e545f454d49545445442080d095ffbc31"
	recordOrphan = "0a016b120f6f727068616e65645f726573756c741a346e6f5f636f6e74696e756174696f6e3a32653034373436382d316262" +
		"382d353731372d386362302d64386539386631356137363720d00f"
)

// TestBytes spells out encodings that do not come from our own encoder.
func TestBytes(t *testing.T) {
	for name, digits := range map[string]string{
		"agent_envelope_event_empty":       "1a00",
		"agent_envelope_tool_result_empty": "2200",
		"agent_envelope_export_empty":      "3200",
		"tool_intent_empty":                "",
		"tool_intent_seq_negative":         "18ffffffffffffffffff01",
		"trace_event_empty_attribute":      "42060a016112013142050a01621200",

		"tool_intent_signed": inputSigned + "60016a09676f6c64656e2d6b317220" +
			"d0fbc9489f1f0bc8f5c33820fff40d42bd49108faa927c7af238ac96c09cad61",
		"tool_intent_future_field": strings.TrimSuffix(inputFuture, "a01f2a") + "60016a09676f6c64656e2d6b317220" +
			"04d78c1f21c8eb79f2d5dd2f4586b66d7f33f1a460ea4a45b60518fd37f14862" + "a01f2a",
		"tool_intent_signed_seq_0": inputSeq0 + "60016a026b317220" +
			"99da73578aca8cfada0c6619ba0e860067eb74aafe85d606d4de043c438a6a94",
		"tool_intent_step_0": "0a2436353039666232392d396533352d356632352d626638352d62373836306434396130323612016b2a01" +
			"7432027b7d38e80740e8e4db0150015a102bf05d87d33251718085abe0727ad51a",

		"memory_blob_empty":      "0801",
		"memory_blob_kind_bytes": "0801120a0a016b1202007618e80712140a0172120c01000000016100000002626318e807180e",
		"llm_cache_blob_empty":   "0801",
		"llm_cache_blob_one": "080112760a40" + strings.Repeat("61", 64) + "120268691a20" +
			"8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4" + "2080d095ffbc312880d095ffbc311802",
		"continuation_seq_0": "08011801222436353039666232392d396533352d356632352d626638352d623738363064343961303236" +
			"38e80740e8e4db01",
		"trace_event_activation_start": "0a102bf05d87d33251718085abe0727ad51a12087b3127885df6577e22016b380142240a1b62" +
			"65616d5f6167656e74732e61637469766174696f6e2e6b696e641205737461727448e80750e807",

		"key_control_empty":             "",
		"key_control_fresh":             "08011001308088afa8bd31",
		"key_control_empty_parts":       "08011a0022002a00",
		"deferred_event_empty":          "",
		"deferred_event_empty_envelope": "08011200",
		"deferred_event_first":          "12021a00",

		"activation_error_record_python":           recordError,
		"activation_error_record_python_orphan":    recordOrphan,
		"agent_envelope_dead_letter_python":        "0a016b1080d095ffbc311a58" + recordError,
		"agent_envelope_dead_letter_python_orphan": "0a016b10d00f1a4d" + recordOrphan,
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(unhex(t, digits), lookup(t, "v1/"+name).Bytes); diff != "" {
				t.Errorf("bytes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSizes pins the blobs that other languages froze under the same names.
func TestSizes(t *testing.T) {
	for name, size := range map[string]int{
		"memory_blob": 63, "tool_intent": 126, "tool_intent_approval": 113, "tool_intent_traced": 129,
		"tool_intent_signed": 158, "tool_intent_future_field": 161, "tool_result": 70, "trace_event": 179,
		"agent_envelope": 86, "agent_envelope_export": 29, "continuation": 173, "continuation_escalated": 137,
		"llm_cache_blob": 251, "state_snapshot": 769,
	} {
		if got := len(lookup(t, "v1/"+name).Bytes); got != size {
			t.Errorf("%s has %d bytes, want %d", name, got, size)
		}
	}
}
