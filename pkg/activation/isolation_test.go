package activation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
	"github.com/beamagents/beamagents-go/pkg/memory"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// hooked is an agent with every method, each of which can be replaced.
type hooked struct {
	run             func(context.Context, *agent.Activation) (agent.Outcome, error)
	timeoutPolicy   func(agent.Timeout) agent.Route
	eventID         func([]byte) string
	traceParent     func([]byte) string
	snapshotVersion func() uint32
	migrateSnapshot func(uint32, []byte) ([]byte, error)
}

func (a *hooked) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	return a.run(ctx, act)
}
func (a *hooked) TimeoutPolicy(t agent.Timeout) agent.Route { return a.timeoutPolicy(t) }
func (a *hooked) EventID(event []byte) string               { return a.eventID(event) }
func (a *hooked) TraceParent(event []byte) string           { return a.traceParent(event) }
func (a *hooked) SnapshotVersion() uint32                   { return a.snapshotVersion() }
func (a *hooked) MigrateSnapshot(from uint32, snapshot []byte) ([]byte, error) {
	return a.migrateSnapshot(from, snapshot)
}

// healthy suspends on an event and ends on an answer.
func healthy() *hooked {
	return &hooked{
		run: func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
			if act.Trigger().Kind == agent.Event {
				return agent.Suspend([]byte("snapshot"), time.Hour), act.Act("t", nil)
			}
			return agent.Done(), act.Emit(act.Snapshot())
		},
		timeoutPolicy:   func(agent.Timeout) agent.Route { return agent.Deny([]byte("denied")) },
		eventID:         func(event []byte) string { return string(event) },
		traceParent:     func([]byte) string { return "" },
		snapshotVersion: func() uint32 { return 1 },
		migrateSnapshot: func(_ uint32, snapshot []byte) ([]byte, error) { return snapshot, nil },
	}
}

// A failure in any method of the agent makes a dead letter, and the key stays as it was.
func TestIsolationOfMethods(t *testing.T) {
	// Where the method is called: for an event, for an answer, or at the deadline.
	const event, answer, deadline = 0, 1, 2
	methods := map[string]struct {
		at      int
		install func(a *hooked, f func())
	}{
		"Run": {event, func(a *hooked, f func()) {
			a.run = func(context.Context, *agent.Activation) (agent.Outcome, error) { f(); return agent.Done(), nil }
		}},
		"Run on an answer": {answer, func(a *hooked, f func()) {
			a.run = func(context.Context, *agent.Activation) (agent.Outcome, error) { f(); return agent.Done(), nil }
		}},
		"EventID":     {event, func(a *hooked, f func()) { a.eventID = func([]byte) string { f(); return "" } }},
		"TraceParent": {event, func(a *hooked, f func()) { a.traceParent = func([]byte) string { f(); return "" } }},
		"SnapshotVersion": {answer, func(a *hooked, f func()) {
			a.snapshotVersion = func() uint32 { f(); return 1 }
		}},
		"MigrateSnapshot": {answer, func(a *hooked, f func()) {
			a.snapshotVersion = func() uint32 { return 2 }
			a.migrateSnapshot = func(uint32, []byte) ([]byte, error) { f(); return nil, nil }
		}},
		"TimeoutPolicy": {deadline, func(a *hooked, f func()) {
			a.timeoutPolicy = func(agent.Timeout) agent.Route { f(); return agent.Drop("no") }
		}},
	}
	for method, m := range methods {
		for _, how := range []string{"panic", "exit", "limit"} {
			t.Run(method+" "+how, func(t *testing.T) {
				a := healthy()
				w := newWorld(t, a)
				if m.at != event {
					w.event(1000, "first")
				}
				var release chan struct{}
				m.install(a, func() {
					switch how {
					case "panic":
						panic("boom")
					case "exit":
						runtime.Goexit()
					default:
						<-release
					}
				})
				running := isolate.Running()
				if how == "limit" {
					w.limit, release = time.Millisecond, make(chan struct{})
				}
				before := w.stored
				switch m.at {
				case event:
					w.event(2000, "e")
				case answer:
					w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
				case deadline:
					w.timeout()
				}
				reason, code := "activation_error", how
				switch {
				case m.at == deadline:
					w.expect(fmt.Sprintf("error@%d hitl_timeout/policy_error none", 1000+hour))
				case how == "limit":
					reason = "activation_timeout"
				case strings.Contains(method, "Snapshot"):
					code = "snapshot_version"
				}
				if m.at != deadline {
					w.expect("error@2000 " + reason + "/" + code + " envelope")
					w.same(before)
				}
				if release != nil {
					if n := isolate.Running(); n != running+1 {
						t.Errorf("%d calls run on, want %d", n, running+1)
					}
					close(release)
					eventually(t, func() bool { return isolate.Running() == running })
				}
				if m.at == answer { // the agent is repaired, and the answer is sent again
					*a = *healthy()
					w.limit = time.Minute
					env := new(pb.AgentEnvelope)
					w.decode(w.letter().Input, env)
					w.envelope(env)
					w.expect("output@2000 snapshot")
				}
			})
		}
	}
}

