package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Agent is a durable agent: a pointer to a struct, whose exported fields are its
// configuration.
type Agent interface {
	// Run is one activation. An error fails the activation: nothing takes effect, and the
	// input becomes a dead letter. The context is cancelled when the time is up.
	Run(ctx context.Context, act *Activation) (Outcome, error)
}

// Preparer is an agent that prepares itself before its first activation in a worker
// process, to open clients for example. An error fails the bundle, which runs again. There
// is no time limit: a Setup that never returns stops the worker.
type Preparer interface {
	Setup(ctx context.Context) error
}

// TimeoutRouter is an agent that decides what happens when a suspension reaches its
// deadline. Without the method the answer is Deny([DefaultTimeoutOutput]). The method must
// depend on its argument and the agent's fields alone. If it panics, the suspension is
// dropped: a dead letter hitl_timeout with code policy_error.
type TimeoutRouter interface {
	TimeoutPolicy(t Timeout) Route
}

// EventIdentifier is an agent that names its events. The last 256 names of a key are
// remembered, as hashes of 8 bytes, and an event whose name is among them is dropped and
// counted. An event without a name ("") is never dropped. An event whose activation fails
// is not remembered, so that its dead letter can be sent again.
type EventIdentifier interface {
	EventID(event []byte) string
}

// SnapshotVersioner is an agent whose snapshots have a version. Without the method it is 0.
type SnapshotVersioner interface {
	SnapshotVersion() uint32
}

// SnapshotMigrator is an agent that reads snapshots of other versions than its own.
// MigrateSnapshot returns the snapshot as SnapshotVersion writes it. On an error, and
// where the method is missing, the answer becomes a dead letter activation_error with code
// snapshot_version, and the suspension stays.
type SnapshotMigrator interface {
	MigrateSnapshot(from uint32, snapshot []byte) ([]byte, error)
}

// TraceLinker is an agent that finds the W3C traceparent of the caller in an event. It
// becomes the attribute beam_agents.traceparent of the activation; a text of another form
// is ignored.
type TraceLinker interface {
	TraceParent(event []byte) string
}

// ModelTransporter is an agent that makes its HTTP calls over a transport of its own: with
// other certificates, a proxy, or its own tracing. ModelTransport is called once per worker
// process, after Setup. Without the method, and where it returns nil, the transport has the
// settings of http.DefaultTransport.
type ModelTransporter interface {
	ModelTransport() http.RoundTripper
}

// ResponseRedactor is an agent that removes from responses what must not be stored.
// RedactResponse gets the body of a response and returns the body that is stored, which is
// what the agent is given when it runs again. If it fails, the response is not stored.
type ResponseRedactor interface {
	RedactResponse(body []byte) ([]byte, error)
}

// ResponseSealer is an agent that encrypts responses before they are stored. SealResponse
// gets what would be stored, and OpenResponse what SealResponse has returned. If SealResponse
// fails, the response is not stored; if OpenResponse fails, the call is made again. Several
// goroutines may call them at once. To encrypt in the same way each time keeps a retried
// bundle byte for byte the same.
type ResponseSealer interface {
	SealResponse(plain []byte) ([]byte, error)
	OpenResponse(sealed []byte) ([]byte, error)
}

// Check reports what is wrong with an agent's type: it is nil, no pointer to a struct, or
// has a method of an optional interface's name with another signature, which would be
// ignored.
func Check(a Agent) error {
	v := reflect.ValueOf(a)
	if !v.IsValid() || v.Kind() != reflect.Pointer || v.Type().Elem().Kind() != reflect.Struct {
		return fmt.Errorf("agent: the agent is a %T; use a pointer to a struct", a)
	}
	if v.IsNil() {
		return fmt.Errorf("agent: the agent is a nil %T", a)
	}
	for _, optional := range []reflect.Type{
		reflect.TypeFor[Preparer](), reflect.TypeFor[TimeoutRouter](), reflect.TypeFor[EventIdentifier](),
		reflect.TypeFor[SnapshotVersioner](), reflect.TypeFor[SnapshotMigrator](), reflect.TypeFor[TraceLinker](),
		reflect.TypeFor[ModelTransporter](), reflect.TypeFor[ResponseRedactor](), reflect.TypeFor[ResponseSealer](),
	} {
		if err := checkOptional(v.Type(), optional); err != nil {
			return err
		}
	}
	return nil
}

// checkOptional reports a method of an optional interface that has another signature, or
// stands alone.
func checkOptional(t, optional reflect.Type) error {
	if t.Implements(optional) {
		return nil
	}
	for want := range optional.Methods() {
		m, ok := t.MethodByName(want.Name)
		switch {
		case !ok:
		case withoutReceiver(m.Type) != want.Type:
			return fmt.Errorf("agent: %v has a method %s that is %v without its receiver; it must be %v, or have another name",
				t, want.Name, withoutReceiver(m.Type), want.Type)
		default:
			return fmt.Errorf("agent: %v has the method %s and not all of %v, which belong together", t, want.Name, optional)
		}
	}
	return nil
}

