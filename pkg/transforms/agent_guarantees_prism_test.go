package transforms

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

// What docs/guarantees.md says of outputs and time, where a runner is needed to see it.

func init() {
	RegisterAgent[*neighbourAgent]()
	register.Function2x2(oneOfKey)
	register.Function2x1(countOfKey)
	register.Iter1[int]()
	register.Function3x1(seenOutput)
}

func oneOfKey(key, _ []byte) (text string, one int) { return string(key), 1 }

func countOfKey(key string, ones func(*int) bool) string {
	n := 0
	for one := 0; ones(&one); {
		n += one
	}
	return fmt.Sprintf("%s: %d", key, n)
}

// On Prism the output of a timeout is in time for its window, whether or not the watermark
// is held at the deadline: a watermark that passes deadline and window in one step waits
// for the timers, also for those that a timer sets.
func TestPrismTimeoutInAWindow(t *testing.T) {
	for _, hold := range []bool{false, true} {
		for _, concurrency := range []int{1, 4} {
			t.Run(fmt.Sprintf("%v/%d", hold, concurrency), func(t *testing.T) {
				ts := teststream.NewConfig()
				event := eventFor("a", 1000, script{Emit: []string{"x"}, Then: "suspend", Timeout: 5000})
				if err := ts.AddElements(1000, encoded(t, event)); err != nil {
					t.Fatal(err)
				}
				ts.AdvanceWatermark(60_000) // past the deadline, 6,000, and the end of its window, 10,000
				ts.AdvanceWatermarkToInfinity()
				p, s := beam.NewPipelineWithRoot()
				agents := RunAgent(s, AgentParams{
					Name: "test", Agent: new(scriptedAgent), Concurrency: concurrency, HoldWatermark: hold,
				}, KeyByEntity(s, beam.ParDo(s, parseRaw, teststream.Create(s, ts))))
				passert.EqualsList(s, spoken(s, agents), []string{"a output@1000 x", "a output@6000 denied"})
				windowed := beam.WindowInto(s, window.NewFixedWindows(10*time.Second), beam.ParDo(s, oneOfKey, agents.Outputs))
				counts := beam.ParDo(s, countOfKey, beam.GroupByKey(s, windowed))
				// Both are in one pane: nothing is late.
				passert.EqualsList(s, beam.WindowInto(s, window.NewGlobalWindows(), counts), []string{"a: 2"})
				ptest.RunAndValidate(t, p)
			})
		}
	}
}

// neighbourAgent emits at once. For the key "slow" it waits until the output of the other
// key was seen downstream, or its time is up.
type neighbourAgent struct{}

var neighbourSeen atomic.Pointer[chan struct{}]

func (*neighbourAgent) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	if string(act.Key()) == "slow" {
		select {
		case <-*neighbourSeen.Load():
		case <-ctx.Done():
			return agent.Outcome{}, ctx.Err()
		}
	}
	return agent.Done(), act.Emit([]byte("done"))
}

func seenOutput(at beam.EventTime, key, value []byte) string {
	close(*neighbourSeen.Load())
	return sayOutput(at, key, value)
}

// The output of a quick activation leaves when the slow one of its bundle has ended.
func TestPrismOutputsLeaveWithTheBundle(t *testing.T) {
	neighbourSeen.Store(new(make(chan struct{})))
	p, s := beam.NewPipelineWithRoot()
	raw := beam.CreateList(s, []string{
		string(encoded(t, eventFor("quick", 1000, script{}))), string(encoded(t, eventFor("slow", 1000, script{}))),
	})
	agents := RunAgent(s, AgentParams{Name: "test", Agent: new(neighbourAgent), ActivationTimeout: 500 * time.Millisecond},
		KeyByEntity(s, beam.ParDo(s, parseText, raw)))
	passert.EqualsList(s, beam.ParDo(s, seenOutput, agents.Outputs), []string{"quick output@1000 done"})
	passert.EqualsList(s, beam.ParDo(s, sayLetter, agents.Errors), []string{"slow error@1000 activation_timeout/limit"})
	ptest.RunAndValidate(t, p)
}
