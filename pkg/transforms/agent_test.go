package transforms

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// forms are the ways in which RunAgent runs a bundle.
var forms = []int{1, 4}

func eachForm(t *testing.T, run func(t *testing.T, concurrency int)) {
	for _, c := range forms {
		t.Run(fmt.Sprintf("concurrency %d", c), func(t *testing.T) { run(t, c) })
	}
}

type (
	unregisteredAgent struct{ scriptedAgent }
	lossyAgent        struct{ secret int }
	valueAgent        struct{}
	wrongMethodAgent  struct{}
)

func (*lossyAgent) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

func (valueAgent) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

func (*wrongMethodAgent) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

func (*wrongMethodAgent) EventID(string) string { return "" }

func init() {
	RegisterAgent[*lossyAgent]()
	RegisterAgent[*wrongMethodAgent]()
}

// Bad parameters and inputs are refused when the pipeline is built, with what to change.
func TestRunAgentRefuses(t *testing.T) {
	good := func() AgentParams { return AgentParams{Name: "a", Agent: new(scriptedAgent)} }
	for name, test := range map[string]struct {
		change func(*AgentParams)
		want   string
	}{
		"no name":            {func(p *AgentParams) { p.Name = "" }, `AgentParams.Name is ""; use 1 to 64 of a-z, 0-9, _ and -`},
		"long name":          {func(p *AgentParams) { p.Name = strings.Repeat("a", 65) }, "use 1 to 64"},
		"capital":            {func(p *AgentParams) { p.Name = "A" }, "use 1 to 64"},
		"no agent":           {func(p *AgentParams) { p.Agent = nil }, "AgentParams.Agent is nil"},
		"nil agent":          {func(p *AgentParams) { p.Agent = (*scriptedAgent)(nil) }, "nil *transforms.scriptedAgent"},
		"no pointer":         {func(p *AgentParams) { p.Agent = valueAgent{} }, "use a pointer to a struct"},
		"not registered":     {func(p *AgentParams) { p.Agent = new(unregisteredAgent) }, "call transforms.RegisterAgent[*transforms.unregisteredAgent]()"},
		"lossy":              {func(p *AgentParams) { p.Agent = &lossyAgent{secret: 1} }, "loses the field secret in it: configure the agent by exported fields"},
		"wrong method":       {func(p *AgentParams) { p.Agent = new(wrongMethodAgent) }, "change it to func([]uint8) string"},
		"concurrency":        {func(p *AgentParams) { p.Concurrency = 1025 }, "use 1 to 1024"},
		"less concurrency":   {func(p *AgentParams) { p.Concurrency = -1 }, "use 1 to 1024"},
		"timeout":            {func(p *AgentParams) { p.ActivationTimeout = time.Hour + 1 }, "use 1ms to 1h0m0s"},
		"short timeout":      {func(p *AgentParams) { p.ActivationTimeout = time.Microsecond }, "use 1ms to 1h0m0s"},
		"ttl":                {func(p *AgentParams) { p.TTL = time.Microsecond }, "use at least 1ms"},
		"negative ttl":       {func(p *AgentParams) { p.TTL = -time.Hour }, "use at least 1ms"},
		"while suspended":    {func(p *AgentParams) { p.WhileSuspended = 2 }, "use Defer or Reject"},
		"max deferred":       {func(p *AgentParams) { p.MaxDeferred = -1 }, "AgentParams.MaxDeferred is -1"},
		"max deferred bytes": {func(p *AgentParams) { p.MaxDeferredBytes = -1 }, "AgentParams.MaxDeferredBytes is -1"},
		"max intents":        {func(p *AgentParams) { p.MaxIntents = -1 }, "AgentParams.MaxIntents is -1"},
		"max output":         {func(p *AgentParams) { p.MaxOutputBytes = -1 }, "AgentParams.MaxOutputBytes is -1"},
		"max snapshot":       {func(p *AgentParams) { p.MaxSnapshotBytes = -1 }, "AgentParams.MaxSnapshotBytes is -1"},
		"per hour":           {func(p *AgentParams) { p.MaxActivationsPerHour = -1 }, "AgentParams.MaxActivationsPerHour is -1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, s := beam.NewPipelineWithRoot()
			params := good()
			test.change(&params)
			_, err := TryRunAgent(s, params, KeyByEntity(s, beam.Create(s, new(pb.AgentEnvelope))))
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "transforms.RunAgent: ") {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	_, s := beam.NewPipelineWithRoot()
	for want, col := range map[string]beam.PCollection{
		"use KV<[]byte, *pb.AgentEnvelope>": beam.Create(s, new(pb.AgentEnvelope)),
		"is not a PCollection":              {},
		"apply the windows to the outputs":  beam.WindowInto(s, window.NewFixedWindows(time.Minute), KeyByEntity(s, beam.Create(s, new(pb.AgentEnvelope)))),
	} {
		if _, err := TryRunAgent(s, good(), col); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, runner := range []string{"direct", "DirectRunner"} {
		old := flag.Lookup("runner").Value.String()
		if err := flag.Set("runner", runner); err != nil {
			t.Fatal(err)
		}
		_, err := TryRunAgent(s, good(), KeyByEntity(s, beam.Create(s, new(pb.AgentEnvelope))))
		if err == nil || !strings.Contains(err.Error(), "use --runner=prism") {
			t.Errorf("error %v", err)
		}
		if err := flag.Set("runner", old); err != nil {
			t.Fatal(err)
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("RunAgent did not panic")
			}
		}()
		_ = RunAgent(s, AgentParams{}, KeyByEntity(s, beam.Create(s, new(pb.AgentEnvelope)))).Errors
	}()
}

// A key that uses no memory costs 4 RPCs in a bundle, however many events it has: control is read
// once and written once.
func TestAgentRPCs(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		many := func(n int) (all []*pb.AgentEnvelope) {
			for i := range n {
				all = append(all, eventFor("a", int64(1000+i), script{Emit: []string{"x"}}))
			}
			return all
		}
		for name, test := range map[string]struct {
			bundle []*pb.AgentEnvelope
			want   beamtest.Counts
		}{
			"one event":           {many(1), beamtest.Counts{Reads: 1, Clears: 1, Appends: 2}},
			"a hundred events":    {many(100), beamtest.Counts{Reads: 1, Clears: 1, Appends: 2}},
			"memory":              {[]*pb.AgentEnvelope{eventFor("a", 1000, script{Count: "n"}), eventFor("a", 1001, script{Count: "n"})}, beamtest.Counts{Reads: 2, Clears: 2, Appends: 4}},
			"a failure":           {[]*pb.AgentEnvelope{eventFor("a", 1000, script{Put: []string{"a=b"}, Then: "fail"})}, beamtest.Counts{Reads: 2}},
			"an orphan":           {[]*pb.AgentEnvelope{resultFor(&pb.ToolIntent{IntentId: "x", EntityKey: []byte("a")}, 1000, "")}, beamtest.Counts{Reads: 1}},
			"suspend and defer":   {[]*pb.AgentEnvelope{eventFor("a", 1000, script{Then: "suspend", Timeout: 10}), eventFor("a", 1001, script{})}, beamtest.Counts{Reads: 1, Clears: 1, Appends: 4}},
			"two keys":            {[]*pb.AgentEnvelope{eventFor("a", 1000, script{}), eventFor("b", 1000, script{})}, beamtest.Counts{Reads: 2, Clears: 2, Appends: 4}},
			"a request for state": {[]*pb.AgentEnvelope{{EntityKey: []byte("a"), Payload: &pb.AgentEnvelope_ExportRequest{ExportRequest: &pb.AgentEnvelope_StateExportRequest{}}}}, beamtest.Counts{Reads: 3}},
		} {
			for _, sdk := range []bool{false, true} {
				k := newAgentKit(t, AgentParams{Concurrency: concurrency})
				k.SDK = sdk
				k.run(test.bundle...)
				if got := k.RPCs(); got != test.want {
					t.Errorf("%s (SDK's provider %v): %v, want %v", name, sdk, got, test.want)
				}
			}
		}
	})
}

