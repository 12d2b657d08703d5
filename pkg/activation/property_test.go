package activation_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// randomHistory is a history of several keys of one agent: the inputs, and what happened to each of
// them.
type randomHistory struct {
	*rand.Rand

	t     *testing.T
	rules *activation.Rules
	keys  []*world
	trees []*traceTree
	now   int64
	sent  map[string]*pb.AgentEnvelope // inputs by their mark
	marks map[string]string            // by the bytes of the input
	flood int                          // how many events arrive at the same time
	fates map[string]int               // how often a mark was seen in outputs, dead letters and duplicates
	ids   map[string]bool              // of all intents
	log   []string
}

// script returns a random script. Its first statement emits its mark, so an activation for it has
// an output with the mark.
func (h *randomHistory) script(mark string, depth int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "emit %s;", mark)
	for range h.IntN(4) {
		b.WriteString([]string{
			`act t {"n":1};`, `ask u {"n":2};`, `ask u {"n":3};`, `expire 30; act t {};`, `put a x;`, `count n;`, `get a;`, `delete a;`,
			`attribute x y;`, `expire 0;`, `emit x;`,
		}[h.IntN(11)])
	}
	switch n := h.IntN(20); {
	case n == 0:
		b.WriteString("fail boom")
	case n == 1:
		b.WriteString("panic boom")
	case n == 2:
		b.WriteString("reject boom")
	case n < 14 && depth > 0:
		policy := []string{"", "@resume;", "@drop it;", "@escalate boss 40 2;", "@deny;", "@none;", "@panic;"}[h.IntN(7)]
		fmt.Fprintf(&b, "suspend %d | %s answered;", 1+h.IntN(100), policy)
		if h.IntN(3) == 0 {
			b.WriteString("if-approved;")
		}
		if h.IntN(4) == 0 {
			fmt.Fprintf(&b, "again %d", 1+h.IntN(100))
		} else {
			b.WriteString(strings.TrimPrefix(h.script("deeper", depth-1), "emit deeper;"))
		}
	}
	return b.String()
}

func (h *randomHistory) mark() string { return fmt.Sprintf("mark-%d-", len(h.sent)) }

// input makes a random input and runs it.
func (h *randomHistory) input() {
	i, n := h.IntN(len(h.keys)), h.IntN(20)
	if h.flood > 0 {
		h.flood--
		i, n = 0, 0
	} else if h.IntN(20) == 0 {
		h.flood = 12
	}
	w := h.keys[i]
	h.now += int64(h.IntN(30))
	at := max(0, h.now-int64(h.IntN(60)))
	mark := h.mark()
	env := &pb.AgentEnvelope{EntityKey: []byte(w.key), EventTimeMs: at}
	before := w.now()
	switch {
	case n < 6:
		event := h.script(mark, 2)
		if h.IntN(3) == 0 {
			event = fmt.Sprintf("id %d;%s", h.IntN(10), event)
		}
		env.Payload = &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(event)}
	case n < 14:
		// An answer to an open intent, or to any intent, and mostly of the right kind.
		all := before.GetPending()
		if len(all) == 0 || h.IntN(5) == 0 {
			all = w.intents()
		}
		if len(all) == 0 {
			return
		}
		in := all[h.IntN(len(all))]
		if (intent.KindOf(in) == intent.Approval) == (h.IntN(8) > 0) {
			env.Payload = &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{
				IntentId: in.GetIntentId(), Approved: h.IntN(3) > 0, Approver: mark, DecidedAtMs: int64(h.IntN(2)) * max(0, at-int64(h.IntN(50))),
			}}
		} else {
			env.Payload = &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{
				IntentId: in.GetIntentId(), Seq: in.GetSeq() + int64(h.IntN(10)/9), Status: pb.ToolResult_Status(h.IntN(5)), Payload: []byte(mark),
			}}
		}
	case n < 15:
		env.Payload = &pb.AgentEnvelope_ExportRequest{ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: mark}}
	case n < 16:
		h.log = append(h.log, w.key+" drain")
		w.drain()
		h.check(i, before, w.last)
		return
	case n < 17:
		if mark, ok := w.rules.TTLMark(before); ok {
			h.now = max(h.now, mark)
			h.log = append(h.log, w.key+" idle")
			w.idle()
			h.check(i, before, w.last)
		}
		return
	default:
		if due, ok := activation.Deadline(before); ok {
			h.now = max(h.now, due)
			h.log = append(h.log, w.key+" timeout")
			w.timeout()
			h.check(i, before, w.last)
		}
		return
	}
	h.log = append(h.log, fmt.Sprintf("%s %v", w.key, env))
	h.sent[mark], h.marks[string(w.encode(env))] = env, mark
	w.envelope(env)
	for _, name := range w.last.Counters {
		if name == activation.EventsDuplicate {
			h.fates[mark]++
		}
	}
	h.check(i, before, w.last)
}

