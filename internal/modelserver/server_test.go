package modelserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// requests are a request of each API: a system text, a question, a tool call with its
// result, and another question.
var requests = map[API]struct{ path, body string }{
	ChatCompletions: {"/v1/chat/completions", `{"model":"m","stream":STREAM,"stream_options":{"include_usage":true},"messages":[
		{"role":"system","content":"be brief"},{"role":"user","content":"how is the weather"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"at\":\"Oslo\"}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"rain"},{"role":"user","content":[{"type":"text","text":"thanks"}]}],
		"tools":[{"type":"function","function":{"name":"weather"}}]}`},
	Responses: {"/v1/responses", `{"model":"m","stream":STREAM,"instructions":"be brief","input":[
		{"role":"user","content":"how is the weather"},
		{"type":"function_call","call_id":"c1","name":"weather","arguments":"{\"at\":\"Oslo\"}"},
		{"type":"function_call_output","call_id":"c1","output":"rain"},
		{"role":"user","content":[{"type":"input_text","text":"thanks"}]}],
		"tools":[{"type":"function","name":"weather"}]}`},
	Messages: {"/v1/messages", `{"model":"m","stream":STREAM,"system":[{"type":"text","text":"be brief"}],"max_tokens":9,"messages":[
		{"role":"user","content":"how is the weather"},
		{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"weather","input":{"at":"Oslo"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"rain"},{"type":"text","text":"thanks"}]}],
		"tools":[{"name":"weather"}]}`},
}

func start(t *testing.T, s *Server) string {
	t.Helper()
	r, err := s.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
	})
	return r.URL
}

// head is what an answer begins with.
type head struct {
	StatusCode int
	Header     http.Header
}

