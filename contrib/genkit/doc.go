// Package genkit runs a generation of Firebase's Genkit within an activation: the interrupt of
// a tool becomes a suspension, the messages so far the snapshot, and an approval or the
// result of a tool resumes it.
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
// A tool asks for a side effect with [Act], [ActApproved] or [RequestApproval], which
// interrupt the generation:
//
//	func(tc *ai.ToolContext, in refund) (string, error) {
//		answer, err := genkit.ActApproved(tc, "refund", in)
//		return answer.Text(), err
//	}
//
// [Generate] stages an intent for each call, in the order of the model's tool calls, and
// suspends the activation. When all calls have their answers, which may take several
// activations, the tools run again, get their answers, and the generation goes on.
//
// Interrupts that a tool makes itself are translated by Options.Ask and Options.Resume, so
// that existing tools need no change.
//
// [HTTPClient] is the client for the plugin of the model. It finds the activation in the
// context that Generate gives to the model.
//
// Genkit lists the results of several tools in the order in which the tools end, and gives
// tool calls that have no id a random one. Generate sorts the results and derives the ids, so
// that the same activation asks the model the same and stores the same bytes.
//
// # Limits
//
// Genkit's plugins for models with OpenAI's API use a version of the SDK in which the first
// requests of a client race when its base URL does not end in a slash. Give them
// https://api.openai.com/v1/, for example, with the slash.
//
// The intents of the key are those of the generation: an agent that stages others must not
// suspend with both.
//
// A tool waits for one call each time it runs. It runs again from its start when it is
// resumed.
//
// A tool that panics ends the worker process, since Genkit runs tools in goroutines of its
// own and does not recover them: return an error.
//
// The messages of the generation are those given to Generate: its options must not be
// WithPrompt, WithMessages, WithSystem or WithDocs. A system message is the first of the
// messages.
//
// genkit.Init catches the signals SIGINT and SIGTERM of the process and does not pass them
// on; and the first generation sets a global tracer provider of OpenTelemetry, if there is
// none. Numbers in tool calls are float64, so that integers above 2^53 lose digits.
//
// A snapshot is read with the same tools. Raise the agent's SnapshotVersion when you rename
// one, and rewrite the old messages in MigrateSnapshot with [Migrate].
package genkit
