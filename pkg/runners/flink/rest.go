package flink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// cancelPoll is the time between two requests for the state of a job that is being cancelled.
const cancelPoll = 200 * time.Millisecond

// restTimeout bounds a call of Flink's REST API.
const restTimeout = 10 * time.Second

// The runner sends a new random text with each job in the option submissionOption. Flink
// shows the options of a job, this one as submissionShown, so the runner knows its own job
// among all jobs of one name.
const (
	submissionOption = "beamagents_submission"
	submissionShown  = "beamagentsSubmission"
)

// restAPI is a client of Flink's REST API, which knows more about a running job than Beam's job
// server.
type restAPI struct {
	base       string          // http://HOST:PORT
	submission string          // the value of submissionOption of the job
	others     map[string]bool // Flink's ids of jobs that are not this one
	job        string          // Flink's id of the job, once it is known
}

// errNotThere says that the cluster does not have the job, or not yet.
var errNotThere = errors.New("the cluster does not show the job yet")

// flinkJob is what the REST API reports about a job.
type flinkJob struct {
	State     string
	Records   int64 // records that steps have read from other steps
	Completed int64 // checkpoints
	Failed    int64 // checkpoints
	// Counters are the counters of the pipeline in the running attempt, by NAMESPACE_NAME.
	Counters map[string]int64
	// Failure is the trace of the last failure, and FailedAt its time, in ms since the Unix
	// epoch.
	Failure  string
	FailedAt int64
}

func (r *restAPI) get(ctx context.Context, path string, into any) error {
	return r.call(ctx, http.MethodGet, path, http.StatusOK, into)
}

