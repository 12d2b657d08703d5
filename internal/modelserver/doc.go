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
// The server answers POST requests, by the end of their path: /chat/completions (OpenAI
// chat completions), /responses (OpenAI responses) and /messages (Anthropic messages). A
// request with "stream": true gets server-sent events, any other one gets JSON.
//
// [Server.Reply] decides what is answered. Ids, times and token counts derive from the
// request and its reply: equal requests with equal replies get equal bytes. The unit of
// tokens is four bytes of text. All messages but the last count as read from the cache of
// the provider.
//
// [Server.Fault] makes an answer fail: by status, latency, a slow stream, a connection that
// is cut, a body that ends early, or one without an end.
//
// [Server.Calls] are the requests so far, with their headers and bodies.
//
// # Limits
//
// A request body has at most 64 MiB. The server keeps all requests until [Server.Forget].
// Any credentials are accepted. Of messages, texts, tool calls and tool results are
// understood; images and other parts count as empty text.
package modelserver
