// Package eino runs a graph of CloudWeGo's Eino within an activation. When the graph is
// interrupted, the activation is suspended, with the checkpoint of the graph as its snapshot. An
// approval or the result of a tool resumes the graph.
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
// Compile the graph once, in Setup, with [Store] as its checkpoint store and [HTTPClient] in its
// chat models. Both find the activation in the context that [Run] passes to the graph, so one
// graph serves all keys.
//
// A tool or a lambda asks for side effects with [Act], [ActApproved] and [RequestApproval]. Each
// of them interrupts the graph. When the graph has stopped, Run stages an intent for each call,
// in the order of the calls, and suspends the activation with the checkpoint. The answer to an
// intent resumes the graph at the component that asked: the component runs again and gets the
// answer. The calls of other components stay open. A refusal and a failed call are answers, too,
// and so is a timeout, if the agent's TimeoutPolicy returns Resume. [Answer].Text puts each of
// them into a sentence for a model.
//
// [Tool] returns a tool for a model whose calls become intents. It runs nothing in the process.
//
// Options.Ask and Options.Data translate interrupts that a component makes itself, and those of
// WithInterruptBeforeNodes. So an existing graph needs no change.
//
// Eino gives interrupts random ids and writes maps in any order. Run stores the checkpoint with
// ids that are derived from the place of the interrupt in the graph, and with sorted maps. So the
// same activation stores the same bytes.
//
// # Limits
//
// All open intents of the key must come from one graph. An agent that stages other intents, or
// that calls Run for two graphs, must not suspend while both have open intents.
//
// A resumed component runs again from its start, with its input. If it must know whether it was
// resumed, it must call compose.GetInterruptState. Two equal calls within one run of a component
// share one answer.
//
// The Runner of Eino's package adk stores the time of each event in its checkpoint, so its
// snapshot would differ from run to run. Run therefore takes only graphs (package compose), and
// packages that export a graph (flow/agent/react).
//
// A checkpoint belongs to a graph with the same nodes and the same registered types. If you
// rename a node, raise the agent's SnapshotVersion, and rewrite old checkpoints in
// MigrateSnapshot with [Migrate].
//
// Eino needs github.com/bytedance/sonic v1.15.5 or later to build with Go 1.26.
package eino
