package modelserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxRequestBytes bounds the body of a request, in bytes.
const maxRequestBytes = 64 << 20

// API is a wire format.
type API string

// The wire formats.
const (
	ChatCompletions API = "chat.completions" // OpenAI
	Responses       API = "responses"        // OpenAI
	Messages        API = "messages"         // Anthropic
)

// Request is a request to a model.
type Request struct {
	API      API
	Model    string
	System   string // the instructions; several are joined by newlines
	Messages []Message
	Tools    []string // the names of the offered tools, in order
	Stream   bool

	Index int // the number of the request, from 0, in the order of arrival
	Nth   int // the number among requests with the same path and body, from 0

	id    string // derived from path and body, hexadecimal
	usage bool   // the request asks for token counts at the end of a stream
}

// Last returns the last message, or the zero Message.
func (r Request) Last() Message {
	if len(r.Messages) == 0 {
		return Message{}
	}
	return r.Messages[len(r.Messages)-1]
}

// Message is a turn of a conversation.
type Message struct {
	Role      string // user, assistant or tool
	Text      string
	ToolCalls []ToolCall
	// ToolCallID, for the role tool, is the id of the call that this message answers.
	ToolCallID string
}

// ToolCall is a tool call of the model.
type ToolCall struct {
	ID        string // "" in a reply: it is derived from the request
	Name      string
	Arguments string // a JSON object; "" in a reply stands for {}
}

// Reply is the answer of a model.
type Reply struct {
	Text      string
	ToolCalls []ToolCall
	Usage     *Usage // nil: it is derived from the request and the reply
}

// Usage is the number of tokens of a call.
type Usage struct {
	Input        int64 // all input tokens, cached or not
	Cached       int64 // the part of Input that was read from the cache
	CacheWritten int64 // the part of Input that was written to the cache; only Anthropic reports it
	Output       int64
}

// Call is a request as it arrived.
type Call struct {
	Method, Path string
	Header       http.Header
	Body         []byte
}

// Server is an http.Handler. The zero value answers every request with the text of its last
// message. Set its fields before the first request.
type Server struct {
	// Reply answers a request. It is called from several goroutines at once.
	Reply func(Request) Reply
	// Fault decides how the answer to a request fails.
	Fault func(Request) Fault

	mu    sync.Mutex
	calls []Call
	seen  map[string]int
}

// Calls returns the requests so far, in the order of their arrival.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// Forget drops all recorded requests, and restarts Index and Nth at 0.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.seen = nil, nil
}

// remember records a call and returns its numbers.
func (s *Server) remember(c Call, id string) (index, nth int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	index, nth = len(s.calls), s.seen[id]
	s.calls = append(s.calls, c)
	if s.seen == nil {
		s.seen = map[string]int{}
	}
	s.seen[id]++
	return index, nth
}

// wire describes how an API reads requests and writes answers.
type wire struct {
	api    API
	path   string // the end of the path
	idHead string // the header of the request id
	read   func(body []byte) (Request, error)
	plain  func(Request, Reply, Usage) any
	stream func(Request, Reply, Usage) []event
	error  func(status int, text string) any
}

