package upgrade_test

import (
	"slices"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/compat"
	"github.com/beamagents/beamagents-go/pkg/compat/graph"
	steps1 "github.com/beamagents/beamagents-go/pkg/compat/graph/upgrade/internal/v1/steps"
)

// hazard is a job that the stock runner accepts and then breaks.
type hazard struct {
	build  func(p plan, s beam.Scope)
	effect compat.Effect // with the stock runner
	// refusal is what agents-flink says when it refuses the job and does not submit it. It
	// is empty where agents-flink submits the job.
	refusal string
}

var hazards = map[compat.Kind]hazard{
	compat.MapState: {
		build:   with(func(sp *spec) { sp.Cells = []cell{{"table", "map"}} }),
		effect:  compat.FailsForever,
		refusal: "has the cell table, which is a map",
	},
	compat.ImpulseTimers: {
		build: func(p plan, s beam.Scope) {
			sp := p.spec("Step")
			sp.Families = []family{{"agent", true}}
			p.step(s, sp, p.keyed(s, beam.ParDo(s.Scope("Arm"), &constantFn{"a arm:0"}, beam.Impulse(s))))
			beam.ParDo(s.Scope("Open"), pass, p.source(s)) // keeps the job alive
		},
		effect: compat.LosesTimers,
	},
	compat.SideInput: {
		build: func(p plan, s beam.Scope) {
			side := beam.Create(s.Scope("Side"), "item")
			out := beam.ParDo(s.Scope("Step"), &steps1.Sided{}, p.source(s), beam.SideInput{Input: side})
			beam.ParDo(s.Scope("Report"), &plainFn{p.log, "sided"}, out)
		},
		effect:  compat.FailsForever,
		refusal: "has a side input",
	},
	compat.StatefulSideInput: {
		build: func(p plan, s beam.Scope) {
			side := beam.Create(s.Scope("Side"), "item")
			out := beam.ParDo(s.Scope("Step"), &sidedStateFn{Count: count.made().(countState)}, p.keyed(s, p.source(s)), beam.SideInput{Input: side})
			beam.GroupByKey(s.Scope("Behind"), p.keyed(s.Scope("Behind"), out)) // a consumer in another stage
		},
		effect:  compat.NeverCheckpoints,
		refusal: "has a side input",
	},
}

// Lint finds each hazard, and its rules say what happened.
func TestHazardsAreFound(t *testing.T) {
	for kind, h := range hazards {
		p, s := beam.NewPipelineWithRoot()
		h.build(plan{}, s)
		f, err := graph.Fingerprint(p)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(compat.Lint(f), func(f compat.Finding) bool { return f.Kind == kind })
		if i < 0 {
			t.Errorf("%s is not found", kind)
			continue
		}
		if c := compat.Lint(f)[i].On(compat.Flink); c.Effect != h.effect || c.Evidence != compat.Run {
			t.Errorf("%s: %s, and the rule says %s", kind, h.effect, c.Text())
		}
		if c := compat.Lint(f)[i].On(compat.AgentsFlink); (c.Effect == compat.Refuses) != (h.refusal != "") {
			t.Errorf("%s: agents-flink says %q, and the rule says %s", kind, h.refusal, c.Text())
		}
	}
	for _, kind := range compat.LintKinds() {
		rule, _ := compat.RuleOf(kind)
		_, ok := hazards[kind]
		// The cases of the matrix show the others: a second timer family, a reader added.
		shown := ok || kind == compat.TimerFamilies || kind == compat.SharedInput
		if run := rule.Flink.Evidence == compat.Run; run != shown {
			t.Errorf("%s: the evidence is %s, and it was run: %t", kind, rule.Flink.Evidence, shown)
		}
	}
}
