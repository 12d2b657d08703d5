package modelcall_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/modelcall"
)

// The replayed bytes are those that the agent got the first time.
func TestReplayedBytes(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"JSON and a line end": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{\"a\": 1}\r\n\n")
		},
		"gzip": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "gzip" {
				t.Error("gzip is not asked for")
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprint(z, `{"object":"chat.completion","usage":{"prompt_tokens":6,"completion_tokens":4}}`)
			_ = z.Close()
		},
		"no type":          func(w http.ResponseWriter, _ *http.Request) { w.Header()["Content-Type"] = nil; fmt.Fprint(w, "x") },
		"nothing at all":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"nothing, of JSON": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "application/json") },
	} {
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(name+" over "+protocol, func(t *testing.T) {
				b := newBench(t, nil)
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					b.calls.Add(1)
					if r.Proto != protocol {
						t.Errorf("the protocol is %s", r.Proto)
					}
					answer(w, r)
				}))
				s.EnableHTTP2 = protocol == "HTTP/2.0"
				s.StartTLS()
				defer s.Close()
				b.url = s.URL
				b.process = modelcall.NewProcess(modelcall.Options{NoMemo: true, Transport: s.Client().Transport})
				c := b.begin()
				first, err := b.ask(c, `{}`)
				if err != nil {
					t.Fatal(err)
				}
				b.end(c)
				c = b.begin()
				again, err := b.ask(c, `{}`)
				if err != nil || again != first || b.calls.Load() != 1 {
					t.Errorf("%q, then %q, %v, %d calls", first, again, err, b.calls.Load())
				}
				if left := b.end(c); name == "gzip" && (len(left.Calls) != 1 || left.Calls[0].Usage.Input != 6) {
					t.Errorf("left %+v", left)
				}
			})
		}
	}
}

// The end of a connection does not show whether a body is complete.
func TestBodyThatTheConnectionEnds(t *testing.T) {
	b := newBench(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\npart of it")
		_ = conn.Close()
	})
	for range 2 {
		c := b.begin()
		if text, err := b.ask(c, `{}`); err != nil || text != "200 OK part of it" {
			t.Fatalf("%q, %v", text, err)
		}
		b.end(c)
	}
	if b.calls.Load() != 2 {
		t.Errorf("%d calls", b.calls.Load())
	}
}

type closed struct {
	io.Reader

	closed *bool
}

func (c closed) Close() error { *c.closed = true; return nil }

// A body that is too long to be recorded is passed on completely, and closed.
func TestLargeRequest(t *testing.T) {
	const size = 50 << 20
	b := newBench(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		got, _ := io.Copy(io.Discard, r.Body)
		if got != size {
			t.Errorf("%d bytes", got)
		}
		jsonAnswer(n, w, r)
	})
	for _, ended := range []bool{false, true} {
		c := b.begin()
		if ended {
			c.End()
		}
		wasClosed := false
		req := b.request(t.Context(), http.MethodPut, "")
		req.Body, req.ContentLength, req.GetBody = closed{&zeros{size}, &wasClosed}, size, nil
		resp, err := c.Client().Do(req)
		if (err != nil) != ended || !wasClosed {
			t.Errorf("ended %v: %v, closed %v", ended, err, wasClosed)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
}

// The tokens that a broken stream has reported count.
func TestTokensOfABrokenStream(t *testing.T) {
	const started = `data: {"type":"message_start","message":{"usage":{"input_tokens":30,"output_tokens":1}}}` + "\n\n"
	for name, tt := range map[string]struct {
		answer func(int64, http.ResponseWriter, *http.Request)
		read   int64
	}{
		"it breaks":             {stream(started, "cut"), 1 << 20},
		"it ends early":         {stream(started), 1 << 20},
		"the agent stops":       {stream(started, strings.Repeat("data: {}\n\n", 1000)), int64(len(started))},
		"an error in its midst": {stream(started, "data: {\"type\":\"error\",\"error\":{}}\n\n"), 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.answer)
			b.config.MaxTokens = 50
			c := b.begin()
			for range 2 {
				resp, err := c.Client().Do(b.request(context.Background(), http.MethodPost, `{}`))
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.CopyN(io.Discard, resp.Body, tt.read)
				_ = resp.Body.Close()
			}
			left := b.end(c)
			if len(left.Calls) != 0 || len(left.Broken) != 2 || left.Broken[0].Input != 30 || left.Err == nil {
				t.Errorf("left %+v", left)
			}
		})
	}
}