var wires = []wire{
	{ChatCompletions, "/chat/completions", "X-Request-Id", readChat, chatPlain, chatStream, openAIError},
	{Responses, "/responses", "X-Request-Id", readResponses, responsesPlain, responsesStream, openAIError},
	{Messages, "/messages", "Request-Id", readMessages, messagesPlain, messagesStream, anthropicError},
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	sum := sha256.Sum256(append([]byte(r.URL.Path+"\n"), body...))
	id := hex.EncodeToString(sum[:12])
	index, nth := s.remember(Call{r.Method, r.URL.Path, r.Header.Clone(), body}, id)

	for _, form := range wires {
		if !strings.HasSuffix(r.URL.Path, form.path) {
			continue
		}
		w.Header().Set(form.idHead, "req_"+id)
		if r.Method != http.MethodPost {
			form.fail(w, http.StatusMethodNotAllowed, "use POST")
			return
		}
		req, err := form.read(body)
		if err != nil {
			form.fail(w, http.StatusBadRequest, err.Error())
			return
		}
		req.API, req.Index, req.Nth, req.id = form.api, index, nth, id
		s.answer(w, r, form, req)
		return
	}
	http.Error(w, fmt.Sprintf("%q is not the path of a model API", r.URL.Path), http.StatusNotFound)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, form wire, req Request) {
	var fault Fault
	if s.Fault != nil {
		fault = s.Fault(req)
	}
	if !wait(r.Context(), fault.Latency) {
		return
	}
	if fault.Status != 0 {
		if fault.RetryAfter != "" {
			w.Header().Set("Retry-After", fault.RetryAfter)
		}
		form.fail(w, fault.Status, "the server was told to fail")
		return
	}
	reply := Reply{Text: req.Last().Text}
	if s.Reply != nil {
		reply = s.Reply(req)
	}
	reply.ToolCalls = append([]ToolCall(nil), reply.ToolCalls...)
	for i := range reply.ToolCalls {
		c := &reply.ToolCalls[i]
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%s_%d", req.id, i)
		}
		if c.Arguments == "" {
			c.Arguments = "{}"
		}
		if !json.Valid([]byte(c.Arguments)) {
			form.fail(w, http.StatusInternalServerError, fmt.Sprintf("the reply calls %s with arguments that are not JSON: %s", c.Name, c.Arguments))
			return
		}
	}
	usage := usageOf(req, reply)
	out := faultyWriter{w: w, ctx: r.Context(), fault: fault}
	if req.Stream {
		if fault.Pad != 0 && reply.Text == "" {
			reply.Text = "pad"
		}
		w.Header().Set("Content-Type", "text/event-stream")
		out.stream(form.stream(req, reply, usage))
		return
	}
	if fault.Pad != 0 {
		reply.Text += padding
	}
	w.Header().Set("Content-Type", "application/json")
	out.plain(encode(form.plain(req, reply, usage)))
}

// fail writes an error in the form of the API.
func (form wire) fail(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(form.error(status, text)))
}

// usageOf counts tokens of four bytes.
func usageOf(req Request, reply Reply) Usage {
	if reply.Usage != nil {
		return *reply.Usage
	}
	tokens := func(n int) int64 { return int64(n+3) / 4 }
	size := func(m Message) int {
		n := len(m.Text)
		for _, c := range m.ToolCalls {
			n += len(c.Name) + len(c.Arguments)
		}
		return n
	}
	cached := len(req.System)
	for i, m := range req.Messages {
		if i < len(req.Messages)-1 {
			cached += size(m)
		}
	}
	if len(req.Messages) < 2 {
		cached = 0 // the first call of a conversation has nothing in the cache
	}
	all := len(req.System)
	for _, m := range req.Messages {
		all += size(m)
	}
	return Usage{
		Input: tokens(all), Cached: tokens(cached),
		Output: tokens(size(Message{Text: reply.Text, ToolCalls: reply.ToolCalls})),
	}
}

// encode encodes a value of this package, which cannot fail.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("modelserver: encode %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Running is a listening server.
type Running struct {
	URL    string // http://127.0.0.1:port, without a slash at the end
	server *http.Server
	done   chan error
}

// Start listens on a free port of the loopback interface.
func (s *Server) Start() (*Running, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening on a local port does not block
	if err != nil {
		return nil, fmt.Errorf("modelserver: %w", err)
	}
	r := &Running{
		URL:    "http://" + l.Addr().String(),
		server: &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second},
		done:   make(chan error, 1),
	}
	go func() { r.done <- r.server.Serve(l) }()
	return r, nil
}

// Close closes the port and all connections, also those with an answer in progress.
func (r *Running) Close() error {
	err := r.server.Close()
	if serve := <-r.done; !errors.Is(serve, http.ErrServerClosed) {
		err = errors.Join(err, serve)
	}
	r.done <- http.ErrServerClosed // for a second Close
	return err
}
