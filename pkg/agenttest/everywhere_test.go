package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// recorder is a test that fails without failing its parent.
type recorder struct {
	testing.TB
	failed bool
	text   string
}

func (r *recorder) Helper()      {}
func (r *recorder) Failed() bool { return r.failed }

func (r *recorder) Logf(format string, args ...any) { r.text += fmt.Sprintf(format, args...) + "\n" }

func (r *recorder) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.failed = true
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failureOf runs a test and returns what it says if it fails, and "" if it passes.
func failureOf(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	if r.failed {
		t.Log(r.text)
		return r.text
	}
	return ""
}

// Each of these agents has one fault.
type (
	packageCounter   struct{}
	fieldCounter     struct{ n int }
	exportedCounter  struct{ N int }
	onceInAWorker    struct{ seen map[string]bool }
	leakBetweenKeys  struct{ last string }
	clockInOutput    struct{}
	clockMSInOutput  struct{}
	clockInMemory    struct{}
	clockInSnapshot  struct{}
	clockInTimeout   struct{}
	randomInArgs     struct{}
	randomInApproval struct{}
	randomInTrace    struct{}
	randomInError    struct{}
	randomAnswer     struct{}
	rangeOverMap     struct{}
	rangeOverPair    struct{}
)

var count int

func (a *packageCounter) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	count++
	return agent.Done(), act.EmitJSON(count)
}

func (a *fieldCounter) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	a.n++
	return agent.Done(), act.EmitJSON(a.n)
}

func (a *exportedCounter) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	a.N++
	return agent.Done(), act.EmitJSON(a.N)
}

func (a *onceInAWorker) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	id := string(act.Trigger().Event)
	if a.seen[id] {
		return agent.Done(), nil
	}
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	a.seen[id] = true
	return agent.Done(), act.Emit([]byte(id))
}

func (a *leakBetweenKeys) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	last := a.last
	a.last = string(act.Key())
	if last == a.last {
		last = ""
	}
	return agent.Done(), act.EmitJSON(last)
}

func (*clockInOutput) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), act.EmitJSON(time.Now())
}

func (*clockMSInOutput) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), act.EmitJSON(time.Now().UnixMilli())
}

func (*clockInMemory) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), agent.Put(act, "at", time.Now())
}

func (*clockInSnapshot) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	return agent.Suspend([]byte(time.Now().String()), time.Hour), nil
}

func (*clockInTimeout) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	return agent.Suspend(nil, time.Duration(time.Now().UnixNano()%1e9+1)*time.Millisecond), nil
}

func (*randomInArgs) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), act.Act("t", map[string]any{"id": rand.Int()})
}

func (*randomInApproval) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	return agent.Suspend(nil, time.Hour), act.RequestApproval("t", map[string]any{"id": rand.Int()})
}

func (*randomInTrace) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), act.SetAttribute("id", fmt.Sprint(rand.Int()))
}

func (*randomInError) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), fmt.Errorf("request %d failed", rand.Int())
}

func (*randomAnswer) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	if act.Trigger().Kind == agent.ToolResult {
		return agent.Done(), act.EmitJSON(rand.Int())
	}
	return agent.Suspend(nil, time.Hour), act.Act("t", nil)
}

func ranged(act *agent.Activation, m map[string]int) error {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	return act.EmitJSON(names)
}

func (*rangeOverMap) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), ranged(act, map[string]int{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5})
}

func (*rangeOverPair) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), ranged(act, map[string]int{"a": 1, "b": 2})
}

