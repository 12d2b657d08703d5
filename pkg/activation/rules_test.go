package activation_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const hour = 3_600_000

// newScripted returns a key of an agent that does what its input says.
func newScripted(t *testing.T, change ...func(*activation.Rules)) *world {
	t.Helper()
	w := newWorld(t, &scripted{}, change...)
	w.repeat = true
	return w
}

func withTTL(ms int64) func(*activation.Rules) {
	return func(r *activation.Rules) { r.TTLMS = ms }
}

func TestRule01ClearedKeyMintsNewIDs(t *testing.T) {
	w := newScripted(t, withTTL(1000))
	w.event(10, `id one; put a b; act t {}`)
	if w.memory == nil {
		t.Fatal("nothing is in memory")
	}
	w.idle()
	w.expect()
	if w.memory != nil || w.cache != nil || w.counters[activation.KeysCleared] != 1 {
		t.Errorf("memory %x, cache %x, counters %v", w.memory, w.cache, w.counters)
	}
	if c := w.now(); !proto.Equal(c, &runtimepb.KeyControl{Seq: 1}) {
		t.Errorf("control is %v, want seq 1 and nothing else", c)
	}
	w.event(5000, `act t {}; get a`)
	w.expect("intent@5000 tool t {}", "output@5000 a= false")
	if ids := w.intents(); ids[0].GetIntentId() == ids[1].GetIntentId() {
		t.Errorf("the id %s was used twice", ids[0].GetIntentId())
	}
}

func TestRule02PendingIntentStaysPending(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `act a {}; act b {}; ask c {}; suspend 3600000 | note; again 3600000`)
	a, b, c := w.intents()[0], w.intents()[1], w.intents()[2]
	w.pending(a, b, c)
	w.result(2000, a, pb.ToolResult_OK, "1")
	w.expect(`output@2000 tool_result seq=0 now=2000 open=2 of a OK "1"`)
	w.pending(b, c)
	w.approve(2001, 0, c.GetIntentId(), false)
	w.expect(`output@2001 approval seq=0 now=2001 open=1 of c {} false by alice at 2001`)
	w.pending(b)
	w.result(2002, a, pb.ToolResult_OK, "1") // answered before
	w.expect("error@2002 orphaned_result/unknown_intent envelope")
	w.pending(b)
	w.result(2003, b, pb.ToolResult_OK, "2")
	w.pending()
}

// The resumed activation waits for the intents that it stages, and for those that were open before.
func TestRule02ResumeAddsToPending(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `act a {}; act b {}; suspend 3600000 | act c {}; suspend 3600000 | done`)
	w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
	w.pending(w.intents()[1], w.intents()[2])
	w.result(2001, w.intents()[1], pb.ToolResult_OK, "")
	if w.now().GetContinuation() != nil {
		t.Error("the key is suspended after Done")
	}
	w.result(2002, w.intents()[2], pb.ToolResult_OK, "")
	w.expect("error@2002 orphaned_result/no_continuation envelope")
}

// If the activation for an answer fails, the answer is in a dead letter, and its intent is still
// open.
func TestRule02FailedAnswerCanBeSentAgain(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `act a {}; suspend 3600000 | fail boom`)
	before := w.stored
	for range 3 {
		w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
		w.expect("error@2000 activation_error/error envelope")
		w.same(before)
	}
}

func TestRule03DeferredEvents(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `act a {}; suspend 3600000 | note`)
	suspended := w.now().GetContinuation()
	w.event(3000, `emit first; note`)
	w.expect()
	w.event(2000, `emit second; note; put a 1`)
	w.event(9000, `emit third; note`)
	if !proto.Equal(w.now().GetContinuation(), suspended) || w.memory != nil {
		t.Errorf("the suspension was %v and is %v", suspended, w.now().GetContinuation())
	}
	if w.counters[activation.EventsDeferred] != 3 {
		t.Errorf("counters %v", w.counters)
	}
	w.bagReads, w.bagClears, w.repeat = 0, 0, false
	w.result(4000, w.intents()[0], pb.ToolResult_OK, "")
	w.expect(
		`output@4000 tool_result seq=0 now=4000 open=0 of a OK ""`,
		"output@4000 first", "output@4000 event seq=2 now=4000 open=0", // now is that of the answer
		"output@4000 second", "output@4000 event seq=3 now=4000 open=0", // arrival decides, not event time
		"output@9000 third", "output@9000 event seq=4 now=9000 open=0",
	)
	if w.bagReads != 1 || w.bagClears != 1 {
		t.Errorf("the bag was read %d times and cleared %d times", w.bagReads, w.bagClears)
	}
	if c := w.now(); len(w.deferred) > 0 || c.GetDeferredCount() != 0 || c.GetDeferredBytes() != 0 || c.GetDrainNowMs() != 0 {
		t.Errorf("left are %d events, control %v", len(w.deferred), c)
	}
}

func TestRule03DrainEndsAtASuspension(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `suspend 1000 | done`)
	w.event(1001, `emit a; act t {}; suspend 5000 | note`)
	w.event(1002, `note`)
	w.timeout()
	w.expect("output@2000 denied", "intent@2000 tool t {}", "output@2000 a")
	if len(w.deferred) != 1 || w.now().GetDeferredCount() != 1 {
		t.Errorf("left are %d events, control %v", len(w.deferred), w.now())
	}
	w.result(3000, w.intents()[0], pb.ToolResult_OK, "")
	w.expect(`output@3000 tool_result seq=1 now=3000 open=0 of t OK ""`, "output@3000 event seq=3 now=3000 open=0")
}

func TestRule03DrainRunsEightAtOnce(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `suspend 1000 | done`)
	for i := range 20 {
		w.event(1001, fmt.Sprintf(`emit %d`, i))
	}
	var got []string
	w.timeout()
	got = append(got, say(w.last)...)
	if len(got) != 9 || !w.last.Rest || w.now().GetDrainNowMs() != 2000 {
		t.Fatalf("%q, rest %v, control %v", got, w.last.Rest, w.now())
	}
	// An event that arrives now is deferred behind the others, and lets some of them run.
	w.event(1500, "emit last; note")
	got = append(got, say(w.last)...)
	for w.last.Rest {
		w.drain()
		got = append(got, say(w.last)...)
	}
	want := []string{"output@2000 denied"}
	for i := range 20 {
		want = append(want, fmt.Sprintf("output@2000 %d", i))
	}
	want = append(want, "output@2000 last", "output@2000 event seq=21 now=2000 open=0")
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	w.event(1500, "note") // nothing waits any more
	w.expect("output@1500 event seq=22 now=1500 open=0")
}