// eventually waits for another goroutine.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it takes too long")
		}
	}
}

// A Run that ends when its context is cancelled is a timeout, too, and leaves no goroutine.
func TestIsolationOfASlowRun(t *testing.T) {
	w := newWorld(t, run(func(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
		if err := errors.Join(agent.Put(act, "a", 1), act.Emit([]byte("x"))); err != nil {
			return agent.Outcome{}, err
		}
		<-ctx.Done()
		return agent.Done(), ctx.Err()
	}))
	w.limit = 100 * time.Millisecond
	running := isolate.Running()
	w.event(1, "")
	w.expect("error@1 activation_timeout/limit envelope")
	if w.memory != nil || isolate.Running() != running {
		t.Errorf("memory %x, %d calls run on", w.memory, isolate.Running()-running)
	}
}

// brokenError is an error whose method Error is also code of the agent.
type brokenError struct{ how string }

func (e brokenError) Error() string {
	switch e.how {
	case "panic":
		panic(e)
	case "exit":
		runtime.Goexit()
	case "hang":
		select {}
	}
	return e.how
}

func (e brokenError) Is(error) bool { return e.Error() == "never" }

func TestIsolationOfErrors(t *testing.T) {
	for how, want := range map[string]string{
		"panic": "activation_error/error", "exit": "activation_error/exit", "hang": "activation_timeout/limit", "plain": "activation_error/error",
	} {
		for kind, f := range map[string]func(*hooked){
			"error": func(a *hooked) {
				a.run = func(context.Context, *agent.Activation) (agent.Outcome, error) {
					return agent.Outcome{}, brokenError{how}
				}
			},
			"reject": func(a *hooked) {
				a.run = func(context.Context, *agent.Activation) (agent.Outcome, error) {
					return agent.Reject(brokenError{how}), nil
				}
			},
			"migrate": func(a *hooked) {
				a.snapshotVersion = func() uint32 { return 2 }
				a.migrateSnapshot = func(uint32, []byte) ([]byte, error) { return nil, brokenError{how} }
			},
			"args": func(a *hooked) {
				a.run = func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
					return agent.Done(), act.Act("t", brokenJSON{how})
				}
			},
			"output": func(a *hooked) {
				a.run = func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
					return agent.Done(), act.EmitJSON(brokenJSON{how})
				}
			},
			"value": func(a *hooked) {
				a.run = func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
					return agent.Done(), agent.Put(act, "a", brokenJSON{how})
				}
			},
		} {
			t.Run(how+" "+kind, func(t *testing.T) {
				a := healthy()
				w := newWorld(t, a)
				w.event(1000, "first")
				f(a)
				if how == "hang" {
					w.limit = time.Millisecond
				}
				before := w.stored
				ended := make(chan bool)
				go func() {
					defer close(ended)
					w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
					ended <- true
				}()
				select {
				case ok := <-ended:
					if !ok {
						t.Fatal("the step has lost its goroutine")
					}
				case <-time.After(10 * time.Second):
					t.Fatal("the step hangs")
				}
				w.same(before)
				l := w.letter()
				got := string(l.Reason) + "/" + string(l.Code)
				want := want
				switch {
				case want == "activation_error/error" && kind == "reject":
					want = "activation_error/rejected"
				case want == "activation_error/error" && kind != "error" && kind != "migrate":
					want = "activation_error/invalid_text"
					if how == "panic" {
						want = "activation_error/panic" // in Run itself
					}
				case kind == "migrate" && how != "hang":
					want = "activation_error/snapshot_version"
				}
				if got != want {
					t.Errorf("%s %q, want %s", got, l.Error, want)
				}
			})
		}
	}
}

