// Package modelagent is an agent that calls a model, and the model, for tests of the runtimes:
// both have to leave the same bytes when its calls replay.
package modelagent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

// Secret is the credential of the requests, and is in a cookie of the responses. It must
// not be found in anything that goes out or is stored.
const Secret = "sk-very-secret"

// Requests is how many requests an activation makes over HTTP.
const Requests = 4

// Agent asks a model: twice the same, twice at once, and once without HTTP. It runs from
// the top again when it is resumed.
type Agent struct {
	Addr  string // of the server, which is not part of the requests
	Clock string // in the prompts of the requests at once after a resume
}

// ModelTransport connects each request to the server at Addr.
func (a *Agent) ModelTransport() http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, a.Addr)
	}}
}

// Run emits the five answers. For an event it then asks for a tool call and suspends.
func (a *Agent) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	trigger := act.Trigger()
	client := act.HTTPClient()
	clock := ""
	if trigger.Kind != agent.Event {
		clock = a.Clock
	}
	var all [5]string
	var errs [5]error
	for i := range 2 {
		all[i], errs[i] = ask(ctx, client, `{"model":"m","messages":["same"]}`)
	}
	var group sync.WaitGroup
	for i := range 2 {
		group.Go(func() {
			all[2+i], errs[2+i] = ask(ctx, client, fmt.Sprintf(`{"model":"m","messages":["at once %d%s"]}`, i, clock))
		})
	}
	group.Wait()
	body, err := act.CallModel(ctx, agent.ModelCall{Model: "local", Messages: []string{"hello"}}, func(context.Context) ([]byte, error) {
		return []byte("a local answer"), nil
	})
	all[4], errs[4] = string(body), err
	if err := errors.Join(errs[:]...); err != nil {
		return agent.Outcome{}, err
	}
	for _, text := range all {
		if err := act.Emit([]byte(text)); err != nil {
			return agent.Outcome{}, err
		}
	}
	if trigger.Kind == agent.Event {
		return agent.Suspend(nil, time.Hour), act.Act("tool", map[string]any{"n": 1})
	}
	return agent.Done(), nil
}

func ask(ctx context.Context, client *http.Client, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model.test/v1/chat/completions?key="+Secret, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+Secret)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	return string(text), errors.Join(err, resp.Body.Close())
}

// Serve starts a model for the time of a test. It gives the same answer to the same request.
// It calls hook, unless that is nil, with the number of the request, and hangs up if hook
// returns false.
func Serve(t *testing.T, hook func(n int64) bool) (addr string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if n := calls.Add(1); hook != nil && !hook(n) {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "session="+Secret)
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","model":"m-1","usage":{"prompt_tokens":6,"completion_tokens":4},"text":"%x"}`, sha256.Sum256(body))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), calls
}
