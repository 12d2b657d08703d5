package tracing

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"go.opentelemetry.io/otel/trace"

	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// IntentContext returns the span in which an intent was emitted. The program that executes
// the intent continues its trace with it:
//
//	ctx = trace.ContextWithRemoteSpanContext(ctx, tracing.IntentContext(in))
//	ctx, span := tracer.Start(ctx, "execute_tool "+in.GetToolName())
//
// The context is not valid if the intent carries no trace id, or one of another width than
// 16 bytes.
func IntentContext(in *pb.ToolIntent) trace.SpanContext {
	if len(in.GetTraceId()) != 16 {
		return trace.SpanContext{}
	}
	span := intent.SpanID(in.GetEntityKey(), in.GetSeq(), intent.RoleOf(pb.TraceEvent_INTENT_EMITTED), in.GetStepIndex())
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(in.GetTraceId()), SpanID: span, TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// Sampled reports whether a trace is among the sampled ones, a share ratio of all, with
// ratio from 0 (none) to 1 (all). It depends on the trace id alone, so that all spans of a
// trace are sampled or none, and what a smaller ratio samples a larger one samples, too.
//
// The samplers of OpenTelemetry compare bits of the id itself, which are the same in each
// trace id of package intent. Sampled compares the first 8 bytes of the id's SHA-256, as a
// big-endian number, with ratio times 2^64.
func Sampled(traceID []byte, ratio float64) bool {
	if ratio >= 1 {
		return true
	}
	sum := sha256.Sum256(traceID)
	// 53 bits are what a float64 holds exactly.
	return float64(binary.BigEndian.Uint64(sum[:])>>11) < ratio*(1<<53) && !math.IsNaN(ratio)
}
