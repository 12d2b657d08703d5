package agenttest

import (
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/activation"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// AgentParams are the options of an agent, with the names, defaults and bounds of
// transforms.AgentParams. Concurrency and HoldWatermark are missing, because they need a runner.
type AgentParams = activation.AgentParams

// The values of AgentParams.WhileSuspended.
const (
	// Defer keeps an event for a suspended key until the suspension ends.
	Defer = activation.Defer
	// Reject makes a dead letter suspended/rejected of an event for a suspended key.
	Reject = activation.Reject
)

// StartMS is the event time at which a runtime begins, in ms since the Unix epoch:
// 2025-01-01T00:00:00Z.
const StartMS int64 = 1_735_689_600_000

// Runtime runs an agent in memory. [New] makes one. It belongs to one goroutine.
type Runtime struct {
	t     testing.TB
	build *build
	now   int64
	state map[string]cells
	keys  []string // in the order of first use

	recording bool
	records   []record
}

// New returns a runtime for an agent, with empty state. It fails the test if the parameters
// cannot be used, and says what to change.
func New(t testing.TB, p AgentParams) *Runtime {
	t.Helper()
	r := &Runtime{t: t, now: StartMS, state: map[string]cells{}}
	r.Deploy(p)
	return r
}

// Deploy replaces the agent and its options, as the update of a running job does. State and event
// time stay.
func (r *Runtime) Deploy(p AgentParams) {
	r.t.Helper()
	b, err := newBuild(p)
	if err != nil {
		r.t.Fatalf("agenttest: %v", err)
	}
	r.build = b
}

// NowMS returns the current event time, in ms since the Unix epoch.
func (r *Runtime) NowMS() int64 { return r.now }

// Wait lets event time pass and returns what that causes in all keys. Deadlines of suspensions,
// expiries of intents and TTLs fire in the order of their times, and those of equal time in the
// order of the first use of their keys. A timer that is due exactly at the end of the wait fires.
// A wait of math.MaxInt64 reaches the end of time, as a job does when it is drained.
func (r *Runtime) Wait(d time.Duration) Result {
	r.t.Helper()
	if d < 0 {
		r.t.Fatalf("agenttest: Wait(%v): time does not go back: send an event with its own time with Key.Send", d)
	}
	until := r.now + d.Milliseconds()
	if d == math.MaxInt64 || until < r.now {
		until = math.MaxInt64
	}
	out := Result{t: r.t}
	r.fire(until, &out)
	r.now = until
	return out
}

// fire fires the timers that are due up to a time.
func (r *Runtime) fire(until int64, out *Result) {
	r.t.Helper()
	var last input
	for {
		next, found := r.next(until)
		if !found {
			return
		}
		before := r.state[next.key]
		r.now = max(r.now, next.atMS)
		r.step(next, out)
		if last.key == next.key && last.tag == next.tag && last.atMS == next.atMS && before.equal(r.state[next.key]) {
			r.t.Fatalf("agenttest: the timer %s of key %q, due at %s, changes nothing: this is a bug of package activation", next.tag, next.key, timeText(next.atMS))
		}
		last = next
	}
}

// next returns the timer that fires first.
func (r *Runtime) next(until int64) (first input, found bool) {
	r.t.Helper()
	rules := r.build.params.Rules()
	for _, key := range r.keys {
		control := r.control(key)
		offer := func(tag string, due int64) {
			if due <= until && (!found || due < first.atMS) {
				first, found = input{build: r.build, key: key, tag: tag, atMS: due}, true
			}
		}
		if due, ok := activation.Deadline(control); ok {
			offer(activation.DeadlineTag, due)
		}
		if due, ok := rules.TTLMark(control); ok {
			offer(activation.TTLTag, due)
		}
	}
	return first, found
}

// control returns the control message of a key.
func (r *Runtime) control(key string) *runtimepb.KeyControl {
	r.t.Helper()
	control, err := r.state[key].keyControl()
	if err != nil {
		r.t.Fatalf("agenttest: the control of key %q cannot be read: %v", key, err)
	}
	return control
}

// send runs an envelope, and the timers that it makes due.
func (r *Runtime) send(key string, env *pb.AgentEnvelope) Result {
	r.t.Helper()
	b, err := encode(env)
	if err != nil {
		r.t.Fatalf("agenttest: the envelope for key %q cannot be encoded: %v", key, err)
	}
	out := Result{t: r.t}
	r.step(input{build: r.build, key: key, env: b, atMS: env.GetEventTimeMs()}, &out)
	r.fire(r.now, &out)
	return out
}

// step runs an input, and then the deferred events that can run. Each input and each event is a
// bundle of its own, on a new worker.
func (r *Runtime) step(in input, out *Result) {
	r.t.Helper()
	for {
		step := r.bundle(in)
		out.add(in.key, step.Effects)
		if !step.Rest {
			return
		}
		in = input{build: r.build, key: in.key, tag: activation.WakeTag, atMS: in.atMS}
	}
}

func (r *Runtime) bundle(in input) activation.Step {
	r.t.Helper()
	check := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatalf("agenttest: key %q: the bundle fails: %v", in.key, err)
		}
	}
	w, err := r.build.start(r.t)
	check(err)
	s, err := openSession(in.key, r.state[in.key])
	check(err)
	step, err := s.take(w, in)
	check(err)
	after, err := s.cells()
	check(err)
	if !slices.Contains(r.keys, in.key) {
		r.keys = append(r.keys, in.key)
	}
	r.state[in.key] = after
	if r.recording {
		rec, err := newRecord(in, step, after)
		check(err)
		r.records = append(r.records, rec)
	}
	return step
}

