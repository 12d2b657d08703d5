package transforms_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/golden"
	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	register.Function2x1(stampedIntent)
	register.Function3x1(stampedMessage)
	register.Function2x1(stampedRecord)
	register.Function1x2(textKeyed)
	register.Function2x1(noFields)
	register.Function1x1(withoutEncoding)
}

func stampedIntent(ts beam.EventTime, in *pb.ToolIntent) string {
	return fmt.Sprintf("%s %x", when(ts), canonical(in))
}

func stampedMessage(ts beam.EventTime, key, raw []byte) string {
	return fmt.Sprintf("%s %q %x", when(ts), key, raw)
}

// stampedRecord prints a record as it is.
func stampedRecord(ts beam.EventTime, rec *pb.ActivationErrorRecord) string {
	return fmt.Sprintf("%s %q %s at %d: %s", when(ts), rec.GetEntityKey(), rec.GetReason(), rec.GetEventTimeMs(), rec.GetDetail())
}

// intentRecord is the record about an intent, as stampedRecord prints it.
func intentRecord(reason, code, text string, in *pb.ToolIntent) string {
	return fmt.Sprintf(`7000 %q %s at %d: {"code":%q,"error":%q,"input":%q,"input_kind":"intent",`+
		`"position":{"intent_id":%q,"seq":%d,"step":%d}}`,
		in.EntityKey, reason, in.CreatedAtMs, code, text, base64.StdEncoding.EncodeToString(canonical(in)),
		in.IntentId, in.Seq, in.StepIndex)
}

func noFields(_, _ []byte) *pb.ToolIntent { return &pb.ToolIntent{} }

// textKeyed gives messages a key that is text.
func textKeyed(b []byte) (string, []byte) { return "key", b }

// messages is inputs under the key kv-key, 7 s after the epoch.
func messages(s beam.Scope, inputs ...[]byte) beam.PCollection {
	stamped := make([][]byte, len(inputs))
	for i, raw := range inputs {
		stamped[i] = append([]byte{7}, raw...)
	}
	return beam.ParDo(s, keyed, beam.ParDo(s, stamp, beam.CreateList(s, stamped)))
}

// decodedIntents is the intents 7 s after the epoch.
func decodedIntents(s beam.Scope, intents ...*pb.ToolIntent) beam.PCollection {
	var inputs [][]byte
	for _, in := range intents {
		inputs = append(inputs, canonical(in))
	}
	decoded := transforms.DecodeIntents(s, messages(s, inputs...))
	equals(s, beam.ParDo(s, stampedRecord, decoded.Errors), nil)
	return decoded.Intents
}

func toolIntent(change func(*pb.ToolIntent)) *pb.ToolIntent {
	in := &pb.ToolIntent{
		IntentId: "2e047468-1bb8-5717-8cb0-d8e98f15a767", EntityKey: []byte("k"), StepIndex: 1,
		ToolName: "http.post", ArgsJson: `{"url":"x"}`, CreatedAtMs: 1000, ExpiresAtMs: 61000, Kind: pb.ToolIntent_TOOL,
		TraceId: []byte("\x2b\xf0\x5d\x87\xd3\x32\x51\x71\x80\x85\xab\xe0\x72\x7a\xd5\x1a"),
	}
	if change != nil {
		change(in)
	}
	return in
}

func goldenIntent(t *testing.T, name string) *pb.ToolIntent {
	t.Helper()
	blob, err := golden.Lookup("v1/" + name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := blob.Value()
	if err != nil {
		t.Fatal(err)
	}
	return m.(*pb.ToolIntent)
}

func TestGoldenIntentsThereAndBack(t *testing.T) {
	blobs, err := golden.Blobs()
	if err != nil {
		t.Fatal(err)
	}
	var inputs [][]byte
	var intents, encoded []string
	for _, b := range blobs {
		if b.Message != "beam_agents.v1.ToolIntent" || len(b.Bytes) == 0 {
			continue // an empty message is not an intent, see TestEmptyIntents
		}
		m, err := b.Value()
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, b.Bytes)
		intents = append(intents, fmt.Sprintf("7000 %x", canonical(m)))
		encoded = append(encoded, fmt.Sprintf("7000 %q %x", m.(*pb.ToolIntent).EntityKey, canonical(m)))
	}
	n := int64(len(inputs))
	if n < 15 {
		t.Fatalf("only %d golden intents", n)
	}
	onBothRunners(t, func(s beam.Scope) {
		decoded := transforms.DecodeIntents(s, messages(s, inputs...))
		equals(s, beam.ParDo(s, stampedIntent, decoded.Intents), intents)
		equals(s, beam.ParDo(s, stampedRecord, decoded.Errors), nil)
		out := transforms.EncodeIntents(s, transforms.EncodeIntentsParams{}, decoded.Intents)
		equals(s, beam.ParDo(s, stampedMessage, out.Encoded), encoded)
		equals(s, beam.ParDo(s, stampedRecord, out.Errors), nil)
	}, wantCounters(map[string]int64{"intents_decoded": n, "intents_encoded": n}))
}

