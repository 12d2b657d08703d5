package compat

import (
	"maps"
	"slices"
	"strings"
)

// The kinds of Lint: pipelines that one of the runners refuses, or accepts and then breaks.
const (
	// SideInput: a transform without cells and timers has a side input.
	SideInput Kind = "side_input"
	// StatefulSideInput: a transform with cells or timers has a side input.
	StatefulSideInput Kind = "stateful_side_input"
	// SharedInput: other transforms read the input of a transform that keeps state.
	SharedInput Kind = "shared_input"
	// SharedName: only a number distinguishes a transform that keeps state from another one.
	SharedName Kind = "shared_name"
	// MapState: a cell is a map, a set or an ordered list.
	MapState Kind = "map_state"
	// CombiningState: a cell is a combining cell.
	CombiningState Kind = "combining_state"
	// TimerFamilies: a transform has two timer families or more.
	TimerFamilies Kind = "timer_families"
	// ImpulseTimers: a transform has processing-time timers, and all its elements come from an
	// Impulse.
	ImpulseTimers Kind = "impulse_timers"
)

// LintKinds returns the kinds of Lint, in order.
func LintKinds() []Kind { return kindsOf(lintRules) }

// Lint returns what is wrong with a pipeline before any update, in order of transform and
// kind. One of the runners refuses the pipeline, or breaks it while it runs or at the next
// update.
func Lint(f Fingerprint) []Finding {
	l := linter{all: index(f), readers: readers(index(f))}
	for _, name := range slices.Sorted(maps.Keys(l.all)) {
		l.transform(name, l.all[name])
	}
	return l.found
}

type linter struct {
	all     map[string]*Transform
	readers map[string][]string
	found   []Finding
}

func (l *linter) add(k Kind, transform, subject, now string) {
	rule, _ := RuleOf(k)
	l.found = append(l.found, Finding{Kind: k, Transform: transform, Subject: subject, New: now, Severity: rule.Severity(), Rule: rule})
}

func (l *linter) transform(name string, t *Transform) {
	for _, side := range t.SideInputs {
		kind := SideInput
		if t.named() {
			kind = StatefulSideInput
		}
		l.add(kind, name, "side input "+side.Tag, side.From)
	}
	if t.Kind == parDo && t.Stateful() && len(t.Inputs) > 0 {
		if all := l.readers[t.Inputs[0].From]; len(all) > 1 {
			l.add(SharedInput, name, "input "+t.Inputs[0].Tag, strings.Join(all, ", "))
		}
	}
	if base := unnumbered(name); base != name && t.Stateful() && l.all[base] != nil {
		l.add(SharedName, name, "", base)
	}
	for _, s := range t.State {
		switch s.Kind {
		case "map", "set", "ordered_list":
			l.add(MapState, name, "state "+s.ID, s.text())
		case "combining":
			l.add(CombiningState, name, "state "+s.ID, s.text())
		}
	}
	if len(t.Timers) > 1 {
		families := make([]string, len(t.Timers))
		for i, timer := range t.Timers {
			families[i] = timer.Family
		}
		slices.Sort(families)
		l.add(TimerFamilies, name, "", strings.Join(families, ", "))
	}
	for _, timer := range t.Timers {
		if timer.TimeDomain == "PROCESSING_TIME" && l.fromImpulse(t, map[string]bool{}) {
			l.add(ImpulseTimers, name, "timer family "+timer.Family, timer.TimeDomain)
		}
	}
}

// fromImpulse reports whether all elements of t come from an Impulse, through transforms that
// pass its watermark on. A splittable DoFn has its own watermark, so it does not.
func (l *linter) fromImpulse(t *Transform, seen map[string]bool) bool {
	if len(t.Inputs) == 0 {
		return t.Kind == "beam:transform:impulse:v1"
	}
	for _, in := range t.Inputs {
		from, _ := producer(in.From)
		source := l.all[from]
		if source == nil || source.Restriction != nil {
			return false
		}
		if seen[from] {
			continue
		}
		seen[from] = true
		if !l.fromImpulse(source, seen) {
			return false
		}
	}
	return true
}