// brokenJSON is a value that fails when it is encoded.
type brokenJSON struct{ how string }

func (j brokenJSON) MarshalJSON() ([]byte, error) {
	return nil, errors.New(brokenError(j).Error())
}

// useAll calls every method and reports what is wrong.
func useAll(act *agent.Activation) error {
	for name, err := range map[string]error{
		"Act":             act.Act("t", nil),
		"RequestApproval": act.RequestApproval("t", nil),
		"ActApproved":     act.ActApproved(),
		"Emit":            act.Emit(nil),
		"EmitJSON":        act.EmitJSON(1),
		"EmitJSON of NaN": act.EmitJSON(func() {}),
		"SetAttribute":    act.SetAttribute("a", "b"),
		"Expire":          act.ExpireIntentsAfter(time.Hour),
		"Put":             agent.Put(act, "a", 1),
		"Delete":          agent.Delete(act, "a"),
	} {
		if !errors.Is(err, agent.ErrActivationEnded) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if _, _, err := agent.Get[int](act, "a"); !errors.Is(err, agent.ErrActivationEnded) {
		return fmt.Errorf("Get: %w", err)
	}
	if _, err := agent.Names(act); !errors.Is(err, agent.ErrActivationEnded) {
		return fmt.Errorf("Names: %w", err)
	}
	if t := act.Trigger(); t.Kind != 0 || t.Event != nil || t.Intent != nil || t.Result != nil {
		return fmt.Errorf("Trigger: %v", t)
	}
	_ = fmt.Sprintf("%v %v", act.Snapshot(), act.Open()) // what stays can be read
	return nil
}

func TestActivationAfterItsEnd(t *testing.T) {
	var kept *agent.Activation
	w := newWorld(t, run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
		kept = act
		return agent.Suspend(nil, time.Hour), errors.Join(act.Emit([]byte("x")), agent.Put(act, "a", 1), act.Act("t", nil))
	}))
	w.event(1, "e")
	before, effects := w.stored, w.bytesOf(w.last)
	if err := useAll(kept); err != nil {
		t.Error(err)
	}
	w.same(before)
	if w.bytesOf(w.last) != effects {
		t.Error("what went out has changed")
	}
}

// A Run that continues in the background has no effect, and shares no memory with later
// activations.
func TestActivationInAnAbandonedRun(t *testing.T) {
	release, result := make(chan struct{}), make(chan error, 1)
	hang := true
	w := newWorld(t, run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
		if string(act.Trigger().Event) == "hang" && hang {
			<-release
			for range 100 {
				if err := useAll(act); err != nil {
					result <- err
					return agent.Done(), nil
				}
			}
			result <- nil
			return agent.Suspend([]byte("late"), time.Hour), nil
		}
		return agent.Done(), errors.Join(agent.Put(act, "a", 1), act.Emit(act.Trigger().Event))
	}))
	w.limit = time.Millisecond
	w.event(1, "hang")
	w.expect("error@1 activation_timeout/limit envelope")
	w.limit = time.Minute
	close(release)
	for i := range 20 {
		w.event(int64(i), "next") // beside it
		w.expect(fmt.Sprintf("output@%d next", i))
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	if w.now().GetContinuation() != nil || w.now().GetSeq() != 20 {
		t.Errorf("control %v", w.now())
	}
}

// greedy changes everything that it gets, and everything that it has passed to the activation.
type greedy struct {
	mutate bool
	kept   [][]byte
}

func (g *greedy) spoil(b []byte) {
	if g.mutate {
		for i := range b {
			b[i] = '!'
		}
	}
}

func (g *greedy) keep(b []byte) []byte { g.kept = append(g.kept, b); return b }

func (g *greedy) spoilIntent(in *pb.ToolIntent) {
	if in == nil || !g.mutate {
		return
	}
	g.spoil(in.EntityKey)
	g.spoil(in.TraceId)
	in.IntentId, in.ArgsJson, in.ToolName, in.Seq = "x", "x", "x", 99
}

