package agenttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func start(t *testing.T, a agent.Agent, change ...func(*agenttest.AgentParams)) *agenttest.Runtime {
	t.Helper()
	p := agenttest.AgentParams{Name: "test", Agent: a}
	for _, c := range change {
		c(&p)
	}
	return agenttest.New(t, p)
}

func values(out agenttest.Result) (values []string) {
	for _, o := range out.Outputs {
		values = append(values, string(o.Value))
	}
	return values
}

// teller describes its trigger, and suspends if the event says for how long.
type teller struct{}

func (*teller) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	t := act.Trigger()
	out := t.Kind.String()
	switch t.Kind {
	case agent.ToolResult:
		out += fmt.Sprintf(" %v %s%s of %s", t.Result.GetStatus(), t.Bytes(), t.Result.GetErrorMessage(), t.Intent.GetToolName())
	case agent.Approval:
		out += fmt.Sprintf(" %v by %s at %d", t.Approved, t.Approver, t.DecidedAtMS-agenttest.StartMS)
	case agent.Event:
		out += " " + string(t.Event)
		if d, err := time.ParseDuration(string(t.Event)); err == nil {
			if err := act.Emit([]byte(out)); err != nil {
				return agent.Outcome{}, err
			}
			return agent.Suspend([]byte("snapshot"), d), errors.Join(act.Act("tool", nil), act.RequestApproval("human", nil))
		}
	}
	return agent.Done(), errors.Join(act.Emit([]byte(out)), agent.Put(act, "last", out), agent.Put(act, "raw", []byte(out)))
}

func TestAnswers(t *testing.T) {
	for want, answer := range map[string]func(*agenttest.Key, agenttest.Result) agenttest.Result{
		`tool_result OK {"a":1} of tool`: func(k *agenttest.Key, out agenttest.Result) agenttest.Result {
			return k.Answer(out.Intent("tool"), pb.ToolResult_OK, map[string]int{"a": 1})
		},
		"tool_result OK text of tool": func(k *agenttest.Key, out agenttest.Result) agenttest.Result {
			return k.Answer(out.Intent("tool"), pb.ToolResult_OK, "text")
		},
		"tool_result OK bytes of tool": func(k *agenttest.Key, out agenttest.Result) agenttest.Result {
			return k.Answer(out.Intent("tool"), pb.ToolResult_OK, []byte("bytes"))
		},
		"tool_result OK [1] of tool": func(k *agenttest.Key, out agenttest.Result) agenttest.Result {
			return k.Answer(out.Intent("tool"), pb.ToolResult_OK, json.RawMessage("[1]"))
		},
		"tool_result ERROR no luck of tool": func(k *agenttest.Key, out agenttest.Result) agenttest.Result {
			return k.Answer(out.Intent("tool"), pb.ToolResult_ERROR, errors.New("no luck"))
		},
		"tool_result REJECTED  of human": func(k *agenttest.Key, out agenttest.Result) agenttest.Result {
			return k.Answer(out.Intent("human"), pb.ToolResult_REJECTED, nil)
		},
		"tool_result EXPIRED  of tool": func(k *agenttest.Key, out agenttest.Result) agenttest.Result {
			return k.Answer(out.Intent("tool"), pb.ToolResult_EXPIRED, nil)
		},
		"approval true by alice at 1000": func(k *agenttest.Key, out agenttest.Result) agenttest.Result {
			return k.Approve(out.Intent("human"), "alice")
		},
		"approval false by bob at 1000": func(k *agenttest.Key, out agenttest.Result) agenttest.Result {
			return k.Deny(out.Intent("human"), "bob")
		},
	} {
		r := start(t, new(teller))
		k := r.Key("k")
		asked := k.Event("1h")
		deadline, suspended := k.Suspended()
		if !suspended || deadline != agenttest.StartMS+time.Hour.Milliseconds() || len(k.Open()) != 2 || string(k.Snapshot()) != "snapshot" {
			t.Errorf("suspended %v until %d, open %v, snapshot %q", suspended, deadline, k.Open(), k.Snapshot())
		}
		r.Wait(time.Second)
		if got := values(answer(k, asked)); !slices.Equal(got, []string{want}) {
			t.Errorf("got %q, want %q", got, want)
		}
		if _, suspended := k.Suspended(); suspended || k.Snapshot() != nil || k.Open() != nil {
			t.Errorf("%s: the key is still suspended", want)
		}
		if last, ok := agenttest.Memory[string](k, "last"); !ok || last != want {
			t.Errorf("the memory has %q, want %q", last, want)
		}
		if raw, ok := agenttest.Memory[[]byte](k, "raw"); !ok || string(raw) != want {
			t.Errorf("the memory has %q, want %q", raw, want)
		}
		if _, ok := agenttest.Memory[string](k, "other"); ok || len(k.MemoryBlob().GetEntries()) != 2 {
			t.Errorf("the memory is %v", k.MemoryBlob())
		}
	}
}