// Key is a key of a [Runtime].
type Key struct {
	r   *Runtime
	key string
}

// Key returns the entity key with this name. It has no state before its first event.
func (r *Runtime) Key(key string) *Key { return &Key{r, key} }

// Send sends an envelope under this key, with the event time of the envelope, which may be before
// or after [Runtime.NowMS]. NowMS does not change. Timers that are due at NowMS fire, as after a
// late event.
func (k *Key) Send(env *pb.AgentEnvelope) Result {
	k.r.t.Helper()
	return k.r.send(k.key, env)
}

// Event sends an event at NowMS. A []byte, a string or a json.RawMessage is sent as it is,
// everything else as JSON.
func (k *Key) Event(event any) Result {
	k.r.t.Helper()
	return k.r.send(k.key, &pb.AgentEnvelope{
		EntityKey: []byte(k.key), EventTimeMs: k.r.now,
		Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: k.r.payload(event)},
	})
}

// Answer answers an intent at NowMS, as the program that executes intents does. payload is
// encoded as by [Key.Event]. It may also be nil, or an error, whose text becomes the error
// message of the result.
func (k *Key) Answer(in *pb.ToolIntent, status pb.ToolResult_Status, payload any) Result {
	k.r.t.Helper()
	result := &pb.ToolResult{
		IntentId: in.GetIntentId(), EntityKey: in.GetEntityKey(), Seq: in.GetSeq(), Status: status, CompletedAtMs: k.r.now,
	}
	switch p := payload.(type) {
	case nil:
	case error:
		result.ErrorMessage = p.Error()
	default:
		result.Payload = k.r.payload(p)
	}
	return k.r.send(k.key, &pb.AgentEnvelope{
		EntityKey: []byte(k.key), EventTimeMs: k.r.now, Payload: &pb.AgentEnvelope_ToolResult{ToolResult: result},
	})
}

// Approve approves a request for approval at NowMS.
func (k *Key) Approve(in *pb.ToolIntent, approver string) Result {
	k.r.t.Helper()
	return k.decide(in, approver, true)
}

// Deny denies a request for approval at NowMS.
func (k *Key) Deny(in *pb.ToolIntent, approver string) Result {
	k.r.t.Helper()
	return k.decide(in, approver, false)
}

func (k *Key) decide(in *pb.ToolIntent, approver string, approved bool) Result {
	k.r.t.Helper()
	return k.r.send(k.key, &pb.AgentEnvelope{
		EntityKey: []byte(k.key), EventTimeMs: k.r.now,
		Payload: &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{
			IntentId: in.GetIntentId(), Approved: approved, Approver: approver, DecidedAtMs: k.r.now,
		}},
	})
}

// Export requests the state of the key and returns the answer. It changes nothing.
func (k *Key) Export() *pb.StateSnapshot {
	k.r.t.Helper()
	out := k.r.send(k.key, &pb.AgentEnvelope{
		EntityKey: []byte(k.key), EventTimeMs: k.r.now,
		Payload: &pb.AgentEnvelope_ExportRequest{ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: "agenttest"}},
	})
	if len(out.Snapshots) == 0 {
		k.r.t.Fatalf("agenttest: key %q: the request for the state was not answered:\n%v", k.key, out)
	}
	return out.Snapshots[0]
}

// Suspended returns the deadline of the suspension of the key, in ms since the Unix epoch, and
// whether the key is suspended.
func (k *Key) Suspended() (deadlineMS int64, ok bool) {
	k.r.t.Helper()
	cont := k.r.control(k.key).GetContinuation()
	return cont.GetDeadlineMs(), cont != nil
}

// Snapshot returns the snapshot of the suspended agent, or nil if the key is not suspended.
func (k *Key) Snapshot() []byte {
	k.r.t.Helper()
	return k.r.control(k.key).GetContinuation().GetSnapshot()
}

// Open returns the open intents of the suspension, in the order of their staging.
func (k *Key) Open() []*pb.ToolIntent {
	k.r.t.Helper()
	return k.r.control(k.key).GetPending()
}

// Deferred returns the events that wait for the end of the suspension, in the order of their
// arrival.
func (k *Key) Deferred() (events [][]byte) {
	k.r.t.Helper()
	for _, b := range k.r.state[k.key].deferred { // they are stored in the order of arrival
		e := new(runtimepb.DeferredEvent)
		if err := proto.Unmarshal(b, e); err != nil {
			k.r.t.Fatalf("agenttest: key %q: a deferred event cannot be read: %v", k.key, err)
		}
		events = append(events, e.GetEnvelope().GetExternalEvent())
	}
	return events
}