func (g *greedy) EventID(event []byte) string     { defer g.spoil(event); return string(event) }
func (g *greedy) TraceParent(event []byte) string { g.spoil(event); return "" }
func (g *greedy) SnapshotVersion() uint32         { return 1 }

func (g *greedy) TimeoutPolicy(t agent.Timeout) agent.Route {
	out := g.keep(fmt.Appendf(nil, "%s %s %d", t.Key, t.Snapshot, len(t.Pending)))
	g.spoil(t.Key)
	g.spoil(t.Snapshot)
	for _, in := range t.Pending {
		g.spoilIntent(in)
	}
	if t.Escalations == 0 {
		return agent.Escalate("boss", time.Hour, 1)
	}
	return agent.Deny(out)
}

func (g *greedy) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	for _, b := range g.kept {
		g.spoil(b) // of earlier activations
	}
	t := act.Trigger()
	text := fmt.Sprintf("%v %s %s %v %s", t.Kind, t.Bytes(), t.Intent.GetArgsJson(), t.ExpiredIDs, act.Snapshot())
	for _, in := range act.Open() {
		text += in.GetIntentId()
		g.spoilIntent(in)
	}
	value, _, err := agent.Get[[]byte](act, "a")
	if err != nil {
		return agent.Outcome{}, err
	}
	text += string(value)
	g.spoil(value)
	g.spoil(t.Event)
	g.spoil(t.Result.GetPayload())
	g.spoilIntent(t.Intent)
	if g.mutate {
		clear(t.ExpiredIDs)
	}
	g.spoil(act.Key())
	g.spoil(act.Snapshot())
	args, put, out := json.RawMessage(`{"a":"`+strings.Repeat("b", 3)+`"}`), []byte(text), []byte(text)
	defer g.spoil(args)
	defer g.spoil(put)
	defer g.spoil(out)
	g.keep(args)
	g.keep(put)
	g.keep(out)
	err = errors.Join(agent.Put(act, "a", put), act.Emit(out), act.Act("t", args), act.RequestApproval("u", args))
	if t.Kind == agent.Approval {
		err = errors.Join(err, act.ActApproved())
	}
	return agent.Suspend(g.keep([]byte(text)), time.Hour), err
}

func TestAgentMayChangeWhatItWasGiven(t *testing.T) {
	history := func(mutate bool) (states []stored, effects []string) {
		w := newWorld(t, &greedy{mutate: mutate})
		w.live = w.open() // one bundle: nothing is encoded between the inputs
		keep := func() {
			states = append(states, w.encodeKey(w.live))
			effects = append(effects, w.bytesOf(activation.Step{Effects: w.effects})) // all effects so far, because they may have changed
		}
		steps := []func(){
			func() { w.event(1, "event") },
			func() { w.event(2, "deferred") },
			func() { w.result(3, w.intents()[0], pb.ToolResult_OK, "payload") },
			func() { w.approve(4, 4, w.intents()[1].GetIntentId(), true) },
			func() { w.timeout() }, // escalates
			func() { w.result(5, w.now().GetPending()[0], pb.ToolResult_REJECTED, "payload") },
			func() { w.timeout() },
			func() { w.timeout() }, // denies
			func() { w.event(5, "last") },
		}
		for _, step := range steps {
			step()
			keep()
		}
		return states, effects
	}
	states, effects := history(false)
	spoiledStates, spoiledEffects := history(true)
	for i := range states {
		if fmt.Sprint(states[i]) != fmt.Sprint(spoiledStates[i]) || effects[i] != spoiledEffects[i] {
			t.Fatalf("after step %d state or effects differ:\n%s\n%s", i, effects[i], spoiledEffects[i])
		}
	}
}

// The element belongs to the runner, which may reuse it before the bundle ends.
func TestElementsMayChangeAfterTheirStep(t *testing.T) {
	w := newScripted(t)
	w.repeat, w.live = false, w.open()
	w.event(1, `suspend 1000`)
	w.event(2, `emit x`) // is deferred
	before := fmt.Sprintf("%x", w.encodeKey(w.live))
	w.sent.EventTimeMs = 3
	w.sent.GetPayload().(*pb.AgentEnvelope_ExternalEvent).ExternalEvent = []byte(`emit y`)
	if after := fmt.Sprintf("%x", w.encodeKey(w.live)); after != before {
		t.Errorf("the state has changed:\n%s\n%s", before, after)
	}
	w.timeout()
	w.expect("output@1001 denied", "output@1001 x")
}

