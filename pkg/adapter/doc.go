// Package adapter is what adapters of agent frameworks are made of: calls for which a
// framework waits, as intents of an activation, and an HTTP client that finds its activation
// in the context of a request.
//
//	var waiting adapter.Waiting                // from the snapshot
//	answered, err := waiting.Answer(act)       // what the trigger of the activation answers
//	...                                        // the framework goes on with it
//	err = waiting.Stage(act, "call-7", adapter.Call{Kind: adapter.ApprovedToolCall, Tool: "refund", Args: args})
//	...                                        // into the snapshot
//
// # Behaviour
//
// [Waiting] is the list of the calls without an answer. [Waiting.Stage] adds a call under an
// id that the framework knows it by, and stages an intent for it. [Waiting.Answer] finds
// which calls the trigger of an activation answers, and removes them from the list. When a
// human has approved an [ApprovedToolCall], Answer stages the approved call, and the call
// goes on waiting for its result.
//
// A framework usually builds its HTTP clients once, and a request belongs to one activation.
// [HTTPClient] is such a client: it sends a request with the client of the activation that
// [WithActivation] has put in its context.
//
// # Limits
//
// All open intents of the key must have been staged through the one list, because an intent
// is matched with a call by its tool, its arguments and its order.
//
// A Waiting belongs to the goroutine of the activation.
package adapter