// Timers fire in the order of their times, and not early.
func TestWait(t *testing.T) {
	r := start(t, new(teller), func(p *agenttest.AgentParams) { p.TTL = time.Hour })
	a, b := r.Key("a"), r.Key("b")
	a.Event("2m")
	b.Event("1m")
	if out := r.Wait(time.Minute - time.Millisecond); out.String() != "  nothing" {
		t.Errorf("before the first deadline:\n%v", out)
	}
	if out := r.Wait(time.Millisecond); len(out.Outputs) != 1 || out.Outputs[0].Key != "b" || out.Outputs[0].AtMS != r.NowMS() {
		t.Errorf("at the first deadline:\n%v", out)
	}
	b.Event("30s")
	b.Event("waits") // and runs at the deadline
	out := r.Wait(time.Hour)
	var got []string
	for _, o := range out.Outputs {
		got = append(got, fmt.Sprintf("%s %s %d", o.Key, o.Value, (o.AtMS-agenttest.StartMS)/1000))
	}
	if want := []string{"b __hitl_timeout__ 90", "b event waits 90", "a __hitl_timeout__ 120"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if r.NowMS() != agenttest.StartMS+(time.Hour+time.Minute).Milliseconds() {
		t.Errorf("now is %d", r.NowMS())
	}
	if b.MemoryBlob() == nil {
		t.Error("the memory of b is cleared before its TTL")
	}
	if r.Wait(31 * time.Second); b.MemoryBlob() != nil {
		t.Error("the memory of b is not cleared after its TTL")
	}
	if got := failureOf(t, func(t testing.TB) { agenttest.New(t, refunds()).Wait(-1) }); !strings.Contains(got, "time does not go back") {
		t.Errorf("got %q", got)
	}
}

// sleeper suspends again and again.
type sleeper struct{}

func (*sleeper) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Suspend(nil, time.Hour), nil
}
func (*sleeper) TimeoutPolicy(agent.Timeout) agent.Route { return agent.Resume() }

func TestTheEndOfTime(t *testing.T) {
	r := start(t, new(sleeper), func(p *agenttest.AgentParams) { p.TTL = time.Hour })
	k := r.Key("k")
	k.Event("e")
	if letter := r.Wait(math.MaxInt64).DeadLetter(); letter.Code != "endless" {
		t.Errorf("got %+v", letter)
	}
	if r.NowMS() != math.MaxInt64 {
		t.Errorf("now is %d", r.NowMS())
	}
	// At a time so late that no deadline is later.
	k.Send(&pb.AgentEnvelope{EventTimeMs: 1, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte("e")}})
	if _, suspended := k.Suspended(); suspended {
		t.Error("an event that is late waits for a time that has passed")
	}
}

