package activation

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/modelcall"
)

// The defaults of [AgentParams].
const (
	DefaultActivationTimeout = 5 * time.Minute
	DefaultMaxDeferred       = 64
	DefaultMaxDeferredBytes  = 1 << 20
	DefaultMaxIntents        = 1000
	DefaultMaxOutputBytes    = 10 << 20
	DefaultMaxSnapshotBytes  = 1 << 20
)

// The bounds of [AgentParams].
const (
	maxActivationTimeout = time.Hour
	maxModelCalls        = 4096
	maxAgentName         = 64
)

// AgentParams are the options that every runtime of an agent has. The zero value of an optional
// field stands for its default.
type AgentParams struct {
	// Name is required: 1 to 64 characters of a-z, 0-9, "_" and "-". It is stored with each
	// suspension, and only an agent of the same name resumes it.
	Name string
	// Agent is required: a pointer to a struct. Its exported fields travel to the workers as
	// JSON.
	Agent agent.Agent
	// ActivationTimeout is the time limit of an activation, 1 ms to 1 h; 0 is 5 minutes. An
	// activation that exceeds it becomes a dead letter activation_timeout.
	ActivationTimeout time.Duration
	// TTL is the time, in event time, after which a key without an event or an answer is idle, at
	// least 1 ms; 0 is never. The memory and the replay cache of an idle key are cleared. A
	// suspended key is not idle.
	TTL time.Duration
	// WhileSuspended says what happens to an event for a suspended key: Defer, the default, or
	// Reject.
	WhileSuspended WhileSuspended
	// MaxDeferred and MaxDeferredBytes bound the events of a key that are deferred while it is
	// suspended: how many, and their size in bytes; 0 is 64 and 1 MiB. An event beyond either
	// bound is a dead letter deferred_overflow.
	MaxDeferred      int
	MaxDeferredBytes int
	// MaxIntents bounds the open intents of a key; 0 is 1,000.
	MaxIntents int
	// MaxOutputBytes bounds what one activation emits, outputs and intents together, in bytes; 0
	// is 10 MiB.
	MaxOutputBytes int
	// MaxSnapshotBytes bounds the snapshot of a suspension, in bytes; 0 is 1 MiB.
	MaxSnapshotBytes int
	// MaxActivationsPerHour bounds the activations of a key in an hour of event time; 0 is no
	// limit. An event or an answer beyond the bound is a dead letter budget_exceeded.
	MaxActivationsPerHour int
	// MaxTokens bounds the tokens in the model responses of one activation, responses from the
	// replay cache included; 0 is no limit. An activation beyond the bound is a dead letter
	// budget_exceeded.
	MaxTokens int64
	// MaxModelCalls bounds the model calls that a worker process has in flight, 1 to 4,096; 0 is
	// 64.
	MaxModelCalls int
	// NoModelMemo turns off the memo of model responses, so that a bundle that is retried in the
	// same worker process repeats its model calls.
	NoModelMemo bool
	// MeasureDurations adds the attributes beam_agents.duration_ms and beam_agents.offset_ms to
	// trace events.
	MeasureDurations bool
}

// WithDefaults returns the parameters with the default in every field that is zero. An error says
// which parameter cannot be used and what to change.
func (p AgentParams) WithDefaults() (AgentParams, error) {
	if err := p.check(); err != nil {
		return p, err
	}
	p.ActivationTimeout = cmp.Or(p.ActivationTimeout, DefaultActivationTimeout)
	p.MaxDeferred = cmp.Or(p.MaxDeferred, DefaultMaxDeferred)
	p.MaxDeferredBytes = cmp.Or(p.MaxDeferredBytes, DefaultMaxDeferredBytes)
	p.MaxIntents = cmp.Or(p.MaxIntents, DefaultMaxIntents)
	p.MaxOutputBytes = cmp.Or(p.MaxOutputBytes, DefaultMaxOutputBytes)
	p.MaxSnapshotBytes = cmp.Or(p.MaxSnapshotBytes, DefaultMaxSnapshotBytes)
	p.MaxModelCalls = cmp.Or(p.MaxModelCalls, modelcall.DefaultMaxCalls)
	return p, nil
}

// Rules returns the rules for the agent. The parameters must be those that
// [AgentParams.WithDefaults] has returned.
func (p AgentParams) Rules() Rules {
	return Rules{
		Name: p.Name, Agent: p.Agent, TTLMS: p.TTL.Milliseconds(), WhileSuspended: p.WhileSuspended,
		MaxDeferred: p.MaxDeferred, MaxDeferredBytes: int64(p.MaxDeferredBytes), MaxIntents: p.MaxIntents,
		MaxOutputBytes: p.MaxOutputBytes, MaxSnapshotBytes: p.MaxSnapshotBytes,
		MaxActivationsPerHour: p.MaxActivationsPerHour, MaxTokens: p.MaxTokens, MeasureDurations: p.MeasureDurations,
	}
}

func (p AgentParams) check() error {
	if err := checkAgentName(p.Name); err != nil {
		return err
	}
	if p.Agent == nil {
		return errors.New("AgentParams.Agent is nil; set a pointer to your agent")
	}
	if err := agent.Check(p.Agent); err != nil {
		return err
	}
	switch {
	case p.WhileSuspended != Defer && p.WhileSuspended != Reject:
		return fmt.Errorf("AgentParams.WhileSuspended is %d; use Defer or Reject", p.WhileSuspended)
	case p.ActivationTimeout != 0 && p.ActivationTimeout < time.Millisecond || p.ActivationTimeout > maxActivationTimeout:
		return fmt.Errorf("AgentParams.ActivationTimeout is %v; use 1ms to %v, or 0 for %v", p.ActivationTimeout, maxActivationTimeout, DefaultActivationTimeout)
	case p.TTL != 0 && p.TTL < time.Millisecond:
		return fmt.Errorf("AgentParams.TTL is %v; use at least 1ms, or 0 to keep memory for ever", p.TTL)
	}
	if p.MaxModelCalls > maxModelCalls {
		return fmt.Errorf("AgentParams.MaxModelCalls is %d; use 1 to %d, or 0 for %d", p.MaxModelCalls, maxModelCalls, modelcall.DefaultMaxCalls)
	}
	for _, bound := range []struct {
		name  string
		value int64
	}{
		{"MaxDeferred", int64(p.MaxDeferred)},
		{"MaxDeferredBytes", int64(p.MaxDeferredBytes)},
		{"MaxIntents", int64(p.MaxIntents)},
		{"MaxOutputBytes", int64(p.MaxOutputBytes)},
		{"MaxSnapshotBytes", int64(p.MaxSnapshotBytes)},
		{"MaxActivationsPerHour", int64(p.MaxActivationsPerHour)},
		{"MaxTokens", p.MaxTokens},
		{"MaxModelCalls", int64(p.MaxModelCalls)},
	} {
		if bound.value < 0 {
			return fmt.Errorf("AgentParams.%s is %d; use a positive number, or 0 for the default", bound.name, bound.value)
		}
	}
	return nil
}

func checkAgentName(name string) error {
	valid := name != "" && len(name) <= maxAgentName
	for _, c := range []byte(name) {
		valid = valid && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if !valid {
		return fmt.Errorf("AgentParams.Name is %q; use 1 to %d of a-z, 0-9, _ and -", name, maxAgentName)
	}
	return nil
}