func TestEverywhereFinds(t *testing.T) {
	const out, state = "the outputs of step", "the state after step"
	for _, c := range []struct {
		agent agent.Agent
		want  string
		steps int // the number of steps that the fault needs to show
	}{
		{new(packageCounter), out, 1},
		{new(fieldCounter), out, 1},
		{new(exportedCounter), out, 1},
		{new(onceInAWorker), out, 1},
		{new(leakBetweenKeys), out, 2},
		{new(clockInOutput), out, 1},
		{new(clockMSInOutput), out, 1},
		{new(clockInMemory), state, 1},
		{new(clockInSnapshot), state, 1},
		{new(clockInTimeout), out, 1},
		{new(randomInArgs), out, 1},
		{new(randomInApproval), out, 1},
		{new(randomInTrace), out, 1},
		{new(randomInError), out, 1},
		{new(randomAnswer), out, 1},
		{new(rangeOverMap), out, 1},
		{new(rangeOverPair), out, 1},
	} {
		for _, steps := range []int{1, 2, 7} {
			if steps < c.steps {
				continue
			}
			name := fmt.Sprintf("%T/%d", c.agent, steps)
			got := failureOf(t, func(t testing.TB) {
				agenttest.Everywhere(t, agenttest.AgentParams{Name: "test", Agent: c.agent}, func(r *agenttest.Runtime) {
					for i := range steps {
						out := r.Key(fmt.Sprintf("k%d", i%2)).Event(fmt.Sprintf("event %d", i))
						if len(out.Intents) > 0 {
							r.Key(fmt.Sprintf("k%d", i%2)).Answer(out.Intents[0], pb.ToolResult_OK, "{}")
						}
					}
				})
			})
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: it says %q", name, got)
			}
		}
	}
}

// The failure says which step differs, how it ran, and what differs.
func TestEverywhereReads(t *testing.T) {
	got := failureOf(t, func(t testing.TB) {
		agenttest.Everywhere(t, agenttest.AgentParams{Name: "test", Agent: new(fieldCounter)}, func(r *agenttest.Runtime) {
			r.Key("k").Event("a")
			r.Wait(time.Second)
			r.Key("k").Event("b")
		})
	})
	want := `agenttest: when the steps ran again in one bundle, the outputs of step 2 (the event b at 2025-01-01T00:00:01Z for key "k") differ:`
	for _, line := range []string{want, "-   \"1\"\n", "+   \"2\"\n", "fields that Run changes"} {
		if !strings.Contains(got, line) {
			t.Errorf("there is no %q in\n%s", line, got)
		}
	}
}

// A failure of the script itself is reported before the failures that Everywhere finds.
func TestEverywhereStopsWithTheScript(t *testing.T) {
	got := failureOf(t, func(t testing.TB) {
		agenttest.Everywhere(t, agenttest.AgentParams{Name: "test", Agent: new(fieldCounter)}, func(r *agenttest.Runtime) {
			r.Key("k").Event("a")
			t.Errorf("found by the script")
		})
	})
	if got != "found by the script\n" {
		t.Errorf("got %q", got)
	}
	got = failureOf(t, func(t testing.TB) {
		agenttest.Everywhere(t, agenttest.AgentParams{Name: "test", Agent: new(fieldCounter)}, func(*agenttest.Runtime) {})
	})
	if !strings.Contains(got, "the script has no steps") {
		t.Errorf("got %q", got)
	}
}

// everything is an agent that uses the whole API and has no fault. The event says what to do.
type everything struct{ Version uint32 }

func (*everything) Setup(context.Context) error { return nil }
func (*everything) EventID(event []byte) string {
	id, _, _ := strings.Cut(string(event), " ")
	return id
}
func (a *everything) SnapshotVersion() uint32 { return a.Version }
func (*everything) MigrateSnapshot(from uint32, snapshot []byte) ([]byte, error) {
	return fmt.Appendf(snapshot, "+%d", from), nil
}
func (*everything) TraceParent([]byte) string {
	return "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
}

func (*everything) TimeoutPolicy(t agent.Timeout) agent.Route {
	switch string(t.Snapshot) {
	case "escalate":
		return agent.Escalate("boss", time.Hour, 1)
	case "drop":
		return agent.Drop("given up")
	case "resume":
		return agent.Resume()
	}
	return agent.Deny([]byte("denied"))
}