// Every step says whether deferred events are left that could run, even a step that does not look
// at them, because the runtime sets its timer accordingly.
func TestRule03WhatIsLeft(t *testing.T) {
	for name, step := range map[string]func(*world){
		"export": func(w *world) {
			w.envelope(&pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ExportRequest{ExportRequest: &pb.AgentEnvelope_StateExportRequest{}}})
		},
		"an answer": func(w *world) { w.result(1, new(pb.ToolIntent), pb.ToolResult_OK, "") },
		"nothing":   func(w *world) { w.envelope(new(pb.AgentEnvelope)) },
		"no time":   func(w *world) { w.event(-1, "") },
		"a timer":   func(w *world) { w.timeout() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newScripted(t)
			w.event(1000, `suspend 1000 | done`)
			for range 20 {
				w.event(1001, `emit x`)
			}
			w.timeout()
			step(w)
			if !w.last.Rest || w.now().GetDeferredCount() != 12 {
				t.Errorf("rest %v, control %v", w.last.Rest, w.now())
			}
		})
	}
}

// A deferred event that fails does not stop the events behind it.
func TestRule03DrainGoesOnAfterAFailure(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `suspend 1000 | done`)
	w.event(1001, `fail boom`)
	w.event(5000, `panic boom`)
	w.event(1002, `emit b`)
	w.timeout()
	w.expect("output@2000 denied", "error@2000 activation_error/error envelope", "error@5000 activation_error/panic envelope", "output@2000 b")
	var arrivals []int64
	for _, e := range w.last.Effects {
		if e.Error != nil {
			l, _ := deadletter.Read(e.Error)
			arrivals = append(arrivals, *l.Position.Arrival)
			if l.EventTimeMS != 1001 && l.EventTimeMS != 5000 {
				t.Errorf("event_time_ms is %d, want the envelope's", l.EventTimeMS)
			}
		}
	}
	if !slices.Equal(arrivals, []int64{0, 1}) {
		t.Errorf("arrivals %v", arrivals)
	}
}

func TestRule03Bounds(t *testing.T) {
	small, large := eventAt(1, "emit a"), eventAt(1, "emit "+strings.Repeat("b", 100))
	size := int64(proto.Size(small))
	for name, tt := range map[string]struct {
		rules func(*activation.Rules)
		last  *pb.AgentEnvelope
		want  string
	}{
		"count": {func(r *activation.Rules) { r.MaxDeferred = 2 }, small, "error@1 deferred_overflow/count envelope"},
		"bytes": {func(r *activation.Rules) { r.MaxDeferredBytes = 3*size - 1 }, small, "error@1 deferred_overflow/bytes envelope"},
		"large": {func(r *activation.Rules) { r.MaxDeferredBytes = 3 * size }, large, "error@1 deferred_overflow/bytes envelope"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScripted(t, tt.rules)
			w.event(1, `suspend 1000 | done`)
			w.envelope(small)
			w.envelope(small)
			before := w.stored
			w.envelope(tt.last)
			w.expect(tt.want)
			w.same(before)
		})
	}
	t.Run("at the bounds", func(t *testing.T) {
		w := newScripted(t, func(r *activation.Rules) { r.MaxDeferred, r.MaxDeferredBytes = 3, 3*size })
		w.event(1, `suspend 1000 | done`)
		for range 3 {
			w.envelope(small)
			w.expect()
		}
	})
}

func TestRule03Reject(t *testing.T) {
	w := newScripted(t, func(r *activation.Rules) { r.WhileSuspended = activation.Reject })
	w.event(1000, `act a {}; suspend 3600000 | note`)
	before := w.stored
	w.event(2000, `emit x`)
	w.expect("error@2000 suspended/rejected envelope")
	w.same(before)
	w.result(2001, w.intents()[0], pb.ToolResult_OK, "")
	w.expect(`output@2001 tool_result seq=0 now=2001 open=0 of a OK ""`)
	w.event(2002, `emit x`)
	w.expect("output@2002 x")
}

// An event is rejected only if the key is suspended. Events that were deferred before the option
// was changed run first.
func TestRule03RejectAfterDefer(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `suspend 1000 | done`)
	for range 20 {
		w.event(1001, `emit x`)
	}
	w.rules.WhileSuspended = activation.Reject
	w.event(1002, `emit y`)
	w.expect("error@1002 suspended/rejected envelope")
	w.timeout()
	w.event(1002, `emit y`)
	for w.last.Rest {
		w.drain()
	}
	w.expect("output@2000 x", "output@2000 x", "output@2000 x", "output@2000 x", "output@2000 y")
}

func TestRule04Marks(t *testing.T) {
	w := newScripted(t, withTTL(1000))
	mark := func() int64 { due, _ := w.rules.TTLMark(w.now()); return due }
	for _, step := range []struct {
		run  func()
		want int64
	}{
		{func() { w.event(5000, "emit a") }, 6000},
		{func() { w.event(100, "emit late") }, 6000},                             // never back
		{func() { w.event(200, `act t {}; suspend 20000 | done`) }, 21_200},      // behind the deadline
		{func() { w.event(300, "emit waits") }, 21_200},                          // behind it as long as it lives
		{func() { w.event(30_000, "emit waits") }, 31_000},                       // or after now
		{func() { w.result(400, w.intents()[0], pb.ToolResult_OK, "") }, 31_000}, // never back
		{func() { w.event(40_000, "fail") }, 31_000},                             // a failure changes nothing
		{func() { w.result(50_000, w.intents()[0], pb.ToolResult_OK, "") }, 31_000},
	} {
		step.run()
		if got := mark(); got != step.want {
			t.Errorf("after %q the mark is %d, want %d", say(w.last), got, step.want)
		}
	}
	if _, ok := newScripted(t).rules.TTLMark(w.now()); ok {
		t.Error("there is a mark without a TTL")
	}
}

// The TTL timer also handles a deadline. It clears neither a suspension that continues nor the
// events that wait for its end.
func TestRule04IdleKeepsASuspension(t *testing.T) {
	for script, want := range map[string]string{
		`put a 1; suspend 2000 | @resume; note; again 2000`:            "output@3000 timed_out seq=0 now=3000 open=0",
		`put a 1; ask t {}; suspend 2000 | @escalate x 2000 3; done`:   "intent@3000 approval t {}",
		`put a 1; expire 1; act t {}; suspend 2000 | note; again 4000`: "",
		`put a 1; expire 1; act t {}; suspend 2000 | fail boom`:        "error@1001 activation_error/error none",
	} {
		t.Run(script, func(t *testing.T) {
			w := newScripted(t, withTTL(1000))
			w.event(1000, script)
			w.event(1001, `get a`)
			seq := w.now().GetSeq()
			w.idle()
			if want != "" {
				w.expect(want)
			}
			c := w.now()
			if c.GetContinuation() == nil || len(w.deferred) != 1 || w.memory == nil || w.counters[activation.KeysCleared] != 0 || c.GetSeq() < seq {
				t.Errorf("control %v, %d deferred, memory %x", c, len(w.deferred), w.memory)
			}
			if mark, ok := w.rules.TTLMark(c); !ok || mark < c.GetContinuation().GetDeadlineMs()+1000 || mark <= 4000 {
				t.Errorf("the timer is set to %d, the deadline is %d", mark, c.GetContinuation().GetDeadlineMs())
			}
		})
	}
}

