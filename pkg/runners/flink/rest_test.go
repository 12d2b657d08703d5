package flink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
)

// fakeFlink answers as the REST API of Flink 1.19 does. A job of the same name is there
// before, and another when jobs are submitted.
type fakeFlink struct {
	address   string
	submitted atomic.Bool
	cancelled atomic.Int32
}

func startFakeFlink(t *testing.T) *fakeFlink {
	t.Helper()
	f := new(fakeFlink)
	mux := http.NewServeMux()
	answer := func(pattern, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
	}
	mux.HandleFunc("GET /jobs/overview", func(w http.ResponseWriter, _ *http.Request) {
		jobs := `{"jid":"old","name":"orders","start-time":5},{"jid":"other","name":"other","start-time":9}`
		if f.submitted.Load() {
			jobs += `,{"jid":"new","name":"orders","start-time":4}` // by a clock that is behind
		}
		fmt.Fprintf(w, `{"jobs":[%s]}`, jobs)
	})
	mux.HandleFunc("GET /jobs/new", func(w http.ResponseWriter, _ *http.Request) {
		state := "RESTARTING"
		if f.cancelled.Load() > 0 {
			state = "CANCELED"
		}
		fmt.Fprintf(w, `{"state":%q,"vertices":[{"id":"v1","metrics":{"read-records":30}},{"id":"v2","metrics":{"read-records":12}}]}`, state)
	})
	mux.HandleFunc("GET /jobs/new/vertices/{vertex}/subtasks/metrics", func(w http.ResponseWriter, r *http.Request) {
		all := map[string]string{ // by name: the answer for agg=sum, which is null for a distribution
			"[2]Count/main_countFn.numRecordsIn": `1`, "mailboxLatencyMs_p75": `1`, "[2]Count/main_countFn.shop_paid": `5`,
			"[2]Count/main_countFn.Keyed_i0_metric_element_count_v1": `1`, "[2]Count/main_countFn.shop_seconds": `null`,
			"[3]{Keyed__Refund}.shop_paid": `2`, "[3]{Keyed__Refund}." + strings.Repeat("long", 500) + "_a": `3`,
			"[3]{Keyed__Refund}." + strings.Repeat("long", 500) + "_b": `4`,
		}
		names := slices.Sorted(maps.Keys(all))
		if get := r.URL.Query().Get("get"); get != "" {
			names = strings.Split(get, ",")
		}
		if len(r.RequestURI) > 4096-len("GET  HTTP/1.1") {
			w.WriteHeader(http.StatusRequestURITooLong)
			return
		}
		var metrics []string
		for _, name := range names {
			if r.URL.Query().Get("agg") == "sum" {
				name += `","sum":` + all[name] + `,"":"`
			}
			metrics = append(metrics, `{"id":"`+name+`"}`)
		}
		if r.PathValue("vertex") != "v1" {
			metrics = nil
		}
		fmt.Fprintf(w, "[%s]", strings.Join(metrics, ","))
	})
	answer("GET /jobs/new/checkpoints", `{"counts":{"completed":3,"failed":1}}`)
	answer("GET /jobs/new/exceptions", `{"exceptionHistory":{"entries":[
		{"timestamp":7,"stacktrace":"java.lang.Exception: DoFn[UID:6, PID:t:Pay, Name: main.payFn] failed:\nno luck\n\tat a.B.c(B.java:1)"},
		{"timestamp":6,"stacktrace":"java.lang.Exception: older"}]}}`)
	mux.HandleFunc("PATCH /jobs/new", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("mode") == "cancel" {
			f.cancelled.Add(1)
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, "{}")
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	f.address = strings.TrimPrefix(s.URL, "http://")
	return f
}

func TestReport(t *testing.T) {
	f := startFakeFlink(t)
	rest := &restAPI{base: "http://" + f.address}
	var err error
	if rest.before, err = rest.jobs(t.Context(), "orders"); err != nil || len(rest.before) != 1 {
		t.Fatalf("%v, %v", rest.before, err)
	}
	jobs := startFakeJobs(t)
	var progress locked
	w := &watch{client: client(t, jobs), id: "job-1", name: "orders", progress: &progress, rest: rest, state: "RUNNING", at: time.Now().Add(-10 * time.Second)}
	w.report(t.Context()) // the job is not there yet
	f.submitted.Store(true)
	w.at = w.at.Add(-10 * time.Second)
	w.report(t.Context())
	w.report(t.Context())
	w.report(t.Context()) // nothing new
	got := strings.Split(strings.TrimSpace(progress.String()), "\n")
	want := []string{
		"flink: job orders: RUNNING",
		"flink: job orders: a bundle failed, Flink starts it again: in step Pay: no luck",
		"flink: job orders: RESTARTING, 3 checkpoints, 1 failed, records 42 (",
		"flink: job orders: RESTARTING, 3 checkpoints, 1 failed, records 42, " + strings.Repeat("long", 500) + "_a 3, " + strings.Repeat("long", 500) + "_b 4, shop_paid 7",
	}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("line %q, want %q", got[i], want[i])
		}
	}
}

// Beam's job server leaves a job that it cancels on a cluster of its own.
func TestContextCancelsTheJobOnTheCluster(t *testing.T) {
	f, jobs := startFakeFlink(t), startFakeJobs(t)
	jobs.script = []*jobpb.JobMessagesResponse{stateOf(jobpb.JobState_RUNNING)}
	jobs.hang = true
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-jobs.streaming
		f.submitted.Store(true)
		cancel()
	}()
	p, s := beam.NewPipelineWithRoot()
	bounded(s)
	_, err := Run(ctx, p, Options{Endpoint: jobs.address, Environment: Loopback, Master: f.address, JobName: "orders"})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "job job-1 was cancelled") {
		t.Error(err)
	}
	if f.cancelled.Load() != 1 || jobs.cancelled != 1 {
		t.Errorf("%d cancellations by the cluster, %d by the job server", f.cancelled.Load(), jobs.cancelled)
	}
}

func TestUnknownClusterIsRefused(t *testing.T) {
	jobs := startFakeJobs(t)
	_, _, err := submitted(t, jobs, bounded, func(o *Options) { o.Master = "127.0.0.1:1" })
	wantError(t, err, "no cluster answers at --flink_master=127.0.0.1:1")
	if jobs.ran != 0 {
		t.Error("the job runs")
	}
}

// The job server takes seconds to put a job on the cluster.
func TestCancelWaitsForTheJob(t *testing.T) {
	f, jobs := startFakeFlink(t), startFakeJobs(t)
	w := &watch{client: client(t, jobs), id: "job-1", name: "orders", rest: &restAPI{base: "http://" + f.address, before: map[string]int64{"old": 5}}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	time.AfterFunc(time.Second, func() { f.submitted.Store(true) })
	if err := w.cancel(ctx); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "may still run") || f.cancelled.Load() != 1 {
		t.Errorf("%d cancellations, %v", f.cancelled.Load(), err)
	}
}

// Another job of the same name is not cancelled, nor shown.
func TestTwoNewJobsOfAName(t *testing.T) {
	f := startFakeFlink(t)
	f.submitted.Store(true)
	rest := &restAPI{base: "http://" + f.address} // "old" is new, too
	wantError(t, rest.find(t.Context(), "orders"), "2 jobs called orders")
	if rest.job != "" {
		t.Errorf("it is taken for %s", rest.job)
	}
}
