package transforms

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// keyedOutput is an element of Agents.Outputs.
type keyedOutput struct{ key, value string }

// agentKit runs the DoFn of RunAgent on the kit.
type agentKit struct {
	*beamtest.Kit
	t      *testing.T
	params AgentParams
	fn     *beamagentsRunAgentFn

	outputs   *beamtest.Output[keyedOutput]
	intents   *beamtest.Output[*pb.ToolIntent]
	traces    *beamtest.Output[*pb.TraceEvent]
	snapshots *beamtest.Output[*pb.StateSnapshot]
	errs      *beamtest.Output[*pb.ActivationErrorRecord]
}

func newAgentKit(t *testing.T, params AgentParams) *agentKit {
	t.Helper()
	params.Name = cmp.Or(params.Name, "test")
	if params.Agent == nil {
		params.Agent = new(scriptedAgent)
	}
	fn, err := newRunAgentFn(params)
	if err != nil {
		t.Fatal(err)
	}
	kit, err := beamtest.New(fn)
	if err != nil {
		t.Fatal(err)
	}
	k := &agentKit{
		Kit: kit, t: t, params: params,
		outputs: beamtest.NewOutput[keyedOutput](kit), intents: beamtest.NewOutput[*pb.ToolIntent](kit),
		traces: beamtest.NewOutput[*pb.TraceEvent](kit), snapshots: beamtest.NewOutput[*pb.StateSnapshot](kit),
		errs: beamtest.NewOutput[*pb.ActivationErrorRecord](kit),
	}
	kit.Start = func() error {
		k.renew()
		k.fn.StartBundle(k.out().outputs, k.out().intents, k.out().traces, k.out().snapshots, k.out().errs)
		return nil
	}
	kit.Finish = func() error {
		out := k.out()
		return k.fn.FinishBundle(context.Background(), out.outputs, out.intents, out.traces, out.snapshots, out.errs)
	}
	return k
}

// renew makes the DoFn anew from its encoding, as another worker does.
func (k *agentKit) renew() {
	k.t.Helper()
	made, err := newRunAgentFn(k.params)
	if err != nil {
		k.t.Fatal(err)
	}
	b, err := json.Marshal(made)
	if err != nil {
		k.t.Fatal(err)
	}
	if k.fn != nil {
		k.fn.bundle.cancelled()
	}
	k.fn = new(beamagentsRunAgentFn)
	if err := json.Unmarshal(b, k.fn); err != nil {
		k.t.Fatal(err)
	}
	if err := k.fn.Setup(context.Background()); err != nil {
		k.t.Fatal(err)
	}
}

func (k *agentKit) out() agentOutputs {
	return agentOutputs{
		outputs: func(at beam.EventTime, key, value []byte) {
			k.outputs.Emit(at, keyedOutput{string(key), string(value)})
		},
		intents:   k.intents.Emit,
		traces:    k.traces.Emit,
		snapshots: k.snapshots.Emit,
		errs:      k.errs.Emit,
	}
}

// element returns a call of ProcessElement.
func (k *agentKit) element(env *pb.AgentEnvelope) beamtest.Call {
	return func(sp beamstate.Provider, tp timers.Provider) error {
		out := k.out()
		return k.fn.ProcessElement(context.Background(), sp, tp, env.GetEntityKey(), env, out.outputs, out.intents, out.traces, out.snapshots, out.errs)
	}
}

func (k *agentKit) onTimer(t beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
	out := k.out()
	k.fn.OnTimer(context.Background(), sp, tp, []byte(t.Key), t.Context(), out.outputs, out.intents, out.traces, out.snapshots, out.errs)
	return nil
}

// run runs these envelopes in one bundle.
func (k *agentKit) run(envelopes ...*pb.AgentEnvelope) {
	k.t.Helper()
	if err := k.try(envelopes...); err != nil {
		k.t.Fatal(err)
	}
}

func (k *agentKit) try(envelopes ...*pb.AgentEnvelope) error {
	if err := k.StartBundle(); err != nil {
		return err
	}
	for _, env := range envelopes {
		if err := k.Run(string(env.GetEntityKey()), k.element(env)); err != nil {
			k.FailBundle()
			return err
		}
	}
	return k.FinishBundle()
}

// advance fires the timers that are due at a time in ms.
func (k *agentKit) advance(ms int64) {
	k.t.Helper()
	if err := k.Fire(ms, k.onTimer); err != nil {
		k.t.Fatal(err)
	}
}

func (k *agentKit) control(key string) *runtimepb.KeyControl {
	k.t.Helper()
	values, err := k.Values(key, "control")
	if err != nil {
		k.t.Fatal(err)
	}
	if len(values) == 0 {
		return new(runtimepb.KeyControl)
	}
	return values[0].(*runtimepb.KeyControl)
}

func eventFor(key string, ms int64, s script) *pb.AgentEnvelope {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return &pb.AgentEnvelope{EntityKey: []byte(key), EventTimeMs: ms, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: b}}
}

func resultFor(in *pb.ToolIntent, ms int64, payload string) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{EntityKey: in.GetEntityKey(), EventTimeMs: ms, Payload: &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{
		IntentId: in.GetIntentId(), EntityKey: in.GetEntityKey(), Seq: in.GetSeq(), Status: pb.ToolResult_OK, Payload: []byte(payload), CompletedAtMs: ms,
	}}}
}

func approvalFor(in *pb.ToolIntent, ms int64, approved bool) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{EntityKey: in.GetEntityKey(), EventTimeMs: ms, Payload: &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{
		IntentId: in.GetIntentId(), Approved: approved, Approver: "alice", DecidedAtMs: ms,
	}}}
}

// said returns what was emitted so far, without traces: the outputs, intents and dead letters of
// each key, in order.
func (k *agentKit) said() (lines []string) {
	k.t.Helper()
	for _, e := range k.outputs.All() {
		lines = append(lines, fmt.Sprintf("%s output@%d %s", e.Value.key, e.EventTime.Milliseconds(), e.Value.value))
	}
	for _, e := range k.intents.All() {
		lines = append(lines, fmt.Sprintf("%s intent@%d %s %s", e.Value.GetEntityKey(), e.EventTime.Milliseconds(), e.Value.GetKind(), e.Value.GetToolName()))
	}
	for _, e := range k.errs.All() {
		l, err := deadletter.Read(e.Value)
		if err != nil {
			k.t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s error@%d %s/%s", l.EntityKey, e.EventTime.Milliseconds(), l.Reason, l.Code))
	}
	return lines
}

func (k *agentKit) expect(want ...string) {
	k.t.Helper()
	got := k.said()
	if !slices.Equal(got, want) {
		k.t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func (k *agentKit) armed(key string) (tags []string) {
	for _, t := range k.Timers(key) {
		tags = append(tags, fmt.Sprintf("%s@%d", t.Tag, t.FireMS))
	}
	return tags
}

func TestAgentSuspendsAndResumes(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			k := newAgentKit(t, AgentParams{Concurrency: concurrency})
			k.run(eventFor("a", 1000, script{Act: []string{"t"}, Then: "suspend", Timeout: 5000, Next: &script{Emit: []string{"end"}}}))
			k.advance(1000)
			k.run(resultFor(k.intents.All()[0].Value, 2000, "fine"))
			k.advance(10_000)
			k.expect("a output@2000 tool_result approved=false expired=0 payload=fine", "a output@2000 end", "a intent@1000 TOOL t")
			if c := k.control("a"); c.GetContinuation() != nil || c.GetSeq() != 2 {
				t.Errorf("control %v", c)
			}
		})
	}
}
