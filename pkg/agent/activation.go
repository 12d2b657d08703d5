package agent

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/memory"
	"github.com/beamagents/beamagents-go/pkg/modelcall"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The errors that methods of an Activation wrap. When a method refuses an intent or an output,
// the activation fails, even if Run ignores the error. So a side effect that the agent asked for
// is never left out silently.
var (
	// ErrActivationEnded: Run has returned, or its time is up.
	ErrActivationEnded = errors.New("the activation has ended")
	// ErrTooManyIntents: there would be more open intents than AgentParams.MaxIntents. Open
	// intents of earlier activations count.
	ErrTooManyIntents = errors.New("too many intents")
	// ErrOutputTooLarge: outputs and intents would have more bytes than
	// AgentParams.MaxOutputBytes.
	ErrOutputTooLarge = errors.New("output too large")
	// ErrInvalidText: a text is not UTF-8; a value cannot be encoded as JSON; the name of a tool
	// or of an entry in memory is empty or longer than 1,024 bytes; or the arguments are not a
	// JSON object.
	ErrInvalidText = errors.New("invalid text")
	// ErrNotApproved: ActApproved was called without an approval, or a second time.
	ErrNotApproved = errors.New("nothing is approved")
)

// The lifetimes of intents, counted from NowMS. ExpireIntentsAfter sets others.
const (
	ToolIntentTTL     = time.Hour
	ApprovalIntentTTL = 24 * time.Hour
)

// Bounds of names, attributes and their number.
const (
	maxToolNameBytes  = 1024
	maxAttributes     = 64
	maxAttributeKey   = 256
	maxAttributeValue = 4096
	// attributePrefix begins the names of attributes that the runtime sets.
	attributePrefix = "beam_agents."
)

// Activation is one run of an agent. It belongs to the goroutine of Run. Only its model calls may
// come from several goroutines: see [Activation.HTTPClient] and [Activation.CallModel].
type Activation struct {
	mu       sync.Mutex
	start    Start
	staged   Staged
	bytes    int
	ttl      time.Duration
	approved bool // ActApproved was called
	snapshot []byte
	ended    bool
	calls    *modelcall.Calls // nil until the first model call
}

// Start is what a runtime passes to [Begin]. It is for runtimes.
type Start struct {
	Trigger Trigger
	Key     []byte
	Seq     int64
	Step    uint32 // the step of the first intent that the activation stages
	NowMS   int64
	Open    []*pb.ToolIntent
	// Memory opens the memory of the key. An error of it fails the bundle.
	Memory func() (*memory.Memory, error)

	// TraceParent returns the W3C traceparent of the activation.
	TraceParent func() string
	// Offset tells how long the activation has been running, in ms. If it is nil, no time is measured.
	Offset func() int64

	// Calls is what the runtime knows of model calls. Begin sets its Key, Seq and Ended.
	Calls modelcall.Config

	MaxIntents     int // bound of the intents that are open after the activation
	MaxOutputBytes int // bound of the outputs and intents together, in bytes
}

// Staged is what an activation has staged. It is for runtimes.
type Staged struct {
	Intents    []*pb.ToolIntent
	Outputs    [][]byte
	Attributes map[string]string
	Step       uint32 // the step of the next intent
	// Offsets tells when each intent was staged, if Start.Offset is set.
	Offsets []int64
	// Err is the error of the first call that was refused. It fails the activation. It wraps no
	// error of the agent, because the methods of such an error must not run outside of the
	// activation.
	Err error
	// StateErr is an error of Start.Memory or Start.Calls.Cache. It fails the bundle.
	StateErr error
	// Calls is what the model calls have recorded and counted.
	Calls modelcall.Left
	// CallSteps maps the cache keys of calls made with CallModel to their steps.
	CallSteps map[string]uint32

	calls []callStep
}

// Begin starts an activation. It is for runtimes.
func Begin(start Start) *Activation {
	return &Activation{start: start, staged: Staged{Step: start.Step}}
}

// Restore sets the snapshot, in the agent's version. It is for runtimes. If it returns
// ErrActivationEnded, Run must not be called.
func (a *Activation) Restore(snapshot []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return ErrActivationEnded
	}
	a.snapshot = snapshot
	return nil
}

// End ends an activation: nothing that its agent does afterwards has an effect. It is for
// runtimes.
func (a *Activation) End() Staged {
	a.mu.Lock()
	a.ended = true
	calls := a.calls
	a.mu.Unlock()
	var left modelcall.Left
	if calls != nil {
		left = calls.End() // without the lock: a call that ends may wait for it
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.staged.Calls, a.staged.CallSteps = left, numberCalls(a.staged.calls)
	if a.staged.StateErr == nil {
		a.staged.StateErr = left.StateErr
	}
	return a.staged
}

// Trigger returns what the activation runs for. After the activation has ended, it returns the
// zero Trigger.
func (a *Activation) Trigger() Trigger {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return Trigger{}
	}
	return a.start.Trigger.clone()
}

