package coders_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"google.golang.org/protobuf/proto"

	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// These are messages to Beam, and none of ours: it gives them its built-in proto coder.
type (
	beamMemoryBlob         struct{ pb.MemoryBlob }
	beamToolIntent         struct{ pb.ToolIntent }
	beamToolResult         struct{ pb.ToolResult }
	beamTraceEvent         struct{ pb.TraceEvent }
	beamAgentEnvelope      struct{ pb.AgentEnvelope }
	beamApproval           struct{ pb.AgentEnvelope_Approval }
	beamStateExportRequest struct {
		pb.AgentEnvelope_StateExportRequest
	}
	beamContinuation          struct{ pb.Continuation }
	beamLlmCacheBlob          struct{ pb.LlmCacheBlob }
	beamActivationErrorRecord struct{ pb.ActivationErrorRecord }
	beamStateSnapshot         struct{ pb.StateSnapshot }
	beamKeyControl            struct{ runtimepb.KeyControl }
	beamDeferredEvent         struct{ runtimepb.DeferredEvent }
)

// sizes are the benchmarked encodings, in bytes. An encoding is within a tenth of its
// size, or one element of a list away.
var sizes = []struct {
	name  string
	bytes int
}{{"0.3KiB", 307}, {"1KiB", 1 << 10}, {"16KiB", 16 << 10}, {"100KiB", 100 << 10}}

// benchmarked makes each travelling message in about size bytes, filled as pipelines
// fill it, and the same content in an empty message with Beam's built-in coder.
func benchmarked(size int) []struct{ ours, builtin proto.Message } {
	const (
		t0    = 1_700_000_000_000
		id    = "11111111-2222-5333-8444-555555555555"
		value = 256 // of a memory entry, in bytes
		reply = 2048
	)
	key, trace := []byte("customer-000042"), bytes.Repeat([]byte{7}, 16)
	text := func(fixed int) string { return strings.Repeat("conversation ", max(size-fixed, 0)/13) }
	memory := func(size int) *pb.MemoryBlob {
		m := &pb.MemoryBlob{StateSchemaVersion: 1}
		for i := range max(size/(value+40), 1) {
			m.Entries = append(m.Entries, &pb.MemoryEntry{
				Key: fmt.Sprintf("conversation/turn/%04d", i), Value: bytes.Repeat([]byte{'v'}, value), LastAccessMs: t0,
			})
		}
		m.TotalValueBytes = int64(value * len(m.Entries))
		return m
	}
	cache := func(size int) *pb.LlmCacheBlob {
		m := &pb.LlmCacheBlob{StateSchemaVersion: 1}
		response := min(reply, max(size-130, 0))
		for range max(size/(response+130), 1) {
			m.Entries = append(m.Entries, &pb.LlmCacheEntry{
				CacheKey: strings.Repeat("0f", 32), Response: bytes.Repeat([]byte{'r'}, response), ResponseDigest: bytes.Repeat([]byte{9}, 32),
				CreatedAtMs: t0, LastAccessMs: t0,
			})
		}
		m.TotalResponseBytes = int64(response * len(m.Entries))
		return m
	}
	intent := func(args string) *pb.ToolIntent {
		return &pb.ToolIntent{
			IntentId: id, EntityKey: key, Seq: 7, StepIndex: 2, ToolName: "http.post", ArgsJson: args, CreatedAtMs: t0,
			ExpiresAtMs: t0 + 60000, Kind: pb.ToolIntent_TOOL, TraceId: trace,
		}
	}
	continuation := &pb.Continuation{
		StateSchemaVersion: 1, Seq: 7, StepIndex: 2, PendingIntentIds: []string{id, id}, Adapter: "triage",
		Snapshot: []byte(text(130)), SuspendedAtMs: t0, DeadlineMs: t0,
	}
	event := &pb.TraceEvent{
		TraceId: trace, SpanId: trace[:8], ParentSpanId: trace[:8], EntityKey: key, Seq: 7, StepIndex: 2,
		EventType: pb.TraceEvent_LLM_CALL, StartMs: t0, EndMs: t0 + 500,
		Attributes: map[string]string{
			"gen_ai.request.model": "model-1", "gen_ai.usage.input_tokens": "1234",
			"gen_ai.usage.output_tokens": "567", "gen_ai.operation.name": "chat", "gen_ai.output.messages": text(285),
		},
	}
	snapshot := &pb.StateSnapshot{
		StateSchemaVersion: 1, EntityKey: key, Seq: 7, SnapshotAtMs: t0, Memory: memory(size / 2), RequestId: "export-1",
	}
	if size > 1000 {
		snapshot.LlmCache, snapshot.Pending = cache(size/2-200), []*pb.ToolIntent{intent("{}")}
	}
	control := &runtimepb.KeyControl{
		StateSchemaVersion: 1, Seq: 8, TtlMarkMs: t0, NextArrival: 1, TtlArmedMs: t0, Hour: t0 / 3_600_000, ActivationsInHour: 3,
	}
	if size > 1000 {
		control.Continuation = &pb.Continuation{
			StateSchemaVersion: 1, Seq: 7, StepIndex: 2, PendingIntentIds: []string{id, id}, Adapter: "triage",
			Snapshot: []byte(text(680)), SuspendedAtMs: t0, DeadlineMs: t0,
		}
		control.Pending, control.StartedMs = []*pb.ToolIntent{intent("{}"), intent("{}")}, t0
		control.TimeoutsInRow, control.EscalationIds, control.DrainNowMs = 1, []string{id}, t0
		for i := range uint64(14) {
			control.RecentEventIds = append(control.RecentEventIds, 1<<63+i)
		}
	} else {
		control.Pending = []*pb.ToolIntent{intent(text(175))}
	}
	return []struct{ ours, builtin proto.Message }{
		{memory(size), &beamMemoryBlob{}},
		{intent(text(130)), &beamToolIntent{}},
		{&pb.ToolResult{IntentId: id, EntityKey: key, Seq: 7, Status: pb.ToolResult_OK, Payload: []byte(text(70)), CompletedAtMs: t0}, &beamToolResult{}},
		{event, &beamTraceEvent{}},
		{&pb.AgentEnvelope{EntityKey: key, EventTimeMs: t0, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(text(28))}}, &beamAgentEnvelope{}},
		{&pb.AgentEnvelope_Approval{IntentId: id, Approved: true, Approver: text(50), DecidedAtMs: t0}, &beamApproval{}},
		{&pb.AgentEnvelope_StateExportRequest{RequestId: text(3)}, &beamStateExportRequest{}},
		{continuation, &beamContinuation{}},
		{cache(size), &beamLlmCacheBlob{}},
		{&pb.ActivationErrorRecord{EntityKey: key, Reason: "activation_error", Detail: text(50), EventTimeMs: t0}, &beamActivationErrorRecord{}},
		{snapshot, &beamStateSnapshot{}},
		{control, &beamKeyControl{}},
		{&runtimepb.DeferredEvent{Arrival: 42, Envelope: &pb.AgentEnvelope{
			EntityKey: key, EventTimeMs: t0, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(text(34))},
		}}, &beamDeferredEvent{}},
	}
}

