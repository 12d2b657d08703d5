package flink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/metricsx"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// progressInterval is the time between two lines of progress.
	progressInterval = 5 * time.Second
	// progressTimeout is how long the job server, and then the cluster, may take to answer for
	// one line of progress.
	progressTimeout = 10 * time.Second
	// metricsTimeout is how long the job server may take to return the metrics of a job that
	// has ended.
	metricsTimeout = time.Minute
	// cancelTimeout bounds the request to cancel a job. A job that was just submitted may need
	// some seconds to reach the cluster.
	cancelTimeout = 20 * time.Second
	// reasonTimeout is how long to wait for the reason after a job has failed.
	reasonTimeout = 10 * time.Second
	// countersShown bounds the counters in a line of progress. The result of the job has all
	// counters.
	countersShown = 8
	// records is the name for the cluster's count of elements that steps have read.
	records = "records"
)

// result is the result of a job.
type result struct {
	id      string
	metrics metrics.Results
}

// Metrics implements beam.PipelineResult. It is empty if Run did not wait for the job.
func (r *result) Metrics() metrics.Results { return r.metrics }

// JobID implements beam.PipelineResult. It is the job server's id of the job.
func (r *result) JobID() string { return r.id }

// watch follows a job to its end.
type watch struct {
	client   jobpb.JobServiceClient
	id, name string
	pipeline *pipepb.Pipeline
	progress io.Writer // nil if no progress is shown
	rest     *restAPI  // nil if the cluster is not known

	interval   time.Duration // between two reports
	limit      time.Duration // for the job server, and for the cluster, in a report
	finalLimit time.Duration // for the job server when the job has ended

	state    string
	errors   []string // error messages of the job server
	failedAt int64    // the time of the last failure that was shown
	last     string   // the last line of progress
	counted  map[string]int64
	at       time.Time // the time of counted
}

// wait waits for the end of the job.
func (o *Options) wait(ctx context.Context, client jobpb.JobServiceClient, id string, p *pipepb.Pipeline, rest *restAPI) (beam.PipelineResult, error) {
	w := &watch{
		client: client, id: id, name: o.JobName, pipeline: p, progress: o.Progress, rest: rest, at: time.Now(),
		interval: progressInterval, limit: progressTimeout, finalLimit: metricsTimeout,
	}
	return w.wait(ctx)
}

// wait follows the job to its end, and returns its result with the metrics.
func (w *watch) wait(ctx context.Context) (beam.PipelineResult, error) {
	err := w.follow(ctx)
	r := &result{id: w.id}
	if ctx.Err() == nil {
		found, metricsErr := w.metrics(ctx, w.finalLimit)
		if metricsErr != nil && err == nil {
			err = fmt.Errorf("job %s has ended without an error, but the job server does not return its metrics: %w", w.id, metricsErr)
		}
		if metricsErr == nil {
			r.metrics = *found
		}
	}
	return r, err
}