func TestDecodeIntentsKeepsPoisonAndTheRest(t *testing.T) {
	good := canonical(toolIntent(nil))
	badText := []byte{0x0a, 1, 'i', 0x2a, 2, 't', 0xff}
	inputs := [][]byte{nil, good[:5], badText, good, []byte("no protobuf"), good[:len(good)-1]}
	for name, tc := range map[string]struct {
		key   string
		input func(s beam.Scope) beam.PCollection
	}{
		"keys":    {"kv-key", func(s beam.Scope) beam.PCollection { return messages(s, inputs...) }},
		"no keys": {"", func(s beam.Scope) beam.PCollection { return beam.DropKey(s, messages(s, inputs...)) }},
	} {
		t.Run(name, func(t *testing.T) {
			record := func(raw []byte, text string) string {
				return fmt.Sprintf(`7000 %q malformed_intent at 7000: {"code":"unparsable","error":%q,"input":%q,"input_kind":"bytes"}`,
					tc.key, text, base64.StdEncoding.EncodeToString(raw))
			}
			onBothRunners(t, func(s beam.Scope) {
				decoded := transforms.DecodeIntents(s, tc.input(s))
				equals(s, beam.ParDo(s, stampedIntent, decoded.Intents), []string{fmt.Sprintf("7000 %x", good)})
				equals(s, beam.ParDo(s, stampedRecord, decoded.Errors), []string{
					fmt.Sprintf(`7000 %q malformed_intent at 7000: {"code":"empty","error":"the message is empty","input":"","input_kind":"bytes"}`, tc.key),
					record(good[:5], "byte 0: ToolIntent.intent_id is cut short"),
					record(badText, "byte 5: ToolIntent.tool_name is not UTF-8"),
					record([]byte("no protobuf"), "byte 0: ToolIntent.signing_key_id is not valid"),
					record(good[:len(good)-1], fmt.Sprintf("byte %d: ToolIntent.trace_id is cut short", len(good)-18)),
				})
			}, wantCounters(map[string]int64{"intents_decoded": 1, "errors_malformed_intent": 5}))
		})
	}
}

// An empty message deletes a key of a compacted topic: none is sent, and none is read as
// an intent (TestDecodeIntentsKeepsPoisonAndTheRest).
func TestEmptyIntents(t *testing.T) {
	onBothRunners(t, func(s beam.Scope) {
		out := transforms.EncodeIntents(s, transforms.EncodeIntentsParams{}, beam.ParDo(s, noFields, messages(s, nil)))
		equals(s, beam.ParDo(s, stampedMessage, out.Encoded), nil)
		equals(s, beam.ParDo(s, stampedRecord, out.Errors), []string{
			`7000 "" intent_dead_letter at 0: {"code":"serialize","error":"the intent has no field, and its encoding would be an empty message",` +
				`"input":"","input_kind":"intent","position":{"seq":0,"step":0}}`,
		})
	}, wantCounters(map[string]int64{"errors_intent_dead_letter": 1}))
}

