package modelsdks_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/modelserver"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// asker asks a model about the words of its event: "?x" asks x, "again" repeats the last question
// even after an error, and "act" stages an intent. At the end it emits the answers. If there are
// intents it suspends, and starts from the beginning when it is resumed.
type asker struct {
	API, URL string
	AtOnce   bool // so many goroutines ask the questions
}

func (a *asker) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	t := act.Trigger()
	event := string(t.Event)
	if t.Kind != agent.Event {
		event = string(act.Snapshot())
	}
	client := act.HTTPClient()
	words := strings.Fields(event)
	answers, errs := make([]string, len(words)), make([]error, len(words))
	var group sync.WaitGroup
	for i, word := range words {
		switch question, asked := strings.CutPrefix(word, "?"); {
		case asked && a.AtOnce:
			group.Go(func() { answers[i], errs[i] = apis[a.API](ctx, client, a.URL, question) })
		case asked:
			answers[i], errs[i] = apis[a.API](ctx, client, a.URL, question)
		case word == "again":
			answers[i], errs[i] = apis[a.API](ctx, client, a.URL, strings.TrimPrefix(words[i-1], "?"))
			errs[i-1] = nil
		case word == "act" && t.Kind == agent.Event:
			if err := act.Act("tool", map[string]any{"after": answers[:i]}); err != nil {
				return agent.Outcome{}, err
			}
		}
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return agent.Outcome{}, err
	}
	if err := act.Emit([]byte(strings.Trim(strings.Join(answers, "|"), "|"))); err != nil {
		return agent.Outcome{}, err
	}
	if slices.Contains(words, "act") && t.Kind == agent.Event {
		return agent.Suspend([]byte(event), time.Hour), nil
	}
	return agent.Done(), nil
}

func serve(t *testing.T, s *modelserver.Server) string {
	t.Helper()
	running, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Close() })
	return running.URL
}

func params(api, url string) agenttest.AgentParams {
	return agenttest.AgentParams{Name: "asker", Agent: &asker{API: api, URL: url}}
}

// echo answers a question with a text of several words.
func echo(r modelserver.Request) modelserver.Reply {
	return modelserver.Reply{Text: "You said " + r.Last().Text}
}

// counted answers equal questions with a number that grows.
func counted(r modelserver.Request) modelserver.Reply {
	return modelserver.Reply{Text: fmt.Sprintf("%s#%d", r.Last().Text, r.Nth)}
}

// forAll runs a test with each API.
func forAll(t *testing.T, test func(t *testing.T, api string)) {
	t.Helper()
	for _, api := range slices.Sorted(maps.Keys(apis)) {
		t.Run(api, func(t *testing.T) { test(t, api) })
	}
}

func output(t *testing.T, r agenttest.Result) string {
	t.Helper()
	if len(r.Outputs) != 1 {
		t.Fatalf("%d outputs:\n%v", len(r.Outputs), r)
	}
	return string(r.Outputs[0].Value)
}

// An agent that starts from the beginning after a resume gets the same answers, and so does an
// agent whose bundle is retried at any place, on any worker.
func TestReplay(t *testing.T) {
	forAll(t, func(t *testing.T, api string) {
		s := &modelserver.Server{Reply: echo}
		agenttest.Everywhere(t, params(api, serve(t, s)), func(r *agenttest.Runtime) {
			k := r.Key("a")
			out := k.Event("?one act ?two")
			if got := output(t, out); got != "You said one||You said two" {
				t.Errorf("got %q", got)
			}
			if n := len(s.Calls()); n != 2 {
				t.Errorf("%d calls", n)
			}
			if got := output(t, k.Answer(out.Intent("tool"), pb.ToolResult_OK, nil)); got != "You said one||You said two" {
				t.Errorf("after the resume: %q", got)
			}
			if n := len(s.Calls()); n != 2 {
				t.Errorf("%d calls after the resume", n)
			}
		})
	})
}

// Two equal calls get two answers, and get the same two after a resume.
func TestEqualCalls(t *testing.T) {
	forAll(t, func(t *testing.T, api string) {
		s := &modelserver.Server{Reply: counted}
		k := agenttest.New(t, params(api, serve(t, s))).Key("a")
		out := k.Event("?x ?x act ?x")
		if got := output(t, out); got != "x#0|x#1||x#2" {
			t.Errorf("got %q", got)
		}
		if got := output(t, k.Answer(out.Intent("tool"), pb.ToolResult_OK, nil)); got != "x#0|x#1||x#2" {
			t.Errorf("after the resume: %q", got)
		}
		if got := output(t, k.Event("?x")); got != "x#3" {
			t.Errorf("the next activation got %q", got)
		}
	})
}

