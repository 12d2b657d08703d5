// Package deadletter defines dead letters: records that say why an input was not processed, and
// that keep the input so that it can be processed again.
//
// A dead letter is an ActivationErrorRecord. Its reason is a word of a closed list. Its detail is
// a JSON object with a code, an error text, the input, and the position in an activation.
// [Letter] is the same as a Go struct: [Letter.Record] writes the wire message, and [Read] reads
// it.
//
// # Behaviour
//
// To process an input again, repair the cause and send [Letter].Input to the topic from which it
// came. docs/dead-letters.md shows a program that does so.
//
// On an errors topic, a record is the external event of an AgentEnvelope ([Wrap], [Unwrap]). So
// an errors topic is also a valid input of a pipeline. The pipeline treats the record like any
// other event: an agent gets the record, not the input in it.
//
// When such an envelope fails in turn, [Letter.Record] does not wrap the record a second time. It
// returns the first record with Position.Redriven one higher, and with the new reason and code in
// Position.RefusedReason and RefusedCode. It does so only if the record and the envelope have the
// same entity key. Otherwise somebody wrote a record about another key, and the envelope becomes
// the input of an ordinary dead letter.
//
// Records are deterministic. The error text is made valid UTF-8 and cut to its first non-empty
// line and to 4 KiB. Memory addresses in it are replaced, and so are the no-break spaces that
// protobuf-go puts into its texts in some binaries and not in others. The texts of this library
// contain neither stacks nor texts of protobuf-go; [Explain] has its own words instead.
//
// # Limits
//
// The input is kept whole, whatever its size. It is base64, so a record is a third larger than
// its input. transforms.EncodeErrors sets a bound. An input that was refused because of its size
// is not decoded; [EnvelopeKey] reads the entity key from its first field.
//
// # Differences from other languages
//
// Other writers put free text into the detail, and may use reasons that are not in the list.
// [Read] returns [ErrForeign] for their records. They are valid records all the same, and every
// transform passes them on.
package deadletter