// check checks the effects of a step.
func (h *randomHistory) check(key int, before *runtimepb.KeyControl, step activation.Step) {
	w := h.keys[key]
	c := w.now()
	fail := func(format string, args ...any) { h.t.Errorf("key %s: %s", w.key, fmt.Sprintf(format, args...)) }

	h.trees[key].add(w.traces())
	activations, outcomes := 0, map[pb.TraceEvent_EventType]int{}
	for _, name := range step.Counters {
		if name == activation.Activations {
			activations++
		}
		if !slices.Contains(activation.Counters(), name) {
			fail("the counter %s is not listed", name)
		}
	}
	for _, e := range step.Effects {
		switch {
		case e.Output != nil:
			if mark := string(e.Output); h.sent[mark] != nil {
				h.fates[mark]++
			}
		case e.Intent != nil:
			if h.ids[e.Intent.GetIntentId()] {
				fail("the id of %v was used before", e.Intent)
			}
			h.ids[e.Intent.GetIntentId()] = true
		case e.Trace != nil:
			outcomes[e.Trace.GetEventType()]++
		case e.Snapshot != nil:
			h.fates[e.Snapshot.GetRequestId()]++
		case e.Error != nil:
			h.letter(e.Error, fail)
		}
	}
	if activations != outcomes[pb.TraceEvent_ACTIVATION_START] || activations != outcomes[pb.TraceEvent_ACTIVATION_END] ||
		c.GetSeq()-before.GetSeq() != int64(activations) {
		fail("%d activations, seq from %d to %d, trace events %v", activations, before.GetSeq(), c.GetSeq(), outcomes)
	}

	var pending []string
	for _, in := range c.GetPending() {
		pending = append(pending, in.GetIntentId())
		if !h.ids[in.GetIntentId()] {
			fail("%v is pending and has never gone out", in)
		}
		if slices.Contains(c.GetExpiredIntentIds(), in.GetIntentId()) {
			fail("%v is pending and expired", in)
		}
	}
	if !slices.Equal(pending, c.GetContinuation().GetPendingIntentIds()) || len(slices.Compact(slices.Sorted(slices.Values(pending)))) != len(pending) {
		fail("pending are %q, in the continuation %q", pending, c.GetContinuation().GetPendingIntentIds())
	}
	for _, id := range c.GetEscalationIds() {
		if !slices.Contains(pending, id) {
			fail("the escalation %s is not pending", id)
		}
	}
	if c.GetContinuation() == nil && (len(c.GetExpiredIntentIds()) > 0 || c.GetStartedMs() != 0 || c.GetSnapshotVersion() != 0 || c.GetTimeoutsInRow() != 0) {
		fail("without a suspension: %v", c)
	}
	if due, ok := activation.Deadline(c); ok && due > c.GetContinuation().GetDeadlineMs() {
		fail("the timer is set to %d, behind the deadline: %v", due, c)
	}
	if mark := c.GetTtlMarkMs(); mark < before.GetTtlMarkMs() && mark != 0 || w.rules.TTLMS > 0 && c.GetContinuation() != nil && mark < c.GetContinuation().GetDeadlineMs()+w.rules.TTLMS {
		fail("the mark went from %d to %d: %v", before.GetTtlMarkMs(), mark, c)
	}
	if n := c.GetTimeoutsInRow(); n > 100 {
		fail("%d timeouts in a row", n)
	}
	h.checkDeferred(w, c, fail)
}

func (h *randomHistory) checkDeferred(w *world, c *runtimepb.KeyControl, fail func(string, ...any)) {
	deferred := w.deferred
	if w.live != nil {
		deferred = w.encodeKey(w.live).deferred
	}
	var size int64
	last := int64(-1)
	for _, b := range deferred {
		e := new(runtimepb.DeferredEvent)
		w.decode(b, e)
		size += int64(proto.Size(e.GetEnvelope()))
		if e.GetArrival() <= last || e.GetArrival() >= c.GetNextArrival() {
			fail("arrival %d after %d, the next is %d", e.GetArrival(), last, c.GetNextArrival())
		}
		last = e.GetArrival()
	}
	if int(c.GetDeferredCount()) != len(deferred) || c.GetDeferredBytes() != size {
		fail("%d events of %d bytes are deferred, control %v", len(deferred), size, c)
	}
}

