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

// WhileSuspended says what happens to an event of a key that is suspended.
type WhileSuspended uint8

const (
	// Defer keeps the event until the suspension ends.
	Defer WhileSuspended = iota
	// Reject makes a dead letter suspended/rejected of it.
	Reject
)

// Rules are the rules for one agent. All fields are set: [AgentParams] has the defaults.
type Rules struct {
	// Name is stored with a suspension, which resumes under this name only.
	Name  string
	Agent agent.Agent

	TTLMS          int64 // after which an idle key is cleared; 0 is never
	WhileSuspended WhileSuspended

	MaxDeferred           int   // events
	MaxDeferredBytes      int64 // of their encoded envelopes
	MaxIntents            int   // that are open at once
	MaxOutputBytes        int   // of the outputs and intents of an activation
	MaxSnapshotBytes      int
	MaxActivationsPerHour int // of a key, by event time; 0 is no limit

	MaxTokens int64 // of the model responses of an activation; 0 is no limit

	MeasureDurations bool // adds attributes of durations to trace events

	// Process is what model calls share in the worker process. Nil is nothing.
	Process *modelcall.Process
}

const (
	// maxDrained bounds the deferred events that run in one step.
	maxDrained = 8
	// maxTimeoutsInRow bounds the timeouts and expiries without an event or an answer.
	maxTimeoutsInRow = 100
	// maxEventIDs bounds the names of events that are remembered.
	maxEventIDs = 256
	hourMS      = 3_600_000
)

// Deferred are the deferred events of a key. An error of Events fails the bundle.
type Deferred interface {
	Events() ([]*runtimepb.DeferredEvent, error) // in the order of arrival
	Add(*runtimepb.DeferredEvent) error
	Clear()
}

// Key is the state of a key, and what a step needs of its runtime.
type Key struct {
	Entity []byte
	// Control is never nil, and of the current version.
	Control *runtimepb.KeyControl
	// Changed is set when a step has changed Control.
	Changed bool
	// Memory and Cache open the cells at first use.
	Memory func() (*memory.Memory, error)
	Cache  func() (*replay.Cache, error)
	// Stored are the blobs of both cells as they are stored, or will be after what the
	// bundle has done so far. The step does not change them.
	Stored   func() (*pb.MemoryBlob, *pb.LlmCacheBlob, error)
	Deferred Deferred
	// Call runs code of the agent's author and says how it failed, nil if it returned. The
	// code may still be running if the failure is that of the time limit.
	Call func(f func(ctx context.Context)) *Failure
	// Scope separates the jobs of a process, whose model calls must not answer each other.
	Scope string
	// Measure begins to measure an activation and returns what tells the time since then
	// in ms. Nil is a clock that stands still.
	Measure func() func() int64
}

// Step is what a step leaves besides the changed state.
type Step struct {
	Effects  []Effect
	Counters []string // each counts one
	// DurationsMS are how long each attempt of an activation took.
	DurationsMS []int64
	// Samples are the values of other distributions.
	Samples []Sample
	// Rest says that deferred events are left that could run now: call Drain soon.
	Rest bool
}

// Rest reports whether a key has deferred events that could run now.
func Rest(c *runtimepb.KeyControl) bool {
	return c.GetContinuation() == nil && c.GetDeferredCount() > 0
}

// Effect is something that goes out at an event time. Exactly one of the others is set; an
// output that is empty is not nil.
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

// The names of the distributions, besides that of Step.DurationsMS.
const (
	LLMMS            = "llm_ms"      // of the model calls of an attempt, hits included
	OverheadMS       = "overhead_ms" // of an attempt without them
	Tokens           = "tokens"      // of a model call that was made
	PromptTokens     = "prompt_tokens"
	CompletionTokens = "completion_tokens"
)

// Distributions are the names of all distributions of samples, in order.
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

	LLMCalls          = "llm_calls"           // that a provider has answered
	LLMCacheHits      = "llm_cache_hits"      // answered from the replay cache
	LLMNotStored      = "llm_not_stored"      // answered, and not recorded
	LLMCacheEvictions = "llm_cache_evictions" // stored responses that made room for others
	ReplayDivergences = "replay_divergences"  // requests that differ from what was recorded
	ReplayDifferences = "replay_differences"  // responses that differ from a stored digest
)

// Counters are the names of all counters, in order.
func Counters() []string {
	return []string{
		Activations, AgentErrors, Escalations, EventsDeferred, EventsDuplicate, InputsRejected, IntentsEmitted,
		KeysCleared, LLMCacheEvictions, LLMCacheHits, LLMCalls, LLMNotStored, OrphanedResults, ReplayDifferences, ReplayDivergences,
		SnapshotsTaken, Suspensions, Timeouts,
	}
}

// Deadline returns when the timer of the suspension is due, in ms: at its deadline, or
// when the last open intent expires, if that is earlier. There is none without a
// suspension.
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

// TTLMark returns when the key becomes idle, in ms, if it ever does.
func (r *Rules) TTLMark(c *runtimepb.KeyControl) (dueMS int64, ok bool) {
	return c.GetTtlMarkMs(), r.TTLMS > 0 && c.GetTtlMarkMs() > 0
}

// stepper is a step that runs.
type stepper struct {
	*Rules
	k       *Key
	c       *runtimepb.KeyControl
	out     Step
	drained int
}

func (r *Rules) step(k *Key) *stepper { return &stepper{Rules: r, k: k, c: k.Control} }

// done is what the step has left.
func (s *stepper) done(err error) (Step, error) {
	s.out.Rest = Rest(s.c)
	return s.out, err
}

func (s *stepper) changed() { s.k.Changed = true }

func (s *stepper) count(name string) { s.out.Counters = append(s.out.Counters, name) }

// add adds ms, saturating.
func add(ms, more int64) int64 {
	if sum := ms + more; more < 0 || sum >= ms {
		return sum
	}
	return math.MaxInt64
}

// touch moves the TTL mark: a key is idle after now and after the deadline of its
// suspension.
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
