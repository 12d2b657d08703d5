package upgrade_test

import (
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/compat"
	steps1 "github.com/beamagents/beamagents-go/pkg/compat/graph/upgrade/internal/v1/steps"
	steps2 "github.com/beamagents/beamagents-go/pkg/compat/graph/upgrade/internal/v2/steps"
)

// upgrade is a case of the matrix.
type upgrade struct {
	// about are the kinds of change that the case shows.
	about  []compat.Kind
	v1, v2 func(p plan, s beam.Scope)
	// stock and agents are what happened.
	stock, agents compat.Effect
	// chance says that what happened was milder than what the rules say, which they cannot
	// know: it depends on an order that has none, or on what the author meant.
	chance bool
	// or is what happened with the stock runner at another time, where that is a matter of
	// chance.
	or compat.Effect
	// refusal is what agents-flink says when it refuses version 2 and does not submit it.
	// It is empty where agents-flink submits version 2.
	refusal string
	// quick cases run in make test-flink.
	quick bool

	// What follows has defaults, for jobs with a step called Step that counts and has a
	// timer family.

	// before and after are the commands for each version.
	before, after []string
	// ready says that version 1 has done its work.
	ready func(l *log) bool
	// judge says what has become of the state, or nothing yet.
	judge func(l *log) compat.Effect
	// apart is for cases that share their job with no other.
	apart bool
	// watermark is where the watermark goes before the state is judged, in seconds.
	watermark int64
	// noTimers is for jobs without timers. In others, the timer that version 1 sets is to
	// fire in version 2.
	noTimers bool
	// platforms of the two versions.
	platforms [2]compat.Platform
}

func (c upgrade) platform(version int) compat.Platform { return c.platforms[version] }

// counts judges by the report of a subject: what it begins with if the state was kept, or
// if it was lost.
func counts(subject, kept, lost string) func(l *log) compat.Effect {
	return func(l *log) compat.Effect {
		switch text := l.get(subject); {
		case text == "":
			return ""
		case strings.HasPrefix(text, kept):
			return compat.NoEffect
		case strings.HasPrefix(text, lost):
			return compat.LosesState
		}
		return compat.Misreads
	}
}

// order has the effects from the worst on: of several that a change has, the first one is
// what happens.
var order = []compat.Effect{
	compat.Refuses, compat.FailsForever, compat.LosesState, compat.Misreads, compat.Mixes, compat.LosesTimers, compat.NoEffect,
}

func worst(effects ...compat.Effect) compat.Effect {
	for _, e := range order {
		if slices.Contains(effects, e) {
			return e
		}
	}
	return compat.NoEffect
}

// one is a job of one step with timers.
func one(p plan, s beam.Scope) { p.step(s, p.spec("Step"), p.keyed(s, p.source(s))) }

// oneCells is a job of one step without timers.
func oneCells(p plan, s beam.Scope) { p.cellsStep(s, p.spec("Step"), p.keyed(s, p.source(s))) }

// with is a job of one step with timers, with another spec.
func with(change func(sp *spec)) func(p plan, s beam.Scope) {
	return func(p plan, s beam.Scope) {
		sp := p.spec("Step")
		change(&sp)
		p.step(s, sp, p.keyed(s, p.source(s)))
	}
}

// key is a job of one step with these keys and values.
func key(f keyFn, timers bool) func(p plan, s beam.Scope) {
	return func(p plan, s beam.Scope) {
		in := p.key(s.Scope("Key"), f, p.source(s))
		if timers {
			p.step(s, p.spec("Step"), in)
		} else {
			p.cellsStep(s, p.spec("Step"), in)
		}
	}
}

// two is a job of the steps A and B without timers. Version 1 adds 2 to A and 1 to B.
func two(build func(p plan, s beam.Scope)) upgrade {
	return upgrade{
		v2: build, noTimers: true, before: []string{"b add:A", "b add:A", "b add:B"}, after: []string{"b add"},
		ready: func(l *log) bool { return l.get("A b") == "count:2" && l.get("B b") == "count:1" },
		judge: func(l *log) compat.Effect {
			return both(l, "A b", "count:3", "B b", "count:2")
		},
	}
}