func TestBenchmarkedSizes(t *testing.T) {
	for _, size := range sizes {
		for _, m := range benchmarked(size.bytes) {
			// A memory entry of 300 bytes is the step of a list.
			if got := proto.Size(m.ours); got < size.bytes*9/10-300 || got > size.bytes*11/10+300 {
				t.Errorf("%s at %s has %d bytes", name(m.ours), size.name, got)
			}
			proto.Merge(m.builtin, m.ours)
			got, err := encodeElement(m.builtin)
			want, wantErr := encodeElement(m.ours)
			if err != nil || wantErr != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: Beam's coder writes other bytes (%v, %v)", name(m.ours), err, wantErr)
			}
		}
	}
}

// BenchmarkCoder compares, for each message and size, one element through Beam's
// element coders with our coder and with Beam's own, plain protobuf, and a copy of the
// encoding. make bench prints the ratios.
func BenchmarkCoder(b *testing.B) {
	// A young heap would slow down what comes first.
	for range 100_000 {
		copied = make([]byte, 1<<10)
	}
	for _, size := range sizes {
		for _, m := range benchmarked(size.bytes) {
			proto.Merge(m.builtin, m.ours)
			content, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.ours)
			if err != nil {
				b.Fatal(err)
			}
			at := fmt.Sprintf("message=%s/size=%s/", m.ours.ProtoReflect().Descriptor().Name(), size.name)
			run := func(what string, f func() error) {
				b.Run(at+what, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if err := f(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			var buf bytes.Buffer
			encode := func(m proto.Message) func() error {
				enc, value := exec.MakeElementEncoder(elementCoder(m)), &exec.FullValue{Elm: m}
				return func() error { buf.Reset(); return enc.Encode(value, &buf) }
			}
			element := framed(content)
			decode := func(m proto.Message) func() error {
				dec, r, value := exec.MakeElementDecoder(elementCoder(m)), bytes.NewReader(element), new(exec.FullValue)
				return func() error { r.Reset(element); return dec.DecodeTo(r, value) }
			}
			run("op=encode/by=ours", encode(m.ours))
			run("op=encode/by=beam", encode(m.builtin))
			run("op=encode/by=proto", func() error { _, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.ours); return err })
			run("op=encode/by=copy", func() error { copied = bytes.Clone(content); return nil })
			run("op=decode/by=ours", decode(m.ours))
			run("op=decode/by=beam", decode(m.builtin))
			run("op=decode/by=proto", func() error { return proto.Unmarshal(content, m.ours.ProtoReflect().New().Interface()) })
			run("op=decode/by=copy", func() error { copied = bytes.Clone(content); return nil })
		}
	}
}

var copied []byte

func elementCoder(m proto.Message) *coder.Coder {
	return coder.CoderFrom(coder.LookupCustomCoder(reflect.TypeOf(m)))
}
