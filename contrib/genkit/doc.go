// Package genkit runs a generation of Firebase's Genkit within an activation. When a tool
// interrupts the generation, the activation is suspended, with the messages so far as its
// snapshot. An approval or the result of a tool resumes the generation.
//
//	func (a *Refunds) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
//		question := []*ai.Message{ai.NewUserTextMessage(string(act.Trigger().Event))}
//		res, err := genkit.Generate(ctx, act, a.genkit, question, genkit.Options{Timeout: 24 * time.Hour},
//			ai.WithModel(a.model), ai.WithTools(a.refund))
//		if err != nil || res.Suspended {
//			return res.Outcome, err
//		}
//		return agent.Done(), act.EmitJSON(res.Response.Text())
//	}
//
// # Behaviour
//
// A tool asks for a side effect with [Act], [ActApproved] or [RequestApproval]. Each of them
// interrupts the generation:
//
//	func(tc *ai.ToolContext, in refund) (string, error) {
//		answer, err := genkit.ActApproved(tc, "refund", in)
//		return answer.Text(), err
//	}
//
// [Generate] stages an intent for each call, in the order of the model's tool calls, and suspends
// the activation. When all calls have answers, which may take several activations, the tools run
// again, get their answers, and the generation continues. A refusal and a failed call are answers,
// too, and so is a timeout, if the agent's TimeoutPolicy returns Resume. [Answer].Text puts each
// of them into a sentence for the model.
//
// Options.Ask and Options.Resume translate interrupts that a tool makes itself. So existing tools
// need no change.
//
// Pass [HTTPClient] to the plugin of the model. It finds the activation in the context that
// Generate passes to the model.
//
// Genkit lists the results of several tools in the order in which the tools end, and gives tool
// calls without an id a random id. Generate sorts the results and derives the ids. So the same
// activation sends the same requests to the model and stores the same bytes.
//
// # Limits
//
// Genkit's plugins for models with OpenAI's API use a version of the SDK in which the first
// requests of a client race if its base URL does not end in a slash. Give them a URL with the
// slash, such as https://api.openai.com/v1/.
//
// All open intents of the key must come from one generation. An agent that stages other intents
// must not suspend while both have open intents.
//
// A tool waits for one call in each run. A resumed tool runs again from its start.
//
// A tool that panics ends the worker process, because Genkit runs tools in its own goroutines and
// does not recover panics. Return an error instead.
//
// The messages of the generation are those passed to Generate. So do not pass the options
// WithPrompt, WithMessages, WithSystem and WithDocs. Pass a system message as the first message.
//
// genkit.Init catches the signals SIGINT and SIGTERM of the process and does not pass them on.
// The first generation sets a global tracer provider of OpenTelemetry, if there is none. Numbers
// in tool calls are float64, so integers above 2^53 lose digits.
//
// A snapshot must be resumed with the same tools. If you rename a tool, raise the agent's
// SnapshotVersion, and rewrite old messages in MigrateSnapshot with [Migrate].
package genkit
