package compat

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// flinkOperators returns the numbers from which Flink's stock runner makes operator ids.
func flinkOperators(all map[string]*Transform) map[string]bool {
	ids := map[string]bool{}
	for _, t := range all {
		ids[t.FlinkOperator] = true
	}
	return ids
}

// agentsOperator returns that from which agents-flink makes the operator id of t. For a transform
// with cells or timers, it is its name. For another transform that keeps something, it is the
// source of its input: transform and output. Flink also names stored side inputs after the
// transform.
func (t *Transform) agentsOperator() string {
	switch {
	case t.Kind != parDo || !t.Stateful() || len(t.Inputs) == 0:
		return ""
	case t.named():
		return t.Name
	case len(t.SideInputs) > 0:
		return t.Name + " on " + t.Inputs[0].From
	}
	return t.Inputs[0].From
}

// named reports whether t has cells or timers.
func (t *Transform) named() bool { return len(t.State)+len(t.Timers) > 0 }

// numbered reports whether Flink's stock runner stores anything under the number of the transform
// itself.
func (t *Transform) numbered() bool { return len(t.Timers) > 0 || len(t.SideInputs) > 0 }

// operators adds a finding for each id that has changed, so that Flink would not find the stored
// state.
func (c *checker) operators(o, n *Transform) {
	changed := func(kind Kind, old, now string) {
		if old != now && old != "" && now != "" {
			c.add(kind, n.Name, "", old, now)
		}
	}
	operator := FlinkOperatorChanged
	if c.oldOperators[n.FlinkOperator] {
		operator = FlinkOperatorExchanged
	}
	changed(operator, o.FlinkOperator, n.FlinkOperator)
	if o.numbered() && n.numbered() {
		changed(FlinkTransformChanged, o.FlinkTransform, n.FlinkTransform)
	}
	if o.named() == n.named() && o.numbered() == n.numbered() { // otherwise other findings say what changed
		changed(AgentsFlinkOperatorChanged, o.agentsOperator(), n.agentsOperator())
	}
	c.shared(o, n)
}

// readers returns the ParDos that have a PCollection as main input, by the source of the
// PCollection.
func readers(all map[string]*Transform) map[string][]string {
	readers := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, in := range all[name].Inputs {
			if all[name].Kind == parDo && in.From != "" {
				readers[in.From] = append(readers[in.From], name)
			}
		}
	}
	return readers
}

// shared adds a finding if n has kept its number, but other transforms read its input than
// before. With Flink's stock runner, all these share an operator id, except for a counter.
func (c *checker) shared(o, n *Transform) {
	if o.FlinkOperator == "" || o.FlinkOperator != n.FlinkOperator || len(o.Inputs) == 0 || len(n.Inputs) == 0 {
		return
	}
	split := func(readers []string, all map[string]*Transform, called func(string) string) (keeping, others []string) {
		for _, name := range readers {
			if all[name].Stateful() {
				keeping = append(keeping, called(name))
			} else {
				others = append(others, called(name)+" (keeps nothing)") // all of these form one stage
			}
		}
		slices.Sort(keeping)
		slices.Sort(others)
		return keeping, others
	}
	oldKeeping, oldOthers := split(c.oldReaders[o.Inputs[0].From], c.old, func(name string) string { return cmp.Or(c.now[name], name) })
	keeping, others := split(c.newReaders[n.Inputs[0].From], c.new, func(name string) string { return name })
	kind := FlinkOperatorOrder
	if slices.Equal(oldKeeping, keeping) {
		kind = FlinkOperatorShared
	}
	old, now := slices.Concat(oldKeeping, oldOthers), slices.Concat(keeping, others)
	if max(len(old), len(now)) > 1 && !slices.Equal(old, now) {
		c.add(kind, n.Name, "", strings.Join(old, ", "), strings.Join(now, ", "))
	}
}
