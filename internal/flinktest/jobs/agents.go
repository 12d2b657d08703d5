package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	transforms.RegisterAgent[*countingAgent]()
	transforms.RegisterAgent[*waitingAgent]()
}

// countingAgent counts the events of a key in its memory. At the last event of a key it suspends,
// and when the deadline comes it emits the count once more.
type countingAgent struct {
	SleepMS  int
	LastFrom int
	Crashes  Crashes
}

// TimeoutPolicy resumes the agent at the deadline.
func (a *countingAgent) TimeoutPolicy(agent.Timeout) agent.Route { return agent.Resume() }

// Run counts the event, or emits the count at the deadline.
func (a *countingAgent) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	c, _, err := agent.Get[int](act, "count")
	if err != nil {
		return agent.Outcome{}, err
	}
	if act.Trigger().Kind != agent.Event {
		return agent.Done(), act.Emit(fmt.Appendf(nil, "-1 %d", c))
	}
	n, err := strconv.Atoi(string(act.Trigger().Bytes()))
	if err != nil {
		return agent.Outcome{}, err
	}
	select {
	case <-time.After(time.Duration(a.SleepMS) * time.Millisecond):
	case <-ctx.Done():
		return agent.Outcome{}, ctx.Err()
	}
	if err := a.Crashes.at("count", n); err != nil { // only a crash of kind kill: an error would become a dead letter
		return agent.Outcome{}, err
	}
	if err := agent.Put(act, "count", c+1); err != nil {
		return agent.Outcome{}, err
	}
	if err := act.Emit(fmt.Appendf(nil, "%d %d", n, c+1)); err != nil {
		return agent.Outcome{}, err
	}
	if n >= a.LastFrom {
		return agent.Suspend(nil, time.Hour), nil
	}
	return agent.Done(), nil
}

// waitingAgent waits for an answer that never comes.
type waitingAgent struct{}

// TimeoutPolicy ends the suspension with an output.
func (a *waitingAgent) TimeoutPolicy(agent.Timeout) agent.Route {
	return agent.Deny([]byte("timeout"))
}

// Run suspends the key.
func (a *waitingAgent) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	if err := act.RequestApproval("refund", map[string]any{"event": string(act.Trigger().Bytes())}); err != nil {
		return agent.Outcome{}, err
	}
	return agent.Suspend([]byte("waiting"), time.Hour), nil
}

// firstEventsFn makes one event for each key.
type firstEventsFn struct {
	Keys int
}

// ProcessElement emits the events.
func (f *firstEventsFn) ProcessElement(_ []byte, emit func(beam.EventTime, []byte, *pb.AgentEnvelope)) {
	for n := range f.Keys {
		at, key := startMS+int64(n), []byte(keyOf(n, f.Keys))
		emit(mtime.FromMilliseconds(at), key, &pb.AgentEnvelope{
			EntityKey: key, EventTimeMs: at, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(strconv.Itoa(n))},
		})
	}
}
