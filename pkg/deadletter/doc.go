// Package deadletter says why something was not processed, and keeps the input so
// that it can be processed again.
//
// A dead letter is an ActivationErrorRecord. Its reason is a word of a closed list
// and its detail a JSON object with a code, an error text, the input and the position
// in an activation. [Letter] is the same as a Go struct: [Letter.Record] writes the
// wire message, [Read] reads it.
//
// # Behaviour
//
// On an errors topic a record travels inside an AgentEnvelope, as its external event
// ([Wrap], [Unwrap]), so that an errors topic is a valid input of a pipeline. When such
// an envelope itself fails, [Letter.Record] does not wrap it a second time: it returns
// the first record again, with Position.Redriven one higher and with the reason and code
// found now in Position.RefusedReason and RefusedCode. It does so only if the record and
// the envelope have the same entity key. Otherwise somebody wrote a record about another
// key, and the envelope is the input of an ordinary dead letter.
//
// Records are deterministic. What an error says is cleaned: valid UTF-8, the first line
// with text, at most 4 KiB, memory addresses and no-break spaces replaced. Our own texts
// hold no stack and nothing of protobuf-go, whose words differ from binary to binary;
// [Explain] has words of its own.
//
// # Limits
//
// The input is kept whole, whatever its size, as base64: a record is a third larger
// than its input. transforms.EncodeErrors sets a bound. An input that was refused for its
// size is not decoded; [EnvelopeKey] reads the entity key from its first field.
//
// # Differences
//
// Other writers put any text into detail, and may use reasons that are not in the
// list. [Read] refuses those with [ErrForeign]; they remain valid records, and every
// transform passes them on.
package deadletter
