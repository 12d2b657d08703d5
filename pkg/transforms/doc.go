// Package transforms holds the Beam transforms of agent pipelines. They parse envelopes and key
// them, run agents on them, route, sign and verify the intents of the agents, decode the events
// of coding agents, export traces, and read and write files.
//
// An envelope (AgentEnvelope) carries one message to one key: an event, the result of a tool, a
// decision about an approval, or a request to export state. An intent (ToolIntent) is a tool call
// or a request for approval that an agent has decided on and another program carries out. A dead
// letter (ActivationErrorRecord) holds an input that a step could not handle, and says why. A
// pipeline that routes envelopes without an agent:
//
//	parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, raw)
//	keyed := transforms.KeyByEntity(s, parsed.Envelopes)
//	routed := transforms.Route(s, keyed)
//	encoded := transforms.EncodeErrors(s, transforms.EncodeErrorsParams{},
//		beam.Flatten(s, parsed.Errors, routed.Errors))
//
// RunAgent runs an agent (package agent) on keyed envelopes. Use it in place of Route:
//
//	func init() { transforms.RegisterAgent[*Refunds]() }
//
//	agents := transforms.RunAgent(s, transforms.AgentParams{
//		Name: "refunds", Agent: &Refunds{LimitCents: 5000},
//	}, keyed)
//	// agents.Outputs, agents.Intents, agents.Traces, agents.Snapshots, agents.Errors
//
// Intents leave the pipeline by kind, and signed. The intents that a topic delivers are verified
// before they are used:
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
// ExportTraces sends traces, of agents and of coding agents, to an OpenTelemetry exporter:
//
//	transforms.ExportTraces(s, transforms.ExportTracesParams{}, agents.Traces)
//
// A pipeline can read its input from files and write its outputs to files:
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
// Bad data becomes a dead letter and does not fail a bundle. An element that a step cannot handle
// comes out of Errors, as a dead letter that keeps the input (package deadletter). Read every
// Errors output, or these inputs are lost. Three transforms deserve a note:
//
//   - EventsToTraces and DeadLetteredCommands pick the events that they need and ignore the
//     others. When several transforms read the same events, each of them emits its own dead
//     letter for an event that it refuses.
//   - ExportTraces drops the spans that it cannot deliver, and counts them. It makes no dead
//     letters.
//
// A transform with options takes a Params struct whose zero value is ready to use. SignParams and
// VerifyParams are the exception: there the choice must be written, because it is about security.
// Bad options, a PCollection of the wrong type, and a function that a worker could not find panic
// while the pipeline is built. The panic says what to change.
//
// All transforms but RunAgent keep no state and run on every runner, the legacy direct runner
// included. They keep the timestamp of an element, with these exceptions: ParseEnvelopes,
// ReadEnvelopes and EventsToEnvelopes set it to the event time, and EventsToTraces groups by key,
// so its output has the end of the window. The legacy direct runner stamps the output of a
// GroupByKey differently, so WriteFolder may order such elements differently there.
//
// A dead letter about an intent holds the deterministic encoding of the intent as its input, the
// creation time of the intent as its event time, and the seq, step and id of the intent as its
// position. An intent with text that is not UTF-8 cannot be encoded. Only user code that the
// runner has fused with the transform can hand one over. Its dead letter holds a copy with U+FFFD
// in place of the invalid bytes, and its error says so.
//
// A signing key is named by a reference, and the worker looks the key up. The pipeline graph, log
// lines, errors and dead letters hold the reference and the id of the key at most.
//
// # RunAgent
//
// The activations of one key run one after the other, in the order in which their inputs arrive.
// Activations of different keys run at once, up to AgentParams.Concurrency of them in a worker
// process. RunAgent reads the state of a key once per bundle, writes it once, and emits the
// outputs when the bundle ends. When the keys of a bundle hold more than 64 MiB, the state and
// the outputs of idle keys are written and emitted before the end of the bundle.
//
// RunAgent needs a runner with state and event-time timers; the legacy direct runner has neither,
// and RunAgent refuses to be built for it. The input must be in the global window. An output has
// the event time of its activation, which is that of the trigger or of the deadline. A suspension
// does not hold the watermark unless AgentParams.HoldWatermark is set.
//
// An activation whose code fails becomes a dead letter, whatever the failure is: an error, a
// panic, runtime.Goexit or the time limit. A bundle fails, and the runner retries it, in these
// cases:
//
//   - State cannot be read or written.
//   - State is of a newer version than this build knows. The bundle fails again at each retry,
//     until workers with a newer build run.
//   - The Setup of the agent fails.
//   - More than 64 activations of the worker process still run after their time limit.
//
// # Counters
//
// docs/metrics.md lists all counters and distributions, and [WriteMetrics] prints those of a job.
// Their namespace is [MetricsNamespace]; that of ExportTraces is [ExportNamespace]. Each dead
// letter adds one to errors_<reason>, where the reason is one of package deadletter. A dead
// letter that came back as an input and failed again counts under the reason of the new failure,
// though its record keeps the first reason. VerifyIntents counts each intent in exactly one
// counter.
//
// # Limits
//
// If user code emits a message with text that is not UTF-8, the coder of that message fails, and
// with it the bundle. Two kinds of transforms check for such text: MapEnvelopes checks what the
// user's function returns, and the transforms of intents check the intents that they are handed.
//
// A stack overflow, a concurrent map write or another fatal error of the Go runtime in user code
// ends the worker process. Go cannot recover from these errors.
//
// # Differences from other languages
//
// For an envelope without a payload, or with a payload of a newer schema, other implementations
// run the agent on the empty event. Here both are dead letters. Other implementations write free
// text into the detail of a record; DecodeErrors reads those records too.
//
// # Update contract
//
// The names of scopes, the order of inputs and outputs, and the names of counters never change,
// because running jobs know them. They are frozen in golden/pipeline.
//
// RunAgent keeps its state in the cells control, memory, llm_cache and deferred. It has the timer
// family agent with the tags deadline, ttl and wake. It stores AgentParams.Name with each
// suspension, so the name never changes. The other parameters, and the fields of an agent, may
// change.
package transforms