// An effect belongs to its consumer, which may change it before the bundle ends.
func TestConsumersMayChangeWhatGoesOut(t *testing.T) {
	w := newScripted(t)
	w.repeat, w.live = false, w.open()
	env := &pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ExportRequest{ExportRequest: &pb.AgentEnvelope_StateExportRequest{}}}
	for _, step := range []func(){
		func() { w.event(1, `put a 1; act t {}; ask u {}; suspend 1000 | @escalate boss 1000 2; done`) },
		func() { w.timeout() },
		func() { w.envelope(env) },
		func() { w.event(2, `emit x`) },
	} {
		step()
		before := fmt.Sprintf("%x", w.encodeKey(w.live))
		for _, e := range w.last.Effects {
			switch {
			case e.Intent != nil:
				e.Intent.EntityKey[0], e.Intent.TraceId[0], e.Intent.ArgsJson = '!', '!', "!"
			case e.Trace != nil:
				e.Trace.EntityKey[0], e.Trace.SpanId[0] = '!', '!'
			case e.Snapshot != nil:
				s := e.Snapshot
				s.EntityKey[0], s.Continuation.Snapshot[0], s.Pending[0].ArgsJson, s.Memory.Entries[0].Value[0] = '!', '!', "!", '!'
			}
		}
		if after := fmt.Sprintf("%x", w.encodeKey(w.live)); after != before {
			t.Errorf("after %q the state has changed:\n%s\n%s", say(w.last), before, after)
		}
	}
	if string(w.live.Entity) != "k" {
		t.Errorf("the key has become %q", w.live.Entity)
	}
}

// Each bound is tested at its value and beyond it, and with an agent that ignores the error.
func TestIsolationOfSizes(t *testing.T) {
	big := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	rules := func(r *activation.Rules) { r.MaxIntents, r.MaxOutputBytes, r.MaxSnapshotBytes = 3, 2000, 100 }
	for name, tt := range map[string]struct {
		run     func(act *agent.Activation) error
		outcome agent.Outcome
		want    string // code; empty if the activation succeeds
	}{
		"snapshot at the bound":     {nil, agent.Suspend(big(100), time.Hour), ""},
		"snapshot beyond":           {nil, agent.Suspend(big(101), time.Hour), "snapshot_too_large"},
		"output at the bound":       {func(act *agent.Activation) error { return act.Emit(big(2000)) }, agent.Done(), ""},
		"output beyond":             {func(act *agent.Activation) error { return act.Emit(big(2001)) }, agent.Done(), "output_too_large"},
		"outputs beyond":            {func(act *agent.Activation) error { return errors.Join(act.Emit(big(1000)), act.Emit(big(1001))) }, agent.Done(), "output_too_large"},
		"JSON beyond":               {func(act *agent.Activation) error { return act.EmitJSON(string(big(1999))) }, agent.Done(), "output_too_large"},
		"args beyond":               {func(act *agent.Activation) error { return act.Act("t", map[string]any{"a": string(big(2000))}) }, agent.Done(), "output_too_large"},
		"tool name beyond":          {func(act *agent.Activation) error { return act.Act(string(big(1025)), nil) }, agent.Done(), "invalid_text"},
		"tool name at the bound":    {func(act *agent.Activation) error { return act.Act(string(big(1024)), nil) }, agent.Done(), ""},
		"intents at the bound":      {acts(3), agent.Done(), ""},
		"intents beyond":            {acts(4), agent.Done(), "too_many_intents"},
		"memory at the bound":       {func(act *agent.Activation) error { return agent.Put(act, "a", big(memory.MaxValueBytes)) }, agent.Done(), ""},
		"memory beyond":             {func(act *agent.Activation) error { return agent.Put(act, "a", big(memory.MaxValueBytes+1)) }, agent.Done(), "memory_overflow"},
		"attribute beyond":          {func(act *agent.Activation) error { return act.SetAttribute("a", string(big(4097))) }, agent.Done(), "error"},
		"attribute name beyond":     {func(act *agent.Activation) error { return act.SetAttribute(string(big(257)), "") }, agent.Done(), "error"},
		"attributes at the bound":   {attributes(64), agent.Done(), ""},
		"attributes beyond":         {attributes(65), agent.Done(), "error"},
		"attribute of the runtime":  {func(act *agent.Activation) error { return act.SetAttribute("beam_agents.x", "") }, agent.Done(), "error"},
		"an end of no kind":         {nil, agent.Outcome{}, "error"},
		"an end of another kind":    {nil, agent.Outcome{Kind: 9}, "error"},
		"a timeout of 0":            {nil, agent.Suspend(nil, 0), "error"},
		"a timeout of less than ms": {nil, agent.Suspend(nil, time.Millisecond-1), "error"},
		"a negative timeout":        {nil, agent.Suspend(nil, -time.Hour), "error"},
		"an expiry of less than ms": {func(act *agent.Activation) error { return act.ExpireIntentsAfter(1) }, agent.Done(), "error"},
		"a negative expiry":         {func(act *agent.Activation) error { return act.ExpireIntentsAfter(-time.Hour) }, agent.Done(), "error"},
	} {
		for _, ignored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, ignored %v", name, ignored), func(t *testing.T) {
				w := newWorld(t, run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
					var err error
					if tt.run != nil {
						if err = tt.run(act); ignored {
							err = nil
						}
					}
					return tt.outcome, err
				}), rules)
				w.event(1, "e")
				memoryOnly := ignored && tt.want == "memory_overflow" // nothing has changed then
				if tt.want == "" || memoryOnly {
					for _, line := range say(w.last) {
						if strings.HasPrefix(line, "error") {
							t.Error(line)
						}
					}
					return
				}
				w.expect("error@1 activation_error/" + tt.want + " envelope")
				w.same(stored{control: []byte{}})
			})
		}
	}
}

