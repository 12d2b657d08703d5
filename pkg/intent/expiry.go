package intent

import (
	"bytes"
	"fmt"

	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Expired reports whether in must not be executed any more at nowMs, in ms of the
// Unix epoch: from its expiry on, and always if that is 0 or below. Nil is
// expired.
func Expired(in *beamagentspb.ToolIntent, nowMs int64) bool {
	expires := in.GetExpiresAtMs()
	return expires <= 0 || expires <= nowMs
}

// ExpiredResult returns the answer to an intent that [Expired] at nowMs: status
// EXPIRED, the intent's id, entity key and seq, completed at nowMs. It shares no
// memory with in.
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
