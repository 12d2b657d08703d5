package flink

import (
	"fmt"

	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
)

// transformPrefix begins the id of every transform.
const transformPrefix = "t:"

// stableIDs gives every transform the id "t:" and its unique name, and every PCollection
// the id and the name "<unique name of its producer>.<tag>". The SDK numbers both in the
// order of construction. Flink derives the address of state from the name of a stateful
// step's input, and stores timers under the id of the transform, so that with the SDK's
// numbers a step that is inserted moves the state and the timers of all that follow.
func stableIDs(p *pipepb.Pipeline) error {
	c := p.GetComponents()
	transforms := make(map[string]string, len(c.GetTransforms()))
	seen := make(map[string]bool, len(c.GetTransforms()))
	for id, t := range c.GetTransforms() {
		name := transformPrefix + t.GetUniqueName()
		if seen[name] {
			return fmt.Errorf("two steps are called %q: give one a scope of its own", t.GetUniqueName())
		}
		seen[name] = true
		transforms[id] = name
	}
	pcollections := make(map[string]string, len(c.GetPcollections()))
	for _, t := range c.GetTransforms() {
		if len(t.GetSubtransforms()) > 0 {
			continue // the step inside it is the producer
		}
		for tag, id := range t.GetOutputs() {
			pcollections[id] = t.GetUniqueName() + "." + tag
		}
	}

	renamed := make(map[string]*pipepb.PTransform, len(transforms))
	for id, t := range c.GetTransforms() {
		renameAll(t.Subtransforms, transforms)
		renameValues(t.Inputs, pcollections)
		renameValues(t.Outputs, pcollections)
		renamed[transforms[id]] = t
	}
	c.Transforms = renamed
	renameAll(p.RootTransformIds, transforms)

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
		if name, ok := to[id]; ok {
			ids[i] = name
		}
	}
}

func renameValues(ids map[string]string, to map[string]string) {
	for tag, id := range ids {
		if name, ok := to[id]; ok {
			ids[tag] = name
		}
	}
}