func acts(n int) func(*agent.Activation) error {
	return func(act *agent.Activation) error {
		var errs []error
		for range n {
			errs = append(errs, act.Act("t", nil))
		}
		return errors.Join(errs...)
	}
}

func attributes(n int) func(*agent.Activation) error {
	return func(act *agent.Activation) error {
		var errs []error
		for i := range n {
			errs = append(errs, act.SetAttribute(fmt.Sprint(i), ""), act.SetAttribute("0", "again"))
		}
		return errors.Join(errs...)
	}
}

// Open intents count toward the bounds, because they are kept in state.
func TestIsolationOfOpenIntents(t *testing.T) {
	w := newScripted(t, func(r *activation.Rules) { r.MaxIntents = 3 })
	w.event(1, `act a {}; act b {}; suspend 1000 | act c {}; act d {}; act e {}; suspend 1000 | done`)
	w.result(2, w.intents()[0], pb.ToolResult_OK, "")
	w.expect("error@2 activation_error/too_many_intents envelope")

	text := strings.Repeat("x", 700)
	w = newScripted(t, func(r *activation.Rules) { r.MaxOutputBytes = 2000 })
	w.event(1, `act a {"a":"`+text+`"}; act b {"a":"`+text+`"}; act c {}; suspend 1000 | act d {"a":"`+text+`"}; suspend 1000 | done`)
	w.result(2, w.intents()[2], pb.ToolResult_OK, "")
	w.expect("error@2 activation_error/output_too_large envelope")
	w.result(2, w.intents()[1], pb.ToolResult_OK, "")
	if got := say(w.last); len(got) != 1 || !strings.HasPrefix(got[0], "intent@2 tool d ") {
		t.Errorf("%q", got)
	}
}