// poisoned is an envelope whose activation fails, with its dead letter.
type poisoned struct {
	env  *pb.AgentEnvelope
	want string
}

// poison returns the envelopes that fail with the parameters of poisonParams.
func poison() map[string]poisoned {
	return map[string]poisoned{
		"fail":       {eventFor("a", 1000, script{Put: []string{"x=y"}, Act: []string{"t"}, Then: "fail"}), "activation_error/error"},
		"panic":      {eventFor("a", 1000, script{Emit: []string{"lost"}, Then: "panic"}), "activation_error/panic"},
		"exit":       {eventFor("a", 1000, script{Emit: []string{"lost"}, Then: "exit"}), "activation_error/exit"},
		"reject":     {eventFor("a", 1000, script{Then: "reject"}), "activation_error/rejected"},
		"no outcome": {eventFor("a", 1000, script{Then: "nothing"}), "activation_error/error"},
		"not JSON":   {&pb.AgentEnvelope{EntityKey: []byte("a"), EventTimeMs: 1000, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte("{")}}, "activation_error/rejected"},
		"no payload": {&pb.AgentEnvelope{EntityKey: []byte("a"), EventTimeMs: 1000}, "malformed_envelope/empty_payload"},
		"nil":        {&pb.AgentEnvelope{EntityKey: []byte("a"), EventTimeMs: 1000, Payload: (*pb.AgentEnvelope_ToolResult)(nil)}, "malformed_envelope/empty_payload"},
		"bad time":   {&pb.AgentEnvelope{EntityKey: []byte("a"), EventTimeMs: -1, Payload: &pb.AgentEnvelope_ExternalEvent{}}, "malformed_envelope/bad_event_time"},
		"bad text":   {&pb.AgentEnvelope{EntityKey: []byte("a"), EventTimeMs: 1000, Payload: &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{IntentId: "\xff"}}}, "malformed_envelope/unparsable"},
		"output":     {eventFor("a", 1000, script{Big: 2000}), "activation_error/output_too_large"},
		"intents":    {eventFor("a", 1000, script{Act: make([]string, 20)}), "activation_error/invalid_text"},
		"many":       {eventFor("a", 1000, script{Act: slices.Repeat([]string{"t"}, 20)}), "activation_error/too_many_intents"},
		"memory":     {eventFor("a", 1000, script{Put: []string{"x=" + strings.Repeat("y", 1<<20+1)}}), "activation_error/memory_overflow"},
		"snapshot":   {eventFor("a", 1000, script{Then: "suspend", Timeout: 10, Next: &script{Emit: []string{strings.Repeat("z", 2000)}}}), "activation_error/snapshot_too_large"},
		"timeout 0":  {eventFor("a", 1000, script{Then: "suspend"}), "activation_error/error"},
		"unapproved": {eventFor("a", 1000, script{Use: true}), "activation_error/error"},
		"slow":       {eventFor("a", 1000, script{Then: "hang"}), "activation_timeout/limit"},
	}
}

