package transforms

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
	"github.com/beamagents/beamagents-go/pkg/memory"
)

// countingContext returns a context in which counters count, like the context of a bundle.
func countingContext() context.Context {
	return metrics.SetPTransformID(metrics.SetBundleID(context.Background(), "bundle"), "transform")
}

func countedIn(ctx context.Context, t *testing.T) map[string]int64 {
	t.Helper()
	counted := map[string]int64{}
	if err := (metrics.Extractor{SumInt64: func(l metrics.Labels, n int64) { counted[l.Name()] += n }}).ExtractFrom(metrics.GetStore(ctx)); err != nil {
		t.Fatal(err)
	}
	return counted
}

// At the end of the bundle, the counters of the steps, the dead letters by reason, and the
// activations that run on after their time limit are counted.
func TestAgentCounters(t *testing.T) {
	defer func(old chan struct{}) { release = old }(release)
	eachForm(t, func(t *testing.T, concurrency int) {
		release = make(chan struct{})
		k := newAgentKit(t, AgentParams{Concurrency: concurrency, ActivationTimeout: 500 * time.Millisecond})
		ctx := countingContext()
		k.Finish = func() error {
			out := k.out()
			return k.fn.FinishBundle(ctx, out.outputs, out.intents, out.traces, out.snapshots, out.errs)
		}
		k.run(
			eventFor("a", 1000, script{ID: "e1", Act: []string{"t"}}),
			eventFor("a", 1001, script{ID: "e1"}),
			eventFor("a", 1002, script{Then: "deaf"}),
			eventFor("a", 1003, script{Then: "reject"}),
			eventFor("b", 1000, script{Then: "suspend", Timeout: 1000}),
			eventFor("b", 1001, script{}),
		)
		close(release)
		want := map[string]int64{
			"activations": 2, "intents_emitted": 1, "events_duplicate": 1, "suspensions": 1, "events_deferred": 1,
			"agent_errors": 1, "inputs_rejected": 1, "activations_abandoned": 1, "errors_activation_timeout": 1, "errors_activation_error": 1,
		}
		if diff := cmp.Diff(want, countedIn(ctx, t)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		waitFor(t, func() bool { return isolate.Running() == 0 })
	})
}

// A runner may clear the state of a key before the last timers of the key fire. Such a timer is
// counted and changes nothing. wake may be set for a key without state.
func TestAgentTimersWithoutState(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		for tag, want := range map[string]int64{activation.DeadlineTag: 1, activation.TTLTag: 1, activation.WakeTag: 0} {
			k := newAgentKit(t, AgentParams{Concurrency: concurrency})
			ctx := countingContext()
			if err := k.Run("a", func(sp beamstate.Provider, tp timers.Provider) error {
				out := k.out()
				timer := beamtest.Timer{Key: "a", Tag: tag, FireMS: 1000}
				k.fn.OnTimer(ctx, sp, tp, []byte("a"), timer.Context(), out.outputs, out.intents, out.traces, out.snapshots, out.errs)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			k.expect()
			counted := countedIn(ctx, t)["timers_without_state"]
			if states := k.states(); counted != want || len(states) > 0 || len(k.armed("a")) > 0 {
				t.Errorf("%s: counted %d, want %d; state %x, timers %q", tag, counted, want, states, k.armed("a"))
			}
		}
	})
}

// Evictions from a memory are counted once, however often the session is written. Each activation
// records how many activations ran at the same time.
func TestAgentMemoryAndFlightMetrics(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		k := newAgentKit(t, AgentParams{Concurrency: concurrency})
		ctx := countingContext()
		k.Finish = func() error {
			out := k.out()
			return k.fn.FinishBundle(ctx, out.outputs, out.intents, out.traces, out.snapshots, out.errs)
		}
		big := strings.Repeat("x", memory.MaxValueBytes/2-1)
		for i := range 4 { // the third and the fourth evict one each
			k.run(eventFor("a", int64(1000+i), script{Put: []string{fmt.Sprintf("k%d=%s", i, big)}}), eventFor("b", int64(1000+i), script{}))
		}
		if got := countedIn(ctx, t)["memory_evictions"]; got != 2 {
			t.Errorf("%d evictions, want 2", got)
		}
		var activations int64
		if err := (metrics.Extractor{DistributionInt64: func(l metrics.Labels, count, _, low, high int64) {
			if l.Name() == "activations_in_flight" {
				activations += count
				if low < 1 || high > int64(concurrency) {
					t.Errorf("between %d and %d activations at once with a concurrency of %d", low, high, concurrency)
				}
			}
		}}).ExtractFrom(metrics.GetStore(ctx)); err != nil {
			t.Fatal(err)
		}
		if activations != 8 {
			t.Errorf("%d activations told how many ran, want 8", activations)
		}
	})
}