func TestEncodeIntentsTooLarge(t *testing.T) {
	in := toolIntent(func(in *pb.ToolIntent) { in.ArgsJson = strings.Repeat("x", 1<<20) })
	size := len(canonical(in))
	onBothRunners(t, func(s beam.Scope) {
		out := transforms.EncodeIntents(s, transforms.EncodeIntentsParams{MaxBytes: size}, decodedIntents(s, in))
		equals(s, beam.ParDo(s, stampedMessage, out.Encoded), []string{fmt.Sprintf(`7000 "k" %x`, canonical(in))})
		equals(s, beam.ParDo(s, stampedRecord, out.Errors), nil)
	})
	onBothRunners(t, func(s beam.Scope) {
		out := transforms.EncodeIntents(s, transforms.EncodeIntentsParams{MaxBytes: size - 1}, decodedIntents(s, in))
		equals(s, beam.ParDo(s, stampedMessage, out.Encoded), nil)
		equals(s, beam.ParDo(s, stampedRecord, out.Errors), []string{
			intentRecord("intent_dead_letter", "too_large", fmt.Sprintf("%d bytes, the limit is %d", size, size-1), in),
		})
	}, wantCounters(map[string]int64{"intents_decoded": 1, "errors_intent_dead_letter": 1}))
}

// Only an intent of the kind APPROVAL reaches a human, and an intent of a newer kind reaches
// nobody.
func TestRouteIntents(t *testing.T) {
	kind := func(number int32) *pb.ToolIntent {
		return toolIntent(func(in *pb.ToolIntent) { in.Kind, in.Seq = pb.ToolIntent_Kind(number), int64(number) })
	}
	unspecified, tool, approval := kind(0), kind(1), kind(2)
	three, last, negative := kind(3), kind(1<<31-1), kind(-1)
	unknown, below := goldenIntent(t, "tool_intent_kind_unknown"), goldenIntent(t, "tool_intent_kind_negative")
	record := func(in *pb.ToolIntent) string {
		return intentRecord("unknown_kind", "unknown_kind", fmt.Sprintf("kind %d is neither a tool call nor an approval", in.Kind), in)
	}
	onBothRunners(t, func(s beam.Scope) {
		routed := transforms.RouteIntents(s, decodedIntents(s, negative, unspecified, three, tool, unknown, approval, below, last))
		equals(s, beam.ParDo(s, stampedIntent, routed.Tools), []string{
			fmt.Sprintf("7000 %x", canonical(unspecified)), fmt.Sprintf("7000 %x", canonical(tool)),
		})
		equals(s, beam.ParDo(s, stampedIntent, routed.Approvals), []string{fmt.Sprintf("7000 %x", canonical(approval))})
		equals(s, beam.ParDo(s, stampedRecord, routed.Errors), []string{
			record(three), record(last), record(negative), record(unknown), record(below),
		})
	}, wantCounters(map[string]int64{
		"intents_decoded": 8, "intents_routed_tool": 2, "intents_routed_approval": 1, "errors_unknown_kind": 5,
	}))
}

// ringFile writes a keyring of pairs of id and key, which are repeated until they are long
// enough, and returns its reference.
func ringFile(t *testing.T, pairs ...string) string {
	t.Helper()
	var text strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&text, "%s=%s\n", pairs[i], base64.StdEncoding.EncodeToString(longEnough(pairs[i+1])))
	}
	path := filepath.Join(t.TempDir(), "ring")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file:" + path
}

func longEnough(key string) []byte {
	for len(key) < 16 {
		key += key
	}
	return []byte(key)
}

func goldenKey() string {
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i)
	}
	return string(key)
}

// The signatures are those that a program in another language made.
func TestSignIntents(t *testing.T) {
	unsigned := goldenIntent(t, "tool_intent_signed")
	unsigned.SignatureScheme, unsigned.SigningKeyId, unsigned.Signature = 0, "", nil
	future := goldenIntent(t, "tool_intent_future_field")
	replaced := proto.CloneOf(future)
	replaced.SigningKeyId, replaced.Signature = "before", []byte("x")
	want := []string{
		fmt.Sprintf("7000 %x", canonical(goldenIntent(t, "tool_intent_signed"))),
		fmt.Sprintf("7000 %x", canonical(future)),
	}
	t.Setenv("BEAMAGENTS_TEST_KEYS", "golden-k1="+base64.StdEncoding.EncodeToString([]byte(goldenKey())))
	for _, ref := range []string{"env:BEAMAGENTS_TEST_KEYS", ringFile(t, "other", "x", "golden-k1", goldenKey())} {
		onBothRunners(t, func(s beam.Scope) {
			params := transforms.SignParams{Keyring: ref, KeyID: "golden-k1"}
			signed := transforms.SignIntents(s, params, decodedIntents(s, unsigned, replaced))
			equals(s, beam.ParDo(s, stampedIntent, signed.Intents), want)
			equals(s, beam.ParDo(s, stampedRecord, signed.Errors), nil)
		}, wantCounters(map[string]int64{"intents_decoded": 2, "intents_signed": 2}))
	}
}