// If a suspension ends when the TTL timer fires, the deferred events run.
func TestRule04IdleAfterASuspension(t *testing.T) {
	w := newScripted(t, withTTL(1000))
	w.event(1000, `put a 1; suspend 2000 | done`)
	w.event(1001, `get a`)
	w.idle()
	w.expect("output@3000 denied", "output@3000 a=1 true")
}

// A TTL mark that was set with another TTL may be before the deadline. Then nothing is due at the
// mark.
func TestRule04IdleBeforeTheDeadline(t *testing.T) {
	w := newScripted(t, withTTL(1000))
	w.event(1000, `put a 1`)
	w.rules.TTLMS = 0
	w.event(1500, `act t {}; suspend 3600000 | done`)
	w.rules.TTLMS = 1000
	w.idle()
	w.expect()
	if mark, _ := w.rules.TTLMark(w.now()); w.now().GetContinuation() == nil || w.memory == nil || mark != 1500+hour+1000 {
		t.Errorf("control %v, memory %x, mark %d", w.now(), w.memory, mark)
	}
}

// Deferred events that can run are not cleared. They run.
func TestRule04IdleRunsWhatIsDeferred(t *testing.T) {
	w := newScripted(t, withTTL(1000))
	w.event(1000, `put a 1; suspend 1000 | done`)
	for range 12 {
		w.event(1001, `emit x`)
	}
	w.timeout()
	w.idle()
	if got := say(w.last); len(got) != 4 || len(w.deferred) != 0 || w.memory == nil || w.counters[activation.KeysCleared] != 0 {
		t.Errorf("%q, %d deferred, memory %x", got, len(w.deferred), w.memory)
	}
	w.idle()
	if w.memory != nil || w.counters[activation.KeysCleared] != 1 {
		t.Errorf("memory %x, counters %v", w.memory, w.counters)
	}
}

func TestRule05NoPayload(t *testing.T) {
	newer := &pb.AgentEnvelope{EventTimeMs: 7}
	newer.ProtoReflect().SetUnknown([]byte{0xa2, 0x06, 0x01, 0x61})
	for name, tt := range map[string]struct {
		env  *pb.AgentEnvelope
		want string
	}{
		"empty":         {&pb.AgentEnvelope{EventTimeMs: 7}, "error@7 malformed_envelope/empty_payload envelope"},
		"nil event":     {&pb.AgentEnvelope{EventTimeMs: 7, Payload: (*pb.AgentEnvelope_ExternalEvent)(nil)}, "error@7 malformed_envelope/empty_payload envelope"},
		"nil result":    {&pb.AgentEnvelope{EventTimeMs: 7, Payload: (*pb.AgentEnvelope_ToolResult)(nil)}, "error@7 malformed_envelope/empty_payload envelope"},
		"nil approval":  {&pb.AgentEnvelope{EventTimeMs: 7, Payload: (*pb.AgentEnvelope_Approval_)(nil)}, "error@7 malformed_envelope/empty_payload envelope"},
		"nil request":   {&pb.AgentEnvelope{EventTimeMs: 7, Payload: (*pb.AgentEnvelope_ExportRequest)(nil)}, "error@7 malformed_envelope/empty_payload envelope"},
		"newer variant": {newer, "error@7 unknown_payload/newer_variant envelope"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, run(func(context.Context, *agent.Activation) (agent.Outcome, error) {
				t.Error("the agent ran")
				return agent.Done(), nil
			}))
			w.envelope(tt.env)
			w.expect(tt.want)
			w.same(stored{control: []byte{}})
		})
	}
	// An event without bytes is an event.
	w := newWorld(t, run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
		return agent.Done(), act.Emit(act.Trigger().Event)
	}))
	w.event(7, "")
	w.expect("output@7 ")
	w.envelope(&pb.AgentEnvelope{EventTimeMs: 7, Payload: &pb.AgentEnvelope_ExternalEvent{}})
	w.expect("output@7 ")
}

// A result of a tool is not discarded while its suspension exists.
func TestRule06ResultsAtAnyTime(t *testing.T) {
	for _, status := range []pb.ToolResult_Status{
		pb.ToolResult_STATUS_UNSPECIFIED, pb.ToolResult_OK, pb.ToolResult_ERROR, pb.ToolResult_EXPIRED, pb.ToolResult_REJECTED, 77,
	} {
		for _, at := range []int64{0, 1, 1000, 1999, 2000, 3000, 3001, 9_000_000, deadletter.MaxEventTimeMS} {
			w := newScripted(t)
			w.event(1000, `expire 1000; act a {}; suspend 2000 | note`)
			w.result(at, w.intents()[0], status, "p")
			w.expect(fmt.Sprintf(`output@%d tool_result seq=0 now=%d open=0 of a %v "p"`, at, at, status))
		}
	}
}

