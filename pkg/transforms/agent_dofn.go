package transforms

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/grpc/metadata"

	"github.com/beamagents/beamagents-go/pkg/state"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsRunAgentFn).ProcessElement, func(f *beamagentsRunAgentFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(beamstate.Provider), a[2].(timers.Provider), a[3].([]byte), a[4].(*pb.AgentEnvelope),
			a[5].(func(beam.EventTime, []byte, []byte)), a[6].(func(beam.EventTime, *pb.ToolIntent)), a[7].(func(beam.EventTime, *pb.TraceEvent)),
			a[8].(func(beam.EventTime, *pb.StateSnapshot)), a[9].(func(beam.EventTime, *pb.ActivationErrorRecord))))
	})
	register.Emitter3[beam.EventTime, []byte, []byte]()
	register.Emitter2[beam.EventTime, *pb.ToolIntent]()
	register.Emitter2[beam.EventTime, *pb.TraceEvent]()
	register.Emitter2[beam.EventTime, *pb.StateSnapshot]()
	register.Emitter2[beam.EventTime, *pb.ActivationErrorRecord]()
}

// beamagentsAgentTimers declares the timer family of RunAgent.
type beamagentsAgentTimers struct{}

// Timers declares the family in event time.
func (beamagentsAgentTimers) Timers() map[string]timers.TimeDomain {
	return map[string]timers.TimeDomain{state.TimerFamily: timers.EventTimeDomain}
}

// beamagentsRunAgentFn passes elements and timers to the sessions of a bundle. Its cells are
// fields so that Beam declares them; each session opens cells of its own.
type beamagentsRunAgentFn struct {
	Control     state.Control
	Memory      state.Memory
	ReplayCache state.ReplayCache
	Deferred    state.Deferred
	Timers      beamagentsAgentTimers

	AgentType beam.EncodedType
	AgentJSON json.RawMessage

	Name                            string
	Concurrency                     int
	TimeoutMS, TTLMS                int64
	RejectSuspended                 bool
	MaxDeferred, MaxDeferredBytes   int
	MaxIntents, MaxOutputBytes      int
	MaxSnapshotBytes                int
	MaxActivationsPerHour           int
	MaxTokens                       int64
	MaxModelCalls                   int
	NoModelMemo                     bool
	HoldWatermark, MeasureDurations bool

	host   *agentHost
	scope  string // the scope of model calls: the id of the worker, see workerOf
	bundle *agentBundle
}

// agentOutputs are the emitters that Beam passes to a call.
type agentOutputs struct {
	outputs   func(beam.EventTime, []byte, []byte)
	intents   func(beam.EventTime, *pb.ToolIntent)
	traces    func(beam.EventTime, *pb.TraceEvent)
	snapshots func(beam.EventTime, *pb.StateSnapshot)
	errs      func(beam.EventTime, *pb.ActivationErrorRecord)
}

// Setup sets the agent up, once in a worker process.
func (f *beamagentsRunAgentFn) Setup(ctx context.Context) (err error) {
	f.host, err = hostOf(f) //nolint:contextcheck // the agent's Setup serves the process, not this instance alone
	f.scope = workerOf(ctx)
	return err
}

// workerOf returns the id of the worker from the metadata of the SDK's calls. Several jobs may
// run in one process, each with its own workers.
func workerOf(ctx context.Context) string {
	md, _ := metadata.FromOutgoingContext(ctx)
	return strings.Join(md.Get("worker_id"), " ")
}

// StartBundle drops what a failed bundle has left, and begins a new one.
func (f *beamagentsRunAgentFn) StartBundle(
	_ func(beam.EventTime, []byte, []byte), _ func(beam.EventTime, *pb.ToolIntent), _ func(beam.EventTime, *pb.TraceEvent),
	_ func(beam.EventTime, *pb.StateSnapshot), _ func(beam.EventTime, *pb.ActivationErrorRecord),
) {
	f.bundle.cancelled()
	f.bundle = newAgentBundle(f.host)
	f.bundle.scope = f.scope
}

// ProcessElement hands the envelope to the session of its key.
func (f *beamagentsRunAgentFn) ProcessElement(
	ctx context.Context, sp beamstate.Provider, tp timers.Provider, key []byte, env *pb.AgentEnvelope,
	outputs func(beam.EventTime, []byte, []byte), intents func(beam.EventTime, *pb.ToolIntent), traces func(beam.EventTime, *pb.TraceEvent),
	snapshots func(beam.EventTime, *pb.StateSnapshot), errs func(beam.EventTime, *pb.ActivationErrorRecord),
) error {
	b, ok := f.bundle, false
	defer func() { b.endUnless(ok) }()
	err := b.element(ctx, sp, tp, key, env, agentOutputs{outputs, intents, traces, snapshots, errs})
	ok = err == nil
	return err
}

// OnTimer hands the timer to the session of its key. It cannot return an error, so it panics to
// fail the bundle.
func (f *beamagentsRunAgentFn) OnTimer(
	ctx context.Context, sp beamstate.Provider, tp timers.Provider, key []byte, timer timers.Context,
	outputs func(beam.EventTime, []byte, []byte), intents func(beam.EventTime, *pb.ToolIntent), traces func(beam.EventTime, *pb.TraceEvent),
	snapshots func(beam.EventTime, *pb.StateSnapshot), errs func(beam.EventTime, *pb.ActivationErrorRecord),
) {
	b, ok := f.bundle, false
	defer func() { b.endUnless(ok) }()
	if err := b.timer(ctx, sp, tp, key, timer.Tag, agentOutputs{outputs, intents, traces, snapshots, errs}); err != nil {
		panic(err)
	}
	ok = true
}

// FinishBundle waits for all sessions, writes their state and emits their outputs.
func (f *beamagentsRunAgentFn) FinishBundle(
	ctx context.Context,
	outputs func(beam.EventTime, []byte, []byte), intents func(beam.EventTime, *pb.ToolIntent), traces func(beam.EventTime, *pb.TraceEvent),
	snapshots func(beam.EventTime, *pb.StateSnapshot), errs func(beam.EventTime, *pb.ActivationErrorRecord),
) error {
	b := f.bundle
	f.bundle = nil
	defer b.cancelled()
	return b.commitAll(ctx, agentOutputs{outputs, intents, traces, snapshots, errs})
}
