package activation_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
)

type valueAgent struct{}

func (valueAgent) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

type misspelt struct{ valueAgent }

func (*misspelt) EventID(string) string { return "" }

func TestAgentParamsRefuses(t *testing.T) {
	set := func(change func(*activation.AgentParams)) activation.AgentParams {
		p := activation.AgentParams{Name: "test", Agent: new(valueAgent)}
		change(&p)
		return p
	}
	for want, change := range map[string]func(*activation.AgentParams){
		`AgentParams.Name is ""; use 1 to 64`:                  func(p *activation.AgentParams) { p.Name = "" },
		`AgentParams.Name is "Test"`:                           func(p *activation.AgentParams) { p.Name = "Test" },
		`AgentParams.Name is "aaaaaaaa`:                        func(p *activation.AgentParams) { p.Name = strings.Repeat("a", 65) },
		"AgentParams.Agent is nil":                             func(p *activation.AgentParams) { p.Agent = nil },
		"use a pointer to a struct":                            func(p *activation.AgentParams) { p.Agent = valueAgent{} },
		"EventID":                                              func(p *activation.AgentParams) { p.Agent = new(misspelt) },
		"AgentParams.WhileSuspended is 2; use Defer or Reject": func(p *activation.AgentParams) { p.WhileSuspended = 2 },
		"AgentParams.ActivationTimeout is 1µs":                 func(p *activation.AgentParams) { p.ActivationTimeout = time.Microsecond },
		"AgentParams.ActivationTimeout is 1h0m1s":              func(p *activation.AgentParams) { p.ActivationTimeout = time.Hour + time.Second },
		"AgentParams.TTL is -1s":                               func(p *activation.AgentParams) { p.TTL = -time.Second },
		"AgentParams.MaxDeferred is -1":                        func(p *activation.AgentParams) { p.MaxDeferred = -1 },
		"AgentParams.MaxDeferredBytes is -1":                   func(p *activation.AgentParams) { p.MaxDeferredBytes = -1 },
		"AgentParams.MaxIntents is -1":                         func(p *activation.AgentParams) { p.MaxIntents = -1 },
		"AgentParams.MaxOutputBytes is -1":                     func(p *activation.AgentParams) { p.MaxOutputBytes = -1 },
		"AgentParams.MaxSnapshotBytes is -1":                   func(p *activation.AgentParams) { p.MaxSnapshotBytes = -1 },
		"AgentParams.MaxTokens is -1":                          func(p *activation.AgentParams) { p.MaxTokens = -1 },
		"AgentParams.MaxModelCalls is -1":                      func(p *activation.AgentParams) { p.MaxModelCalls = -1 },
		"AgentParams.MaxModelCalls is 4097":                    func(p *activation.AgentParams) { p.MaxModelCalls = 4097 },
		"AgentParams.MaxActivationsPerHour is -1":              func(p *activation.AgentParams) { p.MaxActivationsPerHour = -1 },
	} {
		if _, err := set(change).WithDefaults(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something about %s", err, want)
		}
	}
}

func TestAgentParamsDefaults(t *testing.T) {
	a := new(valueAgent)
	got, err := activation.AgentParams{Name: "test", Agent: a}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if want := (activation.AgentParams{
		Name: "test", Agent: a, ActivationTimeout: 5 * time.Minute, MaxDeferred: 64, MaxDeferredBytes: 1 << 20,
		MaxIntents: 1000, MaxOutputBytes: 10 << 20, MaxSnapshotBytes: 1 << 20, MaxModelCalls: 64,
	}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Every option reaches the rules, with two exceptions: the time limit, which the runtime applies,
// and the options of the Process.
func TestAgentParamsRules(t *testing.T) {
	p := activation.AgentParams{
		Name: "test", Agent: new(valueAgent), ActivationTimeout: time.Second, TTL: time.Minute, WhileSuspended: activation.Reject,
		MaxDeferred: 1, MaxDeferredBytes: 2, MaxIntents: 3, MaxOutputBytes: 4, MaxSnapshotBytes: 5, MaxActivationsPerHour: 6, MeasureDurations: true,
		MaxTokens: 7, MaxModelCalls: 8, NoModelMemo: true,
	}
	set, err := p.WithDefaults()
	if err != nil || set != p {
		t.Fatalf("%+v became %+v: %v", p, set, err)
	}
	rules := reflect.ValueOf(p.Rules())
	for i := range rules.NumField() {
		if name := rules.Type().Field(i).Name; rules.Field(i).IsZero() != (name == "Process") {
			t.Errorf("the option for Rules.%s is lost", rules.Type().Field(i).Name)
		}
	}
	if rules.NumField()-1 != reflect.TypeOf(p).NumField()-3 { // Process; ActivationTimeout, MaxModelCalls, NoModelMemo
		t.Errorf("there are %d options and %d fields of Rules", reflect.TypeOf(p).NumField(), rules.NumField())
	}
	if got := p.Rules(); got.TTLMS != 60_000 || got.MaxDeferredBytes != 2 {
		t.Errorf("got %+v", got)
	}
}
