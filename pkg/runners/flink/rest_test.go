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
// before. When jobs are submitted, another one comes, and with twice a third one.
type fakeFlink struct {
	address    string
	submission func() string // of the job "new"
	twice      bool
	submitted  atomic.Bool
	begins     atomic.Bool // the jobs have no options yet
	hangs      atomic.Bool // no call is answered
	cancelled  atomic.Int32
	configs    atomic.Int32 // calls for the options of a job
}

func startFakeFlink(t *testing.T) *fakeFlink {
	t.Helper()
	f := &fakeFlink{submission: func() string { return "mine" }}
	mux := http.NewServeMux()
	answer := func(pattern, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
	}
	mux.HandleFunc("GET /jobs/overview", func(w http.ResponseWriter, _ *http.Request) {
		jobs := `{"jid":"old","name":"orders","start-time":5},{"jid":"other","name":"other","start-time":9}`
		if f.submitted.Load() {
			jobs += `,{"jid":"new","name":"orders","start-time":4}` // by a clock that is behind
			if f.twice {
				jobs = `{"jid":"third","name":"orders","start-time":6},` + jobs
			}
		}
		fmt.Fprintf(w, `{"jobs":[%s]}`, jobs)
	})
	mux.HandleFunc("GET /jobs/{job}/config", func(w http.ResponseWriter, r *http.Request) {
		f.configs.Add(1)
		id := r.PathValue("job")
		submission := map[string]string{"old": "before", "third": "another", "new": f.submission()}[id]
		if f.begins.Load() {
			fmt.Fprintf(w, `{"jid":%q,"name":"orders"}`, id)
			return
		}
		fmt.Fprintf(w, `{"jid":%q,"name":"orders","execution-config":{"job-parallelism":-1,"user-config":{"beamagentsSubmission":%q,"jobName":"orders"}}}`, id, submission)
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
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.hangs.Load() {
			<-r.Context().Done()
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	f.address = strings.TrimPrefix(s.URL, "http://")
	return f
}

// rest is the REST API for a job that is submitted next.
func (f *fakeFlink) rest(t *testing.T) *restAPI {
	t.Helper()
	r, err := newREST(t.Context(), f.address, "orders", "mine")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReport(t *testing.T) {
	f := startFakeFlink(t)
	rest := f.rest(t)
	if len(rest.others) != 1 {
		t.Fatalf("%v", rest.others)
	}
	jobs := startFakeJobs(t)
	var progress locked
	w := &watch{client: client(t, jobs), id: "job-1", name: "orders", progress: &progress, rest: rest, state: "RUNNING", at: time.Now().Add(-10 * time.Second), limit: time.Minute}
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
	f.submission, f.twice = jobs.submission, true
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
	w := &watch{client: client(t, jobs), id: "job-1", name: "orders", rest: f.rest(t)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	time.AfterFunc(time.Second, func() { f.submitted.Store(true) })
	if err := w.cancel(ctx); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "may still run") || f.cancelled.Load() != 1 {
		t.Errorf("%d cancellations, %v", f.cancelled.Load(), err)
	}
}

// Another job of the same name is not cancelled, nor shown: the job is the one with the
// submission, whichever the cluster shows first.
func TestTwoNewJobsOfAName(t *testing.T) {
	f := startFakeFlink(t)
	rest := f.rest(t)
	f.twice = true
	f.submitted.Store(true)
	f.submission = func() string { return "of somebody else" }
	for range 2 {
		if err := rest.find(t.Context(), "orders"); !errors.Is(err, errNotThere) || rest.job != "" {
			t.Errorf("it is taken for %s, %v", rest.job, err)
		}
	}
	if n := f.configs.Load(); n != 2 {
		t.Errorf("the options of 2 other jobs were read %d times", n)
	}

	f.submission = func() string { return "mine" }
	rest = &restAPI{base: "http://" + f.address, submission: "mine", others: map[string]bool{}} // "old" is new, too
	if err := rest.find(t.Context(), "orders"); err != nil || rest.job != "new" {
		t.Errorf("it is taken for %q, %v", rest.job, err)
	}
}

// Flink shows the options of a job some time after the job itself.
func TestJobThatBegins(t *testing.T) {
	f := startFakeFlink(t)
	rest := f.rest(t)
	f.submitted.Store(true)
	f.begins.Store(true)
	if err := rest.find(t.Context(), "orders"); !errors.Is(err, errNotThere) {
		t.Error(err)
	}
	f.begins.Store(false)
	if err := rest.find(t.Context(), "orders"); err != nil || rest.job != "new" {
		t.Errorf("it is taken for %q, %v", rest.job, err)
	}
}

// A job server or a cluster that does not answer leaves the progress unknown.
func TestReportWithoutAnswer(t *testing.T) {
	const job, cluster = "the job server does not answer in time", "the cluster does not answer in time"
	for name, test := range map[string]struct {
		jobs, cluster bool // hangs
		want          string
	}{
		"job server":               {true, false, "RESTARTING, 3 checkpoints, 1 failed (progress incomplete: " + job + "), records 42 ("},
		"cluster":                  {false, true, "RUNNING (progress unknown: " + cluster + ")\n"},
		"job server, and cluster":  {true, true, "RUNNING (progress unknown: " + job + ", " + cluster + ")\n"},
		"job server of no cluster": {true, false, "RUNNING (progress unknown: " + job + ")\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, jobs := startFakeFlink(t), startFakeJobs(t)
			var progress locked
			w := &watch{client: client(t, jobs), id: "job-1", name: "orders", progress: &progress, state: "RUNNING", at: time.Now(), limit: time.Second}
			if name != "job server of no cluster" {
				w.rest = f.rest(t)
			}
			f.submitted.Store(true)
			f.hangs.Store(test.cluster)
			if test.jobs {
				jobs.hanging = 1
			}
			w.report(t.Context())
			if got := progress.String(); !strings.Contains(got, "flink: job orders: "+test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// A job server whose metrics hang does not fail the job, and the end of the job is seen.
func TestJobServerThatHangs(t *testing.T) {
	jobs := startFakeJobs(t)
	jobs.script, jobs.hanging = []*jobpb.JobMessagesResponse{stateOf(jobpb.JobState_RUNNING)}, 2
	jobs.later, jobs.hang = []*jobpb.JobMessagesResponse{stateOf(jobpb.JobState_DONE)}, true
	var progress locked
	w := &watch{
		client: client(t, jobs), id: "job-1", name: "orders", progress: &progress, at: time.Now(),
		interval: 10 * time.Millisecond, limit: 50 * time.Millisecond, finalLimit: time.Minute,
	}
	if _, err := w.wait(t.Context()); err != nil {
		t.Error(err)
	}
	const begin, end = "flink: job orders: RUNNING\nflink: job orders: RUNNING (progress unknown: the job server does not answer in time)\n", "flink: job orders: DONE\n"
	if got := progress.String(); !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) {
		t.Errorf("%q, want %q and %q", got, begin, end)
	}
}

// The metrics are part of the result, so a job without them has an error, which says that
// the job itself is done.
func TestJobServerThatHangsAtTheEnd(t *testing.T) {
	jobs := startFakeJobs(t)
	jobs.script, jobs.hanging = []*jobpb.JobMessagesResponse{stateOf(jobpb.JobState_DONE)}, 1
	w := &watch{client: client(t, jobs), id: "job-1", name: "orders", at: time.Now(), interval: time.Minute, finalLimit: 50 * time.Millisecond}
	_, err := w.wait(t.Context())
	wantError(t, err, "job job-1 has ended without an error, but the job server does not return its metrics: ")
}