func withoutReceiver(t reflect.Type) reflect.Type {
	var in, out []reflect.Type
	for i := 1; i < t.NumIn(); i++ {
		in = append(in, t.In(i))
	}
	for o := range t.Outs() {
		out = append(out, o)
	}
	return reflect.FuncOf(in, out, t.IsVariadic())
}

// OutcomeKind says how an activation ended. The zero value is not valid: it fails the
// activation.
type OutcomeKind uint8

// The kinds of outcome.
const (
	DoneOutcome OutcomeKind = iota + 1
	SuspendOutcome
	RejectOutcome
)

// Outcome is what Run returns. Make it with [Done], [Suspend] or [Reject].
type Outcome struct {
	Kind     OutcomeKind
	Snapshot []byte
	Timeout  time.Duration
	Err      error
}

// Done ends the work that the trigger began: nothing is waited for any more, and the
// answers to intents that are still open become dead letters.
func Done() Outcome { return Outcome{Kind: DoneOutcome} }

// Suspend keeps snapshot, which may be nil, and waits for answers to the open intents,
// those of earlier activations included. The timeout, at least 1 ms, counts from
// [Activation.NowMS] in event time; then [TimeoutRouter] decides. Without an open intent
// this is a sleep.
func Suspend(snapshot []byte, timeout time.Duration) Outcome {
	return Outcome{Kind: SuspendOutcome, Snapshot: snapshot, Timeout: timeout}
}

// Reject says that the input is unusable: it becomes a dead letter activation_error with
// code rejected and the text of err, and nothing else happens. It counts as no error of
// the agent.
func Reject(err error) Outcome {
	if err == nil {
		err = errors.New("rejected without a reason")
	}
	return Outcome{Kind: RejectOutcome, Err: err}
}

// DefaultTimeoutOutput is what an agent without a TimeoutPolicy emits at the deadline of a
// suspension. Other implementations emit the same.
const DefaultTimeoutOutput = "__hitl_timeout__"

// MaxEscalations bounds how often one suspension can be escalated.
const MaxEscalations = 100

// Timeout is a suspension that has reached its deadline.
type Timeout struct {
	Key         []byte
	Seq         int64
	Snapshot    []byte // as it is stored: of another version perhaps
	DeadlineMS  int64
	Escalations int
	Pending     []*pb.ToolIntent // that were not answered, in the order of their staging
}

// RouteKind says what happens at a deadline. The zero value is not valid: it drops the
// suspension with code policy_error.
type RouteKind uint8

// The kinds of route.
const (
	DenyRoute RouteKind = iota + 1
	DropRoute
	EscalateRoute
	ResumeRoute
)

// Route is what happens at a deadline. Make it with [Deny], [Drop], [Escalate] or [Resume].
type Route struct {
	Kind    RouteKind
	Output  []byte
	Reason  string
	Channel string
	Timeout time.Duration
	Max     int
}

// Deny ends the suspension and emits output, unless that is empty. An output above
// AgentParams.MaxOutputBytes drops the suspension with code policy_error.
func Deny(output []byte) Route { return Route{Kind: DenyRoute, Output: output} }

// Drop ends the suspension with a dead letter hitl_timeout, code dropped and this text.
func Drop(reason string) Route { return Route{Kind: DropRoute, Reason: reason} }

// Escalate asks again: a new intent asks for the oldest approval that was not answered,
// with the same tool and the same arguments. The channel, 1 to 4,096 bytes, is in the trace
// event of the intent. The suspension goes on for timeout, at least 1 ms. Until then either
// intent can be answered, once. After limit escalations, 1 to [MaxEscalations], the
// suspension ends like Deny with [DefaultTimeoutOutput].
func Escalate(channel string, timeout time.Duration, limit int) Route {
	return Route{Kind: EscalateRoute, Channel: channel, Timeout: timeout, Max: limit}
}

// Resume runs the agent with the trigger [TimedOut]. If that activation fails, the
// suspension ends.
func Resume() Route { return Route{Kind: ResumeRoute} }

// Validate reports what is wrong with a route.
func (r Route) Validate() error {
	switch r.Kind {
	case DenyRoute, DropRoute, ResumeRoute:
		return nil
	case EscalateRoute:
		switch {
		case r.Channel == "" || len(r.Channel) > maxAttributeValue:
			return fmt.Errorf("Escalate has a channel of %d bytes; use 1 to %d", len(r.Channel), maxAttributeValue)
		case r.Timeout < time.Millisecond:
			return fmt.Errorf("Escalate has a timeout of %v; use at least 1ms", r.Timeout)
		case r.Max < 1 || r.Max > MaxEscalations:
			return fmt.Errorf("Escalate has a limit of %d; use 1 to %d", r.Max, MaxEscalations)
		}
		return nil
	}
	return errors.New("TimeoutPolicy returned no route; use Deny, Drop, Escalate or Resume")
}
