// Package events reads, writes and projects the events of coding agents: the agent event
// protocol, envelope version 1.
//
//	env, err := events.DecodeEnvelope(line) // version, type, payload, metadata
//	event, err := events.FromEnvelope(env)  // events.ToolEnd, for example
//	row := env.Project()                    // the same columns for all types
//
// # Behaviour
//
// An event travels as an [Envelope], a JSON object of version, type, payload and metadata.
// Its payload is a [Value], which holds any JSON without loss. Each of the 50 types of the
// catalogue also has a Go struct, such as [ToolEnd]; [FromEnvelope] and [ToEnvelope]
// convert between the two. [Envelope.Project] computes the flat view that has the same
// columns for all types, for tables and statistics. A store of runs keeps a [RunRecord] for
// each event.
//
// Decoding an envelope is strict. The members version (an integer of 16 bits), type (a
// string) and payload are required and metadata is optional; each occurs at most once and
// under its exact name. Other members are ignored and not kept. A null payload is a
// payload; null metadata counts as absent. Errors are of type [DecodeError] and have one of
// six codes. A fault in the shape of an envelope is reported before a wrong version. A type
// outside the catalogue is accepted: its name, payload and metadata are kept and written
// again.
//
// Inside payload and metadata the last of two equal names wins. Integers from -2^63 to
// 2^64-1 are exact. A number with a fraction or an exponent, -0, and a larger integer are
// read as the nearest float64. 1 and 1.0 are different values, for [Value.Equal] too.
//
// Encoding is a function of the value alone. The text is compact; the members are in the
// order version, type, payload, metadata, and below payload and metadata they are sorted by
// the UTF-8 bytes of their names. A float has its shortest digits, with a fraction or an
// exponent: 1.0, 0.00001, 1e16, 1e-6, -0.0. It is written in plain form for 1e-5 <= |x| <
// 1e16, and its exponent never has a plus, although one is accepted in input. Strings
// escape only the quote, the backslash and control characters.
//
// Decoding a typed event is strict too. Its required fields must be there, and words of a
// fixed list and ranges of numbers are checked. Unknown members are ignored, except in the
// snapshots (the events whose names end in _bound), which refuse them at every level. The
// wire tag of each field (omit, null, default or empty) says how its absence is written. In
// an envelope a float of 32 bits is widened to 64. [AppendEvent] writes the direct form, in
// which members are in the order of the struct and such a float has its own shortest
// digits: 0.9 where the envelope has 0.8999999761581421.
//
// # Limits
//
// Objects and arrays nest less than [MaxDepth] (128) levels, the envelope included, so that
// a payload may have 126 arrays inside one another. The size of an envelope is not limited
// here. An envelope refers to one copy of the text that it was decoded from, ignored
// members included. Values are immutable and may be shared between goroutines.
//
// The time to write a canonical form is proportional to its text, whatever the nesting,
// times a logarithm for members that are not sorted yet. [Envelope.WriteProjection]
// streams: it needs memory for the columns that are plain text and for the order of one
// object's members, but not for the columns that are JSON.
//
// The schema names and digests of snapshots are not verified; only their shape is. Encoding
// refuses NaN, infinities and text that is not UTF-8.
//
// # Differences
//
// The reference implementation is written in Rust on serde_json. This package differs from
// it in these points:
//
//   - The array form of an envelope, [1,"x",{}], and of the structs inside a payload is
//     refused; only a [VerificationSummary] may be an array. A word given as an object,
//     {"passed":null}, is refused too.
//   - Members that are ignored are checked like all others: nesting, UTF-8, surrogates and
//     the range of numbers.
//   - Floats are read to the nearest value, those of 32 bits too. A number beyond the range
//     of 32 bits is refused where such a float is expected. NaN and infinities are refused
//     when they are written, where the reference writes null.
//   - 0.0 and -0.0 are not equal, since their texts differ.
//   - Numbers are written in one form, without a plus in the exponent, and members are
//     always sorted. All forms that the reference has had are accepted.
//   - Errors name a byte offset instead of line and column, and only for malformed text.
//     Two more paths of the reference decode an envelope from a tree or as part of a larger
//     text and have no position; here such an envelope is decoded from its own bytes, and
//     the error texts are the same, without a position.
package events
