package transforms

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The values of [AgentParams].WhileSuspended.
const (
	// Defer keeps an event for a suspended key until the suspension ends.
	Defer = activation.Defer
	// Reject makes a dead letter suspended/rejected of an event for a suspended key.
	Reject = activation.Reject
)

// DefaultConcurrency is the default of [AgentParams].Concurrency.
const DefaultConcurrency = 16

const maxConcurrency = 1024

// AgentParams are the options of [RunAgent]. The zero value of an optional field stands for its
// default.
type AgentParams struct {
	// Name is required: 1 to 64 characters of a-z, 0-9, "_" and "-". It is stored with each
	// suspension, and only an agent of the same name resumes it. So do not change it while a job
	// runs.
	Name string
	// Agent is required: a pointer to a struct whose type was registered with [RegisterAgent].
	// Its exported fields travel to the workers as JSON.
	Agent agent.Agent
	// Concurrency bounds the activations that run at once in a worker process, 1 to 1,024; 0 is
	// DefaultConcurrency. The activations of one key always run one after the other, in the order
	// in which their inputs arrive.
	Concurrency int
	// ActivationTimeout is the time limit of an activation, 1 ms to 1 h; 0 is 5 minutes. An
	// activation that exceeds it becomes a dead letter activation_timeout.
	ActivationTimeout time.Duration
	// TTL is the time, in event time, after which a key without an event or an answer is idle, at
	// least 1 ms; 0 is never. The memory and the replay cache of an idle key are cleared. A
	// suspended key is not idle.
	TTL time.Duration
	// WhileSuspended says what happens to an event for a suspended key: Defer, the default, or
	// Reject.
	WhileSuspended activation.WhileSuspended
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
	// 64. A host that answers with status 429 or 529, or with 503 and Retry-After, gets no calls
	// of the process for a moment.
	MaxModelCalls int
	// NoModelMemo turns off the memo of model responses. By default a worker process remembers up
	// to 32 MiB of responses, so that a bundle that is retried in the same process does not
	// repeat its model calls.
	NoModelMemo bool
	// HoldWatermark holds the output watermark at the deadline of the earliest suspension, so
	// that the output of a timeout is not late. By default the watermark is not held: a
	// suspension of days does not stop the windows downstream, but the output of a timeout may be
	// late.
	HoldWatermark bool
	// MeasureDurations adds the attributes beam_agents.duration_ms and beam_agents.offset_ms to
	// trace events. They are measured, so they differ when a bundle is retried.
	MeasureDurations bool
}

// common returns the parameters that every runtime of an agent has, with defaults filled in.
func (p AgentParams) common() (activation.AgentParams, error) {
	return activation.AgentParams{
		Name: p.Name, Agent: p.Agent, ActivationTimeout: p.ActivationTimeout, TTL: p.TTL, WhileSuspended: p.WhileSuspended,
		MaxDeferred: p.MaxDeferred, MaxDeferredBytes: p.MaxDeferredBytes, MaxIntents: p.MaxIntents,
		MaxOutputBytes: p.MaxOutputBytes, MaxSnapshotBytes: p.MaxSnapshotBytes,
		MaxActivationsPerHour: p.MaxActivationsPerHour, MaxTokens: p.MaxTokens, MaxModelCalls: p.MaxModelCalls,
		NoModelMemo: p.NoModelMemo, MeasureDurations: p.MeasureDurations,
	}.WithDefaults()
}

func (p AgentParams) checkConcurrency() error {
	if p.Concurrency < 0 || p.Concurrency > maxConcurrency {
		return fmt.Errorf("AgentParams.Concurrency is %d; use 1 to %d, or 0 for %d", p.Concurrency, maxConcurrency, DefaultConcurrency)
	}
	return nil
}

// RegisterAgent makes the agent type *T known to the workers. Call it in an init function of the
// package that declares T.
func RegisterAgent[T agent.Agent]() {
	// beam.RegisterType would also infer a schema of the type, and beam.Init panics if a field,
	// such as a client, has no schema. An agent is not an element and needs no schema.
	runtime.RegisterType(reflect.TypeFor[T]())
}

// Agents is the result of [RunAgent]. Each element has the event time of the activation that
// emitted it.
type Agents struct {
	// Outputs: PCollection<KV<[]byte, []byte>>, what the agent emitted, by entity key.
	Outputs beam.PCollection
	// Intents: PCollection<*pb.ToolIntent>, not signed; see [SignIntents].
	Intents beam.PCollection
	// Traces: PCollection<*pb.TraceEvent>.
	Traces beam.PCollection
	// Snapshots: PCollection<*pb.StateSnapshot>, the answers to export requests.
	Snapshots beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>, the dead letters.
	Errors beam.PCollection
}

