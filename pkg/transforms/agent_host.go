package transforms

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
	"github.com/beamagents/beamagents-go/pkg/modelcall"
)

// agentHost is an agent in a worker process. All bundles share it.
type agentHost struct {
	activation.Rules

	limit       time.Duration // of an activation
	concurrency int
	slots       chan struct{} // each running activation takes one
	hold        bool          // HoldWatermark
	calls       modelcall.Options

	ready sync.Mutex
	setUp bool
}

// agentHosts are the hosts of the process, by the JSON of their DoFns.
var agentHosts struct {
	sync.Mutex
	byFn map[string]*agentHost
}

// hostOf returns the host of a DoFn, after the Setup of its agent.
func hostOf(f *beamagentsRunAgentFn) (*agentHost, error) {
	name, err := json.Marshal(f) //nolint:musttag // it is compared within the process alone
	if err != nil {
		return nil, fmt.Errorf("transforms.RunAgent: %w", err)
	}
	agentHosts.Lock()
	h := agentHosts.byFn[string(name)]
	if h == nil {
		if h, err = newAgentHost(f); err != nil {
			agentHosts.Unlock()
			return nil, fmt.Errorf("transforms.RunAgent: agent %q: %w", f.Name, err)
		}
		if agentHosts.byFn == nil {
			agentHosts.byFn = map[string]*agentHost{}
		}
		agentHosts.byFn[string(name)] = h
	}
	agentHosts.Unlock()
	if err := h.prepare(); err != nil {
		return nil, fmt.Errorf("transforms.RunAgent: agent %q: Setup: %w", f.Name, err)
	}
	return h, nil
}

func newAgentHost(f *beamagentsRunAgentFn) (*agentHost, error) {
	if f.AgentType.T == nil || f.AgentType.T.Kind() != reflect.Pointer {
		return nil, fmt.Errorf("its type %v is not known to this worker: call transforms.RegisterAgent in an init function", f.AgentType.T)
	}
	a, err := agent.Decode(f.AgentType.T, f.AgentJSON)
	if err != nil {
		return nil, fmt.Errorf("%w; the binary of the workers must register the same agent type as the one that built the pipeline", err)
	}
	h := &agentHost{
		Rules: activation.Rules{
			Name: f.Name, Agent: a, TTLMS: f.TTLMS,
			MaxDeferred: f.MaxDeferred, MaxDeferredBytes: int64(f.MaxDeferredBytes), MaxIntents: f.MaxIntents,
			MaxOutputBytes: f.MaxOutputBytes, MaxSnapshotBytes: f.MaxSnapshotBytes,
			MaxActivationsPerHour: f.MaxActivationsPerHour, MaxTokens: f.MaxTokens, MeasureDurations: f.MeasureDurations,
		},
		calls: modelcall.Options{MaxCalls: cmp.Or(f.MaxModelCalls, modelcall.DefaultMaxCalls), NoMemo: f.NoModelMemo},
		limit: time.Duration(f.TimeoutMS) * time.Millisecond, concurrency: f.Concurrency,
		slots: make(chan struct{}, f.Concurrency), hold: f.HoldWatermark,
	}
	if f.RejectSuspended {
		h.WhileSuspended = Reject
	}
	return h, nil
}

// prepare calls the agent's Setup, unless it has succeeded before.
func (h *agentHost) prepare() error {
	h.ready.Lock()
	defer h.ready.Unlock()
	if h.setUp {
		return nil
	}
	var err error
	switch result, text := isolate.Run(context.Background(), 0, func(ctx context.Context) {
		h.calls.Transport, err = agent.Prepare(ctx, h.Agent)
	}); result {
	case isolate.Panicked:
		return fmt.Errorf("panic: %s", text)
	case isolate.Exited:
		return errors.New("it called runtime.Goexit")
	}
	if err != nil {
		return err
	}
	h.Process = modelcall.NewProcess(h.calls)
	h.setUp = true
	return nil
}
