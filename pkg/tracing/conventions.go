package tracing

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/attribute"
)

// SchemaURL names the version of the OpenTelemetry semantic conventions that this file follows
// for names, types and requirement levels. It is the latest version whose Go package has the
// GenAI attributes. That package has names and types. The levels are those of
// model/gen-ai/deprecated/spans-deprecated.yaml, where the conventions keep the GenAI spans of
// 1.41.0 since these moved to another repository.
const SchemaURL = "https://opentelemetry.io/schemas/1.41.0"

// Type is the type of an attribute in a span. In a TraceEvent all values are text.
type Type uint8

// The types, each with the text form that a TraceEvent has for it.
const (
	String     Type = iota // any text
	Int                    // decimal
	Double                 // decimal, with an optional fraction and exponent
	Bool                   // true or false
	StringList             // a JSON array of strings
	CommaList              // strings separated by commas; a list of strings in the span
)

// Level says how strongly the conventions require an attribute on a kind of span.
type Level string

// The requirement levels. Attributes of this library have no level.
const (
	Required    Level = "required"
	Conditional Level = "conditionally required"
	Recommended Level = "recommended"
	OptIn       Level = "opt-in" // contents, which are exported only on request
)

// Convention describes an attribute.
type Convention struct {
	Name string
	Type Type
	// Chat, Tool and Agent are the levels on the spans chat, execute_tool and invoke_agent. A
	// level is empty if the conventions do not list the attribute there.
	Chat, Tool, Agent Level
	// Source says where the value comes from. It is empty if this library does not set the
	// attribute; an agent can, with Activation.SetAttribute.
	Source string
}

// Conventions returns the attributes whose type is known, in a fixed order: those of the
// OpenTelemetry conventions and those of this library. All other attributes are text.
func Conventions() []Convention { return append([]Convention(nil), conventions...) }

const (
	operationName = "gen_ai.operation.name"
	agentName     = "gen_ai.agent.name"
	requestModel  = "gen_ai.request.model"
	toolName      = "gen_ai.tool.name"
	errorType     = "error.type"
	serverAddress = "server.address"

	traceparentName = "beam_agents.traceparent"
	durationName    = "beam_agents.duration_ms"
	offsetName      = "beam_agents.offset_ms"
	reasonName      = "beam_agents.reason"
	ownToolName     = "beam_agents.tool_name"
	intentKindName  = "beam_agents.intent_kind"
	adapterName     = "beam_agents.adapter"

	entityKeyName = "beam_agents.entity_key"
	seqName       = "beam_agents.seq"
	stepName      = "beam_agents.step"
)