func TestRule06Approvals(t *testing.T) {
	for _, tt := range []struct {
		name        string
		at, decided int64
		ok          bool
	}{
		{"in time", 1500, 1400, true},
		{"one ms before the deadline", 9000, 2999, true}, // the watermark is before it, the envelope comes late
		{"at the deadline", 2000, 3000, false},
		{"after the deadline", 2000, 3001, false},
		{"decided 0, in time", 2999, 0, true},
		{"decided 0, at the deadline", 3000, 0, false},
		{"decided 0, late", 5000, 0, false},
		{"before it was asked", 5000, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newScripted(t)
			w.event(1000, `ask refund {"n":1}; suspend 2000 | if-approved; done`)
			before := w.stored
			w.approve(tt.at, tt.decided, w.intents()[0].GetIntentId(), true)
			if tt.ok {
				w.expect(fmt.Sprintf(`intent@%d tool refund {"n":1}`, tt.at))
				return
			}
			w.expect(fmt.Sprintf("error@%d orphaned_result/approval_too_late envelope", tt.at))
			w.same(before)
			// Until the timer fires, another decision may arrive that was made in time.
			w.approve(tt.at, 2999, w.intents()[0].GetIntentId(), true)
			w.expect(fmt.Sprintf(`intent@%d tool refund {"n":1}`, tt.at))
		})
	}
	t.Run("intent expired", func(t *testing.T) {
		for decided, want := range map[int64]string{1999: `intent@2500 tool refund {}`, 2000: "error@2500 orphaned_result/approval_too_late envelope"} {
			w := newScripted(t)
			w.event(1000, `expire 1000; ask refund {}; suspend 2000 | if-approved; done`)
			w.approve(2500, decided, w.intents()[0].GetIntentId(), true)
			w.expect(want)
		}
	})
	t.Run("after the timer", func(t *testing.T) {
		w := newScripted(t)
		w.event(1000, `ask refund {}; act t {}; suspend 2000 | if-approved; done`)
		w.timeout()
		w.expect("output@3000 denied")
		w.approve(2000, 2000, w.intents()[0].GetIntentId(), true)
		w.expect("error@2000 orphaned_result/no_continuation envelope")
		env := w.sent
		if l := w.letter(); !bytes.Equal(l.Input, w.encode(env)) || l.Position.IntentID != w.intents()[0].GetIntentId() {
			t.Errorf("dead letter %+v", l)
		}
		w.result(2000, w.intents()[1], pb.ToolResult_OK, "") // late truth about an effect
		w.expect("error@2000 orphaned_result/no_continuation envelope")
	})
}

func TestRule07Kinds(t *testing.T) {
	answer := map[string]func(*world, *pb.ToolIntent){
		"OK":       func(w *world, in *pb.ToolIntent) { w.result(2000, in, pb.ToolResult_OK, "") },
		"ERROR":    func(w *world, in *pb.ToolIntent) { w.result(2000, in, pb.ToolResult_ERROR, "") },
		"none":     func(w *world, in *pb.ToolIntent) { w.result(2000, in, 0, "") },
		"EXPIRED":  func(w *world, in *pb.ToolIntent) { w.result(2000, in, pb.ToolResult_EXPIRED, "") },
		"REJECTED": func(w *world, in *pb.ToolIntent) { w.result(2000, in, pb.ToolResult_REJECTED, "") },
		"approval": func(w *world, in *pb.ToolIntent) { w.approve(2000, 0, in.GetIntentId(), true) },
		"seq": func(w *world, in *pb.ToolIntent) {
			w.result(2000, &pb.ToolIntent{IntentId: in.GetIntentId(), Seq: 9}, pb.ToolResult_EXPIRED, "")
		},
		"key": func(w *world, in *pb.ToolIntent) {
			w.result(2000, &pb.ToolIntent{IntentId: in.GetIntentId(), EntityKey: []byte("other")}, pb.ToolResult_REJECTED, "")
		},
		"no key": func(w *world, in *pb.ToolIntent) {
			w.result(2000, &pb.ToolIntent{IntentId: in.GetIntentId()}, pb.ToolResult_REJECTED, "")
		},
	}
	const ok, kind, identity = "output@2000 ran", "error@2000 orphaned_result/kind_mismatch envelope", "error@2000 orphaned_result/identity_mismatch envelope"
	for verb, wants := range map[string]map[string]string{
		"act": {"OK": ok, "ERROR": ok, "none": ok, "EXPIRED": ok, "REJECTED": ok, "approval": kind, "seq": identity, "key": identity, "no key": ok},
		"ask": {"OK": kind, "ERROR": kind, "none": kind, "EXPIRED": ok, "REJECTED": ok, "approval": ok, "seq": identity, "key": identity, "no key": ok},
	} {
		for name, want := range wants {
			t.Run(verb+" "+name, func(t *testing.T) {
				w := newScripted(t)
				w.event(1000, verb+` t {}; suspend 2000 | emit ran`)
				before := w.stored
				answer[name](w, w.intents()[0])
				w.expect(want)
				if want != ok {
					w.same(before)
				}
			})
		}
	}
}

func TestRule08Deadlines(t *testing.T) {
	due := func(w *world) int64 { d, _ := activation.Deadline(w.now()); return d }
	for _, tt := range []struct {
		script   string
		deadline int64
		due      int64
	}{
		{`ask t {}; act t {}; suspend 86400000 | done`, 1000 + 24*hour, 1000 + 24*hour}, // not cut to the hour of the tool
		{`act t {}; suspend 86400000 | done`, 1000 + 24*hour, 1000 + hour},
		{`expire 5; act t {}; expire 9; act t {}; expire 7; act t {}; suspend 100 | done`, 1100, 1009},
		{`suspend 100 | done`, 1100, 1100},
		{`act t {}; suspend 100 | done`, 1100, 1100},
	} {
		w := newScripted(t)
		w.event(1000, tt.script)
		if c := w.now().GetContinuation(); c.GetDeadlineMs() != tt.deadline || due(w) != tt.due {
			t.Errorf("%s: deadline %d, timer %d; want %d, %d", tt.script, c.GetDeadlineMs(), due(w), tt.deadline, tt.due)
		}
	}
	if _, ok := activation.Deadline(newScripted(t).now()); ok {
		t.Error("a key that is not suspended has a deadline")
	}
}

func TestRule08AllPendingExpired(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `expire 100; act a {}; act b {}; ask c {}; suspend 5000 | note; again 5000`)
	ids := []string{}
	for _, in := range w.intents() {
		ids = append(ids, in.GetIntentId())
	}
	slices.Sort(ids)
	w.timeout()
	w.expect("output@1100 expired seq=0 now=1100 open=0 " + strings.Join(ids, ","))
	w.pending()
	if d, _ := activation.Deadline(w.now()); d != 6100 || !slices.Equal(w.now().GetExpiredIntentIds(), ids) {
		t.Errorf("deadline %d, control %v", d, w.now())
	}
	for _, in := range w.intents() {
		if intent.KindOf(in) == intent.Approval {
			w.approve(1050, 1050, in.GetIntentId(), true)
		} else {
			w.result(1050, in, pb.ToolResult_OK, "")
		}
		w.expect("error@1050 orphaned_result/intent_expired envelope")
	}
	w.timeout() // once only; this is the deadline
	w.expect("output@6100 denied")
	if c := w.now(); len(c.GetExpiredIntentIds()) > 0 {
		t.Errorf("control %v", c)
	}
	w.result(1050, w.intents()[0], pb.ToolResult_OK, "")
	w.expect("error@1050 orphaned_result/no_continuation envelope")
}

