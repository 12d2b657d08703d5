package activation_test

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
	"github.com/beamagents/beamagents-go/pkg/memory"
	"github.com/beamagents/beamagents-go/pkg/replay"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// world is a runtime in memory: the state of one key as bytes, and all effects.
type world struct {
	stored

	t     *testing.T
	rules *activation.Rules
	key   string

	last     activation.Step   // of the last step
	sent     *pb.AgentEnvelope // the last one
	live     *openKey          // nil outside of a bundle
	effects  []activation.Effect
	counters map[string]int
	limit    time.Duration // of a call of the agent's code

	repeat              bool // runs each step twice, which must do the same
	memoryErr, cacheErr error
	measure             func() func() int64
	bagReads, bagClears int
}

// defaults returns the rules of the tests, which are those of RunAgent.
func defaults(a agent.Agent) *activation.Rules {
	return &activation.Rules{
		Name: "test", Agent: a,
		MaxDeferred: 64, MaxDeferredBytes: 1 << 20, MaxIntents: 1000, MaxOutputBytes: 10 << 20, MaxSnapshotBytes: 1 << 20,
	}
}

func newWorld(t *testing.T, a agent.Agent, change ...func(*activation.Rules)) *world {
	t.Helper()
	rules := defaults(a)
	for _, c := range change {
		c(rules)
	}
	return &world{t: t, rules: rules, key: "k", counters: map[string]int{}, limit: time.Minute}
}

// bag holds deferred events.
type bag struct {
	w      *world
	events []*runtimepb.DeferredEvent
}

func (b *bag) Events() ([]*runtimepb.DeferredEvent, error) {
	b.w.bagReads++
	return slices.SortedFunc(slices.Values(b.events), func(x, y *runtimepb.DeferredEvent) int { return cmp.Compare(x.Arrival, y.Arrival) }), nil
}
func (b *bag) Add(e *runtimepb.DeferredEvent) error { b.events = append(b.events, e); return nil }
func (b *bag) Clear()                               { b.w.bagClears++; b.events = nil }

// step runs one step on the stored state, and stores the new state.
func (w *world) step(run func(*activation.Rules, *activation.Key) (activation.Step, error)) activation.Step {
	w.t.Helper()
	step, err := w.try(run)
	if err != nil {
		w.t.Fatal(err)
	}
	return step
}

// stored is the state of a key as bytes. A nil cell is empty.
type stored struct {
	control, memory, cache []byte
	deferred               [][]byte
}

func (w *world) try(run func(*activation.Rules, *activation.Key) (activation.Step, error)) (activation.Step, error) {
	w.t.Helper()
	step, next, err := w.once(run)
	if w.repeat {
		again, nextAgain, errAgain := w.once(run)
		if !reflect.DeepEqual(next, nextAgain) || w.bytesOf(step) != w.bytesOf(again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			w.t.Errorf("a step repeated from the same state differs:\n%q %v\n%q %v", say(step), err, say(again), errAgain)
		}
	}
	if err != nil {
		return step, err
	}
	w.stored = next
	w.last = step
	w.effects = append(w.effects, step.Effects...)
	for _, name := range step.Counters {
		w.counters[name]++
	}
	return step, nil
}

