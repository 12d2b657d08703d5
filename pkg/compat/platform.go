package compat

import "strconv"

// The values of Platform.Chaining.
const (
	on  = "on"
	off = "off"
)

// Chaining returns the value of Platform.Chaining.
func Chaining(chained bool) string {
	if chained {
		return on
	}
	return off
}

// platform compares the platforms of two fingerprints.
func (c *checker) platform(old, now *Platform) {
	if old == nil || now == nil {
		return
	}
	text := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	for _, part := range []struct {
		kind     Kind
		old, new string
	}{
		{EnvironmentChanged, old.Environment, now.Environment},
		{ParallelismChanged, text(old.Parallelism), text(now.Parallelism)},
		{MaxParallelismChanged, text(old.MaxParallelism), text(now.MaxParallelism)},
		{ChainingChanged, old.Chaining, now.Chaining},
	} {
		if part.old != part.new && part.old != "" && part.new != "" {
			c.add(part.kind, "", "", part.old, part.new)
		}
	}
}
