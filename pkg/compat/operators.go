package compat

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

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

// shared adds a finding where n kept its number but not those that have it, too.
func (c *checker) shared(o, n *Transform) {
	if o.FlinkOperator == "" || o.FlinkOperator != n.FlinkOperator || len(o.Inputs) == 0 || len(n.Inputs) == 0 {
		return
	}
	label := func(name string, t *Transform) string {
		if t.FlinkOperator == "" {
			return name + " (keeps nothing)" // all such are one stage
		}
		return name
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