// bytesOf returns everything that a step has changed or emitted, as text.
func (w *world) bytesOf(step activation.Step) string {
	w.t.Helper()
	var b strings.Builder
	for _, e := range step.Effects {
		fmt.Fprintf(&b, "%d ", e.AtMS)
		switch {
		case e.Intent != nil:
			fmt.Fprintf(&b, "intent %x", w.encode(e.Intent))
		case e.Trace != nil:
			fmt.Fprintf(&b, "trace %x", w.encode(e.Trace))
		case e.Snapshot != nil:
			fmt.Fprintf(&b, "snapshot %x", w.encode(e.Snapshot))
		case e.Error != nil:
			fmt.Fprintf(&b, "error %x", w.encode(e.Error))
		case e.Output != nil:
			fmt.Fprintf(&b, "output %x", e.Output)
		default:
			w.t.Error("an effect without content")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintln(&b, step.Counters, step.Rest)
	return b.String()
}

// openKey is a key with decoded state, as in a bundle.
type openKey struct {
	activation.Key

	bag   *bag
	mem   *memory.Memory
	cache *replay.Cache
}

// open reads the stored state.
func (w *world) open() *openKey {
	w.t.Helper()
	k := &openKey{bag: &bag{w: w}}
	control := new(runtimepb.KeyControl)
	w.decode(w.control, control)
	for _, b := range w.deferred {
		e := new(runtimepb.DeferredEvent)
		w.decode(b, e)
		k.bag.events = append(k.bag.events, e)
	}
	k.Key = activation.Key{
		Entity: []byte(w.key), Control: control, Deferred: k.bag,
		Memory: func() (*memory.Memory, error) {
			if w.memoryErr != nil {
				return nil, w.memoryErr
			}
			if k.mem == nil {
				k.mem = memory.New(w.memoryBlob(), 0)
			}
			return k.mem, nil
		},
		Cache: func() (*replay.Cache, error) {
			if w.cacheErr != nil {
				return nil, w.cacheErr
			}
			if k.cache == nil {
				blob := new(pb.LlmCacheBlob)
				w.decode(w.cache, blob)
				k.cache = replay.New(blob, 0)
			}
			return k.cache, nil
		},
		Stored: func() (mem *pb.MemoryBlob, cache *pb.LlmCacheBlob, err error) {
			next := w.encodeKey(k)
			if next.memory != nil {
				mem = new(pb.MemoryBlob)
				w.decode(next.memory, mem)
			}
			if next.cache != nil {
				cache = new(pb.LlmCacheBlob)
				w.decode(next.cache, cache)
			}
			return mem, cache, nil
		},
		Call:    func(f func(context.Context)) *activation.Failure { return call(w.t.Context(), w.limit, f) },
		Measure: w.measure,
	}
	return k
}

func call(ctx context.Context, limit time.Duration, f func(context.Context)) *activation.Failure {
	switch result, text := isolate.Run(ctx, limit, f); result {
	case isolate.Returned:
		return nil
	case isolate.Panicked:
		return &activation.Failure{Reason: deadletter.ActivationError, Code: deadletter.Panicked, Text: text}
	case isolate.Exited:
		return &activation.Failure{Reason: deadletter.ActivationError, Code: deadletter.Exited}
	default:
		return &activation.Failure{Reason: deadletter.ActivationTimeout, Code: deadletter.Limit}
	}
}

// encodeKey returns the state that a key would store.
func (w *world) encodeKey(k *openKey) stored {
	w.t.Helper()
	next := stored{control: w.encode(k.Control), memory: w.memory, cache: w.cache}
	if k.mem != nil && k.mem.Changed() {
		next.memory = nil
		if !k.mem.Empty() {
			next.memory = w.encode(k.mem.Blob())
		}
	}
	if k.cache != nil && k.cache.Changed() {
		next.cache = nil
		if !k.cache.Empty() {
			next.cache = w.encode(k.cache.Blob())
		}
	}
	for _, e := range k.bag.events {
		next.deferred = append(next.deferred, w.encode(e))
	}
	return next
}

// once runs a step and returns the new state and the effects.
func (w *world) once(run func(*activation.Rules, *activation.Key) (activation.Step, error)) (activation.Step, stored, error) {
	w.t.Helper()
	k := w.live
	if k == nil {
		k = w.open()
	}
	before, changed := proto.CloneOf(k.Control), k.Changed
	k.Changed = false
	step, err := run(w.rules, &k.Key)
	if err != nil {
		return step, w.stored, err
	}
	if !k.Changed && !proto.Equal(before, k.Control) {
		w.t.Errorf("control has changed and Changed is false:\n%v\n%v", before, k.Control)
	}
	k.Changed = k.Changed || changed
	if step.Rest != activation.Rest(k.Control) {
		w.t.Errorf("Step.Rest is %v, and of the state it is %v", step.Rest, activation.Rest(k.Control))
	}
	if w.live != nil {
		return step, w.stored, nil // written at the end of the bundle
	}
	return step, w.encodeKey(k), nil
}

func (w *world) decode(b []byte, m proto.Message) {
	w.t.Helper()
	if err := proto.Unmarshal(b, m); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) encode(m proto.Message) []byte {
	w.t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) memoryBlob() *pb.MemoryBlob {
	if w.memory == nil {
		return nil
	}
	blob := new(pb.MemoryBlob)
	w.decode(w.memory, blob)
	return blob
}

// now returns the control message as it is stored, or as the bundle will store it.
func (w *world) now() *runtimepb.KeyControl {
	if w.live != nil {
		return proto.CloneOf(w.live.Control)
	}
	c := new(runtimepb.KeyControl)
	w.decode(w.control, c)
	return c
}

func (w *world) envelope(env *pb.AgentEnvelope) activation.Step {
	w.t.Helper()
	w.sent = env
	return w.step(func(r *activation.Rules, k *activation.Key) (activation.Step, error) { return r.Envelope(k, env) })
}

func eventAt(ms int64, event string) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{EntityKey: []byte("k"), EventTimeMs: ms, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(event)}}
}

func (w *world) event(ms int64, event string) activation.Step {
	w.t.Helper()
	return w.envelope(eventAt(ms, event))
}

