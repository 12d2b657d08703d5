package modelcall_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/modelcall"
	"github.com/beamagents/beamagents-go/pkg/replay"
)

const now = 1_700_000_000_000

const secret = "sk-very-secret"

var errEnded = errors.New("ended")

// bench is a key, its replay cache, and a provider.
type bench struct {
	t       testing.TB
	url     string
	calls   atomic.Int64
	cache   *replay.Cache
	process *modelcall.Process
	config  modelcall.Config
}

func newBench(t testing.TB, answer func(n int64, w http.ResponseWriter, r *http.Request)) *bench {
	t.Helper()
	b := &bench{t: t, cache: replay.New(nil, now), process: modelcall.NewProcess(modelcall.Options{NoMemo: true})}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(b.calls.Add(1), w, r) }))
	t.Cleanup(s.Close)
	b.url = s.URL + "/v1/chat/completions"
	return b
}

func (b *bench) begin() *modelcall.Calls {
	c := b.config
	c.Key, c.Seq, c.Process, c.Ended = []byte("key"), 3, b.process, errEnded
	c.Cache = func() (*replay.Cache, error) { return b.cache, nil }
	return modelcall.Begin(c)
}

// end ends calls and stores what they have left.
func (b *bench) end(c *modelcall.Calls) modelcall.Left {
	b.t.Helper()
	left := c.End()
	if err := left.Commit(b.cache); err != nil {
		b.t.Fatal(err)
	}
	return left
}