// The ids count as reported, even if the agent fails.
func TestRule08FailedExpiry(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `put a 1; expire 100; act a {}; suspend 5000 | put a 2; fail boom`)
	before := w.stored
	cont := w.now().GetContinuation()
	w.timeout()
	w.expect("error@1100 activation_error/error none")
	if l := w.letter(); l.EventTimeMS != 1100 {
		t.Errorf("event_time_ms is %d, want the due time", l.EventTimeMS)
	}
	cont.PendingIntentIds = nil
	if c := w.now(); !proto.Equal(c.GetContinuation(), cont) || len(c.GetPending()) > 0 || len(c.GetExpiredIntentIds()) != 1 {
		t.Errorf("control %v", c)
	}
	if !bytes.Equal(w.memory, before.memory) {
		t.Error("memory has changed")
	}
	if d, _ := activation.Deadline(w.now()); d != 6000 {
		t.Errorf("the timer is set to %d, want the deadline", d)
	}
	w.result(1200, w.intents()[0], pb.ToolResult_OK, "")
	w.expect("error@1200 orphaned_result/intent_expired envelope")
	w.timeout()
	w.expect("output@6000 denied")
}

// MaxIntents bounds the number of reported ids. The oldest ids are dropped first.
func TestRule08ReportedIDsAreBounded(t *testing.T) {
	w := newScripted(t, func(r *activation.Rules) { r.MaxIntents = 2 })
	w.event(1000, `expire 100; act a {}; suspend 5000 | expire 100; act b {}; act c {}; again 5000 | again 5000`)
	w.timeout()
	w.timeout()
	if ids := w.now().GetExpiredIntentIds(); len(ids) != 2 {
		t.Errorf("%d ids are kept", len(ids))
	}
	for i, code := range []string{"unknown_intent", "intent_expired", "intent_expired"} {
		w.result(1300, w.intents()[i], pb.ToolResult_OK, "")
		w.expect("error@1300 orphaned_result/" + code + " envelope")
	}
}

func TestRule08Sleep(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `suspend 500 | @resume; note`)
	w.timeout()
	w.expect("output@1500 timed_out seq=0 now=1500 open=0")
	if w.now().GetContinuation() != nil {
		t.Error("still suspended")
	}
	w.timeout() // nothing is left to time out
	w.expect()
	if w.counters[activation.Timeouts] != 1 {
		t.Errorf("counters %v", w.counters)
	}
}

// If an agent that is resumed at the deadline fails, it has no later deadline. So the suspension
// ends, and the deferred events run.
func TestRule08ResumeAtTheDeadline(t *testing.T) {
	for script, want := range map[string]string{
		`suspend 500 | @resume; note`:           "output@1500 timed_out seq=0 now=1500 open=0",
		`suspend 500 | @resume; fail boom`:      "error@1500 activation_error/error none",
		`suspend 500 | @resume; suspend 0 |`:    "error@1500 activation_error/error none",
		`suspend 500 | @resume; reject nothing`: "error@1500 activation_error/rejected none",
	} {
		w := newScripted(t)
		w.event(1000, script)
		w.event(1001, `emit next`)
		w.timeout()
		w.expect(want, "output@1500 next")
		if w.now().GetContinuation() != nil {
			t.Errorf("%s: still suspended", script)
		}
	}
}

func TestRule09EventTime(t *testing.T) {
	for _, at := range []int64{-1, math.MinInt64, deadletter.MaxEventTimeMS + 1, math.MaxInt64} {
		w := newScripted(t)
		w.event(at, "emit x")
		if l := w.letter(); l.Reason != deadletter.MalformedEnvelope || l.Code != deadletter.BadEventTime || l.EventTimeMS != at {
			t.Errorf("event_time_ms %d: %+v", at, l)
		}
		if at := w.last.Effects[0].AtMS; at < 0 || at > deadletter.MaxEventTimeMS {
			t.Errorf("the dead letter goes out at %d", at)
		}
	}
	// Sums saturate: the largest timeouts at the last event time.
	w := newScripted(t, withTTL(math.MaxInt64))
	const last = deadletter.MaxEventTimeMS
	w.event(last, `expire 9223372036854; ask t {}; suspend 9223372036854 | @escalate c 9223372036854 100; done`)
	for range 100 {
		before, _ := activation.Deadline(w.now())
		w.timeout()
		if after, _ := activation.Deadline(w.now()); after <= before {
			t.Fatalf("the deadline went from %d to %d", before, after)
		}
	}
	if mark, _ := w.rules.TTLMark(w.now()); mark != math.MaxInt64 {
		t.Errorf("the mark is %d", mark)
	}
	w.timeout()
	w.idle()
}

func TestRule12FutureCells(t *testing.T) {
	future := errors.New("from the future")
	for name, spoil := range map[string]func(*world){
		"memory": func(w *world) { w.memoryErr = future },
		"cache":  func(w *world) { w.cacheErr = future },
	} {
		t.Run(name, func(t *testing.T) {
			w := newScripted(t, withTTL(1000))
			w.event(1000, `put a 1`)
			before := w.stored
			spoil(w)
			if _, err := w.try((*activation.Rules).Idle); !errors.Is(err, future) {
				t.Errorf("Idle: %v", err)
			}
			w.same(before)
		})
	}
	// An error of the state fails the bundle, even if the agent ignores it.
	w := newWorld(t, run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
		_ = agent.Put(act, "a", 1)
		return agent.Done(), nil
	}))
	w.memoryErr = future
	if _, err := w.try(func(r *activation.Rules, k *activation.Key) (activation.Step, error) {
		return r.Envelope(k, eventAt(1, ""))
	}); !errors.Is(err, future) {
		t.Errorf("Envelope: %v", err)
	}
}

func TestRule14AnotherAgent(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `act a {}; ask b {}; suspend 5000 | emit resumed; again 5000`)
	before := w.stored
	w.rules.Name = "other"
	w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
	w.expect("error@2000 adapter_mismatch/adapter_mismatch envelope")
	w.same(before)
	w.approve(2000, 0, w.intents()[1].GetIntentId(), true)
	w.expect("error@2000 adapter_mismatch/adapter_mismatch envelope")
	w.same(before)
	w.rules.Name = "test"
	w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
	w.expect("output@2000 resumed")
	// At the deadline the suspension is dropped, because this agent cannot read the snapshot.
	w.rules.Name = "other"
	w.timeout()
	w.expect("error@7000 hitl_timeout/dropped none")
}

