// Package modelcall records the model calls of an agent and replays them. When an activation is
// resumed, a request that it has made before is answered from the replay cache of the key. When
// it is tried again in the same process, the request is answered from memory.
//
// An agent uses it through agent.Activation.HTTPClient and CallModel. A runtime creates the
// [Calls] of an activation. When the activation has succeeded, it stores their result, which is a
// [Left].
//
// # Behaviour
//
// Two requests of one key and activation are equal if they have the same method, URL, body, and
// the same headers that name a version or a format. Bodies are compared as canonical JSON, so
// white space and the order of members do not matter. Credentials and cookies do not matter
// either. The n-th repetition of a request has its own answer. A request that failed does not
// count as a repetition; a retry takes its place.
//
// A complete response with a status from 200 to 299 is recorded while it is read. The record has
// the status, the headers that describe the body, the provider's request id, the compressed body,
// and the [Usage]. A stream is passed on as it arrives. It is complete when its last event
// arrives or, for an unknown API, when it ends. Other responses are passed on but not recorded:
// an error, a redirect, a response to HEAD, and a body that was cut short, was not read to its
// end, or is longer than [MaxResponseBytes].
//
// When the activation has succeeded, the responses are stored in the replay cache, in the order
// of their cache keys. In addition, a [Process] remembers responses in memory. So when an
// activation is tried again in the same process, it repeats no call.
//
// A Process bounds the calls in flight. A call is in flight until its body is read to the end or
// closed, or its activation ends. A call that is made within the function of [Calls.Call] uses
// the slot of that call. A host that answers with status 429 or 529, or with 503 and Retry-After,
// gets no call until the time that it asks for has passed.
//
// # Limits
//
// The provider is asked again if the response was not recorded or has been evicted, and if the
// bundle is tried again in another process before the response was stored.
//
// If two equal requests are made at the same time, it is not determined which of them gets which
// of the two answers.
//
// An activation that needs two open responses at once waits for itself for ever if the process
// allows only one call.
//
// Tokens are read from responses of the APIs that [Usage] lists. They are also read from a stream
// that breaks after it has told them, but not from a body above [MaxResponseBytes].
//
// The body of a 101 response, as of a websocket, cannot be written to.
package modelcall
