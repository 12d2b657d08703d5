package tracing_test

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/beamagents/beamagents-go/pkg/tracing"
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
