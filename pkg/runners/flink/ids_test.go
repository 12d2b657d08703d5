package flink

import (
	"maps"
	"slices"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/google/go-cmp/cmp"
)

// addresses are what Flink finds the state and the timers of the step Count by: the name
// of its input, that nobody else reads it, and the id of the transform.
func addresses(t *testing.T, build func(s beam.Scope)) map[string]string {
	t.Helper()
	p := marshalled(t, build)
	if err := stableIDs(p); err != nil {
		t.Fatal(err)
	}
	step := stepNamed(t, p, "Count/flink.runnerCountFn")
	input := step.GetInputs()["i0"]
	readers := 0
	id := ""
	for i, other := range p.GetComponents().GetTransforms() {
		if len(other.GetSubtransforms()) == 0 && slices.Contains(values(other.GetInputs()), input) {
			readers++
		}
		if other == step {
			id = i
		}
	}
	if readers != 1 {
		t.Errorf("%d steps read the input", readers)
	}
	return map[string]string{"transform": id, "input": p.GetComponents().GetPcollections()[input].GetUniqueName()}
}

func count(s beam.Scope, col beam.PCollection) { beam.ParDo(s.Scope("Count"), newCount(), col) }

func TestStepsThatAreInsertedLeaveIDs(t *testing.T) {
	want := map[string]string{"transform": "t:Count/flink.runnerCountFn", "input": "Count/flink.runnerCountFn.own_input"}
	for name, build := range map[string]func(s beam.Scope){
		"alone": func(s beam.Scope) { count(s, keyed(s)) },
		"step before": func(s beam.Scope) {
			count(s, beam.ParDo(s.Scope("Pass"), runnerPassFn, keyed(s)))
		},
		"branch constructed before": func(s beam.Scope) {
			beam.ParDo(s.Scope("Other"), runnerOneFn, beam.Impulse(s.Scope("Other")))
			count(s, keyed(s))
		},
		"step without output before": func(s beam.Scope) {
			col := keyed(s)
			beam.ParDo0(s, func(string, int) {}, col)
			count(s, col)
		},
		"second stateful reader before": func(s beam.Scope) {
			col := keyed(s)
			beam.ParDo(s.Scope("First"), newCount(), col)
			count(s, col)
		},
		"step after": func(s beam.Scope) {
			col := beam.ParDo(s.Scope("Count"), newCount(), keyed(s))
			beam.ParDo0(s, func(int) {}, col)
		},
		"reshuffle before": func(s beam.Scope) { count(s, beam.Reshuffle(s, keyed(s))) },
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, addresses(t, build)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Every id that is used exists, and nothing is lost.
func TestRenamedPipelineIsWhole(t *testing.T) {
	for name, build := range map[string]func(s beam.Scope){
		"bounded": bounded, "unbounded": unboundedPipeline, "side input": sideInput,
		"group": func(s beam.Scope) { beam.GroupByKey(s, beam.Reshuffle(s, keyed(s))) },
		"join": func(s beam.Scope) {
			beam.CoGroupByKey(s, keyed(s.Scope("A")), keyed(s.Scope("B")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, p := marshalled(t, build), marshalled(t, build)
			if err := stableIDs(p); err != nil {
				t.Fatal(err)
			}
			c := p.GetComponents()
			placed := map[string]int{}
			for _, id := range p.GetRootTransformIds() {
				placed[id]++
			}
			stateful := 0
			for _, step := range c.GetTransforms() {
				for _, id := range slices.Concat(values(step.GetInputs()), values(step.GetOutputs())) {
					if c.GetPcollections()[id] == nil {
						t.Errorf("%s uses %s, which there is not", step.GetUniqueName(), id)
					}
				}
				for _, id := range step.GetSubtransforms() {
					placed[id]++
				}
				if step.GetSpec().GetUrn() == urnFlatten && len(step.GetInputs()) == 1 {
					stateful++
				}
			}
			for _, id := range slices.Sorted(maps.Keys(c.GetTransforms())) {
				if placed[id] != 1 {
					t.Errorf("%s has %d places", id, placed[id])
				}
			}
			if got, want := len(c.GetTransforms()), len(before.GetComponents().GetTransforms())+stateful; got != want {
				t.Errorf("%d transforms, want %d", got, want)
			}
			if got, want := len(c.GetPcollections()), len(before.GetComponents().GetPcollections())+stateful; got != want {
				t.Errorf("%d PCollections, want %d", got, want)
			}
			for id, col := range c.GetPcollections() {
				if col.GetUniqueName() != id {
					t.Errorf("PCollection %s is called %s", id, col.GetUniqueName())
				}
			}
		})
	}
}

func TestEqualNamesAreRefused(t *testing.T) {
	p := &pipepb.Pipeline{Components: &pipepb.Components{Transforms: map[string]*pipepb.PTransform{
		"e1": {UniqueName: "Count"}, "e2": {UniqueName: "Count"},
	}}}
	wantError(t, stableIDs(p), `two steps are called "Count"`)
}

// The tags of a step are part of its payload.
func TestTagsOfStepsStay(t *testing.T) {
	p := &pipepb.Pipeline{Components: &pipepb.Components{
		Transforms: map[string]*pipepb.PTransform{
			"e1": {UniqueName: "Source", Outputs: map[string]string{"n2": "n1"}},
			"e2": {UniqueName: "Read", Inputs: map[string]string{"n2": "n1"}, Outputs: map[string]string{"n1": "n2"}},
		},
		Pcollections: map[string]*pipepb.PCollection{"n1": {}, "n2": {}},
	}}
	if err := stableIDs(p); err != nil {
		t.Fatal(err)
	}
	read := p.GetComponents().GetTransforms()["t:Read"]
	if read.GetInputs()["n2"] != "Source.n2" || read.GetOutputs()["n1"] != "Read.n1" {
		t.Errorf("%v, %v", read.GetInputs(), read.GetOutputs())
	}
}

// A composite of another SDK may give on what it reads.
func TestCompositeWithoutStepsIsNoProducer(t *testing.T) {
	for range 20 { // the order of a map
		p := &pipepb.Pipeline{Components: &pipepb.Components{
			Transforms: map[string]*pipepb.PTransform{
				"e1": {UniqueName: "Source", Outputs: map[string]string{"i0": "n1"}},
				"e2": {UniqueName: "Same", Inputs: map[string]string{"in": "n1"}, Outputs: map[string]string{"out": "n1"}},
			},
			Pcollections: map[string]*pipepb.PCollection{"n1": {}},
		}}
		if err := stableIDs(p); err != nil {
			t.Fatal(err)
		}
		if p.GetComponents().GetPcollections()["Source.i0"] == nil {
			t.Fatalf("%v", p.GetComponents().GetPcollections())
		}
	}
}

func TestClashingIDsAreRefused(t *testing.T) {
	two := map[string]*pipepb.PCollection{"n1": {}, "n2": {}}
	for name, test := range map[string]struct {
		transforms   map[string]*pipepb.PTransform
		pcollections map[string]*pipepb.PCollection
		want         string
	}{
		"PCollections": {map[string]*pipepb.PTransform{
			"e1": {UniqueName: "A", Outputs: map[string]string{"b.i0": "n1"}}, "e2": {UniqueName: "A.b", Outputs: map[string]string{"i0": "n2"}},
		}, two, `two outputs are called "A.b.i0"`},
		"producers": {map[string]*pipepb.PTransform{
			"e1": {UniqueName: "A", Outputs: map[string]string{"i0": "n1"}}, "e2": {UniqueName: "B", Outputs: map[string]string{"i0": "n1"}},
		}, two, `"B.i0" and "A.i0" are the same PCollection`},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pipepb.Pipeline{Components: &pipepb.Components{Transforms: test.transforms, Pcollections: test.pcollections}}
			wantError(t, stableIDs(p), test.want)
		})
	}
	t.Run("own input", func(t *testing.T) {
		p := marshalled(t, bounded)
		p.GetComponents().GetTransforms()["e9"] = &pipepb.PTransform{UniqueName: "flink.runnerCountFn/own_input"}
		wantError(t, stableIDs(p), `the name "flink.runnerCountFn/own_input" is taken`)
	})
}