// Key returns the entity key.
func (a *Activation) Key() []byte { return bytes.Clone(a.start.Key) }

// Seq returns the number of the activation within its key. A resumed activation has the number of
// the activation that was suspended.
func (a *Activation) Seq() int64 { return a.start.Seq }

// TraceParent returns the W3C traceparent of this activation. Pass it to the services that the
// agent calls, or put it into the events that it emits. If another agent gets it in an event and
// returns it from its method TraceParent ([TraceLinker]), the two traces are linked. Intents
// carry the trace by themselves. The sampled flag is always set; the exporter of traces decides
// alone what is exported.
func (a *Activation) TraceParent() string {
	if a.start.TraceParent == nil {
		return ""
	}
	return a.start.TraceParent()
}

// NowMS returns the event time of the trigger, in ms since the Unix epoch. It does not change
// during the activation.
func (a *Activation) NowMS() int64 { return a.start.NowMS }

// Snapshot returns the snapshot of the suspension that this activation resumes, or nil in a fresh
// activation.
func (a *Activation) Snapshot() []byte { return bytes.Clone(a.snapshot) }

// Open returns the open intents of earlier activations, in the order of their staging, without
// the one that the trigger answers.
func (a *Activation) Open() []*pb.ToolIntent {
	open := make([]*pb.ToolIntent, len(a.start.Open))
	for i, in := range a.start.Open {
		open[i] = proto.CloneOf(in)
	}
	return open
}

// ExpireIntentsAfter sets the lifetime of the intents that are staged after it, at least 1 ms. 0
// restores ToolIntentTTL and ApprovalIntentTTL.
func (a *Activation) ExpireIntentsAfter(d time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return ErrActivationEnded
	}
	if d != 0 && d < time.Millisecond {
		return a.refuse(fmt.Errorf("agent: intents expire after %v; use at least 1ms", d))
	}
	a.ttl = d
	return nil
}

// Act stages an intent to call a tool. Its arguments are the canonical JSON of args, which must
// be an object. Nil stands for {}, and a json.RawMessage for its own text. If the agent suspends,
// the answer resumes it.
func (a *Activation) Act(tool string, args any) error { return a.stage(intent.Tool, tool, args) }

// RequestApproval stages an intent that asks a human whether the tool may be called with args.
// They are encoded as for Act. The answer resumes the agent with the trigger Approval, and then
// [Activation.ActApproved] stages the call.
func (a *Activation) RequestApproval(tool string, args any) error {
	return a.stage(intent.Approval, tool, args)
}

// ActApproved stages the tool call that the trigger approves: the same tool, and exactly the
// bytes of the approved arguments. It returns an error that wraps ErrNotApproved if the trigger
// is not an approval or if it was called before.
func (a *Activation) ActApproved() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.start.Trigger
	switch {
	case a.ended:
		return ErrActivationEnded
	case t.Kind != Approval || !t.Approved:
		return a.refuse(fmt.Errorf("agent: ActApproved: %w: the trigger is %v", ErrNotApproved, t.Kind))
	case a.approved:
		return a.refuse(fmt.Errorf("agent: ActApproved: %w: it was used already", ErrNotApproved))
	}
	in, err := a.build(intent.Tool, t.Intent.GetToolName(), nil)
	if err != nil {
		return a.refuse(err)
	}
	in.ArgsJson = t.Intent.GetArgsJson()
	if err := a.add(in); err != nil {
		return err
	}
	a.approved = true
	return nil
}

func (a *Activation) stage(kind intent.Kind, tool string, args any) error {
	text, encodeErr := []byte("{}"), error(nil)
	if args != nil {
		text, encodeErr = encodeJSON(args) // without the lock: methods of args run here
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ended:
		return ErrActivationEnded
	case encodeErr != nil:
		return a.refuse(fmt.Errorf("agent: args of %q: %w: %s", tool, ErrInvalidText, encodeErr.Error()))
	}
	// An approval needs an object, too, because it approves a tool call.
	if text[0] != '{' {
		return a.refuse(fmt.Errorf("agent: args of %q: %w: they must be a JSON object", tool, ErrInvalidText))
	}
	in, err := a.build(kind, tool, text)
	if err != nil {
		return a.refuse(err)
	}
	return a.add(in)
}

