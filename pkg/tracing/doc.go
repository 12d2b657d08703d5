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
// [Span] depends only on the event, so an event that is exported twice gives the same span twice.
// The trace id, the span id and the parent's id are those of the event.
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
// ACTIVATION_START makes no span, because ACTIVATION_END has the same ids and all its data. An
// event without a trace id makes no span either, and neither does an event with an id of a wrong
// length; the [Verdict] says which it was. The span of an event of an unknown type is named after
// the number of the type.
//
// An activation that suspends and is resumed has one attempt for its start and one for each
// resume. Each resumed attempt is a span of its own, a child of the first attempt in the same
// trace, even if days lie between. The span covers the time of its own attempt;
// beam_agents.activation.started_ms says when the first attempt began. The traceparent of a
// caller becomes a link. [IntentContext] returns the span of an intent, for the program that
// executes the intent.
//
// Attributes of the OpenTelemetry conventions have the types of the conventions; [Conventions]
// lists them and the attributes of this library with their types. A span has the status error if
// its event is an ERROR or has an error.type, and otherwise no status.
//
// The times of events are milliseconds of event time. beam_agents.offset_ms is added to the start
// of a span, and beam_agents.duration_ms is its length. Without these attributes a span of
// RunAgent has length zero.
//
// # Limits
//
// A value that is not of the type of its attribute is left out and counted in the
// DroppedAttributes of the span. Invalid UTF-8 is replaced by U+FFFD. Times are limited to the
// years 1970 to 2262, the range of OTLP's nanoseconds.
package tracing
