package tracing

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"go.opentelemetry.io/otel/trace"

	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// IntentContext returns the span that emitted an intent. The program that executes the intent
// continues the trace with it:
//
//	ctx = trace.ContextWithRemoteSpanContext(ctx, tracing.IntentContext(in))
//	ctx, span := tracer.Start(ctx, "execute_tool "+in.GetToolName())
//
// The context is invalid if the intent has no trace id, or one that is not 16 bytes long.
func IntentContext(in *pb.ToolIntent) trace.SpanContext {
	if len(in.GetTraceId()) != 16 {
		return trace.SpanContext{}
	}
	span := intent.SpanID(in.GetEntityKey(), in.GetSeq(), intent.RoleOf(pb.TraceEvent_INTENT_EMITTED), in.GetStepIndex())
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(in.GetTraceId()), SpanID: span, TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// Sampled reports whether a trace is sampled. ratio is the share of sampled traces, from 0 (none)
// to 1 (all). The result depends only on the trace id, so the spans of a trace are sampled
// together. A trace that is sampled at some ratio is sampled at every larger one.
//
// The samplers of OpenTelemetry compare bits of the id itself, and some of these are the same in
// every trace id of package intent. So Sampled compares the first 8 bytes of the SHA-256 of the
// id, as a big-endian number, with ratio times 2^64.
func Sampled(traceID []byte, ratio float64) bool {
	if ratio >= 1 {
		return true
	}
	sum := sha256.Sum256(traceID)
	// A float64 holds 53 bits exactly.
	return float64(binary.BigEndian.Uint64(sum[:])>>11) < ratio*(1<<53) && !math.IsNaN(ratio)
}
