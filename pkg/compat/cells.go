package compat

import (
	"maps"
	"slices"
	"strings"
)

func (c *checker) state(o, n *Transform) {
	id := func(s State) string { return s.ID }
	renamed := renames(o.State, n.State, id, func(s State) string {
		s.ID = ""
		return marshal(&s)
	})
	news := slices.Collect(maps.Values(renamed))
	pairs(o.State, n.State, id, func(id string, before, after *State) {
		subject := "state " + id
		switch to := renamed[id]; {
		case before == nil && slices.Contains(news, id):
		case before == nil:
			c.add(StateAdded, n.Name, subject, "", after.text())
		case after == nil && to != "":
			c.add(StateRenamed, n.Name, subject, id, to)
		case after == nil:
			c.add(StateRemoved, n.Name, subject, before.text(), "")
		case before.Kind != after.Kind:
			c.add(StateKindChanged, n.Name, subject, before.text(), after.text())
		default:
			c.stored(StateCoderChanged, n.Name, subject+", key", before.Key, after.Key)
			c.stored(StateCoderChanged, n.Name, subject, before.Value, after.Value)
			c.fn(CombineFnChanged, n.Name, subject, before.CombineFn, after.CombineFn)
		}
	})
}

// text returns a short description of a cell, such as value of *beamagentspb.MemoryBlob.
func (s *State) text() string {
	var coders []string
	for _, c := range []*Coder{s.Key, s.Value} {
		if c != nil {
			coders = append(coders, c.String())
		}
	}
	if len(coders) == 0 {
		return s.Kind
	}
	return s.Kind + " of " + strings.Join(coders, " and ")
}
