// Package eino runs a graph of CloudWeGo's Eino within an activation: its interrupt becomes
// a suspension, its checkpoint the snapshot, and an approval or the result of a tool resumes
// it.
//
//	func (a *Refunds) Setup(ctx context.Context) (err error) {
//		model, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{
//			Model: "gpt-5", APIKey: os.Getenv("OPENAI_API_KEY"), HTTPClient: eino.HTTPClient(),
//		})
//		...
//		a.graph, err = graph.Compile(ctx, compose.WithCheckPointStore(eino.Store()))
//		return err
//	}
//
//	func (a *Refunds) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
//		t := act.Trigger()
//		res, err := eino.Run(ctx, act, a.graph, []*schema.Message{schema.UserMessage(string(t.Event))},
//			eino.Options{Timeout: 24 * time.Hour})
//		if err != nil || res.Suspended {
//			return res.Outcome, err
//		}
//		return agent.Done(), act.EmitJSON(res.Output.Content)
//	}
//
// # Behaviour
//
// The graph is compiled once, in Setup, with [Store] as its checkpoint store and with
// [HTTPClient] in its chat models. Both find the activation in the context that [Run] gives
// to the graph, so that one graph serves all keys.
//
// A tool or a lambda asks for side effects with [Act], [ActApproved] and
// [RequestApproval]. Each interrupts the graph. When the graph has stopped, Run stages an
// intent for each call, in the order of the calls, and suspends the activation with the
// checkpoint. The answer to an intent resumes the graph at the component that asked, which
// runs again and now gets the answer. What other components wait for stays open.
//
// [Tool] is a tool of a model whose calls are intents: nothing runs in the process.
//
// Interrupts that a component makes itself, and those of WithInterruptBeforeNodes, are
// translated by Options.Ask and Options.Data, so that an existing graph needs no change.
//
// The checkpoint is stored in a form of its own: Eino gives interrupts random ids and
// writes maps in any order. Here the ids derive from the place of the interrupt in the
// graph, and maps are sorted, so that the same activation stores the same bytes.
//
// # Limits
//
// The intents of the key are those of the graph: an agent that stages others, or that calls
// Run for two graphs, must not suspend with both.
//
// A component runs again from its start, with its input, when it is resumed: one that tells
// its first run from others must ask compose.GetInterruptState. Within one run of a
// component two equal calls share one answer.
//
// The Runner of Eino's package adk stores the time of each event in its checkpoint. Such a
// snapshot differs from run to run, so Run takes graphs (package compose) and what exports
// one (flow/agent/react).
//
// A checkpoint belongs to a graph with the same nodes and to the same registered types.
// Raise the agent's SnapshotVersion when you rename a node, and rewrite the old checkpoints
// in MigrateSnapshot with [Migrate].
//
// Eino needs github.com/bytedance/sonic v1.15.5 or later to build with Go 1.26.
package eino
