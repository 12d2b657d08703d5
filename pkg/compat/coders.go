package compat

import (
	"slices"
)

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