func TestVerifyIntents(t *testing.T) {
	ref := ringFile(t, "k1", strings.Repeat("\x01", 32), "golden-k1", goldenKey())
	ok := []*pb.ToolIntent{
		goldenIntent(t, "tool_intent_signed"), goldenIntent(t, "tool_intent_future_field"),
		goldenIntent(t, "tool_intent_signed_seq_0"), goldenIntent(t, "tool_intent_not_canonical"),
	}
	unsigned := []*pb.ToolIntent{toolIntent(nil), goldenIntent(t, "tool_intent_empty_signature")}
	forged := goldenIntent(t, "tool_intent_signed_seq_0")
	forged.ArgsJson = `{"url":"y"}`
	otherKey := goldenIntent(t, "tool_intent_signed_seq_0")
	otherKey.SigningKeyId = "a key"
	scheme := goldenIntent(t, "tool_intent_scheme_unknown")
	bad := []string{
		intentRecord("bad_signature", "bad_signature", `the signature is not that of this intent with key "k1"`, forged),
		intentRecord("bad_signature", "bad_signature", "signature scheme 99 is not HMAC_SHA256", scheme),
		intentRecord("unknown_signing_key", "unknown_signing_key", `the keyring has no key "a key"`, otherKey),
	}
	// %q above writes Go's escapes, which are JSON's for these texts.
	var refused []string
	for _, in := range unsigned {
		refused = append(refused, intentRecord("unsigned_intent", "unsigned_intent", "the intent has no signature", in))
	}
	lines := func(groups ...[]*pb.ToolIntent) (out []string) {
		for _, g := range groups {
			for _, in := range g {
				out = append(out, fmt.Sprintf("7000 %x", canonical(in)))
			}
		}
		return out
	}
	fails := []*pb.ToolIntent{forged, scheme, otherKey}
	all := append(append(append([]*pb.ToolIntent{}, ok...), unsigned...), fails...)
	for name, tc := range map[string]struct {
		params   transforms.VerifyParams
		pass     []string
		errs     []string
		counters map[string]int64
	}{
		"off": {transforms.VerifyParams{Mode: intent.ModeOff}, lines(all), nil, map[string]int64{"intents_not_verified": 9}},
		"off, with a keyring that is not there": {
			transforms.VerifyParams{Mode: intent.ModeOff, Keyring: "file:/no/such/keyring"},
			lines(all), nil, map[string]int64{"intents_not_verified": 9},
		},
		"permissive": {
			transforms.VerifyParams{Mode: intent.ModePermissive, Keyring: ref}, lines(ok, unsigned), bad,
			map[string]int64{
				"intents_verified": 4, "unsigned_intents_accepted": 2, "errors_bad_signature": 2, "errors_unknown_signing_key": 1,
			},
		},
		"require": {
			transforms.VerifyParams{Mode: intent.ModeRequire, Keyring: ref}, lines(ok), append(append([]string{}, bad...), refused...),
			map[string]int64{
				"intents_verified": 4, "errors_unsigned_intent": 2, "errors_bad_signature": 2, "errors_unknown_signing_key": 1,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.counters["intents_decoded"] = 9
			onBothRunners(t, func(s beam.Scope) {
				verified := transforms.VerifyIntents(s, tc.params, decodedIntents(s, all...))
				equals(s, beam.ParDo(s, stampedIntent, verified.Intents), tc.pass)
				equals(s, beam.ParDo(s, stampedRecord, verified.Errors), tc.errs)
			}, wantCounters(tc.counters))
		})
	}
}

