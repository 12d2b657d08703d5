package intent

import (
	"bytes"
	"fmt"

	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Expired reports whether in must not be executed any more at nowMs, in ms since the Unix epoch.
// An intent expires at its expiry time. An expiry time of 0 or below is always expired, and so is
// a nil intent.
func Expired(in *beamagentspb.ToolIntent, nowMs int64) bool {
	expires := in.GetExpiresAtMs()
	return expires <= 0 || expires <= nowMs
}

// ExpiredResult returns the result for an intent that is [Expired] at nowMs: the status EXPIRED,
// the intent's id, entity key and seq, and nowMs as the time of completion. It shares no memory
// with in.
func ExpiredResult(in *beamagentspb.ToolIntent, nowMs int64) *beamagentspb.ToolResult {
	return &beamagentspb.ToolResult{
		IntentId:      in.GetIntentId(),
		EntityKey:     bytes.Clone(in.GetEntityKey()),
		Seq:           in.GetSeq(),
		Status:        beamagentspb.ToolResult_EXPIRED,
		ErrorMessage:  fmt.Sprintf("intent expired at %d", in.GetExpiresAtMs()),
		CompletedAtMs: nowMs,
	}
}
