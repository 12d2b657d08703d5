// Package state has the keyed state of agents, as cells that a user's own stateful DoFn
// takes as fields.
//
// # Behaviour
//
// A cell is an exported field of a DoFn that is passed to Beam by pointer; its zero
// value is ready:
//
//	type scoreFn struct {
//		Memory state.Memory
//	}
//
// Open reads the cell, at most once in a call of the DoFn's method, migrates what it finds
// to the current schema version, and returns a handle. A second Open in the call returns
// the same handle. All that is done to a handle happens in memory, in any order, and is
// seen by what follows. Commit writes, at most once, and only if something changed;
// without it, nothing is written. A cell that is not opened costs nothing.
//
// So an element that fails before its Commit leaves the stored bytes as they are. They
// are as they are, too, when a message is of a newer version: Open returns a
// *migrate.FutureError, which the DoFn must return, to fail the bundle. The next build
// that knows the version reads the key as if nothing had been.
//
// Open migrates an old message in memory. The next Commit writes the migrated message,
// even if you changed nothing else. A message stored without a version (stamp 0) is read
// as version 1, and the next write stores the version.
//
// Costs, in RPCs of about 80 microseconds on an embedded runner: Open 1, Commit of a
// message 3, of an emptied cell 1, of an unchanged one 0.
//
// [Memory], [ReplayCache] and [Continuation] hold the messages of that name, [Versioned]
// holds a versioned message of the user's own. [Control] and [Deferred] are the runtime's.
// [TTL] forgets idle keys.
//
// # Limits
//
// State is per key and window, and a runner wipes it when the window has ended: what an
// agent is to remember for good belongs in the global window.
//
// Give the DoFn to Beam by pointer, give its methods pointer receivers, and copy no cell. A
// copy knows nothing of the handle of the call. It would read again, and the SDK would
// answer with what was stored before the call, so that data is lost. So go vet reports a
// copy, and Open of a copied cell returns an error.
//
// An error of this package must fail the bundle: return it, or panic with it in OnTimer. A
// handle returns the error of an RPC again and again from then on, since nobody knows what
// it left.
//
// A cell whose bytes are cut short, or were written by another coder, reads as absent, and
// the next Commit overwrites it: the SDK leaves no way to tell the two apart.
//
// [Memory] and [ReplayCache] are bounded. Nothing bounds what [Continuation], [Control],
// [Deferred] and [Versioned] are given.
//
// A handle may be used until the bundle ends, by one goroutine at a time. Open in a later
// call reads what is stored by then, so do not work with two handles of one key. A cell belongs to
// the goroutine of the calls: it knows the last call only. Code that works on several keys
// of a bundle at once makes a cell for each, such as a new [Memory], and opens it with the
// provider of that key.
//
// A DoFn has at most one cell of each type, since ids are fixed: they are in running jobs.
// Cells of one DoFn are written one by one, and become visible together, with the bundle.
//
// Prism, the embedded runner, loses state when a bundle is slow, unless it is asked to keep
// keys whole. Linking this package and calling beam.Init is enough; see [KeepKeysWhole].
//
// # Differences
//
// The Python side writes memory and replay cache at each commit, whether changed or not,
// keeps the sequence number and pending intents in cells of their own, and uses a timer
// in processing time. The cells here are laid out otherwise; the messages in memory,
// llm_cache and continuation are the same.
package state