func post(t *testing.T, url string, api API, stream string) (head, []byte, error) {
	t.Helper()
	r := requests[api]
	resp, err := http.Post(url+r.path, "application/json", strings.NewReader(strings.Replace(r.body, "STREAM", stream, 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return head{resp.StatusCode, resp.Header}, body, err
}

func TestRead(t *testing.T) {
	var got Request
	url := start(t, &Server{Reply: func(r Request) Reply {
		got = r
		return Reply{Text: "welcome"}
	}})
	for api := range requests {
		for nth := range 2 {
			if resp, body, err := post(t, url, api, "false"); err != nil || resp.StatusCode != http.StatusOK || !json.Valid(body) {
				t.Fatalf("%s: %v %d %s", api, err, resp.StatusCode, body)
			}
			got.Index, got.id, got.usage = 0, "", false
			want := Request{
				API: api, Model: "m", System: "be brief", Tools: []string{"weather"}, Nth: nth,
				Messages: []Message{
					{Role: "user", Text: "how is the weather"},
					{Role: "assistant", ToolCalls: []ToolCall{{"c1", "weather", `{"at":"Oslo"}`}}},
					{Role: "tool", Text: "rain", ToolCallID: "c1"},
					{Role: "user", Text: "thanks"},
				},
			}
			g, w := encode(got), encode(want)
			if !bytes.Equal(g, w) {
				t.Errorf("%s: got\n%s\nwant\n%s", api, g, w)
			}
		}
	}
}

// data are the data of the events of a stream.
func data(t *testing.T, body []byte) (all []map[string]any, last string) {
	t.Helper()
	for scanner := bufio.NewScanner(bytes.NewReader(body)); scanner.Scan(); {
		if d, ok := strings.CutPrefix(scanner.Text(), "data: "); ok {
			last = d
			var v map[string]any
			if err := json.Unmarshal([]byte(d), &v); err == nil {
				all = append(all, v)
			}
		}
	}
	return all, last
}

func TestAnswers(t *testing.T) {
	s := &Server{Reply: func(Request) Reply {
		return Reply{Text: "look <up> it ", ToolCalls: []ToolCall{{Name: "weather", Arguments: `{"at": "Rome"}`}, {Name: "clock"}}}
	}}
	url := start(t, s)
	for api, want := range map[API]struct{ plain, usage, end string }{
		ChatCompletions: {
			`"finish_reason":"tool_calls"`,
			`"usage":{"completion_tokens":11,"prompt_tokens":14,"prompt_tokens_details":{"cached_tokens":13},"total_tokens":25}`, "[DONE]",
		},
		Responses: {
			`"type":"function_call"`,
			`"usage":{"input_tokens":14,"input_tokens_details":{"cached_tokens":13},"output_tokens":11,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":25}`, `"response.completed"}`,
		},
		Messages: {
			`"stop_reason":"tool_use"`,
			`"usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":13,"input_tokens":1,"output_tokens":11}`, `{"type":"message_stop"}`,
		},
	} {
		resp, plain, err := post(t, url, api, "false")
		if err != nil || resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %v, %v", api, err, resp.Header)
		}
		for _, part := range []string{want.plain, want.usage, `"look <up> it "`, `"weather"`, `"clock"`, "call_"} {
			if !bytes.Contains(plain, []byte(part)) {
				t.Errorf("%s: no %s in\n%s", api, part, plain)
			}
		}
		if _, again, _ := post(t, url, api, "false"); !bytes.Equal(plain, again) {
			t.Errorf("%s: another answer to an equal request:\n%s\n%s", api, plain, again)
		}
		resp, stream, err := post(t, url, api, "true")
		if err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%s: %v, %v", api, err, resp.Header)
		}
		events, last := data(t, stream)
		if !strings.HasSuffix(last, want.end) || len(events) < 8 {
			t.Errorf("%s: %d events, the last is %s", api, len(events), last)
		}
		for _, part := range []string{`"look "`, `"<up> "`, `"it "`, `"Rome\"}"`, "call_"} {
			if !bytes.Contains(stream, []byte(part)) {
				t.Errorf("%s: no %s in\n%s", api, part, stream)
			}
		}
	}
}

// A stream of chat completions tells its tokens to those who ask.
func TestChatStreamUsage(t *testing.T) {
	url := start(t, &Server{})
	for options, want := range map[string]bool{`,"stream_options":{"include_usage":true}`: true, "": false} {
		resp, err := http.Post(url+"/chat/completions", "", strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"hi"}]`+options+"}"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := bytes.Contains(body, []byte(`"prompt_tokens":1`)); got != want {
			t.Errorf("%q: usage is %v in\n%s", options, got, body)
		}
	}
}

func TestGivenUsage(t *testing.T) {
	url := start(t, &Server{Reply: func(Request) Reply {
		return Reply{Text: "x", Usage: &Usage{Input: 100, Cached: 60, CacheWritten: 30, Output: 7}}
	}})
	_, body, _ := post(t, url, Messages, "true")
	events, _ := data(t, body)
	got := string(encode(events[0]["message"].(object)["usage"]))
	if want := `{"cache_creation_input_tokens":30,"cache_read_input_tokens":60,"input_tokens":10,"output_tokens":1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestStatus(t *testing.T) {
	url := start(t, &Server{Fault: func(r Request) Fault {
		if r.Nth == 0 {
			return Fault{Status: 429, RetryAfter: "3"}
		}
		return Fault{}
	}})
	for api := range requests {
		resp, body, _ := post(t, url, api, "true")
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "3" || !bytes.Contains(body, []byte(`"rate_limit_error"`)) {
			t.Errorf("%s: %d %v %s", api, resp.StatusCode, resp.Header, body)
		}
		if resp, _, _ := post(t, url, api, "true"); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: the second request got %d", api, resp.StatusCode)
		}
	}
}

func TestBrokenBodies(t *testing.T) {
	var fault Fault
	url := start(t, &Server{Fault: func(Request) Fault { return fault }})
	for api := range requests {
		for _, stream := range []string{"false", "true"} {
			fault = Fault{Cut: 200}
			if resp, body, err := post(t, url, api, stream); !errors.Is(err, io.ErrUnexpectedEOF) || len(body) != 200 || resp.StatusCode != http.StatusOK {
				t.Errorf("%s stream=%s cut: %d bytes, %v", api, stream, len(body), err)
			}
			fault = Fault{Truncate: 200}
			if resp, body, err := post(t, url, api, stream); err != nil || len(body) != 200 || resp.StatusCode != http.StatusOK || json.Valid(body) {
				t.Errorf("%s stream=%s truncated: %d bytes, %v", api, stream, len(body), err)
			}
			fault = Fault{Pad: 1 << 20}
			_, body, err := post(t, url, api, stream)
			if err != nil || len(body) < 1<<20 || len(body) > 2<<20 || bytes.Contains(body, []byte("padding")) || stream == "false" && !json.Valid(body) {
				t.Errorf("%s stream=%s padded: %d bytes, %v", api, stream, len(body), err)
			}
		}
	}
}

func TestEndless(t *testing.T) {
	url := start(t, &Server{Fault: func(Request) Fault { return Fault{Pad: -1} }})
	for api, r := range requests {
		for _, stream := range []string{"false", "true"} {
			resp, err := http.Post(url+r.path, "", strings.NewReader(strings.Replace(r.body, "STREAM", stream, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.CopyN(io.Discard, resp.Body, 8<<20); err != nil {
				t.Errorf("%s stream=%s: ended after %d bytes: %v", api, stream, n, err)
			}
			resp.Body.Close()
		}
	}
}

func TestLatency(t *testing.T) {
	url := start(t, &Server{Fault: func(Request) Fault {
		return Fault{Latency: 20 * time.Millisecond, Pause: 10 * time.Millisecond}
	}})
	begin := time.Now()
	_, body, _ := post(t, url, Messages, "true")
	events, _ := data(t, body)
	if took, want := time.Since(begin), 20*time.Millisecond+time.Duration(len(events)-1)*10*time.Millisecond; took < want {
		t.Errorf("%d events took %v, want %v", len(events), took, want)
	}
}

func TestCalls(t *testing.T) {
	s := &Server{}
	url := start(t, s)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			req, _ := http.NewRequest(http.MethodPost, url+"/v1/messages", strings.NewReader(`{"messages":[]}`))
			req.Header.Set("X-Api-Key", "secret")
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		})
	}
	group.Wait()
	calls := s.Calls()
	if len(calls) != 20 {
		t.Fatalf("%d calls", len(calls))
	}
	if c := calls[19]; c.Method != http.MethodPost || c.Path != "/v1/messages" || c.Header.Get("X-Api-Key") != "secret" || string(c.Body) != `{"messages":[]}` {
		t.Errorf("got %+v", c)
	}
	if s.Forget(); len(s.Calls()) != 0 {
		t.Error("the calls are still there")
	}
}

func TestRefusals(t *testing.T) {
	url := start(t, &Server{Reply: func(Request) Reply { return Reply{ToolCalls: []ToolCall{{Name: "x", Arguments: "{"}}} }})
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/v1/models", "{}", 404},
		{"GET", "/v1/messages", "", 405},
		{"POST", "/v1/messages", "no JSON", 400},
		{"POST", "/v1/messages", `{"messages":[{"content":7}]}`, 400},
		{"POST", "/v1/responses", `{"input":7}`, 400},
		{"POST", "/v1/responses", `{"input":[{"type":"function_call_output","output":7}]}`, 400},
		{"POST", "/v1/chat/completions", `[]`, 400},
		{"POST", "/v1/chat/completions", `{}`, 500},
	} {
		req, _ := http.NewRequest(c.method, url+c.path, strings.NewReader(c.body))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s %s %s: got %d, want %d", c.method, c.path, c.body, resp.StatusCode, c.want)
		}
	}
}
