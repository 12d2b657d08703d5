// Package adapter connects agent frameworks to activations. It turns the calls for which a
// framework waits into intents, and has an HTTP client that sends each request with the client of
// its activation.
//
//	var waiting adapter.Waiting
//	if act.Trigger().Kind != agent.Event { // an activation that resumes
//	//	err = json.Unmarshal(act.Snapshot(), &waiting)
//	//	answered, err = waiting.Answer(act) // the calls that the trigger answers
//	}
//	... // the framework runs, and waits for a call:
//	err = waiting.Stage(act, "call-7", adapter.Call{Kind: adapter.ApprovedToolCall, Tool: "refund", Args: args})
//	snapshot, err := json.Marshal(waiting)
//	return agent.Suspend(snapshot, 24*time.Hour), err
//
// # Behaviour
//
// [Waiting] is the list of calls without an answer. [Waiting.Stage] adds a call, under the id
// that the framework gave it, and stages an intent for it. [Waiting.Answer] finds the calls that
// the trigger of an activation answers, and removes them from the list. A result or a refusal
// answers one call. A timeout answers all calls, with the status EXPIRED. When a human has
// approved an [ApprovedToolCall], Answer stages the approved call, which stays in the list until
// its result arrives.
//
// A framework usually builds its HTTP clients once, but a request belongs to one activation.
// [HTTPClient] serves all activations: it sends each request with the client of the activation
// that [WithActivation] has put into its context. A request without an activation fails.
//
// # Limits
//
// All open intents of the key must be staged through one list, because an intent is matched with
// a call by its tool, its arguments and its order. Answer returns an error for a trigger whose
// intent was not staged through the list, and for an event.
//
// A Waiting belongs to the goroutine of the activation.
package adapter
