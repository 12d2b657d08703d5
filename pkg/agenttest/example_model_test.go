package agenttest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
)

// Letters asks a model for a draft of a letter, and sends the letter when a human has approved it.
// It starts from the beginning after the answer, and gets the draft from the replay cache.
type Letters struct{ BaseURL string }

// Run is one activation.
func (a *Letters) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	draft, err := a.draft(ctx, act.HTTPClient(), act.Key())
	if err != nil {
		return agent.Outcome{}, err
	}
	// A model without HTTP: a library in this process, or a client of another protocol.
	tone, err := act.CallModel(ctx, agent.ModelCall{Model: "tone-v1", Messages: []string{draft}},
		func(context.Context) ([]byte, error) { return []byte(tone(draft)), nil })
	if err != nil {
		return agent.Outcome{}, err
	}
	t := act.Trigger()
	if t.Kind == agent.Event {
		return agent.Suspend(nil, 24*time.Hour), act.RequestApproval("send", map[string]any{"text": draft, "tone": string(tone)})
	}
	if !t.Approved {
		return agent.Done(), act.EmitJSON("not sent: " + draft)
	}
	return agent.Done(), act.ActApproved()
}

// draft is what the SDK of a provider does when it is given the client.
func (a *Letters) draft(ctx context.Context, client *http.Client, customer []byte) (string, error) {
	body, err := json.Marshal(map[string]any{"model": "m", "prompt": "A letter to " + string(customer)})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.BaseURL, strings.NewReader(string(body)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the model answered with %s", resp.Status)
	}
	var answer struct {
		Text string `json:"text"`
	}
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.Text, err
}

func tone(text string) string {
	if strings.HasPrefix(text, "Dear") {
		return "polite"
	}
	return "rude"
}

// The model writes another letter each time. The letter that was approved is the one that is sent.
func TestTheApprovedLetterIsSent(t *testing.T) {
	drafts := 0
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		drafts++
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"text":"Dear customer, this is draft %d."}`, drafts)
	}))
	defer model.Close()
	k := agenttest.New(t, agenttest.AgentParams{Name: "letters", Agent: &Letters{BaseURL: model.URL}}).Key("customer-1")
	asked := k.Event("write").Intent("send")
	send := k.Approve(asked, "alice").Intent("send")
	if want := `{"text":"Dear customer, this is draft 1.","tone":"polite"}`; asked.GetArgsJson() != want || send.GetArgsJson() != want {
		t.Errorf("asked for %s, sent %s", asked.GetArgsJson(), send.GetArgsJson())
	}
	asked = k.Event("write").Intent("send")
	var text string
	k.Deny(asked, "alice").OutputJSON(&text)
	if text != "not sent: Dear customer, this is draft 2." || drafts != 2 {
		t.Errorf("%q after %d drafts", text, drafts)
	}
}
