package flinktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// REST is the URL of Flink's REST API.
type REST string

// pollEvery is the time between two requests of a wait.
const pollEvery = 100 * time.Millisecond

// do sends a request and decodes the answer. For a status of 400 or above it returns an error
// with the message of Flink.
func (r REST) do(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, string(r)+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s: %.2000s", method, path, resp.Status, b)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(b, answer); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// taskManagers returns the number of registered task managers.
func (r REST) taskManagers(ctx context.Context) (int, error) {
	var answer struct{ Taskmanagers int }
	err := r.do(ctx, http.MethodGet, "/overview", nil, &answer)
	return answer.Taskmanagers, err
}

// Job is a job, as Flink lists it.
type Job struct {
	ID        string `json:"jid"`
	Name      string `json:"name"`
	State     string `json:"state"`
	StartTime int64  `json:"start-time"` // ms since the epoch
	Duration  int64  `json:"duration"`   // ms, until now or until its end
}

// Ended reports whether the job has ended, successfully or not.
func (j Job) Ended() bool {
	return slices.Contains([]string{"FINISHED", "FAILED", "CANCELED", "SUSPENDED"}, j.State)
}

// Jobs returns all jobs that the cluster knows.
func (r REST) Jobs(ctx context.Context) ([]Job, error) {
	var answer struct{ Jobs []Job }
	err := r.do(ctx, http.MethodGet, "/jobs/overview", nil, &answer)
	return answer.Jobs, err
}

// Find waits for a job with a name, and returns the one that started last.
func (r REST) Find(ctx context.Context, name string) (Job, error) {
	return wait(ctx, "a job of the name "+name, func() (found Job, ok bool, err error) {
		jobs, err := r.Jobs(ctx)
		for _, j := range jobs {
			if j.Name == name && (!ok || j.StartTime > found.StartTime) {
				found, ok = j, true
			}
		}
		return found, ok, err
	})
}

// Job returns the job with an id.
func (r REST) Job(ctx context.Context, id string) (Job, error) {
	var j Job
	err := r.do(ctx, http.MethodGet, "/jobs/"+id, nil, &j)
	return j, err
}

// WaitEnded waits until the job has ended.
func (r REST) WaitEnded(ctx context.Context, id string) (Job, error) {
	return wait(ctx, "the end of job "+id, func() (Job, bool, error) {
		j, err := r.Job(ctx, id)
		return j, j.Ended(), err
	})
}

// WaitRunning waits until all tasks of the job run. It returns an error if the job has ended.
func (r REST) WaitRunning(ctx context.Context, id string) error {
	_, err := wait(ctx, "job "+id+" to run", func() (struct{}, bool, error) {
		var answer struct {
			State    string
			Vertices []struct{ Status string }
		}
		if err := r.do(ctx, http.MethodGet, "/jobs/"+id, nil, &answer); err != nil {
			return struct{}{}, false, err
		}
		if (Job{State: answer.State}).Ended() {
			return struct{}{}, false, fmt.Errorf("job %s is %s", id, answer.State)
		}
		running := answer.State == "RUNNING" && len(answer.Vertices) > 0
		for _, v := range answer.Vertices {
			running = running && (v.Status == "RUNNING" || v.Status == "FINISHED")
		}
		return struct{}{}, running, nil
	})
	return err
}

// Exceptions returns the texts of a job's failures, the latest one first.
func (r REST) Exceptions(ctx context.Context, id string) ([]string, error) {
	var answer struct {
		ExceptionHistory struct {
			Entries []struct{ Stacktrace string }
		} `json:"exceptionHistory"`
	}
	err := r.do(ctx, http.MethodGet, "/jobs/"+id+"/exceptions?maxExceptions=100", nil, &answer)
	var texts []string
	for _, e := range answer.ExceptionHistory.Entries {
		texts = append(texts, e.Stacktrace)
	}
	return texts, err
}

// Checkpoints has the counts of a job's checkpoints.
type Checkpoints struct {
	Counts struct {
		Completed, Failed, Restored, InProgress int
	}
	Latest struct {
		Completed struct {
			ID           int64
			ExternalPath string `json:"external_path"`
			StateSize    int64  `json:"state_size"` // bytes
		}
		Failed struct {
			FailureMessage string `json:"failure_message"`
		}
	}
}

// Checkpoints returns the checkpoints of a job.
func (r REST) Checkpoints(ctx context.Context, id string) (c Checkpoints, err error) {
	err = r.do(ctx, http.MethodGet, "/jobs/"+id+"/checkpoints", nil, &c)
	return c, err
}

// WaitCheckpoints waits until so many more checkpoints of a job have completed.
func (r REST) WaitCheckpoints(ctx context.Context, id string, more int) error {
	first := -1
	_, err := wait(ctx, fmt.Sprintf("%d checkpoints of job %s", more, id), func() (struct{}, bool, error) {
		c, err := r.Checkpoints(ctx, id)
		if err == nil && first < 0 {
			first = c.Counts.Completed
		}
		return struct{}{}, err == nil && c.Counts.Completed >= first+more, err
	})
	return err
}

// Parallelisms returns the parallelism of each vertex of a job, by name.
func (r REST) Parallelisms(ctx context.Context, id string) (map[string]int, error) {
	var answer struct {
		Vertices []struct {
			Name        string
			Parallelism int
		}
	}
	err := r.do(ctx, http.MethodGet, "/jobs/"+id, nil, &answer)
	all := map[string]int{}
	for _, v := range answer.Vertices {
		all[v.Name] = v.Parallelism
	}
	return all, err
}

// Options returns the pipeline options of a job, as Flink's web page shows them.
func (r REST) Options(ctx context.Context, id string) (map[string]string, error) {
	var answer struct {
		Config struct {
			Options map[string]string `json:"user-config"`
		} `json:"execution-config"`
	}
	err := r.do(ctx, http.MethodGet, "/jobs/"+id+"/config", nil, &answer)
	return answer.Config.Options, err
}

// StopWithSavepoint ends a job with a savepoint and returns the path of the savepoint. The
// savepoint contains pending timers.
func (r REST) StopWithSavepoint(ctx context.Context, id string) (string, error) {
	var trigger struct {
		RequestID string `json:"request-id"`
	}
	if err := r.do(ctx, http.MethodPost, "/jobs/"+id+"/stop", map[string]any{"drain": false}, &trigger); err != nil {
		return "", err
	}
	return wait(ctx, "a savepoint of job "+id, func() (string, bool, error) {
		var answer struct {
			Status    struct{ ID string }
			Operation struct {
				Location string
				Failure  struct {
					StackTrace string `json:"stack-trace"`
				} `json:"failure-cause"`
			}
		}
		if err := r.do(ctx, http.MethodGet, "/jobs/"+id+"/savepoints/"+trigger.RequestID, nil, &answer); err != nil {
			return "", false, err
		}
		switch {
		case answer.Status.ID != "COMPLETED":
			return "", false, nil
		case answer.Operation.Location == "":
			return "", false, errors.New("the savepoint failed: " + answer.Operation.Failure.StackTrace)
		}
		return strings.TrimPrefix(answer.Operation.Location, "file:"), true, nil
	})
}

// Cancel cancels a job and waits until it has ended.
func (r REST) Cancel(ctx context.Context, id string) error {
	if err := r.do(ctx, http.MethodPatch, "/jobs/"+id+"?mode=cancel", nil, nil); err != nil {
		return err
	}
	_, err := r.WaitEnded(ctx, id)
	return err
}

// wait calls look until it has found something or returns an error.
func wait[T any](ctx context.Context, what string, look func() (T, bool, error)) (T, error) {
	for {
		found, ok, err := look()
		if ok || err != nil {
			return found, err
		}
		select {
		case <-ctx.Done():
			return found, fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}