// Deferred events run in the order of arrival, however many there are.
func TestDeferredEvents(t *testing.T) {
	r := start(t, new(teller))
	k := r.Key("k")
	asked := k.Event("1h")
	var want []string
	for i := range 20 {
		event := fmt.Sprintf("e%d", i)
		if out := k.Event(event); len(out.Outputs) != 0 {
			t.Errorf("an event of a suspended key runs:\n%v", out)
		}
		want = append(want, "event "+event)
	}
	if got := k.Deferred(); len(got) != 20 || string(got[0]) != "e0" || string(got[19]) != "e19" {
		t.Errorf("deferred are %q", got)
	}
	want = append([]string{"tool_result OK x of tool"}, want...)
	if got := values(k.Answer(asked.Intent("tool"), pb.ToolResult_OK, "x")); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if k.Deferred() != nil {
		t.Errorf("deferred are %q", k.Deferred())
	}
	r = start(t, new(teller), func(p *agenttest.AgentParams) { p.WhileSuspended = agenttest.Reject })
	r.Key("k").Event("1h")
	if letter := r.Key("k").Event("e").DeadLetter(); letter.Reason != "suspended" {
		t.Errorf("got %+v", letter)
	}
}

// An envelope has its own time, and does not move the clock.
func TestSend(t *testing.T) {
	r := start(t, new(teller))
	k := r.Key("k")
	r.Wait(time.Hour)
	at := func(d time.Duration, event string) *pb.AgentEnvelope {
		return &pb.AgentEnvelope{EventTimeMs: agenttest.StartMS + d.Milliseconds(), Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(event)}}
	}
	// Late: its deadline has already passed.
	if got := values(k.Send(at(0, "1m"))); !slices.Equal(got, []string{"event 1m", agent.DefaultTimeoutOutput}) {
		t.Errorf("got %q", got)
	}
	// Early: its deadline has not been reached.
	if got := values(k.Send(at(2*time.Hour, "1m"))); !slices.Equal(got, []string{"event 1m"}) {
		t.Errorf("got %q", got)
	}
	if got := values(r.Wait(time.Hour)); got != nil {
		t.Errorf("got %q", got)
	}
	if got := values(r.Wait(time.Minute)); !slices.Equal(got, []string{agent.DefaultTimeoutOutput}) {
		t.Errorf("got %q", got)
	}
	if letter := k.Send(&pb.AgentEnvelope{}).DeadLetter(); letter.Code != "empty_payload" {
		t.Errorf("got %+v", letter)
	}
}

// versioned has snapshots with a version.
type versioned struct {
	teller

	Version uint32
}

func (a *versioned) SnapshotVersion() uint32 { return a.Version }
func (a *versioned) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	if s := act.Snapshot(); s != nil {
		return agent.Done(), act.Emit(s)
	}
	return a.teller.Run(ctx, act)
}

type migrating struct{ versioned }

func (*migrating) MigrateSnapshot(from uint32, snapshot []byte) ([]byte, error) {
	return fmt.Appendf(snapshot, " from %d", from), nil
}

func TestDeploy(t *testing.T) {
	r := start(t, &versioned{Version: 1})
	k := r.Key("k")
	asked := k.Event("1h").Intent("tool")
	for _, c := range []struct {
		params agenttest.AgentParams
		want   string
	}{
		{agenttest.AgentParams{Name: "test", Agent: &versioned{Version: 2}}, "activation_error/snapshot_version"},
		{agenttest.AgentParams{Name: "other", Agent: &versioned{Version: 1}}, "adapter_mismatch/adapter_mismatch"},
	} {
		r.Deploy(c.params)
		if letter := k.Answer(asked, pb.ToolResult_OK, nil).DeadLetter(); string(letter.Reason)+"/"+string(letter.Code) != c.want {
			t.Errorf("got %+v, want %s", letter, c.want)
		}
	}
	r.Deploy(agenttest.AgentParams{Name: "test", Agent: &migrating{versioned{Version: 2}}})
	if got := values(k.Answer(asked, pb.ToolResult_OK, nil)); !slices.Equal(got, []string{"snapshot from 1"}) {
		t.Errorf("got %q", got)
	}
}

