// Package modelcall makes the model calls of an agent replay: it answers a request from the
// replay cache of the key, and records what a provider answers.
//
// An agent uses it through agent.Activation.HTTPClient and CallModel. A runtime begins the
// [Calls] of an activation, and commits what they have [Left].
//
// # Behaviour
//
// Two requests of a key and an activation are the same if method, URL, body and the headers
// that name a version or a format are the same. The body is compared as canonical JSON, so
// neither white space nor the order of members counts. Credentials and cookies do not count.
// The n-th repetition of a request has an answer of its own. A request that failed is no
// repetition: a retry takes its place.
//
// A complete response with a status from 200 to 299 is recorded while it is read: its
// status, the headers that name its form and the provider's request id, its body,
// compressed, and its [Usage]. A stream is passed on as it arrives. It is complete when the event arrives
// that ends it, or, for streams of unknown APIs, at its end. Everything else is passed on
// and not recorded: an error, a redirect, a response to HEAD, a body that was cut short, was
// not read to its end, or is longer than [MaxResponseBytes].
//
// What calls leave is committed in the order of their cache keys, when the activation has
// succeeded. A [Process] remembers responses besides, so that the next try of an activation
// in the same process repeats no call.
//
// A Process bounds the calls that are in flight. A call is in flight until its body is read
// to the end or closed, and no longer than its activation. A call within the function of
// [Calls.Call] takes the place of that call. A host that answers with status 429 or 529, or 503 and Retry-After,
// gets no call until the time that it asks for is over.
//
// # Limits
//
// Two equal requests that are made at the same time share two answers, and which of them
// gets which is not the same each time.
//
// An activation that needs two open responses at once waits for itself if the process
// allows one call.
//
// Tokens are read from responses of the APIs that [Usage] lists, also from a stream that breaks
// after it has told them, but not from a body above [MaxResponseBytes].
//
// A 101 response, as of a websocket, has a body that cannot be written to.
package modelcall