const (
	addsOnce    = "Beam Go SDK 2.77.0, core/runtime/exec: what a call writes to an empty cell is not visible to later reads of the same call (docs/sdk.md has a program)"
	asStock     = "as with flink: agents-flink changes the ids and the options of a job, and not how Flink runs it"
	runnerCheck = "pkg/runners/flink: it refuses such a job before it submits it"
	// runnerCheckSide is about jobs with a side input.
	runnerCheckSide = "pkg/runners/flink: it refuses such a streaming job with checkpoints before it submits it"
	notStored       = "in a streaming job with checkpoints, an element that waits for the side input cannot be stored, and each checkpoint fails the job"
	prismSource     = "Beam Go SDK 2.77.0, Prism"
)

var lintRules = []kindRule{
	{SideInput, Rule{
		"a transform has a side input",
		inferred(NoEffect, "Beam's capability matrix"), ranAs(FailsForever, notStored),
		verified(Refuses, runnerCheckSide), inferred(NoEffect, prismSource),
		"in a streaming job, read the data of the side input in Setup, or put it into the main input; in batch there is nothing to avoid",
	}},
	{StatefulSideInput, Rule{
		"a transform with state or timers has a side input",
		inferred(NoEffect, "Beam's capability matrix"), ranAs(NeverCheckpoints, "in a streaming job with a later step in another stage"),
		verified(Refuses, "pkg/runners/flink: it refuses such a streaming job before it submits it"), inferred(NoEffect, prismSource),
		"put the data of the side input into the main input, with a GroupByKey or a CoGroupByKey, or read it in Setup",
	}},
	{SharedInput, Rule{
		"a transform that keeps state shares its input with other transforms",
		inferred(NoEffect, dataflowNames), ranAs(LosesState, "after an update that adds a reader without state"),
		verified(NoEffect, agentsIDs+", and each transform that keeps state has an input of its own"), inferred(NoEffect, prismSource),
		ownInput,
	}},
	{SharedName, Rule{
		"a transform that keeps state has the name of another one, and only a number in construction order distinguishes them",
		inferred(Misreads, dataflowMapping), inferred(Misreads, "the unique name is the operator id of a GroupByKey"),
		inferred(Misreads, agentsIDs), inferred(NoEffect, prismSource),
		"give each transform that keeps state a scope of its own",
	}},
	{MapState, Rule{
		"a cell is a map, a set or an ordered list",
		verified(Refuses, "Beam's capability matrix (apache/beam pull request 32915): MapState and SetState are not supported with Runner v2, which Go pipelines use"),
		ranAs(FailsForever, "the first access to a map fails the bundle"), verified(Refuses, runnerCheck),
		verified(Misreads, prismSource+": Map.Clear does nothing"),
		"use one value cell with a message that holds the entries, such as state.Memory",
	}},
	{CombiningState, Rule{
		"a cell is a Combining: of several calls of Add in one element, on a key without state, only the last one is stored",
		verified(LosesState, addsOnce), verified(LosesState, addsOnce),
		verified(LosesState, addsOnce), verified(LosesState, addsOnce),
		"use a value cell: read it, add to it, and write it once",
	}},
	{TimerFamilies, Rule{
		"a transform has more than one timer family",
		inferred(NoEffect, timersByID), ranAs(Hangs, twoFamilies), verified(Refuses, runnerCheck), verified(Hangs, prismSource+": always, even if no timer is set"),
		"use one family, and distinguish timers by their tags",
	}},
	{ImpulseTimers, Rule{
		"a transform whose elements all come from an Impulse has processing-time timers: its watermark is the maximum, so the window counts as expired",
		inferred(NoEffect, timersByID), ran(LosesTimers), inferred(LosesTimers, asStock), inferred(NoEffect, prismSource),
		"use event-time timers, or a splittable source that holds its watermark",
	}},
}
