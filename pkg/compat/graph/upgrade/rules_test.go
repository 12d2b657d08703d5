package upgrade_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/compat"
	"github.com/beamagents/beamagents-go/pkg/compat/graph"
)

// fingerprint is that of a version of some cases.
func fingerprint(t *testing.T, version int, names ...string) compat.Fingerprint {
	t.Helper()
	f, err := graph.Fingerprint(build(names, version, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	if platform := upgrades[names[0]].platform(version); len(names) == 1 && platform != (compat.Platform{}) {
		f.Platform = &platform
	}
	return f
}

// together are the cases that share a job on a runner.
func together(t *testing.T, runner compat.Runner) (names []string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(upgrades)) {
		if upgrades[name].together(runner, fingerprint(t, 0, name), fingerprint(t, 1, name)) {
			names = append(names, name)
		}
	}
	return names
}

// The job of the cases that share one is as safe as they are.
func TestCasesThatShareAJobLetItLive(t *testing.T) {
	for _, runner := range []compat.Runner{compat.Flink, compat.AgentsFlink} {
		names := together(t, runner)
		if len(names) < 10 {
			t.Errorf("%s: only %q share a job", runner, names)
		}
		for _, f := range compat.Check(fingerprint(t, 0, names...), fingerprint(t, 1, names...)) {
			if e := f.On(runner).Effect; e == compat.Refuses || e == compat.FailsForever {
				t.Errorf("%s: %s", runner, f)
			}
		}
	}
}

// covers reports whether an effect that was observed is what the rules predict. Bytes that
// are misread may also read as nothing, or fail the job.
func (c upgrade) covers(predicted, observed compat.Effect) bool {
	switch {
	case predicted == observed:
		return true
	case predicted == compat.Misreads && (observed == compat.LosesState || observed == compat.FailsForever):
		return true
	}
	return c.chance && slices.Index(order, predicted) < slices.Index(order, observed)
}

// What package compat says of each case is what happened.
func TestRulesAreThoseOfTheMatrix(t *testing.T) {
	for name, c := range upgrades {
		t.Run(name, func(t *testing.T) {
			findings := compat.Check(fingerprint(t, 0, name), fingerprint(t, 1, name))
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
