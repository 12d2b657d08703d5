package compat

import "slices"

// Runner is a runner that the rules are about.
type Runner string

// The runners.
const (
	Dataflow Runner = "dataflow"
	// Flink is Beam's Flink runner as the SDK's own Go runner calls it.
	Flink Runner = "flink"
	// AgentsFlink is the same with the options and the stable ids of pkg/runners/flink.
	AgentsFlink Runner = "agents-flink"
	// Prism is the embedded runner. It updates no job, so that only Lint is about it.
	Prism Runner = "prism"
)

// Runners are the runners that update a job, in the order in which findings name them.
func Runners() []Runner { return []Runner{Dataflow, Flink, AgentsFlink} }

// Effect is what a runner does with a change.
type Effect string

// The closed set of effects.
const (
	// NoEffect: state, timers and data stay as they were.
	NoEffect Effect = "nothing"
	// Refuses: the update is refused. The old job runs on, or can be started again.
	Refuses Effect = "refuses the update"
	// FailsForever: the new job starts, fails, and restarts without end, at once or when
	// the first stored timer is due.
	FailsForever Effect = "fails for ever"
	// LosesState: the new job begins without the state, and no message says so.
	LosesState Effect = "loses state silently"
	// LosesTimers: timers that were set do not fire, and no message says so.
	LosesTimers Effect = "loses timers silently"
	// Misreads: bytes that the old coder wrote reach the new one. It reads a wrong value
	// or nothing, or the bundle fails for ever.
	Misreads Effect = "misreads bytes"
	// Mixes: what the old job stored is used by the rules of the old job, or in part.
	Mixes Effect = "mixes old and new"
	// Hangs: the job stands still, without an error.
	Hangs Effect = "hangs"
	// NeverCheckpoints: the job runs, and no checkpoint of it completes.
	NeverCheckpoints Effect = "never completes a checkpoint"
)

// Evidence says how a consequence is known.
type Evidence string

// The kinds of evidence, the strongest first.
const (
	// Run: it was run and observed. The source names versions and date.
	Run Evidence = "run"
	// InSource: documentation, source code or an issue says it of this very case.
	InSource Evidence = "verified"
	// Inferred: it follows from what the source says.
	Inferred Evidence = "inferred"
)

// Consequence is what one runner does with a change.
type Consequence struct {
	Effect   Effect
	Evidence Evidence
	// Source says where it is known from.
	Source string
}

func (c Consequence) unsafe() bool { return c.Effect != NoEffect && c.Effect != "" }

// Text is the effect and its evidence: "refuses the update (run)".
func (c Consequence) Text() string { return string(c.Effect) + " (" + string(c.Evidence) + ")" }

// Severity is what a finding means for an update.
type Severity string

// The severities.
const (
	Safe   Severity = "safe"
	Unsafe Severity = "unsafe"
)

// Rule is what is known of a kind.
type Rule struct {
	// Summary says in a sentence what changed.
	Summary string
	// The consequences on each runner.
	Dataflow, Flink, AgentsFlink Consequence
	// Prism is set in the rules of Lint alone.
	Prism Consequence
	// Avoid says how to avoid it, or what to do instead.
	Avoid string
}

// On is the consequence on a runner.
func (r Rule) On(runner Runner) Consequence {
	switch runner {
	case Dataflow:
		return r.Dataflow
	case Flink:
		return r.Flink
	case AgentsFlink:
		return r.AgentsFlink
	case Prism:
		return r.Prism
	}
	return Consequence{}
}

// Severity is Unsafe where one of the runners has another effect than NoEffect. Without
// arguments it is about all runners that the rule has a consequence for.
func (r Rule) Severity(runners ...Runner) Severity {
	if len(runners) == 0 {
		runners = append(Runners(), Prism)
	}
	if slices.ContainsFunc(runners, func(runner Runner) bool { return r.On(runner).unsafe() }) {
		return Unsafe
	}
	return Safe
}
