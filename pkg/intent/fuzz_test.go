package intent_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/pkg/intent"
	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// reference signs as the contract says it: on a copy without the three fields.
func reference(t testing.TB, in *beamagentspb.ToolIntent, key string) []byte {
	t.Helper()
	bare := proto.CloneOf(in)
	bare.SignatureScheme, bare.SigningKeyId, bare.Signature = 0, "", nil
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(encode(t, bare))
	return mac.Sum(nil)
}

func FuzzSign(f *testing.F) {
	ring := keyring(f, "k1", keyOne)
	s := signer(f, ring, "k1")
	f.Add(encode(f, full()))
	f.Add(encode(f, sign(f, s, full())))
	f.Add(fromHex(f, goldenFuture+"a01f2a"))
	f.Add([]byte("\x62\x01a\x60\x01\x6a\x00\x72\x01x\xf2\x01\x00\x70\x05"))
	f.Add([]byte("\x50\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x18\x87\x80\x00"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		in := new(beamagentspb.ToolIntent)
		if proto.Unmarshal(wire, in) != nil {
			return
		}
		got := ring.Verify(in)
		if want := len(in.Signature) > 0 && in.SignatureScheme == 1 && in.SigningKeyId == "k1" &&
			bytes.Equal(in.Signature, reference(t, in, keyOne)); (got == intent.OK) != want {
			t.Fatalf("Verify = %s of a signature that is right: %v", got, want)
		}
		signed := sign(t, s, in)
		if !bytes.Equal(signed.Signature, reference(t, in, keyOne)) {
			t.Fatal("the signature is not that of the encoding without fields 12 to 14")
		}
		if got := ring.Verify(decode(t, encode(t, signed))); got != intent.OK {
			t.Fatalf("Verify of what was signed = %s", got)
		}
	})
}

func FuzzParseKeyring(f *testing.F) {
	f.Add("k1=" + one + "\n# c\n\n my key = " + two + "\nk1=" + one)
	f.Add("k1=\n=" + one + "\n\xff=" + one + "\nk1=b25lMQ")
	f.Fuzz(func(t *testing.T, text string) {
		ring, err := intent.ParseKeyring(text)
		if err != nil {
			if ring != nil || !errors.Is(err, intent.ErrKeyring) || len(err.Error()) > 140 {
				t.Fatalf("ParseKeyring(%q) = %v, %v", text, ring, err)
			}
			return
		}
		found := 0
		for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
			id, _, _ := strings.Cut(line, "=")
			if s, err := intent.NewSigner(ring, strings.TrimSpace(id)); err == nil {
				found++
				if signed, err := s.Sign(full()); err != nil || ring.Verify(signed) != intent.OK {
					t.Fatalf("key %q of %q: %v", id, text, err)
				}
			}
		}
		if found == 0 {
			t.Fatalf("ParseKeyring(%q) has no key", text)
		}
	})
}

// Signing any intent with any key: it verifies, after the wire too, with no other
// key, and the signature is the one that the contract says.
func TestSignProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := &beamagentspb.ToolIntent{
			IntentId:        rapid.String().Draw(rt, "intent_id"),
			EntityKey:       rapid.SliceOf(rapid.Byte()).Draw(rt, "entity_key"),
			Seq:             rapid.Int64().Draw(rt, "seq"),
			StepIndex:       rapid.Uint32().Draw(rt, "step_index"),
			ToolName:        rapid.String().Draw(rt, "tool_name"),
			ArgsJson:        rapid.String().Draw(rt, "args_json"),
			CreatedAtMs:     rapid.Int64().Draw(rt, "created_at_ms"),
			ExpiresAtMs:     rapid.Int64().Draw(rt, "expires_at_ms"),
			Attempt:         rapid.Uint32().Draw(rt, "attempt"),
			Kind:            beamagentspb.ToolIntent_Kind(rapid.Int32().Draw(rt, "kind")),
			TraceId:         rapid.SliceOf(rapid.Byte()).Draw(rt, "trace_id"),
			SignatureScheme: beamagentspb.ToolIntent_SignatureScheme(rapid.Int32().Draw(rt, "scheme")),
			SigningKeyId:    rapid.String().Draw(rt, "signing_key_id"),
			Signature:       rapid.SliceOf(rapid.Byte()).Draw(rt, "signature"),
		}
		key := string(rapid.SliceOfN(rapid.Byte(), 16, 100).Draw(rt, "key"))
		ring := keyring(t, "k1", key, "k2", key+"x")
		signed := sign(t, signer(t, ring, "k1"), in)
		if !bytes.Equal(signed.Signature, reference(t, in, key)) {
			rt.Fatal("another signature")
		}
		signed = decode(t, encode(t, signed))
		if got := ring.Verify(signed); got != intent.OK {
			rt.Fatalf("Verify = %s", got)
		}
		signed.SigningKeyId = "k2"
		if got := ring.Verify(signed); got != intent.BadSignature {
			rt.Fatalf("Verify with another key = %s", got)
		}
	})
}