// Questions that goroutines ask at the same time are stored and traced in one order.
func TestConcurrentCalls(t *testing.T) {
	for _, api := range []string{"openai chat", "anthropic messages stream"} {
		var mu sync.Mutex
		turn := 0
		// Each request takes a different time in each run.
		s := &modelserver.Server{Reply: echo, Fault: func(modelserver.Request) modelserver.Fault {
			mu.Lock()
			defer mu.Unlock()
			turn = (turn + 5) % 7
			return modelserver.Fault{Latency: time.Duration(turn) * 100 * time.Microsecond}
		}}
		p := params(api, serve(t, s))
		p.Agent.(*asker).AtOnce = true
		agenttest.Everywhere(t, p, func(r *agenttest.Runtime) {
			if got := output(t, r.Key("a").Event("?a ?b ?c ?d")); got != "You said a|You said b|You said c|You said d" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// The SDKs retry failed requests. The answers and the ids of intents stay the same.
func TestRetries(t *testing.T) {
	forAll(t, func(t *testing.T, api string) {
		var fault func(modelserver.Request) modelserver.Fault
		s := &modelserver.Server{Reply: echo, Fault: func(r modelserver.Request) modelserver.Fault { return fault(r) }}
		url := serve(t, s)
		run := func(f func(modelserver.Request) modelserver.Fault) (agenttest.Result, int) {
			fault = f
			s.Forget()
			return agenttest.New(t, params(api, url)).Key("a").Event("?one act ?two"), len(s.Calls())
		}
		smooth, calls := run(func(modelserver.Request) modelserver.Fault { return modelserver.Fault{} })
		if calls != 2 {
			t.Fatalf("%d calls", calls)
		}
		rough, calls := run(func(r modelserver.Request) modelserver.Fault {
			return map[int]modelserver.Fault{
				0: {Status: http.StatusTooManyRequests, RetryAfter: "0.02"},
				1: {Status: http.StatusInternalServerError, RetryAfter: "0.01"},
			}[r.Nth]
		})
		if calls != 6 {
			t.Errorf("%d calls, want 3 for each question", calls)
		}
		if output(t, smooth) != output(t, rough) {
			t.Errorf("got %q and %q", output(t, smooth), output(t, rough))
		}
		if !proto.Equal(smooth.Intent("tool"), rough.Intent("tool")) {
			t.Errorf("got %v and %v", smooth.Intent("tool"), rough.Intent("tool"))
		}
		if len(smooth.Traces) != len(rough.Traces) {
			t.Fatalf("%d and %d events", len(smooth.Traces), len(rough.Traces))
		}
		for i, e := range smooth.Traces {
			if !proto.Equal(e, rough.Traces[i]) {
				t.Errorf("got %v and %v", e, rough.Traces[i])
			}
		}
	})
}

// If a request fails every time, the activation fails, and no part of the answer is stored. The
// dead letter has the status.
func TestPersistentFault(t *testing.T) {
	forAll(t, func(t *testing.T, api string) {
		broken := true
		s := &modelserver.Server{Reply: echo, Fault: func(r modelserver.Request) modelserver.Fault {
			if broken && r.Last().Text == "two" {
				return modelserver.Fault{Status: http.StatusInternalServerError, RetryAfter: "0"}
			}
			return modelserver.Fault{}
		}}
		k := agenttest.New(t, params(api, serve(t, s))).Key("a")
		if letter := k.Event("?one ?two").DeadLetter(); !strings.Contains(letter.Error, "500") {
			t.Errorf("got %q", letter.Error)
		}
		if n := len(k.Export().GetLlmCache().GetEntries()); n != 0 {
			t.Errorf("%d responses are stored", n)
		}
		broken = false
		if got := output(t, k.Event("?one ?two")); got != "You said one|You said two" {
			t.Errorf("got %q", got)
		}
	})
}

// A body that breaks off or ends early is not an answer. The agent's next request takes its place,
// and the answer to that one replays.
func TestBrokenBodies(t *testing.T) {
	forAll(t, func(t *testing.T, api string) {
		for name, fault := range map[string]modelserver.Fault{"cut": {Cut: 150}, "truncated": {Truncate: 150}} {
			s := &modelserver.Server{Reply: counted, Fault: func(r modelserver.Request) modelserver.Fault {
				if r.Nth == 0 {
					return fault
				}
				return modelserver.Fault{}
			}}
			k := agenttest.New(t, params(api, serve(t, s))).Key("a")
			out := k.Event("?x again act")
			// Some of the SDKs retry a body that breaks off.
			if got := strings.Trim(output(t, out), "|"); got != "x#1" && got != "x#1|x#2" {
				t.Errorf("%s: got %q", name, got)
			}
			if got := strings.Trim(output(t, k.Answer(out.Intent("tool"), pb.ToolResult_OK, nil)), "|"); got != "x#1|x#2" {
				t.Errorf("%s: after the resume: %q", name, got)
			}
		}
	})
}

// A slow stream is passed on as it arrives, and replays at once.
func TestSlowStream(t *testing.T) {
	forAll(t, func(t *testing.T, api string) {
		const pause = 20 * time.Millisecond
		s := &modelserver.Server{Reply: echo, Fault: func(modelserver.Request) modelserver.Fault {
			return modelserver.Fault{Latency: pause, Pause: pause}
		}}
		k := agenttest.New(t, params(api, serve(t, s))).Key("a")
		begin := time.Now()
		out := k.Event("?x act")
		first := time.Since(begin)
		begin = time.Now()
		k.Answer(out.Intent("tool"), pb.ToolResult_OK, nil)
		if again := time.Since(begin); again >= first || first < pause {
			t.Errorf("the call took %v, its replay %v", first, again)
		}
		if n := len(s.Calls()); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// The agent's time limit ends an endless stream.
func TestTimeLimit(t *testing.T) {
	forAll(t, func(t *testing.T, api string) {
		s := &modelserver.Server{Reply: echo, Fault: func(modelserver.Request) modelserver.Fault {
			return modelserver.Fault{Latency: time.Minute}
		}}
		p := params(api, serve(t, s))
		p.ActivationTimeout = 50 * time.Millisecond
		if letter := agenttest.New(t, p).Key("a").Event("?x").DeadLetter(); letter.Reason != "activation_timeout" {
			t.Errorf("got %s: %s", letter.Reason, letter.Error)
		}
	})
}

// LLM_CALL events have the names and the token counts of the response.
func TestUsage(t *testing.T) {
	want := map[string]map[string]string{
		"openai": {
			"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5", "gen_ai.response.model": "gpt-5",
			"gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": "7", "gen_ai.usage.cache_read.input_tokens": "60",
		},
		"anthropic": {
			"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-opus-4-8", "gen_ai.response.model": "claude-opus-4-8",
			"gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": "7", "gen_ai.usage.cache_read.input_tokens": "60",
			"gen_ai.usage.cache_creation.input_tokens": "30",
		},
	}
	forAll(t, func(t *testing.T, api string) {
		s := &modelserver.Server{Reply: func(modelserver.Request) modelserver.Reply {
			return modelserver.Reply{Text: "yes", Usage: &modelserver.Usage{Input: 100, Cached: 60, CacheWritten: 30, Output: 7}}
		}}
		k := agenttest.New(t, params(api, serve(t, s))).Key("a")
		out := k.Event("?x act")
		provider, _, _ := strings.Cut(api, " ")
		for hit, r := range map[string]agenttest.Result{"false": out, "true": k.Answer(out.Intent("tool"), pb.ToolResult_OK, nil)} {
			calls := slices.DeleteFunc(r.Traces, func(e *pb.TraceEvent) bool { return e.GetEventType() != pb.TraceEvent_LLM_CALL })
			if len(calls) != 1 {
				t.Fatalf("%d events", len(calls))
			}
			got := calls[0].GetAttributes()
			for name, value := range want[provider] {
				if got[name] != value {
					t.Errorf("cache hit %s: %s is %q, want %q", hit, name, got[name], value)
				}
			}
			if got["beam_agents.cache_hit"] != hit {
				t.Errorf("cache_hit is %s, want %s", got["beam_agents.cache_hit"], hit)
			}
		}
	})
}

// The provider gets the API key. The outputs and the dead letters do not contain it.
func TestCredentials(t *testing.T) {
	forAll(t, func(t *testing.T, api string) {
		s := &modelserver.Server{Reply: echo, Fault: func(r modelserver.Request) modelserver.Fault {
			if r.Last().Text == "fail" {
				return modelserver.Fault{Status: http.StatusUnauthorized}
			}
			return modelserver.Fault{}
		}}
		k := agenttest.New(t, params(api, serve(t, s))).Key("a")
		var left []byte
		keep := func(r agenttest.Result) {
			left = append(left, r.String()...)
			for _, o := range r.Outputs {
				left = append(left, o.Value...)
			}
			for _, m := range r.Intents {
				left = append(left, prototext.Format(m)...)
			}
			for _, m := range r.Traces {
				left = append(left, prototext.Format(m)...)
			}
			for _, l := range r.Errors {
				left = append(left, fmt.Sprintf("%+v", l)...)
			}
		}
		out := k.Event("?one act")
		keep(out)
		state, err := proto.Marshal(k.Export())
		if err != nil {
			t.Fatal(err)
		}
		keep(k.Answer(out.Intent("tool"), pb.ToolResult_OK, nil))
		failed := k.Event("?fail")
		failed.DeadLetter()
		keep(failed)
		left = append(left, state...)
		calls := s.Calls()
		for _, secret := range []string{openAIKey, anthropicKey} {
			for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
				if bytes.Contains(left, []byte(form)) {
					t.Errorf("the key is in what the agent left:\n%s", left)
				}
			}
		}
		if h := calls[0].Header; h.Get("Authorization") != "Bearer "+openAIKey && h.Get("X-Api-Key") != anthropicKey {
			t.Errorf("the provider got no key: %v", h)
		}
		if len(state) == 0 || len(calls) != 2 {
			t.Errorf("%d bytes of state, %d calls", len(state), len(calls))
		}
	})
}
