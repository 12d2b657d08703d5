package modelsdks_test

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// The credentials of the tests, which nothing may keep.
const (
	openAIKey    = "sk-openai-secret-1234567890"
	anthropicKey = "sk-ant-secret-1234567890"
)

// system is a system text for all questions.
const system = "Be brief."

// apis ask a question with an SDK, plain and streamed.
var apis = map[string]func(ctx context.Context, client *http.Client, url, question string) (string, error){
	"openai chat": func(ctx context.Context, client *http.Client, url, question string) (string, error) {
		answer, err := openAI(client, url).Chat.Completions.New(ctx, chat(question))
		if err != nil {
			return "", err
		}
		return answer.Choices[0].Message.Content, nil
	},
	"openai chat stream": func(ctx context.Context, client *http.Client, url, question string) (string, error) {
		params := chat(question)
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		stream := openAI(client, url).Chat.Completions.NewStreaming(ctx, params)
		defer stream.Close()
		var all openai.ChatCompletionAccumulator
		for stream.Next() {
			all.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil {
			return "", err
		}
		if len(all.Choices) == 0 || all.Choices[0].FinishReason == "" {
			return "", errors.New("the stream ended early")
		}
		return all.Choices[0].Message.Content, nil
	},
	"openai responses": func(ctx context.Context, client *http.Client, url, question string) (string, error) {
		answer, err := openAI(client, url).Responses.New(ctx, response(question))
		if err != nil {
			return "", err
		}
		return answer.OutputText(), nil
	},
	"openai responses stream": func(ctx context.Context, client *http.Client, url, question string) (string, error) {
		stream := openAI(client, url).Responses.NewStreaming(ctx, response(question))
		defer stream.Close()
		var text strings.Builder
		completed := false
		for stream.Next() {
			e := stream.Current()
			switch e.Type {
			case "response.output_text.delta":
				text.WriteString(e.Delta)
			case "response.completed":
				completed = true
			}
		}
		if err := stream.Err(); err != nil {
			return "", err
		}
		if !completed {
			return "", errors.New("the stream ended early")
		}
		return text.String(), nil
	},
	"anthropic messages": func(ctx context.Context, client *http.Client, url, question string) (string, error) {
		answer, err := claude(client, url).Messages.New(ctx, message(question))
		if err != nil {
			return "", err
		}
		return answer.Content[0].Text, nil
	},
	"anthropic messages stream": func(ctx context.Context, client *http.Client, url, question string) (string, error) {
		stream := claude(client, url).Messages.NewStreaming(ctx, message(question))
		defer stream.Close()
		var all anthropic.Message
		for stream.Next() {
			if err := all.Accumulate(stream.Current()); err != nil {
				return "", err
			}
		}
		if err := stream.Err(); err != nil {
			return "", err
		}
		if all.StopReason == "" {
			return "", errors.New("the stream ended early")
		}
		return all.Content[0].Text, nil
	},
}

func openAI(client *http.Client, url string) *openai.Client {
	c := openai.NewClient(option.WithHTTPClient(client), option.WithBaseURL(url+"/v1"), option.WithAPIKey(openAIKey))
	return &c
}

func claude(client *http.Client, url string) *anthropic.Client {
	c := anthropic.NewClient(anthropicoption.WithHTTPClient(client), anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey(anthropicKey))
	return &c
}

func chat(question string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "gpt-5",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(system), openai.UserMessage("And?"), openai.UserMessage(question)},
	}
}

func response(question string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model:        "gpt-5",
		Instructions: openai.String(system),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
			responses.ResponseInputItemParamOfMessage("And?", responses.EasyInputMessageRoleUser),
			responses.ResponseInputItemParamOfMessage(question, responses.EasyInputMessageRoleUser),
		}},
	}
}

func message(question string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: "claude-opus-4-8", MaxTokens: 100,
		System: []anthropic.TextBlockParam{{Text: system}},
		Messages: []anthropic.MessageParam{
			anthropic.NewUserMessage(anthropic.NewTextBlock("And?")),
			anthropic.NewUserMessage(anthropic.NewTextBlock(question)),
		},
	}
}