func (a *Activation) build(kind intent.Kind, tool string, args []byte) (*pb.ToolIntent, error) {
	switch {
	case tool == "":
		return nil, fmt.Errorf("agent: %w: the tool name is empty", ErrInvalidText)
	case len(tool) > maxToolNameBytes:
		return nil, fmt.Errorf("agent: %w: the tool name has %d bytes, the limit is %d", ErrInvalidText, len(tool), maxToolNameBytes)
	case !utf8.ValidString(tool):
		return nil, fmt.Errorf("agent: %w: the tool name %q is not UTF-8", ErrInvalidText, tool)
	}
	ttl := a.ttl
	if ttl == 0 {
		ttl = ToolIntentTTL
		if kind == intent.Approval {
			ttl = ApprovalIntentTTL
		}
	}
	in, err := intent.Builder{
		EntityKey: a.start.Key, Seq: a.start.Seq, Step: a.staged.Step, Kind: kind, Name: tool,
		CreatedAtMs: a.start.NowMS, ExpiresAtMs: a.start.NowMS + ttl.Milliseconds(),
	}.Build()
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if args != nil {
		in.ArgsJson = string(args) // already canonical
	}
	return in, nil
}

func (a *Activation) add(in *pb.ToolIntent) error {
	if n := len(a.start.Open) + len(a.staged.Intents) + 1; n > a.start.MaxIntents {
		return a.refuse(fmt.Errorf("agent: intent for %q: %w: %d would be open, the limit is %d", in.GetToolName(), ErrTooManyIntents, n, a.start.MaxIntents))
	}
	if err := a.count(proto.Size(in)); err != nil {
		return err
	}
	a.staged.Intents = append(a.staged.Intents, in)
	if a.start.Offset != nil {
		a.staged.Offsets = append(a.staged.Offsets, a.start.Offset())
	}
	a.staged.Step++
	return nil
}

// count adds n to the bytes that the activation emits, and refuses them above the bound.
func (a *Activation) count(n int) error {
	if n > a.start.MaxOutputBytes-a.bytes {
		return a.refuse(fmt.Errorf("agent: %w: %d bytes and %d before them, the limit is %d", ErrOutputTooLarge, n, a.bytes, a.start.MaxOutputBytes))
	}
	a.bytes += n
	return nil
}

// refuse keeps the first refusal.
func (a *Activation) refuse(err error) error {
	if a.staged.Err == nil {
		a.staged.Err = err
	}
	return err
}

// Emit stages an output under the key of the activation. The value is copied.
func (a *Activation) Emit(value []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return ErrActivationEnded
	}
	if err := a.count(len(value)); err != nil {
		return err
	}
	a.staged.Outputs = append(a.staged.Outputs, append([]byte{}, value...))
	return nil
}

// EmitJSON stages the canonical JSON of v as an output.
func (a *Activation) EmitJSON(v any) error {
	b, err := encodeJSON(v) // without the lock: methods of v run here
	if err == nil {
		return a.Emit(b)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return ErrActivationEnded
	}
	return a.refuse(fmt.Errorf("agent: output: %w: %s", ErrInvalidText, err.Error()))
}

// SetAttribute adds an attribute to the trace event at the end of the activation. An activation
// has at most 64. A name has 1 to 256 bytes and does not begin with "beam_agents."; a value has
// at most 4,096 bytes. Both must be UTF-8.
func (a *Activation) SetAttribute(name, value string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.staged.Attributes[name]
	switch {
	case a.ended:
		return ErrActivationEnded
	case name == "" || len(name) > maxAttributeKey || strings.HasPrefix(name, attributePrefix):
		return a.refuse(fmt.Errorf("agent: attribute %.300q: the name must have 1 to %d bytes and not begin with %s", name, maxAttributeKey, attributePrefix))
	case len(value) > maxAttributeValue:
		return a.refuse(fmt.Errorf("agent: attribute %q: the value has %d bytes, the limit is %d", name, len(value), maxAttributeValue))
	case !utf8.ValidString(name) || !utf8.ValidString(value):
		return a.refuse(fmt.Errorf("agent: attribute %q: %w: it is not UTF-8", name, ErrInvalidText))
	case !known && len(a.staged.Attributes) == maxAttributes:
		return a.refuse(fmt.Errorf("agent: attribute %q: the activation has %d already, which is the limit", name, maxAttributes))
	}
	if a.staged.Attributes == nil {
		a.staged.Attributes = map[string]string{}
	}
	a.staged.Attributes[name] = value
	return nil
}

// memory opens the memory of the key. The caller holds the lock.
func (a *Activation) memory() (*memory.Memory, error) {
	switch {
	case a.ended:
		return nil, ErrActivationEnded
	case a.staged.StateErr != nil:
		return nil, a.staged.StateErr
	}
	m, err := a.start.Memory()
	if err != nil {
		a.staged.StateErr = fmt.Errorf("agent: open memory: %w", err)
		return nil, a.staged.StateErr
	}
	return m, nil
}
