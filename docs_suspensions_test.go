package beamagents_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// waitAgent asks for a payment and books at an event, and waits until both are answered,
// or for 10 hours after both have expired.
type waitAgent struct{}

func (*waitAgent) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	switch t := act.Trigger(); t.Kind {
	case agent.Event:
		if err := act.ExpireIntentsAfter(5 * time.Hour); err != nil {
			return agent.Outcome{}, err
		}
		if err := act.RequestApproval("pay", nil); err != nil {
			return agent.Outcome{}, err
		}
		return agent.Suspend(nil, 10*time.Hour), act.Act("book", nil)
	case agent.Expired:
		return agent.Suspend(nil, 10*time.Hour), nil
	}
	if err := act.EmitJSON(act.Trigger().Kind); err != nil {
		return agent.Outcome{}, err
	}
	if len(act.Open()) > 0 {
		return agent.Suspend(nil, 10*time.Hour), nil
	}
	return agent.Done(), nil
}

// Each row of the table on late and duplicate answers happens.
func TestSuspensionsPageAnswers(t *testing.T) {
	const hour = int64(time.Hour / time.Millisecond)
	ok := pb.ToolResult_OK
	approval := func(k *agenttest.Key, in *pb.ToolIntent, sentMS, decidedMS int64) agenttest.Result {
		return k.Send(&pb.AgentEnvelope{EventTimeMs: sentMS, Payload: &pb.AgentEnvelope_Approval_{
			Approval: &pb.AgentEnvelope_Approval{IntentId: in.GetIntentId(), Approved: true, DecidedAtMs: decidedMS},
		}})
	}
	type row func(r *agenttest.Runtime, k *agenttest.Key, pay, book *pb.ToolIntent) []agenttest.Result
	const start = agenttest.StartMS
	rows := map[string]row{
		"an approval that was decided in time and is delivered late, before the watermark passes the deadline": func(_ *agenttest.Runtime, k *agenttest.Key, pay, _ *pb.ToolIntent) []agenttest.Result {
			return []agenttest.Result{approval(k, pay, start+20*hour, start+5*hour-1)}
		},
		"a tool result, whatever its time, while its intent is open": func(_ *agenttest.Runtime, k *agenttest.Key, _, book *pb.ToolIntent) []agenttest.Result {
			return []agenttest.Result{k.Send(&pb.AgentEnvelope{EventTimeMs: start + 100*hour, Payload: &pb.AgentEnvelope_ToolResult{
				ToolResult: &pb.ToolResult{IntentId: book.GetIntentId(), Status: ok},
			}})}
		},
		"an approval that was decided at the deadline, at the expiry, or later": func(_ *agenttest.Runtime, k *agenttest.Key, pay, _ *pb.ToolIntent) []agenttest.Result {
			return []agenttest.Result{
				approval(k, pay, start+5*hour, 0), approval(k, pay, start+10*hour, 0), approval(k, pay, start+11*hour, 0),
			}
		},
		"a second answer to the same intent, and the agent waits for others": func(_ *agenttest.Runtime, k *agenttest.Key, pay, _ *pb.ToolIntent) []agenttest.Result {
			k.Approve(pay, "alice")
			return []agenttest.Result{k.Approve(pay, "alice"), k.Deny(pay, "bob")}
		},
		"any answer after the suspension has ended": func(r *agenttest.Runtime, k *agenttest.Key, pay, book *pb.ToolIntent) []agenttest.Result {
			k.Approve(pay, "alice")
			k.Answer(book, ok, nil)
			again := k.Answer(book, ok, nil)
			r.Wait(time.Hour)
			return []agenttest.Result{again, k.Approve(pay, "alice")}
		},
		"an answer to an intent that the agent was told had expired": func(r *agenttest.Runtime, k *agenttest.Key, pay, book *pb.ToolIntent) []agenttest.Result {
			r.Wait(6 * time.Hour)
			return []agenttest.Result{k.Answer(book, ok, nil), k.Approve(pay, "alice")}
		},
		"a tool result for an approval, or an approval for a tool call": func(_ *agenttest.Runtime, k *agenttest.Key, pay, book *pb.ToolIntent) []agenttest.Result {
			return []agenttest.Result{k.Answer(pay, ok, nil), k.Approve(book, "alice")}
		},
		"a tool result with the `seq` or the key of another intent": func(_ *agenttest.Runtime, k *agenttest.Key, _, book *pb.ToolIntent) []agenttest.Result {
			seq, key := proto.CloneOf(book), proto.CloneOf(book)
			seq.Seq++
			key.EntityKey = []byte("other")
			return []agenttest.Result{k.Answer(seq, ok, nil), k.Answer(key, ok, nil)}
		},
	}
	_, table, _ := strings.Cut(readText(t, "docs/suspensions.md"), "## Late and duplicate answers")
	for _, cells := range tableRows(table) {
		happens := rows[cells[0]]
		if happens == nil {
			t.Errorf("nobody has tried %q", cells[0])
			continue
		}
		delete(rows, cells[0])
		r := agenttest.New(t, agenttest.AgentParams{Name: "wait", Agent: new(waitAgent)})
		k := r.Key("k")
		asked := k.Event("x")
		for i, out := range happens(r, k, asked.Intent("pay"), asked.Intent("book")) {
			if strings.HasPrefix(cells[1], "it counts") {
				if len(out.Outputs) != 1 || len(out.Errors) != 0 {
					t.Errorf("%s: it does not count:\n%v", cells[0], out)
				}
				continue
			}
			letter := out.DeadLetter()
			if want := "`" + string(letter.Reason) + "`/`" + string(letter.Code) + "`"; !strings.HasPrefix(cells[1], want) {
				t.Errorf("%s: answer %d is %s", cells[0], i, want)
			}
			if len(letter.Input) == 0 {
				t.Errorf("%s: answer %d is lost", cells[0], i)
			}
		}
	}
	for text := range rows {
		t.Errorf("docs/suspensions.md does not say what becomes of %s", text)
	}
}