var conventions = []Convention{
	{operationName, String, Required, Required, Required, "the event; else its type says it"},
	{"gen_ai.provider.name", String, Required, "", Required, "the client of the model; agent_end of a run; an activation has none, since it may call several models"},
	{errorType, String, Conditional, Conditional, Conditional, "the failure; _OTHER if it has no name"},
	{"gen_ai.conversation.id", String, Conditional, "", Conditional, "the session of a run"},
	{"gen_ai.output.type", String, Conditional, "", Conditional, ""},
	{"gen_ai.request.choice.count", Int, Conditional, "", Conditional, ""},
	{requestModel, String, Conditional, "", Conditional, "the request; agent_end of a run"},
	{"gen_ai.request.seed", Int, Conditional, "", Conditional, ""},
	{"gen_ai.request.stream", Bool, Conditional, "", "", ""},
	{"server.port", Int, Conditional, "", "", "the URL of the request"},
	{"gen_ai.request.frequency_penalty", Double, Recommended, "", Recommended, ""},
	{"gen_ai.request.max_tokens", Int, Recommended, "", Recommended, ""},
	{"gen_ai.request.presence_penalty", Double, Recommended, "", Recommended, ""},
	{"gen_ai.request.stop_sequences", StringList, Recommended, "", Recommended, ""},
	{"gen_ai.request.temperature", Double, Recommended, "", Recommended, ""},
	{"gen_ai.request.top_k", Double, Recommended, "", "", ""},
	{"gen_ai.request.top_p", Double, Recommended, "", Recommended, ""},
	{"gen_ai.response.finish_reasons", StringList, Recommended, "", Recommended, "the response"},
	{"gen_ai.response.id", String, Recommended, "", "", "the response; agent_end of a run"},
	{"gen_ai.response.model", String, Recommended, "", "", "the response, where it says it; agent_end of a run"},
	{"gen_ai.response.time_to_first_chunk", Double, Recommended, "", "", ""},
	{"gen_ai.usage.input_tokens", Int, Recommended, "", Recommended, "the response, with the cached tokens counted in; turn_end, agent_end or model_usage_bound of a run"},
	{"gen_ai.usage.output_tokens", Int, Recommended, "", Recommended, "the response; turn_end, agent_end or model_usage_bound of a run"},
	{"gen_ai.usage.cache_read.input_tokens", Int, Recommended, "", Recommended, "the response, where it says it; turn_end, agent_end or model_usage_bound of a run"},
	{"gen_ai.usage.cache_creation.input_tokens", Int, Recommended, "", Recommended, "the response, where it says it; turn_end, agent_end or model_usage_bound of a run"},
	{"gen_ai.usage.reasoning.output_tokens", Int, Recommended, "", "", ""},
	{serverAddress, String, Recommended, "", "", "the URL of the request"},
	{"gen_ai.input.messages", String, OptIn, "", OptIn, ""},
	{"gen_ai.output.messages", String, OptIn, "", OptIn, ""},
	{"gen_ai.system_instructions", String, OptIn, "", OptIn, ""},
	{"gen_ai.tool.definitions", String, OptIn, "", OptIn, ""},

	{toolName, String, "", Required, "", "the event; else beam_agents.tool_name"},
	{"gen_ai.tool.call.id", String, "", Recommended, "", "tool_start of a run"},
	{"gen_ai.tool.description", String, "", Recommended, "", ""},
	{"gen_ai.tool.type", String, "", Recommended, "", ""},
	{"gen_ai.tool.call.arguments", String, "", OptIn, "", ""},
	{"gen_ai.tool.call.result", String, "", OptIn, "", ""},

	{agentName, String, "", "", Conditional, "AgentParams.Name; subagent_start of a run"},
	{"gen_ai.agent.id", String, "", "", Conditional, ""},
	{"gen_ai.agent.description", String, "", "", Conditional, ""},
	{"gen_ai.agent.version", String, "", "", Conditional, ""},
	{"gen_ai.data_source.id", String, "", "", Conditional, ""},

	{entityKeyName, String, "", "", "", "the entity key of the event; 0x and hexadecimal if it is not UTF-8"},
	{seqName, Int, "", "", "", "the activation of the event"},
	{stepName, Int, "", "", "", "the step of the event"},
	{"beam_agents.activation.kind", String, "", "", "", "start or resume"},
	{"beam_agents.activation.status", String, "", "", "", "completed, suspended or incomplete"},
	{"beam_agents.activation.started_ms", Int, "", "", "", "when the first attempt of a resumed activation began, by event time"},
	{durationName, Int, "", "", "", "AgentParams.MeasureDurations"},
	{offsetName, Int, "", "", "", "AgentParams.MeasureDurations, from the begin of the attempt"},
	{"beam_agents.cache_hit", Bool, "", "", "", "the replay cache had the response"},
	{"beam_agents.billed", Bool, "", "", "", "the provider was called"},
	{"beam_agents.response_differs", Bool, "", "", "", "a response that differs from the digest in the replay cache"},
	{"beam_agents.replay_divergence", String, "", "", "", "requests of a resumed activation that differ from those before"},
	{"beam_agents.intent_id", String, "", "", "", "the intent"},
	{ownToolName, String, "", "", "", "the intent, or the tool call"},
	{intentKindName, String, "", "", "", "the intent: TOOL or APPROVAL"},
	{"beam_agents.expires_at_ms", Int, "", "", "", "the intent"},
	{"beam_agents.channel", String, "", "", "", "the route of an escalation"},
	{"beam_agents.deadline_ms", Int, "", "", "", "the suspension"},
	{adapterName, String, "", "", "", "the agent of the suspension"},
	{"beam_agents.pending_intent_ids", CommaList, "", "", "", "the suspension"},
	{reasonName, String, "", "", "", "the dead letter's reason; the text of an error of a run"},
	{"beam_agents.failure.step", Int, "", "", "", "the activation that failed"},
	{"beam_agents.failure.staged_intents", Int, "", "", "", "the activation that failed"},
	{"beam_agents.failure.last_event", String, "", "", "", "the activation that failed"},
	{"beam_agents.run_id", String, "", "", "", "the run"},
	{"beam_agents.turn", Int, "", "", "", "turn_start of a run"},
	{"beam_agents.incomplete", Bool, "", "", "", "a turn or a call of a run that has no end"},
	{"beam_agents.exit_code", Int, "", "", "", "tool_end of a run"},
	{"beam_agents.subagent.session_id", String, "", "", "", "subagent_start of a run: the gen_ai.conversation.id of the subagent's own trace"},
	{"beam_agents.verification.status", String, "", "", "", "agent_end of a run"},
}

var conventionOf = func() map[string]Convention {
	byName := map[string]Convention{}
	for _, c := range conventions {
		byName[c.Name] = c
	}
	return byName
}()

// isContent reports whether an attribute holds what a user, a model or a tool said. Such
// attributes are those of level OptIn here, those of other kinds of spans, and those of older
// versions of the conventions.
func isContent(name string) bool {
	switch name {
	case "gen_ai.retrieval.query.text", "gen_ai.retrieval.documents", "gen_ai.evaluation.explanation",
		"gen_ai.prompt", "gen_ai.completion":
		return true
	}
	c := conventionOf[name]
	return c.Chat == OptIn || c.Tool == OptIn || c.Agent == OptIn
}

// value converts a text to a typed value. ok is false if the text is not of the type.
func (t Type) value(text string) (attribute.Value, bool) {
	switch t {
	case Int:
		n, err := strconv.ParseInt(text, 10, 64)
		return attribute.Int64Value(n), err == nil
	case Double:
		f, err := strconv.ParseFloat(text, 64)
		return attribute.Float64Value(f), err == nil
	case Bool:
		return attribute.BoolValue(text == "true"), text == "true" || text == "false"
	case StringList:
		var list []string
		err := json.Unmarshal([]byte(text), &list)
		return attribute.StringSliceValue(list), err == nil && list != nil
	case CommaList:
		if text == "" {
			return attribute.StringSliceValue(nil), true
		}
		return attribute.StringSliceValue(strings.Split(valid(text), ",")), true
	}
	return attribute.StringValue(valid(text)), true
}

// valid replaces invalid UTF-8 by U+FFFD, because an OTLP exporter loses the whole batch over one
// invalid text.
func valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
