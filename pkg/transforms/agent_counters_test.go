package transforms

import (
	"context"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/beamtest"
)

// A runner may clear the state of a key before its last timers. Such a timer changes
// nothing, and is counted. wake may be set for a key without state.
func TestAgentTimersWithoutState(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		for tag, want := range map[string]int64{activation.DeadlineTag: 1, activation.TTLTag: 1, activation.WakeTag: 0} {
			k := newAgentKit(t, AgentParams{Concurrency: concurrency})
			ctx := metrics.SetPTransformID(metrics.SetBundleID(context.Background(), "bundle"), "transform")
			if err := k.Run("a", func(sp beamstate.Provider, tp timers.Provider) error {
				out := k.out()
				timer := beamtest.Timer{Key: "a", Tag: tag, FireMS: 1000}
				k.fn.OnTimer(ctx, sp, tp, []byte("a"), timer.Context(), out.outputs, out.intents, out.traces, out.snapshots, out.errs)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			counted := int64(0)
			if err := (metrics.Extractor{SumInt64: func(l metrics.Labels, n int64) {
				if l.Name() == "timers_without_state" {
					counted += n
				}
			}}).ExtractFrom(metrics.GetStore(ctx)); err != nil {
				t.Fatal(err)
			}
			k.expect()
			if states := k.states(); counted != want || len(states) > 0 || len(k.armed("a")) > 0 {
				t.Errorf("%s: counted %d, want %d; state %x, timers %q", tag, counted, want, states, k.armed("a"))
			}
		}
	})
}
