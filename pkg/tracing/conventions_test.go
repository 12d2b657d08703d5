package tracing_test

import (
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/beamagents/beamagents-go/pkg/tracing"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func TestSchemaURL(t *testing.T) {
	if tracing.SchemaURL != semconv.SchemaURL {
		t.Errorf("the file follows %s, the test %s", tracing.SchemaURL, semconv.SchemaURL)
	}
}

// published are the attributes of the conventions with a value of the type that the
// published package gives them. Those of the type any are JSON text in a span.
var published = []attribute.KeyValue{
	semconv.GenAIOperationNameChat, semconv.GenAIProviderNameAnthropic, semconv.ErrorTypeOther,
	semconv.GenAIConversationID(""), semconv.GenAIOutputTypeJSON, semconv.GenAIRequestChoiceCount(1),
	semconv.GenAIRequestModel(""), semconv.GenAIRequestSeed(1), semconv.GenAIRequestStream(true), semconv.ServerPort(1),
	semconv.GenAIRequestFrequencyPenalty(1), semconv.GenAIRequestMaxTokens(1), semconv.GenAIRequestPresencePenalty(1),
	semconv.GenAIRequestStopSequences(""), semconv.GenAIRequestTemperature(1), semconv.GenAIRequestTopK(1), semconv.GenAIRequestTopP(1),
	semconv.GenAIResponseFinishReasons(""), semconv.GenAIResponseID(""), semconv.GenAIResponseModel(""),
	semconv.GenAIResponseTimeToFirstChunk(1), semconv.GenAIUsageInputTokens(1), semconv.GenAIUsageOutputTokens(1),
	semconv.GenAIUsageCacheReadInputTokens(1), semconv.GenAIUsageCacheCreationInputTokens(1),
	semconv.GenAIUsageReasoningOutputTokens(1), semconv.ServerAddress(""),
	semconv.GenAIInputMessagesKey.String(""), semconv.GenAIOutputMessagesKey.String(""),
	semconv.GenAISystemInstructionsKey.String(""), semconv.GenAIToolDefinitionsKey.String(""),
	semconv.GenAIToolName(""), semconv.GenAIToolCallID(""), semconv.GenAIToolDescription(""), semconv.GenAIToolType(""),
	semconv.GenAIToolCallArgumentsKey.String(""), semconv.GenAIToolCallResultKey.String(""),
	semconv.GenAIAgentName(""), semconv.GenAIAgentID(""), semconv.GenAIAgentDescription(""), semconv.GenAIAgentVersion(""),
	semconv.GenAIDataSourceID(""),
}

func typeOf(t tracing.Type) attribute.Type {
	return map[tracing.Type]attribute.Type{
		tracing.String: attribute.STRING, tracing.Int: attribute.INT64, tracing.Double: attribute.FLOAT64,
		tracing.Bool: attribute.BOOL, tracing.StringList: attribute.STRINGSLICE, tracing.CommaList: attribute.STRINGSLICE,
	}[t]
}

// Names and types are those of the published package, and no name is there twice. What is
// not ours is published.
func TestConventionsArePublished(t *testing.T) {
	types := map[string]attribute.Type{}
	for _, kv := range published {
		types[string(kv.Key)] = kv.Value.Type()
	}
	seen := map[string]bool{}
	for _, c := range tracing.Conventions() {
		if seen[c.Name] {
			t.Errorf("%s is there twice", c.Name)
		}
		seen[c.Name] = true
		want, ok := types[c.Name]
		delete(types, c.Name)
		ours := strings.HasPrefix(c.Name, "beam_agents.")
		levels := c.Chat != "" || c.Tool != "" || c.Agent != ""
		switch {
		case ours == ok || ours == levels:
			t.Errorf("%s: published is %t, and it has a level: %t", c.Name, ok, levels)
		case ours && c.Source == "":
			t.Errorf("%s is ours and comes from nowhere", c.Name)
		case ok && typeOf(c.Type) != want:
			t.Errorf("%s is a %v, the conventions say %v", c.Name, typeOf(c.Type), want)
		}
	}
	for name := range types {
		t.Errorf("%s is published and not in the table", name)
	}
}