func poisonParams(concurrency int) AgentParams {
	return AgentParams{
		Name: "test", Agent: new(scriptedAgent), Concurrency: concurrency,
		MaxOutputBytes: 1500, MaxIntents: 10, MaxSnapshotBytes: 1000, ActivationTimeout: time.Minute,
	}
}

// A bad activation affects no other key, and no other activation of its own key.
func TestAgentPoison(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		for name, p := range poison() {
			for at := range 4 { // first, in the middle, last
				params := poisonParams(concurrency)
				if name == "slow" {
					params.ActivationTimeout = 50 * time.Millisecond
				}
				k := newAgentKit(t, params)
				k.run(slices.Insert([]*pb.AgentEnvelope{
					eventFor("a", 900, script{Count: "n"}), eventFor("b", 900, script{Count: "n"}), eventFor("a", 1100, script{Count: "n"}),
				}, at, p.env)...)
				k.advance(2000)
				want := []string{"a output@900 n 1 at 900", "a output@1100 n 2 at 1100", "b output@900 n 1 at 900", "a error@" + fmt.Sprint(max(p.env.GetEventTimeMs(), 0)) + " " + p.want}
				got := k.said()
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s at %d:\ngot  %q\nwant %q", name, at, got, want)
				}
				if m := k.control("a"); m.GetSeq() != 2 || m.GetContinuation() != nil {
					t.Errorf("%s: control %v", name, m)
				}
			}
		}
	})
}

// An agent that ignores the end of its context is abandoned: its late result is discarded. If there
// are too many of those, the bundle fails and names the agent and the key.
func TestAgentAbandoned(t *testing.T) {
	defer func(old chan struct{}) { release = old }(release)
	release = make(chan struct{})
	k := newAgentKit(t, AgentParams{Concurrency: 128, ActivationTimeout: time.Millisecond})
	k.run(eventFor("a", 1000, script{Emit: []string{"lost"}, Then: "deaf"}), eventFor("a", 1001, script{Emit: []string{"next"}}))
	k.expect("a output@1001 next", "a error@1000 activation_timeout/limit")
	if n := isolate.Running(); n != 1 {
		t.Errorf("%d abandoned", n)
	}
	var crowd []*pb.AgentEnvelope
	for i := range 64 {
		crowd = append(crowd, eventFor(fmt.Sprintf("k%d", i), 1000, script{Then: "deaf"}))
	}
	err := k.try(crowd...)
	if err == nil || !strings.Contains(err.Error(), `agent "test", key "k`) || !strings.Contains(err.Error(), "must return when its context is cancelled") {
		t.Errorf("error %v", err)
	}
	close(release)
	waitFor(t, func() bool { return isolate.Running() == 0 })
	k.expect("a output@1001 next", "a error@1000 activation_timeout/limit")
}

