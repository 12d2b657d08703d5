package compat

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// flinkOperators are the numbers of which Flink's stock runner makes operator ids.
func flinkOperators(all map[string]*Transform) map[string]bool {
	ids := map[string]bool{}
	for _, t := range all {
		ids[t.FlinkOperator] = true
	}
	return ids
}

// agentsOperator is what agents-flink makes the operator id of: of a transform with cells
// or timers its name, of another one that keeps something the transform and the output
// that its input comes from. Flink names what it stores of a side input after the
// transform, too.
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

// numbered reports whether Flink's stock runner stores something under the number of the
// transform itself.
func (t *Transform) numbered() bool { return len(t.Timers) > 0 || len(t.SideInputs) > 0 }

// operators adds a finding for each id by which Flink would not find what it has stored.
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
	if o.named() == n.named() && o.numbered() == n.numbered() { // or other findings say what changed
		changed(AgentsFlinkOperatorChanged, o.agentsOperator(), n.agentsOperator())
	}
	c.shared(o, n)
}

// readers are the ParDos that have a PCollection as main input, by where it comes from.
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

// shared adds a finding where n kept its number but those that read its input are not the
// same: with Flink's stock runner they share an operator id but for a counter.
func (c *checker) shared(o, n *Transform) {
	if o.FlinkOperator == "" || o.FlinkOperator != n.FlinkOperator || len(o.Inputs) == 0 || len(n.Inputs) == 0 {
		return
	}
	split := func(readers []string, all map[string]*Transform, called func(string) string) (keeping, others []string) {
		for _, name := range readers {
			if all[name].Stateful() {
				keeping = append(keeping, called(name))
			} else {
				others = append(others, called(name)+" (keeps nothing)") // all such are one stage
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
