package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

// base is an agent with nothing but Run.
type base struct{}

func (*base) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

type full struct{ base }

func (*full) Setup(context.Context) error                        { return nil }
func (*full) TimeoutPolicy(agent.Timeout) agent.Route            { return agent.Deny(nil) }
func (*full) EventID([]byte) string                              { return "" }
func (*full) SnapshotVersion() uint32                            { return 1 }
func (*full) MigrateSnapshot(_ uint32, s []byte) ([]byte, error) { return s, nil }
func (*full) TraceParent([]byte) string                          { return "" }

type notAStruct int

func (*notAStruct) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

type byValue struct{}

func (byValue) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

type badSetup struct{ base }

func (*badSetup) Setup() error { return nil }

type badPolicy struct{ base }

func (*badPolicy) TimeoutPolicy(*agent.Timeout) agent.Route { return agent.Deny(nil) }

type badEventID struct{ base }

func (*badEventID) EventID(string) string { return "" }

type badVersion struct{ base }

func (*badVersion) SnapshotVersion() int { return 1 }

type badMigrate struct{ base }

func (*badMigrate) MigrateSnapshot(int, ...byte) ([]byte, error) { return nil, nil }

type badTrace struct{ base }

func (*badTrace) TraceParent([]byte) (string, error) { return "", nil }

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		agent agent.Agent
		want  []string // in the error; none if it is well
	}{
		{&base{}, nil},
		{&full{}, nil},
		{nil, []string{"<nil>", "pointer to a struct"}},
		{(*base)(nil), []string{"nil *agent_test.base"}},
		{byValue{}, []string{"agent_test.byValue", "pointer to a struct"}},
		{&byValue{}, nil},
		{new(notAStruct), []string{"*agent_test.notAStruct", "pointer to a struct"}},
		{&badSetup{}, []string{"Setup", "func() error", "func(context.Context) error"}},
		{&badPolicy{}, []string{"TimeoutPolicy", "func(*agent.Timeout) agent.Route", "func(agent.Timeout) agent.Route"}},
		{&badEventID{}, []string{"EventID", "func(string) string", "func([]uint8) string"}},
		{&badVersion{}, []string{"SnapshotVersion", "func() int", "func() uint32"}},
		{&badMigrate{}, []string{"MigrateSnapshot", "func(int, ...uint8) ([]uint8, error)"}},
		{&badTrace{}, []string{"TraceParent", "func([]uint8) (string, error)", "func([]uint8) string"}},
	} {
		err := agent.Check(tt.agent)
		if (err != nil) != (tt.want != nil) {
			t.Errorf("%T: %v", tt.agent, err)
			continue
		}
		for _, part := range tt.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%T: %q lacks %q", tt.agent, err, part)
			}
		}
	}
}

func TestOutcomes(t *testing.T) {
	if o := agent.Done(); o.Kind != agent.DoneOutcome {
		t.Errorf("%+v", o)
	}
	if o := agent.Suspend([]byte("s"), time.Hour); o.Kind != agent.SuspendOutcome || string(o.Snapshot) != "s" || o.Timeout != time.Hour {
		t.Errorf("%+v", o)
	}
	boom := errors.New("boom")
	if o := agent.Reject(boom); o.Kind != agent.RejectOutcome || !errors.Is(o.Err, boom) {
		t.Errorf("%+v", o)
	}
	if o := agent.Reject(nil); o.Err == nil {
		t.Error("Reject(nil) has no error")
	}
}

func TestRoutes(t *testing.T) {
	for _, tt := range []struct {
		route agent.Route
		ok    bool
	}{
		{agent.Deny(nil), true},
		{agent.Drop(""), true},
		{agent.Resume(), true},
		{agent.Escalate("c", time.Millisecond, 1), true},
		{agent.Escalate(strings.Repeat("c", 4096), time.Hour, agent.MaxEscalations), true},
		{agent.Escalate("", time.Hour, 1), false},
		{agent.Escalate(strings.Repeat("c", 4097), time.Hour, 1), false},
		{agent.Escalate("c", time.Millisecond-1, 1), false},
		{agent.Escalate("c", -time.Hour, 1), false},
		{agent.Escalate("c", time.Hour, 0), false},
		{agent.Escalate("c", time.Hour, agent.MaxEscalations+1), false},
		{agent.Route{}, false},
		{agent.Route{Kind: 99}, false},
	} {
		if err := tt.route.Validate(); (err == nil) != tt.ok {
			t.Errorf("%.60v: %v", fmt.Sprint(tt.route), err)
		}
	}
}

func TestKinds(t *testing.T) {
	for kind, want := range map[agent.Kind]string{
		0: "unknown", agent.Event: "event", agent.ToolResult: "tool_result", agent.Approval: "approval",
		agent.Expired: "expired", agent.TimedOut: "timed_out", 6: "unknown", 255: "unknown",
	} {
		text, err := kind.MarshalText()
		if kind.String() != want || string(text) != want || err != nil {
			t.Errorf("%d is %s, %s, %v; want %s", kind, kind, text, err, want)
		}
	}
}
