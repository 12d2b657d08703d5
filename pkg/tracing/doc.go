// Package tracing maps the TraceEvents of agents to OpenTelemetry spans.
//
//	span, verdict := tracing.Span(event, tracing.Options{})
//	if verdict == tracing.Mapped {
//		err := exporter.ExportSpans(ctx, []sdktrace.ReadOnlySpan{span})
//	}
//
// In a pipeline, transforms.ExportTraces does this.
//
// # Behaviour
//
// [Span] is a function of the event alone, so that an event that is exported twice is the
// same span twice. The trace id, the span id and the parent's id are those of the event.
//
//	event                    span                                 kind
//	ACTIVATION_END           invoke_agent {agent}                 INTERNAL
//	LLM_CALL                 chat {model}                         CLIENT
//	LLM_CALL of no model     request {server.address}             CLIENT
//	TOOL_CALL                execute_tool {tool}                  INTERNAL
//	TOOL_CALL of a subagent  invoke_agent {agent}                 INTERNAL
//	INTENT_EMITTED           emit_intent {tool}, for an approval  PRODUCER
//	                         request_approval {tool}
//	SUSPENDED                suspend {agent}                      INTERNAL
//	ERROR of an activation   invoke_agent {agent}                 INTERNAL
//	another ERROR            error {error.type}                   INTERNAL
//
// ACTIVATION_START makes no span: ACTIVATION_END has the same ids and says all that it
// says. An event of a type that this package does not know is a span of its number.
//
// A resumed activation is a span in the trace of its first attempt, whose child it is, even
// days later: it covers the time of the attempt, and beam_agents.activation.started_ms says
// when the first attempt began. The traceparent of a caller becomes a link. [IntentContext]
// returns the span of an intent, for the program that executes it.
//
// The attributes of the OpenTelemetry conventions have the types that these give them, and
// so have ours; see [Conventions]. The status is an error exactly where the event is an
// ERROR or has an error.type.
//
// Events carry milliseconds of event time. beam_agents.offset_ms moves the begin of a span,
// and beam_agents.duration_ms is its width; without them a span of RunAgent has none.
//
// # Limits
//
// A value that is not of its attribute's type is left out and counted in the span's
// DroppedAttributes. Text that is not UTF-8 has U+FFFD in its place. Times are kept within
// the years 1970 to 2262, which is what the nanoseconds of OTLP can say.
package tracing
