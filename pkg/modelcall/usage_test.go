package modelcall_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The attributes of the responses of the APIs that are read. The names are those of
// go.opentelemetry.io/otel/semconv/v1.41.0.
func TestAttributes(t *testing.T) {
	sse := func(data ...string) string {
		var b strings.Builder
		for _, d := range data {
			fmt.Fprintf(&b, "data: %s\r\n\r\n", d)
		}
		return b.String()
	}
	common := map[string]string{"gen_ai.operation.name": "chat", "gen_ai.request.model": "asked"}
	for name, tt := range map[string]struct {
		body string
		want map[string]string
	}{
		"chat completion": {
			`{"id":"c1","object":"chat.completion","model":"m-1","choices":[{"finish_reason":"stop","message":{"content":"a"}},{"finish_reason":"length"}],
			"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":60}}}`,
			map[string]string{
				"gen_ai.provider.name": "openai", "gen_ai.response.model": "m-1", "gen_ai.response.id": "c1",
				"gen_ai.response.finish_reasons": `["stop","length"]`, "gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": "20",
				"gen_ai.usage.cache_read.input_tokens": "60",
			},
		},
		"chat completion, streamed": {
			sse(`{"id":"c2","object":"chat.completion.chunk","model":"m-1","choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":null}`,
				`{"id":"c2","object":"chat.completion.chunk","model":"m-1","choices":[{"delta":{},"finish_reason":"stop"}]}`,
				`{"id":"c2","object":"chat.completion.chunk","model":"m-1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, `[DONE]`),
			map[string]string{
				"gen_ai.provider.name": "openai", "gen_ai.response.model": "m-1", "gen_ai.response.id": "c2",
				"gen_ai.response.finish_reasons": `["stop"]`, "gen_ai.usage.input_tokens": "3", "gen_ai.usage.output_tokens": "2",
			},
		},
		"response": {
			`{"id":"r1","object":"response","model":"m-2","status":"completed","error":null,"usage":{"input_tokens":7,"output_tokens":8,"input_tokens_details":{"cached_tokens":5}}}`,
			map[string]string{
				"gen_ai.provider.name": "openai", "gen_ai.response.model": "m-2", "gen_ai.response.id": "r1",
				"gen_ai.response.finish_reasons": `["completed"]`, "gen_ai.usage.input_tokens": "7", "gen_ai.usage.output_tokens": "8",
				"gen_ai.usage.cache_read.input_tokens": "5",
			},
		},
		"response, streamed": {
			sse(`{"type":"response.created","response":{"id":"r2","model":"m-2","status":"in_progress","usage":null}}`,
				`{"type":"response.output_text.delta","delta":"hi"}`,
				`{"type":"response.incomplete","response":{"id":"r2","model":"m-2","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":7,"output_tokens":8}}}`),
			map[string]string{
				"gen_ai.provider.name": "openai", "gen_ai.response.model": "m-2", "gen_ai.response.id": "r2",
				"gen_ai.response.finish_reasons": `["max_output_tokens"]`, "gen_ai.usage.input_tokens": "7", "gen_ai.usage.output_tokens": "8",
			},
		},
		"message": {
			`{"id":"a1","type":"message","model":"m-3","stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":200,"cache_creation_input_tokens":30}}`,
			map[string]string{
				"gen_ai.provider.name": "anthropic", "gen_ai.response.model": "m-3", "gen_ai.response.id": "a1",
				"gen_ai.response.finish_reasons": `["end_turn"]`, "gen_ai.usage.input_tokens": "240", "gen_ai.usage.output_tokens": "5",
				"gen_ai.usage.cache_read.input_tokens": "200", "gen_ai.usage.cache_creation.input_tokens": "30",
			},
		},
		"message, streamed": {
			sse(`{"type":"message_start","message":{"id":"a2","type":"message","model":"m-3","usage":{"input_tokens":10,"output_tokens":1,"cache_read_input_tokens":4}}}`,
				`{"type":"ping"}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}`,
				`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":15}}`, `{"type":"message_stop"}`),
			map[string]string{
				"gen_ai.provider.name": "anthropic", "gen_ai.response.model": "m-3", "gen_ai.response.id": "a2",
				"gen_ai.response.finish_reasons": `["tool_use"]`, "gen_ai.usage.input_tokens": "14", "gen_ai.usage.output_tokens": "15",
				"gen_ai.usage.cache_read.input_tokens": "4",
			},
		},
		"numbers that are none": {
			`{"id":7,"object":"chat.completion","model":"m-1","usage":{"prompt_tokens":-5,"completion_tokens":99999999999999999}}`,
			map[string]string{
				"gen_ai.provider.name": "openai", "gen_ai.response.model": "m-1",
				"gen_ai.usage.input_tokens": "0", "gen_ai.usage.output_tokens": "1099511627776",
			},
		},
		"another API": {`{"embedding":[1]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if strings.HasPrefix(tt.body, "data:") {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				_, _ = io.WriteString(w, tt.body)
			})
			for _, hit := range []string{"false", "true"} {
				c := b.begin()
				if _, err := b.ask(c, `{"model":"asked"}`); err != nil {
					t.Fatal(err)
				}
				left := b.end(c)
				if len(left.Calls) != 1 {
					t.Fatalf("left %+v", left)
				}
				got := left.Calls[0].Attributes()
				if got["server.address"] != "127.0.0.1" || got["server.port"] == "" {
					t.Errorf("server %q %q", got["server.address"], got["server.port"])
				}
				delete(got, "server.address")
				delete(got, "server.port")
				want := map[string]string{"beam_agents.cache_hit": hit, "beam_agents.billed": map[string]string{"true": "false", "false": "true"}[hit]}
				maps.Copy(want, common)
				maps.Copy(want, tt.want)
				if tt.want == nil {
					delete(want, "gen_ai.operation.name")
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}