func TestIsolationOfThePolicy(t *testing.T) {
	for name, tt := range map[string]struct {
		route agent.Route
		want  string
	}{
		"deny":               {agent.Deny([]byte("x")), "output@1001 x"},
		"deny at the bound":  {agent.Deny(bytes.Repeat([]byte("x"), 2000)), "output@1001 " + strings.Repeat("x", 2000)},
		"deny beyond":        {agent.Deny(bytes.Repeat([]byte("x"), 2001)), "error@1001 hitl_timeout/policy_error none"},
		"drop":               {agent.Drop("x"), "error@1001 hitl_timeout/dropped none"},
		"no route":           {agent.Route{}, "error@1001 hitl_timeout/policy_error none"},
		"another kind":       {agent.Route{Kind: 9}, "error@1001 hitl_timeout/policy_error none"},
		"escalate":           {agent.Escalate("x", time.Second, 1), "intent@1001 approval t {}"},
		"no channel":         {agent.Escalate("", time.Second, 1), "error@1001 hitl_timeout/policy_error none"},
		"a channel too long": {agent.Escalate(strings.Repeat("x", 4097), time.Second, 1), "error@1001 hitl_timeout/policy_error none"},
		"no timeout":         {agent.Escalate("x", 0, 1), "error@1001 hitl_timeout/policy_error none"},
		"no limit":           {agent.Escalate("x", time.Second, 0), "error@1001 hitl_timeout/policy_error none"},
		"a limit too high":   {agent.Escalate("x", time.Second, 101), "error@1001 hitl_timeout/policy_error none"},
	} {
		t.Run(name, func(t *testing.T) {
			a := healthy()
			a.run = func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
				return agent.Suspend(nil, time.Second), act.RequestApproval("t", nil)
			}
			a.timeoutPolicy = func(agent.Timeout) agent.Route { return tt.route }
			w := newWorld(t, a, func(r *activation.Rules) { r.MaxOutputBytes = 2000 })
			w.repeat = true
			w.event(1, "e")
			w.timeout()
			w.expect(tt.want)
		})
	}
	t.Run("deny with nothing", func(t *testing.T) {
		a := healthy()
		a.timeoutPolicy = func(agent.Timeout) agent.Route { return agent.Deny(nil) }
		w := newWorld(t, a)
		w.event(1, "e")
		w.timeout() // the intent expires with the suspension
		w.expect()
		if w.now().GetContinuation() != nil {
			t.Error("still suspended")
		}
	})
}

// An agent can put text that is not UTF-8 in many places. In each of them it is refused or
// replaced, because a message with such text could not be encoded.
func TestIsolationOfInvalidText(t *testing.T) {
	const bad = "a\xff"
	activations := map[string]struct {
		run  func(act *agent.Activation) (agent.Outcome, error)
		want string // code
	}{
		"tool":            {refusal(func(act *agent.Activation) error { return act.Act(bad, nil) }), "invalid_text"},
		"no tool":         {refusal(func(act *agent.Activation) error { return act.Act("", nil) }), "invalid_text"},
		"approval":        {refusal(func(act *agent.Activation) error { return act.RequestApproval(bad, nil) }), "invalid_text"},
		"args":            {refusal(func(act *agent.Activation) error { return act.Act("t", map[string]string{"a": bad}) }), "invalid_text"},
		"args' names":     {refusal(func(act *agent.Activation) error { return act.Act("t", map[string]string{bad: "a"}) }), "invalid_text"},
		"args' text":      {refusal(func(act *agent.Activation) error { return act.Act("t", json.RawMessage(`{"a":"`+bad+`"}`)) }), "invalid_text"},
		"args twice":      {refusal(func(act *agent.Activation) error { return act.Act("t", json.RawMessage(`{"a":1,"a":2}`)) }), "invalid_text"},
		"args of no text": {refusal(func(act *agent.Activation) error { return act.Act("t", json.RawMessage(nil)) }), "invalid_text"},
		"args no object":  {refusal(func(act *agent.Activation) error { return act.RequestApproval("t", []int{1}) }), "invalid_text"},
		"args null":       {refusal(func(act *agent.Activation) error { return act.Act("t", json.RawMessage(`null`)) }), "invalid_text"},
		"surrogate":       {refusal(func(act *agent.Activation) error { return act.Act("t", json.RawMessage(`{"a":"\ud800"}`)) }), "invalid_text"},
		"output":          {refusal(func(act *agent.Activation) error { return act.EmitJSON(bad) }), "invalid_text"},
		"attribute":       {refusal(func(act *agent.Activation) error { return act.SetAttribute("a", bad) }), "invalid_text"},
		"attribute name":  {refusal(func(act *agent.Activation) error { return act.SetAttribute(bad, "a") }), "invalid_text"},
		"memory value":    {refusal(func(act *agent.Activation) error { return agent.Put(act, "a", bad) }), "invalid_text"},
		"memory name":     {refusal(func(act *agent.Activation) error { return agent.Put(act, bad, "a") }), "invalid_text"},
		"error":           {func(*agent.Activation) (agent.Outcome, error) { return agent.Outcome{}, errors.New(bad) }, "error"},
		"reject":          {func(*agent.Activation) (agent.Outcome, error) { return agent.Reject(errors.New(bad)), nil }, "rejected"},
		"panic":           {func(*agent.Activation) (agent.Outcome, error) { panic(bad) }, "panic"},
	}
	for name, tt := range activations {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) { return tt.run(act) }))
			w.event(1, "e")
			w.expect("error@1 activation_error/" + tt.want + " envelope")
			w.bytesOf(w.last)
			w.same(stored{control: []byte{}})
		})
	}
	for name, change := range map[string]func(*hooked){
		"event id":    func(a *hooked) { a.eventID = func([]byte) string { return bad } },
		"traceparent": func(a *hooked) { a.traceParent = func([]byte) string { return bad } },
		"channel": func(a *hooked) {
			a.timeoutPolicy = func(agent.Timeout) agent.Route { return agent.Escalate(bad, time.Hour, 1) }
		},
		"drop": func(a *hooked) { a.timeoutPolicy = func(agent.Timeout) agent.Route { return agent.Drop(bad) } },
		"snapshot": func(a *hooked) {
			a.run = func(context.Context, *agent.Activation) (agent.Outcome, error) {
				return agent.Suspend([]byte(bad), time.Hour), nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := healthy()
			a.run = func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
				return agent.Suspend(nil, time.Hour), act.RequestApproval("t", nil)
			}
			change(a)
			w := newWorld(t, a)
			w.event(1, "e")
			if w.now().GetContinuation() == nil {
				t.Fatalf("%q", say(w.last))
			}
			w.bytesOf(w.last)
			w.timeout()
			w.bytesOf(w.last)
		})
	}
}

