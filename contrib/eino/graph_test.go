package eino_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/eino/compose"

	"github.com/beamagents/beamagents-go/contrib/eino"
	"github.com/beamagents/beamagents-go/pkg/adapter"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// graphs has functions that build graphs from a text to a text.
var graphs = map[string]func(g *compose.Graph[string, string]) []compose.GraphCompileOption{
	// Two nodes ask at the same time, one of them twice.
	"parallel": func(g *compose.Graph[string, string]) []compose.GraphCompileOption {
		g.AddLambdaNode("split", compose.InvokableLambda(func(_ context.Context, in string) (string, error) { return in, nil }))
		g.AddLambdaNode("left", compose.InvokableLambda(func(ctx context.Context, in string) (map[string]any, error) {
			a, err := eino.Act(ctx, "stock", map[string]any{"of": in})
			if err != nil {
				return nil, err
			}
			b, err := eino.Act(ctx, "price", map[string]any{"of": in, "stock": a.Text()})
			return map[string]any{"left": a.Text() + "," + b.Text()}, err
		}))
		g.AddLambdaNode("right", compose.InvokableLambda(func(ctx context.Context, in string) (map[string]any, error) {
			a, err := eino.RequestApproval(ctx, "buy", map[string]any{"what": in})
			return map[string]any{"right": fmt.Sprint(a.Approved)}, err
		}))
		g.AddLambdaNode("join", compose.InvokableLambda(func(_ context.Context, in map[string]any) (string, error) {
			return fmt.Sprint(in["left"], " ", in["right"]), nil
		}))
		for _, edge := range [][2]string{{compose.START, "split"}, {"split", "left"}, {"split", "right"}, {"left", "join"}, {"right", "join"}, {"join", compose.END}} {
			g.AddEdge(edge[0], edge[1])
		}
		return nil
	},
	// A graph that does not use this package.
	"foreign": func(g *compose.Graph[string, string]) []compose.GraphCompileOption {
		g.AddLambdaNode("pay", compose.InvokableLambda(func(ctx context.Context, in string) (string, error) {
			if was, _, _ := compose.GetInterruptState[any](ctx); !was {
				return "", compose.StatefulInterrupt(ctx, "shall I pay "+in+"?", in)
			}
			_, _, in = compose.GetInterruptState[string](ctx)
			_, _, yes := compose.GetResumeContext[bool](ctx)
			return fmt.Sprint("paid ", in, ": ", yes), nil
		}))
		g.AddEdge(compose.START, "pay")
		g.AddEdge("pay", compose.END)
		return nil
	},
	// A graph that stops before a node.
	"before": func(g *compose.Graph[string, string]) []compose.GraphCompileOption {
		g.AddLambdaNode("pay", compose.InvokableLambda(func(_ context.Context, in string) (string, error) { return "paid " + in, nil }))
		g.AddEdge(compose.START, "pay")
		g.AddEdge("pay", compose.END)
		return []compose.GraphCompileOption{compose.WithInterruptBeforeNodes([]string{"pay"})}
	},
	// A component that asks for another call when it runs again.
	"changing": func(g *compose.Graph[string, string]) []compose.GraphCompileOption {
		ask := func(ctx context.Context, _ string) (map[string]any, error) {
			was, _, _ := compose.GetInterruptState[string](ctx)
			_, err := eino.Act(ctx, fmt.Sprint("first run: ", !was), nil)
			return map[string]any{}, err
		}
		g.AddLambdaNode("split", compose.InvokableLambda(func(_ context.Context, in string) (string, error) { return in, nil }))
		g.AddLambdaNode("left", compose.InvokableLambda(ask))
		g.AddLambdaNode("right", compose.InvokableLambda(ask))
		g.AddLambdaNode("join", compose.InvokableLambda(func(_ context.Context, in map[string]any) (string, error) { return "", nil }))
		for _, edge := range [][2]string{{compose.START, "split"}, {"split", "left"}, {"split", "right"}, {"left", "join"}, {"right", "join"}, {"join", compose.END}} {
			g.AddEdge(edge[0], edge[1])
		}
		return nil
	},
	"panics": func(g *compose.Graph[string, string]) []compose.GraphCompileOption {
		g.AddLambdaNode("boom", compose.InvokableLambda(func(context.Context, string) (string, error) { panic("boom") }))
		g.AddEdge(compose.START, "boom")
		g.AddEdge("boom", compose.END)
		return nil
	},
	"list": func(g *compose.Graph[string, string]) []compose.GraphCompileOption {
		g.AddLambdaNode("ask", compose.InvokableLambda(func(ctx context.Context, in string) (string, error) {
			_, err := eino.Act(ctx, "tool", []string{in})
			return "", err
		}))
		g.AddEdge(compose.START, "ask")
		g.AddEdge("ask", compose.END)
		return nil
	},
}