// both judges by the reports of two subjects, which are to be these.
func both(l *log, a, wantA, b, wantB string) compat.Effect {
	switch gotA, gotB := l.get(a), l.get(b); {
	case gotA == "" || gotB == "":
		return ""
	case gotA == wantA && gotB == wantB:
		return compat.NoEffect
	case gotA == "count:1" && gotB == "count:1":
		return compat.LosesState
	}
	return compat.Misreads
}

func (c upgrade) with(change func(c *upgrade)) upgrade {
	change(&c)
	return c
}

// grouped is a job that groups in windows of 100 s. What version 1 has put into the first
// window is grouped in version 2.
func grouped(v1, v2 func(p plan, s beam.Scope)) upgrade {
	return upgrade{
		v1: v1, v2: v2, before: []string{"g one", "g two"}, after: []string{"g three"}, noTimers: true,
		ready: func(l *log) bool { return l.get("seen g two") != "" },
		judge: func(l *log) compat.Effect { return group(l, "G g", "one,three,two", "three") },
		// The watermark passes the end of the window.
		watermark: 200,
	}
}

func group(l *log, subject, kept, lost string) compat.Effect {
	switch l.get(subject) {
	case "":
		return ""
	case kept:
		return compat.NoEffect
	case lost:
		return compat.LosesState
	}
	return compat.Misreads
}

// groups is a job of one GroupByKey in a scope, of values of a type.
func groups(scope, value string) func(p plan, s beam.Scope) {
	return func(p plan, s beam.Scope) {
		in := p.seen(s, p.source(s))
		keyed := p.key(s.Scope("Key"), keyFn{Value: value}, windowed(s, 100, in))
		beam.ParDo(s.Scope("Report"), &groupFn{p.log, "G"}, beam.GroupByKey(s.Scope(scope), keyed))
	}
}

// twoGroups is a job of two GroupByKeys in one scope, the second one of values that are
// marked, in windows of other lengths.
func twoGroups(build func(p plan, s beam.Scope, left, right beam.PCollection)) func(p plan, s beam.Scope) {
	return func(p plan, s beam.Scope) {
		in := p.seen(s, p.source(s))
		build(p, s, p.key(s.Scope("Left"), keyFn{}, in), p.key(s.Scope("Right"), keyFn{Prefix: "r"}, in))
	}
}

// report reports the groups of two GroupByKeys.
func report(p plan, s beam.Scope, left, right beam.PCollection) {
	beam.ParDo(s.Scope("ReportLeft"), &groupFn{p.log, "L"}, left)
	beam.ParDo(s.Scope("ReportRight"), &groupFn{p.log, "R"}, right)
}

// joined is a job of a CoGroupByKey.
func joined(swap bool) func(p plan, s beam.Scope) {
	return twoGroups(func(p plan, s beam.Scope, left, right beam.PCollection) {
		l, r := windowed(s.Scope("LeftWindow"), 100, left), windowed(s.Scope("RightWindow"), 100, right)
		if swap {
			l, r = r, l
		}
		beam.ParDo(s.Scope("Report"), &joinFn{p.log, "J"}, beam.CoGroupByKey(s, l, r))
	})
}

// summed is a job of a CombinePerKey in windows of 100 s.
func summed(fn any) func(p plan, s beam.Scope) {
	return func(p plan, s beam.Scope) {
		in := p.seen(s, p.source(s))
		keyed := p.key(s.Scope("Key"), keyFn{Value: "int64"}, windowed(s, 100, in))
		beam.ParDo(s.Scope("Report"), &sumsFn{p.log, "S"}, beam.CombinePerKey(s.Scope("Sum"), fn, keyed))
	}
}

const loopback = "beam:env:external:v1"

func platforms(v1, v2 compat.Platform) [2]compat.Platform { return [2]compat.Platform{v1, v2} }

