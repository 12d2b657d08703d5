// Package modelserver is an HTTP server that speaks the wire formats of model providers,
// for tests and for examples that run without an account.
//
//	server := &modelserver.Server{Reply: func(r modelserver.Request) modelserver.Reply {
//		return modelserver.Reply{Text: "You said " + r.Last().Text}
//	}}
//	running, err := server.Start()
//	...
//	defer running.Close()
//	client := openai.NewClient(option.WithBaseURL(running.URL+"/v1"), option.WithAPIKey("any"))
//
// # Behaviour
//
// The server answers POST requests by the end of their path: /chat/completions (OpenAI chat
// completions), /responses (OpenAI responses) and /messages (Anthropic messages). A request with
// "stream": true gets server-sent events; any other request gets JSON.
//
// [Server.Reply] decides the answer. Ids, times and token counts are derived from the request and
// its reply, so equal requests with equal replies get equal bytes. A token is four bytes of text.
// All messages except the last one count as read from the provider's cache.
//
// [Server.Fault] makes an answer fail: with an error status, latency, a slow stream, a cut
// connection, a body that ends early, or a body without an end.
//
// [Server.Calls] returns the requests so far, with their headers and bodies.
//
// # Limits
//
// A request body has at most 64 MiB. The server keeps all requests until [Server.Forget]. It
// accepts any credentials. It understands texts, tool calls and tool results in messages; images
// and other parts count as empty text.
package modelserver
