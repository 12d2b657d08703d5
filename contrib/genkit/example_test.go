package genkit_test //nolint:testableexamples // a run of it would need the endpoint of a vendor

import (
	"context"
	"os"
	"time"

	"github.com/firebase/genkit/go/ai"
	gk "github.com/firebase/genkit/go/genkit"
	"github.com/firebase/genkit/go/plugins/compat_oai"
	"github.com/openai/openai-go/option"

	"github.com/beamagents/beamagents-go/contrib/genkit"
	"github.com/beamagents/beamagents-go/pkg/agent"
)

// Refunds is an agent of Genkit that is durable.
type Refunds struct {
	BaseURL    string // of the model's API; it ends in a slash (see Limits)
	LimitCents int    // a human is asked above it

	genkit *gk.Genkit
	model  ai.Model
	refund ai.Tool
}

// refund are the arguments of the tool.
type refund struct {
	Cents int `json:"cents"`
}

// Setup builds the agent as without Beam, except for HTTPClient and for the tool, which asks for
// its effect.
func (a *Refunds) Setup(ctx context.Context) error {
	plugin := &compat_oai.OpenAICompatible{
		Provider: "openai", BaseURL: a.BaseURL, APIKey: os.Getenv("OPENAI_API_KEY"),
		Opts: []option.RequestOption{option.WithHTTPClient(genkit.HTTPClient())},
	}
	a.genkit = gk.Init(ctx, gk.WithPlugins(plugin))
	a.model = plugin.DefineModel("openai", "gpt-5", ai.ModelOptions{Supports: &compat_oai.BasicText})
	a.refund = gk.DefineTool(a.genkit, "refund", "Pays a refund to the customer.", func(tc *ai.ToolContext, in refund) (string, error) {
		ask := genkit.Act
		if in.Cents > a.LimitCents {
			ask = genkit.ActApproved
		}
		answer, err := ask(tc, "refund", in)
		return answer.Text(), err
	})
	return nil
}

// Run is one activation.
func (a *Refunds) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	question := []*ai.Message{ai.NewUserTextMessage(string(act.Trigger().Event))}
	res, err := genkit.Generate(ctx, act, a.genkit, question, genkit.Options{Timeout: 24 * time.Hour},
		ai.WithModel(a.model), ai.WithTools(a.refund))
	if err != nil || res.Suspended {
		return res.Outcome, err
	}
	return agent.Done(), act.Emit([]byte(res.Response.Text()))
}

// With two methods, an agent of Genkit becomes an agent of a pipeline.
func Example() {
	var _ agent.Agent = new(Refunds)
	var _ agent.Preparer = new(Refunds)
	// agents := transforms.RunAgent(s, transforms.AgentParams{Name: "refunds", Agent: &Refunds{LimitCents: 1000}}, keyed)
}