// The table. A case for each kind of change, and some for what they hide.
var upgrades = map[string]upgrade{
	"the same graph": {v1: one, v2: one, stock: compat.NoEffect, agents: compat.NoEffect, quick: true},
	"a step added behind a step": {
		about: kinds(compat.TransformAdded), v1: one, stock: compat.NoEffect, agents: compat.NoEffect,
		v2: func(p plan, s beam.Scope) {
			beam.ParDo(s.Scope("Later"), pass, p.step(s, p.spec("Step"), p.keyed(s, p.source(s))))
		},
	},
	"a step added before a step": {
		about: kinds(compat.FlinkOperatorChanged, compat.InputRewired), v1: one, stock: compat.Refuses, agents: compat.NoEffect, quick: true,
		v2: func(p plan, s beam.Scope) {
			p.step(s, p.spec("Step"), p.keyed(s, beam.ParDo(s.Scope("Before"), pass, p.source(s))))
		},
	},
	"an input from elsewhere": {
		about: kinds(compat.InputRewired), stock: compat.NoEffect, agents: compat.NoEffect,
		v1: func(p plan, s beam.Scope) { rewired(p, s, 0) }, v2: func(p plan, s beam.Scope) { rewired(p, s, 1) },
	},
	"a step without outputs added before a step": {
		about: kinds(compat.FlinkTransformChanged), v1: one, stock: compat.FailsForever, agents: compat.NoEffect, quick: true,
		v2: func(p plan, s beam.Scope) {
			in := p.source(s)
			beam.ParDo0(s.Scope("Drop"), swallow, in)
			p.step(s, p.spec("Step"), p.keyed(s, in))
		},
	},
	"two steps constructed in another order": two(func(p plan, s beam.Scope) {
		in := p.source(s)
		b := p.key(s.Scope("KeyB"), keyFn{}, in)
		p.cellsStep(s, p.spec("B"), b)
		a := p.key(s.Scope("KeyA"), keyFn{}, in)
		p.cellsStep(s, p.spec("A"), a)
	}).with(func(c *upgrade) {
		c.about, c.v1, c.stock, c.agents = kinds(compat.FlinkOperatorExchanged), twoSteps, compat.Misreads, compat.NoEffect
	}),
	"two steps with each other's name": two(func(p plan, s beam.Scope) {
		in := p.source(s)
		a := p.key(s.Scope("KeyA"), keyFn{}, in)
		beam.ParDo(s.Scope("B"), newCells(p.spec("A")), a)
		b := p.key(s.Scope("KeyB"), keyFn{}, in)
		beam.ParDo(s.Scope("A"), newCells(p.spec("B")), b)
	}).with(func(c *upgrade) {
		c.about, c.v1, c.stock, c.agents = kinds(compat.TransformExchanged), twoSteps, compat.NoEffect, compat.Misreads
		c.chance = true // the state stays with the input, and the rules go by names
	}),
	"a reader that keeps nothing added to a step's input": {
		about: kinds(compat.FlinkOperatorShared), v1: one, stock: compat.LosesState, or: compat.NoEffect, agents: compat.NoEffect, quick: true,
		v2: func(p plan, s beam.Scope) {
			in := p.keyed(s, p.source(s))
			p.step(s, p.spec("Step"), in)
			beam.ParDo(s.Scope("Reader"), &statelessFn{p.log, "Reader"}, in)
		},
	},
	"a reader that keeps state added to a step's input": {
		about: kinds(compat.FlinkOperatorOrder), v1: one, stock: compat.FailsForever, or: compat.NoEffect, agents: compat.NoEffect,
		v2: func(p plan, s beam.Scope) {
			in := p.keyed(s, p.source(s))
			p.step(s, p.spec("Step"), in)
			p.step(s, p.spec("Second"), in)
		},
	},
	"the step that feeds a step renamed": {
		about: kinds(compat.TransformRenamed), v1: one, stock: compat.NoEffect, agents: compat.NoEffect, quick: true,
		v2: func(p plan, s beam.Scope) {
			p.step(s, p.spec("Step"), p.key(s.Scope("Keyed"), keyFn{}, p.source(s)))
		},
	},
	"a step with timers renamed": {
		about: kinds(compat.AgentsFlinkOperatorChanged, compat.StatefulTransformRenamed), v1: one, stock: compat.NoEffect, agents: compat.Refuses, quick: true,
		v2: func(p plan, s beam.Scope) {
			beam.ParDo(s.Scope("Renamed"), newStep(p.spec("Step")), p.keyed(s, p.source(s)))
		},
	},
	"a step without timers renamed": {
		about: kinds(compat.AgentsFlinkOperatorChanged, compat.StatefulTransformRenamed), v1: oneCells, stock: compat.NoEffect, agents: compat.Refuses, noTimers: true,
		v2: func(p plan, s beam.Scope) {
			beam.ParDo(s.Scope("Renamed"), newCells(p.spec("Step")), p.keyed(s, p.source(s)))
		},
	},
	"a DoFn with cells renamed": {
		about: kinds(compat.FnChanged, compat.StatefulTransformRenamed), v1: oneCells, stock: compat.NoEffect, agents: compat.Refuses, noTimers: true,
		v2: func(p plan, s beam.Scope) {
			beam.ParDo(s.Scope("Step"), newRenamedCells(p.spec("Step")), p.keyed(s, p.source(s)))
		},
	},
	"a DoFn with timers renamed": {
		about: kinds(compat.AgentsFlinkOperatorChanged, compat.FnChanged), v1: one, stock: compat.NoEffect, agents: compat.Refuses,
		v2: func(p plan, s beam.Scope) {
			beam.ParDo(s.Scope("Step"), newRenamedStep(p.spec("Step")), p.keyed(s, p.source(s)))
		},
	},
	"a step with state added": {
		about: kinds(compat.StatefulTransformAdded), v1: one, stock: compat.NoEffect, agents: compat.NoEffect,
		v2: func(p plan, s beam.Scope) {
			in := p.source(s)
			p.step(s, p.spec("Step"), p.keyed(s, in))
			p.step(s, p.spec("Second"), p.key(s.Scope("KeySecond"), keyFn{}, in))
		},
	},
	"a step removed": {
		about: kinds(compat.TransformRemoved), v2: one, stock: compat.NoEffect, agents: compat.NoEffect,
		v1: func(p plan, s beam.Scope) {
			beam.ParDo(s.Scope("Later"), pass, p.step(s, p.spec("Step"), p.keyed(s, p.source(s))))
		},
	},
	"a step with state removed": {
		about: kinds(compat.StatefulTransformRemoved), v2: one, stock: compat.Refuses, agents: compat.Refuses, quick: true,
		v1: func(p plan, s beam.Scope) {
			in := p.source(s)
			p.step(s, p.spec("Step"), p.keyed(s, in))
			p.step(s, p.spec("Second"), p.key(s.Scope("KeySecond"), keyFn{}, in))
		},
	},
	"a step replaced by one that keeps nothing": {
		about: kinds(compat.StatefulTransformRemoved), v1: one, stock: compat.Refuses, agents: compat.Refuses,
		v2: func(p plan, s beam.Scope) {
			beam.ParDo(s.Scope("Step"), &statelessFn{p.log, "Step"}, p.keyed(s, p.source(s)))
		},
	},
	"a step that keeps nothing renamed": {
		about: kinds(compat.TransformRenamed), stock: compat.NoEffect, agents: compat.NoEffect,
		v1: func(p plan, s beam.Scope) {
			beam.ParDo(s.Scope("Later"), pass, p.step(s, p.spec("Step"), p.keyed(s, p.source(s))))
		},
		v2: func(p plan, s beam.Scope) {
			beam.ParDo(s.Scope("Last"), pass, p.step(s, p.spec("Step"), p.keyed(s, p.source(s))))
		},
	},
	"a GroupByKey renamed": grouped(groups("G", ""), groups("H", "")).with(func(c *upgrade) {
		c.about, c.stock, c.agents = kinds(compat.GroupingRenamed), compat.Refuses, compat.Refuses
	}),
	"a GroupByKey of other values": grouped(groups("G", ""), groups("G", "int64")).with(func(c *upgrade) {
		c.about, c.stock, c.agents = kinds(compat.GroupedCoderChanged), compat.FailsForever, compat.FailsForever
	}),
	"a GroupByKey with the number of another": grouped(
		twoGroups(func(p plan, s beam.Scope, left, right beam.PCollection) {
			l, r := windowed(s.Scope("L"), 100, left), windowed(s.Scope("R"), 50, right)
			a := beam.GroupByKey(s, l)
			b := beam.GroupByKey(s, r)
			report(p, s, a, b)
		}),
		twoGroups(func(p plan, s beam.Scope, left, right beam.PCollection) {
			l, r := windowed(s.Scope("L"), 100, left), windowed(s.Scope("R"), 50, right)
			b := beam.GroupByKey(s, r)
			a := beam.GroupByKey(s, l)
			report(p, s, a, b)
		}),
	).with(func(c *upgrade) {
		c.about, c.stock, c.agents = kinds(compat.NumberedTransformMoved), compat.LosesState, compat.LosesState
		c.judge = func(l *log) compat.Effect { return group(l, "L g", "one,three,two", "three") }
	}),
	"two GroupByKeys of one name with each other's input": grouped(
		twoGroups(func(p plan, s beam.Scope, left, right beam.PCollection) {
			l, r := windowed(s.Scope("L"), 100, left), windowed(s.Scope("R"), 100, right)
			a := beam.GroupByKey(s, l)
			b := beam.GroupByKey(s, r)
			report(p, s, a, b)
		}),
		twoGroups(func(p plan, s beam.Scope, left, right beam.PCollection) {
			l, r := windowed(s.Scope("L"), 100, left), windowed(s.Scope("R"), 100, right)
			b := beam.GroupByKey(s, r)
			a := beam.GroupByKey(s, l)
			report(p, s, a, b)
		}),
	).with(func(c *upgrade) {
		c.about, c.stock, c.agents = kinds(compat.NumberedTransformRewired), compat.Misreads, compat.Misreads
		c.judge = func(l *log) compat.Effect { return group(l, "L g", "one,three,two", "three") }
	}),
	"the inputs of a CoGroupByKey exchanged": grouped(joined(false), joined(true)).with(func(c *upgrade) {
		c.apart = true // its parts have numbers in their names
		c.about, c.stock, c.agents = kinds(compat.InputOrderChanged), compat.Mixes, compat.Mixes
		c.judge = func(l *log) compat.Effect {
			switch l.get("J g") {
			case "":
				return ""
			case "rone,rthree,rtwo|one,three,two": // the inputs are exchanged, in all elements
				return compat.NoEffect
			case "one,rthree,two|rone,rtwo,three":
				return compat.Mixes
			case "rthree|three":
				return compat.LosesState
			}
			return compat.Misreads
		}
	}),
	"a combine replaced by a step": {
		about: kinds(compat.StatefulTransformRemoved), stock: compat.Refuses, agents: compat.Refuses, noTimers: true,
		before: []string{"g one", "g two"}, after: []string{"g three"}, apart: true,
		v1: func(p plan, s beam.Scope) {
			keyed := p.key(s.Scope("Key"), keyFn{}, windowed(s, 100, p.seen(s, p.source(s))))
			beam.CombinePerKey(s.Scope("X"), &bothFn{}, keyed)
		},
		v2: func(p plan, s beam.Scope) {
			keyed := p.key(s.Scope("Key"), keyFn{}, windowed(s, 100, p.seen(s, p.source(s))))
			beam.ParDo(s.Scope("X"), &bothFn{}, keyed)
		},
		ready: func(l *log) bool { return l.get("seen g two") != "" },
		judge: counts("seen g three", "seen", "-"),
	},
	"a combining cell with another function": {
		about: kinds(compat.CombineFnChanged), stock: compat.Mixes, agents: compat.Mixes,
		v1:    with(func(sp *spec) { sp.Cells = append(sp.Cells, cell{"c", "sum"}) }),
		v2:    with(func(sp *spec) { sp.Cells = append(sp.Cells, cell{"c", "max"}) }),
		ready: func(l *log) bool { return l.get("Step a") == "count:2 c:2" },
		judge: func(l *log) compat.Effect {
			switch l.get("Step a") {
			case "":
				return ""
			case "count:3 c:2": // the larger one of the old sum and 1
				return compat.Mixes
			case "count:3 c:1":
				return compat.LosesState
			}
			return compat.Misreads
		},
	},
	"a Flatten with one more input": {
		about: kinds(compat.InputAdded), stock: compat.NoEffect, agents: compat.NoEffect,
		v1: func(p plan, s beam.Scope) { flattened(p, s, 2) }, v2: func(p plan, s beam.Scope) { flattened(p, s, 3) },
	},
	"a Flatten with one input less": {
		about: kinds(compat.InputRemoved), stock: compat.NoEffect, agents: compat.NoEffect,
		v1: func(p plan, s beam.Scope) { flattened(p, s, 3) }, v2: func(p plan, s beam.Scope) { flattened(p, s, 2) },
		ready: func(l *log) bool { return l.get("Step a") == "count:2" },
	},
	"keys of another coder": {
		about: kinds(compat.KeyCoderChanged), v1: key(keyFn{}, false), v2: key(keyFn{Key: "int64"}, false), noTimers: true,
		stock: compat.LosesState, agents: compat.LosesState, quick: true,
	},
	"keys of another coder, with timers": {
		about: kinds(compat.TimerCoderChanged), v1: key(keyFn{}, true), v2: key(keyFn{Key: "int64"}, true),
		stock: compat.FailsForever, agents: compat.FailsForever,
	},
	"keys of another coder with the same bytes": {
		about: kinds(compat.SameBytes), v1: key(keyFn{}, true), v2: key(keyFn{Key: "string"}, true),
		stock: compat.NoEffect, agents: compat.NoEffect, quick: true,
	},
	"elements of another type": {
		about: kinds(compat.InputTypeChanged, compat.OutputTypeChanged), v1: key(keyFn{}, true), v2: key(keyFn{Value: "int64"}, true),
		stock: compat.NoEffect, agents: compat.NoEffect,
	},
	"an output added": {
		about: kinds(compat.OutputAdded), stock: compat.NoEffect, agents: compat.NoEffect,
		v1: func(p plan, s beam.Scope) {
			beam.ParDo(s.Scope("Split"), &steps1.Split{}, p.step(s, p.spec("Step"), p.keyed(s, p.source(s))))
		},
		v2: func(p plan, s beam.Scope) {
			beam.ParDo2(s.Scope("Split"), &steps2.Split{}, p.step(s, p.spec("Step"), p.keyed(s, p.source(s))))
		},
	},
	"an output removed": {
		about: kinds(compat.OutputRemoved), stock: compat.NoEffect, agents: compat.NoEffect,
		v1: func(p plan, s beam.Scope) {
			beam.ParDo2(s.Scope("Split"), &steps2.Split{}, p.step(s, p.spec("Step"), p.keyed(s, p.source(s))))
		},
		v2: func(p plan, s beam.Scope) {
			beam.ParDo(s.Scope("Split"), &steps1.Split{}, p.step(s, p.spec("Step"), p.keyed(s, p.source(s))))
		},
	},
	"other windows of a step": {
		about: kinds(compat.WindowingChanged), stock: compat.LosesState, agents: compat.LosesState, noTimers: true,
		v1: func(p plan, s beam.Scope) { p.cellsStep(s, p.spec("Step"), p.keyed(s, windowed(s, 100, p.source(s)))) },
		v2: func(p plan, s beam.Scope) { p.cellsStep(s, p.spec("Step"), p.keyed(s, windowed(s, 1000, p.source(s)))) },
	},
	"a cell added": {
		about: kinds(compat.StateAdded), v1: one, stock: compat.NoEffect, agents: compat.NoEffect, quick: true,
		v2: with(func(sp *spec) { sp.Cells = append(sp.Cells, cell{"notes", "string"}) }),
	},
	"a cell removed": {
		about: kinds(compat.StateRemoved), v2: one, stock: compat.NoEffect, agents: compat.NoEffect,
		v1: with(func(sp *spec) { sp.Cells = append(sp.Cells, cell{"notes", "string"}) }),
	},
	"a cell renamed": {
		about: kinds(compat.StateRenamed), v1: one, stock: compat.LosesState, agents: compat.LosesState, quick: true,
		v2:    with(func(sp *spec) { sp.Cells[0].ID = "total" }),
		judge: counts("Step a", "total:3", "total:1"),
	},
	"a value cell that becomes a bag": {
		about: kinds(compat.StateKindChanged), v1: one, stock: compat.Misreads, agents: compat.Misreads,
		v2:    with(func(sp *spec) { sp.Cells[0].Of = "bag of int64" }),
		judge: counts("Step a", "count:[1,1,1]", "count:[1]"),
	},
	"a bag that becomes a value cell": {
		about: kinds(compat.StateKindChanged), v2: one, stock: compat.Misreads, agents: compat.Misreads,
		v1:    with(func(sp *spec) { sp.Cells[0].Of = "bag of int64" }),
		ready: func(l *log) bool { return l.get("Step a") == "count:[1,1]" },
	},
	"a cell of numbers that becomes one of text": {
		about: kinds(compat.StateCoderChanged), v1: one, stock: compat.LosesState, agents: compat.LosesState,
		v2:    with(func(sp *spec) { sp.Cells[0].Of = "string" }),
		judge: counts("Step a", "count:xxx", "count:x"),
	},
	"a cell of text that becomes one of numbers": {
		about: kinds(compat.StateCoderChanged), v2: one, stock: compat.Misreads, agents: compat.Misreads,
		v1:    with(func(sp *spec) { sp.Cells[0].Of = "string" }),
		ready: func(l *log) bool { return l.get("Step a") == "count:xx" },
		judge: counts("Step a", "never", "count:1"),
	},
	"a cell of bytes that becomes one of text": {
		about: kinds(compat.SameBytes), stock: compat.NoEffect, agents: compat.NoEffect,
		v1:    with(func(sp *spec) { sp.Cells[0].Of = "bytes" }),
		v2:    with(func(sp *spec) { sp.Cells[0].Of = "string" }),
		ready: func(l *log) bool { return l.get("Step a") == "count:xx" },
		judge: counts("Step a", "count:xxx", "count:x"),
	},
	"a second timer family added": {
		about: kinds(compat.SecondTimerFamilyAdded), v1: one, stock: compat.LosesTimers, or: compat.NoEffect, agents: compat.Refuses, apart: true,
		refusal: "has the timer families agent, more",
		v2:      with(func(sp *spec) { sp.Families = append(sp.Families, family{"more", false}) }),
	},
	"a timer family renamed": {
		about: kinds(compat.TimerFamilyRenamed), v1: one, stock: compat.FailsForever, agents: compat.FailsForever, quick: true,
		v2: with(func(sp *spec) { sp.Families = []family{{"clock", false}} }),
	},
	"a timer family of another time domain": {
		about: kinds(compat.TimeDomainChanged), v1: one, stock: compat.NoEffect, agents: compat.NoEffect,
		v2: with(func(sp *spec) { sp.Families = []family{{"agent", true}} }),
	},
	"a combine with another accumulator": grouped(summed(steps1.Sum{}), summed(steps2.Sum{})).with(func(c *upgrade) {
		c.about, c.stock, c.agents = kinds(compat.AccumulatorCoderChanged), compat.NoEffect, compat.NoEffect
		c.chance = true // the other function adds, too
		c.judge = func(l *log) compat.Effect { return group(l, "S g", "11", "5") }
	}),
	"another environment": {
		about: kinds(compat.EnvironmentChanged), v1: one, v2: one, stock: compat.Refuses, agents: compat.Refuses, quick: true,
		platforms: platforms(compat.Platform{Environment: loopback}, compat.Platform{Environment: "beam:env:process:v1"}),
	},
	"another parallelism": {
		about: kinds(compat.ParallelismChanged), v1: one, v2: one, stock: compat.Refuses, agents: compat.NoEffect,
		platforms: platforms(compat.Platform{Parallelism: 1}, compat.Platform{Parallelism: 2}),
	},
	"another maximum parallelism": {
		about: kinds(compat.MaxParallelismChanged), v1: one, v2: one, stock: compat.Refuses, agents: compat.Refuses,
		platforms: platforms(compat.Platform{MaxParallelism: 128}, compat.Platform{MaxParallelism: 64}),
	},
	"another chaining": {
		about: kinds(compat.ChainingChanged), v1: one, v2: one, stock: compat.Refuses, agents: compat.Refuses,
		platforms: platforms(compat.Platform{Chaining: compat.Chaining(true)}, compat.Platform{Chaining: compat.Chaining(false)}),
	},
}

