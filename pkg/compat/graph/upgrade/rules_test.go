package upgrade_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/compat"
	"github.com/beamagents/beamagents-go/pkg/compat/graph"
)

func fingerprint(t *testing.T, c upgrade, version int) compat.Fingerprint {
	t.Helper()
	p, s := beam.NewPipelineWithRoot()
	[]func(plan, beam.Scope){c.v1, c.v2}[version](plan{}, s)
	f, err := graph.Fingerprint(p)
	if err != nil {
		t.Fatal(err)
	}
	if platform := c.platform(version); platform != (compat.Platform{}) {
		f.Platform = &platform
	}
	return f
}

// covers reports whether an effect that was observed is what the rules predict. Bytes that
// are misread may also read as nothing, or fail the job.
func (c upgrade) covers(predicted, observed compat.Effect) bool {
	switch {
	case predicted == observed:
		return true
	case predicted == compat.Misreads:
		return observed == compat.LosesState || observed == compat.FailsForever
	}
	return c.chance && slices.Index(order, predicted) < slices.Index(order, observed)
}

// What package compat says of each case is what happened.
func TestRulesAreThoseOfTheMatrix(t *testing.T) {
	for name, c := range upgrades {
		t.Run(name, func(t *testing.T) {
			findings := compat.Check(fingerprint(t, c, 0), fingerprint(t, c, 1))
			for runner, observed := range map[compat.Runner]compat.Effect{compat.Flink: c.stock, compat.AgentsFlink: c.agents} {
				var effects []compat.Effect
				for _, f := range findings {
					effects = append(effects, f.On(runner).Effect)
				}
				if predicted := worst(effects...); !c.covers(predicted, observed) {
					t.Errorf("%s %s, and the rules say that it %s", runner, observed, predicted)
				}
			}
			var found []compat.Kind
			for _, f := range findings {
				found = append(found, f.Kind)
			}
			for _, kind := range c.about {
				if !slices.Contains(found, kind) {
					t.Errorf("there is no %s in %v", kind, found)
				}
			}
			if t.Failed() {
				t.Log(findings)
			}
		})
	}
}

// A rule that says that it was run has a case, and a case is about rules that say so.
func TestEveryRuleThatWasRunHasACase(t *testing.T) {
	shown := map[compat.Kind][]string{}
	for _, name := range slices.Sorted(maps.Keys(upgrades)) {
		for _, kind := range upgrades[name].about {
			shown[kind] = append(shown[kind], name)
		}
	}
	for _, kind := range compat.Kinds() {
		rule, _ := compat.RuleOf(kind)
		for _, runner := range []compat.Runner{compat.Flink, compat.AgentsFlink} {
			if run := rule.On(runner).Evidence == compat.Run; run != (len(shown[kind]) > 0) {
				t.Errorf("%s on %s: the rule has %q for evidence, and the cases of the matrix about it are %q", kind, runner, rule.On(runner).Evidence, shown[kind])
			}
		}
		delete(shown, kind)
	}
	if len(shown) > 0 {
		t.Errorf("cases about what is no kind: %v", shown)
	}
}