// waitFor waits for something that other goroutines do.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}

// A failure of the state API fails the bundle, at every RPC, and the retry does the whole bundle
// again.
func TestAgentFailsAtEveryStep(t *testing.T) {
	script := []*pb.AgentEnvelope{
		eventFor("a", 1000, script{Count: "n", Act: []string{"t"}, Then: "suspend", Timeout: 5000}),
		eventFor("b", 1000, script{Count: "n"}),
		eventFor("a", 1001, script{Count: "n"}),
	}
	eachForm(t, func(t *testing.T, concurrency int) {
		undisturbed := newAgentKit(t, AgentParams{Concurrency: concurrency, TTL: time.Minute})
		undisturbed.run(script...)
		undisturbed.advance(100_000)
		want, wantSent, wantState := undisturbed.said(), undisturbed.sent(), undisturbed.states()
		failures := 0
		for n := 1; ; n++ {
			k := newAgentKit(t, AgentParams{Concurrency: concurrency, TTL: time.Minute})
			k.CrashAt(n)
			err := k.try(script...)
			if err != nil {
				failures++
				k.run(script...)
			}
			k.CrashAt(0)
			k.advance(100_000)
			if got := k.said(); !slices.Equal(got, want) {
				t.Errorf("crash at %d: got\n%q\nwant\n%q", n, got, want)
			}
			// All bytes are compared, and with them the ids of the intents.
			if got := k.sent(); !reflect.DeepEqual(got, wantSent) {
				t.Errorf("crash at %d: got\n%q\nwant\n%q", n, got, wantSent)
			}
			if got := k.states(); !reflect.DeepEqual(got, wantState) {
				t.Errorf("crash at %d: state\n%x\nwant\n%x", n, got, wantState)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, beamtest.ErrCrash) {
				t.Fatal(err)
			}
		}
		if failures < 15 {
			t.Errorf("%d places", failures)
		}
	})
}

// agentCells are the cells of RunAgent.
var agentCells = []string{"control", "memory", "llm_cache", "deferred"}

// states are the bytes of all cells of all keys.
func (k *agentKit) states() map[string]string {
	all := map[string]string{}
	for _, key := range k.Keys() {
		for _, cell := range agentCells {
			if b := k.Bytes(key, cell); b != nil {
				all[key+"/"+cell] = string(b)
			}
		}
	}
	return all
}

// Setup runs once for all DoFns of a process, and again if it has failed.
type preparedAgent struct {
	Fails int64
	How   string
}

var setups atomic.Int64

func init() { RegisterAgent[*preparedAgent]() }

func (a *preparedAgent) Setup(context.Context) error {
	if setups.Add(1) > a.Fails {
		return nil
	}
	switch a.How {
	case "panic":
		panic("not yet")
	case "exit":
		runtime.Goexit()
	}
	return errors.New("not yet")
}

func (a *preparedAgent) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

func TestAgentSetup(t *testing.T) {
	for how, want := range map[string]string{"error": "Setup: not yet", "panic": "Setup: panic: not yet", "exit": "Setup: it called runtime.Goexit"} {
		setups.Store(0)
		fn, err := newRunAgentFn(AgentParams{Name: "prepared", Agent: &preparedAgent{Fails: 2, How: how}})
		if err != nil {
			t.Fatal(err)
		}
		for try := range 5 {
			err := fn.Setup(t.Context())
			if failed := err != nil; failed != (try < 2) || failed && !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s, try %d: %v", how, try, err)
			}
		}
		if setups.Load() != 3 {
			t.Errorf("%s: %d calls", how, setups.Load())
		}
	}
}

