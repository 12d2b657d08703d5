package agenttest_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const modelSecret = "sk-very-secret"

// modelAgent asks a model: twice with the same request, twice at once, and once without HTTP. After
// a resume it starts from the beginning.
type modelAgent struct {
	Addr  string // of the server, which is not part of the requests
	Clock string // in the prompt of the second request after a resume
}

func (a *modelAgent) ModelTransport() http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, a.Addr)
	}}
}

func (a *modelAgent) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	trigger := act.Trigger()
	client := act.HTTPClient()
	clock := ""
	if trigger.Kind != agent.Event {
		clock = a.Clock
	}
	var all [5]string
	var errs [5]error
	for i := range 2 {
		all[i], errs[i] = askModel(ctx, client, `{"model":"m","messages":["same"]}`)
	}
	var group sync.WaitGroup
	for i := range 2 {
		group.Go(func() {
			all[2+i], errs[2+i] = askModel(ctx, client, fmt.Sprintf(`{"model":"m","messages":["at once %d%s"]}`, i, clock))
		})
	}
	group.Wait()
	body, err := act.CallModel(ctx, agent.ModelCall{Model: "local", Messages: []string{"hello"}}, func(context.Context) ([]byte, error) {
		return []byte("a local answer"), nil
	})
	all[4], errs[4] = string(body), err
	if err := errors.Join(errs[:]...); err != nil {
		return agent.Outcome{}, err
	}
	for _, text := range all {
		if err := act.Emit([]byte(text)); err != nil {
			return agent.Outcome{}, err
		}
	}
	if trigger.Kind == agent.Event {
		return agent.Suspend(nil, time.Hour), act.Act("tool", map[string]any{"n": 1})
	}
	return agent.Done(), nil
}

func askModel(ctx context.Context, client *http.Client, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model.test/v1/chat/completions?key="+modelSecret, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+modelSecret)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	return string(text), errors.Join(err, resp.Body.Close())
}

// modelServer gives the same answer to the same request. It calls hook with the number of the
// request, and closes the connection if hook returns false.
func modelServer(t *testing.T, hook func(n int64) bool) (addr string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if n := calls.Add(1); hook != nil && !hook(n) {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "session="+modelSecret)
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","model":"m-1","usage":{"prompt_tokens":6,"completion_tokens":4},"text":"%x"}`, sha256.Sum256(body))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), calls
}

// After a resume no call is made, and no output has a credential.
func TestModelCallsReplay(t *testing.T) {
	addr, calls := modelServer(t, nil)
	k := agenttest.New(t, agenttest.AgentParams{Name: "models", Agent: &modelAgent{Addr: addr}}).Key("k")
	first := k.Event("go")
	again := k.Answer(first.Intent("tool"), pb.ToolResult_OK, nil)
	if n := calls.Load(); n != 4 || len(first.Outputs) != 5 || len(again.Outputs) != 5 {
		t.Fatalf("%d calls, %d outputs, then %d", n, len(first.Outputs), len(again.Outputs))
	}
	for i, o := range first.Outputs {
		if string(o.Value) != string(again.Outputs[i].Value) {
			t.Errorf("output %d: %s, then %s", i, o.Value, again.Outputs[i].Value)
		}
	}
	if text := fmt.Sprint(first, again, first.Traces, again.Traces, k.Export()); strings.Contains(text, modelSecret) || strings.Contains(text, "session=") {
		t.Error("a credential is in what went out, or is stored")
	}
}

// The outputs are the same wherever bundles end and fail.
func TestModelCallsEverywhere(t *testing.T) {
	addr, _ := modelServer(t, nil)
	agenttest.Everywhere(t, agenttest.AgentParams{Name: "models", Agent: &modelAgent{Addr: addr}}, func(r *agenttest.Runtime) {
		k := r.Key("k")
		k.Answer(k.Event("go").Intent("tool"), pb.ToolResult_OK, nil)
	})
}

// A request that differs after a resume is counted, and the trace names the difference.
func TestReplayDivergenceIsNamed(t *testing.T) {
	addr, _ := modelServer(t, nil)
	r := agenttest.New(t, agenttest.AgentParams{Name: "models", Agent: &modelAgent{Addr: addr, Clock: " at 10:01"}})
	k := r.Key("k")
	out := k.Answer(k.Event("go").Intent("tool"), pb.ToolResult_OK, nil)
	end := out.Traces[len(out.Traces)-1]
	text := end.GetAttributes()["beam_agents.replay_divergence"]
	if want := "request 3: body.messages[0]; request 4: body.messages[0]"; text != want {
		t.Errorf("got %q in %v, want %q", text, end, want)
	}
}

// An activation with too many tokens fails, even if it ignores the error, and shows no credential.
func TestTokenBudgetIsADeadLetter(t *testing.T) {
	addr, calls := modelServer(t, nil)
	r := agenttest.New(t, agenttest.AgentParams{Name: "models", Agent: &modelAgent{Addr: addr}, MaxTokens: 15})
	out := r.Key("k").Event("go")
	if l := out.DeadLetter(); l.Reason != "budget_exceeded" || l.Code != "tokens" || strings.Contains(fmt.Sprint(l), modelSecret) || len(out.Outputs) > 0 {
		t.Errorf("got %+v", l)
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
	if p := out.DeadLetter().Position; p.ModelCalls == nil || *p.ModelCalls != 2 {
		t.Errorf("position %+v", p)
	}
	last := out.Traces[len(out.Traces)-1]
	if last.GetAttributes()["beam_agents.failure.llm_calls"] != "2" {
		t.Errorf("trace %v", last)
	}
}

// The error of a failed request has the URL, and the URL has a key.
func TestErrorsShowNoCredential(t *testing.T) {
	r := agenttest.New(t, agenttest.AgentParams{Name: "models", Agent: &modelAgent{Addr: "127.0.0.1:1"}})
	if l := r.Key("k").Event("go").DeadLetter(); strings.Contains(l.Error, modelSecret) || !strings.Contains(l.Error, "key=[hidden]") {
		t.Errorf("got %q", l.Error)
	}
}
