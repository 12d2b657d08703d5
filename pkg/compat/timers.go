package compat

import (
	"maps"
	"slices"
)

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
			kind := TimerFamilyAdded
			if len(n.Timers) > 1 {
				kind = SecondTimerFamilyAdded
			}
			c.add(kind, n.Name, subject, "", after.TimeDomain)
		case after == nil && to != "":
			c.add(TimerFamilyRenamed, n.Name, subject, family, to)
		case after == nil:
			c.add(TimerFamilyRemoved, n.Name, subject, before.TimeDomain, "")
		default:
			if before.TimeDomain != after.TimeDomain {
				c.add(TimeDomainChanged, n.Name, subject, before.TimeDomain, after.TimeDomain)
			}
			c.stored(TimerCoderChanged, n.Name, subject, &before.Coder, &after.Coder)
		}
	})
}
