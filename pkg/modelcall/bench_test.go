package modelcall_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkTransport compares a plain request over loopback with a miss, which records the
// response, and with a hit.
func BenchmarkTransport(b *testing.B) {
	const answer = `{"id":"c1","object":"chat.completion","model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant",` +
		`"content":"The customer was charged twice. Refund the second payment."}}],"usage":{"prompt_tokens":100,"completion_tokens":20}}`
	setup := func(b *testing.B) *bench {
		b.Helper()
		b.ReportAllocs()
		return newBench(b, func(_ int64, w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		})
	}
	do := func(b *testing.B, k *bench, client *http.Client, body string) {
		b.Helper()
		resp, err := client.Do(k.request(b.Context(), http.MethodPost, body))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	body := func(n int) string {
		return `{"model":"m","messages":[{"role":"system","content":"You triage payments."},{"role":"user","content":"` + strconv.Itoa(n) + `"}]}`
	}
	b.Run("plain", func(b *testing.B) {
		k := setup(b)
		client := &http.Client{Transport: http.DefaultTransport}
		for n := 0; b.Loop(); n++ {
			do(b, k, client, body(n))
		}
	})
	b.Run("miss", func(b *testing.B) {
		k := setup(b)
		for n := 0; b.Loop(); n++ {
			c := k.begin()
			do(b, k, c.Client(), body(n))
			k.end(c)
		}
	})
	b.Run("hit", func(b *testing.B) {
		k := setup(b)
		for b.Loop() {
			c := k.begin()
			do(b, k, c.Client(), body(1))
			k.end(c)
		}
		if n := k.calls.Load(); n != 1 {
			b.Fatalf("%d calls", n)
		}
	})
}

// tokenStream is a chat completion of n tokens as OpenAI streams it.
func tokenStream(n int) string {
	random := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- the same each time
	words := make([]string, 1000)
	for i := range words {
		words[i] = strconv.FormatUint(random.Uint64N(1<<20), 36)
	}
	var s strings.Builder
	for range n {
		fmt.Fprintf(&s, `data: {"id":"chatcmpl-Bx7Yq2","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4.1","service_tier":"default",`+
			`"system_fingerprint":"fp_9a2b","choices":[{"index":0,"delta":{"content":" %s"},"logprobs":null,"finish_reason":null}],"usage":null}`+"\n\n", words[random.IntN(len(words))])
	}
	s.WriteString(`data: {"id":"chatcmpl-Bx7Yq2","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4.1","choices":[],"usage":{"prompt_tokens":50,"completion_tokens":` +
		strconv.Itoa(n) + "}}\n\ndata: [DONE]\n\n")
	return s.String()
}

// BenchmarkStream records and replays a stream of 4,000 tokens.
func BenchmarkStream(b *testing.B) {
	text := tokenStream(4000)
	for _, kind := range []string{"plain", "miss", "hit"} {
		b.Run(kind, func(b *testing.B) {
			k := newBench(b, func(_ int64, w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, text)
			})
			for n := 0; b.Loop(); n++ {
				c := k.begin()
				client := c.Client()
				if kind == "plain" {
					client = http.DefaultClient
				}
				body := "0"
				if kind == "miss" {
					body = strconv.Itoa(n)
				}
				resp, err := client.Do(k.request(b.Context(), http.MethodPost, body))
				if err != nil {
					b.Fatal(err)
				}
				if got, _ := io.Copy(io.Discard, resp.Body); got != int64(len(text)) {
					b.Fatalf("%d bytes", got)
				}
				_ = resp.Body.Close()
				k.end(c)
			}
			if kind == "hit" {
				b.ReportMetric(float64(len(text)), "stream-B")
				b.ReportMetric(float64(k.cache.BlobBytes()), "stored-B")
			}
		})
	}
}