func (b *bench) request(ctx context.Context, method, body string) *http.Request {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, b.url+"?key="+secret, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Cookie", "session="+secret)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// ask makes a request and reads all of the response.
func (b *bench) ask(c *modelcall.Calls, body string) (string, error) {
	b.t.Helper()
	resp, err := c.Client().Do(b.request(b.t.Context(), http.MethodPost, body))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp.Status + " " + string(text), errors.Join(err, resp.Body.Close())
}

func jsonAnswer(n int64, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-ID", "req-"+strconv.FormatInt(n, 10))
	w.Header().Set("Set-Cookie", "session="+secret)
	fmt.Fprintf(w, `{"n":%d}`, n)
}

const chunk = `data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"

func stream(parts ...string) func(int64, http.ResponseWriter, *http.Request) {
	return func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, p := range parts {
			if p == "cut" {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, p) // the client may have gone
			w.(http.Flusher).Flush()
		}
	}
}

// Two activations of one seq ask for each kind of response. The second one finds it in the cache,
// or must ask again.
func TestWhatIsRecorded(t *testing.T) {
	readAll := func(b *bench, c *modelcall.Calls) {
		_, _ = b.ask(c, `{}`)
	}
	with := func(method string, read func(io.ReadCloser)) func(*bench, *modelcall.Calls) {
		return func(b *bench, c *modelcall.Calls) {
			resp, err := c.Client().Do(b.request(b.t.Context(), method, `{}`))
			if err != nil {
				b.t.Fatal(err)
			}
			read(resp.Body)
			_ = resp.Body.Close()
		}
	}
	firstBytes := func(n int64) func(io.ReadCloser) {
		return func(r io.ReadCloser) { _, _ = io.CopyN(io.Discard, r, n) }
	}
	status := func(code int) func(int64, http.ResponseWriter, *http.Request) {
		return func(_ int64, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/other" {
				code = http.StatusNoContent
			}
			w.Header().Set("Location", "/other")
			w.WriteHeader(code)
		}
	}
	for name, tt := range map[string]struct {
		answer   func(int64, http.ResponseWriter, *http.Request)
		do       func(*bench, *modelcall.Calls)
		recorded bool
		calls    int64 // of the first activation; 0 is 1
	}{
		"JSON":         {answer: jsonAnswer, do: readAll, recorded: true},
		"GET":          {answer: jsonAnswer, do: with(http.MethodGet, firstBytes(1<<20)), recorded: true},
		"HEAD":         {answer: jsonAnswer, do: with(http.MethodHead, firstBytes(1))},
		"PUT":          {answer: jsonAnswer, do: with(http.MethodPut, firstBytes(1<<20)), recorded: true},
		"DELETE":       {answer: jsonAnswer, do: with(http.MethodDelete, firstBytes(1<<20)), recorded: true},
		"not modified": {answer: status(http.StatusNotModified), do: readAll},
		"a number, half of it read": {answer: func(_ int64, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `1234`)
		}, do: with(http.MethodPost, firstBytes(2))},
		"no content":                  {answer: status(http.StatusNoContent), do: readAll, recorded: true},
		"a redirect that is followed": {answer: status(http.StatusTemporaryRedirect), do: readAll, calls: 2},
		"an error of the request":     {answer: status(http.StatusBadRequest), do: readAll},
		"an error of the server":      {answer: status(http.StatusInternalServerError), do: readAll},
		"JSON, read by a decoder":     {answer: jsonAnswer, do: with(http.MethodPost, firstBytes(int64(len(`{"n":1}`)))), recorded: true},
		"JSON, half of it read":       {answer: jsonAnswer, do: with(http.MethodPost, firstBytes(3))},
		"JSON that is none": {answer: func(_ int64, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"n":`)
		}, do: readAll},
		"a stream": {answer: stream(chunk, chunk, "data: [DONE]\n\n"), do: readAll, recorded: true},
		"a stream, read to its last event": {
			answer: stream(chunk, "data: [DONE]\n\n", ": more\n\n"),
			do:     with(http.MethodPost, firstBytes(int64(len(chunk+"data: [DONE]\n\n")))), recorded: true,
		},
		"a stream without its last event":   {answer: stream(chunk, chunk), do: readAll},
		"a stream, read in part":            {answer: stream(chunk, chunk, "data: [DONE]\n\n"), do: with(http.MethodPost, firstBytes(int64(len(chunk))))},
		"a stream that breaks":              {answer: stream(chunk, "cut"), do: readAll},
		"a stream with an error":            {answer: stream(chunk, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"), do: readAll},
		"a stream with an error, then DONE": {answer: stream(chunk, "data: {\"error\":{\"message\":\"x\"}}\n\n", "data: [DONE]\n\n"), do: readAll},
		"a stream of another API":           {answer: stream("data: one\n\n", "data: two\n\n"), do: readAll, recorded: true},
		"messages":                          {answer: stream("data: {\"type\":\"message_start\",\"message\":{}}\n\n", "data: {\"type\":\"message_stop\"}\n\n"), do: readAll, recorded: true},
		"messages without an end":           {answer: stream("data: {\"type\":\"message_start\",\"message\":{}}\n\n"), do: readAll},
		"a response that fails":             {answer: stream("data: {\"type\":\"response.created\"}\n\n", "data: {\"type\":\"response.failed\"}\n\n"), do: readAll},
		"a response that is completed":      {answer: stream("data: {\"type\":\"response.created\"}\n\n", "data: {\"type\":\"response.completed\",\"response\":{}}\n\n"), do: readAll, recorded: true},
		"a body above the bound": {
			answer: func(_ int64, w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(make([]byte, modelcall.MaxResponseBytes+1))
			}, do: readAll,
		},
		"a body at the bound": {
			answer: func(_ int64, w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(make([]byte, modelcall.MaxResponseBytes))
			}, do: readAll, recorded: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.answer)
			first := b.begin()
			tt.do(b, first)
			left := b.end(first)
			made := b.calls.Load()
			if want := max(tt.calls, 1); made != want {
				t.Errorf("%d calls, want %d", made, want)
			}
			again := b.begin()
			tt.do(b, again)
			b.end(again)
			if recorded := b.calls.Load() == made; recorded != tt.recorded {
				t.Errorf("recorded %v, want %v: %+v", recorded, tt.recorded, left)
			}
		})
	}
}

// The replayed response is the recorded one, with only those headers that are stored.
func TestReplayedResponse(t *testing.T) {
	b := newBench(t, jsonAnswer)
	do := func() (*http.Response, string) {
		c := b.begin()
		defer b.end(c)
		resp, err := c.Client().Do(b.request(t.Context(), http.MethodPost, `{"a":1}`))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		return resp, string(text)
	}
	first, text := do()      //nolint:bodyclose // it is closed, or there is none
	again, textAgain := do() //nolint:bodyclose // it is closed, or there is none
	if text != `{"n":1}` || textAgain != text || again.StatusCode != http.StatusOK || again.Status != first.Status || again.ContentLength != int64(len(text)) {
		t.Errorf("%q, then %q, %+v", text, textAgain, again)
	}
	for name, values := range again.Header {
		if !slices.Equal(first.Header[name], values) {
			t.Errorf("the header %s is %q, and was %q", name, values, first.Header[name])
		}
	}
	if again.Header.Get("X-Request-ID") != "req-1" || again.Header.Get("Content-Type") != "application/json" || again.Header.Get("Set-Cookie") != "" {
		t.Errorf("headers %v", again.Header)
	}
	stored, err := proto.Marshal(b.cache.Blob())
	if err != nil || bytes.Contains(stored, []byte(secret)) || bytes.Contains(stored, []byte("session")) {
		t.Errorf("the cache has a credential: %v", err)
	}
}