func refusal(f func(*agent.Activation) error) func(*agent.Activation) (agent.Outcome, error) {
	return func(act *agent.Activation) (agent.Outcome, error) { return agent.Done(), f(act) }
}

// A fused step can build an envelope with text that no coder would accept.
func TestIsolationOfEnvelopes(t *testing.T) {
	const bad = "a\xff"
	for name, env := range map[string]*pb.AgentEnvelope{
		"result":   {EventTimeMs: 5, Payload: &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{IntentId: bad, ErrorMessage: bad}}},
		"approval": {EventTimeMs: 5, Payload: &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{IntentId: bad, Approver: bad}}},
		"export":   {EventTimeMs: 5, Payload: &pb.AgentEnvelope_ExportRequest{ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: bad}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScripted(t)
			w.envelope(env)
			w.expect("error@5 malformed_envelope/unparsable envelope")
			env.EventTimeMs = -1 // which has another fault, too
			w.envelope(env)
			if l := w.letter(); l.Reason != deadletter.MalformedEnvelope || l.EventTimeMS != -1 {
				t.Errorf("%+v", l)
			}
		})
	}
	for name, tt := range map[string]struct {
		payload *pb.AgentEnvelope
		want    string
	}{
		"no result":   {&pb.AgentEnvelope{EventTimeMs: 5, Payload: &pb.AgentEnvelope_ToolResult{}}, "error@5 orphaned_result/no_continuation envelope"},
		"no approval": {&pb.AgentEnvelope{EventTimeMs: 5, Payload: &pb.AgentEnvelope_Approval_{}}, "error@5 orphaned_result/no_continuation envelope"},
		"no request":  {&pb.AgentEnvelope{EventTimeMs: 5, Payload: &pb.AgentEnvelope_ExportRequest{}}, "snapshot@5 seq 0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScripted(t)
			w.envelope(tt.payload)
			w.expect(tt.want)
		})
	}
}

// The failure is the first refusal, even if Run returns another error.
func TestIsolationTellsTheFirstFault(t *testing.T) {
	w := newWorld(t, run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
		_ = act.Act("", nil)
		_ = act.Emit(make([]byte, 11<<20))
		return agent.Reject(errors.New("other")), nil
	}))
	w.event(1, "e")
	if l := w.letter(); l.Code != deadletter.InvalidText || !strings.Contains(l.Error, "tool name") {
		t.Errorf("%s %s", l.Code, l.Error)
	}
}
