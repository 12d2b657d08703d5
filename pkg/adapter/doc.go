// Package adapter connects agent frameworks to activations. It turns the calls for which a
// framework waits into intents, and has an HTTP client that sends each request with the client of
// its activation.
//
//	var waiting adapter.Waiting                // from the snapshot
//	answered, err := waiting.Answer(act)       // what the trigger of the activation answers
//	...                                        // the framework goes on with it
//	err = waiting.Stage(act, "call-7", adapter.Call{Kind: adapter.ApprovedToolCall, Tool: "refund", Args: args})
//	...                                        // into the snapshot
//
// # Behaviour
//
// [Waiting] is the list of calls without an answer. [Waiting.Stage] adds a call, under the id
// that the framework gave it, and stages an intent for it. [Waiting.Answer] finds the calls that
// the trigger of an activation answers, and removes them from the list. When a human has approved
// an [ApprovedToolCall], Answer stages the approved call, which stays in the list until its
// result arrives.
//
// A framework usually builds its HTTP clients once, but a request belongs to one activation.
// [HTTPClient] serves all activations: it sends each request with the client of the activation
// that [WithActivation] has put into its context.
//
// # Limits
//
// All open intents of the key must be staged through one list, because an intent is matched with
// a call by its tool, its arguments and its order.
//
// A Waiting belongs to the goroutine of the activation.
package adapter
