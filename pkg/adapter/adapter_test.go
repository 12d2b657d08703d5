package adapter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/adapter"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// waiter waits for the calls of its event, and emits each answer when it arrives. A call "next" is
// followed by another call.
type waiter struct{ Foreign bool }

func (*waiter) TimeoutPolicy(agent.Timeout) agent.Route { return agent.Resume() }

func (a *waiter) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	var waiting adapter.Waiting
	if t := act.Trigger(); t.Kind == agent.Event {
		var calls []adapter.Call
		if err := t.JSON(&calls); err != nil {
			return agent.Outcome{}, err
		}
		for i, c := range calls {
			if err := waiting.Stage(act, fmt.Sprint(i), c); err != nil {
				return agent.Outcome{}, err
			}
		}
		if a.Foreign {
			if err := act.Act("other", nil); err != nil {
				return agent.Outcome{}, err
			}
		}
	} else {
		if err := json.Unmarshal(act.Snapshot(), &waiting); err != nil {
			return agent.Outcome{}, err
		}
		answered, err := waiting.Answer(act)
		if err != nil {
			return agent.Outcome{}, err
		}
		for _, x := range answered {
			if waiting.Has(x.ID) {
				return agent.Outcome{}, fmt.Errorf("%s still waits", x.ID)
			}
			if err := act.Emit([]byte(x.ID + " " + x.Call.Tool + ": " + x.Answer.Text())); err != nil {
				return agent.Outcome{}, err
			}
			if x.Call.Tool == "next" {
				if err := waiting.Stage(act, x.ID, adapter.Call{Kind: adapter.ToolCall, Tool: "last"}); err != nil {
					return agent.Outcome{}, err
				}
			}
		}
	}
	if len(waiting) == 0 {
		return agent.Done(), nil
	}
	b, err := json.Marshal(waiting)
	return agent.Suspend(b, 48*time.Hour), err
}

func outputs(r agenttest.Result) string {
	var all []string
	for _, o := range r.Outputs {
		all = append(all, string(o.Value))
	}
	return strings.Join(all, "; ")
}

func expect(t *testing.T, r agenttest.Result, want string) {
	t.Helper()
	if got := outputs(r); got != want || len(r.Errors) > 0 {
		t.Errorf("got %q, want %q\n%v", got, want, r)
	}
}

func params(a *waiter) agenttest.AgentParams { return agenttest.AgentParams{Name: "waiter", Agent: a} }

// Equal calls are told apart, in whatever order they are answered and approved.
func TestWaiting(t *testing.T) {
	agenttest.Everywhere(t, params(&waiter{}), func(r *agenttest.Runtime) {
		k := r.Key("a")
		pay := adapter.Call{Kind: adapter.ApprovedToolCall, Tool: "pay", Args: []byte(`{"b": 1e2, "a": 1}`)}
		out := k.Event([]adapter.Call{
			pay, {Kind: adapter.Decision, Tool: "pay", Args: pay.Args}, pay, {Kind: adapter.ToolCall, Tool: "pay", Args: pay.Args}, {Kind: adapter.ToolCall, Tool: "next"}, pay,
		})
		if got := out.Intents[0].GetArgsJson(); got != `{"a":1,"b":100.0}` {
			t.Errorf("args %s", got)
		}
		third := k.Approve(out.Intents[2], "alice").Intent("pay")
		first := k.Approve(out.Intents[0], "alice").Intent("pay")
		if third.GetKind() != pb.ToolIntent_TOOL || third.GetArgsJson() != out.Intents[2].GetArgsJson() {
			t.Errorf("approved were %v, got %v", out.Intents[2], third)
		}
		expect(t, k.Deny(out.Intents[5], "alice"), "5 pay: The call was not made: it was denied.")
		expect(t, k.Answer(out.Intents[3], pb.ToolResult_OK, "paid 3"), "3 pay: paid 3")
		next := k.Answer(out.Intents[4], pb.ToolResult_OK, "go on")
		expect(t, next, "4 next: go on")
		expect(t, k.Answer(first, pb.ToolResult_OK, "paid 0"), "0 pay: paid 0")
		expect(t, k.Approve(out.Intents[1], "alice"), "1 pay: A human approved the call.")
		expect(t, k.Answer(next.Intent("last"), pb.ToolResult_ERROR, fmt.Errorf("closed")), "4 last: The call failed: closed")
		expect(t, k.Answer(third, pb.ToolResult_OK, "paid 2"), "2 pay: paid 2")
		if _, suspended := k.Suspended(); suspended {
			t.Error("the key is suspended")
		}
	})
}

// A timeout answers all calls. Only of a call that no effector was asked for does the answer
// say that it was not made.
func TestExpired(t *testing.T) {
	r := agenttest.New(t, params(&waiter{}))
	k := r.Key("a")
	out := k.Event([]adapter.Call{
		{Kind: adapter.ToolCall, Tool: "x"}, {Kind: adapter.Decision, Tool: "y"},
		{Kind: adapter.ApprovedToolCall, Tool: "pay"}, {Kind: adapter.ApprovedToolCall, Tool: "send"},
	})
	k.Approve(out.Intents[2], "alice")
	const unknown, notMade = "It is not known whether the call was made: no result came in time", "The call was not made: nobody answered in time."
	expect(t, r.Wait(24*time.Hour), "0 x: "+unknown+"; 1 y: "+notMade+"; 3 send: "+notMade+"; 2 pay: "+unknown) // an approved call waits anew
}

