package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/memory"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// begin starts an activation for an event, with its own memory.
func begin(change ...func(*agent.Start)) *agent.Activation {
	m := memory.New(nil, 1000)
	start := agent.Start{
		Trigger: agent.Trigger{Kind: agent.Event, Event: []byte("e")}, Key: []byte("k"), Seq: 7, Step: 2, NowMS: 1000,
		Memory: func() (*memory.Memory, error) { return m, nil }, MaxIntents: 10, MaxOutputBytes: 1000,
	}
	for _, c := range change {
		c(&start)
	}
	return agent.Begin(start)
}

func TestActStagesAnIntent(t *testing.T) {
	act := begin()
	for _, err := range []error{
		act.Act("tool", struct {
			B int     `json:"b"`
			A float64 `json:"a"`
		}{1, 2}),
		act.RequestApproval("pay", json.RawMessage(` {"z": 1e2, "a": "\u00e9<"} `)),
		act.ExpireIntentsAfter(90 * time.Second),
		act.Act("tool", nil),
		act.RequestApproval("pay", map[string]any{}),
		act.ExpireIntentsAfter(0),
		act.Act("tool", nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	staged := act.End()
	if staged.Err != nil || staged.Step != 7 || len(staged.Offsets) != 0 {
		t.Errorf("%+v", staged)
	}
	for i, want := range []struct {
		kind    pb.ToolIntent_Kind
		tool    string
		args    string
		expires int64
	}{
		{pb.ToolIntent_TOOL, "tool", `{"a":2,"b":1}`, 1000 + 3_600_000},
		{pb.ToolIntent_APPROVAL, "pay", `{"a":"é<","z":100.0}`, 1000 + 86_400_000},
		{pb.ToolIntent_TOOL, "tool", `{}`, 91_000},
		{pb.ToolIntent_APPROVAL, "pay", `{}`, 91_000},
		{pb.ToolIntent_TOOL, "tool", `{}`, 1000 + 3_600_000},
	} {
		step := uint32(2 + i)
		trace := intent.TraceID([]byte("k"), 7)
		full := &pb.ToolIntent{
			IntentId: intent.ID([]byte("k"), 7, step), EntityKey: []byte("k"), Seq: 7, StepIndex: step, ToolName: want.tool,
			ArgsJson: want.args, CreatedAtMs: 1000, ExpiresAtMs: want.expires, Kind: want.kind, TraceId: trace[:],
		}
		if !proto.Equal(staged.Intents[i], full) {
			t.Errorf("intent %d is %v, want %v", i, staged.Intents[i], full)
		}
	}
}

// The first refusal is kept, even if the agent ignores it.
func TestRefusals(t *testing.T) {
	type bad struct{ F func() }
	for name, tt := range map[string]struct {
		call func(*agent.Activation) error
		want error // nil is any
	}{
		"tool":            {func(a *agent.Activation) error { return a.Act("", nil) }, agent.ErrInvalidText},
		"long tool":       {func(a *agent.Activation) error { return a.Act(strings.Repeat("x", 1025), nil) }, agent.ErrInvalidText},
		"type":            {func(a *agent.Activation) error { return a.Act("t", bad{func() {}}) }, agent.ErrInvalidText},
		"NaN":             {func(a *agent.Activation) error { return a.Act("t", map[string]any{"a": math.NaN()}) }, agent.ErrInvalidText},
		"array":           {func(a *agent.Activation) error { return a.Act("t", []int{}) }, agent.ErrInvalidText},
		"nil map":         {func(a *agent.Activation) error { return a.Act("t", map[string]any(nil)) }, agent.ErrInvalidText}, // null
		"two values":      {func(a *agent.Activation) error { return a.Act("t", json.RawMessage(`{} {}`)) }, agent.ErrInvalidText},
		"duplicate":       {func(a *agent.Activation) error { return a.RequestApproval("t", json.RawMessage(`{"a":1,"\u0061":1}`)) }, agent.ErrInvalidText},
		"output":          {func(a *agent.Activation) error { return a.Emit(make([]byte, 1001)) }, agent.ErrOutputTooLarge},
		"JSON output":     {func(a *agent.Activation) error { return a.EmitJSON(make(chan int)) }, agent.ErrInvalidText},
		"no approval":     {func(a *agent.Activation) error { return a.ActApproved() }, agent.ErrNotApproved},
		"attribute":       {func(a *agent.Activation) error { return a.SetAttribute("beam_agents.a", "") }, nil},
		"attribute UTF-8": {func(a *agent.Activation) error { return a.SetAttribute("a", "\xff") }, agent.ErrInvalidText},
		"expiry":          {func(a *agent.Activation) error { return a.ExpireIntentsAfter(time.Microsecond) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			act := begin()
			err := tt.call(act)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "agent: ") {
				t.Errorf("%v, want %v", err, tt.want)
			}
			_ = act.SetAttribute("", "") // another one
			staged := act.End()
			if !errors.Is(staged.Err, err) || len(staged.Intents) > 0 || len(staged.Outputs) > 0 || staged.Step != 2 {
				t.Errorf("%+v", staged)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	open := []*pb.ToolIntent{{IntentId: "a"}, {IntentId: "b"}}
	act := begin(func(s *agent.Start) { s.Open, s.MaxIntents = open, 3 })
	if err := act.Act("t", nil); err != nil {
		t.Fatal(err)
	}
	if err := act.Act("t", nil); !errors.Is(err, agent.ErrTooManyIntents) {
		t.Errorf("%v", err)
	}
	// Outputs and intents share their bound.
	act = begin(func(s *agent.Start) { s.MaxOutputBytes = 200 })
	if err := errors.Join(act.Act("t", nil), act.Emit(make([]byte, 80))); err != nil {
		t.Fatal(err)
	}
	if err := act.Act("t", nil); !errors.Is(err, agent.ErrOutputTooLarge) {
		t.Errorf("%v", err)
	}
}

func TestActApproved(t *testing.T) {
	approval := agent.Trigger{Kind: agent.Approval, Approved: true, Intent: &pb.ToolIntent{ToolName: "pay", ArgsJson: `{"as":"it is",  "b":1}`}}
	for name, tt := range map[string]struct {
		trigger func(*agent.Trigger)
		ok      bool
	}{
		"approved":     {func(*agent.Trigger) {}, true},
		"not approved": {func(t *agent.Trigger) { t.Approved = false }, false},
		"a result":     {func(t *agent.Trigger) { t.Kind = agent.ToolResult }, false},
		"an event":     {func(t *agent.Trigger) { t.Kind = agent.Event }, false},
	} {
		t.Run(name, func(t *testing.T) {
			act := begin(func(s *agent.Start) { s.Trigger = approval; tt.trigger(&s.Trigger) })
			err := act.ActApproved()
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, agent.ErrNotApproved) {
				t.Fatal(err)
			}
			if !tt.ok {
				return
			}
			if err := act.ActApproved(); !errors.Is(err, agent.ErrNotApproved) {
				t.Errorf("a second time: %v", err)
			}
			in := act.End().Intents
			if len(in) != 1 || in[0].GetArgsJson() != approval.Intent.GetArgsJson() || in[0].GetToolName() != "pay" || in[0].GetKind() != pb.ToolIntent_TOOL {
				t.Errorf("%v", in)
			}
		})
	}
}

func TestEmit(t *testing.T) {
	act := begin()
	buffer := []byte("abc")
	if err := errors.Join(act.Emit(buffer), act.Emit(nil), act.EmitJSON(map[string]any{"b": "<é>", "a": []int{1}}), act.EmitJSON(nil)); err != nil {
		t.Fatal(err)
	}
	copy(buffer, "xyz")
	got := act.End().Outputs
	var texts []string
	for _, out := range got {
		if out == nil {
			t.Error("an output is nil")
		}
		texts = append(texts, string(out))
	}
	if want := []string{"abc", "", `{"a":[1],"b":"<é>"}`, "null"}; !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}

func TestSetAttribute(t *testing.T) {
	act := begin()
	if err := errors.Join(act.SetAttribute("a", "1"), act.SetAttribute("a", "2"), act.SetAttribute(strings.Repeat("x", 256), strings.Repeat("y", 4096))); err != nil {
		t.Fatal(err)
	}
	if got := act.End().Attributes; len(got) != 2 || got["a"] != "2" {
		t.Errorf("%v", got)
	}
}

func TestOffsets(t *testing.T) {
	var clock int64
	act := begin(func(s *agent.Start) { s.Offset = func() int64 { clock += 5; return clock } })
	if err := errors.Join(act.Act("t", nil), act.Emit(nil), act.RequestApproval("t", nil)); err != nil {
		t.Fatal(err)
	}
	if got := act.End().Offsets; !slices.Equal(got, []int64{5, 10}) {
		t.Errorf("%v", got)
	}
}

// point is a value with names in an order of their own.
type point struct {
	Y int `json:"y"`
	X int `json:"x"`
}

func roundTrip[T any](t *testing.T, value T, stored string, equal func(a, b T) bool) {
	t.Helper()
	act := begin()
	if err := agent.Put(act, "a", value); err != nil {
		t.Fatal(err)
	}
	raw, _, err := agent.Get[[]byte](act, "a")
	if err != nil || string(raw) != stored {
		t.Errorf("%T is stored as %q, want %q, %v", value, raw, stored, err)
	}
	got, ok, err := agent.Get[T](act, "a")
	if err != nil || !ok || !equal(got, value) {
		t.Errorf("%T came back as %v, %v, %v", value, got, ok, err)
	}
}

func same[T comparable](a, b T) bool { return a == b }

func TestMemoryKinds(t *testing.T) {
	bytesEqual := func(a, b []byte) bool { return string(a) == string(b) }
	roundTrip(t, []byte("\xff\x00"), "\xff\x00", bytesEqual)
	roundTrip(t, []byte{}, "", bytesEqual)
	roundTrip(t, json.RawMessage(" [1] "), " [1] ", func(a, b json.RawMessage) bool { return string(a) == string(b) })
	roundTrip(t, "te<xt", `"te<xt"`, same)
	roundTrip(t, 12, "12", same)
	roundTrip(t, int64(math.MaxInt64), "9223372036854775807", same)
	roundTrip(t, true, "true", same)
	roundTrip(t, 1.5, "1.5", same)
	roundTrip(t, point{1, 2}, `{"x":2,"y":1}`, same)
	roundTrip(t, &point{1, 2}, `{"x":2,"y":1}`, func(a, b *point) bool { return *a == *b })
	roundTrip(t, map[string]int{"b": 1, "a": 2}, `{"a":2,"b":1}`, maps.Equal)
	roundTrip(t, []int{1, 2}, "[1,2]", slices.Equal)
	roundTrip(t, &pb.ToolIntent{IntentId: "a", Seq: 1}, "\n\x01a\x18\x01", func(a, b *pb.ToolIntent) bool { return proto.Equal(a, b) })
	roundTrip[*pb.ToolIntent](t, nil, "", func(a, _ *pb.ToolIntent) bool { return proto.Equal(a, new(pb.ToolIntent)) })
	roundTrip(t, time.Unix(1, 0).UTC(), `"1970-01-01T00:00:01Z"`, func(a, b time.Time) bool { return a.Equal(b) })
	roundTrip[any](t, "x", `"x"`, func(a, b any) bool { return a == b })
}

func TestMemory(t *testing.T) {
	act := begin()
	if _, ok, err := agent.Get[int](act, "none"); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	if err := errors.Join(agent.Put(act, "a", 1), agent.Put(act, "b", 2), agent.Put(act, "a", 3), agent.Delete(act, "none")); err != nil {
		t.Fatal(err)
	}
	if names, err := agent.Names(act); err != nil || !slices.Equal(names, []string{"b", "a"}) {
		t.Errorf("%q %v", names, err)
	}
	if err := agent.Delete(act, "b"); err != nil {
		t.Error(err)
	}
	if _, ok, _ := agent.Get[int](act, "b"); ok {
		t.Error("b is still there")
	}
	// A JSON text of another form is an error of the value.
	if v, ok, err := agent.Get[string](act, "a"); err == nil || ok || v != "" || !strings.Contains(err.Error(), `memory "a"`) {
		t.Errorf("%q %v %v", v, ok, err)
	}
	if v, ok, err := agent.Get[*pb.ToolIntent](act, "a"); err == nil || ok || v != nil {
		t.Errorf("%v %v %v", v, ok, err)
	}
	if err := agent.Put(act, "a", make([]byte, memory.MaxValueBytes+1)); !errors.Is(err, memory.ErrOverflow) {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"", "\xff", strings.Repeat("x", memory.MaxKeyBytes+1)} {
		if err := agent.Put(act, name, 1); !errors.Is(err, agent.ErrInvalidText) {
			t.Errorf("%.10q: %v", name, err)
		}
		if _, ok, err := agent.Get[int](act, name); ok || err != nil {
			t.Errorf("%.10q: %v %v", name, ok, err)
		}
	}
	for _, err := range []error{
		agent.Put(act, "a", "\xff"), agent.Put(act, "a", make(chan int)), agent.Put(act, "a", math.Inf(1)),
		agent.Put(act, "a", &pb.ToolIntent{IntentId: "\xff"}),
	} {
		if !errors.Is(err, agent.ErrInvalidText) {
			t.Errorf("%v", err)
		}
	}
	if v, _, _ := agent.Get[int](act, "a"); v != 3 {
		t.Errorf("a refused Put has left %d", v)
	}
	if staged := act.End(); staged.Err != nil || staged.StateErr != nil {
		t.Errorf("%+v", staged) // memory is not a side effect: the agent decides about its errors
	}
}

// An error of the state goes to the runtime, even if the agent ignores it.
func TestMemoryFails(t *testing.T) {
	broken := errors.New("broken")
	opened := 0
	act := begin(func(s *agent.Start) { s.Memory = func() (*memory.Memory, error) { opened++; return nil, broken } })
	_, _, getErr := agent.Get[int](act, "a")
	_, namesErr := agent.Names(act)
	for _, err := range []error{getErr, namesErr, agent.Put(act, "a", 1), agent.Delete(act, "a")} {
		if !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	}
	if staged := act.End(); !errors.Is(staged.StateErr, broken) || opened != 1 {
		t.Errorf("%v, opened %d times", staged.StateErr, opened)
	}
}

// JSON that other decoders accept and this one refuses.
func TestJSONIsStrict(t *testing.T) {
	type user struct {
		Name string `json:"name"`
	}
	for text, ok := range map[string]bool{
		`{"name":"a"}`:                       true,
		"\n{\"name\":\"a\",\"other\":[1]}\n": true, // members of a newer version
		`{}`:                                 true,
		`{"Name":"a"}`:                       true, // another member
		`{"name":"a","name":"b"}`:            false,
		`{"x":1,"x":2}`:                      false,
		"{\"name\":\"\xff\"}":                false,
		`{"name":1}`:                         false,
		`{"name":"a"}{}`:                     false,
		`{"name":"a"`:                        false,
		``:                                   false,
	} {
		trigger := agent.Trigger{Kind: agent.Event, Event: []byte(text)}
		var u user
		err := trigger.JSON(&u)
		if (err == nil) != ok || strings.Contains(text, "Name") && u.Name != "" {
			t.Errorf("%q: %+v, %v", text, u, err)
		}
	}
	result := agent.Trigger{Kind: agent.ToolResult, Result: &pb.ToolResult{Payload: []byte("5")}}
	if n := 0; result.JSON(&n) != nil || n != 5 || string(result.Bytes()) != "5" {
		t.Errorf("a result is %d", n)
	}
	for _, kind := range []agent.Kind{0, agent.Approval, agent.Expired, agent.TimedOut} {
		trigger := agent.Trigger{Kind: kind, Event: []byte("1")}
		if n := 0; trigger.JSON(&n) == nil || trigger.Bytes() != nil {
			t.Errorf("%v has JSON", kind)
		}
	}
}

// hooks is a value whose encoding calls the activation.
type hooks struct{ f func() error }

func (h hooks) MarshalJSON() ([]byte, error) { return []byte("{}"), h.f() }

// The agent's code never runs while the activation is locked.
func TestMethodsOfValuesMayUseTheActivation(t *testing.T) {
	act := begin()
	v := hooks{func() error { return errors.Join(act.Emit(nil), agent.Put(act, "a", 1)) }}
	if err := errors.Join(act.Act("t", v), act.RequestApproval("t", v), act.EmitJSON(v), agent.Put(act, "b", v)); err != nil {
		t.Error(err)
	}
	if staged := act.End(); len(staged.Outputs) != 5 || len(staged.Intents) != 2 {
		t.Errorf("%+v", staged)
	}
}

// End stops the calls of another goroutine at once, whatever they are doing.
func TestEndBesideCalls(t *testing.T) {
	for range 50 {
		act := begin(func(s *agent.Start) { s.MaxOutputBytes, s.MaxIntents = 1<<30, 1<<30 })
		var running sync.WaitGroup
		started := make(chan struct{})
		for i := range 4 {
			running.Go(func() {
				for n := 0; ; n++ {
					if n == 1 && i == 0 {
						close(started)
					}
					err := errors.Join(act.Emit(nil), act.Act("t", nil), act.SetAttribute("a", "b"), agent.Put(act, "a", fmt.Sprint(n)))
					_, _, getErr := agent.Get[string](act, "a")
					_ = act.Trigger()
					if err != nil || getErr != nil {
						if !errors.Is(errors.Join(err, getErr), agent.ErrActivationEnded) {
							t.Error(err, getErr)
						}
						return
					}
				}
			})
		}
		<-started
		staged := act.End()
		intents, outputs := len(staged.Intents), len(staged.Outputs)
		running.Wait()
		if again := act.End(); len(again.Intents) != intents || len(again.Outputs) != outputs {
			t.Fatal("something was staged after the end")
		}
	}
	act := begin()
	act.End()
	if err := act.Restore(nil); !errors.Is(err, agent.ErrActivationEnded) {
		t.Errorf("%v", err)
	}
}

// The activation returns copies.
func TestCopies(t *testing.T) {
	open := []*pb.ToolIntent{{IntentId: "a"}}
	trigger := agent.Trigger{
		Kind: agent.ToolResult, Event: []byte("e"), ExpiredIDs: []string{"a"},
		Result: &pb.ToolResult{Payload: []byte("p")}, Intent: &pb.ToolIntent{IntentId: "i"},
	}
	act := begin(func(s *agent.Start) { s.Open, s.Trigger = open, trigger })
	if err := act.Restore([]byte("snapshot")); err != nil {
		t.Fatal(err)
	}
	got := act.Trigger()
	got.Event[0], got.ExpiredIDs[0], got.Result.Payload[0], got.Intent.IntentId = 'x', "x", 'x', "x"
	act.Key()[0], act.Snapshot()[0] = 'x', 'x'
	act.Open()[0].IntentId = "x"
	again := act.Trigger()
	if string(again.Event) != "e" || again.ExpiredIDs[0] != "a" || string(again.Result.GetPayload()) != "p" || again.Intent.GetIntentId() != "i" ||
		string(act.Key()) != "k" || string(act.Snapshot()) != "snapshot" || act.Open()[0].GetIntentId() != "a" {
		t.Errorf("%v %s %s %v", again, act.Key(), act.Snapshot(), act.Open())
	}
	if act.Seq() != 7 || act.NowMS() != 1000 {
		t.Errorf("seq %d, now %d", act.Seq(), act.NowMS())
	}
	if begin().Snapshot() != nil || begin().Open() == nil {
		t.Error("a fresh activation has a snapshot, or a nil list of open intents")
	}
}
