package intent_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/intent"
)

// BenchmarkSigning signs and verifies an intent of 1 KiB, beside the HMAC of the
// same bytes alone: with a new hash each time, as it is mostly written, and with
// one hash that is reset.
func BenchmarkSigning(b *testing.B) {
	in := full()
	in.ArgsJson = `{"text":"` + strings.Repeat("x", 900) + `"}`
	in.ArgsJson += strings.Repeat(" ", 1024-len(encode(b, in)))
	input := encode(b, in)
	if len(input) != 1024 {
		b.Fatalf("%d bytes", len(input))
	}
	key := counting()
	ring := keyring(b, "k1", key)
	s := signer(b, ring, "k1")
	signed := sign(b, s, in)

	b.Run("sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Sign(in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if ring.Verify(signed) != intent.OK {
				b.Fatal("not ok")
			}
		}
	})
	b.Run("hmac_new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write(input)
			mac.Sum(nil)
		}
	})
	b.Run("hmac_reset", func(b *testing.B) {
		b.ReportAllocs()
		mac := hmac.New(sha256.New, []byte(key))
		sum := make([]byte, 0, sha256.Size)
		for b.Loop() {
			mac.Reset()
			mac.Write(input)
			mac.Sum(sum)
		}
	})
}

func BenchmarkIdentity(b *testing.B) {
	key := []byte("entity-1")
	b.Run("ID", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			intent.ID(key, 7, 2)
		}
	})
	b.Run("SpanID", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			intent.SpanID(key, 7, intent.RoleActivation, 0)
		}
	})
}