func TestExport(t *testing.T) {
	r := start(t, new(teller))
	k := r.Key("k")
	if s := k.Export(); s.GetMemory() != nil || s.GetSeq() != 0 {
		t.Errorf("a key without state exports %v", s)
	}
	k.Event("e")
	k.Event("1h")
	if s := k.Export(); len(s.GetMemory().GetEntries()) != 2 || s.GetSeq() != 2 || len(s.GetPending()) != 2 || string(s.GetContinuation().GetSnapshot()) != "snapshot" {
		t.Errorf("the export is %v", s)
	}
}

// unkind changes everything that it can reach.
type unkind struct{}

func (*unkind) EventID(event []byte) string {
	clear(event)
	return ""
}

func (*unkind) TraceParent(event []byte) string {
	clear(event)
	return ""
}

func (*unkind) MigrateSnapshot(_ uint32, snapshot []byte) ([]byte, error) {
	out := bytes.Clone(snapshot)
	clear(snapshot)
	return out, nil
}

func (*unkind) TimeoutPolicy(t agent.Timeout) agent.Route {
	clear(t.Key)
	clear(t.Snapshot)
	for _, in := range t.Pending {
		in.Reset()
	}
	return agent.Escalate("boss", time.Hour, 1)
}

func (*unkind) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	t := act.Trigger()
	clear(t.Event)
	if t.Result != nil {
		clear(t.Result.Payload)
		t.Result.Reset()
	}
	if t.Intent != nil {
		t.Intent.Reset()
	}
	clear(act.Key())
	clear(act.Snapshot())
	for _, in := range act.Open() {
		in.Reset()
	}
	if b, ok, _ := agent.Get[[]byte](act, "bytes"); ok {
		clear(b)
	}
	stored := []byte("stored")
	emitted := []byte("emitted")
	snapshot := []byte("snapshot")
	err := errors.Join(agent.Put(act, "bytes", stored), act.Emit(emitted), act.EmitJSON(string(act.Trigger().Bytes())))
	clear(stored)
	clear(emitted)
	switch t.Kind {
	case agent.Approval:
		return agent.Done(), errors.Join(err, act.ActApproved())
	case agent.ToolResult:
		return agent.Suspend(act.Snapshot(), time.Hour), err
	}
	return agent.Suspend(snapshot, time.Hour), errors.Join(err, act.Act("tool", map[string]int{"a": 1}), act.RequestApproval("pay", map[string]int{"b": 2}))
}

func TestAnAgentThatChangesWhatItWasGiven(t *testing.T) {
	agenttest.Everywhere(t, agenttest.AgentParams{Name: "test", Agent: new(unkind)}, func(r *agenttest.Runtime) {
		k := r.Key("k")
		first := k.Event("event")
		if got := values(first); !slices.Equal(got, []string{"emitted", `"event"`}) {
			t.Errorf("got %q", got)
		}
		if got := values(k.Answer(first.Intent("tool"), pb.ToolResult_OK, "result")); !slices.Equal(got, []string{"emitted", `"result"`}) {
			t.Errorf("got %q", got)
		}
		if string(k.Snapshot()) != "snapshot" || len(k.Open()) != 1 || k.Open()[0].GetArgsJson() != `{"b":2}` {
			t.Errorf("the snapshot is %q, open are %v", k.Snapshot(), k.Open())
		}
		if b, _ := agenttest.Memory[[]byte](k, "bytes"); string(b) != "stored" {
			t.Errorf("the memory has %q", b)
		}
		escalated := r.Wait(time.Hour).Intent("pay")
		if paid := k.Approve(escalated, "boss").Intent("pay"); paid.GetArgsJson() != `{"b":2}` {
			t.Errorf("paid is %v", paid)
		}
		// Changes that a test makes do not reach the runtime.
		first.Intent("pay").Reset()
		k.Export().GetMemory().Reset()
		if b, _ := agenttest.Memory[[]byte](k, "bytes"); string(b) != "stored" {
			t.Errorf("the memory has %q", b)
		}
	})
}

