// Package transforms takes envelopes through a Beam pipeline: parse, key, route, and
// keep what fails.
//
//	parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, raw)
//	keyed := transforms.KeyByEntity(s, parsed.Envelopes)
//	routed := transforms.Route(s, keyed)
//	encoded := transforms.EncodeErrors(s, transforms.EncodeErrorsParams{},
//		beam.Flatten(s, parsed.Errors, routed.Errors))
//
// # Behaviour
//
// Nothing is lost and no bundle fails because of data: every element comes out of one
// output, and what a step cannot handle comes out of Errors as a dead letter with its
// input (package deadletter). Do not leave an Errors output unread.
//
// A transform with options takes a Params struct whose zero value is ready to use.
// Bad options, a PCollection of another type, or a function that a worker could not
// find panic while the pipeline is built, as everywhere in Beam, and say what to change.
//
// All transforms here are stateless and run on every runner, the legacy direct runner
// included. They keep an element's timestamp, but for ParseEnvelopes, which sets it.
//
// # Counters
//
// In the namespace [MetricsNamespace]: envelopes_parsed; envelopes_routed_event,
// envelopes_routed_tool_result, envelopes_routed_approval,
// envelopes_routed_export_request; errors_ followed by a reason of package deadletter.
//
// # Limits
//
// A message that user code builds with text that is not UTF-8 fails the coder, and so
// its bundle, where it is built. MapEnvelopes checks what a user's function returns.
//
// A stack overflow, a concurrent map write, or another fatal error of the Go runtime
// in user code ends the worker; nothing can recover from these.
//
// # Update contract
//
// Scope names, the order of inputs and outputs, and the names of counters are read by
// running jobs and never change. They are frozen in golden/pipeline.
package transforms
