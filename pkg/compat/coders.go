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

// stored is coder, for what a runner keeps in its encoded form: a coder that writes the
// same bytes is a finding of its own.
func (c *checker) stored(k Kind, name, subject string, o, n *Coder) {
	if o != nil && n != nil && sameBytes(*o, *n) {
		k = SameBytes
	}
	c.coder(k, name, subject, o, n)
}

// sameBytes reports whether two coders are known to write the same bytes: they are equal
// but for bytes and strings, which both write their length and their bytes.
func sameBytes(a, b Coder) bool { return marshal(plainText(a)) == marshal(plainText(b)) }

func plainText(c Coder) Coder {
	if c.URN == "beam:coder:string_utf8:v1" {
		c.URN = "beam:coder:bytes:v1"
	}
	c.Components = slices.Clone(c.Components)
	for i := range c.Components {
		c.Components[i] = plainText(c.Components[i])
	}
	return c
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