// slow does not end in time.
type slow struct{ IgnoreContext bool }

var release = make(chan struct{})

func (a *slow) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	if a.IgnoreContext {
		<-release
	}
	<-ctx.Done()
	return agent.Done(), act.Emit([]byte("too late"))
}

func TestTimeLimit(t *testing.T) {
	limit := func(p *agenttest.AgentParams) { p.ActivationTimeout = 5 * time.Millisecond }
	if letter := start(t, &slow{}, limit).Key("k").Event("e").DeadLetter(); letter.Reason != "activation_timeout" {
		t.Errorf("got %+v", letter)
	}
	tb := &recorder{TB: t}
	r := agenttest.New(tb, agenttest.AgentParams{Name: "test", Agent: &slow{IgnoreContext: true}, ActivationTimeout: 5 * time.Millisecond})
	letter := r.Key("k").Event("e").DeadLetter()
	close(release)
	if letter.Error != "the activation took more than 5ms" || !strings.Contains(tb.text, `key "k": the agent still runs after its time limit of 5ms`) {
		t.Errorf("got %+v, and the log %q", letter, tb.text)
	}
}

// unprepared has a Setup that fails.
type unprepared struct{}

func (*unprepared) Setup(context.Context) error { return errors.New("no network") }
func (*unprepared) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

// lossy has configuration that JSON loses.
type lossy struct {
	teller

	limit int
}

// A failure says what is wrong, and shows the effects of the step.
func TestFailures(t *testing.T) {
	with := func(a agent.Agent, test func(r *agenttest.Runtime)) func(testing.TB) {
		return func(t testing.TB) { test(agenttest.New(t, agenttest.AgentParams{Name: "test", Agent: a})) }
	}
	for want, test := range map[string]func(testing.TB){
		`agenttest: AgentParams.Name is ""`: func(t testing.TB) { agenttest.New(t, agenttest.AgentParams{Agent: new(teller)}) },
		"configure the agent by exported fields": with(&lossy{limit: 1}, func(*agenttest.Runtime) {
		}),
		"the Setup of the agent: no network": with(new(unprepared), func(r *agenttest.Runtime) { r.Key("k").Event("e") }),
		"there are 0 intents for the tool \"tool\", want 1; this went out:\n  2025-01-01T00:00:00Z key \"k\": trace event ACTIVATION_START\n": with(new(teller), func(r *agenttest.Runtime) {
			r.Key("k").Event("e").Intent("tool")
		}),
		"dead letter activation_error/rejected: agent: the event: decode JSON": with(&Refunds{}, func(r *agenttest.Runtime) { r.Key("k").Event("e").Intent("refund") }),
		"there are 0 outputs, want 1; this went out:\n  nothing":               func(t testing.TB) { agenttest.New(t, refunds()).Wait(0).OutputJSON(new(int)) },
		`the output "event e" cannot be decoded into *int`:                     with(new(teller), func(r *agenttest.Runtime) { r.Key("k").Event("e").OutputJSON(new(int)) }),
		"there are 0 dead letters, want 1":                                     with(new(teller), func(r *agenttest.Runtime) { r.Key("k").Event("e").DeadLetter() }),
		"chan int cannot be sent as JSON":                                      with(new(teller), func(r *agenttest.Runtime) { r.Key("k").Event(make(chan int)) }),
		`agent: memory "raw": decode JSON`: with(new(teller), func(r *agenttest.Runtime) {
			r.Key("k").Event("e")
			agenttest.Memory[int](r.Key("k"), "raw")
		}),
	} {
		if got := failureOf(t, test); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