func (h *randomHistory) letter(rec *pb.ActivationErrorRecord, fail func(string, ...any)) {
	l, err := deadletter.Read(rec)
	if err != nil {
		fail("%v", err)
	}
	if l.InputKind == deadletter.NoInput {
		return
	}
	if mark, ok := h.marks[string(l.Input)]; ok {
		h.fates[mark]++
	} else {
		fail("a dead letter of something that was not sent: %v", rec)
	}
}

// end drains everything. Each input must have been seen exactly once.
func (h *randomHistory) end() {
	for _, w := range h.keys {
		w.repeat = false // there are many alike
	}
	for i, w := range h.keys {
		for w.now().GetContinuation() != nil || w.now().GetDeferredCount() > 0 {
			before := w.now()
			w.timeout()
			h.check(i, before, w.last)
			before = w.now()
			w.drain()
			h.check(i, before, w.last)
		}
	}
	for mark, env := range h.sent {
		if n := h.fates[mark]; n != 1 {
			h.t.Errorf("%d fates of %v", n, env)
		}
	}
}

// play runs the history of a seed. With bundles, the keys stay open during several inputs.
func play(t *testing.T, seed uint64, bundles bool) *randomHistory {
	t.Helper()
	h := &randomHistory{
		Rand: rand.New(rand.NewPCG(seed, 11)), t: t, now: 1000,
		sent: map[string]*pb.AgentEnvelope{}, marks: map[string]string{}, fates: map[string]int{}, ids: map[string]bool{},
	}
	h.rules = defaults(&scripted{})
	h.rules.MaxDeferred = []int{3, 64}[h.IntN(2)]
	h.rules.TTLMS = []int64{0, 50, 1000}[h.IntN(3)]
	h.rules.MaxActivationsPerHour = []int{0, 0, 5}[h.IntN(3)]
	h.rules.MaxIntents = []int{1000, 3}[h.IntN(2)]
	h.rules.WhileSuspended = []activation.WhileSuspended{activation.Defer, activation.Defer, activation.Reject}[h.IntN(3)]
	for i := range 3 {
		w := newScripted(t)
		w.rules, w.key, w.repeat = h.rules, fmt.Sprintf("k%d", i), !bundles
		h.keys = append(h.keys, w)
		h.trees = append(h.trees, newTraceTree(t))
	}
	for range 10 {
		if bundles {
			for _, w := range h.keys {
				w.live = w.open()
			}
		}
		for range 10 {
			h.input()
		}
		if bundles {
			for _, w := range h.keys {
				w.stored, w.live = w.encodeKey(w.live), nil
			}
		}
	}
	h.end()
	if t.Failed() {
		t.Fatalf("seed %d, bundles %v:\n%s", seed, bundles, strings.Join(h.log, "\n"))
	}
	return h
}

// Random histories of several keys. In each of them, exactly one thing happens to each input; seq
// counts the activations; an id is used once; and the control message has the right pending intents
// and deferred events. A step that is repeated has the same result. It makes no difference whether
// the state is written and read after each step or at the end of a bundle.
func TestRandomHistories(t *testing.T) {
	seeds := uint64(200)
	if racedetector.Enabled {
		seeds = 30
	}
	kinds := map[string]int{}
	for seed := range seeds {
		single, bundled := play(t, seed, false), play(t, seed, true)
		for i, w := range single.keys {
			other := bundled.keys[i]
			if got, want := other.bytesOf(activation.Step{Effects: other.effects}), w.bytesOf(activation.Step{Effects: w.effects}); got != want {
				t.Fatalf("seed %d: in bundles another effect:\n%s\n%s", seed, got, want)
			}
			if !reflect.DeepEqual(w.stored, other.stored) || !reflect.DeepEqual(w.counters, other.counters) {
				t.Fatalf("seed %d: in bundles another state:\n%v\n%v", seed, w.now(), other.now())
			}
			for _, e := range w.effects {
				if e.Error != nil {
					if l, err := deadletter.Read(e.Error); err == nil {
						kinds[string(l.Reason)+"/"+string(l.Code)]++
					}
				}
			}
			for name, n := range w.counters {
				kinds[name] += n
			}
		}
	}
	// The histories contain every kind of result.
	for _, want := range append(activation.Counters(),
		"orphaned_result/unknown_intent", "orphaned_result/no_continuation", "orphaned_result/intent_expired", "orphaned_result/kind_mismatch",
		"orphaned_result/approval_too_late", "orphaned_result/identity_mismatch", "suspended/rejected", "deferred_overflow/count",
		"budget_exceeded/activations", "hitl_timeout/dropped", "hitl_timeout/policy_error", "activation_error/too_many_intents",
	) {
		if kinds[want] == 0 && !racedetector.Enabled && !strings.HasPrefix(want, "llm_") && !strings.HasPrefix(want, "replay_") { // no model is called
			t.Errorf("no history has %s", want)
		}
	}
}
