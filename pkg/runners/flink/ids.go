package flink

import (
	"fmt"
	"maps"
	"slices"

	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/protobuf/proto"
)

const (
	// transformPrefix begins the id of every transform.
	transformPrefix = "t:"
	// ownInput is the last part of the name of the step that gives a stateful step its own input,
	// and the tag of that input.
	ownInput = "own_input"

	urnParDo   = "beam:transform:pardo:v1"
	urnFlatten = "beam:transform:flatten:v1"
)

// stableIDs makes every id of the pipeline from the names of its steps. Then adding or removing a
// step anywhere keeps the ids of the other steps. The SDK numbers transforms and PCollections in
// the order of construction instead. Flink derives the address of state from the name of the
// input of a stateful step, and stores timers under the id of the transform.
//
// A transform gets the id "t:" and its unique name. A PCollection gets "<unique name of its
// producer>.<tag>" as id and name. A stateful step gets an input that no other step reads,
// because Flink distinguishes the readers of one PCollection by a counter.
func stableIDs(p *pipepb.Pipeline) error {
	if err := nameIDs(p); err != nil {
		return err
	}
	return giveOwnInputs(p)
}

func nameIDs(p *pipepb.Pipeline) error {
	c := p.GetComponents()
	transforms := make(map[string]string, len(c.GetTransforms()))
	seen := make(map[string]bool, len(c.GetTransforms()))
	pcollections := make(map[string]string, len(c.GetPcollections()))
	outputs := make(map[string]bool, len(c.GetPcollections()))
	for _, id := range slices.Sorted(maps.Keys(c.GetTransforms())) {
		t := c.GetTransforms()[id]
		name := transformPrefix + t.GetUniqueName()
		if seen[name] {
			return fmt.Errorf("two steps are called %q: give one its own scope", t.GetUniqueName())
		}
		seen[name] = true
		transforms[id] = name
		if len(t.GetSubtransforms()) > 0 {
			continue // a step inside the composite is the producer
		}
		for _, tag := range slices.Sorted(maps.Keys(t.GetOutputs())) {
			out := t.GetOutputs()[tag]
			if reads(t, out) {
				continue // a composite of another SDK that passes its input on
			}
			name := t.GetUniqueName() + "." + tag
			if other, ok := pcollections[out]; ok {
				return fmt.Errorf("%q and %q are the same PCollection: a PCollection must come from one step", name, other)
			}
			if outputs[name] {
				return fmt.Errorf("two outputs are called %q: give one of their steps its own scope", name)
			}
			outputs[name] = true
			pcollections[out] = name
		}
	}

	renamed := make(map[string]*pipepb.PTransform, len(transforms))
	for id, t := range c.GetTransforms() {
		composite := len(t.GetSubtransforms()) > 0
		t.Inputs = rename(t.GetInputs(), pcollections, composite)
		t.Outputs = rename(t.GetOutputs(), pcollections, composite)
		renameAll(t.GetSubtransforms(), transforms)
		renamed[transforms[id]] = t
	}
	c.Transforms = renamed
	renameAll(p.GetRootTransformIds(), transforms)

	collections := make(map[string]*pipepb.PCollection, len(c.GetPcollections()))
	for id, col := range c.GetPcollections() {
		if name, ok := pcollections[id]; ok {
			col.UniqueName = name
			id = name
		}
		collections[id] = col
	}
	c.Pcollections = collections
	return nil
}

func renameAll(ids []string, to map[string]string) {
	for i, id := range ids {
		ids[i] = nameOf(id, to)
	}
}

// rename renames the PCollections of a transform. It also renames tags of composites, because the
// SDK uses ids as such tags. Other tags stay, because payloads name them.
func rename(ids, to map[string]string, composite bool) map[string]string {
	if len(ids) == 0 {
		return ids
	}
	renamed := make(map[string]string, len(ids))
	for tag, id := range ids {
		name := nameOf(id, to)
		if composite && tag == id {
			tag = name
		}
		renamed[tag] = name
	}
	return renamed
}

func reads(t *pipepb.PTransform, pcollection string) bool {
	for _, in := range t.GetInputs() {
		if in == pcollection {
			return true
		}
	}
	return false
}

func nameOf(id string, to map[string]string) string {
	if name, ok := to[id]; ok {
		return name
	}
	return id
}

// giveOwnInputs puts a Flatten with one input before each stateful step, also if the step is the
// only reader of its input. So a reader that is added later changes nothing.
func giveOwnInputs(p *pipepb.Pipeline) error {
	c := p.GetComponents()
	for _, id := range slices.Sorted(maps.Keys(c.GetTransforms())) {
		step := c.GetTransforms()[id]
		payload, err := parDo(step)
		if err != nil {
			return err
		}
		if !stateful(payload) {
			continue
		}
		for tag, input := range step.GetInputs() {
			if _, side := payload.GetSideInputs()[tag]; side {
				continue
			}
			own := step.GetUniqueName() + "." + ownInput
			name := step.GetUniqueName() + "/" + ownInput
			if c.GetTransforms()[transformPrefix+name] != nil || c.GetPcollections()[own] != nil {
				return fmt.Errorf("the name %q is taken, and the step %q needs it: rename the other step", name, step.GetUniqueName())
			}
			col := proto.CloneOf(c.GetPcollections()[input])
			col.UniqueName = own
			c.Pcollections[own] = col
			c.Transforms[transformPrefix+name] = &pipepb.PTransform{
				UniqueName: name,
				Spec:       &pipepb.FunctionSpec{Urn: urnFlatten},
				Inputs:     map[string]string{"i0": input},
				Outputs:    map[string]string{"i0": own},
			}
			step.Inputs[tag] = own
			insertBefore(p, id, transformPrefix+name)
		}
	}
	return nil
}

// insertBefore inserts a transform before another one in the composite, or the list of roots,
// that contains it.
func insertBefore(p *pipepb.Pipeline, id, inserted string) {
	for _, t := range p.GetComponents().GetTransforms() {
		if at := slices.Index(t.GetSubtransforms(), id); at >= 0 {
			t.Subtransforms = slices.Insert(t.Subtransforms, at, inserted)
			return
		}
	}
	if at := slices.Index(p.GetRootTransformIds(), id); at >= 0 {
		p.RootTransformIds = slices.Insert(p.RootTransformIds, at, inserted)
	}
}

// parDo returns the payload of a ParDo, or nil for another transform.
func parDo(t *pipepb.PTransform) (*pipepb.ParDoPayload, error) {
	if t.GetSpec().GetUrn() != urnParDo {
		return nil, nil //nolint:nilnil // nil for most transforms; the getters of a nil message work
	}
	payload := new(pipepb.ParDoPayload)
	if err := proto.Unmarshal(t.GetSpec().GetPayload(), payload); err != nil {
		return nil, fmt.Errorf("step %s: %w", t.GetUniqueName(), err)
	}
	return payload, nil
}

// stateful reports whether a ParDo has state or timers.
func stateful(p *pipepb.ParDoPayload) bool {
	return len(p.GetStateSpecs()) > 0 || len(p.GetTimerFamilySpecs()) > 0
}