// graphAgent runs one of the graphs.
type graphAgent struct {
	Graph    string
	NoAsk    bool
	Store    string // "": eino.Store
	Timeout  time.Duration
	Version  uint32
	compiled compose.Runnable[string, string]
}

func (a *graphAgent) Setup(ctx context.Context) (err error) {
	g := compose.NewGraph[string, string]()
	opts := graphs[a.Graph](g)
	switch a.Store {
	case "":
		opts = append(opts, compose.WithCheckPointStore(eino.Store()))
	case "other":
		opts = append(opts, compose.WithCheckPointStore(forgetful{}))
	}
	a.compiled, err = g.Compile(ctx, append(opts, compose.WithGraphName(a.Graph))...)
	return err
}

// forgetful is a checkpoint store that keeps nothing.
type forgetful struct{}

func (forgetful) Get(context.Context, string) ([]byte, bool, error) { return nil, false, nil }
func (forgetful) Set(context.Context, string, []byte) error         { return nil }

func (a *graphAgent) SnapshotVersion() uint32 { return a.Version }

func (a *graphAgent) MigrateSnapshot(_ uint32, snapshot []byte) ([]byte, error) {
	return eino.Migrate(snapshot, func(checkpoint []byte) ([]byte, error) {
		return []byte(strings.ReplaceAll(string(checkpoint), "100", "200")), nil
	})
}

func (*graphAgent) TimeoutPolicy(agent.Timeout) agent.Route { return agent.Resume() }

func (a *graphAgent) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	o := eino.Options{
		Timeout: a.Timeout,
		Ask: func(info *compose.InterruptInfo, at *compose.InterruptCtx) (eino.Call, error) {
			if text, ok := at.Info.(string); ok {
				args, err := json.Marshal(map[string]string{"question": text})
				return eino.Call{Kind: adapter.Decision, Tool: "pay", Args: args}, err
			}
			if slices.Equal(info.BeforeNodes, []string{"pay"}) {
				return eino.Call{Kind: adapter.Decision, Tool: "pay"}, nil
			}
			return eino.Call{}, fmt.Errorf("what is %T", at.Info)
		},
		Data: func(call eino.Call, a eino.Answer) (any, error) {
			if call.Tool != "pay" {
				return nil, errors.New("what is " + call.Tool)
			}
			return a.Approved, nil
		},
	}
	if a.NoAsk {
		o.Ask, o.Data = nil, nil
	}
	res, err := eino.Run(ctx, act, a.compiled, string(act.Trigger().Event), o)
	if err != nil || res.Suspended {
		return res.Outcome, err
	}
	return agent.Done(), act.Emit([]byte(res.Output))
}

func graph(name string) agenttest.AgentParams {
	return agenttest.AgentParams{Name: name, Agent: &graphAgent{Graph: name, Timeout: time.Hour}}
}

// tools are the tools of the intents, in their order.
func tools(r agenttest.Result) string {
	var names []string
	for _, in := range r.Intents {
		names = append(names, in.GetToolName())
	}
	return strings.Join(names, " ")
}

