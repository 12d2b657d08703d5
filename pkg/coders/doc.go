// Package coders registers deterministic Beam coders for all messages of the wire schema and of
// the runtime's state, and for the events of package events.
//
// Import it for its effect:
//
//	import _ "github.com/beamagents/beamagents-go/pkg/coders"
//
// Then a *beamagentspb.AgentEnvelope, or any other message of the schema, can be an element, a
// value, the content of a state cell, and the key of a GroupByKey. So can the messages of
// beamagentsruntimepb and, by value, an events.Envelope and an events.Projection.
//
// # Behaviour
//
// A coder writes the deterministic protobuf encoding and nothing around it: known fields by
// number, map entries sorted by key, unknown fields last in the order in which they came. Equal
// messages have equal bytes, unless they hold the same unknown fields in different orders.
// Unknown fields, unknown enum numbers and the order of repeated entries are kept. A coder does
// not migrate: it reads a stored message of any version as it was stored.
//
// A nil message is an error. A string that is not UTF-8 is an error, too, which names the field.
// A coder error fails the bundle, and a streaming runner retries the bundle for ever. So parse
// bytes from outside in a DoFn that can emit a dead letter (transforms.ParseEnvelopes), not with
// a coder at the edge of the pipeline. Check text that a user controls before you put it into a
// message: CheckText names the field that is not UTF-8.
//
// An event is encoded as its canonical JSON, and a projection as JSON with all of its columns.
//
// # Aliasing
//
// The strings and bytes of a decoded message are views of the buffer into which Beam read the
// element; they are not copied. So any part of a message keeps the whole buffer alive: copy what
// you keep for long (strings.Clone, bytes.Clone; proto.Clone copies bytes, but not strings).
// Treat an element as immutable, as Beam demands, because a step that is fused with yours may
// hold the same message. On a copy you may set fields. An append to a bytes field never
// overwrites another field, because its capacity ends with the field.
//
// # Speed
//
// Generated code encodes and decodes the messages of both schemas, without reflection and, for
// the large messages, with fewer allocations. It is used only for input that it treats exactly as
// proto.Marshal and proto.Unmarshal do. A message with fields of a newer schema is decoded by
// proto.Unmarshal and copied. docs/performance.md has the numbers. Do not call the generated
// methods (MarshalVT and the like) yourself: alone, they accept invalid text and write maps
// unsorted.
//
// # Limits
//
// Only a pointer is a message. A PCollection of beamagentspb.AgentEnvelope, without the star,
// silently gets Beam's Row coder, which writes other bytes.
//
// # Differences from other languages
//
// Beam's built-in proto coder writes the same bytes, but is not declared deterministic, so a
// message cannot be a key with it. The Python and Java runtimes write the same bytes, too;
// golden/README.md names the two known exceptions.
//
// # Update contract
//
// A running job knows a coder by the Go type of the message and by the names of the two coder
// functions. All messages share these two functions, so only renaming this package or the message
// would change them. Envelopes and projections of events have a pair of functions each. All are
// frozen in golden/pipeline.
package coders