// The parts of a request that count, and those that do not.
func TestSameRequest(t *testing.T) {
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	body := func(text string) func(*http.Request) {
		return func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		}
	}
	for name, tt := range map[string]struct {
		change func(*http.Request)
		same   bool
	}{
		"nothing":                {func(*http.Request) {}, true},
		"another credential":     {set("Authorization", "Bearer other"), true},
		"another API key":        {set("X-Api-Key", "other"), true},
		"another cookie":         {set("Cookie", "a=b"), true},
		"another user agent":     {set("User-Agent", "x"), true},
		"a retry of the SDK":     {set("X-Stainless-Retry-Count", "1"), true},
		"another key in the URL": {func(r *http.Request) { r.URL.RawQuery = "key=other&api_key=x&access_token=y" }, true},
		"a user in the URL":      {func(r *http.Request) { r.URL.User = nil }, true},
		"the order of members":   {body(` {"b" : [1, 2], "a": 1}`), true},
		"another body":           {body(`{"a":1,"b":[2,1]}`), false},
		"a body that is no JSON": {body(`{"a":1,"b":[1,2]`), false},
		"no body":                {body(``), false},
		"another parameter":      {func(r *http.Request) { r.URL.RawQuery = "a=b" }, false},
		"another path":           {func(r *http.Request) { r.URL.Path += "/x" }, false},
		"another method":         {func(r *http.Request) { r.Method = http.MethodPut }, false},
		"another version":        {set("Anthropic-Version", "2023-06-01"), false},
		"another beta":           {set("OpenAI-Beta", "x"), false},
		"another form":           {set("Accept", "text/event-stream"), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, jsonAnswer)
			for i, change := range []func(*http.Request){func(*http.Request) {}, tt.change} {
				c := b.begin()
				req := b.request(t.Context(), http.MethodPost, `{"a":1,"b":[1,2]}`)
				change(req)
				resp, err := c.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				b.end(c)
				_ = i
			}
			if same := b.calls.Load() == 1; same != tt.same {
				t.Errorf("the same request: %v, want %v", same, tt.same)
			}
		})
	}
}

// An event of a stream reaches the agent before the next one is there.
func TestStreamIsPassedOn(t *testing.T) {
	next := make(chan struct{})
	b := newBench(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, chunk)
		w.(http.Flusher).Flush()
		<-next
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
	c := b.begin()
	resp, err := c.Client().Do(b.request(t.Context(), http.MethodPost, `{}`)) //nolint:bodyclose // it is closed, or there is none
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len(chunk))
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != chunk {
		t.Fatalf("%q, %v", first, err)
	}
	close(next)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || string(rest) != "data: [DONE]\n\n" {
		t.Errorf("%q, %v", rest, err)
	}
	if left := b.end(c); len(left.Calls) != 1 {
		t.Errorf("left %+v", left)
	}
}