// follow reads the messages of the job server until the job has ended.
func (w *watch) follow(ctx context.Context) error {
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := w.client.GetMessageStream(streaming, &jobpb.JobMessagesRequest{JobId: w.id})
	switch {
	case err != nil && ctx.Err() != nil:
		return w.cancel(ctx)
	case err != nil:
		return fmt.Errorf("job %s runs, but the job server sends no messages about it: %w", w.id, err)
	}
	type message struct {
		*jobpb.JobMessagesResponse

		err error
	}
	messages := make(chan message)
	go func() {
		for {
			m, err := stream.Recv()
			select {
			case messages <- message{m, err}:
			case <-streaming.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	var noReason <-chan time.Time // starts when the job has failed without a message
	for {
		select {
		case <-ctx.Done():
			return w.cancel(ctx)
		case <-noReason:
			return failed(w.id, w.errors)
		case <-tick.C:
			w.report(ctx)
		case m := <-messages:
			switch {
			case ctx.Err() != nil:
				return w.cancel(ctx)
			case errors.Is(m.err, io.EOF) && w.state == jobpb.JobState_FAILED.String():
				return failed(w.id, w.errors)
			case m.err != nil:
				return fmt.Errorf("the job server no longer reports on job %s, which may still run: %w", w.id, m.err)
			}
			ended, err := w.take(m.JobMessagesResponse)
			if ended || err != nil {
				return err
			}
			if w.state == jobpb.JobState_FAILED.String() && noReason == nil {
				noReason = time.After(reasonTimeout)
			}
		}
	}
}

// take handles a message of the job server, and reports whether the job has ended.
func (w *watch) take(m *jobpb.JobMessagesResponse) (ended bool, err error) {
	if text := m.GetMessageResponse(); text.GetImportance() >= jobpb.JobMessage_JOB_MESSAGE_ERROR {
		w.errors = append(w.errors, text.GetMessageText())
	}
	if m.GetStateResponse() != nil {
		if state := m.GetStateResponse().GetState().String(); state != w.state {
			w.state = state
			w.line(state)
		}
	}
	switch w.state {
	case jobpb.JobState_DONE.String():
		return true, nil
	case jobpb.JobState_CANCELLED.String():
		return true, &JobError{JobID: w.id, Cancelled: true}
	case jobpb.JobState_FAILED.String():
		if len(w.errors) > 0 {
			return true, failed(w.id, w.errors)
		}
	}
	return false, nil
}

// cancel cancels the job, because nobody waits for it any more. When Beam's job server is asked
// to cancel a job, it forgets the job but leaves it running on an external cluster. So the
// cluster is asked, too, if it is known.
func (w *watch) cancel(ctx context.Context) error {
	reason := context.Cause(ctx)
	// Ask the job server even if the cluster does not answer in time.
	ctx = context.WithoutCancel(ctx)
	rpcCtx, stop := context.WithTimeout(ctx, 2*cancelTimeout)
	defer stop()
	var err error
	if w.rest != nil {
		ctx, stop := context.WithTimeout(ctx, cancelTimeout)
		defer stop()
		if err = w.rest.await(ctx, w.name); err == nil {
			err = w.rest.cancel(ctx)
		}
	}
	if _, rpc := w.client.Cancel(rpcCtx, &jobpb.CancelJobRequest{JobId: w.id}); err == nil {
		err = rpc
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w; job %s could not be cancelled and may still run: %w", reason, w.id, err)
	case w.rest == nil:
		return fmt.Errorf("%w; the job server was asked to cancel job %s, which it only does on an embedded cluster: with another one cancel the job in Flink's web page, or give --flink_master", reason, w.id)
	}
	w.line("CANCELLED")
	return fmt.Errorf("job %s was cancelled: %w", w.id, reason)
}

// metrics asks the job server for the metrics of the job, within a time limit.
func (w *watch) metrics(ctx context.Context, limit time.Duration) (*metrics.Results, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	response, err := w.client.GetJobMetrics(ctx, &jobpb.GetJobMetricsRequest{JobId: w.id})
	if err != nil {
		return nil, err
	}
	infos := response.GetMetrics()
	for _, i := range slices.Concat(infos.GetAttempted(), infos.GetCommitted()) {
		// The ids are those of stableIDs, but a user knows the names.
		if id, ok := i.GetLabels()["PTRANSFORM"]; ok {
			i.Labels["PTRANSFORM"] = strings.TrimPrefix(id, transformPrefix)
		}
	}
	return metricsx.FromMonitoringInfos(w.pipeline, infos.GetAttempted(), infos.GetCommitted()), nil
}

// report writes a line on the progress of the job if something has changed since the last
// line. It asks the job server and the cluster. If one of them does not answer, the line says
// that the progress is unknown or incomplete, and the job goes on.
func (w *watch) report(ctx context.Context) {
	if w.progress == nil {
		return
	}
	state, counts, missing := w.state, map[string]int64{}, []string{}
	found, err := w.metrics(ctx, w.limit)
	if err != nil {
		missing = append(missing, unanswered("the job server", err))
	} else {
		for _, c := range found.AllMetrics().Counters() {
			counts[c.Key.Namespace+"."+c.Key.Name] += max(c.Committed, c.Attempted)
		}
	}
	job, ok, err := w.look(ctx)
	switch {
	case err != nil:
		missing = append(missing, unanswered("the cluster", err))
	case ok:
		state = job.State
		maps.Copy(counts, job.Counters)
		counts[records] = job.Records
		if job.Completed+job.Failed > 0 {
			state += fmt.Sprintf(", %d checkpoints, %d failed", job.Completed, job.Failed)
		}
		if job.FailedAt > w.failedAt {
			w.failedAt = job.FailedAt
			w.restarted(job.Failure)
		}
	}
	switch {
	case ctx.Err() != nil: // the calls have ended with ctx
		return
	case len(missing) == 0:
	case len(counts) == 0:
		state += " (progress unknown: " + strings.Join(missing, ", ") + ")"
	default:
		state += " (progress incomplete: " + strings.Join(missing, ", ") + ")"
	}
	now := time.Now()
	w.line(state + describe(counts, w.counted, now.Sub(w.at)))
	if len(missing) == 0 { // the rates of the next report begin with complete counts
		w.counted, w.at = counts, now
	}
}

// unanswered says why there is no answer.
func unanswered(who string, err error) string {
	if errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		return who + " does not answer in time"
	}
	return who + " answers " + err.Error()
}

// look asks the cluster. It returns false if the cluster is not known, or does not show
// the job yet.
func (w *watch) look(ctx context.Context) (job flinkJob, ok bool, err error) {
	if w.rest == nil {
		return flinkJob{}, false, nil
	}
	ctx, stop := context.WithTimeout(ctx, w.limit)
	defer stop()
	if err := w.rest.find(ctx, w.name); errors.Is(err, errNotThere) {
		return flinkJob{}, false, nil
	} else if err != nil {
		return flinkJob{}, false, err
	}
	job, err = w.rest.look(ctx)
	return job, err == nil, err
}

// restarted reports a failure after which Flink restarts the job.
func (w *watch) restarted(trace string) {
	step, reason := explain(trace)
	if step != "" {
		reason = "in step " + step + ": " + reason
	}
	w.line("a bundle failed, Flink starts it again: " + reason)
}

// describe formats the counts, with the rates of those that have grown.
func describe(counts, before map[string]int64, since time.Duration) string {
	var b strings.Builder
	names := slices.Sorted(maps.Keys(counts))
	if i, ok := slices.BinarySearch(names, records); ok { // first, so that it is never cut off
		names = slices.Insert(slices.Delete(names, i, i+1), 0, records)
	}
	for i, name := range names {
		if i == countersShown {
			fmt.Fprintf(&b, ", and %d more", len(names)-i)
			break
		}
		fmt.Fprintf(&b, ", %s %d", name, counts[name])
		if grown := counts[name] - before[name]; grown > 0 && since > 0 {
			fmt.Fprintf(&b, " (%.0f/s)", float64(grown)/since.Seconds())
		}
	}
	return b.String()
}

// oneLine makes foreign text fit for one line of a terminal.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(printable(text), func(r rune) bool { return r == '\n' || r == '\t' }), " ")
}

// line writes a line of progress, unless it is equal to the last one.
func (w *watch) line(text string) {
	if w.progress == nil || text == w.last {
		return
	}
	w.last = text
	fmt.Fprintf(w.progress, "flink: job %s: %s\n", oneLine(w.name), oneLine(text))
}