// Intents go from an agent to an effector over a topic, and the key is rotated in the meantime.
func TestIntentsEndToEnd(t *testing.T) {
	signing, before, after := ringFile(t, "new", "two"), ringFile(t, "old", "one"), ringFile(t, "old", "one", "new", "two")
	in := toolIntent(nil)
	for ref, passes := range map[string]bool{before: false, after: true} {
		onBothRunners(t, func(s beam.Scope) {
			kinds := transforms.RouteIntents(s, decodedIntents(s, in))
			equals(s, beam.ParDo(s, stampedRecord, kinds.Errors), nil)
			signed := transforms.SignIntents(s, transforms.SignParams{Keyring: signing, KeyID: "new"}, kinds.Tools)
			equals(s, beam.ParDo(s, stampedRecord, signed.Errors), nil)
			sent := transforms.EncodeIntents(s, transforms.EncodeIntentsParams{}, signed.Intents)
			equals(s, beam.ParDo(s, stampedRecord, sent.Errors), nil)
			received := transforms.DecodeIntents(s, sent.Encoded)
			equals(s, beam.ParDo(s, stampedRecord, received.Errors), nil)
			verified := transforms.VerifyIntents(s, transforms.VerifyParams{Mode: intent.ModeRequire, Keyring: ref}, received.Intents)
			if passes {
				equals(s, beam.ParDo(s, stampedIntent, verified.Intents), []string{fmt.Sprintf("7000 %x", signedWith(t, signing, in))})
			} else {
				equals(s, beam.ParDo(s, stampedIntent, verified.Intents), nil)
			}
			equals(s, beam.ParDo(s, stampedRecord, verified.Errors), func() []string {
				if passes {
					return nil
				}
				var lost pb.ToolIntent
				if err := proto.Unmarshal(signedWith(t, signing, in), &lost); err != nil {
					t.Fatal(err)
				}
				return []string{intentRecord("unknown_signing_key", "unknown_signing_key", `the keyring has no key "new"`, &lost)}
			}())
		})
	}
}

func signedWith(t *testing.T, ref string, in *pb.ToolIntent) []byte {
	t.Helper()
	ring, err := intent.LoadKeyring(ref)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := intent.NewSigner(ring, "new")
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(in)
	if err != nil {
		t.Fatal(err)
	}
	return canonical(signed)
}

// withoutEncoding makes what only user code that is fused with a transform can hand to
// it: an intent that its coder would refuse, and fail the bundle with.
func withoutEncoding(raw []byte) *pb.ToolIntent {
	in := toolIntent(nil)
	switch string(raw) {
	case "nil":
		return nil
	case "tool_name":
		in.ToolName = "a\xffb"
	case "args_json":
		in.ArgsJson, in.Kind = "\xfe", pb.ToolIntent_APPROVAL
	case "intent_id":
		in.IntentId = "\xc3"
	case "signing_key_id":
		in.SigningKeyId = "\xff\xff"
	case "signed":
		in.SignatureScheme, in.SigningKeyId, in.Signature, in.ToolName = 1, "k1", []byte("x"), "\xff"
	case "kind":
		in.Kind, in.ToolName = 9, "\xff"
	}
	return in
}