// Equal requests have their own answers, a retry takes the place of the request that failed, and
// both answers come back in order.
func TestRepeats(t *testing.T) {
	b := newBench(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n == 1 || n == 3 {
			w.WriteHeader(http.StatusTooManyRequests + int(n/3)*71) // 429, then 500
			return
		}
		jsonAnswer(n, w, r)
	})
	b.process = modelcall.NewProcess(modelcall.Options{NoMemo: true, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			resp.Header.Set("Retry-After-Ms", "1")
		}
		return resp, err
	})})
	c := b.begin()
	var got []string
	for range 4 {
		text, err := b.ask(c, `{}`)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text)
	}
	want := []string{"429 Too Many Requests ", `200 OK {"n":2}`, "500 Internal Server Error ", `200 OK {"n":4}`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	b.end(c)
	again := b.begin()
	for _, want := range []string{want[1], want[3]} {
		if text, err := b.ask(again, `{}`); err != nil || text != want {
			t.Errorf("got %q, %v, want %q", text, err, want)
		}
	}
	if n := b.calls.Load(); n != 4 {
		t.Errorf("%d calls", n)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Calls of several goroutines leave the same bytes, in whatever order they end.
func TestConcurrentCallsAreCommittedInOneOrder(t *testing.T) {
	var before []byte
	for run := range 4 {
		b := newBench(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			time.Sleep(rand.N(3 * time.Millisecond))
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"echo":%s}`, body)
		})
		b.url = strings.Replace(b.url, b.url, "http://model.test/v1/chat/completions", 1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			time.Sleep(rand.N(3 * time.Millisecond))
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"echo":%s}`, body)
		}))
		b.process = modelcall.NewProcess(modelcall.Options{NoMemo: true, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			r.URL.Host = server.Listener.Addr().String()
			return http.DefaultTransport.RoundTrip(r)
		})})
		c := b.begin()
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				if _, err := b.ask(c, strconv.Itoa(i)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		left := b.end(c)
		server.Close()
		if !slices.IsSortedFunc(left.Calls, func(a, b modelcall.Call) int { return strings.Compare(a.Key, b.Key) }) || len(left.Calls) != 8 {
			t.Errorf("calls %+v", left.Calls)
		}
		stored, err := proto.MarshalOptions{Deterministic: true}.Marshal(b.cache.Blob())
		if err != nil {
			t.Fatal(err)
		}
		if run > 0 && !bytes.Equal(stored, before) {
			t.Errorf("run %d has left other bytes", run)
		}
		before = stored
	}
}

type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.left)
	z.left -= n
	return int(n), nil
}

// A response of 1 GB passes through.
func TestLargeResponse(t *testing.T) {
	const size = 1 << 30
	b := newBench(t, jsonAnswer)
	b.process = modelcall.NewProcess(modelcall.Options{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: size, Body: io.NopCloser(&zeros{size})}, nil
	})})
	c := b.begin()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resp, err := c.Client().Do(b.request(t.Context(), http.MethodPost, `{}`)) //nolint:bodyclose // it is closed, or there is none
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{resp.Body}, make([]byte, 1<<20))
	runtime.ReadMemStats(&after)
	if err != nil || n != size {
		t.Errorf("%d bytes, %v", n, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("%d bytes of memory", used)
	}
	if left := b.end(c); left.NotStored != 1 || len(left.Calls) != 0 || b.cache.Len() != 0 {
		t.Errorf("left %+v", left)
	}
}

func TestEnd(t *testing.T) {
	running := make(chan struct{})
	b := newBench(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the client go
			close(running)
			<-r.Context().Done()
			return
		}
		jsonAnswer(n, w, r)
	})
	c := b.begin()
	result := make(chan error)
	go func() {
		// Without the context of the activation.
		_, err := c.Client().Do(b.request(context.WithoutCancel(t.Context()), http.MethodPost, `{}`)) //nolint:bodyclose // it is closed, or there is none
		result <- err
	}()
	<-running
	left := b.end(c)
	if err := <-result; !errors.Is(err, errEnded) {
		t.Errorf("the running call: %v", err)
	}
	if _, err := b.ask(c, `{}`); !errors.Is(err, errEnded) {
		t.Errorf("a later call: %v", err)
	}
	if _, _, err := c.Call(t.Context(), modelcall.Request{}, nil); !errors.Is(err, errEnded) {
		t.Errorf("a later call: %v", err)
	}
	if len(left.Calls) != 0 || b.calls.Load() != 1 || !slices.Contains(left.Secrets, secret) {
		t.Errorf("left %+v, %d calls", left, b.calls.Load())
	}
}

