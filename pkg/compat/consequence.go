package compat

import "slices"

// Runner is a runner that the rules cover.
type Runner string

// The runners.
const (
	Dataflow Runner = "dataflow"
	// Flink is Beam's Flink runner, called as the SDK's own Go runner calls it.
	Flink Runner = "flink"
	// AgentsFlink is Flink with the options and the stable ids of pkg/runners/flink.
	AgentsFlink Runner = "agents-flink"
	// Prism is the embedded runner. It cannot update a job, so only the rules of Lint cover it.
	Prism Runner = "prism"
)

// Runners returns the runners that can update a job, in the order in which findings name them.
func Runners() []Runner { return []Runner{Dataflow, Flink, AgentsFlink} }

// Effect is what a runner does after a change.
type Effect string

// The closed set of effects.
const (
	// NoEffect: state, timers and data are kept.
	NoEffect Effect = "nothing"
	// Refuses: the runner refuses the update. The old job runs on, or can be started again.
	Refuses Effect = "refuses the update"
	// FailsForever: the new job starts, fails and restarts without end, at once or when the first
	// stored timer is due.
	FailsForever Effect = "fails for ever"
	// LosesState: the new job begins without the state, without a message.
	LosesState Effect = "loses state silently"
	// LosesTimers: timers that were set do not fire, without a message.
	LosesTimers Effect = "loses timers silently"
	// Misreads: the new coder gets bytes that the old coder wrote. It reads a wrong value or
	// nothing, or the bundle fails for ever.
	Misreads Effect = "misreads bytes"
	// Mixes: data that the old job stored is used by the rules of the old job, or only in part.
	Mixes Effect = "mixes old and new"
	// Hangs: the job stops making progress, without an error.
	Hangs Effect = "hangs"
	// NeverCheckpoints: the job runs, but its checkpoints never complete.
	NeverCheckpoints Effect = "never completes a checkpoint"
)

// Evidence says how a consequence is known.
type Evidence string

// The kinds of evidence, the strongest first.
const (
	// Run: it was run and observed. The source names versions and the date.
	Run Evidence = "run"
	// InSource: documentation, source code or an issue states it for exactly this change.
	InSource Evidence = "verified"
	// Inferred: it follows from what the source says.
	Inferred Evidence = "inferred"
)

// Consequence is what a runner does after a change, and how that is known.
type Consequence struct {
	Effect   Effect
	Evidence Evidence
	// Source says what the consequence is known from.
	Source string
}

func (c Consequence) unsafe() bool { return c.Effect != NoEffect && c.Effect != "" }

// Text returns the effect and its evidence, such as "refuses the update (run)".
func (c Consequence) Text() string { return string(c.Effect) + " (" + string(c.Evidence) + ")" }

// Severity says whether a finding is unsafe.
type Severity string

// The severities.
const (
	Safe   Severity = "safe"
	Unsafe Severity = "unsafe"
)

// Rule describes a kind.
type Rule struct {
	// Summary says in a sentence what changed or what is wrong.
	Summary string
	// The consequences on each runner.
	Dataflow, Flink, AgentsFlink Consequence
	// Prism is set only in the rules of Lint.
	Prism Consequence
	// Avoid says how to avoid the effects, or what to do instead.
	Avoid string
}

// On returns the consequence on a runner.
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

// Severity returns Unsafe if one of the runners has another effect than NoEffect. Without
// arguments it covers all runners for which the rule has a consequence.
func (r Rule) Severity(runners ...Runner) Severity {
	if len(runners) == 0 {
		runners = append(Runners(), Prism)
	}
	if slices.ContainsFunc(runners, func(runner Runner) bool { return r.On(runner).unsafe() }) {
		return Unsafe
	}
	return Safe
}