func kinds(all ...compat.Kind) []compat.Kind { return all }

func twoSteps(p plan, s beam.Scope) {
	in := p.source(s)
	a := p.key(s.Scope("KeyA"), keyFn{}, in)
	p.cellsStep(s, p.spec("A"), a)
	b := p.key(s.Scope("KeyB"), keyFn{}, in)
	p.cellsStep(s, p.spec("B"), b)
}

// rewired is a job whose keys come from the first or the second of two equal ways.
func rewired(p plan, s beam.Scope, way int) {
	in := p.source(s)
	ways := []beam.PCollection{beam.ParDo(s.Scope("First"), pass, in), beam.ParDo(s.Scope("Second"), passOther, in)}
	p.step(s, p.spec("Step"), p.keyed(s, ways[way]))
}

// flattened is a job with a Flatten of so many inputs before its step, all but the first
// of them empty.
func flattened(p plan, s beam.Scope, inputs int) {
	in := p.source(s)
	all := []beam.PCollection{
		p.key(s.Scope("K1"), keyFn{}, in), p.none(s.Scope("K2"), in), p.none(s.Scope("K3"), in),
	}
	p.step(s, p.spec("Step"), beam.Flatten(s, all[:inputs]...))
}

// together reports whether a case can share its job with others on a runner: it lets the
// job live, has no platform of its own, and leaves the numbers of the others as they are.
func (c upgrade) together(runner compat.Runner, old, now compat.Fingerprint) bool {
	if c.apart || c.platforms != [2]compat.Platform{} {
		return false
	}
	if e := c.effect(runner); e == compat.Refuses || e == compat.FailsForever {
		return false
	}
	return runner == compat.AgentsFlink || size(old) == size(now)
}

func (c upgrade) effect(runner compat.Runner) compat.Effect {
	if runner == compat.AgentsFlink {
		return c.agents
	}
	return c.stock
}

// size is the number of transforms and outputs, which is how far the SDK counts.
func size(f compat.Fingerprint) [2]int {
	outputs := 0
	for _, t := range f.Transforms {
		outputs += len(t.Outputs)
	}
	return [2]int{len(f.Transforms), outputs}
}

// build is the pipeline of a version of some cases: of one, or of several on one source.
func build(names []string, version int, feed, log string) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	own := plan{feed: feed}
	if len(names) > 1 {
		source := own.source(s)
		own.shared = &source
	}
	for _, name := range names {
		scope := s
		if len(names) > 1 {
			scope = s.Scope(strings.ReplaceAll(name, " ", "_"))
		}
		own.log = logName(log, name, version)
		c := upgrades[name]
		[]func(plan, beam.Scope){c.v1, c.v2}[version](own, scope)
	}
	return p
}

func logName(log, name string, version int) string {
	return log + "/" + name + "/" + string(rune('1'+version))
}