// An effector that gets an expired intent does not run the tool, and says so.
func TestExpiredResult(t *testing.T) {
	k := agenttest.New(t, params(&waiter{})).Key("a")
	out := k.Event([]adapter.Call{{Kind: adapter.ToolCall, Tool: "x"}, {Kind: adapter.ApprovedToolCall, Tool: "pay"}})
	result := func(in *pb.ToolIntent) agenttest.Result {
		r := intent.ExpiredResult(in, in.GetExpiresAtMs())
		return k.Answer(in, r.GetStatus(), errors.New(r.GetErrorMessage()))
	}
	expect(t, result(out.Intents[0]), "0 x: The call was not made: nobody answered in time.")
	expect(t, result(k.Approve(out.Intents[1], "alice").Intent("pay")), "1 pay: The call was not made: nobody answered in time.")
}

func TestErrors(t *testing.T) {
	for event, want := range map[string]string{
		`[{"kind":"tool","tool":"x","args":[]}]`:          "they must be a JSON object",
		`[{"kind":"tool","tool":"","args":{}}]`:           "no tool name",
		`[{"kind":"other","tool":"x","args":{}}]`:         `the kind "other"`,
		`[{"kind":"tool","tool":"x","args":{"a":1e999}}]`: "args of \"x\"",
	} {
		if letter := agenttest.New(t, params(&waiter{})).Key("a").Event(event).DeadLetter(); !strings.Contains(letter.Error, want) {
			t.Errorf("%s: got %q, want %q", event, letter.Error, want)
		}
	}
	k := agenttest.New(t, params(&waiter{Foreign: true})).Key("a")
	out := k.Event([]adapter.Call{{Kind: adapter.ToolCall, Tool: "x"}})
	if letter := k.Answer(out.Intent("other"), pb.ToolResult_OK, nil).DeadLetter(); !strings.Contains(letter.Error, "nothing waits for the intent") {
		t.Errorf("got %q", letter.Error)
	}
	if _, err := adapter.NewCall(adapter.ToolCall, "x", func() {}); err == nil {
		t.Error("a func became JSON")
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		answer adapter.Answer
		want   string
	}{
		{adapter.Answer{Status: pb.ToolResult_OK, Payload: []byte("42")}, "42"},
		{adapter.Answer{Status: pb.ToolResult_ERROR}, "The call failed."},
		{adapter.Answer{Status: pb.ToolResult_ERROR, Error: "no money"}, "The call failed: no money"},
		{adapter.Answer{Approved: true}, "A human approved the call."},
		{adapter.Answer{}, "The call was not made: it was denied."},
		{adapter.Answer{Status: pb.ToolResult_EXPIRED}, "The call was not made: nobody answered in time."},
		{adapter.Answer{Status: pb.ToolResult_EXPIRED, Unknown: true, Error: "no result"}, "It is not known whether the call was made: no result"},
		{adapter.Answer{Status: pb.ToolResult_EXPIRED, Error: "intent expired at 5"}, "The call was not made: nobody answered in time."},
		{adapter.Answer{Status: pb.ToolResult_REJECTED}, "The call was not made: it was denied."},
		{adapter.Answer{Status: pb.ToolResult_REJECTED, Error: "bad signature"}, "The call failed: bad signature"},
	} {
		if got := c.answer.Text(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.answer, got, c.want)
		}
	}
}

// One client serves the activations of all keys, and each activation gets its own recorded answers.
type fetcher struct{ URL string }

func (a *fetcher) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	req, err := http.NewRequestWithContext(adapter.WithActivation(ctx, act), http.MethodPost, a.URL, strings.NewReader("body"))
	if err != nil {
		return agent.Outcome{}, err
	}
	resp, err := adapter.HTTPClient().Do(req)
	if err != nil {
		return agent.Outcome{}, err
	}
	defer resp.Body.Close()
	var answer json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return agent.Outcome{}, err
	}
	if err := act.Emit(answer); err != nil || act.Trigger().Kind != agent.Event {
		return agent.Done(), err
	}
	return agent.Suspend(nil, time.Hour), act.Act("tool", nil)
}

func TestHTTPClient(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, calls)
	}))
	defer server.Close()
	r := agenttest.New(t, agenttest.AgentParams{Name: "fetcher", Agent: &fetcher{URL: server.URL}})
	a, b := r.Key("a"), r.Key("b")
	askedA, askedB := a.Event("x"), b.Event("x")
	expect(t, askedA, "1")
	expect(t, askedB, "2")
	expect(t, a.Answer(askedA.Intent("tool"), pb.ToolResult_OK, nil), "1")
	expect(t, b.Answer(askedB.Intent("tool"), pb.ToolResult_OK, nil), "2")
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
	if resp, err := adapter.HTTPClient().Post(server.URL, "", strings.NewReader("x")); err == nil || calls != 2 {
		resp.Body.Close()
		t.Error("a request without an activation was sent")
	}
}
