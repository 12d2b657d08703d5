// Package events reads, writes and projects the events of coding agents: the
// agent event protocol, envelope version 1.
//
// An event travels as an [Envelope], a JSON object of version, type, payload
// and metadata. The payload is a [Value], any JSON without loss. The 50 types
// of the catalogue also have a struct each, such as [ToolEnd]: [FromEnvelope]
// and [ToEnvelope] go between the two. [Envelope.Project] gives the flat view
// with one set of columns for all types, for tables and statistics. A store of
// runs keeps a [RunRecord] for each event.
//
// # Behaviour
//
// Reading an envelope is strict. version (an integer of 16 bits), type (a
// string) and payload must be there, metadata may be; each at most once, by its
// exact name. Other members are ignored, and lost. A null payload is a payload,
// null metadata is none. Errors are [DecodeError]s with one of six codes, and a
// fault in the shape is found before a wrong version. A type outside the
// catalogue is no error: name, payload and metadata are kept and written again.
//
// Inside payload and metadata the last of equal names wins. Integers from -2^63
// to 2^64-1 are exact. A number with a fraction or an exponent, -0, and a larger
// integer are floats of 64 bits, rounded correctly. 1 and 1.0 differ, for
// [Value.Equal] too.
//
// Writing is a function of the value alone: compact, members in the order
// version, type, payload, metadata, and below payload and metadata sorted by the
// UTF-8 bytes of their names. A float has its shortest digits, with a fraction or
// an exponent: 1.0, 0.00001, 1e16, 1e-6, -0.0; fixed for 1e-5 <= |x| < 1e16,
// and never a plus in the exponent, which is read all the same. In strings only
// the quote, the backslash and control characters are escaped.
//
// A typed event is read as strictly: what is required must be there, words of a
// fixed list and ranges of numbers are checked, unknown members are ignored but
// in the snapshots (the events whose names end in _bound), which refuse them at
// every level. How each field is treated when absent stands in its wire tag:
// omit, null, default or empty. In an envelope a float of 32 bits is widened; in
// the direct form of [AppendEvent], members in the order of the struct, it has
// its own shortest digits: 0.9, where the envelope has 0.8999999761581421.
//
// # Limits
//
// Objects and arrays nest below [MaxDepth] (128) levels, the envelope included:
// 126 arrays inside one another pass as a payload. There is no limit of size. An
// envelope refers to one copy of the text it was decoded from, unknown members
// included. Values do not change and may be shared between goroutines.
//
// The time to write a canonical form grows with its text, whatever the nesting, and with
// a logarithm for members that are not sorted yet. [Envelope.WriteProjection] streams: it
// needs memory for the columns that are plain text and for the order of one object's
// members, but not for the columns that are JSON.
//
// The schema names and digests of snapshots are not checked, only their shape.
// Writing refuses NaN, infinities and text that is not UTF-8.
//
// # Differences
//
// From the reference implementation, which is written in Rust on serde_json:
//
//   - The array form of an envelope, [1,"x",{}], and of the structs inside a
//     payload is refused; only a [VerificationSummary] may be an array. So is a
//     word given as an object, {"passed":null}.
//   - Members that are ignored are checked like all others: nesting, UTF-8,
//     surrogates and the range of numbers.
//   - Floats are read to the nearest value, of 32 bits too. One beyond the range
//     of 32 bits is refused where such a float is wanted, and NaN and infinities
//     are refused on the way out, where the reference writes null.
//   - 0.0 and -0.0 are not equal, as their texts are not.
//   - Numbers are written in one form, the one without a plus in the exponent,
//     and members always sorted; all forms that the reference has had are read.
//   - Errors name a byte, not a line and column, and only of broken text. An
//     envelope that is decoded from a tree or as part of a larger text, two more
//     paths of the reference, is read from its own bytes here: the texts are the
//     same, without a position.
package events