func TestRule17FailureChangesNothing(t *testing.T) {
	for _, end := range []string{"fail boom", "panic boom", "exit", "reject boom", "nonsense", "suspend 0 |", "approved", "act t []"} {
		t.Run(end, func(t *testing.T) {
			w := newScripted(t, withTTL(1000))
			w.event(1000, `put a 1; put b 1; suspend 2000 | done`)
			w.timeout()
			before, seq := w.stored, w.now().GetSeq()
			w.event(4000, `delete a; put b 2; put c 3; get b; emit x; attribute y z; act t {}; `+end)
			w.same(before)
			l := w.letter()
			for _, e := range w.last.Effects {
				if e.Output != nil || e.Intent != nil {
					t.Errorf("effects %q", say(w.last))
				}
			}
			if end == "reject boom" {
				if len(w.traces()) > 0 {
					t.Errorf("a rejected input has left the trace events %v", w.traces())
				}
				return
			}
			traces := w.traces()
			if len(traces) != 1 || traces[0].GetEventType() != pb.TraceEvent_ERROR {
				t.Fatalf("trace events %v", traces)
			}
			want := intent.ErrorSpanID([]byte("k"), seq, sha256.Sum256(l.Input))
			if !bytes.Equal(traces[0].GetSpanId(), want[:]) || traces[0].GetSeq() != seq {
				t.Errorf("span %x seq %d, want %x seq %d", traces[0].GetSpanId(), traces[0].GetSeq(), want, seq)
			}
		})
	}
}

// Two failures with one seq are two spans.
func TestRule17FailuresAreApart(t *testing.T) {
	w := newScripted(t)
	w.event(1000, "fail a")
	w.event(1000, "fail b")
	w.event(1001, "fail b")
	w.event(1002, `expire 5; act t {}; suspend 10 | @resume; fail`)
	w.timeout()
	w.timeout()
	spans := map[string]int{}
	for _, e := range w.effects {
		if e.Trace.GetEventType() == pb.TraceEvent_ERROR {
			spans[string(e.Trace.GetSpanId())]++
		}
	}
	if len(spans) != 5 {
		t.Errorf("%d spans of 5 failures", len(spans))
	}
}

func TestRule24ExactArguments(t *testing.T) {
	// A JSON encoder would write these bytes in another way.
	const args = `{"a":"<&>","amount":1e+16,"b":1.0,"é":"\u0001"}`
	for name, tt := range map[string]struct {
		timeouts, answer int // which of the intents is answered
	}{
		"the original":                     {0, 0},
		"the original after an escalation": {1, 0},
		"the escalation":                   {1, 1},
		"the original after two":           {2, 0},
		"the first of two escalations":     {2, 1},
		"the second of two escalations":    {2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScripted(t)
			w.event(1000, `ask refund `+args+`; suspend 5000 | @escalate boss 5000 2; note; approved; suspend 5000 | note`)
			for range tt.timeouts {
				w.timeout()
			}
			asked := w.intents()
			if len(asked) != tt.timeouts+1 {
				t.Fatalf("%d intents", len(asked))
			}
			for _, in := range asked {
				if in.GetToolName() != "refund" || in.GetArgsJson() != args || in.GetKind() != pb.ToolIntent_APPROVAL {
					t.Errorf("asked for %v", in)
				}
			}
			// The channel is in the trace and not in the intent.
			if tt.timeouts > 0 && !slices.ContainsFunc(w.traces(), func(e *pb.TraceEvent) bool { return e.GetAttributes()["beam_agents.channel"] == "boss" }) {
				t.Errorf("no channel in %v", w.traces())
			}
			decided := int64(2000)
			w.approve(decided, decided, asked[tt.answer].GetIntentId(), true)
			all := w.intents()
			in := all[len(all)-1]
			if len(all) != len(asked)+1 || in.GetKind() != pb.ToolIntent_TOOL || in.GetToolName() != "refund" || in.GetArgsJson() != args {
				t.Fatalf("staged %v", all)
			}
			for _, other := range asked {
				if other.GetIntentId() == in.GetIntentId() {
					t.Error("the call has the id of an approval")
				}
			}
			if got := say(w.last)[1]; got != "output@2000 approval seq=0 now=2000 open=0 of refund "+args+" true by alice at 2000" {
				t.Errorf("trigger %s", got)
			}
			w.pending(in)
			// The approval was used: an answer on another channel does not approve the call again.
			for _, other := range asked {
				w.approve(decided, decided, other.GetIntentId(), true)
				w.expect("error@2000 orphaned_result/unknown_intent envelope")
			}
			w.result(3000, in, pb.ToolResult_OK, "")
			w.expect(`output@3000 tool_result seq=0 now=3000 open=0 of refund OK ""`)
		})
	}
}

// With an escalation, the question can still be answered on the first channel, although the intent
// there expired at the escalated deadline. Another question stays expired.
func TestRule24OriginalAfterItsExpiry(t *testing.T) {
	for answer, want := range map[int]string{0: "tool a {}", 1: "approval_too_late", 2: "tool a {}"} {
		w := newScripted(t)
		w.event(1000, `expire 5000; ask a {}; ask b {}; suspend 5000 | @escalate boss 5000 2; if-approved`)
		w.timeout()
		asked := w.intents()
		if len(asked) != 3 || asked[0].GetExpiresAtMs() != 6000 || asked[2].GetExpiresAtMs() != 11_000 {
			t.Fatalf("asked for %v", asked)
		}
		w.approve(7000, 7000, asked[answer].GetIntentId(), true)
		if got := strings.Join(say(w.last), " "); !strings.Contains(got, want) {
			t.Errorf("answer %d: %q, want %s", answer, got, want)
		}
		w.approve(11_000, 11_000, asked[2].GetIntentId(), true)
		if got := strings.Join(say(w.last), " "); !strings.Contains(got, "orphaned_result") {
			t.Errorf("answer %d, then one at the deadline: %q", answer, got)
		}
	}
}

// An escalation stands for one approval. Another approval for the same call is separate.
func TestRule24TwoApprovals(t *testing.T) {
	script := `ask a {}; ask b {}; ask a {}; suspend 5000 | @escalate boss 5000 2; note; if-approved; suspend 5000 | @escalate boss 5000 2; note; if-approved; again 5000`
	for name, tt := range map[string]struct {
		answers []int // indices: 0 to 2 the approvals, 3 the escalation
		want    []string
	}{
		"the escalation, then the others": {[]int{3, 0, 1, 2}, []string{"a", "unknown_intent", "b", "a"}},
		"its original, then the others":   {[]int{0, 3, 2, 1}, []string{"a", "unknown_intent", "a", "b"}},
		"its double, then the escalation": {[]int{2, 3, 0, 1}, []string{"a", "a", "unknown_intent", "b"}},
		"another, then the escalation":    {[]int{1, 3, 2}, []string{"b", "a", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScripted(t)
			w.event(1000, script)
			w.timeout()
			asked := w.intents()
			if len(asked) != 4 || asked[3].GetToolName() != "a" {
				t.Fatalf("asked for %v", asked)
			}
			for i, answer := range tt.answers {
				w.approve(2000, 2000, asked[answer].GetIntentId(), true)
				if got := strings.Join(say(w.last), " "); !strings.Contains(got, "tool "+tt.want[i]+" {}") && !strings.Contains(got, tt.want[i]+" ") {
					t.Errorf("answer %d: %q, want %s", i, got, tt.want[i])
				}
			}
		})
	}
}

