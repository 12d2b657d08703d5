package transforms

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"

	"github.com/beamagents/beamagents-go/internal/prismtest"
	"github.com/beamagents/beamagents-go/pkg/agent"
)

func init() {
	RegisterAgent[*neighbourAgent]()
	register.Function3x1(seenOutput)
}

// neighbourAgent emits at once. For the key "slow" it waits until the output of the other key was
// seen downstream, or until its time limit.
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

// The output of a fast activation leaves when the slow activation of its bundle has ended.
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
	prismtest.Run(t, p)
}