// A call of a model with everything that is known of it, as its TraceEvent has it, and what
// the span must have of it. The levels are those of the conventions for an inference span.
func TestModelCall(t *testing.T) {
	for _, tt := range []struct {
		name  string
		level tracing.Level
		text  string
		want  attribute.Value
	}{
		{"gen_ai.operation.name", tracing.Required, "chat", attribute.StringValue("chat")},
		{"gen_ai.provider.name", tracing.Required, "anthropic", attribute.StringValue("anthropic")},
		{"gen_ai.request.model", tracing.Conditional, "claude-opus-4-8", attribute.StringValue("claude-opus-4-8")},
		{"server.port", tracing.Conditional, "443", attribute.Int64Value(443)},
		{"error.type", tracing.Conditional, "429", attribute.StringValue("429")},
		{"server.address", tracing.Recommended, "api.anthropic.com", attribute.StringValue("api.anthropic.com")},
		{"gen_ai.response.model", tracing.Recommended, "claude-opus-4-8-1", attribute.StringValue("claude-opus-4-8-1")},
		{"gen_ai.response.id", tracing.Recommended, "msg_1", attribute.StringValue("msg_1")},
		{"gen_ai.response.finish_reasons", tracing.Recommended, `["stop","length"]`, attribute.StringSliceValue([]string{"stop", "length"})},
		// The cached tokens are counted in: 1000 read and 200 written of 1234.
		{"gen_ai.usage.input_tokens", tracing.Recommended, "1234", attribute.Int64Value(1234)},
		{"gen_ai.usage.cache_read.input_tokens", tracing.Recommended, "1000", attribute.Int64Value(1000)},
		{"gen_ai.usage.cache_creation.input_tokens", tracing.Recommended, "200", attribute.Int64Value(200)},
		{"gen_ai.usage.output_tokens", tracing.Recommended, "567", attribute.Int64Value(567)},
		{"beam_agents.cache_hit", "", "false", attribute.BoolValue(false)},
		{"beam_agents.billed", "", "true", attribute.BoolValue(true)},
		{"beam_agents.duration_ms", "", "1500", attribute.Int64Value(1500)},
		{"beam_agents.offset_ms", "", "20", attribute.Int64Value(20)},
	} {
		e := &pb.TraceEvent{TraceId: traceID, SpanId: spanID, EventType: pb.TraceEvent_LLM_CALL, Attributes: map[string]string{tt.name: tt.text}}
		span, verdict := tracing.Span(e, tracing.Options{})
		if verdict != tracing.Mapped || span.SpanKind() != trace.SpanKindClient {
			t.Fatalf("%v: %v", verdict, span)
		}
		if got, ok := attributesOf(span)[tt.name]; !ok || got != tt.want {
			t.Errorf("%s is %v, want %v", tt.name, got.String(), tt.want.String())
		}
		i := slices.IndexFunc(tracing.Conventions(), func(c tracing.Convention) bool { return c.Name == tt.name })
		if c := tracing.Conventions()[i]; c.Chat != tt.level || c.Source == "" {
			t.Errorf("%s is %q and comes from %q, want %q", tt.name, c.Chat, c.Source, tt.level)
		}
	}
	// What is required is set.
	for _, c := range tracing.Conventions() {
		if (c.Chat == tracing.Required || c.Tool == tracing.Required || c.Agent == tracing.Required) && c.Source == "" {
			t.Errorf("%s is required and nothing sets it", c.Name)
		}
	}
}

// The levels on spans of tools and agents that are required there.
func TestRequiredLevels(t *testing.T) {
	var tool, agent []string
	for _, c := range tracing.Conventions() {
		if c.Tool == tracing.Required {
			tool = append(tool, c.Name)
		}
		if c.Agent == tracing.Required {
			agent = append(agent, c.Name)
		}
	}
	if !slices.Equal(tool, []string{"gen_ai.operation.name", "gen_ai.tool.name"}) || !slices.Equal(agent, []string{"gen_ai.operation.name", "gen_ai.provider.name"}) {
		t.Errorf("of tools %q, of agents %q", tool, agent)
	}
}
