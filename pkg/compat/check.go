package compat

import (
	"cmp"
	"maps"
	"slices"
)

// Check returns the differences between old, the fingerprint of the running job, and now, ordered
// by transform, kind and subject. Equal fingerprints have no differences.
func Check(old, now Fingerprint) []Finding {
	c := checker{old: index(old), new: index(now), now: map[string]string{}, shapes: map[shapeOf]string{}, left: map[place]bool{}}
	c.oldGroups, c.newGroups = groups(c.old), groups(c.new)
	c.oldReaders, c.newReaders = readers(c.old), readers(c.new)
	c.lead = leading(c.new)
	c.oldOperators = flinkOperators(c.old)
	c.platform(old.Platform, now.Platform)
	moved := c.moved()
	c.rename()
	c.leave()
	for _, name := range slices.Sorted(maps.Keys(c.old)) {
		o := c.old[name]
		n := c.new[cmp.Or(c.now[name], name)]
		switch {
		case moved[name]:
			c.add(NumberedTransformMoved, n.Name, "", name, n.Name)
		case n == nil:
			c.add(ifStateful(o, TransformRemoved, StatefulTransformRemoved), name, "", name, "")
		default:
			if n.Name != name {
				c.add(renamed(o), n.Name, "", name, n.Name)
			}
			c.transform(o, n)
		}
	}
	isNew := maps.Clone(c.new)
	maps.DeleteFunc(isNew, func(name string, _ *Transform) bool { return c.old[name] != nil })
	for _, name := range c.now {
		delete(isNew, name)
	}
	for name, n := range isNew {
		c.add(ifStateful(n, TransformAdded, StatefulTransformAdded), name, "", "", name)
	}
	rank := map[Kind]int{}
	for i, kind := range Kinds() {
		rank[kind] = i
	}
	slices.SortFunc(c.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Transform, b.Transform), cmp.Compare(rank[a.Kind], rank[b.Kind]),
			cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Old, b.Old), cmp.Compare(a.New, b.New))
	})
	return c.found
}

func ifStateful(t *Transform, no, yes Kind) Kind {
	if t.Stateful() {
		return yes
	}
	return no
}

func renamed(t *Transform) Kind {
	if t.groups() {
		return GroupingRenamed
	}
	return ifStateful(t, TransformRenamed, StatefulTransformRenamed)
}

func index(f Fingerprint) map[string]*Transform {
	all := make(map[string]*Transform, len(f.Transforms))
	for i := range f.Transforms {
		all[f.Transforms[i].Name] = &f.Transforms[i]
	}
	return all
}

type checker struct {
	old, new map[string]*Transform
	// names by their form without numbers
	oldGroups, newGroups map[string][]string
	now                  map[string]string // the new names of renamed transforms, by old name
	shapes               map[shapeOf]string
	// the ParDos that read a PCollection, by the source of the PCollection
	oldReaders, newReaders map[string][]string
	// oldOperators are the numbers from which the old pipeline's operator ids are made.
	oldOperators map[string]bool
	// lead are the transforms of the new pipeline that keep state or lead to one that does.
	lead map[string]bool
	// left are the sources that inputs no longer have.
	left  map[place]bool
	found []Finding
}

func (c *checker) add(k Kind, transform, subject, old, now string) {
	rule, _ := RuleOf(k)
	c.found = append(c.found, Finding{
		Kind: k, Transform: transform, Subject: subject, Old: old, New: now, Severity: rule.Severity(), Rule: rule,
	})
}

func (c *checker) transform(o, n *Transform) {
	name := n.Name
	if o.Kind != n.Kind {
		c.add(TransformKindChanged, name, "", o.Kind, n.Kind)
		return // the parts of different kinds cannot be compared
	}
	c.operators(o, n)
	changed := FnChanged
	if n.Kind == combinePerKey {
		changed = CombineFnChanged
	}
	c.fn(changed, name, "", o.Fn, n.Fn)
	c.inputs(o, n)
	c.outputs(o, n)
	c.sideInputs(o, n)
	c.state(o, n)
	c.timers(o, n)
	c.stored(AccumulatorCoderChanged, name, "accumulator", o.Accumulator, n.Accumulator)
	c.stored(RestrictionCoderChanged, name, "restriction", o.Restriction, n.Restriction)
}

// pairs calls visit with the parts of old and new of each name. A missing part is nil.
func pairs[T any](old, now []T, name func(T) string, visit func(name string, o, n *T)) {
	find := func(all []T, want string) *T {
		if i := slices.IndexFunc(all, func(t T) bool { return name(t) == want }); i >= 0 {
			return &all[i]
		}
		return nil
	}
	for i := range old {
		visit(name(old[i]), &old[i], find(now, name(old[i])))
	}
	for i := range now {
		if find(old, name(now[i])) == nil {
			visit(name(now[i]), nil, &now[i])
		}
	}
}

// renames pairs removed parts with new ones that are equal except for the name.
func renames[T any](old, now []T, name, rest func(T) string) map[string]string {
	var gone, added []T
	pairs(old, now, name, func(_ string, o, n *T) {
		switch {
		case o == nil:
			added = append(added, *n)
		case n == nil:
			gone = append(gone, *o)
		}
	})
	renamed := map[string]string{}
	for _, g := range gone {
		if i := slices.IndexFunc(added, func(a T) bool { return rest(a) == rest(g) }); i >= 0 {
			renamed[name(g)] = name(added[i])
			added = slices.Delete(added, i, i+1)
		}
	}
	return renamed
}