// Whatever the state contains, a decision approves only the call that was shown to the human.
func TestRule24OnlyTheSameCall(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `ask a {}; ask b {}; suspend 5000 | @escalate boss 5000 2; approved`)
	w.timeout()
	escalation := w.intents()[2]
	c := w.now()
	c.Pending = c.Pending[1:] // without the one that was escalated
	c.Continuation.PendingIntentIds = c.Continuation.PendingIntentIds[1:]
	w.control = w.encode(c)
	w.approve(2000, 2000, escalation.GetIntentId(), true)
	w.expect("intent@2000 tool a {}")
}

func TestRule24ApprovedOnce(t *testing.T) {
	for script, want := range map[string]string{
		`ask t {}; suspend 5000 | approved; approved`:                "error@2000 activation_error/error envelope",
		`ask t {}; suspend 5000 | approved; suspend 5000 | approved`: "intent@2000 tool t {}",
	} {
		w := newScripted(t)
		w.event(1000, script)
		w.approve(2000, 0, w.intents()[0].GetIntentId(), true)
		w.expect(want)
		if strings.HasPrefix(want, "intent") {
			w.result(2000, w.intents()[1], pb.ToolResult_OK, "")
			w.expect("error@2000 activation_error/error envelope") // no approved trigger
		}
	}
	w := newScripted(t)
	w.event(1000, `ask t {}; suspend 5000 | approved`)
	w.approve(2000, 0, w.intents()[0].GetIntentId(), false)
	w.expect("error@2000 activation_error/error envelope")
	w.event(1, `approved`)
	w = newScripted(t)
	w.event(1, `approved`)
	w.expect("error@1 activation_error/error envelope")
}

func TestRule25DuplicateEvents(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `id one; emit 1`)
	before := w.stored
	w.event(2000, `id one; emit other`)
	w.expect()
	w.same(before)
	if w.counters[activation.EventsDuplicate] != 1 || len(w.traces()) > 0 {
		t.Errorf("counters %v, traces %v", w.counters, w.traces())
	}
	w.event(1000, `emit nameless`)
	w.event(1000, `emit nameless`)
	w.expect("output@1000 nameless")
	// A failed event is not remembered.
	w.event(1000, `id two; fail boom`)
	w.event(1000, `id two; emit 2`)
	w.expect("output@1000 2")

	// This also holds while a key is suspended, and for a deferred event.
	w.event(1000, `id three; act t {}; suspend 5000 | done`)
	before = w.stored
	for _, id := range []string{"one", "three"} {
		w.event(1000, `id `+id+`; emit x`)
		w.expect()
		w.same(before)
	}
	w.event(1000, `id four; fail boom`)
	w.event(1001, `id four; fail boom`)
	if n := w.now().GetDeferredCount(); n != 1 {
		t.Errorf("%d events wait, want 1", n)
	}
	w.result(1002, w.intents()[0], pb.ToolResult_OK, "")
	w.expect("error@1002 activation_error/error envelope")
	w.event(1003, `id four; emit 4`) // the dead letter is sent again
	w.expect("output@1003 4")
}

func TestRule25Bounds(t *testing.T) {
	w := newScripted(t)
	for i := range 257 {
		w.event(1000, fmt.Sprintf("id %d; emit x", i))
	}
	if n := len(w.now().GetRecentEventIds()); n != 256 {
		t.Errorf("%d ids are remembered", n)
	}
	w.event(1000, "id 1; emit x")
	w.expect()
	w.event(1000, "id 0; emit forgotten")
	w.expect("output@1000 forgotten")
	sum := sha256.Sum256([]byte("0"))
	var want uint64
	for i := range 8 {
		want |= uint64(sum[i]) << (8 * i)
	}
	if ids := w.now().GetRecentEventIds(); ids[255] != want {
		t.Errorf("the last id is %x, want %x", ids[255], want)
	}
	// Without the method, no event is remembered.
	w = newWorld(t, run(func(context.Context, *agent.Activation) (agent.Outcome, error) { return agent.Done(), nil }))
	w.event(1, "id a;")
	if len(w.now().GetRecentEventIds()) > 0 {
		t.Error("an id is remembered")
	}
}

// A duplicate has no other effect and makes no dead letter, whatever the state of the key.
func TestRule25DuplicateComesFirst(t *testing.T) {
	for name, change := range map[string]func(*activation.Rules){
		"budget":   func(r *activation.Rules) { r.MaxActivationsPerHour = 1 },
		"reject":   func(r *activation.Rules) { r.WhileSuspended = activation.Reject },
		"overflow": func(r *activation.Rules) { r.MaxDeferred = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newScripted(t, change)
			script := `id one; emit 1`
			if name != "budget" {
				script += `; suspend 1000 | done`
			}
			w.event(1000, script)
			before := w.stored
			w.event(1000, script)
			w.expect()
			w.same(before)
			if w.counters[activation.EventsDuplicate] != 1 {
				t.Errorf("counters %v", w.counters)
			}
		})
	}
}

// versioned is an agent whose snapshots have a version.
type versioned struct {
	version uint32
	migrate func(from uint32, snapshot []byte) ([]byte, error)
}

func (a *versioned) SnapshotVersion() uint32 { return a.version }

func (a *versioned) MigrateSnapshot(from uint32, snapshot []byte) ([]byte, error) {
	return a.migrate(from, snapshot)
}

func (a *versioned) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	if act.Trigger().Kind == agent.Event {
		return agent.Suspend([]byte("old"), 5*time.Second), act.Act("t", nil)
	}
	return agent.Done(), act.Emit(act.Snapshot())
}

type unmigrated struct{ run agentFunc }

func (a *unmigrated) SnapshotVersion() uint32 { return 2 }

func (a *unmigrated) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	return a.run.Run(ctx, act)
}