func TestIntentsWithoutEncoding(t *testing.T) {
	const repaired = "; the input has U+FFFD where text was not UTF-8"
	kept := map[string]*pb.ToolIntent{
		"tool_name":      toolIntent(func(in *pb.ToolIntent) { in.ToolName = "a\ufffdb" }),
		"args_json":      toolIntent(func(in *pb.ToolIntent) { in.ArgsJson, in.Kind = "\ufffd", pb.ToolIntent_APPROVAL }),
		"intent_id":      toolIntent(func(in *pb.ToolIntent) { in.IntentId = "\ufffd" }),
		"signing_key_id": toolIntent(func(in *pb.ToolIntent) { in.SigningKeyId = "\ufffd" }),
		"kind":           toolIntent(func(in *pb.ToolIntent) { in.Kind, in.ToolName = 9, "\ufffd" }),
		"signed": toolIntent(func(in *pb.ToolIntent) {
			in.SignatureScheme, in.SigningKeyId, in.Signature, in.ToolName = 1, "k1", []byte("x"), "\ufffd"
		}),
	}
	words := []string{"nil", "tool_name", "args_json", "intent_id", "signing_key_id", "kind", "signed", "fine"}
	// want is the records, one for each word but fine, unless another is given.
	want := func(code string, other map[string]string) (lines []string) {
		for _, word := range words[:len(words)-1] {
			field := word
			if word == "kind" || word == "signed" {
				field = "tool_name"
			}
			line, ok := other[word]
			switch {
			case ok:
			case word == "nil":
				line = fmt.Sprintf(`7000 "" intent_dead_letter at 0: {"code":%q,"error":"intent: invalid intent: nil",`+
					`"input":"","input_kind":"intent"}`, code)
			default:
				line = intentRecord("intent_dead_letter", code, "intent: invalid intent: "+field+" is not UTF-8"+repaired, kept[word])
			}
			lines = append(lines, line)
		}
		return lines
	}
	fine := toolIntent(nil)
	ref := ringFile(t, "k1", "one", "new", "two")
	verify := func(mode intent.Mode) func(s beam.Scope, col beam.PCollection) (out, errs beam.PCollection) {
		return func(s beam.Scope, col beam.PCollection) (out, errs beam.PCollection) {
			v := transforms.VerifyIntents(s, transforms.VerifyParams{Mode: mode, Keyring: ref}, col)
			return beam.ParDo(s, stampedIntent, v.Intents), v.Errors
		}
	}
	unsigned := map[string]string{
		"nil": `7000 "" unsigned_intent at 0: {"code":"unsigned_intent","error":"the intent has no signature","input":"","input_kind":"intent"}`,
	}
	for word, in := range kept {
		unsigned[word] = intentRecord("unsigned_intent", "unsigned_intent", "the intent has no signature"+repaired, in)
	}
	unsigned["signed"] = intentRecord("bad_signature", "bad_signature",
		`the signature is not that of this intent with key "k1"`+repaired, kept["signed"])
	for name, tc := range map[string]struct {
		build func(s beam.Scope, col beam.PCollection) (out, errs beam.PCollection)
		out   []string
		errs  []string
	}{
		"RouteIntents": {
			func(s beam.Scope, col beam.PCollection) (out, errs beam.PCollection) {
				r := transforms.RouteIntents(s, col)
				equals(s, beam.ParDo(s, stampedIntent, r.Approvals), nil)
				return beam.ParDo(s, stampedIntent, r.Tools), r.Errors
			},
			[]string{fmt.Sprintf("7000 %x", canonical(fine))},
			want("serialize", map[string]string{"kind": intentRecord("unknown_kind", "unknown_kind",
				"kind 9 is neither a tool call nor an approval"+repaired, kept["kind"])}),
		},
		"SignIntents": {
			func(s beam.Scope, col beam.PCollection) (out, errs beam.PCollection) {
				r := transforms.SignIntents(s, transforms.SignParams{Keyring: ref, KeyID: "new"}, col)
				return beam.ParDo(s, stampedIntent, r.Intents), r.Errors
			},
			[]string{fmt.Sprintf("7000 %x", signedWith(t, ref, fine))}, want("sign", nil),
		},
		"EncodeIntents": {
			func(s beam.Scope, col beam.PCollection) (out, errs beam.PCollection) {
				r := transforms.EncodeIntents(s, transforms.EncodeIntentsParams{}, col)
				return beam.ParDo(s, stampedMessage, r.Encoded), r.Errors
			},
			[]string{fmt.Sprintf(`7000 "k" %x`, canonical(fine))}, want("serialize", nil),
		},
		"VerifyIntents off":     {verify(intent.ModeOff), []string{fmt.Sprintf("7000 %x", canonical(fine))}, want("serialize", nil)},
		"VerifyIntents lenient": {verify(intent.ModePermissive), []string{fmt.Sprintf("7000 %x", canonical(fine))}, want("serialize", map[string]string{"signed": unsigned["signed"]})},
		"VerifyIntents": {
			verify(intent.ModeRequire), nil,
			append(want("", unsigned), intentRecord("unsigned_intent", "unsigned_intent", "the intent has no signature", fine)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var inputs [][]byte
			for _, word := range words {
				inputs = append(inputs, append([]byte{7}, word...))
			}
			onBothRunners(t, func(s beam.Scope) {
				out, errs := tc.build(s, beam.ParDo(s, withoutEncoding, beam.ParDo(s, stamp, beam.CreateList(s, inputs))))
				equals(s, out, tc.out)
				equals(s, beam.ParDo(s, stampedRecord, errs), tc.errs)
			})
		})
	}
}

