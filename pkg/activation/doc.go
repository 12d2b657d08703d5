// Package activation holds the rules by which an agent runs, as pure steps. A step takes the
// state of a key and one input, and returns the next state and the effects: outputs, intents,
// traces and dead letters.
//
// It is for runtimes. transforms.RunAgent is the runtime on Beam, and package agenttest is one
// for tests. A runtime reads the state of a key, calls a step of [Rules], writes the state, sets
// the timers at the times that [Deadline] and [Rules.TTLMark] return, and emits the effects.
//
// # Behaviour
//
// The state of a key is a [Key]. Its Control, a KeyControl message, holds the sequence number, the
// suspension and its open intents. The memory, the replay cache and the deferred events are cells
// that a step opens when it needs them.
//
// There are four steps: [Rules.Envelope] for an element of the key, [Rules.Timeout] for the timer
// of a deadline, [Rules.Idle] for the timer of the TTL, and [Rules.Drain] for deferred events. The
// runtime calls Drain when the last step has set [Step].Rest, or when [Rest] says so.
//
// An activation that fails changes nothing. Control is changed only after an activation has
// succeeded, and changes of the memory are rolled back. The rollback costs as much as the entries
// that the activation has touched.
//
// A step returns an error only for what must fail the bundle: state that cannot be read or is of
// a newer version, or a bug. Every other problem becomes a dead letter among the effects.
//
// # Limits
//
// The package has no clock, no goroutines and no Beam. The code of the agent's author runs in
// [Key.Call], where the runtime limits its time and recovers its panics.
//
// A [Key] belongs to one goroutine during a step. The step changes its Control in place.
//
// # Differences from other languages
//
// The rules differ from other implementations in these points, among others. A deferred event
// does not end a suspension. All times are event time. seq is kept when the TTL clears a key. An
// approved call runs with exactly the approved arguments. A test of this package shows each
// difference.
package activation
