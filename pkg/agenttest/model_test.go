package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
)

// asker asks a model twice over HTTP, and again from the top when it is resumed.
type asker struct {
	URL string
}

func (a *asker) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	client := act.HTTPClient()
	for range 2 {
		text, err := post(ctx, client, a.URL, `{"model":"m","messages":["hi"]}`)
		if err != nil {
			return agent.Outcome{}, err
		}
		if err := act.Emit([]byte(text)); err != nil {
			return agent.Outcome{}, err
		}
	}
	if act.Trigger().Kind == agent.Event {
		return agent.Suspend(nil, time.Hour), act.Act("tool", nil)
	}
	return agent.Done(), nil
}

func post(ctx context.Context, client *http.Client, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", resp.Status)
	}
	return string(text), nil
}

const secret = "sk-very-secret"

// server counts what it answers.
func server(t *testing.T, answer func(n int64, w http.ResponseWriter, r *http.Request)) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(calls.Add(1), w, r) }))
	t.Cleanup(s.Close)
	return s.URL + "/v1/chat/completions", calls
}

func TestHTTPClientReplays(t *testing.T) {
	url, calls := server(t, func(n int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"answer":%d}`, n)
	})
	k := agenttest.New(t, agenttest.AgentParams{Name: "asker", Agent: &asker{URL: url}}).Key("k")
	first := k.Event("go")
	again := k.Answer(first.Intent("tool"), 1, nil)
	if calls.Load() != 2 {
		t.Errorf("%d calls", calls.Load())
	}
	var got []string
	for _, o := range append(first.Outputs, again.Outputs...) {
		got = append(got, string(o.Value))
	}
	if want := `{"answer":1} {"answer":2} {"answer":1} {"answer":2}`; strings.Join(got, " ") != want {
		t.Errorf("outputs %v, want %v", got, want)
	}
	for _, e := range append(first.Traces, again.Traces...) {
		t.Log(e)
	}
}

var _ sync.Mutex
