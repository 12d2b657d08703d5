// Package transforms takes envelopes and intents through a Beam pipeline: parse, key,
// run agents, route, sign, verify, and keep what fails.
//
//	parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, raw)
//	keyed := transforms.KeyByEntity(s, parsed.Envelopes)
//	routed := transforms.Route(s, keyed)
//	encoded := transforms.EncodeErrors(s, transforms.EncodeErrorsParams{},
//		beam.Flatten(s, parsed.Errors, routed.Errors))
//
// RunAgent runs an agent (package agent) on keyed envelopes, in place of Route:
//
//	func init() { transforms.RegisterAgent[*Refunds]() }
//
//	agents := transforms.RunAgent(s, transforms.AgentParams{
//		Name: "refunds", Agent: &Refunds{LimitCents: 5000},
//	}, keyed)
//	// agents.Outputs, agents.Intents, agents.Traces, agents.Snapshots, agents.Errors
//
// Intents go out by kind, signed, and come back in through a check:
//
//	kinds := transforms.RouteIntents(s, intents)
//	signed := transforms.SignIntents(s, transforms.SignParams{Keyring: "env:KEYS", KeyID: "k1"}, kinds.Tools)
//	messages := transforms.EncodeIntents(s, transforms.EncodeIntentsParams{}, signed.Intents)
//
//	decoded := transforms.DecodeIntents(s, received)
//	verified := transforms.VerifyIntents(s, transforms.VerifyParams{
//		Mode: intent.ModeRequire, Keyring: "env:KEYS",
//	}, decoded.Intents)
//
// The events of coding agents (package events) have transforms of their own:
//
//	decoded := transforms.DecodeEvents(s, raw)
//	rows := transforms.ProjectEvents(s, decoded.Events)
//	envelopes := transforms.EventsToEnvelopes(s, decoded.Events)
//	traces := transforms.EventsToTraces(s, decoded.Events)
//	letters := beam.Flatten(s, decoded.Errors, envelopes.Errors, traces.Errors,
//		transforms.DeadLetteredCommands(s, decoded.Events))
//
// Traces, of agents and of coding agents, go to an exporter of OpenTelemetry:
//
//	transforms.ExportTraces(s, transforms.ExportTracesParams{}, agents.Traces)
//
// A pipeline that reads files and writes files needs nothing else:
//
//	read := transforms.ReadEnvelopes(s, transforms.ReadParams{}, "in/*.jsonl")
//	routed := transforms.Route(s, transforms.KeyByEntity(s, read.Envelopes))
//	transforms.WriteFolder(s, "out", map[string]beam.PCollection{
//		"events.jsonl":       routed.Events,
//		"dead_letters.jsonl": beam.Flatten(s, read.Errors, routed.Errors),
//	})
//
// # Behaviour
//
// Nothing is lost and no bundle fails because of data: every element comes out of one
// output, and what a step cannot handle comes out of Errors as a dead letter with its
// input (package deadletter). The spans of ExportTraces are no data: it drops and counts them.
// Do not leave an Errors output unread. EventsToTraces and
// DeadLetteredCommands pick what they need from events that are also used otherwise;
// where several transforms take the same events, each that refuses one says so.
//
// A transform with options takes a Params struct. Its zero value is ready to use, except
// where a choice about security must be written: SignParams and VerifyParams.
// Bad options, a PCollection of another type, or a function that a worker could not
// find panic while the pipeline is built, as everywhere in Beam, and say what to change.
//
// All transforms here but RunAgent are stateless and run on every runner, the legacy direct
// runner included. They keep an element's timestamp, but for ParseEnvelopes, ReadEnvelopes and
// EventsToEnvelopes, which set it, and EventsToTraces, which groups by key. The legacy
// direct runner stamps what a GroupByKey emits in its own way, so WriteFolder may order
// such elements otherwise there.
//
// A dead letter about an intent holds its deterministic encoding as input, its creation
// as event time, and its seq, step and id as position. An intent with text that is not
// UTF-8 has no encoding. It can come only from user code that the runner has fused with
// the transform, and is a dead letter like the others: its input is a copy with U+FFFD
// in place of the bytes that are not UTF-8, and the error says so.
//
// Signing keys are named by reference, and found on the worker. The pipeline graph, a
// log line, an error and a dead letter hold the reference and the id of the key at most.
//
// # RunAgent
//
// The activations of a key run one after the other, in the order of arrival; those of
// different keys run at once, as many as AgentParams.Concurrency allows in a worker
// process. The state of a key is read once and written once per bundle, and outputs leave
// when the bundle ends. When the keys of a bundle hold more than 64 MiB, those that are idle
// are written early and their outputs leave.
//
// RunAgent needs a runner with state and event-time timers, which the legacy direct runner
// is not, and input in the global window. Each output is at the event time of its
// activation: of the trigger, or of the deadline. A suspension does not hold the watermark,
// unless AgentParams.HoldWatermark is set.
//
// Code of the agent that fails, in whatever way, makes a dead letter. A bundle fails if
// state cannot be read or written, if it is of a newer version than this build knows, if
// the agent's Setup fails, or if more than 64 activations of the worker process go on after
// their time limit.
//
// # Counters
//
// The table of all counters and distributions is in docs/metrics.md, and [WriteMetrics]
// prints those of a job. They are in the namespace [MetricsNamespace], and those of
// ExportTraces in [ExportNamespace]. Each dead letter is counted as errors_ followed by a
// reason of package deadletter. One that came back as an input and failed again is counted
// under the reason found now, though its record keeps the first one. VerifyIntents counts
// each intent under one name.
//
// # Limits
//
// A message that user code builds with text that is not UTF-8 fails the coder, and so
// its bundle, where it is built. MapEnvelopes checks what a user's function returns, and
// the transforms of intents what they are handed.
//
// A stack overflow, a concurrent map write, or another fatal error of the Go runtime
// in user code ends the worker; nothing can recover from these.
//
// # Differences
//
// Other implementations run an agent on the empty event where an envelope has no
// payload or one of a newer schema; here these are dead letters. They write text of any
// form into the detail of a record; DecodeErrors reads theirs, too.
//
// # Update contract
//
// Scope names, the order of inputs and outputs, and the names of counters are read by
// running jobs and never change. They are frozen in golden/pipeline.
//
// RunAgent keeps its state in the cells control, memory, llm_cache and deferred, and has
// the timer family agent with the tags deadline, ttl and wake. AgentParams.Name is stored
// with each suspension. The other parameters, and the fields of an agent, may change.
package transforms
