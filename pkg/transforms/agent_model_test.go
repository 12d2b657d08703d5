package transforms

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const modelSecret = "sk-very-secret"

// modelAgent asks a model: twice with the same request, twice at once, and once without HTTP. After
// a resume it starts from the beginning.
type modelAgent struct {
	Addr  string // of the server, which is not part of the requests
	Clock string // in the prompt of the second request after a resume
}

func init() { RegisterAgent[*modelAgent]() }

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

func modelEvent() *pb.AgentEnvelope {
	return &pb.AgentEnvelope{
		EntityKey: []byte("k"), EventTimeMs: agenttest.StartMS, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte("go")},
	}
}

const modelRequests = 4 // over HTTP

// RunAgent and agenttest leave the same bytes, a resume makes no call, and no credential is emitted
// or stored.
func TestModelCallsInBothRuntimes(t *testing.T) {
	addr, calls := modelServer(t, nil)
	params := AgentParams{Name: "models", Agent: &modelAgent{Addr: addr}}
	kit := newAgentKit(t, params)
	common, err := params.common()
	if err != nil {
		t.Fatal(err)
	}
	r := agenttest.New(t, common)
	got := map[string][]string{}
	send := func(env *pb.AgentEnvelope) agenttest.Result {
		kit.run(proto.CloneOf(env))
		out := r.Key("k").Send(env)
		addResult(t, got, out)
		return out
	}
	first := send(modelEvent())
	if n := calls.Load(); n != 2*modelRequests {
		t.Errorf("%d calls", n)
	}
	send(resultFor(first.Intent("tool"), agenttest.StartMS+1, `{}`))
	send(&pb.AgentEnvelope{EntityKey: []byte("k"), EventTimeMs: agenttest.StartMS, Payload: &pb.AgentEnvelope_ExportRequest{
		ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: "state"},
	}})
	if n := calls.Load(); n != 2*modelRequests {
		t.Errorf("the resume has made %d calls", n-2*modelRequests)
	}
	want := kit.sent()
	spans := map[string]bool{}
	for name, texts := range want {
		for i, text := range texts {
			if !strings.HasSuffix(name, " outputs") {
				_, texts[i], _ = strings.Cut(text, " ")
			}
			if strings.Contains(text, fmt.Sprintf("%x", modelSecret)) {
				t.Errorf("%s shows a credential", name)
			}
		}
		if !slices.Equal(got[name], texts) {
			t.Errorf("%s: agenttest has\n%s\nRunAgent\n%s", name, strings.Join(got[name], "\n"), strings.Join(texts, "\n"))
		}
	}
	llm := 0
	for _, e := range kit.traces.All() {
		if e.Value.GetEventType() == pb.TraceEvent_LLM_CALL {
			llm++
			if id := string(e.Value.GetSpanId()); spans[id] {
				t.Errorf("the span %x is there twice", id)
			} else {
				spans[id] = true
			}
		}
	}
	if llm != 2*(modelRequests+1) {
		t.Errorf("%d trace events of model calls", llm)
	}
	for _, cell := range []string{"control", "memory", "llm_cache"} {
		if bytes.Contains(kit.Bytes("k", cell), []byte(modelSecret)) || bytes.Contains(kit.Bytes("k", cell), []byte("session")) {
			t.Errorf("the cell %s has a credential", cell)
		}
	}
}

// A dead letter has the number of answered calls, and shows no credential.
func TestModelCallsInALetter(t *testing.T) {
	addr, _ := modelServer(t, nil)
	kit := newAgentKit(t, AgentParams{Name: "models-budget", Agent: &modelAgent{Addr: addr}, MaxTokens: 15})
	for range 2 { // the memory of the process answers the second one, which has the same result
		kit.run(modelEvent())
	}
	for _, e := range kit.errs.All() {
		l, err := deadletter.Read(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		if l.Code != deadletter.Tokens || l.Position.ModelCalls == nil || *l.Position.ModelCalls != 2 || strings.Contains(l.Error, modelSecret) {
			t.Errorf("letter %+v", l)
		}
	}
	if n := len(kit.errs.All()); n != 2 {
		t.Errorf("%d letters", n)
	}
}

// If a worker crashes at any model call, before or after the response, all bytes stay the same. The
// retry in the same process repeats only the call whose response was lost.
func TestAgentDiesAtModelCalls(t *testing.T) {
	run := func(crashAt int64, lost bool) (out records, calls int64) {
		var kit *agentKit
		var bundle atomic.Pointer[agentBundle] // the open bundle
		addr, made := modelServer(t, func(n int64) bool {
			if n != crashAt {
				return true
			}
			bundle.Load().fail(beamtest.ErrCrash)
			return !lost
		})
		// It has its own name in the process, so that runs do not share responses.
		kit = newAgentKit(t, AgentParams{Name: fmt.Sprintf("dies-%d-%v", crashAt, lost), Agent: &modelAgent{Addr: addr}})
		try := func(env *pb.AgentEnvelope) {
			for {
				err := kit.StartBundle()
				bundle.Store(kit.fn.bundle)
				err = errors.Join(err, kit.Run("k", kit.element(proto.CloneOf(env))))
				if err == nil {
					err = kit.FinishBundle()
				}
				if err == nil {
					return
				}
				kit.FailBundle()
				if !errors.Is(err, beamtest.ErrCrash) {
					t.Fatal(err)
				}
			}
		}
		try(modelEvent())
		if crashAt > 0 && made.Load() <= modelRequests && lost {
			t.Errorf("crash at %d: %d calls", crashAt, made.Load())
		}
		if len(kit.intents.All()) != 1 {
			t.Fatalf("crash at %d: no intent; said %q", crashAt, kit.said())
		}
		try(resultFor(kit.intents.All()[0].Value, agenttest.StartMS+1, `{}`))
		out = kit.sent()
		out["cache"] = []string{fmt.Sprintf("%x", kit.Bytes("k", "llm_cache"))}
		return out, made.Load()
	}
	want, calls := run(0, false)
	if calls != modelRequests {
		t.Fatalf("%d calls without a crash", calls)
	}
	for crashAt := int64(1); crashAt <= modelRequests; crashAt++ {
		for _, lost := range []bool{false, true} {
			got, calls := run(crashAt, lost)
			// A call that ran at the same time may be cancelled with the bundle.
			if most := int64(modelRequests + 2); calls > most || !lost && crashAt <= 2 && calls > modelRequests+1 {
				t.Errorf("crash at %d, lost %v: %d calls", crashAt, lost, calls)
			}
			for name := range want {
				// Traces contain the name of the agent, which differs from run to run.
				if name != "k traces" && !slices.Equal(got[name], want[name]) {
					t.Errorf("crash at %d, lost %v: other %s:\n%v\n%v", crashAt, lost, name, got[name], want[name])
				}
			}
		}
	}
}
