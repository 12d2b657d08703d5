// Package activation has the rules by which an agent runs, as pure steps: the state of a
// key and one input give the next state and what goes out.
//
// It is for runtimes: transforms.RunAgent is one on Beam, package agenttest one for tests.
// A runtime reads the state of a key, calls a step of [Rules], writes the state, sets the
// timers that [Deadline] and [TTLMark] ask for, and emits the effects.
//
// # Behaviour
//
// There are four inputs. [Rules.Envelope] takes an element of the key, [Rules.Timeout] the
// timer of a deadline, [Rules.Idle] the timer of the TTL, and [Rules.Drain] goes on with
// events that were deferred.
//
// An activation that fails changes nothing: control is written when it has succeeded, and
// memory is rolled back, at the cost of what the activation has touched.
//
// A step returns an error only for what must fail the bundle: state that cannot be read,
// a bug. Everything else that goes wrong is a dead letter among the effects.
//
// # Limits
//
// There is no clock, no goroutine and no Beam here. Code of the agent's author runs in
// [Key.Call], in which the runtime limits its time and recovers its panics.
//
// A [Key] belongs to one goroutine during a step. Its Control is changed in place.
//
// # Differences
//
// Section 9 of the project's facts lists where the rules differ from other
// implementations; each is a test of this package. The main ones: a deferred event does
// not end a suspension, event time is used throughout, seq is kept when the TTL clears a
// key, and what was approved is what runs.
package activation
