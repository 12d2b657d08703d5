package intent_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/intent"
	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func TestID(t *testing.T) {
	for _, tt := range []struct {
		key  string
		seq  int64
		step uint32
		want string
	}{
		{"k", 0, 0, "6509fb29-9e35-5f25-bf85-b7860d49a026"},
		{"k", 0, 1, "2e047468-1bb8-5717-8cb0-d8e98f15a767"},
		{"entity-1", 7, 2, "ae132720-ef00-5246-b526-5b18bec03dd0"},
		{"", 0, 0, "30db89a2-7585-5735-849e-0be871f4c11d"},
	} {
		if got := intent.ID([]byte(tt.key), tt.seq, tt.step); got != tt.want {
			t.Errorf("ID(%q, %d, %d) = %s, want %s", tt.key, tt.seq, tt.step, got, tt.want)
		}
	}
}

func TestTraceID(t *testing.T) {
	for _, tt := range []struct {
		key  string
		seq  int64
		want string
	}{
		{"k", 0, "2bf05d87d33251718085abe0727ad51a"},
		{"entity-1", 7, "79734ee4e9db598ab4dad4ad43d01b84"},
	} {
		id := intent.TraceID([]byte(tt.key), tt.seq)
		if got := hex.EncodeToString(id[:]); got != tt.want {
			t.Errorf("TraceID(%q, %d) = %s, want %s", tt.key, tt.seq, got, tt.want)
		}
	}
}

func TestSpanID(t *testing.T) {
	for _, tt := range []struct {
		role  string
		index uint32
		want  string
	}{
		{intent.RoleOf(beamagentspb.TraceEvent_ACTIVATION_START), 0, "7b3127885df6577e"},
		{intent.RoleOf(beamagentspb.TraceEvent_ACTIVATION_END), 2, "779ae21a06c85c0d"},
		{intent.RoleOf(beamagentspb.TraceEvent_LLM_CALL), 0, "d8f49edb39065909"},
		{intent.RoleOf(beamagentspb.TraceEvent_INTENT_EMITTED), 1, "babdc904666057c8"},
		{intent.RoleOf(beamagentspb.TraceEvent_SUSPENDED), 2, "351fe3c326875f50"},
		{intent.RoleOf(beamagentspb.TraceEvent_TOOL_CALL), 0, "04792d4bfa0b5844"},
		{intent.RoleOf(beamagentspb.TraceEvent_ERROR), 0, "2fe2b76bfa6454b5"},
		{intent.RoleTimer, 0, "36ed932d3e215e7f"},
	} {
		id := intent.SpanID([]byte("k"), 0, tt.role, tt.index)
		if got := hex.EncodeToString(id[:]); got != tt.want {
			t.Errorf("SpanID(k, 0, %s, %d) = %s, want %s", tt.role, tt.index, got, tt.want)
		}
	}
	if got := intent.RoleOf(99); got != "99" {
		t.Errorf("RoleOf(99) = %s", got)
	}
}

// Another implementation of version 5 UUIDs agrees, for keys of any length.
func TestIdentitiesAreUUIDs(t *testing.T) {
	intents := uuid.MustParse("6f3e9d2a-1c47-5b8e-9a10-2d4f6b8c0e11")
	traces := uuid.MustParse("b1d7c4e2-93a6-5f08-8c31-7e5a9d0f2b46")
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "key")
		seq := rapid.Int64().Draw(t, "seq")
		step := rapid.Uint32().Draw(t, "step")
		role := rapid.SampledFrom([]string{"activation", "timer", "LLM_CALL", "ERROR-" + hex.EncodeToString(make([]byte, 64))}).Draw(t, "role")

		if got, want := intent.ID(key, seq, step), uuid.NewSHA1(intents, fmt.Appendf(nil, "%x|%d|%d", key, seq, step)); got != want.String() {
			t.Errorf("ID = %s, want %s", got, want)
		}
		trace := uuid.NewSHA1(traces, fmt.Appendf(nil, "%x|%d", key, seq))
		if got := intent.TraceID(key, seq); got != trace {
			t.Errorf("TraceID = %x, want %x", got, trace)
		}
		even := intent.EvenTraceID(key, seq)
		even[6], even[8] = even[6]&0x0f|0x50, even[8]&0x3f|0x80
		if even != trace {
			t.Errorf("EvenTraceID differs from %x in more than six bits", trace)
		}
		span := uuid.NewSHA1(traces, fmt.Appendf(nil, "%x|%d|%s|%d", key, seq, role, step))
		if got := intent.SpanID(key, seq, role, step); got != [8]byte(span[:8]) {
			t.Errorf("SpanID = %x, want %x", got, span[:8])
		}
	})
}

