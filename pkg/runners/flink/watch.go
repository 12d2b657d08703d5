package flink

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/metricsx"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
)

// result is the result of a job.
type result struct {
	id      string
	metrics metrics.Results
}

// Metrics is beam.PipelineResult's. It is empty for a job that Run did not wait for.
func (r *result) Metrics() metrics.Results { return r.metrics }

// JobID is beam.PipelineResult's: the job server's id of the job.
func (r *result) JobID() string { return r.id }

// wait waits for the end of the job.
func (o *Options) wait(ctx context.Context, client jobpb.JobServiceClient, id string, p *pipepb.Pipeline) (beam.PipelineResult, error) {
	stream, err := client.GetMessageStream(ctx, &jobpb.JobMessagesRequest{JobId: id})
	if err != nil {
		return nil, err
	}
	r := &result{id: id}
	last := "no message"
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return r, nil
		} else if err != nil {
			return r, err
		}
		if text := m.GetMessageResponse(); text != nil && text.GetImportance() >= jobpb.JobMessage_JOB_MESSAGE_ERROR {
			last = text.GetMessageText()
		}
		switch state := m.GetStateResponse().GetState(); state {
		case jobpb.JobState_DONE, jobpb.JobState_CANCELLED:
			response, err := client.GetJobMetrics(ctx, &jobpb.GetJobMetricsRequest{JobId: id})
			if err != nil {
				return r, err
			}
			r.metrics = *metricsx.FromMonitoringInfos(p, response.GetMetrics().GetAttempted(), response.GetMetrics().GetCommitted())
			return r, nil
		case jobpb.JobState_FAILED:
			return r, fmt.Errorf("job %s failed: %s", id, last)
		}
	}
}
