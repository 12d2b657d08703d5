package compat

import (
	"slices"
)

// coder adds a finding of kind k if the coders differ.
func (c *checker) coder(k Kind, name, subject string, o, n *Coder) {
	if old, now := texts(o, n); old != now {
		c.add(k, name, subject, old, now)
	}
}

// stored compares coders of data that a runner stores. If they differ but write the same bytes,
// it adds SameBytes instead of k.
func (c *checker) stored(k Kind, name, subject string, o, n *Coder) {
	if o != nil && n != nil && sameBytes(*o, *n) {
		k = SameBytes
	}
	c.coder(k, name, subject, o, n)
}

// sameBytes reports whether two coders are known to write the same bytes: they are equal except
// for bytes and strings, which are both encoded as length and bytes.
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

// texts returns two coders as text, in short form if that shows the difference.
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

// types returns a coder without the functions in it, so that only its types are compared.
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
