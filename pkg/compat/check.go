package compat

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Check returns the differences of two fingerprints, old being that of the job that runs,
// in order of transform, kind and subject. Equal ones have none.
func Check(old, now Fingerprint) []Finding {
	c := checker{old: index(old), new: index(now), now: map[string]string{}, shapes: map[shapeOf]string{}, left: map[place]bool{}}
	c.oldGroups, c.newGroups = groups(c.old), groups(c.new)
	c.oldReaders, c.newReaders = readers(c.old), readers(c.new)
	c.lead = leading(c.new)
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
				c.add(ifStateful(o, TransformRenamed, StatefulTransformRenamed), n.Name, "", name, n.Name)
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

func index(f Fingerprint) map[string]*Transform {
	all := make(map[string]*Transform, len(f.Transforms))
	for i := range f.Transforms {
		all[f.Transforms[i].Name] = &f.Transforms[i]
	}
	return all
}

type checker struct {
	old, new map[string]*Transform
	// by name without numbers
	oldGroups, newGroups map[string][]string
	now                  map[string]string // the new names of those that have another one
	shapes               map[shapeOf]string
	// the ParDos that read a PCollection, by where it comes from
	oldReaders, newReaders map[string][]string
	// lead are the transforms of the new pipeline that keep state, or that such ones read
	// from.
	lead map[string]bool
	// left is what inputs no longer come from.
	left  map[place]bool
	found []Finding
}

// shapeOf is the arguments of shape.
type shapeOf struct {
	t             *Transform
	sources, code bool
}

func (c *checker) add(k Kind, transform, subject, old, now string) {
	rule, _ := RuleOf(k)
	c.found = append(c.found, Finding{
		Kind: k, Transform: transform, Subject: subject, Old: old, New: now, Severity: rule.Severity(), Rule: rule,
	})
}

// shape is everything of a transform but for its name, as text. Without sources it
// leaves out where the inputs come from, without code the name of the code.
func (c *checker) shape(t *Transform, sources, code bool) string {
	key := shapeOf{t, sources, code}
	if text, ok := c.shapes[key]; ok {
		return text
	}
	s := *t
	s.Name, s.FlinkOperator = part(t.Name), ""
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

// unnumbered is a name without the numbers of names that are there several times.
func unnumbered(name string) string { return number.ReplaceAllString(name, "$1") }

// part is which part a transform is of one that the SDK expands to several, such as
// inject1 for e7_inject1; empty for all others.
func part(name string) string {
	base := path.Base(name)
	if !edge.MatchString(base) {
		return ""
	}
	return edge.ReplaceAllString(base, "")
}

// groups are the names of a pipeline by what they are without numbers, in order.
func groups(all map[string]*Transform) map[string][]string {
	byBase := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		byBase[unnumbered(name)] = append(byBase[unnumbered(name)], name)
	}
	return byBase
}

// numbered reports whether name is one of several equal ones in the old or new pipeline.
func (c *checker) numbered(name string) bool {
	base := unnumbered(name)
	return len(c.oldGroups[base]) > 1 || len(c.newGroups[base]) > 1
}

// moved finds the transforms of the old pipeline that are in the new one under the
// number of another one, and notes the names that they have there.
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
		free := map[string][]string{} // new names by shape
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

// rename pairs transforms that are gone with new ones that are the same in all but the
// name, then in all but the name and the inputs' sources, then, within one scope, in all
// but the name of the code, and at last those that alone have that code.
func (c *checker) rename() {
	taken := map[string]bool{}
	for _, name := range c.now { // those that moved
		taken[name] = true
	}
	// pair takes those together that have one key, in order of name; "" is no key.
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

func (c *checker) transform(o, n *Transform) {
	name := n.Name
	if o.Kind != n.Kind {
		c.add(TransformKindChanged, name, "", o.Kind, n.Kind)
		return // what is inside is not to be compared
	}
	if o.FlinkOperator != n.FlinkOperator && o.FlinkOperator != "" && n.FlinkOperator != "" {
		c.add(FlinkOperatorChanged, name, "", o.FlinkOperator, n.FlinkOperator)
	}
	c.shared(o, n)
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
	c.coder(AccumulatorCoderChanged, name, "accumulator", o.Accumulator, n.Accumulator)
	c.coder(RestrictionCoderChanged, name, "restriction", o.Restriction, n.Restriction)
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

// fn adds a finding of that kind if the code has another name.
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

// coder adds a finding of that kind if the coders differ.
func (c *checker) coder(k Kind, name, subject string, o, n *Coder) {
	if old, now := texts(o, n); old != now {
		c.add(k, name, subject, old, now)
	}
}

// texts are two coders as text, short where that shows the difference.
func texts(o, n *Coder) (old, now string) {
	text := func(c *Coder, long bool) string {
		switch {
		case c == nil:
			return ""
		case long:
			return c.long()
		}
		return c.String()
	}
	if old, now = text(o, false), text(n, false); old == now {
		old, now = text(o, true), text(n, true)
	}
	return old, now
}

// types is a coder without the functions of what is in it: what changes with the type.
func types(c Coder) Coder {
	c.Components = slices.Clone(c.Components)
	for i := range c.Components {
		c.Components[i] = types(c.Components[i])
	}
	if c.Custom != nil {
		c.Custom = &CustomCoder{Name: c.Custom.Name, Type: c.Custom.Type}
	}
	return c
}

// pairs calls visit with what is in old and in new by that name, nil for nothing.
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

func tag(c Collection) string { return c.Tag }

// source is where an input came from, by the names of the new pipeline.
func (c *checker) source(from string) string {
	transform, tag := producer(from)
	return cmp.Or(c.now[transform], transform) + tag
}

// place is where an input of a group comes from. A group is inputs that can have changed
// places: of one transform, or of those that read the outputs of one.
type place struct{ group, from string }

const (
	parDo         = "beam:transform:pardo:v1"
	combinePerKey = "beam:transform:combine_per_key:v1"
	flatten       = "beam:transform:flatten:v1" // to which the order of inputs means nothing
	inject        = "beam:go:transform:inject:v1"
)

// groupsOf are those of an input, or side input, of n that came from old and comes from
// now.
func groupsOf(n *Transform, old, now string) []string {
	var groups []string
	switch {
	case n.Fn != nil && n.Fn.Name == inject:
		step, _, _ := strings.Cut(path.Base(n.Name), "_") // e7_inject0 is the first input of e7
		groups = append(groups, "inputs of "+path.Join(path.Dir(n.Name), step))
	case n.Kind != flatten:
		groups = append(groups, "inputs of "+n.Name)
	}
	if producer, _ := producer(old); now != "" && strings.HasPrefix(now, producer+"[") && n.Kind != flatten {
		groups = append(groups, "outputs of "+producer)
	}
	return groups
}

// producer is the transform and the tag, in brackets, of an input's source.
func producer(from string) (transform, tag string) {
	at := max(strings.LastIndexByte(from, '['), 0)
	return from[:at], from[at:]
}

// alike is the group of the transforms that n could exchange its name with.
func (c *checker) alike(n *Transform) string { return "inputs of " + c.shape(n, false, true) }

// leading are the transforms that keep state, and all that they get their inputs from.
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

// leave notes all that inputs came from and do not any longer.
func (c *checker) leave() {
	for name, o := range c.old {
		n := c.new[cmp.Or(c.now[name], name)]
		if n == nil {
			continue
		}
		note := func(side bool) func(tag string, before, after *Collection) {
			return func(_ string, before, after *Collection) {
				if before == nil {
					return
				}
				old, now := c.source(before.From), ""
				if after != nil {
					now = after.From
				}
				if old != now {
					for _, group := range groupsOf(n, old, now) {
						c.left[place{group, old}] = true
					}
					if !side {
						c.left[place{c.alike(n), old}] = true
					}
				}
			}
		}
		pairs(o.Inputs, n.Inputs, tag, note(false))
		pairs(o.SideInputs, n.SideInputs, tag, note(true))
	}
}

// exchanged reports whether an input now comes from where another one came from.
func (c *checker) exchanged(n *Transform, old, now string) bool {
	return slices.ContainsFunc(groupsOf(n, old, now), func(group string) bool { return c.left[place{group, now}] })
}

func (c *checker) inputs(o, n *Transform) {
	pairs(o.Inputs, n.Inputs, tag, func(tag string, before, after *Collection) {
		subject := "input " + tag
		switch {
		case before == nil:
			c.add(InputAdded, n.Name, subject, "", after.Coder.String())
			return
		case after == nil:
			c.add(InputRemoved, n.Name, subject, before.Coder.String(), "")
			return
		}
		if old := c.source(before.From); old != after.From {
			kind := InputRewired
			switch {
			case c.numbered(n.Name) && (o.Stateful() || n.Stateful()):
				kind = NumberedTransformRewired
			case c.exchanged(n, old, after.From):
				kind = InputOrderChanged
			case c.lead[n.Name] && c.left[place{c.alike(n), after.From}]:
				kind = TransformExchanged
			}
			c.add(kind, n.Name, subject, before.From, after.From)
		}
		key, keyNow := keyOf(&before.Coder), keyOf(&after.Coder)
		if (o.Stateful() || n.Stateful()) && key != nil && keyNow != nil {
			c.coder(KeyCoderChanged, n.Name, subject, key, keyNow)
		}
		c.collection(InputCoderChanged, InputTypeChanged, n.Name, subject, before, after)
		if before.Windowing != after.Windowing {
			c.add(WindowingChanged, n.Name, subject, before.Windowing, after.Windowing)
		}
	})
}

// keyOf is the coder of the key of a KV.
func keyOf(c *Coder) *Coder {
	if c.URN != "beam:coder:kv:v1" || len(c.Components) == 0 {
		return nil
	}
	return &c.Components[0]
}

func (c *checker) collection(coder, typ Kind, name, subject string, before, after *Collection) {
	kind := coder
	if marshal(types(before.Coder)) != marshal(types(after.Coder)) {
		kind = typ
	}
	c.coder(kind, name, subject, &before.Coder, &after.Coder)
}

func (c *checker) outputs(o, n *Transform) {
	pairs(o.Outputs, n.Outputs, tag, func(tag string, before, after *Collection) {
		subject := "output " + tag
		switch {
		case before == nil:
			c.add(OutputAdded, n.Name, subject, "", after.Coder.String())
			return
		case after == nil:
			c.add(OutputRemoved, n.Name, subject, before.Coder.String(), "")
			return
		}
		c.collection(OutputCoderChanged, OutputTypeChanged, n.Name, subject, before, after)
		if before.Windowing != after.Windowing {
			c.add(WindowingChanged, n.Name, subject, before.Windowing, after.Windowing)
		}
	})
}

func (c *checker) sideInputs(o, n *Transform) {
	pairs(o.SideInputs, n.SideInputs, tag, func(tag string, before, after *Collection) {
		subject := "side input " + tag
		switch {
		case before == nil:
			c.add(SideInputAdded, n.Name, subject, "", after.Coder.String())
			return
		case after == nil:
			c.add(SideInputRemoved, n.Name, subject, before.Coder.String(), "")
			return
		}
		if old := c.source(before.From); old != after.From {
			kind := SideInputRewired
			if c.exchanged(n, old, after.From) {
				kind = InputOrderChanged
			}
			c.add(kind, n.Name, subject, before.From, after.From)
		}
		c.coder(SideInputChanged, n.Name, subject, &before.Coder, &after.Coder)
		for _, text := range [][2]string{{before.Access, after.Access}, {before.Windowing, after.Windowing}} {
			if text[0] != text[1] {
				c.add(SideInputChanged, n.Name, subject, text[0], text[1])
			}
		}
	})
}

// renames pairs what is gone with what is new and the same in all but the name.
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
			c.coder(StateCoderChanged, n.Name, subject+", key", before.Key, after.Key)
			c.coder(StateCoderChanged, n.Name, subject, before.Value, after.Value)
			c.fn(CombineFnChanged, n.Name, subject, before.CombineFn, after.CombineFn)
		}
	})
}

// text is a cell in short: value of *beamagentspb.MemoryBlob.
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

func (c *checker) timers(o, n *Transform) {
	family := func(t Timer) string { return t.Family }
	renamed := renames(o.Timers, n.Timers, family, func(t Timer) string {
		t.Family = ""
		return marshal(&t)
	})
	news := slices.Collect(maps.Values(renamed))
	pairs(o.Timers, n.Timers, family, func(family string, before, after *Timer) {
		subject := "timer family " + family
		switch to := renamed[family]; {
		case before == nil && slices.Contains(news, family):
		case before == nil:
			c.add(TimerFamilyAdded, n.Name, subject, "", after.TimeDomain)
		case after == nil && to != "":
			c.add(TimerFamilyRenamed, n.Name, subject, family, to)
		case after == nil:
			c.add(TimerFamilyRemoved, n.Name, subject, before.TimeDomain, "")
		default:
			if before.TimeDomain != after.TimeDomain {
				c.add(TimeDomainChanged, n.Name, subject, before.TimeDomain, after.TimeDomain)
			}
			c.coder(TimerCoderChanged, n.Name, subject, &before.Coder, &after.Coder)
		}
	})
}