func TestCancelledContext(t *testing.T) {
	b := newBench(t, stream(chunk, strings.Repeat(chunk, 1000), "data: [DONE]\n\n"))
	c := b.begin()
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := c.Client().Do(b.request(ctx, http.MethodPost, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Skip("the whole response had arrived already")
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("err %v", err)
	}
	_ = resp.Body.Close()
	if left := b.end(c); len(left.Calls) != 0 || b.cache.Len() != 0 {
		t.Errorf("left %+v", left)
	}
	// Also a hit is for a context that lives.
	if _, err := b.ask(b.begin(), `{}`); err != nil {
		t.Error(err)
	}
}

// The bound of calls in flight holds for all activations of a process together.
func TestMaxCalls(t *testing.T) {
	var flying, most atomic.Int64
	b := newBench(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		for now := flying.Add(1); ; {
			if old := most.Load(); now <= old || most.CompareAndSwap(old, now) {
				break
			}
		}
		time.Sleep(2 * time.Millisecond)
		flying.Add(-1)
		jsonAnswer(n, w, r)
	})
	b.process = modelcall.NewProcess(modelcall.Options{MaxCalls: 2, NoMemo: true})
	var group sync.WaitGroup
	for i := range 4 {
		c := b.begin()
		for k := range 4 {
			group.Go(func() {
				if _, err := b.ask(c, strconv.Itoa(4*i+k)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	if most.Load() != 2 || b.calls.Load() != 16 {
		t.Errorf("%d calls at once, %d in all", most.Load(), b.calls.Load())
	}
}

// The pause that a host asks for holds for all activations, and not for other hosts.
func TestRetryAfter(t *testing.T) {
	const pause = 300 * time.Millisecond
	for name, tt := range map[string]struct {
		status       int
		header, text string
		pauses       bool
	}{
		"429":                    {429, "Retry-After-Ms", "300", true},
		"529":                    {529, "Retry-After-Ms", "300", true},
		"503":                    {503, "Retry-After", "0.3", true},
		"503 without a time":     {503, "X", "", false},
		"500":                    {500, "Retry-After-Ms", "300", false},
		"429 that says at once":  {429, "Retry-After", "0", false},
		"429 without a time":     {429, "X", "", true},
		"429 with a broken time": {429, "Retry-After", "soon", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(n int64, w http.ResponseWriter, r *http.Request) {
				if n > 1 {
					jsonAnswer(n, w, r)
					return
				}
				w.Header().Set(tt.header, tt.text)
				w.WriteHeader(tt.status)
			})
			other := newBench(t, jsonAnswer)
			other.process = b.process
			if _, err := b.ask(b.begin(), `1`); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if _, err := other.ask(other.begin(), `{}`); err != nil || time.Since(start) > pause {
				t.Errorf("another host: %v, %v", time.Since(start), err)
			}
			if tt.pauses {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				if _, err := b.begin().Client().Do(b.request(ctx, http.MethodPost, `2`)); !errors.Is(err, context.DeadlineExceeded) { //nolint:bodyclose // it is closed, or there is none
					t.Errorf("a call that cannot wait: %v", err)
				}
				cancel()
			}
			if _, err := b.ask(b.begin(), `3`); err != nil {
				t.Error(err)
			}
			if waited := time.Since(start) > pause-50*time.Millisecond; waited != tt.pauses && tt.pauses || b.calls.Load() != 2 {
				t.Errorf("waited %v, %d calls", time.Since(start), b.calls.Load())
			}
		})
	}
}

// If a try of an activation has stored nothing, the next try repeats no call, as long as it belongs
// to the same job.
func TestMemo(t *testing.T) {
	for name, tt := range map[string]struct {
		options modelcall.Options
		change  func(*modelcall.Config)
		calls   int64
	}{
		"the same job":   {modelcall.Options{}, func(*modelcall.Config) {}, 1},
		"another job":    {modelcall.Options{}, func(c *modelcall.Config) { c.Scope = "other" }, 2},
		"without a memo": {modelcall.Options{NoMemo: true}, func(*modelcall.Config) {}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, jsonAnswer)
			b.process = modelcall.NewProcess(tt.options)
			first := b.begin()
			text, err := b.ask(first, `{}`)
			if err != nil {
				t.Fatal(err)
			}
			one := first.End() // and the bundle fails
			tt.change(&b.config)
			second := b.begin()
			again, err := b.ask(second, `{}`)
			if err != nil || b.calls.Load() != tt.calls || (text == again) != (tt.calls == 1) {
				t.Errorf("%q, then %q, %d calls, %v", text, again, b.calls.Load(), err)
			}
			// It is the call that was made and not a hit, so the outputs are the same.
			two := second.End()
			if len(one.Calls) != 1 || len(two.Calls) != 1 || two.Calls[0].Hit || two.Calls[0].Key != one.Calls[0].Key {
				t.Errorf("left %+v, then %+v", one, two)
			}
			if err := two.Commit(b.cache); err != nil || b.cache.Len() != 1 {
				t.Errorf("%d entries, %v", b.cache.Len(), err)
			}
		})
	}
}

// A process remembers a bounded number of bytes.
func TestMemoIsBounded(t *testing.T) {
	if racedetector.Enabled {
		t.Skip("it counts memory: make test runs this without the race detector")
	}
	b := newBench(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		body := make([]byte, 1<<20)
		_, _ = rand.NewChaCha8([32]byte{}).Read(body)
		_, _ = w.Write(body)
	})
	b.process = modelcall.NewProcess(modelcall.Options{})
	const n = 2 * modelcall.MaxMemoBytes >> 20
	c := b.begin()
	for i := range n {
		if _, err := b.ask(c, strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	c.End()
	runtime.KeepAlive(c) // which has them, too, until here
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.process = modelcall.NewProcess(modelcall.Options{})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if freed := int64(before.HeapAlloc) - int64(after.HeapAlloc); freed > modelcall.MaxMemoBytes+8<<20 {
		t.Errorf("the memo had %d bytes", freed)
	}
}

// A hook gets what is stored. If it fails, the agent still gets the response.
func TestHooks(t *testing.T) {
	xor := func(b []byte) ([]byte, error) {
		for i := range b {
			b[i] ^= 0x55
		}
		return b, nil
	}
	broken := func([]byte) ([]byte, error) { return nil, errors.New("broken") }
	panics := func([]byte) ([]byte, error) { panic("broken") }
	for name, tt := range map[string]struct {
		hooks modelcall.Hooks
		again string
		calls int64
	}{
		"seal":               {modelcall.Hooks{Seal: xor, Open: xor}, `200 OK {"n":1}`, 1},
		"redact":             {modelcall.Hooks{Redact: func([]byte) ([]byte, error) { return []byte(`{}`), nil }}, `200 OK {}`, 1},
		"seal that fails":    {modelcall.Hooks{Seal: broken, Open: xor}, `200 OK {"n":2}`, 2},
		"seal that panics":   {modelcall.Hooks{Seal: panics, Open: xor}, `200 OK {"n":2}`, 2},
		"redact that panics": {modelcall.Hooks{Redact: panics}, `200 OK {"n":2}`, 2},
		"open that fails":    {modelcall.Hooks{Seal: xor, Open: broken}, `200 OK {"n":2}`, 2},
		"open that panics":   {modelcall.Hooks{Seal: xor, Open: panics}, `200 OK {"n":2}`, 2},
		"no way to open":     {modelcall.Hooks{Seal: xor}, `200 OK {"n":2}`, 2},
		"opened as another":  {modelcall.Hooks{Seal: xor, Open: func([]byte) ([]byte, error) { return []byte("x"), nil }}, `200 OK {"n":2}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, jsonAnswer)
			b.config.Hooks = tt.hooks
			c := b.begin()
			if text, err := b.ask(c, `{}`); err != nil || text != `200 OK {"n":1}` {
				t.Errorf("%q, %v", text, err)
			}
			b.end(c)
			if tt.hooks.Seal != nil {
				if stored, _ := proto.Marshal(b.cache.Blob()); bytes.Contains(stored, []byte(`{"n":1}`)) {
					t.Error("the response is stored as it was")
				}
			}
			if text, err := b.ask(b.begin(), `{}`); err != nil || text != tt.again || b.calls.Load() != tt.calls {
				t.Errorf("again %q, %v, %d calls", text, err, b.calls.Load())
			}
		})
	}
}

// If only the digest of a response fits, the call is made again and its response is compared.
func TestDigestOnly(t *testing.T) {
	b := newBench(t, func(n int64, w http.ResponseWriter, _ *http.Request) {
		body := make([]byte, 200_000)
		_, _ = rand.NewChaCha8([32]byte{byte(n / 3)}).Read(body)
		w.Header().Set("X-Request-ID", strconv.FormatInt(n, 10)) // is not compared
		_, _ = w.Write(body)
	})
	for i, differs := range []bool{false, false, true} {
		c := b.begin()
		if _, err := b.ask(c, `{}`); err != nil {
			t.Fatal(err)
		}
		left := b.end(c)
		if b.calls.Load() != int64(i+1) || len(left.Calls) != 1 || left.Calls[0].Differs != differs || left.Calls[0].Hit {
			t.Errorf("%d: %d calls, left %+v", i, b.calls.Load(), left)
		}
	}
}

func TestCall(t *testing.T) {
	b := newBench(t, jsonAnswer)
	n := 0
	model := func(context.Context) ([]byte, error) {
		n++
		if n == 2 {
			return nil, io.ErrUnexpectedEOF
		}
		return fmt.Appendf(nil, "answer %d", n), nil
	}
	ask := func(c *modelcall.Calls, want string, wantErr error) {
		t.Helper()
		got, _, err := c.Call(t.Context(), modelcall.Request{Model: "m", Messages: []string{"hello"}}, model)
		if string(got) != want || !errors.Is(err, wantErr) {
			t.Errorf("got %q, %v, want %q, %v", got, err, want, wantErr)
		}
		clear(got) // it is the agent's
	}
	c := b.begin()
	ask(c, "answer 1", nil)
	ask(c, "", io.ErrUnexpectedEOF)
	ask(c, "answer 3", nil)
	b.end(c)
	again := b.begin()
	ask(again, "answer 1", nil)
	ask(again, "answer 3", nil)
	ask(again, "answer 4", nil)
	if _, _, err := again.Call(t.Context(), modelcall.Request{Params: struct{}{}}, model); err == nil {
		t.Error("a struct has no canonical JSON")
	}
}

func TestTokenBudget(t *testing.T) {
	b := newBench(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"chat.completion","usage":{"prompt_tokens":6,"completion_tokens":4}}`)
	})
	b.config.MaxTokens = 20
	c := b.begin()
	for i, over := range []bool{false, false, true, true} {
		if _, err := b.ask(c, strconv.Itoa(i)); errors.Is(err, modelcall.ErrTokenBudget) != over {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
	if left := c.End(); !errors.Is(left.Err, modelcall.ErrTokenBudget) || b.calls.Load() != 3 {
		t.Errorf("left %+v, %d calls", left, b.calls.Load())
	}
}

// Requests that differ from the recorded requests in their place are reported.
func TestDivergence(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second []string
		want          []string
	}{
		"the same":               {[]string{`{"a":1}`}, []string{`{"a":1}`}, nil},
		"goes on":                {[]string{`{"m":["a"]}`}, []string{`{"m":["a","b"]}`}, nil},
		"asks something new":     {[]string{`{"m":["a"],"s":1}`}, []string{`{"m":["b"],"s":2}`}, nil},
		"asks less":              {[]string{`1`, `2`}, []string{`1`}, nil},
		"asks more":              {[]string{`{"a":1}`}, []string{`{"a":1}`, `{"b":1}`}, nil},
		"a clock in a prompt":    {[]string{`{"m":["10:01","x"]}`}, []string{`{"m":["10:02","x"]}`}, []string{"request 1: body.m[0]"}},
		"the second one":         {[]string{`{"a":1}`, `{"a":2,"b":2}`}, []string{`{"a":1}`, `{"a":3,"b":3}`}, []string{"request 2: body.a, body.b"}},
		"a body that is no JSON": {[]string{`a`}, []string{`b`}, []string{"request 1: body"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, again := range []string{"after a resume", "in the next try"} {
				b := newBench(t, jsonAnswer)
				b.process = modelcall.NewProcess(modelcall.Options{})
				c := b.begin()
				for _, body := range tt.first {
					if _, err := b.ask(c, body); err != nil {
						t.Fatal(err)
					}
				}
				want := tt.want
				if again == "after a resume" {
					b.end(c)
					b.config.Attempt = 1
				} else {
					c.End()
					if name == "asks something new" { // then it must be the same
						want = []string{"request 1: body.m[0], body.s"}
					}
				}
				c = b.begin()
				for _, body := range tt.second {
					if _, err := b.ask(c, body); err != nil {
						t.Fatal(err)
					}
				}
				if left := c.End(); !slices.Equal(left.Diverged, want) {
					t.Errorf("%s: %q, want %q", again, left.Diverged, want)
				}
			}
		})
	}
}

func TestFresh(t *testing.T) {
	b := newBench(t, jsonAnswer)
	for attempt := range uint32(3) {
		b.config.Attempt = attempt
		c := b.begin()
		resp, err := c.Client().Do(b.request(modelcall.WithFresh(t.Context()), http.MethodPost, `{}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if left := b.end(c); len(left.Diverged) > 0 {
			t.Errorf("diverged: %q", left.Diverged)
		}
	}
	if b.calls.Load() != 3 {
		t.Errorf("%d calls", b.calls.Load())
	}
}
