// Package modelsdks shows, and tests, that the official Go SDKs of OpenAI and Anthropic work
// unchanged in an agent whose calls replay. It has no code of its own: a client gets the
// HTTP client of the activation.
//
//	client := openai.NewClient(option.WithHTTPClient(act.HTTPClient()))
//	client := anthropic.NewClient(option.WithHTTPClient(act.HTTPClient()))
//
// # Behaviour
//
// A call that was answered is not made again: not after a resume, and not when the bundle of
// the activation is retried in the same process. Plain calls and streams replay, of OpenAI's
// chat completions and responses, and of Anthropic's messages. The SDKs retry as they
// always do; a retry takes the place of the request that failed. The API key stays in the
// process.
//
// Token counts and model names become attributes of the LLM_CALL events. OpenAI tells the
// tokens of a streamed chat completion only if the request asks for them, with
// StreamOptions.IncludeUsage.
//
// # Limits
//
// The SDKs do not notice a stream of chat completions that ends early without an error of
// the connection: they return what has arrived. Such a stream is not stored, so that a
// replay may return more. Check the finish reason.
package modelsdks
