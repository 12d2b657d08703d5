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
// one hash that is reset. The metrics x_hmac_new and x_hmac_reset are the time of the
// one over that of the other in the same run.
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

	bare := make(map[string]float64)
	report := func(b *testing.B) {
		for name, ns := range bare {
			b.ReportMetric(perOp(b)/ns, "x_"+name)
		}
	}
	b.Run("hmac_new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write(input)
			mac.Sum(nil)
		}
		bare["hmac_new"] = perOp(b)
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
		bare["hmac_reset"] = perOp(b)
	})
	b.Run("sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Sign(in); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if ring.Verify(signed) != intent.OK {
				b.Fatal("not ok")
			}
		}
		report(b)
	})
}

// perOp returns the nanoseconds of one operation.
func perOp(b *testing.B) float64 { return float64(b.Elapsed().Nanoseconds()) / float64(b.N) }

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
