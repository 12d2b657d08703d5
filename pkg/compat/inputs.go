package compat

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

func tag(c Collection) string { return c.Tag }

// source returns the source of an input, in the names of the new pipeline.
func (c *checker) source(from string) string {
	transform, tag := producer(from)
	return cmp.Or(c.now[transform], transform) + tag
}

// place is the source of an input within a group. A group is a set of inputs that can have
// swapped places: the inputs of one transform, or the inputs that read the outputs of one
// transform.
type place struct{ group, from string }

// groupsOf returns the groups of an input or side input of n whose source was old and is now.
func groupsOf(n *Transform, old, now string) []string {
	var groups []string
	switch {
	case n.Fn != nil && n.Fn.Name == inject:
		step, _, _ := strings.Cut(path.Base(n.Name), "_") // e7_inject0 is the first input of the transform e7
		groups = append(groups, "inputs of "+path.Join(path.Dir(n.Name), step))
	case n.Kind != flatten:
		groups = append(groups, "inputs of "+n.Name)
	}
	if producer, _ := producer(old); now != "" && strings.HasPrefix(now, producer+"[") && n.Kind != flatten {
		groups = append(groups, "outputs of "+producer)
	}
	return groups
}

// producer splits the source of an input into the transform and the tag in brackets.
func producer(from string) (transform, tag string) {
	at := max(strings.LastIndexByte(from, '['), 0)
	return from[:at], from[at:]
}

// leave records the sources that inputs no longer have.
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

// exchanged reports whether the source of an input is now a former source of another input.
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
			c.stored(KeyCoderChanged, n.Name, subject+", key", key, keyNow)
		}
		if o.groups() && n.groups() && key != nil && keyNow != nil {
			c.stored(GroupedCoderChanged, n.Name, subject+", value", &before.Coder.Components[1], &after.Coder.Components[1])
		}
		c.collection(InputCoderChanged, InputTypeChanged, n.Name, subject, before, after)
		if before.Windowing != after.Windowing {
			c.add(WindowingChanged, n.Name, subject, before.Windowing, after.Windowing)
		}
	})
}

// keyOf returns the coder of the key of a KV.
func keyOf(c *Coder) *Coder {
	if c.URN != "beam:coder:kv:v1" || len(c.Components) != 2 {
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
