package activation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// traceTree checks the trace events of a history. A span has one START and one END, or one event of
// another type. The parent of a span was emitted earlier in the same trace.
type traceTree struct {
	t     *testing.T
	spans map[string]map[pb.TraceEvent_EventType]*pb.TraceEvent // by trace and span
}

func newTraceTree(t *testing.T) *traceTree {
	return &traceTree{t, map[string]map[pb.TraceEvent_EventType]*pb.TraceEvent{}}
}

// add takes the events of a step. If the same input fails twice with the same seq and in the same
// way, both failures have the same span.
func (tree *traceTree) add(events []*pb.TraceEvent) {
	tree.t.Helper()
	for _, e := range events {
		trace := intent.TraceID(e.GetEntityKey(), e.GetSeq())
		if string(e.GetTraceId()) != string(trace[:]) || len(e.GetSpanId()) != 8 {
			tree.t.Errorf("trace id %x or span id %x of %v", e.GetTraceId(), e.GetSpanId(), e)
		}
		if parent := e.GetParentSpanId(); len(parent) > 0 {
			if _, ok := tree.spans[string(e.GetTraceId())+string(parent)]; !ok {
				tree.t.Errorf("the parent %x of %v was never emitted", parent, e)
			}
		}
		id := string(e.GetTraceId()) + string(e.GetSpanId())
		kinds := tree.spans[id]
		if kinds == nil {
			kinds = map[pb.TraceEvent_EventType]*pb.TraceEvent{}
			tree.spans[id] = kinds
		}
		before, twice := kinds[e.GetEventType()]
		failure := e.GetEventType() == pb.TraceEvent_ERROR
		if twice && !failure {
			tree.t.Errorf("the span of %v was used twice, before by %v", e, before)
		}
		kinds[e.GetEventType()] = e
		for kind, other := range kinds {
			pair := kind == pb.TraceEvent_ACTIVATION_START && e.GetEventType() == pb.TraceEvent_ACTIVATION_END
			if kind != e.GetEventType() && !pair {
				tree.t.Errorf("the span of %v is that of %v", e, other)
			}
		}
	}
}

