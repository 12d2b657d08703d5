package modelcall

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
)

// Usage is what a response says about the provider, the model and the tokens. It is read from
// chat completions and responses of OpenAI and from messages of Anthropic. For other APIs it is
// zero, except for RequestModel.
type Usage struct {
	Provider      string // the API: openai or anthropic
	RequestModel  string // set for all APIs, if the request has a member model
	ResponseModel string
	ResponseID    string
	FinishReasons []string
	// Known reports whether the response has token counts.
	Known bool
	// Token counts. Input includes the tokens that were read from the provider's cache or written
	// to it.
	Input, Output, CacheRead, CacheCreation int64
}

// maxText bounds the texts of a response that become attributes.
const maxText = 256

// answer has the members that the APIs have in common, and those that distinguish them.
type answer struct {
	Object  string `json:"object"`
	Type    string `json:"type"`
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage      *tokens `json:"usage"`
	StopReason string  `json:"stop_reason"`
	Status     string  `json:"status"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`

	// Members of the events of a stream.
	Message  *answer `json:"message"`
	Response *answer `json:"response"`
	Delta    struct {
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Error json.RawMessage `json:"error"`
}

type tokens struct {
	Prompt        *int64 `json:"prompt_tokens"`
	Completion    int64  `json:"completion_tokens"`
	PromptDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`

	Input        *int64 `json:"input_tokens"`
	Output       int64  `json:"output_tokens"`
	InputDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`

	CacheRead     int64 `json:"cache_read_input_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
}

// readUsage reads the usage of a response.
func readUsage(r response, requestModel string) Usage {
	u := Usage{RequestModel: clip(requestModel)}
	switch {
	case len(r.body) > MaxResponseBytes || r.header.Get("Content-Encoding") != "":
	case isEventStream(r.header):
		first := true
		events(r.body, func(_ int, data []byte) bool {
			var e answer
			if (first || tells(data)) && decode(data, &e) {
				u.event(&e)
			}
			first = false
			return true
		})
	case r.status == 0 || isJSON(r.header):
		var a answer
		if decode(r.body, &a) {
			u.whole(&a)
		}
	}
	return u
}

// stored returns the usage for a record, or nil if it is empty.
func (u Usage) stored() *runtimepb.StoredUsage {
	if u.Provider == "" {
		return nil
	}
	return &runtimepb.StoredUsage{
		Provider: u.Provider, ResponseModel: u.ResponseModel, ResponseId: u.ResponseID, FinishReasons: u.FinishReasons, Known: u.Known,
		InputTokens: u.Input, OutputTokens: u.Output, CacheReadInputTokens: u.CacheRead, CacheCreationInputTokens: u.CacheCreation,
	}
}

func storedUsage(m *runtimepb.StoredUsage, requestModel string) Usage {
	return Usage{
		Provider: m.GetProvider(), RequestModel: clip(requestModel), ResponseModel: m.GetResponseModel(), ResponseID: m.GetResponseId(),
		FinishReasons: m.GetFinishReasons(), Known: m.GetKnown(), Input: bound(m.GetInputTokens()), Output: bound(m.GetOutputTokens()),
		CacheRead: bound(m.GetCacheReadInputTokens()), CacheCreation: bound(m.GetCacheCreationInputTokens()),
	}
}

// decode reports whether a text is a JSON object of a known form. A member of another type is
// ignored.
func decode(text []byte, a *answer) bool {
	if len(text) == 0 || text[0] != '{' && !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return false
	}
	err := json.Unmarshal(text, a)
	_, otherType := err.(*json.UnmarshalTypeError) //nolint:errorlint // json returns it unwrapped
	return err == nil || otherType
}

// whole reads a response that is one JSON object.
func (u *Usage) whole(a *answer) {
	switch {
	case a.Object == "chat.completion":
		u.Provider = "openai"
		for _, c := range a.Choices {
			u.finish(c.FinishReason)
		}
	case a.Object == "response":
		u.Provider = "openai"
		u.finish(cmpOr(a.Incomplete.Reason, a.Status))
	case a.Type == "message":
		u.Provider = "anthropic"
		u.finish(a.StopReason)
	default:
		return
	}
	u.name(a)
	u.count(a.Usage)
}

// event reads one event of a stream.
func (u *Usage) event(e *answer) {
	switch {
	case e.Object == "chat.completion.chunk":
		u.Provider = "openai"
		u.name(e)
		for _, c := range e.Choices {
			u.finish(c.FinishReason)
		}
		u.count(e.Usage)
	case strings.HasPrefix(e.Type, "response.") && e.Response != nil:
		e.Response.Object = "response"
		if e.Response.Status == "in_progress" || e.Response.Status == "queued" {
			e.Response.Status = ""
		}
		u.whole(e.Response)
	case e.Type == "message_start" && e.Message != nil:
		u.Provider = "anthropic"
		u.name(e.Message)
		u.count(e.Message.Usage)
	case e.Type == "message_delta":
		u.finish(e.Delta.StopReason)
		if e.Usage != nil { // cumulative; older servers send only the output tokens
			if e.Usage.Input == nil {
				u.Output = max(e.Usage.Output, 0)
			} else {
				u.count(e.Usage)
			}
		}
	}
}

func (u *Usage) name(a *answer) {
	if a.Model != "" {
		u.ResponseModel = clip(a.Model)
	}
	if a.ID != "" {
		u.ResponseID = clip(a.ID)
	}
}

func (u *Usage) finish(reason string) {
	const most = 16
	if reason != "" && len(u.FinishReasons) < most {
		u.FinishReasons = append(u.FinishReasons, clip(reason))
	}
}

// count sets the token counts. In a stream, later counts replace earlier ones.
func (u *Usage) count(t *tokens) {
	if t == nil || t.Prompt == nil && t.Input == nil {
		return
	}
	u.Known = true
	if t.Prompt != nil {
		u.Input, u.Output, u.CacheRead = bound(*t.Prompt), bound(t.Completion), bound(t.PromptDetails.Cached)
		return
	}
	u.Input, u.Output = bound(*t.Input), bound(t.Output)
	u.CacheRead, u.CacheCreation = bound(t.InputDetails.Cached), 0
	if u.Provider == "anthropic" {
		// Anthropic's input tokens exclude cached ones, so add them.
		u.CacheRead, u.CacheCreation = bound(t.CacheRead), bound(t.CacheCreation)
		u.Input += u.CacheRead + u.CacheCreation
	}
}

// bound limits a number of tokens, so that sums do not overflow.
func bound(n int64) int64 { return min(max(n, 0), 1<<40) }

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// tells reports whether an event may hold more than a piece of the text. It must be fast, because
// a stream has thousands of such events.
func tells(data []byte) bool {
	for _, mark := range []string{`"message_`, `"response.c`, `"response.incomplete"`, `"response.failed"`, `"error"`} {
		if bytes.Contains(data, []byte(mark)) {
			return true
		}
	}
	for _, member := range []string{`"finish_reason"`, `"usage"`} {
		if bytes.Count(data, []byte(member)) != bytes.Count(data, []byte(member+":null")) {
			return true
		}
	}
	return false
}

// events calls f with the data of each event of a stream and the offset where the event ends,
// until f returns false. It ignores a last event that is not ended by an empty line.
func events(stream []byte, f func(end int, data []byte) bool) {
	var data []byte
	for at := 0; at < len(stream); {
		n := bytes.IndexByte(stream[at:], '\n')
		if n < 0 {
			return
		}
		line := bytes.TrimSuffix(stream[at:at+n], []byte("\r"))
		at += n + 1
		if len(line) == 0 {
			if data != nil && !f(at, data) {
				return
			}
			data = nil
			continue
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			value = bytes.TrimPrefix(value, []byte(" "))
			if data != nil {
				data = slices.Concat(data, []byte("\n"), value)
			} else {
				data = value
			}
		}
	}
}

// completeStream returns a stream up to its end, and whether it is complete. A stream of a known
// API is complete only with the event that ends it, because a closed connection does not show it.
// A stream with an error event is incomplete.
func completeStream(stream []byte, atEOF bool) ([]byte, bool) {
	var known, finished, failed bool
	last, first := 0, true
	events(stream, func(end int, data []byte) bool {
		if string(data) == "[DONE]" {
			last = end
			return false
		}
		var e answer
		quick := !first && !tells(data)
		first = false
		if quick || !decode(data, &e) {
			return true
		}
		if len(e.Error) > 0 && string(e.Error) != "null" || e.Type == "error" || e.Type == "response.failed" {
			failed = true
			return false
		}
		known = known || e.Object == "chat.completion.chunk" || e.Type == "message_start" || e.Type == "response.created"
		switch e.Type {
		case "message_stop", "response.completed", "response.incomplete":
			last = end
			return false
		}
		for _, c := range e.Choices {
			finished = finished || c.FinishReason != ""
		}
		return true
	})
	switch {
	case failed:
		return nil, false
	case last > 0:
		return stream[:last], true
	case known:
		return stream, atEOF && finished // some servers do not send [DONE]
	}
	// A stream that ends within an event was cut short.
	whole := bytes.HasSuffix(stream, []byte("\n\n")) || bytes.HasSuffix(stream, []byte("\r\n\r\n"))
	return stream, atEOF && whole
}

// Server is the server of a request.
type Server struct {
	Address string
	Port    int
}

func serverOf(u *url.URL) Server {
	s := Server{Address: clip(u.Hostname())}
	switch port := u.Port(); {
	case port != "":
		s.Port, _ = strconv.Atoi(port)
	case u.Scheme == "https":
		s.Port = 443
	case u.Scheme == "http":
		s.Port = 80
	}
	return s
}

// providers are the hosts of other providers that speak OpenAI's API, with their names in the
// OpenTelemetry conventions.
var providers = []struct{ host, name string }{
	{"openai.azure.com", "azure.ai.openai"},
	{"api.deepseek.com", "deepseek"},
	{"api.groq.com", "groq"},
	{"api.mistral.ai", "mistral_ai"},
	{"api.perplexity.ai", "perplexity"},
	{"api.x.ai", "x_ai"},
}

// Attributes returns the attributes for the trace event of a call, by the conventions for
// generative AI of OpenTelemetry 1.41.
func (c Call) Attributes() map[string]string {
	u := c.Usage
	attributes := map[string]string{
		"beam_agents.cache_hit": strconv.FormatBool(c.Hit),
		"beam_agents.billed":    strconv.FormatBool(!c.Hit),
	}
	if c.Differs {
		attributes["beam_agents.response_differs"] = "true"
	}
	set := func(name, value string) {
		if value != "" {
			attributes[name] = value
		}
	}
	provider := u.Provider
	for _, p := range providers {
		if provider == "openai" && (c.Server.Address == p.host || strings.HasSuffix(c.Server.Address, "."+p.host)) {
			provider = p.name
		}
	}
	if provider != "" || !c.HTTP {
		set("gen_ai.operation.name", "chat")
	}
	set("gen_ai.provider.name", provider)
	set("gen_ai.request.model", u.RequestModel)
	set("gen_ai.response.model", u.ResponseModel)
	set("gen_ai.response.id", u.ResponseID)
	if len(u.FinishReasons) > 0 {
		if text, err := json.Marshal(u.FinishReasons); err == nil {
			set("gen_ai.response.finish_reasons", string(text))
		}
	}
	if u.Known {
		for name, n := range map[string]int64{"gen_ai.usage.input_tokens": u.Input, "gen_ai.usage.output_tokens": u.Output} {
			set(name, strconv.FormatInt(n, 10))
		}
		for name, n := range map[string]int64{
			"gen_ai.usage.cache_read.input_tokens": u.CacheRead, "gen_ai.usage.cache_creation.input_tokens": u.CacheCreation,
		} {
			if n > 0 {
				set(name, strconv.FormatInt(n, 10))
			}
		}
	}
	set("server.address", c.Server.Address)
	if c.Server.Port > 0 {
		set("server.port", strconv.Itoa(c.Server.Port))
	}
	return attributes
}