// A dead letter keeps the whole intent.
func TestIntentLetterRoundTrip(t *testing.T) {
	in := goldenIntent(t, "tool_intent_future_field")
	onBothRunners(t, func(s beam.Scope) {
		verified := transforms.VerifyIntents(s, transforms.VerifyParams{Mode: intent.ModeRequire, Keyring: ringFile(t, "k", "x")}, decodedIntents(s, in))
		equals(s, beam.ParDo(s, stampedIntent, verified.Intents), nil)
		sent := transforms.EncodeErrors(s, transforms.EncodeErrorsParams{}, verified.Errors)
		equals(s, beam.ParDo(s, stampedRecord, sent.TooLarge), nil)
		read := transforms.DecodeErrors(s, sent.Encoded)
		equals(s, beam.ParDo(s, stampedRecord, read.Errors), nil)
		equals(s, beam.ParDo(s, stampedLetter, read.Records), []string{fmt.Sprintf(
			`7000 unknown_signing_key/unknown_signing_key key=entity-1 time=1700000000000 intent=%s redriven=0: the keyring has no key "golden-k1"`,
			short(canonical(in)))})
	})
}

// short is an input as stampedLetter prints it.
func short(input []byte) string {
	if text := hex.EncodeToString(input); len(text) <= 200 {
		return text
	}
	return fmt.Sprintf("%d bytes", len(input))
}

func TestIntentParamsPanics(t *testing.T) {
	const key = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
	intents := func(s beam.Scope) beam.PCollection { return beam.Create(s, toolIntent(nil)) }
	sign := func(ref, id string) func(s beam.Scope) {
		return func(s beam.Scope) {
			_ = transforms.SignIntents(s, transforms.SignParams{Keyring: ref, KeyID: id}, intents(s)).Errors
		}
	}
	verify := func(mode intent.Mode, ref string) func(s beam.Scope) {
		return func(s beam.Scope) {
			_ = transforms.VerifyIntents(s, transforms.VerifyParams{Mode: mode, Keyring: ref}, intents(s)).Errors
		}
	}
	const setRef = "set env:NAME or file:/path"
	for name, tc := range map[string]struct {
		build func(s beam.Scope)
		want  string
	}{
		"sign, no keyring":          {sign("", "k1"), setRef},
		"sign, another scheme":      {sign("vault:keys", "k1"), setRef},
		"sign, a keyring itself":    {sign("k1="+key, "k1"), setRef},
		"sign, no name":             {sign("env:", "k1"), setRef},
		"sign, no absolute path":    {sign("file:"+key, "k1"), setRef},
		"sign, a control character": {sign("env:KEYS", "k\x001"), "no keyring can hold this id"},
		"sign, a byte order mark":   {sign("env:KEYS", "\ufeffk1"), "no keyring can hold this id"},
		"sign, no key id":           {sign("env:KEYS", ""), "set the id of a key"},
		"sign, a line as id":        {sign("env:KEYS", "k1="+key), "no keyring can hold this id"},
		"sign, two lines":           {sign("env:KEYS", "k1\nk2"), "no keyring can hold this id"},
		"sign, a comment":           {sign("env:KEYS", "#k1"), "no keyring can hold this id"},
		"sign, a space in front":    {sign("env:KEYS", " k1"), "no keyring can hold this id"},
		"sign, a space behind":      {sign("env:KEYS", "k1 "), "no keyring can hold this id"},
		"sign, not UTF-8":           {sign("env:KEYS", "\xff"), "no keyring can hold this id"},
		"verify, another mode":      {verify("Require", "env:KEYS"), "want off, permissive or require"},
		"verify, no keyring":        {verify(intent.ModeRequire, ""), setRef},
		"verify leniently, none":    {verify(intent.ModePermissive, ""), setRef},
		"verify, another scheme":    {verify(intent.ModeRequire, "http:x"), setRef},
		"verify off, a bad keyring": {verify(intent.ModeOff, "k1="+key), setRef},
		"verify, no mode":           {verify("", "env:KEYS"), "VerifyParams.Mode is empty; set intent.ModeRequire"},
		"verify, nothing set":       {verify("", ""), "VerifyParams.Mode is empty; set intent.ModeRequire"},
		"encode, negative MaxBytes": {func(s beam.Scope) {
			_ = transforms.EncodeIntents(s, transforms.EncodeIntentsParams{MaxBytes: -1}, intents(s)).Errors
		}, "EncodeIntentsParams.MaxBytes is -1; set"},
		"decode, another type": {func(s beam.Scope) { _ = transforms.DecodeIntents(s, beam.Create(s, "text")).Errors },
			"transforms.DecodeIntents: the input is of string: give it []byte or KV<[]byte,[]byte>"},
		"decode, intents under keys": {func(s beam.Scope) {
			_ = transforms.DecodeIntents(s, beam.ParDo(s, textKeyed, beam.Create(s, []byte{}))).Errors
		},
			"give it []byte or KV<[]byte,[]byte>"},
		"another type": {func(s beam.Scope) { _ = transforms.RouteIntents(s, beam.Create(s, "text")).Errors }, "string"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				text := fmt.Sprint(recover())
				if !strings.Contains(text, tc.want) || strings.Contains(text, key) {
					t.Errorf("panic %q, want something about %q and no key", text, tc.want)
				}
			}()
			tc.build(beam.NewPipeline().Root())
		})
	}
	for _, id := range []string{"k1", "my key 1", "schlüssel-鍵", "k#1"} {
		sign("env:KEYS", id)(beam.NewPipeline().Root())
	}
}

