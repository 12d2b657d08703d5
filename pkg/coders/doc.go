// Package coders gives Beam a deterministic coder for every message of the wire
// schema and of the runtime's own state, and for the events of package events.
//
// Import it for its effect:
//
//	import _ "github.com/beamagents/beamagents-go/pkg/coders"
//
// From then on a *beamagentspb.AgentEnvelope, or any other message of the schema,
// can be an element, a value, a state cell and the key of a GroupByKey. So can the
// messages of beamagentsruntimepb and, by value, an events.Envelope and an
// events.Projection.
//
// # Behaviour
//
// A coder writes the deterministic protobuf encoding and nothing around it: known
// fields by number, map entries sorted by key, unknown fields last in the order
// they came. Equal messages have equal bytes, unless they hold the same unknown fields
// in different orders. Unknown fields, unknown enum numbers and the order of repeated
// entries are kept. A coder never migrates: a stored message of any version is read as
// it was stored.
//
// A nil message is an error, and so is a string that is not UTF-8; that error names the
// field. A coder error fails the bundle, and a streaming runner retries the bundle for
// ever. So parse bytes from outside in a DoFn that can emit a dead letter
// (transforms.ParseEnvelopes), never with a coder at the edge of the pipeline, and check
// text that a user controls before it is put into a message: CheckText names the field
// that is not UTF-8.
//
// An event travels as its canonical JSON, a projection as JSON with all of its columns.
//
// # Aliasing
//
// The text and the bytes of a decoded message are views of the buffer that Beam read
// the element into; nothing is copied. So any part of a message keeps that whole buffer
// alive: copy what you keep for long (strings.Clone, bytes.Clone; proto.Clone copies
// bytes, but not text). Treat an element as immutable, as Beam demands: a step that is
// fused with yours may hold the same message. Setting a field to other bytes is fine on
// a copy, and append never writes into a neighbour: capacities end with the field.
//
// # Speed
//
// Messages of both schemas are encoded and decoded by generated code, without reflection
// and, where it counts, with fewer allocations. The generated code is used only for input
// that it treats as proto.Marshal and proto.Unmarshal do; a message with fields of a newer
// schema is decoded by proto.Unmarshal and copied. docs/performance.md has the numbers. The
// generated methods (MarshalVT and the like) are for this package: on their own they accept
// invalid text and write maps unsorted.
//
// # Limits
//
// Only pointers are messages. A PCollection of beamagentspb.AgentEnvelope, without
// the star, silently gets Beam's Row coder, which writes other bytes.
//
// # Differences
//
// Beam's built-in proto coder writes the same bytes, but does not promise to be
// deterministic, so that a message cannot be a key. The Python and Java runtimes write
// the same bytes, too; golden/README.md names the two known exceptions.
//
// # Update contract
//
// A running job knows a coder by the message's Go type and by the names of the two
// functions behind it. All messages share these two, so that nothing but a rename of
// this package or of the message could change them. Envelopes and projections of
// events have a pair each. All are frozen in golden/pipeline.
package coders
