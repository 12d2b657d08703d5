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

// What [AgentParams.WhileSuspended] may be.
const (
	// Defer keeps an event of a suspended key until the suspension ends.
	Defer = activation.Defer
	// Reject makes a dead letter suspended/rejected of it.
	Reject = activation.Reject
)

// DefaultConcurrency is the default of [AgentParams].Concurrency.
const DefaultConcurrency = 16

const maxConcurrency = 1024

// AgentParams are the options of [RunAgent]. A zero value of a field is its default.
type AgentParams struct {
	// Name is required: 1 to 64 of a-z, 0-9, "_" and "-". It is stored with each suspension,
	// which only an agent of this name resumes, so it never changes while a job runs.
	Name string
	// Agent is required: a pointer to a struct whose type was given to [RegisterAgent]. Its
	// exported fields travel to the workers as JSON.
	Agent agent.Agent
	// Concurrency is how many activations run at once in a worker process, 1 to 1,024; 0 is
	// DefaultConcurrency. The activations of a key run one after the other, in the order of
	// arrival.
	Concurrency int
	// ActivationTimeout is the time limit of an activation, 1 ms to 1 h; 0 is 5 minutes.
	// Beyond it the activation is a dead letter activation_timeout.
	ActivationTimeout time.Duration
	// TTL is how long after its last event or answer a key is idle, by event time; at least
	// 1 ms. Then its memory and replay cache are cleared. 0 is never. A suspended key is not
	// idle.
	TTL time.Duration
	// WhileSuspended is Defer or Reject.
	WhileSuspended activation.WhileSuspended
	// MaxDeferred and MaxDeferredBytes bound the events of a key that wait for the end of a
	// suspension, and their bytes; 0 is 64 and 1 MiB. More are dead letters
	// deferred_overflow.
	MaxDeferred      int
	MaxDeferredBytes int
	// MaxIntents bounds the intents of a key that are open at once; 0 is 1,000.
	MaxIntents int
	// MaxOutputBytes bounds what an activation emits, outputs and intents together, in
	// bytes; 0 is 10 MiB.
	MaxOutputBytes int
	// MaxSnapshotBytes bounds the snapshot of a suspension, in bytes; 0 is 1 MiB.
	MaxSnapshotBytes int
	// MaxActivationsPerHour bounds the activations of a key in an hour of event time; 0 is
	// no limit. An event or an answer beyond it is a dead letter budget_exceeded.
	MaxActivationsPerHour int
	// MaxTokens bounds the tokens of the model responses of an activation, those from the
	// replay cache included; 0 is no limit. An activation beyond it is a dead letter
	// budget_exceeded.
	MaxTokens int64
	// MaxModelCalls bounds the model calls of a worker process that are in flight at once, 1
	// to 4,096; 0 is 64. A provider that answers with status 429 or 529, or with 503 and
	// Retry-After, stops all of them for a moment.
	MaxModelCalls int
	// NoModelMemo makes a bundle that is retried in the same worker process repeat its model
	// calls. By default the process remembers up to 32 MiB of responses.
	NoModelMemo bool
	// HoldWatermark holds the output watermark at the deadline of the earliest suspension,
	// so that what a timeout emits is not late. By default nothing is held: a suspension of
	// days does not stop the windows downstream, and the output of a timeout may be late.
	HoldWatermark bool
	// MeasureDurations adds beam_agents.duration_ms and beam_agents.offset_ms to trace
	// events. They are measured, so they differ when a bundle is retried.
	MeasureDurations bool
}

// common are the parameters that every runtime of an agent has, with their defaults.
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

// RegisterAgent makes the agent type *T known to the workers. Call it in an init function
// of the package that declares the type.
func RegisterAgent[T agent.Agent]() {
	// Not by beam.RegisterType, which also makes a schema of the type, and panics in beam.Init
	// if a field has none, such as a client. An agent is no element and needs no schema.
	runtime.RegisterType(reflect.TypeFor[T]())
}

// Agents is the result of [RunAgent]. Each element is at the event time of the activation
// that it comes from.
type Agents struct {
	// Outputs: PCollection<KV<[]byte, []byte>>, what the agent emitted, under its key.
	Outputs beam.PCollection
	// Intents: PCollection<*pb.ToolIntent>. They are not signed: see SignIntents.
	Intents beam.PCollection
	// Traces: PCollection<*pb.TraceEvent>.
	Traces beam.PCollection
	// Snapshots: PCollection<*pb.StateSnapshot>, the answers to export requests.
	Snapshots beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>.
	Errors beam.PCollection
}

// RunAgent runs an agent on a PCollection<KV<[]byte, *pb.AgentEnvelope>>, such as
// KeyByEntity returns. Each key has a memory, and at most one suspension.
//
// It panics if the parameters or the input cannot be used, and says what to change;
// [TryRunAgent] returns that as an error.
func RunAgent(s beam.Scope, params AgentParams, col beam.PCollection) Agents {
	agents, err := TryRunAgent(s, params, col)
	if err != nil {
		panic(err)
	}
	return agents
}

// TryRunAgent is [RunAgent] with an error in place of the panic.
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

// checkAgentRunner looks at the flag --runner, if the program has parsed it: the legacy
// direct runner dereferences nil when it comes to a DoFn with state.
func checkAgentRunner() error {
	runner := flag.Lookup("runner")
	if runner != nil && (runner.Value.String() == "direct" || runner.Value.String() == "DirectRunner") {
		return fmt.Errorf("--runner=%s has no state and no timers; use --runner=prism, the embedded runner", runner.Value)
	}
	return nil
}

func checkAgentInput(col beam.PCollection) error {
	if !col.IsValid() {
		return errors.New("the input is no PCollection; use that of KeyByEntity")
	}
	t := col.Type()
	if t.Type() != typex.KVType || len(t.Components()) != 2 ||
		t.Components()[0].Type() != reflect.TypeFor[[]byte]() || t.Components()[1].Type() != reflect.TypeFor[*pb.AgentEnvelope]() {
		return fmt.Errorf("the input is a PCollection of %v; use KV<[]byte, *pb.AgentEnvelope>, as KeyByEntity returns it", t)
	}
	if col.WindowingStrategy().Fn.Kind != window.GlobalWindows {
		return fmt.Errorf("the input is in %v, at whose end a runner clears the state of a key: "+
			"apply the windows to the outputs", col.WindowingStrategy().Fn)
	}
	return nil
}

// newRunAgentFn returns the DoFn of validated parameters.
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
		return nil, fmt.Errorf("the type of the agent is not registered, and another type of the name %s is registered: declare and register it outside of functions", key)
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
