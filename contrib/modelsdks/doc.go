// Package modelsdks shows and tests that the official Go SDKs of OpenAI and Anthropic work
// unchanged in an agent that replays model calls. It has no code of its own. A client of an SDK
// gets the HTTP client of the activation:
//
//	client := openai.NewClient(option.WithHTTPClient(act.HTTPClient()))
//	client := anthropic.NewClient(option.WithHTTPClient(act.HTTPClient()))
//
// # Behaviour
//
// A call that was answered is not made again after a resume, and not when the bundle of the
// activation is retried in the same process. Plain calls and streams are replayed, for OpenAI's
// chat completions and responses and for Anthropic's messages. The SDKs retry as usual; a retry
// replaces the request that failed. The API key stays in the process.
//
// Token counts and model names become attributes of the LLM_CALL events. OpenAI reports the
// tokens of a streamed chat completion only if the request asks for them with
// StreamOptions.IncludeUsage.
//
// # Limits
//
// If a stream of chat completions ends early without a connection error, the SDKs do not notice
// it and return what has arrived. Such a stream is not stored, so a replay may return more. Check
// the finish reason.
package modelsdks