// The TTL clears memory and keeps seq, so a key that comes back gets new ids.
func TestAgentTTL(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		k := newAgentKit(t, AgentParams{Concurrency: concurrency, TTL: 10 * time.Second})
		k.run(eventFor("a", 1000, script{Count: "n", Act: []string{"t"}}))
		k.advance(1000)
		k.run(eventFor("a", 5000, script{Count: "n"})) // moves the mark, not the timer
		k.advance(5000)
		if got := k.armed("a"); !slices.Equal(got, []string{"ttl@11000"}) {
			t.Errorf("armed %q", got)
		}
		k.advance(11_000)
		if got := k.armed("a"); !slices.Equal(got, []string{"ttl@15000"}) {
			t.Errorf("armed %q", got)
		}
		if k.Bytes("a", "memory") == nil {
			t.Error("cleared too early")
		}
		k.advance(15_000)
		if k.Bytes("a", "memory") != nil || k.control("a").GetSeq() != 2 {
			t.Errorf("memory %x, control %v", k.Bytes("a", "memory"), k.control("a"))
		}
		k.run(eventFor("a", 20_000, script{Count: "n", Act: []string{"t"}}))
		k.advance(20_000)
		if ids := k.intents.All(); len(ids) != 2 || ids[0].Value.GetIntentId() == ids[1].Value.GetIntentId() {
			t.Errorf("intents %v", ids)
		}
		k.advance(1_000_000)
		if got := k.armed("a"); len(got) != 0 {
			t.Errorf("armed %q", got)
		}
	})
}

// A suspension is not cleared by the TTL, and its deadline comes first.
func TestAgentTTLDuringSuspension(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		k := newAgentKit(t, AgentParams{Concurrency: concurrency, TTL: time.Second})
		k.run(eventFor("a", 1000, script{Count: "n", Ask: []string{"t"}, Then: "suspend", Timeout: 60_000}))
		k.advance(50_000)
		if k.Bytes("a", "memory") == nil || k.control("a").GetContinuation() == nil {
			t.Error("cleared during the suspension")
		}
		k.advance(61_000)
		k.expect("a output@1000 n 1 at 1000", "a output@61000 denied", "a intent@1000 APPROVAL t")
		if k.Bytes("a", "memory") == nil {
			t.Error("cleared at the deadline")
		}
		k.advance(62_000)
		if k.Bytes("a", "memory") != nil {
			t.Error("not cleared")
		}
	})
}

// An answer with a time before the deadline that comes before the timer ends the suspension. The
// old deadline does not end the suspension that follows, in one bundle and in two.
func TestAgentOldDeadline(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		first := script{Act: []string{"t"}, Then: "suspend", Timeout: 5000, Next: &script{Act: []string{"u"}, Then: "suspend", Timeout: 60_000, Next: &script{Emit: []string{"end"}}}}
		for _, oneBundle := range []bool{false, true} {
			k := newAgentKit(t, AgentParams{Concurrency: concurrency})
			k.run(eventFor("a", 1000, first))
			k.advance(1000)
			answer := resultFor(k.intents.All()[0].Value, 20_000, "ahead")
			if oneBundle {
				// The timer of the old deadline is in the bundle of the answer.
				if err := k.StartBundle(); err != nil {
					t.Fatal(err)
				}
				if err := k.Run("a", k.element(answer)); err != nil {
					t.Fatal(err)
				}
				k.advance(6000)
				if err := k.FinishBundle(); err != nil {
					t.Fatal(err)
				}
			} else {
				k.run(answer)
			}
			k.advance(30_000)
			if due := k.control("a").GetContinuation().GetDeadlineMs(); due != 80_000 {
				t.Fatalf("one bundle %v: the deadline is %d: %q", oneBundle, due, k.said())
			}
			k.advance(80_000)
			k.expect("a output@20000 tool_result approved=false expired=0 payload=ahead", "a output@80000 denied", "a intent@1000 TOOL t", "a intent@20000 TOOL u")
		}
	})
}

// No goroutine of a bundle outlives it.
func TestAgentBundleLeavesNothing(t *testing.T) {
	k := newAgentKit(t, AgentParams{Concurrency: 8})
	var events []*pb.AgentEnvelope
	for i := range 50 {
		events = append(events, eventFor(fmt.Sprint("k", i), 1000, script{Count: "n", SleepMS: 1}))
	}
	if err := k.StartBundle(); err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if err := k.Run(string(e.GetEntityKey()), k.element(e)); err != nil {
			t.Fatal(err)
		}
	}
	b := k.fn.bundle
	if err := k.FinishBundle(); err != nil {
		t.Fatal(err)
	}
	b.running.Wait() // returns: no goroutine is left
	if k.fn.bundle != nil || b.ctx.Err() == nil {
		t.Error("the bundle is kept")
	}
	if got := b.held.Load(); got != 0 {
		t.Errorf("%d bytes are held", got)
	}
}