// samplers are the parts of a trace id that ratio samplers compare with the ratio,
// as numbers from 0 to 1.
var samplers = map[string]func(id [16]byte) float64{
	"last 63 bits of the low half": func(id [16]byte) float64 {
		return float64(binary.BigEndian.Uint64(id[8:])>>1) / (1 << 63)
	},
	"low half": func(id [16]byte) float64 {
		return float64(binary.BigEndian.Uint64(id[8:])) / (1 << 64)
	},
	"last 56 bits": func(id [16]byte) float64 {
		return float64(binary.BigEndian.Uint64(id[8:])&(1<<56-1)) / (1 << 56)
	},
	"high half": func(id [16]byte) float64 {
		return float64(binary.BigEndian.Uint64(id[:8])) / (1 << 64)
	},
	"high half, little endian": func(id [16]byte) float64 {
		return float64(binary.LittleEndian.Uint64(id[:8])) / (1 << 64)
	},
}

func sampled(ratio float64, number func([16]byte) float64, id func([]byte, int64) [16]byte) float64 {
	const ids = 20000
	n := 0
	for i := range ids {
		if number(id(fmt.Appendf(nil, "user-%d", i/4), int64(i%4))) < ratio {
			n++
		}
	}
	return float64(n) / ids
}

func TestEvenTraceIDSamplesEvenly(t *testing.T) {
	for name, number := range samplers {
		for _, ratio := range []float64{0.01, 0.1, 0.25, 0.5, 0.6, 0.75, 0.9, 0.99} {
			got := sampled(ratio, number, intent.EvenTraceID)
			// Four standard deviations.
			if bound := 4 * math.Sqrt(ratio*(1-ratio)/20000); math.Abs(got-ratio) > bound {
				t.Errorf("%s: ratio %v takes %v", name, ratio, got)
			}
		}
	}
}

// What the documentation of TraceID warns of.
func TestTraceIDSamplesUnevenly(t *testing.T) {
	number := samplers["last 63 bits of the low half"]
	for ratio, want := range map[float64]float64{0.1: 0, 0.5: 0, 0.75: 1, 0.9: 1} {
		if got := sampled(ratio, number, intent.TraceID); got != want {
			t.Errorf("ratio %v takes %v, documented is %v", ratio, got, want)
		}
	}
}

func TestIdentityAllocations(t *testing.T) {
	messages := any([]any{map[string]any{"role": "user", "content": "hello"}})
	params := any(map[string]any{"temperature": 0.2, "max_tokens": 1024})
	for _, key := range [][]byte{nil, []byte("entity-1"), make([]byte, 1000)} {
		for name, tt := range map[string]struct {
			want float64
			f    func()
		}{
			"ID":          {1, func() { intent.ID(key, 7, 2) }},
			"TraceID":     {0, func() { intent.TraceID(key, 7) }},
			"EvenTraceID": {0, func() { intent.EvenTraceID(key, 7) }},
			"SpanID":      {0, func() { intent.SpanID(key, 7, intent.RoleActivation, 0) }},
			"CacheKey": {1, func() {
				_, _ = intent.CacheKey(intent.CacheRequest{EntityKey: key, Model: "m", Messages: messages, Params: params})
			}},
		} {
			tt.f()
			if got := testing.AllocsPerRun(1000, tt.f); got > tt.want && !racedetector.Enabled {
				t.Errorf("%s with a key of %d bytes: %v allocations, want %v", name, len(key), got, tt.want)
			}
		}
	}
}