// RunAgent runs an agent on a PCollection<KV<[]byte, *pb.AgentEnvelope>>, such as KeyByEntity
// returns. Each key has its own memory, and at most one suspension.
//
// RunAgent panics if the parameters, the input or the runner cannot be used, and says what to
// change. [TryRunAgent] returns an error instead.
func RunAgent(s beam.Scope, params AgentParams, col beam.PCollection) Agents {
	agents, err := TryRunAgent(s, params, col)
	if err != nil {
		panic(err)
	}
	return agents
}

// TryRunAgent is [RunAgent] that returns an error instead of panicking.
func TryRunAgent(s beam.Scope, params AgentParams, col beam.PCollection) (Agents, error) {
	fn, err := newRunAgentFn(params)
	if err == nil {
		err = errors.Join(checkAgentInput(col), checkAgentRunner())
	}
	if err != nil {
		return Agents{}, fmt.Errorf("transforms.RunAgent: %w", err)
	}
	out, err := beam.TryParDo(s.Scope("RunAgent"), fn, col)
	if err != nil {
		return Agents{}, fmt.Errorf("transforms.RunAgent: %w", err)
	}
	return Agents{Outputs: out[0], Intents: out[1], Traces: out[2], Snapshots: out[3], Errors: out[4]}, nil
}

// checkAgentRunner refuses the legacy direct runner, if the program has parsed the flag --runner:
// that runner dereferences nil when it meets a DoFn with state.
func checkAgentRunner() error {
	runner := flag.Lookup("runner")
	if runner != nil && (runner.Value.String() == "direct" || runner.Value.String() == "DirectRunner") {
		return fmt.Errorf("--runner=%s has no state and no timers; use --runner=prism, the embedded runner", runner.Value)
	}
	return nil
}

func checkAgentInput(col beam.PCollection) error {
	if !col.IsValid() {
		return errors.New("the input is not a PCollection; use that of KeyByEntity")
	}
	t := col.Type()
	if t.Type() != typex.KVType || len(t.Components()) != 2 ||
		t.Components()[0].Type() != reflect.TypeFor[[]byte]() || t.Components()[1].Type() != reflect.TypeFor[*pb.AgentEnvelope]() {
		return fmt.Errorf("the input is a PCollection of %v; use KV<[]byte, *pb.AgentEnvelope>, as KeyByEntity returns it", t)
	}
	if col.WindowingStrategy().Fn.Kind != window.GlobalWindows {
		return fmt.Errorf("the input is windowed by %v, and a runner clears the state of a key when its window ends: "+
			"apply the windows to the outputs", col.WindowingStrategy().Fn)
	}
	return nil
}

// newRunAgentFn checks the parameters and returns their DoFn.
func newRunAgentFn(params AgentParams) (*beamagentsRunAgentFn, error) {
	p, err := params.common()
	if err == nil {
		err = params.checkConcurrency()
	}
	if err != nil {
		return nil, err
	}
	t := reflect.TypeOf(p.Agent)
	key, named := runtime.TypeKey(t.Elem())
	registered, ok := runtime.LookupType(key)
	switch {
	case !named || !ok:
		return nil, fmt.Errorf("the type of the agent is not registered: call transforms.RegisterAgent[%v]() in an init function", t)
	case registered != t.Elem(): // a worker knows a type by its name
		return nil, fmt.Errorf("the type of the agent is not registered, but another type of the name %s is registered: declare and register it outside of functions", key)
	}
	encoded, err := agent.Encode(p.Agent)
	if err != nil {
		return nil, err
	}
	return &beamagentsRunAgentFn{
		AgentType: beam.EncodedType{T: t}, AgentJSON: encoded,
		Name:        p.Name,
		Concurrency: cmp.Or(params.Concurrency, DefaultConcurrency), TimeoutMS: p.ActivationTimeout.Milliseconds(),
		TTLMS: p.TTL.Milliseconds(), RejectSuspended: p.WhileSuspended == Reject,
		MaxDeferred: p.MaxDeferred, MaxDeferredBytes: p.MaxDeferredBytes,
		MaxIntents: p.MaxIntents, MaxOutputBytes: p.MaxOutputBytes,
		MaxSnapshotBytes: p.MaxSnapshotBytes, MaxActivationsPerHour: p.MaxActivationsPerHour,
		MaxTokens: p.MaxTokens, MaxModelCalls: p.MaxModelCalls, NoModelMemo: p.NoModelMemo,
		HoldWatermark: params.HoldWatermark, MeasureDurations: p.MeasureDurations,
	}, nil
}
