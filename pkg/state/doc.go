// Package state provides cells that hold the keyed state of agents. A stateful DoFn of your own
// takes them as fields:
//
//	type scoreFn struct {
//		Memory state.Memory
//	}
//
//	func (f *scoreFn) ProcessElement(sp beamstate.Provider, key []byte, e *pb.AgentEnvelope, emit func(string)) error {
//		mem, err := f.Memory.Open(sp, e.GetEventTimeMs())
//		if err != nil {
//			return err
//		}
//		if err := mem.Put("last", e.GetExternalEvent()); err != nil {
//			return err
//		}
//		return mem.Commit()
//	}
//
// # Behaviour
//
// A cell is an exported field of a DoFn that is passed to Beam by pointer. Its zero value
// is ready to use.
//
// Open reads the cell and returns a handle. It reads at most once in a call of the DoFn's
// method: a second Open in the same call returns the same handle. What is done to a handle
// happens in memory, in any order, and later reads of the handle see it. Commit writes the
// cell, at most once and only if something changed. Without Commit nothing is written. A
// cell that is not opened costs nothing.
//
// So an element that fails before its Commit leaves the stored bytes as they are. Open
// leaves them as they are, too, when they are of a newer version: it returns a
// *migrate.FutureError, which the DoFn must return so that the bundle fails. A build that
// knows the version then reads the key without loss.
//
// Open migrates an old message in memory. The next Commit writes the migrated message, even if
// you changed nothing else. A message stored without a version (stamp 0) is read as version 1.
// The next write stores the version.
//
// On the embedded runner an RPC takes about 80 microseconds. Open costs 1 RPC. Commit costs 3 for
// a message, 1 for a cell that became empty, and 0 for an unchanged one.
//
// [Memory], [ReplayCache] and [Continuation] hold the messages of these names, and
// [Versioned] holds a versioned message of the user's own. [Control] and [Deferred] belong
// to the runtime. [TTL] clears the state of idle keys.
//
// # Limits
//
// State belongs to a key and a window, and the runner clears it when the window has ended. Use
// the global window for what an agent must remember for good.
//
// Pass the DoFn to Beam by pointer, give its methods pointer receivers, and do not copy a
// cell. A copy does not know the handle of the call: it would read again, the SDK would
// answer with what was stored before the call, and data would be lost. go vet reports
// copies, and Open of a copied cell returns an error.
//
// An error of this package must fail the bundle: return it, or panic with it in OnTimer.
// After an RPC has failed, its handle returns that error on every use, because it is unknown
// what the RPC has changed.
//
// A cell whose bytes are cut short, or were written by another coder, reads as absent, and
// the next Commit overwrites it. The SDK does not let us tell the two cases apart.
//
// [Memory] and [ReplayCache] are bounded. The messages in [Continuation], [Control],
// [Deferred] and [Versioned] are not.
//
// A handle may be used until the bundle ends, by one goroutine at a time. Open in a later call
// reads what is stored by then, so do not work with two handles of one key. A cell remembers only
// the latest call, and belongs to the goroutine of that call. Code that works on several keys of
// a bundle at once creates a cell for each key, such as a new [Memory], and opens it with the
// provider of that key.
//
// A DoFn has at most one cell of each type, because the state ids are fixed and running jobs know
// them. The cells of a DoFn are written one by one. The runner makes the writes of a bundle
// visible together, when it commits the bundle.
//
// Prism, the embedded runner, can split a slow bundle in the middle of a key, and then loses
// state. An option keeps keys whole. A program that links this package and calls beam.Init sets
// it; see [KeepKeysWhole].
//
// # Differences from other languages
//
// The Python implementation writes memory and replay cache at each commit, whether they changed
// or not. It keeps the sequence number and the pending intents in cells of their own, and its TTL
// timer is in processing time. So the cells of the two implementations differ, but the messages
// in memory, llm_cache and continuation are the same.
package state
