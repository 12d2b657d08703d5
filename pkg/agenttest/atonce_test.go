package agenttest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

// meeting makes two activations wait for each other.
var meeting atomic.Pointer[sync.WaitGroup]

// sociable says whether another activation with the same agent value runs at the same time.
type sociable struct{}

func (*sociable) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	m := meeting.Load()
	if m == nil {
		return agent.Done(), act.EmitJSON("alone")
	}
	m.Done()
	m.Wait()
	return agent.Done(), act.EmitJSON("together")
}

// Each key runs at the same time as all other keys, and at the same time as a copy of itself.
func TestAtOnce(t *testing.T) {
	r := New(t, AgentParams{Name: "test", Agent: new(sociable)})
	r.recording = true
	r.Key("a").Event("e")
	r.Key("b").Event("e")
	m := new(sync.WaitGroup)
	m.Add(4)
	meeting.Store(m)
	defer meeting.Store(nil)
	err := (&everywhere{t: t, records: r.records}).atOnce()
	if err == nil || !strings.Contains(err.Error(), `the outputs of step 1 (the event e`) || !strings.Contains(err.Error(), "together") {
		t.Errorf("got %v", err)
	}
}

// Each disturbance ends bundles or fails where its name says.
func TestDisturbances(t *testing.T) {
	r := New(t, AgentParams{Name: "test", Agent: new(sociable)})
	r.recording = true
	for range 3 {
		r.Key("a").Event("e")
	}
	e := &everywhere{t: t, records: r.records}
	var got []string
	for _, d := range e.disturbances() {
		if err := e.run(d); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		name := strings.ReplaceAll(d.name, ` (the event e at 2025-01-01T00:00:00Z for key "a")`, "")
		if len(got) == 0 || got[len(got)-1] != name {
			got = append(got, name)
		}
	}
	want := `in the same way
in one bundle
in two bundles, the second from step 2 on
in two bundles, the second from step 3 on
in a bundle of its own, which failed after step 1 and was retried by the same worker
in a bundle of its own, which failed after step 1 and was retried by another worker
in one bundle, which failed before step 1 and was retried by another worker
in one bundle, which failed after step 1 and was retried by the same worker
in one bundle, which failed after step 1 and was retried by another worker
in a bundle of its own, which failed after step 2 and was retried by the same worker
in a bundle of its own, which failed after step 2 and was retried by another worker
in one bundle, which failed before step 2 and was retried by another worker
in one bundle, which failed after step 2 and was retried by the same worker
in one bundle, which failed after step 2 and was retried by another worker
in a bundle of its own, which failed after step 3 and was retried by the same worker
in a bundle of its own, which failed after step 3 and was retried by another worker
in one bundle, which failed before step 3 and was retried by another worker
in one bundle, which failed after step 3 and was retried by the same worker
in one bundle, which failed after step 3 and was retried by another worker
in one bundle`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
}

func TestDifference(t *testing.T) {
	for _, c := range []struct{ first, again, want string }{
		{"a b c d e f", "a b c X e f", "  b|  c|- d|+ X|  e|  f"},
		{"a", "a b", "  a|+ b"},
		{"a a", "a", "  a|- a"},
		{"x", "y", "- x|+ y"},
		{strings.Repeat("x ", 30) + "x", "x", "  x|" + strings.Repeat("- x|", 20) + "- ... and 10 more lines"},
	} {
		if got := strings.ReplaceAll(difference(strings.Fields(c.first), strings.Fields(c.again)), "\n", "|"); got != c.want {
			t.Errorf("%q and %q: got %q, want %q", c.first, c.again, got, c.want)
		}
	}
}
