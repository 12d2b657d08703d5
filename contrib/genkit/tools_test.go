package genkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/firebase/genkit/go/ai"
	gk "github.com/firebase/genkit/go/genkit"

	"github.com/beamagents/beamagents-go/contrib/genkit"
	"github.com/beamagents/beamagents-go/pkg/adapter"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// toolsAgent has a model in the process. The model calls the tools that the event names, and its
// tool calls have no id.
type toolsAgent struct {
	NoAsk    bool
	NoResume bool
	Timeout  time.Duration
	Version  uint32
	SameRef  bool // of all tool calls

	genkit *gk.Genkit
	model  ai.Model
	tools  []ai.ToolRef
}

type question struct {
	Text string `json:"text"`
}

func (a *toolsAgent) Setup(ctx context.Context) error {
	a.genkit = gk.Init(ctx)
	a.model = gk.DefineModel(a.genkit, "local/scripted", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}}, func(_ context.Context, req *ai.ModelRequest, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
		last := req.Messages[len(req.Messages)-1]
		message := ai.NewMessage(ai.RoleModel, nil)
		if last.Role == ai.RoleTool {
			var told []string
			for _, p := range last.Content {
				told = append(told, fmt.Sprintf("%s %s %v", p.ToolResponse.Ref, p.ToolResponse.Name, p.ToolResponse.Output))
			}
			message = ai.NewModelTextMessage(strings.Join(told, ", "))
		} else {
			for name := range strings.FieldsSeq(last.Text()) {
				request := &ai.ToolRequest{Name: name, Input: map[string]any{"text": "why"}}
				if a.SameRef {
					request.Ref = "same"
				}
				message.Content = append(message.Content, ai.NewToolRequestPart(request))
			}
		}
		return &ai.ModelResponse{Message: message, Request: req, FinishReason: ai.FinishReasonStop}, nil
	})
	define := func(name string, run func(tc *ai.ToolContext, in question) (string, error)) {
		a.tools = append(a.tools, gk.DefineTool(a.genkit, name, "A tool.", run))
	}
	define("now", func(*ai.ToolContext, question) (string, error) { return "noon", nil })
	define("decide", func(tc *ai.ToolContext, in question) (string, error) {
		answer, err := genkit.RequestApproval(tc, "decide", in)
		return answer.Text(), err
	})
	define("twice", func(tc *ai.ToolContext, in question) (string, error) {
		if _, err := genkit.Act(tc, "first", in); err != nil {
			return "", err
		}
		_, err := genkit.Act(tc, "second", in)
		return "", err
	})
	define("list", func(tc *ai.ToolContext, _ question) (string, error) {
		_, err := genkit.Act(tc, "list", []int{1})
		return "", err
	})
	// A tool that does not use this package.
	define("foreign", func(tc *ai.ToolContext, in question) (string, error) {
		if tc.IsResumed() {
			yes, _ := ai.ResumedValue[bool](tc, "yes")
			return fmt.Sprint("resumed with ", yes), nil
		}
		return "", tc.Interrupt(&ai.InterruptOptions{Metadata: map[string]any{"question": in.Text}})
	})
	return nil
}

func (a *toolsAgent) SnapshotVersion() uint32 { return a.Version }

func (a *toolsAgent) MigrateSnapshot(from uint32, snapshot []byte) ([]byte, error) {
	return genkit.Migrate(snapshot, func(messages []*ai.Message) ([]*ai.Message, error) {
		if from != 0 {
			return nil, errors.New("from where")
		}
		for _, p := range messages[len(messages)-1].Content {
			if p.ToolRequest == nil {
				continue
			}
			p.ToolRequest.Name = strings.ReplaceAll(p.ToolRequest.Name, "foreign", "now")
		}
		return messages, nil
	})
}

func (*toolsAgent) TimeoutPolicy(agent.Timeout) agent.Route { return agent.Resume() }

func (a *toolsAgent) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	o := genkit.Options{
		Timeout: a.Timeout,
		Ask: func(interrupt *ai.Part) (genkit.Call, error) {
			meta, _ := interrupt.Metadata["interrupt"].(map[string]any)
			args, err := json.Marshal(meta)
			return genkit.Call{Kind: adapter.Decision, Tool: interrupt.ToolRequest.Name, Args: args}, err
		},
		Resume: func(interrupt *ai.Part, answer genkit.Answer) (*ai.Part, error) {
			return gk.LookupTool(a.genkit, interrupt.ToolRequest.Name).Restart(interrupt, &ai.RestartOptions{
				ResumedMetadata: map[string]any{"yes": answer.Approved},
			}), nil
		},
	}
	if a.NoAsk {
		o.Ask = nil
	}
	if a.NoResume {
		o.Resume = nil
	}
	messages := []*ai.Message{ai.NewUserTextMessage(string(act.Trigger().Event))}
	res, err := genkit.Generate(ctx, act, a.genkit, messages, o, ai.WithModel(a.model), ai.WithTools(a.tools...))
	if err != nil || res.Suspended {
		return res.Outcome, err
	}
	return agent.Done(), act.Emit([]byte(res.Response.Text()))
}