// A worker that cannot find its key must fail.
func TestMissingKeysFailTheJob(t *testing.T) {
	ref, folder := ringFile(t, "k1", "one"), t.TempDir()
	blank := filepath.Join(folder, "blank")
	if err := os.WriteFile(blank, []byte("# no key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	type job struct {
		build func(s beam.Scope, col beam.PCollection)
		want  string
	}
	jobs := map[string]job{
		"sign, no such key": {signs(ref, "k2"), `transforms.SignIntents: intent: signing key is not in the keyring: "k2"`},
	}
	for name, tc := range map[string]struct{ ref, want string }{
		"no such file": {"file:/no/such/keyring", "intent: unusable keyring reference: open /no/such/keyring"},
		"a folder":     {"file:" + folder, "intent: unusable keyring reference: " + folder + " is not a regular file"},
		"no key in it": {"file:" + blank, "intent: unusable keyring: it holds no key"},
		"not set":      {"env:BEAMAGENTS_TEST_NOTHING", "intent: unusable keyring reference: the environment variable that it names is not set"},
	} {
		jobs["sign, "+name] = job{signs(tc.ref, "k1"), "transforms.SignIntents: " + tc.want}
		for _, mode := range []intent.Mode{intent.ModePermissive, intent.ModeRequire} {
			jobs[string(mode)+", "+name] = job{verifies(mode, tc.ref), "transforms.VerifyIntents: " + tc.want}
		}
	}
	for name, tc := range jobs {
		t.Run(name, func(t *testing.T) {
			for _, runner := range []string{"prism", "direct"} {
				p, s := beam.NewPipelineWithRoot()
				tc.build(s, decodedIntents(s, toolIntent(nil)))
				if _, err := beam.Run(context.Background(), runner, p); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: %v, want something about %q", runner, err, tc.want)
				}
			}
		})
	}
}

func verifies(mode intent.Mode, ref string) func(s beam.Scope, col beam.PCollection) {
	return func(s beam.Scope, col beam.PCollection) {
		verified := transforms.VerifyIntents(s, transforms.VerifyParams{Mode: mode, Keyring: ref}, col)
		equals(s, beam.ParDo(s, stampedRecord, verified.Errors), nil)
	}
}

func signs(ref, id string) func(s beam.Scope, col beam.PCollection) {
	return func(s beam.Scope, col beam.PCollection) {
		signed := transforms.SignIntents(s, transforms.SignParams{Keyring: ref, KeyID: id}, col)
		equals(s, beam.ParDo(s, stampedRecord, signed.Errors), nil)
	}
}
