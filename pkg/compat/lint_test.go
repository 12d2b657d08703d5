package compat

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// impulse is a step without inputs, and with one output.
func impulse(name string) Transform {
	return Transform{Name: name, Kind: "beam:transform:impulse:v1", Outputs: []Collection{{Tag: "i0", Coder: simple("bytes")}}}
}

func cellOf(kind string) func(*Transform) {
	return func(t *Transform) { t.State = []State{{ID: "c", Kind: kind, Value: new(simple("bytes"))}} }
}

func families(domain string, ids ...string) func(*Transform) {
	return func(t *Transform) {
		for _, id := range ids {
			t.Timers = append(t.Timers, Timer{Family: id, TimeDomain: domain, Coder: simple("timer")})
		}
	}
}

func TestLint(t *testing.T) {
	seen := map[Kind]bool{}
	for name, tc := range map[string]struct {
		transforms []Transform
		want       []want
	}{
		"nothing": {[]Transform{impulse("I"), step("P", "I[i0]"), step("S", "P[i0]", keeps, families("EVENT_TIME", "t"))}, nil},
		"a side input of a step with state": {
			[]Transform{step("S", "a", keeps, sided)}, []want{{StatefulSideInput, "S", "side input i1", "", "s"}},
		},
		"a side input of a step with timers": {
			[]Transform{step("S", "a", families("EVENT_TIME", "t"), sided)}, []want{{StatefulSideInput, "S", "side input i1", "", "s"}},
		},
		"a side input of a step that keeps nothing": {[]Transform{step("S", "a", sided)}, []want{{SideInput, "S", "side input i1", "", "s"}}},
		"two readers, one with state": {
			[]Transform{step("R", "a[i0]"), step("S", "a[i0]", keeps)}, []want{{SharedInput, "S", "input i0", "", "R, S"}},
		},
		"two readers, both with state": {
			[]Transform{step("R", "a[i0]", keeps), step("S", "a[i0]", keeps)},
			[]want{{SharedInput, "R", "input i0", "", "R, S"}, {SharedInput, "S", "input i0", "", "R, S"}},
		},
		"two readers without state": {[]Transform{step("R", "a[i0]"), step("S", "a[i0]")}, nil},
		"a number":                  {[]Transform{step("S", "a", keeps), step("S'1", "b", keeps)}, []want{{SharedName, "S'1", "", "", "S"}}},
		"a number in a scope":       {[]Transform{step("A/S", "a", keeps), step("A'1/S", "b", keeps)}, []want{{SharedName, "A'1/S", "", "", "A/S"}}},
		"a number of what keeps nothing": {
			[]Transform{step("S", "a"), step("S'1", "b")}, nil,
		},
		"a name that ends like a number": {[]Transform{step("Year'24", "a", keeps)}, nil},
		"a map":                          {[]Transform{step("S", "a", cellOf("map"))}, []want{{MapState, "S", "state c", "", "map of bytes"}}},
		"a set":                          {[]Transform{step("S", "a", cellOf("set"))}, []want{{MapState, "S", "state c", "", "set of bytes"}}},
		"a list":                         {[]Transform{step("S", "a", cellOf("ordered_list"))}, []want{{MapState, "S", "state c", "", "ordered_list of bytes"}}},
		"a bag":                          {[]Transform{step("S", "a", cellOf("bag"))}, nil},
		"a combining cell":               {[]Transform{step("S", "a", cellOf("combining"))}, []want{{CombiningState, "S", "state c", "", "combining of bytes"}}},
		"two families": {
			[]Transform{step("S", "a", families("EVENT_TIME", "u", "t"))}, []want{{TimerFamilies, "S", "", "", "t, u"}},
		},
		"processing time behind an Impulse": {
			[]Transform{impulse("I"), step("P", "I[i0]"), step("S", "P[i0]", families("PROCESSING_TIME", "t"))},
			[]want{{ImpulseTimers, "S", "timer family t", "", "PROCESSING_TIME"}},
		},
		"event time behind an Impulse": {[]Transform{impulse("I"), step("S", "I[i0]", families("EVENT_TIME", "t"))}, nil},
		"processing time behind a source": {
			[]Transform{impulse("I"), step("P", "I[i0]", source), step("S", "P[i0]", families("PROCESSING_TIME", "t"))}, nil,
		},
		"processing time behind both": {
			[]Transform{impulse("I"), step("P", "I[i0]", source), {
				Name: "F", Kind: flatten, Inputs: []Collection{{Tag: "i0", From: "I[i0]"}, {Tag: "i1", From: "P[i0]"}},
			}, step("S", "F[i0]", families("PROCESSING_TIME", "t"))}, nil,
		},
		"processing time behind two Impulses": {
			[]Transform{impulse("I"), impulse("J"), {
				Name: "F", Kind: flatten, Inputs: []Collection{{Tag: "i0", From: "I[i0]"}, {Tag: "i1", From: "J[i0]"}, {Tag: "i2", From: "I[i0]"}},
			}, step("S", "F[i0]", families("PROCESSING_TIME", "t"))},
			[]want{{ImpulseTimers, "S", "timer family t", "", "PROCESSING_TIME"}},
		},
		"processing time behind what is not there": {[]Transform{step("S", "a[i0]", families("PROCESSING_TIME", "t"))}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := Lint(Fingerprint{Format: Format, Transforms: tc.transforms})
			if diff := cmp.Diff(tc.want, wants(found)); diff != "" {
				t.Errorf("(-want +found):\n%s", diff)
			}
			slices.Reverse(tc.transforms)
			if diff := cmp.Diff(found, Lint(Fingerprint{Format: Format, Transforms: tc.transforms})); diff != "" {
				t.Errorf("another order in the file (-before +now):\n%s", diff)
			}
			for _, f := range found {
				seen[f.Kind] = true
				if rule, ok := RuleOf(f.Kind); !ok || f.Rule != rule || f.Severity != Unsafe {
					t.Errorf("%s is not its rule: %+v", f.Kind, f)
				}
			}
		})
	}
	for _, k := range LintKinds() {
		if !seen[k] {
			t.Errorf("no case produces %s", k)
		}
	}
}