func TestParallelNodes(t *testing.T) {
	agenttest.Everywhere(t, graph("parallel"), func(r *agenttest.Runtime) {
		k := r.Key("a")
		asked := k.Event("books")
		if got := tools(asked); got != "stock buy" {
			t.Fatalf("asked for %s\n%v", got, asked)
		}
		price := k.Answer(asked.Intent("stock"), pb.ToolResult_OK, "7")
		if got := price.Intent("price").GetArgsJson(); got != `{"of":"books","stock":"7"}` {
			t.Errorf("got %s", got)
		}
		if out := k.Approve(asked.Intent("buy"), "alice"); len(out.Intents)+len(out.Outputs)+len(out.Errors) != 0 {
			t.Errorf("after the approval:\n%v", out)
		}
		if got := output(t, k.Answer(price.Intent("price"), pb.ToolResult_OK, "3")); got != "7,3 true" {
			t.Errorf("got %q", got)
		}
	})
}

func TestForeignInterrupts(t *testing.T) {
	for name, want := range map[string]map[bool]string{
		"foreign": {true: "paid 100: true", false: "paid 100: false"},
		"before":  {true: "paid 100", false: "paid 100"},
	} {
		agenttest.Everywhere(t, graph(name), func(r *agenttest.Runtime) {
			for yes, text := range want {
				k := r.Key(fmt.Sprint(yes))
				asked := k.Event("100").Intent("pay")
				answer := k.Approve
				if !yes {
					answer = k.Deny
				}
				if got := output(t, answer(asked, "alice")); got != text {
					t.Errorf("%s, %v: got %q, want %q", name, yes, got, text)
				}
			}
		})
	}
}

// Nobody answers, until the intents have expired or until the deadline.
func TestTime(t *testing.T) {
	for timeout, wait := range map[time.Duration]time.Duration{
		time.Hour:      time.Hour,
		48 * time.Hour: 24 * time.Hour,
	} {
		p := graph("foreign")
		p.Agent.(*graphAgent).Timeout = timeout
		agenttest.Everywhere(t, p, func(r *agenttest.Runtime) {
			r.Key("a").Event("100")
			if got := output(t, r.Wait(wait)); got != "paid 100: false" {
				t.Errorf("got %q after %v", got, wait)
			}
		})
	}
}

func TestMigrate(t *testing.T) {
	p := graph("foreign")
	r := agenttest.New(t, p)
	asked := r.Key("a").Event("100").Intent("pay")
	p.Agent.(*graphAgent).Version = 1
	r.Deploy(p)
	if got := output(t, r.Key("a").Approve(asked, "alice")); got != "paid 200: true" {
		t.Errorf("got %q", got)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		agent graphAgent
		want  string
	}{
		{graphAgent{Graph: "foreign", Timeout: time.Hour, NoAsk: true}, "set Options.Ask"},
		{graphAgent{Graph: "foreign", Timeout: time.Hour, Store: "none"}, "have not set checkpoint store"},
		{graphAgent{Graph: "foreign", Timeout: time.Hour, Store: "other"}, "eino.Store()"},
		{graphAgent{Graph: "foreign"}, "Options.Timeout is 0s"},
		{graphAgent{Graph: "list", Timeout: time.Hour}, "they must be a JSON object"},
		{graphAgent{Graph: "panics", Timeout: time.Hour}, "boom"},
	} {
		k := agenttest.New(t, agenttest.AgentParams{Name: "x", Agent: &c.agent}).Key("a")
		if letter := k.Event("100").DeadLetter(); !strings.Contains(letter.Error, c.want) {
			t.Errorf("%+v: got %q, want %q", c.agent, letter.Error, c.want)
		}
	}
	k := agenttest.New(t, graph("changing")).Key("a")
	asked := k.Event("100")
	if letter := k.Answer(asked.Intents[0], pb.ToolResult_OK, "yes").DeadLetter(); !strings.Contains(letter.Error, "it must make the same calls each time") {
		t.Errorf("got %q", letter.Error)
	}
}

// Outside of an activation, the store keeps nothing and the client sends nothing.
func TestOutside(t *testing.T) {
	if _, _, err := eino.Store().Get(t.Context(), "x"); err == nil {
		t.Error("Get found a store")
	}
	if err := eino.Store().Set(t.Context(), "x", nil); err == nil {
		t.Error("Set found a store")
	}
	_, url := serve(t)
	if resp, err := eino.HTTPClient().Post(url, "", nil); err == nil {
		resp.Body.Close()
		t.Error("a request was sent")
	}
}
