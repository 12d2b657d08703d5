//go:build soak

package transforms_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*produceFn]())
	register.Function1x0(countBytes)
	register.Function2x0(countEvents)
	register.Function2x0(countResults)
	register.Function2x0(countApprovals)
	register.Function2x0(countExports)
	register.Function1x0(countErrors)
}

var arrived atomic.Int64

func countBytes([]byte)                                         { arrived.Add(1) }
func countEvents(_, _ []byte)                                   { arrived.Add(1) }
func countResults([]byte, *pb.ToolResult)                       { arrived.Add(1) }
func countApprovals([]byte, *pb.AgentEnvelope_Approval)         { arrived.Add(1) }
func countExports([]byte, *pb.AgentEnvelope_StateExportRequest) { arrived.Add(1) }
func countErrors(*pb.ActivationErrorRecord)                     { arrived.Add(1) }

// produceFn makes Count encoded envelopes of 1 KiB of all kinds, each 100th broken.
type produceFn struct{ Count int }

func (f *produceFn) ProcessElement(_ []byte, emit func(beam.EventTime, []byte)) {
	text := strings.Repeat("x", 1000)
	for i := range f.Count {
		env := &pb.AgentEnvelope{EntityKey: fmt.Appendf(nil, "key-%d", i%1000), EventTimeMs: int64(i)}
		switch i % 4 {
		case 0:
			env.Payload = &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(text)}
		case 1:
			env.Payload = &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{ErrorMessage: text}}
		case 2:
			env.Payload = &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{Approver: text}}
		case 3:
			env.Payload = &pb.AgentEnvelope_ExportRequest{ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: text}}
		}
		raw := canonical(env)
		if i%100 == 0 {
			raw = raw[:len(raw)-1]
		}
		emit(mtime.MinTimestamp, raw)
	}
}

// peakHeap runs work and returns the largest heap that it needed, in bytes of objects.
func peakHeap(work func()) uint64 {
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		largest := uint64(0)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				metrics.Read(sample)
				largest = max(largest, sample[0].Value.Uint64())
			case <-stop:
				peak <- largest
				return
			}
		}
	}()
	work()
	close(stop)
	return <-peak
}

// TestSoakParseAndRoute takes a million envelopes through ParseEnvelopes and Route. On
// the direct runner nothing else holds elements, so the heap must not grow with their
// number. Prism's own does: there, what an identity pipeline of the same elements needs
// is reported beside ours.
func TestSoakParseAndRoute(t *testing.T) {
	const few, many = 100_000, 1_000_000
	run := func(runner string, count int, ours bool) uint64 {
		p, s := beam.NewPipelineWithRoot()
		raw := beam.ParDo(s, &produceFn{Count: count}, beam.Impulse(s))
		if ours {
			parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, raw)
			routed := transforms.Route(s, transforms.KeyByEntity(s, parsed.Envelopes))
			beam.ParDo0(s, countEvents, routed.Events)
			beam.ParDo0(s, countResults, routed.ToolResults)
			beam.ParDo0(s, countApprovals, routed.Approvals)
			beam.ParDo0(s, countExports, routed.ExportRequests)
			beam.ParDo0(s, countErrors, parsed.Errors)
			beam.ParDo0(s, countErrors, routed.Errors)
		} else {
			beam.ParDo0(s, countBytes, raw)
		}
		arrived.Store(0)
		start := time.Now()
		peak := peakHeap(func() {
			if _, err := beam.Run(context.Background(), runner, p); err != nil {
				t.Fatal(err)
			}
		})
		if got := arrived.Load(); got != int64(count) {
			t.Fatalf("%s: %d of %d elements arrived", runner, got, count)
		}
		name := map[bool]string{true: "parse and route", false: "identity"}[ours]
		t.Logf("%-7s %-16s %9d envelopes: %6.1f s, peak heap %4d MiB", runner, name, count, time.Since(start).Seconds(), peak>>20)
		return peak
	}
	small, large := run("direct", few, true), run("direct", many, true)
	if limit := small*3/2 + 32<<20; large > limit {
		t.Errorf("the heap grew from %d to %d MiB with ten times the elements", small>>20, large>>20)
	}
	identity, ours := run("prism", many, false), run("prism", many, true)
	if limit := identity*3/2 + 64<<20; ours > limit {
		t.Errorf("on Prism %d MiB, an identity needs %d", ours>>20, identity>>20)
	}
}