func TestRule26SnapshotVersions(t *testing.T) {
	migrate := func(from uint32, snapshot []byte) ([]byte, error) {
		return fmt.Appendf(snapshot, " from %d", from), nil
	}
	const refused = "error@2000 activation_error/snapshot_version envelope"
	for name, tt := range map[string]struct {
		stored, now uint32
		migrate     func(uint32, []byte) ([]byte, error)
		want        string
	}{
		"equal":  {3, 3, nil, "output@2000 old"},
		"none":   {0, 0, nil, "output@2000 old"},
		"older":  {3, 5, migrate, "output@2000 old from 3"},
		"from 0": {0, 1, migrate, "output@2000 old from 0"},
		"newer":  {3, 2, migrate, refused},
		"error":  {1, 2, func(uint32, []byte) ([]byte, error) { return nil, errors.New("no") }, refused},
		"panic":  {1, 2, func(uint32, []byte) ([]byte, error) { panic("no") }, refused},
	} {
		t.Run(name, func(t *testing.T) {
			a := &versioned{tt.stored, tt.migrate}
			w := newWorld(t, a)
			w.repeat = true
			w.event(1000, "")
			if v := w.now().GetSnapshotVersion(); v != tt.stored {
				t.Errorf("stored with version %d, want %d", v, tt.stored)
			}
			before := w.stored
			a.version = tt.now
			w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
			w.expect(tt.want)
			if tt.want != refused {
				return
			}
			w.same(before)
			// The answer is sent again after a newer build was deployed.
			a.version, a.migrate = 9, migrate
			env := new(pb.AgentEnvelope)
			w.decode(w.letter().Input, env)
			w.envelope(env)
			w.expect(fmt.Sprintf("output@2000 old from %d", tt.stored))
			// At the deadline the timeout policy runs as usual.
			w.stored, a.version = before, 0
			w.timeout()
			w.expect("output@6000 __hitl_timeout__")
		})
	}
	t.Run("no method", func(t *testing.T) {
		w := newWorld(t, &versioned{version: 1})
		w.event(1000, "")
		w.rules.Agent = &unmigrated{}
		w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
		w.expect(refused)
		w.rules.Agent = run((&versioned{}).Run) // no version at all is version 0
		w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
		w.expect(refused)
	})
}

func TestRule27Budget(t *testing.T) {
	w := newScripted(t, func(r *activation.Rules) { r.MaxActivationsPerHour = 3 })
	w.event(10, `emit 1`)
	w.event(20, `act t {}; suspend 100 | act t {}; again 100`)
	w.result(30, w.intents()[0], pb.ToolResult_OK, "") // resumes count
	before := w.stored
	w.result(40, w.intents()[1], pb.ToolResult_OK, "")
	w.expect("error@40 budget_exceeded/activations envelope")
	w.same(before)
	env := new(pb.AgentEnvelope)
	w.decode(w.letter().Input, env)
	w.rules.MaxActivationsPerHour = 4
	w.envelope(env) // raised, and sent again
	w.expect("intent@40 tool t {}")
	w.timeout()
	w.expect("output@140 denied")
	w.event(hour-1, "emit x")
	w.expect(fmt.Sprintf("error@%d budget_exceeded/activations envelope", hour-1))
	w.event(hour, "emit x") // the next window
	w.expect(fmt.Sprintf("output@%d x", hour))
	if c := w.now(); c.GetHour() != 1 || c.GetActivationsInHour() != 1 {
		t.Errorf("control %v", c)
	}
	// Activations that fail do not count.
	for range 9 {
		w.event(hour, "fail")
		w.expect(fmt.Sprintf("error@%d activation_error/error envelope", hour))
	}
	if n := len(say(activation.Step{Effects: w.effects})); n == 0 {
		t.Error("nothing went out")
	}
}

// A late event does not reset the count of its hour.
func TestRule27LateEvents(t *testing.T) {
	w := newScripted(t, func(r *activation.Rules) { r.MaxActivationsPerHour = 2 })
	w.event(hour, "emit 1")
	w.event(hour-1, "emit 2")
	w.event(hour-1, "emit 3")
	w.expect(fmt.Sprintf("error@%d budget_exceeded/activations envelope", hour-1))
	w.event(2*hour, "emit 4")
	w.expect(fmt.Sprintf("output@%d 4", 2*hour))
}

// A TTL below an hour does not reset the count of the hour.
func TestRule27IdleKeepsTheCount(t *testing.T) {
	w := newScripted(t, withTTL(1000), func(r *activation.Rules) { r.MaxActivationsPerHour = 2 })
	w.event(hour, "put a 1; emit 1")
	w.event(hour+1, "emit 2")
	w.idle()
	if w.memory != nil || w.counters[activation.KeysCleared] != 1 {
		t.Errorf("not cleared: %v", w.counters)
	}
	w.event(hour+2000, "emit 3")
	w.expect(fmt.Sprintf("error@%d budget_exceeded/activations envelope", hour+2000))
	w.event(2*hour, "emit 4")
	w.expect(fmt.Sprintf("output@%d 4", 2*hour))
}

func TestRule27TimersCount(t *testing.T) {
	w := newScripted(t, func(r *activation.Rules) { r.MaxActivationsPerHour = 2 })
	w.event(10, `expire 5; act t {}; suspend 1000 | @resume; note; again 1000`)
	w.timeout()
	w.expect("output@15 expired seq=0 now=15 open=0 " + w.intents()[0].GetIntentId())
	w.timeout()
	w.expect("error@1015 budget_exceeded/activations none")
	if l := w.letter(); l.EventTimeMS != 1015 {
		t.Errorf("event_time_ms %d, want the due time", l.EventTimeMS)
	}
}

func TestRule28AnEnd(t *testing.T) {
	for name, script := range map[string]string{
		"timeouts": `suspend 10 | @resume; note; again 10`,
		"expiries": `expire 5; act t {}; suspend 10 | @resume; expire 5; act t {}; again 10`,
		"fails":    `suspend 10 | @resume; note; again 10`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newScripted(t)
			w.event(0, script)
			n := 0
			for ; w.now().GetContinuation() != nil && n < 1000; n++ {
				w.timeout()
			}
			if n != 101 {
				t.Errorf("it ended after %d timers", n)
			}
			if got := say(w.last); len(got) != 1 || !strings.Contains(got[0], "hitl_timeout/endless none") {
				t.Errorf("%q", got)
			}
			if c := w.now(); c.GetTimeoutsInRow() != 0 {
				t.Errorf("control %v", c)
			}
		})
	}
}

// An event or an answer starts the count again.
func TestRule28CountsInARow(t *testing.T) {
	for name, end := range map[string]func(*world){
		"an answer": func(w *world) { w.result(0, w.intents()[0], pb.ToolResult_OK, "") },
		"an event":  func(w *world) { w.event(0, "emit x") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newScripted(t)
			w.event(0, `expire 86400000; act t {}; suspend 10 | @resume; again 10`)
			for range 100 {
				w.timeout()
			}
			end(w)
			for range 100 {
				w.timeout()
				if w.now().GetContinuation() == nil {
					t.Fatalf("%q", say(w.last))
				}
			}
			w.timeout()
			if l := w.letter(); l.Code != deadletter.Endless {
				t.Errorf("%q", say(w.last))
			}
		})
	}
}
