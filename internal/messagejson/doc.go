// Package messagejson writes and reads the messages of beam_agents.v1 as JSON, one message per
// line.
//
// There are two forms. Both keep everything: unknown fields are the member @unknown, in
// hexadecimal. [Append] and [Read] use protobuf's JSON mapping, with bytes in base64.
// [AppendReadable] and [ReadReadable] use a form for people: an entity key that is text is the
// member key, and bytes that hold a JSON object or array show that JSON. So do the detail of a
// dead letter and the arguments of an intent. For example,
//
//	{"entity_key":"YWNtZQ==","external_event":"eyJjZW50cyI6NX0="}
//
// is, in the readable form,
//
//	{"key":"acme","external_event":{"cents":5}}
//
// A reader of the readable form also reads the other form.
package messagejson
