package compat

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
)

// shapeOf are the arguments of a call of shape, which caches its results.
type shapeOf struct {
	t             *Transform
	sources, code bool
}

// shape returns everything of a transform but its name, as text. Without sources it leaves out
// the sources of the inputs, and without code the name of the code.
func (c *checker) shape(t *Transform, sources, code bool) string {
	key := shapeOf{t, sources, code}
	if text, ok := c.shapes[key]; ok {
		return text
	}
	s := *t
	s.Name, s.FlinkOperator, s.FlinkTransform = part(t.Name), "", ""
	if !code {
		s.Fn = nil
	}
	if !sources {
		strip := func(all []Collection) []Collection {
			all = slices.Clone(all)
			for i := range all {
				all[i].From = ""
			}
			return all
		}
		s.Inputs, s.SideInputs = strip(s.Inputs), strip(s.SideInputs)
	}
	c.shapes[key] = marshal(&s)
	return c.shapes[key]
}

var (
	number = regexp.MustCompile(`'[0-9]+(/|$)`)
	edge   = regexp.MustCompile(`^e[0-9]+_`)
)

// unnumbered removes the numbers of repeated names from a name.
func unnumbered(name string) string { return number.ReplaceAllString(name, "$1") }

// part returns which part of an expanded transform a transform is, such as inject1 for
// e7_inject1. It returns "" for a transform that the SDK does not expand.
func part(name string) string {
	base := path.Base(name)
	if !edge.MatchString(base) {
		return ""
	}
	return edge.ReplaceAllString(base, "")
}

// groups returns the names of a pipeline, in order, by their form without numbers.
func groups(all map[string]*Transform) map[string][]string {
	byBase := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		byBase[unnumbered(name)] = append(byBase[unnumbered(name)], name)
	}
	return byBase
}

// numbered reports whether name is one of several equal names in the old or the new pipeline.
func (c *checker) numbered(name string) bool {
	base := unnumbered(name)
	return len(c.oldGroups[base]) > 1 || len(c.newGroups[base]) > 1
}

// moved finds transforms of the old pipeline that have the number of another one in the new
// pipeline. It records their new names.
func (c *checker) moved() map[string]bool {
	moved := map[string]bool{}
	for base, names := range c.oldGroups {
		now := c.newGroups[base]
		if len(names) < 2 && len(now) < 2 {
			continue
		}
		stays := func(name string) bool {
			return c.old[name] != nil && c.new[name] != nil && c.shape(c.old[name], false, true) == c.shape(c.new[name], false, true)
		}
		free := map[string][]string{} // unused new names, by shape
		for _, name := range now {
			if !stays(name) {
				shape := c.shape(c.new[name], false, true)
				free[shape] = append(free[shape], name)
			}
		}
		for _, name := range names {
			if stays(name) || c.new[name] == nil {
				continue
			}
			shape := c.shape(c.old[name], false, true)
			if to := free[shape]; len(to) > 0 {
				moved[name], c.now[name], free[shape] = true, to[0], to[1:]
			}
		}
	}
	return moved
}

// rename pairs removed transforms with new ones. It first pairs those that are equal except for
// the name, then those that also differ in the sources of their inputs, then, within one scope,
// those that also differ in the name of the code, and finally those that are the only ones with
// their code.
func (c *checker) rename() {
	taken := map[string]bool{}
	for _, name := range c.now { // the transforms that moved
		taken[name] = true
	}
	// pair pairs transforms with equal keys, in the order of their names. The key "" is ignored.
	pair := func(key func(t *Transform) string, alone bool) {
		unpaired := func(all, other map[string]*Transform, paired func(name string) bool) map[string][]string {
			byKey := map[string][]string{}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				if other[name] == nil && !paired(name) {
					if k := key(all[name]); k != "" {
						byKey[k] = append(byKey[k], name)
					}
				}
			}
			return byKey
		}
		gone := unpaired(c.old, c.new, func(name string) bool { return c.now[name] != "" })
		added := unpaired(c.new, c.old, func(name string) bool { return taken[name] })
		for k, from := range gone {
			to := added[k]
			if alone && (len(from) > 1 || len(to) > 1) {
				continue
			}
			for i := range min(len(from), len(to)) {
				c.now[from[i]], taken[to[i]] = to[i], true
			}
		}
	}
	pair(func(t *Transform) string { return c.shape(t, true, true) }, false)
	pair(func(t *Transform) string {
		if t.Fn == nil {
			return cmp.Or(part(t.Name), path.Base(t.Name)) + " " + c.shape(t, false, true)
		}
		return c.shape(t, false, true)
	}, false)
	pair(func(t *Transform) string {
		if t.Fn == nil {
			return ""
		}
		return path.Dir(t.Name) + " " + c.shape(t, true, false)
	}, false)
	pair(func(t *Transform) string {
		if t.Fn == nil {
			return ""
		}
		return t.Kind + " " + t.Fn.Name
	}, true)
}

const (
	parDo         = "beam:transform:pardo:v1"
	groupByKey    = "beam:transform:group_by_key:v1"
	combinePerKey = "beam:transform:combine_per_key:v1"
	flatten       = "beam:transform:flatten:v1" // the order of its inputs does not matter
	inject        = "beam:go:transform:inject:v1"
)

// alike returns the group of transforms with which n could have swapped its name.
func (c *checker) alike(n *Transform) string { return "inputs of " + c.shape(n, false, true) }

// leading returns the transforms that keep state, and all transforms that lead to their inputs.
func leading(all map[string]*Transform) map[string]bool {
	lead := map[string]bool{}
	var mark func(name string)
	mark = func(name string) {
		if all[name] == nil || lead[name] {
			return
		}
		lead[name] = true
		for _, in := range all[name].Inputs {
			from, _ := producer(in.From)
			mark(from)
		}
	}
	for name, t := range all {
		if t.Stateful() {
			mark(name)
		}
	}
	return lead
}

// fn adds a finding of the given kind if the code has another name.
func (c *checker) fn(changed Kind, name, subject string, o, n *Fn) {
	var before, after Fn
	if o != nil {
		before = *o
	}
	if n != nil {
		after = *n
	}
	switch {
	case before.Name != after.Name:
		c.add(changed, name, subject, before.Name, after.Name)
	case before.Signature != after.Signature:
		c.add(FnSignatureChanged, name, subject, before.Signature, after.Signature)
	}
}
