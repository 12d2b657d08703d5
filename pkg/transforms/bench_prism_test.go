package transforms_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	register.Function2x0(benchmarkBytes)
	register.Function2x0(benchmarkKeyed)
	register.Function2x0(identityBytes)
	register.Function3x0(identityKeyed)
	register.Function1x0(drainEnvelope)
	register.Function1x0(drainBytes)
	register.Function2x0(drainKeyedEnvelope)
	register.Function2x0(drainKeyedEvent)
	register.Function2x0(drainKeyedResult)
	register.Function2x0(drainKeyedApproval)
	register.Function2x0(drainKeyedExport)
	register.Function1x0(drainError)
	register.Emitter1[[]byte]()
	register.Emitter2[[]byte, *pb.AgentEnvelope]()
}

// benchmarkEnvelopes is how many elements a benchmark sends through Prism.
const benchmarkEnvelopes = 100_000

// benchmarkEnvelope is the i-th of them, 0.3 KiB; one in four is an answer.
func benchmarkEnvelope(i int) *pb.AgentEnvelope {
	env := event(1_700_000_000_000+int64(i), fmt.Sprintf("customer-%04d", i%1000), "")
	content := bytes.Repeat([]byte("c"), 270)
	if i%4 > 0 {
		env.Payload = &pb.AgentEnvelope_ExternalEvent{ExternalEvent: content}
	} else {
		env.Payload = &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{IntentId: "i", Status: pb.ToolResult_OK, Payload: content}}
	}
	return env
}

func benchmarkBytes(_ []byte, emit func([]byte)) {
	for i := range benchmarkEnvelopes {
		emit(canonical(benchmarkEnvelope(i)))
	}
}

func benchmarkKeyed(_ []byte, emit func([]byte, *pb.AgentEnvelope)) {
	for i := range benchmarkEnvelopes {
		env := benchmarkEnvelope(i)
		emit(env.GetEntityKey(), env)
	}
}

func identityBytes(raw []byte, emit func([]byte)) { emit(raw) }

func identityKeyed(key []byte, env *pb.AgentEnvelope, emit func([]byte, *pb.AgentEnvelope)) {
	emit(key, env)
}

func drainBytes([]byte)                                             {}
func drainEnvelope(*pb.AgentEnvelope)                               {}
func drainKeyedEnvelope([]byte, *pb.AgentEnvelope)                  {}
func drainKeyedEvent([]byte, []byte)                                {}
func drainKeyedResult([]byte, *pb.ToolResult)                       {}
func drainKeyedApproval([]byte, *pb.AgentEnvelope_Approval)         {}
func drainKeyedExport([]byte, *pb.AgentEnvelope_StateExportRequest) {}
func drainError(*pb.ActivationErrorRecord)                          {}

// BenchmarkPrism compares a transform with a ParDo that passes on what it gets, of the
// same element type. make bench prints the ratio of the throughputs. Nothing here is
// timed apart from whole pipelines, with what makes the elements in them.
func BenchmarkPrism(b *testing.B) {
	keyed := func(s beam.Scope) beam.PCollection {
		return beam.ParDo(s, benchmarkKeyed, beam.Impulse(s))
	}
	raw := func(s beam.Scope) beam.PCollection {
		return beam.ParDo(s, benchmarkBytes, beam.Impulse(s))
	}
	for _, bench := range []struct {
		name  string
		build func(s beam.Scope)
	}{
		{"transform=ParseEnvelopes/by=identity", func(s beam.Scope) {
			beam.ParDo0(s, drainBytes, beam.ParDo(s, identityBytes, raw(s)))
		}},
		{"transform=ParseEnvelopes/by=ours", func(s beam.Scope) {
			parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, raw(s))
			beam.ParDo0(s, drainEnvelope, parsed.Envelopes)
			beam.ParDo0(s, drainError, parsed.Errors)
		}},
		{"transform=Route/by=identity", func(s beam.Scope) {
			beam.ParDo0(s, drainKeyedEnvelope, beam.ParDo(s, identityKeyed, keyed(s)))
		}},
		{"transform=Route/by=ours", func(s beam.Scope) {
			routed := transforms.Route(s, keyed(s))
			beam.ParDo0(s, drainKeyedEvent, routed.Events)
			beam.ParDo0(s, drainKeyedResult, routed.ToolResults)
			beam.ParDo0(s, drainKeyedApproval, routed.Approvals)
			beam.ParDo0(s, drainKeyedExport, routed.ExportRequests)
			beam.ParDo0(s, drainError, routed.Errors)
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				p, s := beam.NewPipelineWithRoot()
				bench.build(s)
				if _, err := beam.Run(context.Background(), "prism", p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(benchmarkEnvelopes*b.N)/b.Elapsed().Seconds(), "elements/s")
		})
	}
}
