package modelsdks_test //nolint:testableexamples // a run of it would need the endpoint of the vendor

import (
	"context"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

// Summary is an agent that asks a model with OpenAI's SDK.
type Summary struct{ Model string }

// Run is one activation. The SDK reads OPENAI_BASE_URL and OPENAI_API_KEY.
func (a *Summary) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	client := openai.NewClient(option.WithHTTPClient(act.HTTPClient()))
	answer, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model: a.Model,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("Say it in one sentence."),
			openai.UserMessage(string(act.Trigger().Event)),
		},
	})
	if err != nil {
		return agent.Outcome{}, err
	}
	return agent.Done(), act.Emit([]byte(answer.Choices[0].Message.Content))
}

// An SDK needs only the HTTP client of the activation.
func Example() {
	var _ agent.Agent = &Summary{Model: "gpt-5"}
}