// In random histories of one key, the ids of spans are unique in their trace, and every parent
// exists.
func TestRule21SpansOfALongHistory(t *testing.T) {
	scripts := []string{
		`act t {}; suspend 100 | again 100`,
		`suspend 100 | @resume; again 100`,
		`ask t {}; ask u {}; suspend 100 | @escalate boss 100 2; act x {}; again 100`,
		`expire 10; act t {}; act t {}; suspend 100 | @resume; expire 20; act t {}; again 100`,
		`expire 10; ask t {}; suspend 100 | @drop it; fail boom`,
		`fail boom`, `reject boom`, `panic boom`, `act t {}; act t {}; emit x; done`,
		`act t {}; act t {}; suspend 50 | suspend 60 | act t {}; suspend 70 | @resume; suspend 80 | done`,
	}
	seeds := uint64(20)
	if racedetector.Enabled {
		seeds = 4
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newScripted(t, withTTL(1000))
		tree := newTraceTree(t)
		now := int64(1000)
		for range 200 {
			now += random.Int64N(60) - 10
			pending := w.now().GetPending()
			switch n := random.IntN(10); {
			case n < 3:
				w.event(now, scripts[random.IntN(len(scripts))]+strings.Repeat(";", random.IntN(3)))
			case n < 6 && len(pending) > 0:
				in := pending[random.IntN(len(pending))]
				if intent.KindOf(in) == intent.Approval {
					w.approve(now, 0, in.GetIntentId(), random.IntN(2) == 0)
				} else {
					w.result(now, in, pb.ToolResult_OK, fmt.Sprint(now))
				}
			case n < 7 && len(w.intents()) > 0:
				w.result(now, w.intents()[random.IntN(len(w.intents()))], pb.ToolResult_OK, "late")
			case n == 8:
				w.idle()
			case n == 9:
				w.drain()
			default:
				if due, ok := activation.Deadline(w.now()); ok {
					now = max(now, due)
					w.timeout()
				}
			}
			tree.add(w.traces())
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// START has the start of the first attempt, and END has its own time.
func TestRule21Times(t *testing.T) {
	w := newScripted(t)
	w.event(1000, `act t {}; suspend 5000 | act u {}; suspend 5000 | done`)
	w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
	for i, at := range []int64{1000, 2000} {
		var start, end *pb.TraceEvent
		for _, e := range w.effects {
			switch e.Trace.GetEventType() {
			case pb.TraceEvent_ACTIVATION_START:
				if e.AtMS == at {
					start = e.Trace
				}
			case pb.TraceEvent_ACTIVATION_END:
				if e.AtMS == at {
					end = e.Trace
				}
			}
		}
		if start.GetStartMs() != 1000 || start.GetEndMs() != 1000 || end.GetStartMs() != at || end.GetEndMs() != at {
			t.Errorf("attempt %d: %v %v", i, start, end)
		}
		if string(start.GetSpanId()) != string(end.GetSpanId()) {
			t.Errorf("attempt %d has two spans", i)
		}
		kind := []string{"start", "resume"}[i]
		if got := start.GetAttributes()["beam_agents.activation.kind"]; got != kind {
			t.Errorf("attempt %d is a %s", i, got)
		}
	}
}

// Durations are measured only with the option, and only they depend on a clock.
func TestRule21Durations(t *testing.T) {
	traces := func(measure bool, clock int64) (all string, durations int) {
		w := newScripted(t, func(r *activation.Rules) { r.MeasureDurations = measure })
		w.repeat = false
		w.measure = func() func() int64 { return func() int64 { clock++; return clock } }
		w.event(1000, `act t {}; suspend 5000 | done`)
		if n := len(w.last.DurationsMS); n != 1 {
			t.Errorf("%d durations of one activation", n)
		}
		for _, e := range w.traces() {
			for _, name := range []string{"beam_agents.duration_ms", "beam_agents.offset_ms"} {
				if _, ok := e.GetAttributes()[name]; ok {
					durations++
				}
				delete(e.Attributes, name)
			}
			all += fmt.Sprintf("%x\n", w.encode(e))
		}
		return all, durations
	}
	off, n := traces(false, 5)
	if n != 0 {
		t.Errorf("%d durations that nobody asked for", n)
	}
	on, n := traces(true, 7)
	if n != 2 { // of the end, and the offset of the intent
		t.Errorf("%d durations", n)
	}
	later, _ := traces(true, 900)
	if off != on || on != later {
		t.Errorf("the clock changes more than durations:\n%s\n%s\n%s", off, on, later)
	}
}

func TestRule21TraceParent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for parent, want := range map[string]string{
		good: good, "": "", good + "\n": "", "x" + good: "", "01" + good[2:]: "", strings.ToUpper(good): "", good + "-x": "", "\xff": "",
	} {
		a := healthy()
		a.traceParent = func([]byte) string { return parent }
		w := newWorld(t, a)
		w.event(1, "e")
		w.result(2, w.intents()[0], pb.ToolResult_OK, "") // the resume has none
		if found := traceParents(t, w, want); (found == "START END") != (want != "") || found != "" && want == "" {
			t.Errorf("%q was found in %s", parent, found)
		}
		// An activation that fails has the trace of the caller, too.
		a.run = func(context.Context, *agent.Activation) (agent.Outcome, error) { panic("boom") }
		w = newWorld(t, a)
		w.event(1, "e")
		if found := traceParents(t, w, want); (found == "ERROR") != (want != "") || found != "" && want == "" {
			t.Errorf("after a failure, %q was found in %s", parent, found)
		}
	}
}

// traceParents returns the types of the events whose traceparent is want.
func traceParents(t *testing.T, w *world, want string) string {
	t.Helper()
	var found []string
	for _, e := range w.effects {
		if got, ok := e.Trace.GetAttributes()["beam_agents.traceparent"]; ok {
			found = append(found, strings.TrimPrefix(e.Trace.GetEventType().String(), "ACTIVATION_"))
			if got != want {
				t.Errorf("%q instead of %q in %v", got, want, e.Trace)
			}
		}
	}
	return strings.Join(found, " ")
}

// The traceparent that an agent passes on names the span with which its activation ends, in the
// first attempt and after each resume.
func TestRule21OwnTraceParent(t *testing.T) {
	var told []string
	w := newWorld(t, run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
		told = append(told, act.TraceParent())
		return agent.Suspend(nil, time.Second), act.Act("t", map[string]any{})
	}))
	w.event(1, "e")
	w.result(2, w.intents()[0], pb.ToolResult_OK, "")
	w.result(3, w.intents()[1], pb.ToolResult_OK, "")
	ends := map[string]bool{}
	for _, e := range w.effects {
		if e.Trace.GetEventType() == pb.TraceEvent_ACTIVATION_END {
			ends[fmt.Sprintf("00-%x-%x-01", e.Trace.GetTraceId(), e.Trace.GetSpanId())] = true
		}
	}
	if len(ends) != 3 {
		t.Errorf("%d attempts", len(ends))
	}
	for _, parent := range told {
		if !ends[parent] {
			t.Errorf("%s is no span of %v", parent, ends)
		}
	}
}

// The attributes of the agent are on the end of its activation, and do not replace ours.
func TestRule21Attributes(t *testing.T) {
	w := newWorld(t, run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
		return agent.Suspend(nil, time.Second), errors.Join(act.SetAttribute("a", "1"), act.SetAttribute("a", "2"), act.SetAttribute("é", ""))
	}))
	w.event(1, "e")
	for _, e := range w.traces() {
		got, ok := e.GetAttributes()["a"]
		_, empty := e.GetAttributes()["é"]
		if end := e.GetEventType() == pb.TraceEvent_ACTIVATION_END; ok != end || empty != end || ok && got != "2" {
			t.Errorf("%v", e)
		}
		if e.GetEventType() == pb.TraceEvent_ACTIVATION_END && e.GetAttributes()["beam_agents.activation.status"] != "suspended" {
			t.Errorf("%v", e)
		}
	}
}