// escalateAgent asks for a payment, and escalates once.
type escalateAgent struct{ ExpireAfter time.Duration }

func (a *escalateAgent) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	if act.Trigger().Approved {
		return agent.Suspend(nil, time.Hour), act.ActApproved()
	}
	if err := act.ExpireIntentsAfter(a.ExpireAfter); err != nil {
		return agent.Outcome{}, err
	}
	return agent.Suspend(nil, 24*time.Hour), act.RequestApproval("pay", nil)
}

func (*escalateAgent) TimeoutPolicy(agent.Timeout) agent.Route {
	return agent.Escalate("boss", 8*time.Hour, 1)
}

// What the page says of escalations: either request can be answered, once.
func TestSuspensionsPageEscalation(t *testing.T) {
	for _, expire := range []time.Duration{0, 48 * time.Hour} {
		for _, firstIsAnswered := range []bool{true, false} {
			r := agenttest.New(t, agenttest.AgentParams{Name: "escalate", Agent: &escalateAgent{expire}})
			k := r.Key("k")
			first := k.Event("x").Intent("pay")
			answered, other := first, r.Wait(24*time.Hour).Intent("pay")
			if !firstIsAnswered {
				answered, other = other, answered
			}
			if out := k.Approve(answered, "alice"); len(out.Intents) != 1 {
				t.Errorf("expiry %v, the first is answered %v:\n%v", expire, firstIsAnswered, out)
			}
			if out := k.Approve(other, "bob"); len(out.Intents) != 0 {
				t.Errorf("expiry %v, the first is answered %v: it runs twice:\n%v", expire, firstIsAnswered, out)
			}
		}
	}
}

// repeatAgent makes a call with http.DefaultClient.
type repeatAgent struct{ URL string }

func (a *repeatAgent) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return agent.Outcome{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return agent.Outcome{}, err
	}
	return agent.Done(), resp.Body.Close()
}

// A call that an agent makes in Run without the client of the activation is made again when its
// bundle is retried, because its answer is not stored.
func TestCallsOfAnAgentAreRepeated(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer server.Close()
	params := agenttest.AgentParams{Name: "repeat", Agent: &repeatAgent{server.URL}}
	agenttest.New(t, params).Key("k").Event("x")
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls of one activation", n)
	}
	agenttest.Everywhere(t, params, func(r *agenttest.Runtime) { r.Key("k").Event("x") })
	if n := calls.Load(); n < 4 {
		t.Errorf("%d calls with retries", n)
	}
}
