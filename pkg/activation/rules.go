package activation

import (
	"context"
	"math"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/memory"
	"github.com/beamagents/beamagents-go/pkg/modelcall"
	"github.com/beamagents/beamagents-go/pkg/replay"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// WhileSuspended says what happens to an event for a suspended key.
type WhileSuspended uint8

const (
	// Defer keeps the event until the suspension ends.
	Defer WhileSuspended = iota
	// Reject makes a dead letter suspended/rejected of the event.
	Reject
)

// Rules are the rules for one agent. Set all fields; [AgentParams.Rules] does.
type Rules struct {
	// Name is stored with a suspension. Only an agent of the same name resumes it.
	Name  string
	Agent agent.Agent

	TTLMS          int64 // time after which an idle key is cleared, in ms; 0 is never
	WhileSuspended WhileSuspended

	MaxDeferred           int   // deferred events
	MaxDeferredBytes      int64 // size of their encoded envelopes
	MaxIntents            int   // open intents
	MaxOutputBytes        int   // outputs and intents of an activation
	MaxSnapshotBytes      int
	MaxActivationsPerHour int // activations of a key in an hour of event time; 0 is no limit

	MaxTokens int64 // tokens in the model responses of an activation; 0 is no limit

	MeasureDurations bool // adds attributes of durations to trace events

	// Process is the state that the model calls of a worker process share. If it is nil, they
	// share nothing.
	Process *modelcall.Process
}

const (
	// maxDrained bounds the deferred events that run in one step.
	maxDrained = 8
	// maxTimeoutsInRow bounds the timeouts and expiries without an event or an answer.
	maxTimeoutsInRow = 100
	// maxEventIDs bounds the remembered names of events.
	maxEventIDs = 256
	hourMS      = 3_600_000
)

// Deferred holds the deferred events of a key. An error fails the bundle.
type Deferred interface {
	Events() ([]*runtimepb.DeferredEvent, error) // in the order of arrival
	Add(*runtimepb.DeferredEvent) error
	Clear()
}

// Key is the state of a key, and what a step needs from its runtime.
type Key struct {
	Entity []byte
	// Control must not be nil, and must be of the current version.
	Control *runtimepb.KeyControl
	// A step sets Changed when it has changed Control.
	Changed bool
	// Memory and Cache open the cells. A step calls them when it first needs the cell.
	Memory func() (*memory.Memory, error)
	Cache  func() (*replay.Cache, error)
	// Stored returns the blobs of both cells as they are stored, or as they will be stored after
	// what the bundle has done so far. The step does not change them.
	Stored   func() (*pb.MemoryBlob, *pb.LlmCacheBlob, error)
	Deferred Deferred
	// Call runs code of the agent's author. It returns how the code failed, or nil if it
	// returned. After a failure of the time limit the code may still be running.
	Call func(f func(ctx context.Context)) *Failure
	// Scope separates the jobs of a process: a recorded model call of one job does not answer
	// another.
	Scope string
	// Measure starts a clock for an activation and returns a function that reads it, in ms. If
	// Measure is nil, durations are 0.
	Measure func() func() int64
}

// Step is the result of a step, besides the changed state.
type Step struct {
	Effects  []Effect
	Counters []string // names of counters; each occurrence counts one
	// DurationsMS are the durations of the attempts of activations, in ms.
	DurationsMS []int64
	// Samples are the values for the other distributions.
	Samples []Sample
	// Rest says that there are deferred events that can run: call Drain soon.
	Rest bool
}

// Rest reports whether a key has deferred events that can run.
func Rest(c *runtimepb.KeyControl) bool {
	return c.GetContinuation() == nil && c.GetDeferredCount() > 0
}

// Effect is something to emit at an event time. Exactly one of the other fields is set. An empty
// output is not nil.
type Effect struct {
	AtMS     int64
	Output   []byte
	Intent   *pb.ToolIntent
	Trace    *pb.TraceEvent
	Snapshot *pb.StateSnapshot
	Error    *pb.ActivationErrorRecord
}

// Sample is a value of a distribution.
type Sample struct {
	Name  string
	Value int64
}

// The names of the distributions. Step.DurationsMS has another one.
const (
	LLMMS            = "llm_ms"      // time of the model calls of an attempt, hits included
	OverheadMS       = "overhead_ms" // time of an attempt without its model calls
	Tokens           = "tokens"      // tokens of a model call that was made
	PromptTokens     = "prompt_tokens"
	CompletionTokens = "completion_tokens"
)

// Distributions returns the names of all distributions of samples, in order.
func Distributions() []string {
	return []string{CompletionTokens, LLMMS, OverheadMS, PromptTokens, Tokens}
}

// The names of the counters.
const (
	Activations     = "activations"
	IntentsEmitted  = "intents_emitted"
	AgentErrors     = "agent_errors"
	InputsRejected  = "inputs_rejected"
	Suspensions     = "suspensions"
	Escalations     = "escalations"
	Timeouts        = "timeouts"
	OrphanedResults = "orphaned_results"
	EventsDeferred  = "events_deferred"
	EventsDuplicate = "events_duplicate"
	KeysCleared     = "keys_cleared"
	SnapshotsTaken  = "snapshots_exported"

	LLMCalls          = "llm_calls"           // calls that a provider has answered
	LLMCacheHits      = "llm_cache_hits"      // calls answered from the replay cache
	LLMNotStored      = "llm_not_stored"      // calls answered, and not recorded
	LLMCacheEvictions = "llm_cache_evictions" // stored responses that were evicted
	ReplayDivergences = "replay_divergences"  // requests that differ from what was recorded
	ReplayDifferences = "replay_differences"  // responses that differ from a stored digest
)

// Counters returns the names of all counters, in order.
func Counters() []string {
	return []string{
		Activations, AgentErrors, Escalations, EventsDeferred, EventsDuplicate, InputsRejected, IntentsEmitted,
		KeysCleared, LLMCacheEvictions, LLMCacheHits, LLMCalls, LLMNotStored, OrphanedResults, ReplayDifferences, ReplayDivergences,
		SnapshotsTaken, Suspensions, Timeouts,
	}
}

// Deadline returns when the timer of a suspension is due, in ms: at the deadline of the
// suspension, or when the last open intent expires, if that is earlier. ok is false if the key is
// not suspended.
func Deadline(c *runtimepb.KeyControl) (dueMS int64, ok bool) {
	cont := c.GetContinuation()
	if cont == nil {
		return 0, false
	}
	due := cont.GetDeadlineMs()
	if len(c.GetPending()) > 0 {
		var last int64 = math.MinInt64
		for _, in := range c.GetPending() {
			last = max(last, in.GetExpiresAtMs())
		}
		due = min(due, last)
	}
	return due, true
}

// TTLMark returns when the key becomes idle, in ms. ok is false if it never does.
func (r *Rules) TTLMark(c *runtimepb.KeyControl) (dueMS int64, ok bool) {
	return c.GetTtlMarkMs(), r.TTLMS > 0 && c.GetTtlMarkMs() > 0
}

// stepper is a step in progress.
type stepper struct {
	*Rules
	k       *Key
	c       *runtimepb.KeyControl
	out     Step
	drained int
}

func (r *Rules) step(k *Key) *stepper { return &stepper{Rules: r, k: k, c: k.Control} }

// done returns the result of the step.
func (s *stepper) done(err error) (Step, error) {
	s.out.Rest = Rest(s.c)
	return s.out, err
}

func (s *stepper) changed() { s.k.Changed = true }

func (s *stepper) count(name string) { s.out.Counters = append(s.out.Counters, name) }

// add adds ms, and saturates instead of overflowing.
func add(ms, more int64) int64 {
	if sum := ms + more; more < 0 || sum >= ms {
		return sum
	}
	return math.MaxInt64
}

// touch moves the TTL mark to a TTL after now, or after the deadline of the suspension if that is
// later.
func (s *stepper) touch(now int64) {
	if s.TTLMS == 0 {
		return
	}
	if cont := s.c.Continuation; cont != nil {
		now = max(now, cont.GetDeadlineMs())
	}
	if mark := add(now, s.TTLMS); mark > s.c.TtlMarkMs {
		s.c.TtlMarkMs = mark
		s.changed()
	}
}
