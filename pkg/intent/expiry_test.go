package intent_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/beamagents/beamagents-go/pkg/intent"
	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func TestExpired(t *testing.T) {
	for _, tt := range []struct {
		expires, now int64
		want         bool
	}{
		{61000, 60999, false},
		{61000, 61000, true},
		{61000, 61001, true},
		{1, 0, false},
		{1, math.MinInt64, false},
		{0, -1, true},
		{-1, -2, true},
		{math.MinInt64, math.MinInt64, true},
		{math.MaxInt64, math.MaxInt64 - 1, false},
		{math.MaxInt64, math.MaxInt64, true},
	} {
		for kind := range beamagentspb.ToolIntent_Kind(4) {
			in := &beamagentspb.ToolIntent{ExpiresAtMs: tt.expires, Kind: kind}
			if got := intent.Expired(in, tt.now); got != tt.want {
				t.Errorf("Expired(%d, %d) of kind %d = %v", tt.expires, tt.now, kind, got)
			}
		}
	}
	if !intent.Expired(nil, math.MinInt64) {
		t.Error("nil is not expired")
	}
}

func TestExpiredResult(t *testing.T) {
	in := &beamagentspb.ToolIntent{IntentId: "id", EntityKey: []byte("k"), Seq: 7, ExpiresAtMs: 61000, ToolName: "t"}
	got := intent.ExpiredResult(in, 70000)
	in.EntityKey[0] = 'x'
	want := &beamagentspb.ToolResult{
		IntentId: "id", EntityKey: []byte("k"), Seq: 7, Status: beamagentspb.ToolResult_EXPIRED,
		ErrorMessage: "intent expired at 61000", CompletedAtMs: 70000,
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	in.ExpiresAtMs = -5
	if got := intent.ExpiredResult(in, 0).ErrorMessage; got != "intent expired at -5" {
		t.Errorf("message %q", got)
	}
}