func tools(a toolsAgent) agenttest.AgentParams {
	if a.Timeout == 0 {
		a.Timeout = time.Hour
	}
	return agenttest.AgentParams{Name: "tools", Agent: &a}
}

// Some tools answer at once and others wait, in one turn. The model gets the results in the order
// of its calls.
func TestMixedTools(t *testing.T) {
	agenttest.Everywhere(t, tools(toolsAgent{}), func(r *agenttest.Runtime) {
		all, none := r.Key("all"), r.Key("none")
		if got := output(t, none.Event("now now now")); got != "call_1_0 now noon, call_1_1 now noon, call_1_2 now noon" {
			t.Errorf("got %q", got)
		}
		asked := all.Event("now decide foreign now")
		if len(asked.Intents) != 2 || asked.Intent("foreign").GetArgsJson() != `{"question":"why"}` {
			t.Fatalf("%v", asked)
		}
		if out := all.Approve(asked.Intent("foreign"), "alice"); len(out.Outputs)+len(out.Errors) != 0 {
			t.Errorf("after the first answer:\n%v", out)
		}
		if got := output(t, all.Deny(asked.Intent("decide"), "alice")); got != "call_1_0 now noon, call_1_1 decide The call was not made: it was denied., call_1_2 foreign resumed with true, call_1_3 now noon" {
			t.Errorf("got %q", got)
		}
	})
}

// The model gives two calls one id. An approval belongs to one of the calls and not to the other.
func TestTheSameRefTwice(t *testing.T) {
	for _, firstApproved := range []bool{true, false} {
		k := agenttest.New(t, tools(toolsAgent{SameRef: true})).Key("a")
		asked := k.Event("decide decide")
		if len(asked.Intents) != 2 {
			t.Fatalf("got %v", asked)
		}
		yes, no := asked.Intents[0], asked.Intents[1]
		want := "same decide A human approved the call., call_1_1 decide The call was not made: it was denied."
		if !firstApproved {
			yes, no = no, yes
			want = "same decide The call was not made: it was denied., call_1_1 decide A human approved the call."
		}
		k.Approve(yes, "alice")
		if got := output(t, k.Deny(no, "alice")); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Without Options.Resume the tool does not run again.
func TestForeignResponse(t *testing.T) {
	k := agenttest.New(t, tools(toolsAgent{NoResume: true})).Key("a")
	if got := output(t, k.Approve(k.Event("foreign").Intent("foreign"), "alice")); got != "call_1_0 foreign A human approved the call." {
		t.Errorf("got %q", got)
	}
}

// Nobody answers, until the intents have expired or until the deadline.
func TestTime(t *testing.T) {
	for timeout, wait := range map[time.Duration]time.Duration{
		time.Hour:      time.Hour,
		48 * time.Hour: 24 * time.Hour,
	} {
		agenttest.Everywhere(t, tools(toolsAgent{Timeout: timeout}), func(r *agenttest.Runtime) {
			k := r.Key("a")
			asked := k.Event("decide decide")
			k.Approve(asked.Intents[0], "alice")
			if got := output(t, r.Wait(wait)); got != "call_1_0 decide A human approved the call., call_1_1 decide The call was not made: nobody answered in time." {
				t.Errorf("got %q after %v", got, wait)
			}
		})
	}
}

func TestMigrate(t *testing.T) {
	r := agenttest.New(t, tools(toolsAgent{NoResume: true}))
	asked := r.Key("a").Event("foreign").Intent("foreign")
	r.Deploy(tools(toolsAgent{NoResume: true, Version: 1}))
	if got := output(t, r.Key("a").Approve(asked, "alice")); got != "call_1_0 now A human approved the call." {
		t.Errorf("got %q", got)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		agent       toolsAgent
		event, want string
	}{
		{toolsAgent{NoAsk: true}, "foreign", "set Options.Ask"},
		{toolsAgent{Timeout: time.Microsecond}, "now", "Options.Timeout is 1µs"},
		{toolsAgent{}, "list", "they must be a JSON object"},
	} {
		k := agenttest.New(t, tools(c.agent)).Key("a")
		if letter := k.Event(c.event).DeadLetter(); !strings.Contains(letter.Error, c.want) {
			t.Errorf("%+v: got %q, want %q", c.agent, letter.Error, c.want)
		}
	}
	k := agenttest.New(t, tools(toolsAgent{})).Key("a")
	first := k.Event("twice").Intent("first")
	if letter := k.Answer(first, pb.ToolResult_OK, "yes").DeadLetter(); !strings.Contains(letter.Error, "it must make the same one call each time") {
		t.Errorf("got %q", letter.Error)
	}
}