func (w *world) result(ms int64, in *pb.ToolIntent, status pb.ToolResult_Status, payload string) activation.Step {
	w.t.Helper()
	return w.envelope(&pb.AgentEnvelope{EntityKey: []byte("k"), EventTimeMs: ms, Payload: &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{
		IntentId: in.GetIntentId(), EntityKey: in.GetEntityKey(), Seq: in.GetSeq(), Status: status, Payload: []byte(payload), CompletedAtMs: ms,
	}}})
}

func (w *world) approve(ms, decided int64, id string, approved bool) activation.Step {
	w.t.Helper()
	return w.envelope(&pb.AgentEnvelope{EntityKey: []byte("k"), EventTimeMs: ms, Payload: &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{
		IntentId: id, Approved: approved, Approver: "alice", DecidedAtMs: decided,
	}}})
}

func (w *world) timeout() activation.Step {
	w.t.Helper()
	return w.step((*activation.Rules).Timeout)
}

func (w *world) idle() activation.Step {
	w.t.Helper()
	return w.step((*activation.Rules).Idle)
}

func (w *world) drain() activation.Step {
	w.t.Helper()
	return w.step((*activation.Rules).Drain)
}

// say returns the effects of a step without traces, one on each line.
func say(step activation.Step) (lines []string) {
	for _, e := range step.Effects {
		switch {
		case e.Output != nil:
			lines = append(lines, fmt.Sprintf("output@%d %s", e.AtMS, e.Output))
		case e.Intent != nil:
			lines = append(lines, fmt.Sprintf("intent@%d %s %s %s", e.AtMS, intent.KindOf(e.Intent), e.Intent.GetToolName(), e.Intent.GetArgsJson()))
		case e.Snapshot != nil:
			lines = append(lines, fmt.Sprintf("snapshot@%d seq %d", e.AtMS, e.Snapshot.GetSeq()))
		case e.Error != nil:
			l, err := deadletter.Read(e.Error)
			if err != nil {
				lines = append(lines, err.Error())
				continue
			}
			lines = append(lines, fmt.Sprintf("error@%d %s/%s %s", e.AtMS, l.Reason, l.Code, l.InputKind))
		}
	}
	return lines
}

// expect compares the effects of the last step.
func (w *world) expect(want ...string) {
	w.t.Helper()
	if got := say(w.last); !slices.Equal(got, want) {
		w.t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// letter returns the only dead letter of the last step.
func (w *world) letter() deadletter.Letter {
	w.t.Helper()
	var letters []deadletter.Letter
	for _, e := range w.last.Effects {
		if e.Error != nil {
			l, err := deadletter.Read(e.Error)
			if err != nil {
				w.t.Fatal(err)
			}
			letters = append(letters, l)
		}
	}
	if len(letters) != 1 {
		w.t.Fatalf("%d dead letters: %q", len(letters), say(w.last))
	}
	return letters[0]
}

// intents returns the intents that were emitted so far.
func (w *world) intents() (all []*pb.ToolIntent) {
	for _, e := range w.effects {
		if e.Intent != nil {
			all = append(all, e.Intent)
		}
	}
	return all
}

func (w *world) traces() (all []*pb.TraceEvent) {
	for _, e := range w.last.Effects {
		if e.Trace != nil {
			all = append(all, e.Trace)
		}
	}
	return all
}

// agentFunc is an agent in one function.
type agentFunc struct {
	run func(ctx context.Context, act *agent.Activation) (agent.Outcome, error)
}

func (a *agentFunc) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	return a.run(ctx, act)
}

func run(f func(ctx context.Context, act *agent.Activation) (agent.Outcome, error)) *agentFunc {
	return &agentFunc{f}
}

// pending compares the open intents in control and in the continuation.
func (w *world) pending(want ...*pb.ToolIntent) {
	w.t.Helper()
	var ids []string
	for _, in := range want {
		ids = append(ids, in.GetIntentId())
	}
	c := w.now()
	var got []string
	for _, in := range c.GetPending() {
		got = append(got, in.GetIntentId())
	}
	if !slices.Equal(got, ids) || !slices.Equal(c.GetContinuation().GetPendingIntentIds(), ids) {
		w.t.Errorf("pending are %q, in the continuation %q, want %q", got, c.GetContinuation().GetPendingIntentIds(), ids)
	}
}

// same compares the state with an earlier one, byte for byte.
func (w *world) same(before stored) {
	w.t.Helper()
	if fmt.Sprintf("%x", w.stored) != fmt.Sprintf("%x", before) {
		was, is := new(runtimepb.KeyControl), new(runtimepb.KeyControl)
		w.decode(before.control, was)
		w.decode(w.control, is)
		w.t.Errorf("the state has changed:\n%v\n%v", was, is)
	}
}
