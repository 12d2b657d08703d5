package flink

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
)

// unbounded reports whether the pipeline has an unbounded source.
func unbounded(p *pipepb.Pipeline) bool {
	for _, c := range p.GetComponents().GetPcollections() {
		if c.GetIsBounded() == pipepb.IsBounded_UNBOUNDED {
			return true
		}
	}
	return false
}

// boundedInput reports whether the main input of a step is bounded.
func boundedInput(p *pipepb.Pipeline, step *pipepb.PTransform, payload *pipepb.ParDoPayload) bool {
	for tag, id := range step.GetInputs() {
		if _, side := payload.GetSideInputs()[tag]; !side && p.GetComponents().GetPcollections()[id].GetIsBounded() == pipepb.IsBounded_UNBOUNDED {
			return false
		}
	}
	return true
}

// checkpointInterval returns the interval between checkpoints, or 0 for a job without
// checkpoints.
func (o *Options) checkpointInterval(p *pipepb.Pipeline) time.Duration {
	if o.CheckpointInterval == 0 && unbounded(p) {
		return DefaultCheckpointInterval
	}
	return o.CheckpointInterval
}

// unsupportedState returns the id and the kind of a cell that Beam's Flink runner cannot
// read or write. The runner answers requests for bag state only, in which the SDKs also
// keep value and combining state. Other requests fail with an IllegalStateException.
func unsupportedState(payload *pipepb.ParDoPayload) (id, kind string) {
	for _, id := range slices.Sorted(maps.Keys(payload.GetStateSpecs())) {
		switch payload.GetStateSpecs()[id].GetSpec().(type) {
		case *pipepb.StateSpec_ReadModifyWriteSpec, *pipepb.StateSpec_BagSpec, *pipepb.StateSpec_CombiningSpec:
		case *pipepb.StateSpec_MapSpec:
			return id, "a map"
		case *pipepb.StateSpec_SetSpec:
			return id, "a set"
		case *pipepb.StateSpec_OrderedListSpec:
			return id, "an ordered list"
		case *pipepb.StateSpec_MultimapSpec:
			return id, "a multimap"
		default:
			return id, "of an unknown kind"
		}
	}
	return "", ""
}

// check refuses a pipeline that would hang or lose data with these options.
func (o *Options) check(p *pipepb.Pipeline) error {
	endless, interval := unbounded(p), o.checkpointInterval(p)
	switch {
	case endless && o.Batch:
		return errors.New("--flink_batch accepts only bounded sources, and this pipeline has an unbounded one: leave out --flink_batch")
	case o.Savepoint != "" && interval == 0:
		return errors.New("--flink_savepoint needs checkpoints, and a pipeline of bounded sources runs without them: leave out --flink_savepoint, or give --flink_checkpoint_interval")
	}
	transforms := p.GetComponents().GetTransforms()
	for _, id := range slices.Sorted(maps.Keys(transforms)) {
		t := transforms[id]
		payload, err := parDo(t)
		if err != nil {
			return err
		}
		cell, kind := unsupportedState(payload)
		switch {
		case len(payload.GetTimerFamilySpecs()) > 1 && payload.GetDoFn().GetUrn() == graphx.URNDoFn:
			// A worker of the Go SDK counts the ends of the timers of a step, one for each family,
			// and expects one for the step. A step in another language has another worker.
			families := slices.Sorted(maps.Keys(payload.GetTimerFamilySpecs()))
			return fmt.Errorf("step %s has the timer families %s, and on Flink a step with several families mostly stands still without an error (no timer fires, no savepoint completes, and a job with bounded sources does not end): use one family, with a tag for each purpose", t.GetUniqueName(), strings.Join(families, ", "))
		case kind != "":
			return fmt.Errorf("step %s has the cell %s, which is %s, and Beam's Flink runner cannot store it (the first access fails the bundle, and with checkpoints the job starts again without end): use value or bag state", t.GetUniqueName(), cell, kind)
		case len(payload.GetSideInputs()) > 0 && !o.Batch && interval > 0:
			return fmt.Errorf("step %s has a side input, and in a streaming job with checkpoints each checkpoint of such a step fails on Flink and the job starts again without end: add the data of the side input to the elements in an earlier step, or run bounded sources", t.GetUniqueName())
		case !stateful(payload):
		case len(payload.GetSideInputs()) > 0 && !o.Batch:
			return fmt.Errorf("step %s has state or timers and a side input, and Flink cannot run such a step in streaming (the step is not in the job at all, or no checkpoint completes): add the data of the side input to the elements in an earlier step, or run bounded sources with --flink_batch", t.GetUniqueName())
		case len(payload.GetTimerFamilySpecs()) == 0 || interval == 0 || !boundedInput(p, t, payload):
		case endless:
			return fmt.Errorf("step %s has timers and a bounded input beside an unbounded source, and with the checkpoints that the source needs Flink clears the step's state before the last timers of a bounded input: run the branch with the bounded input as a pipeline of its own, or flatten the input with an unbounded one", t.GetUniqueName())
		default:
			return fmt.Errorf("step %s has timers, and with --flink_checkpoint_interval Flink clears its state before the last timers of a bounded input: leave out --flink_checkpoint_interval (a failure then fails the job, which you start again)", t.GetUniqueName())
		}
	}
	return nil
}