func (*everything) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	t := act.Trigger()
	n, _, err := agent.Get[int](act, "n")
	if err == nil {
		err = agent.Put(act, "n", n+1)
	}
	if err == nil {
		err = agent.Put(act, fmt.Sprintf("seq %d", act.Seq()), act.NowMS())
	}
	if err == nil {
		err = act.EmitJSON(map[string]any{"n": n, "kind": t.Kind, "snapshot": string(act.Snapshot()), "open": len(act.Open()), "expired": t.ExpiredIDs})
	}
	if err != nil {
		return agent.Outcome{}, err
	}
	switch t.Kind {
	case agent.Approval:
		if t.Approved {
			return agent.Suspend([]byte("approved"), time.Hour), act.ActApproved()
		}
		return agent.Done(), nil
	case agent.ToolResult:
		if len(act.Open()) > 0 {
			return agent.Suspend(act.Snapshot(), time.Hour), nil
		}
		return agent.Done(), act.SetAttribute("status", t.Result.GetStatus().String())
	case agent.Expired:
		return agent.Suspend([]byte("expired"), time.Hour), nil
	case agent.TimedOut:
		return agent.Done(), agent.Delete(act, "n")
	}
	_, what, _ := strings.Cut(string(t.Event), " ")
	switch what {
	case "fail":
		return agent.Done(), errors.New("failed")
	case "panic":
		panic("panicked")
	case "exit":
		runtime.Goexit()
	case "reject":
		return agent.Reject(errors.New("rejected")), nil
	case "two":
		if err := act.Act("one", nil); err != nil {
			return agent.Outcome{}, err
		}
		return agent.Suspend([]byte("two"), time.Hour), act.Act("two", map[string]int{"n": n})
	case "expire":
		if err := act.ExpireIntentsAfter(time.Minute); err != nil {
			return agent.Outcome{}, err
		}
		return agent.Suspend([]byte("two"), time.Hour), act.Act("one", nil)
	case "escalate", "ask":
		return agent.Suspend([]byte(what), time.Hour), act.RequestApproval("pay", map[string]int{"n": n})
	case "drop", "resume", "sleep":
		return agent.Suspend([]byte(what), time.Hour), nil
	}
	return agent.Done(), nil
}

func TestEverywherePassesAnAgentWithoutFault(t *testing.T) {
	params := func(version uint32) agenttest.AgentParams {
		return agenttest.AgentParams{
			Name: "test", Agent: &everything{version}, TTL: 3 * time.Hour, MaxDeferred: 12, MaxActivationsPerHour: 20, MeasureDurations: true,
		}
	}
	kinds := map[string]int{}
	agenttest.Everywhere(t, params(0), func(r *agenttest.Runtime) {
		note := func(out agenttest.Result) agenttest.Result {
			kinds["outputs"] += len(out.Outputs)
			kinds["snapshots"] += len(out.Snapshots)
			for _, l := range out.Errors {
				kinds[string(l.Reason)+"/"+string(l.Code)]++
			}
			return out
		}
		n := 0
		event := func(k *agenttest.Key, what string) agenttest.Result {
			n++
			return note(k.Event(fmt.Sprintf("%d %s", n, what)))
		}
		a, b := r.Key("a"), r.Key("")
		for _, what := range []string{"", "fail", "panic", "exit", "reject", "drop"} {
			event(a, what)
		}
		note(a.Event("1 again"))
		two := event(b, "two")
		for range 14 {
			event(b, "")
		}
		event(b, "escalate")
		note(b.Answer(two.Intent("two"), pb.ToolResult_ERROR, errors.New("no")))
		b.Export()
		note(b.Answer(two.Intent("one"), pb.ToolResult_OK, "{}"))
		r.Deploy(params(1))
		note(r.Wait(90 * time.Minute))
		event(a, "expire")
		event(a, "resume")
		note(r.Wait(5 * time.Hour))
		asked := event(a, "ask").Intent("pay")
		r.Deploy(params(2))
		paid := note(a.Approve(asked, "alice")).Intent("pay")
		note(a.Answer(asked, pb.ToolResult_OK, nil))
		note(a.Answer(paid, pb.ToolResult_OK, nil))
		event(a, "sleep")
		note(r.Wait(1<<63 - 1))
	})
	for _, kind := range []string{
		"outputs", "activation_error/error", "activation_error/panic", "activation_error/exit", "activation_error/rejected",
		"deferred_overflow/count", "hitl_timeout/dropped", "orphaned_result/unknown_intent",
	} {
		if kinds[kind] == 0 {
			t.Errorf("the script has no %s: %v", kind, kinds)
		}
	}
}