func (r *restAPI) call(ctx context.Context, method, path string, status int, into any) error {
	ctx, cancel := context.WithTimeout(ctx, restTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, r.base+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != status {
		return fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	return json.NewDecoder(io.LimitReader(response.Body, 64<<20)).Decode(into)
}

// newREST is the REST API for a job that is about to be submitted. It is an error if the
// cluster does not answer.
func newREST(ctx context.Context, master, name, submission string) (*restAPI, error) {
	r := &restAPI{base: "http://" + master, submission: submission, others: map[string]bool{}}
	before, err := r.jobs(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, id := range before {
		r.others[id] = true
	}
	return r, nil
}

// jobs returns the ids of the cluster's jobs of a name.
func (r *restAPI) jobs(ctx context.Context, name string) (ids []string, err error) {
	var overview struct {
		Jobs []struct {
			ID   string `json:"jid"`
			Name string `json:"name"`
		} `json:"jobs"`
	}
	if err := r.get(ctx, "/jobs/overview", &overview); err != nil {
		return nil, err
	}
	for _, j := range overview.Jobs {
		if j.Name == name {
			ids = append(ids, j.ID)
		}
	}
	return ids, nil
}

// find looks for the job of a name that has the submission of this one. The error is
// errNotThere if the cluster does not show the job.
func (r *restAPI) find(ctx context.Context, name string) error {
	if r.job != "" {
		return nil
	}
	ids, err := r.jobs(ctx, name)
	if err != nil {
		return err
	}
	missing := errNotThere
	for _, id := range ids {
		if r.others[id] {
			continue
		}
		var config struct {
			Execution struct {
				Options map[string]any `json:"user-config"`
			} `json:"execution-config"`
		}
		if err := r.get(ctx, "/jobs/"+id+"/config", &config); err != nil {
			missing = err // it may be the job
			continue
		}
		options := config.Execution.Options
		if options[submissionShown] == r.submission {
			r.job = id
			return nil
		}
		// A job that begins has no options yet.
		r.others[id] = len(options) > 0
	}
	return missing
}

// await calls find until the job exists.
func (r *restAPI) await(ctx context.Context, name string) error {
	for {
		err := r.find(ctx, name)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(cancelPoll):
		}
	}
}

// cancel cancels the job and waits until Flink has cancelled it.
func (r *restAPI) cancel(ctx context.Context) error {
	if err := r.call(ctx, http.MethodPatch, "/jobs/"+r.job+"?mode=cancel", http.StatusAccepted, new(struct{})); err != nil {
		return err
	}
	for {
		var job struct {
			State string `json:"state"`
		}
		if err := r.get(ctx, "/jobs/"+r.job, &job); err != nil {
			return err
		}
		switch job.State {
		case "CANCELED", "FINISHED", "FAILED":
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is %s: %w", job.State, ctx.Err())
		case <-time.After(cancelPoll):
		}
	}
}

// look requests the progress of the job.
func (r *restAPI) look(ctx context.Context) (flinkJob, error) {
	var job struct {
		State    string `json:"state"`
		Vertices []struct {
			ID      string `json:"id"`
			Metrics struct {
				Read int64 `json:"read-records"`
			} `json:"metrics"`
		} `json:"vertices"`
	}
	if err := r.get(ctx, "/jobs/"+r.job, &job); err != nil {
		return flinkJob{}, err
	}
	found := flinkJob{State: job.State, Counters: map[string]int64{}}
	for _, v := range job.Vertices {
		found.Records += v.Metrics.Read
		if err := r.count(ctx, v.ID, found.Counters); err != nil {
			return flinkJob{}, err
		}
	}
	var checkpoints struct {
		Counts struct {
			Completed int64 `json:"completed"`
			Failed    int64 `json:"failed"`
		} `json:"counts"`
	}
	if err := r.get(ctx, "/jobs/"+r.job+"/checkpoints", &checkpoints); err == nil { // 404 for a job without checkpoints
		found.Completed, found.Failed = checkpoints.Counts.Completed, checkpoints.Counts.Failed
	}
	var exceptions struct {
		History struct {
			Entries []struct {
				At    int64  `json:"timestamp"`
				Trace string `json:"stacktrace"`
			} `json:"entries"`
		} `json:"exceptionHistory"`
	}
	if err := r.get(ctx, "/jobs/"+r.job+"/exceptions", &exceptions); err != nil {
		return flinkJob{}, err
	}
	for _, e := range exceptions.History.Entries {
		if e.At > found.FailedAt {
			found.Failure, found.FailedAt = e.Trace, e.At
		}
	}
	return found, nil
}

// userMetric matches the names of a user's metrics on an operator. Flink's own metrics have no
// underscore. Beam's own metrics begin with a transform and end as systemMetric does.
var (
	userMetric   = regexp.MustCompile(`^\[\d+\].*\.(\w+_\w+)$`)
	systemMetric = regexp.MustCompile(`_metric_\w+_v\d+$`)
)

// urlLimit bounds the names in a URL, in bytes, because Flink accepts request lines of up to
// 4,096 bytes.
const urlLimit = 3000

// count adds the counters of a vertex to counters.
func (r *restAPI) count(ctx context.Context, vertex string, counters map[string]int64) error {
	path := "/jobs/" + r.job + "/vertices/" + vertex + "/subtasks/metrics"
	var all []struct {
		ID string `json:"id"`
	}
	if err := r.get(ctx, path, &all); err != nil {
		return err
	}
	var names []string
	for _, m := range all {
		if userMetric.MatchString(m.ID) && !systemMetric.MatchString(m.ID) {
			names = append(names, url.QueryEscape(m.ID))
		}
	}
	for len(names) > 0 {
		n, length := 1, len(names[0])
		for n < len(names) && length+1+len(names[n]) <= urlLimit {
			length += 1 + len(names[n])
			n++
		}
		var sums []struct {
			ID  string   `json:"id"`
			Sum *float64 `json:"sum"` // nil for a distribution, which is not a number
		}
		if err := r.get(ctx, path+"?agg=sum&get="+strings.Join(names[:n], ","), &sums); err != nil {
			return err
		}
		for _, m := range sums {
			if name := userMetric.FindStringSubmatch(m.ID); name != nil && m.Sum != nil {
				counters[name[1]] += int64(*m.Sum)
			}
		}
		names = names[n:]
	}
	return nil
}
