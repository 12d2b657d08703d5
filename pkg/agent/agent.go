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

// Agent is a durable agent. It is a pointer to a struct whose exported fields are its
// configuration.
type Agent interface {
	// Run is one activation. If it returns an error, nothing takes effect, and the input becomes
	// a dead letter. The context is cancelled when the time of the activation is up.
	Run(ctx context.Context, act *Activation) (Outcome, error)
}

// Preparer is an agent with a Setup that runs before its first activation in a worker process,
// for example to open clients. An error fails the bundle, which runs again. Setup has no time
// limit: if it never returns, the worker stops.
type Preparer interface {
	Setup(ctx context.Context) error
}

// TimeoutRouter is an agent that decides what happens when a suspension reaches its deadline. An
// agent without this method gets Deny([DefaultTimeoutOutput]). The result must depend only on the
// argument and the agent's fields. If the method panics, the suspension is dropped with a dead
// letter hitl_timeout with code policy_error.
type TimeoutRouter interface {
	TimeoutPolicy(t Timeout) Route
}

// EventIdentifier is an agent that names its events, so that a second delivery is dropped. A key
// remembers the last 256 names, as hashes of 8 bytes. An event with a remembered name is dropped
// and counted. An event without a name ("") is never dropped. An event whose activation fails is
// not remembered, so its dead letter can be sent again.
type EventIdentifier interface {
	EventID(event []byte) string
}

// SnapshotVersioner is an agent whose snapshots have a version. Without this method the version
// is 0.
type SnapshotVersioner interface {
	SnapshotVersion() uint32
}

// SnapshotMigrator is an agent that can read snapshots of older versions. MigrateSnapshot returns
// the snapshot in the form of SnapshotVersion. If it returns an error, or if the agent does not
// have it, the answer that would resume the agent becomes a dead letter activation_error with
// code snapshot_version, and the key stays suspended.
type SnapshotMigrator interface {
	MigrateSnapshot(from uint32, snapshot []byte) ([]byte, error)
}

// TraceLinker is an agent that finds the W3C traceparent of its caller in an event. It becomes
// the attribute beam_agents.traceparent of the activation. A text that is not a traceparent is
// ignored.
type TraceLinker interface {
	TraceParent(event []byte) string
}

// ModelTransporter is an agent that makes its HTTP calls over its own transport, for example one
// with other certificates, a proxy or tracing. ModelTransport is called once per worker process,
// after Setup. Without this method, or if it returns nil, the transport has the settings of
// http.DefaultTransport.
type ModelTransporter interface {
	ModelTransport() http.RoundTripper
}

// ResponseRedactor is an agent that removes data from model responses before they are stored.
// RedactResponse gets the body of a response and returns the body to store. When the call is
// replayed, the agent gets the stored body. If RedactResponse fails, the response is not stored.
type ResponseRedactor interface {
	RedactResponse(body []byte) ([]byte, error)
}

// ResponseSealer is an agent that encrypts model responses before they are stored. OpenResponse
// must undo SealResponse. If SealResponse fails, the response is not stored. If OpenResponse
// fails, the call is made again. Several goroutines may call both at once. If SealResponse is
// deterministic, a retried bundle writes the same bytes.
type ResponseSealer interface {
	SealResponse(plain []byte) ([]byte, error)
	OpenResponse(sealed []byte) ([]byte, error)
}

// Check returns an error if an agent cannot be used: it is nil, it is not a pointer to a struct,
// or one of its methods has the name of an optional interface's method but another signature, and
// so would be ignored.
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

// checkOptional returns an error if t has a method of the optional interface with another
// signature, or only some of its methods.
func checkOptional(t, optional reflect.Type) error {
	if t.Implements(optional) {
		return nil
	}
	for want := range optional.Methods() {
		m, ok := t.MethodByName(want.Name)
		switch {
		case !ok:
		case withoutReceiver(m.Type) != want.Type:
			return fmt.Errorf("agent: %v has a method %s of type %v; change it to %v, or give it another name",
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

// OutcomeKind says how an activation ended. The zero value is invalid and fails the activation.
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

// Done ends the work that the trigger began and closes all open intents. Answers to them that
// come later become dead letters.
func Done() Outcome { return Outcome{Kind: DoneOutcome} }

// Suspend keeps snapshot, which may be nil, and waits for answers to the open intents, those of
// earlier activations included. The timeout is at least 1 ms, in event time from
// [Activation.NowMS]. When it has passed, [TimeoutRouter] decides. If no intent is open, the
// suspension only waits for the timeout.
func Suspend(snapshot []byte, timeout time.Duration) Outcome {
	return Outcome{Kind: SuspendOutcome, Snapshot: snapshot, Timeout: timeout}
}

// Reject says that the input is unusable. The input becomes a dead letter activation_error with
// code rejected and the text of err, and nothing else takes effect. It does not count as an error
// of the agent.
func Reject(err error) Outcome {
	if err == nil {
		err = errors.New("rejected without a reason")
	}
	return Outcome{Kind: RejectOutcome, Err: err}
}

// DefaultTimeoutOutput is the output at the deadline of a suspension if the agent has no
// TimeoutPolicy. Other implementations emit the same.
const DefaultTimeoutOutput = "__hitl_timeout__"

// MaxEscalations bounds how often one suspension can be escalated.
const MaxEscalations = 100

// Timeout describes a suspension that has reached its deadline.
type Timeout struct {
	Key         []byte
	Seq         int64
	Snapshot    []byte // as stored, possibly of another version
	DeadlineMS  int64
	Escalations int
	Pending     []*pb.ToolIntent // the open intents, in the order of their staging
}

// RouteKind says what happens at a deadline. The zero value is invalid and drops the suspension
// with code policy_error.
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

// Deny ends the suspension and emits output, unless output is empty. If output is larger than
// AgentParams.MaxOutputBytes, the suspension is dropped with code policy_error.
func Deny(output []byte) Route { return Route{Kind: DenyRoute, Output: output} }

// Drop ends the suspension with a dead letter hitl_timeout with code dropped and the reason as
// its error.
func Drop(reason string) Route { return Route{Kind: DropRoute, Reason: reason} }

// Escalate asks for an approval again, on another channel. A new intent asks for the oldest open
// approval, with the same tool and arguments. The channel, 1 to 4,096 bytes, is in the trace
// event of the intent. The suspension continues for timeout, at least 1 ms, and either intent can
// be answered, once. After limit escalations, 1 to [MaxEscalations], the suspension ends like
// Deny with [DefaultTimeoutOutput].
func Escalate(channel string, timeout time.Duration, limit int) Route {
	return Route{Kind: EscalateRoute, Channel: channel, Timeout: timeout, Max: limit}
}

// Resume runs the agent with the trigger [TimedOut]. If that activation fails, the suspension
// ends.
func Resume() Route { return Route{Kind: ResumeRoute} }

// Validate returns an error if the route cannot be used.
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
	return errors.New("TimeoutPolicy returned the zero Route; use Deny, Drop, Escalate or Resume")
}
