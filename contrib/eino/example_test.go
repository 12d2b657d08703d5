package eino_test //nolint:testableexamples // a run of it would need the endpoint of a vendor

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/beamagents/beamagents-go/contrib/eino"
	"github.com/beamagents/beamagents-go/pkg/agent"
)

// Refunds is a ReAct agent of Eino that is durable.
type Refunds struct {
	BaseURL    string // of the model's API
	LimitCents int    // a human is asked above it

	graph compose.Runnable[[]*schema.Message, *schema.Message]
}

// Setup builds the agent as without Beam, except for HTTPClient, Tool and Store.
func (a *Refunds) Setup(ctx context.Context) error {
	model, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{
		Model: "gpt-5", BaseURL: a.BaseURL, APIKey: os.Getenv("OPENAI_API_KEY"), HTTPClient: eino.HTTPClient(),
	})
	if err != nil {
		return err
	}
	refund := eino.Tool(&schema.ToolInfo{
		Name: "refund", Desc: "Pays a refund to the customer.",
		ParamsOneOf: schema.NewParamsOneOfByParams(map[string]*schema.ParameterInfo{"cents": {Type: schema.Integer, Required: true}}),
	}, func(arguments string) bool {
		var in struct{ Cents int }
		return json.Unmarshal([]byte(arguments), &in) != nil || in.Cents > a.LimitCents
	})
	reacting, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: model,
		ToolsConfig:      compose.ToolsNodeConfig{Tools: []tool.BaseTool{refund}},
	})
	if err != nil {
		return err
	}
	exported, opts := reacting.ExportGraph()
	chain := compose.NewChain[[]*schema.Message, *schema.Message]().AppendGraph(exported, opts...)
	a.graph, err = chain.Compile(ctx, compose.WithCheckPointStore(eino.Store()))
	return err
}

// Run is one activation.
func (a *Refunds) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	question := []*schema.Message{schema.UserMessage(string(act.Trigger().Event))}
	res, err := eino.Run(ctx, act, a.graph, question, eino.Options{Timeout: 24 * time.Hour})
	if err != nil || res.Suspended {
		return res.Outcome, err
	}
	return agent.Done(), act.Emit([]byte(res.Output.Content))
}

// With two methods, an agent of Eino becomes an agent of a pipeline.
func Example() {
	var _ agent.Agent = new(Refunds)
	var _ agent.Preparer = new(Refunds)
	// agents := transforms.RunAgent(s, transforms.AgentParams{Name: "refunds", Agent: &Refunds{LimitCents: 1000}}, keyed)
}
