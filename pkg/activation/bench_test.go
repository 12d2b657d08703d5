package activation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/memory"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// benchKey is a key with a memory of about so many bytes, in entries of 100 bytes. The code of its
// agent runs on the goroutine of the benchmark.
func benchKey(bytesOfMemory int) *activation.Key {
	mem := memory.New(nil, 0)
	for i := range bytesOfMemory / 100 {
		if err := mem.Put(fmt.Sprint("entry-", i), bytes.Repeat([]byte("x"), 100)); err != nil {
			panic(err)
		}
	}
	return &activation.Key{
		Entity: []byte("k"), Control: new(runtimepb.KeyControl), Deferred: &bag{w: new(world)},
		Memory: func() (*memory.Memory, error) { return mem, nil },
		Call: func(f func(context.Context)) *activation.Failure {
			f(context.Background())
			return nil
		},
	}
}

func mustStep(tb testing.TB, step activation.Step, err error, errorsWanted int) {
	for _, e := range step.Effects {
		if e.Error != nil {
			errorsWanted--
		}
	}
	if err != nil || errorsWanted != 0 {
		tb.Fatal(err, errorsWanted)
	}
}

// BenchmarkActivation: a no-op, and a suspension with its answer. The targets are 15 µs and
// 50 µs.
func BenchmarkActivation(b *testing.B) {
	b.Run("noop", func(b *testing.B) {
		rules := defaults(run(func(context.Context, *agent.Activation) (agent.Outcome, error) { return agent.Done(), nil }))
		k, env := benchKey(0), eventAt(1000, "e")
		b.ReportAllocs()
		for b.Loop() {
			step, err := rules.Envelope(k, env)
			mustStep(b, step, err, 0)
		}
	})
	b.Run("suspend_resume", func(b *testing.B) {
		rules := defaults(run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
			if act.Trigger().Kind == agent.Event {
				return agent.Suspend([]byte("snapshot"), time.Hour), act.Act("tool", map[string]any{"n": 1})
			}
			return agent.Done(), act.Emit(act.Trigger().Bytes())
		}))
		k, env := benchKey(0), eventAt(1000, "e")
		b.ReportAllocs()
		for b.Loop() {
			step, err := rules.Envelope(k, env)
			mustStep(b, step, err, 0)
			in := k.Control.GetPending()[0]
			step, err = rules.Envelope(k, &pb.AgentEnvelope{EventTimeMs: 2000, Payload: &pb.AgentEnvelope_ToolResult{
				ToolResult: &pb.ToolResult{IntentId: in.GetIntentId(), Seq: in.GetSeq(), Status: pb.ToolResult_OK, Payload: []byte("x")},
			}})
			mustStep(b, step, err, 0)
		}
	})
}

// hundred runs 100 activations of a key. Each of them reads an entry and writes one, and the last
// one fails.
func hundred(tb testing.TB, k *activation.Key) {
	rules := defaults(run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
		if _, _, err := agent.Get[[]byte](act, "entry-1"); err != nil {
			return agent.Outcome{}, err
		}
		if err := agent.Put(act, "entry-2", act.Trigger().Event); err != nil {
			return agent.Outcome{}, err
		}
		if string(act.Trigger().Event) == "fail" {
			return agent.Outcome{}, errors.New("boom")
		}
		return agent.Done(), nil
	}))
	env := eventAt(1000, "e")
	for range 99 {
		step, err := rules.Envelope(k, env)
		mustStep(tb, step, err, 0)
	}
	step, err := rules.Envelope(k, eventAt(1000, "fail"))
	mustStep(tb, step, err, 1)
}

// A failure costs as much as the entries that it touched, not a copy of the memory.
func TestFailureCopiesNoMemory(t *testing.T) {
	allocated := func(size int) uint64 {
		k := benchKey(size)
		hundred(t, k)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 20 {
			hundred(t, k)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / 20
	}
	small, large := allocated(1<<10), allocated(100<<10)
	// A copy would be 100 KiB for each failure.
	if large > small+50<<10 {
		t.Errorf("100 activations, one of which fails, allocate %d bytes with 1 KiB of memory and %d with 100 KiB", small, large)
	}
}

// BenchmarkOneOfHundredFails shows that B/op is the same for both sizes of memory.
func BenchmarkOneOfHundredFails(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("memory_%dKiB", size>>10), func(b *testing.B) {
			k := benchKey(size)
			b.ReportAllocs()
			for b.Loop() {
				hundred(b, k)
			}
		})
	}
}
