package compat

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// operators are the transforms of a pipeline that keep something, by what their operator
// ids on Flink are made of: the number of the input with the stock runner, and the
// transform and output that the input comes from with agents-flink.
type operators struct{ stock, agents map[string]string }

func flinkOperators(all map[string]*Transform) operators {
	ids := operators{map[string]string{}, map[string]string{}}
	for name, t := range all {
		if t.FlinkOperator != "" {
			ids.stock[t.FlinkOperator] = name
		}
		if id := t.agentsOperator(); id != "" {
			ids.agents[id] = name
		}
	}
	return ids
}

// agentsOperator is what agents-flink makes the operator id of: empty for a transform
// that keeps nothing, or whose id is its own name.
func (t *Transform) agentsOperator() string {
	if t.Kind != parDo || !t.Stateful() || len(t.Inputs) == 0 {
		return ""
	}
	return t.Inputs[0].From
}

// calledByID reports whether a runner on Flink stores something under the id of the
// transform itself.
func (t *Transform) calledByID() bool { return len(t.Timers) > 0 || len(t.SideInputs) > 0 }

// operators adds a finding for each id by which Flink would not find what it has stored.
func (c *checker) operators(o, n *Transform) {
	changed := func(kind, exchanged Kind, old, now string, taken map[string]string) {
		if old == now || old == "" || now == "" {
			return
		}
		if taken[now] != "" {
			kind = exchanged
		}
		c.add(kind, n.Name, "", old, now)
	}
	changed(FlinkOperatorChanged, FlinkOperatorExchanged, o.FlinkOperator, n.FlinkOperator, c.oldOperators.stock)
	changed(AgentsFlinkOperatorChanged, AgentsFlinkOperatorExchanged, o.agentsOperator(), n.agentsOperator(), c.oldOperators.agents)
	if o.calledByID() && n.calledByID() {
		changed(FlinkTransformChanged, "", o.FlinkTransform, n.FlinkTransform, nil)
		changed(AgentsFlinkTransformChanged, "", o.Name, n.Name, nil)
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

// label is the name of a reader. All that keep nothing are one stage.
func label(name string, t *Transform) string {
	if !t.Stateful() {
		return name + " (keeps nothing)"
	}
	return name
}

// shared adds a finding where n kept its operator id on one of the runners but for the
// counter: those that read its input are not the same.
func (c *checker) shared(o, n *Transform) {
	stock := o.FlinkOperator != "" && o.FlinkOperator == n.FlinkOperator
	agents := o.agentsOperator() != "" && o.agentsOperator() == n.agentsOperator()
	if !stock && !agents || len(o.Inputs) == 0 || len(n.Inputs) == 0 {
		return
	}
	var old, now []string
	for _, name := range c.oldReaders[o.Inputs[0].From] {
		old = append(old, label(cmp.Or(c.now[name], name), c.old[name]))
	}
	for _, name := range c.newReaders[n.Inputs[0].From] {
		now = append(now, label(name, c.new[name]))
	}
	slices.Sort(old)
	slices.Sort(now)
	if max(len(old), len(now)) > 1 && !slices.Equal(old, now) {
		c.add(FlinkOperatorShared, n.Name, "", strings.Join(old, ", "), strings.Join(now, ", "))
	}
}
