// Package messagejson writes and reads the messages of beam_agents.v1 as JSON, one message
// a line.
//
// It has two forms, and loses nothing in either: unknown fields are in the member
// @unknown, in hex. [Append] and [Read] are protobuf's JSON mapping, with bytes in base64.
// [AppendReadable] and [ReadReadable] are that for people: an entity key that is text is
// the member key, and bytes that hold a JSON object or array show it, as do the detail of
// a dead letter and the arguments of an intent. So
//
//	{"entity_key":"YWNtZQ==","external_event":"eyJjZW50cyI6NX0="}
//
// is in the readable form
//
//	{"key":"acme","external_event":{"cents":5}}
//
// The readable form is a superset of the other for a reader.
package messagejson
