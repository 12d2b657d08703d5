package flink

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/hooks"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
)

// submitted runs a pipeline on a fake job server in an environment that starts nothing.
func submitted(t *testing.T, f *fakeJobs, build func(s beam.Scope), set func(*Options)) (beam.PipelineResult, string, error) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(program, []byte("the program"), 0o600); err != nil {
		t.Fatal(err)
	}
	var progress locked
	o := Options{
		Endpoint: f.address, JobName: "orders", Environment: External, EnvironmentConfig: "127.0.0.1:50000",
		WorkerBinary: program, Progress: &progress,
	}
	set(&o)
	p, s := beam.NewPipelineWithRoot()
	build(s)
	r, err := Run(t.Context(), p, o)
	return r, progress.String(), err
}

func TestSubmit(t *testing.T) {
	f := startFakeJobs(t)
	f.script = []*jobpb.JobMessagesResponse{stateOf(jobpb.JobState_STARTING), stateOf(jobpb.JobState_RUNNING), stateOf(jobpb.JobState_RUNNING), stateOf(jobpb.JobState_DONE)}
	f.metrics.Committed = []*pipepb.MonitoringInfo{{
		Urn: "beam:metric:user:sum_int64:v1", Type: "beam:metrics:sum_int64:v1", Payload: []byte{7},
		Labels: map[string]string{"PTRANSFORM": "t:flink.runnerCountFn", "NAMESPACE": "orders", "NAME": "paid"},
	}}
	r, progress, err := submitted(t, f, bounded, func(o *Options) { o.Extra = []string{"state_backend=rocksdb", "object_reuse=true"} })
	if err != nil {
		t.Fatal(err)
	}
	if r.JobID() != "job-1" || f.staged != len("the program") || f.ran != 1 {
		t.Errorf("job %s, %d bytes staged, %d runs", r.JobID(), f.staged, f.ran)
	}
	counters := r.Metrics().AllMetrics().Counters()
	if len(counters) != 1 || counters[0].Key.Step != "flink.runnerCountFn" || counters[0].Committed != 7 {
		t.Errorf("counters %+v", counters)
	}
	want := "flink: job orders submitted to " + f.address + " (job-1)\nflink: job orders: STARTING\nflink: job orders: RUNNING\nflink: job orders: DONE\n"
	if progress != want {
		t.Errorf("progress %q, want %q", progress, want)
	}

	if f.prepared.GetJobName() != "orders" {
		t.Errorf("the job is called %q", f.prepared.GetJobName())
	}
	options := f.prepared.GetPipelineOptions().AsMap()
	for name, want := range map[string]any{
		"job_name": "orders", "app_name": "orders", "streaming": true, "state_backend": "rocksdb", "object_reuse": true,
		"max_parallelism": 128.0, "operator_chaining": false, "checkpointing_interval": nil,
	} {
		if got := options["beam:option:"+name+":v1"]; got != want {
			t.Errorf("option %s is %v, want %v", name, got, want)
		}
	}
	experiments, _ := options["beam:option:experiments:v1"].([]any)
	if len(experiments) != 1 || experiments[0] != "beam_fn_api" {
		t.Errorf("experiments %v", experiments)
	}
	for id := range f.prepared.GetPipeline().GetComponents().GetTransforms() {
		if !strings.HasPrefix(id, transformPrefix) {
			t.Errorf("transform %s", id)
		}
	}
}

func TestRefusedPipelineIsNotSubmitted(t *testing.T) {
	f := startFakeJobs(t)
	_, _, err := submitted(t, f, sideInput, func(*Options) {})
	wantError(t, err, "side input")
	if f.prepared != nil {
		t.Error("the job server has the pipeline")
	}
}

// An error of the job server, or one with the name of a step, may have any text.
func TestErrorsAreForATerminal(t *testing.T) {
	f := startFakeJobs(t)
	f.refuse = status.Error(codes.Internal, "no \x1b[2J\u202ecoder\nin A")
	_, _, err := submitted(t, f, bounded, func(*Options) {})
	wantError(t, err, "no \ufffd[2J\ufffdcoder\nin A")
	if status.Code(err) != codes.Internal {
		t.Errorf("the code of %v is lost", err)
	}
	_, _, err = submitted(t, f, func(s beam.Scope) { beam.ParDo(s.Scope("A\x1b[2J"), newFamilies(), keyed(s)) }, func(*Options) {})
	wantError(t, err, "step A\ufffd[2J/flink.runnerFamiliesFn has")
}

func TestAsyncDoesNotWait(t *testing.T) {
	f := startFakeJobs(t)
	f.hang = true
	r, _, err := submitted(t, f, bounded, func(o *Options) { o.Async = true })
	if err != nil || r.JobID() != "job-1" || len(r.Metrics().AllMetrics().Counters()) != 0 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestFailures(t *testing.T) {
	done := []*jobpb.JobMessagesResponse{stateOf(jobpb.JobState_RUNNING)}
	for name, test := range map[string]struct {
		script []*jobpb.JobMessagesResponse
		want   JobError
	}{
		"error before the state": {append(done, errorOf("DoFn[UID:6, PID:t:Count/main.countFn, Name: main.countFn] failed:\nno luck"), stateOf(jobpb.JobState_FAILED)),
			JobError{Step: "Count/main.countFn", Reason: "no luck"}},
		"error after the state": {append(done, stateOf(jobpb.JobState_FAILED), errorOf("java.lang.IllegalStateException: no slots")),
			JobError{Reason: "no slots"}},
		"no word":   {append(done, stateOf(jobpb.JobState_FAILED)), JobError{Reason: "the job server gave no reason: read its log and the task manager's"}},
		"cancelled": {append(done, stateOf(jobpb.JobState_CANCELLED)), JobError{Cancelled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			f := startFakeJobs(t)
			f.script = test.script
			_, _, err := submitted(t, f, bounded, func(*Options) {})
			var got *JobError
			if !errors.As(err, &got) {
				t.Fatal(err)
			}
			if got.JobID != "job-1" || got.Step != test.want.Step || got.Reason != test.want.Reason && !got.Cancelled || got.Cancelled != test.want.Cancelled {
				t.Errorf("%+v", got)
			}
			if strings.Contains(got.Error(), "\n") {
				t.Errorf("a text of several lines: %v", got)
			}
		})
	}
}

// A stream that ends without a final state does not mean that the job is done.
func TestJobServerThatGoes(t *testing.T) {
	f := startFakeJobs(t)
	f.script = []*jobpb.JobMessagesResponse{stateOf(jobpb.JobState_RUNNING)}
	_, _, err := submitted(t, f, bounded, func(*Options) {})
	wantError(t, err, "which may still run")
}

func TestContextCancelsTheJob(t *testing.T) {
	f := startFakeJobs(t)
	f.script = []*jobpb.JobMessagesResponse{stateOf(jobpb.JobState_RUNNING)}
	f.hang = true
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-f.streaming
		cancel()
	}()
	p, s := beam.NewPipelineWithRoot()
	bounded(s)
	_, err := Run(ctx, p, Options{Endpoint: f.address, Environment: Loopback})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if f.cancelled != 1 {
		t.Errorf("%d cancellations", f.cancelled)
	}
}

// LOOPBACK listens on the loopback interface, and its worker is not staged.
func TestLoopback(t *testing.T) {
	f := startFakeJobs(t)
	f.script = []*jobpb.JobMessagesResponse{stateOf(jobpb.JobState_DONE)}
	p, s := beam.NewPipelineWithRoot()
	bounded(s)
	if _, err := Run(t.Context(), p, Options{Endpoint: f.address, Environment: "loopback"}); err != nil {
		t.Fatal(err)
	}
	if f.staged != 0 {
		t.Errorf("%d bytes staged", f.staged)
	}
	if f.prepared.GetJobName() == "" {
		t.Error("the job has no name")
	}
	for _, env := range f.prepared.GetPipeline().GetComponents().GetEnvironments() {
		if !bytes.Contains(env.GetPayload(), []byte("localhost:")) {
			t.Errorf("the workers are at %q", env.GetPayload())
		}
	}
}

func TestHooksAreSent(t *testing.T) {
	hooks.RegisterHook("flinkrunner_test", func([]string) hooks.Hook { return hooks.Hook{} })
	if err := hooks.EnableHook("flinkrunner_test", "an argument"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hooks.DisableHook("flinkrunner_test") })
	f := startFakeJobs(t)
	if _, _, err := submitted(t, f, bounded, func(o *Options) { o.Async = true }); err != nil {
		t.Fatal(err)
	}
	sent := f.prepared.GetPipelineOptions().AsMap()["beam:option:go_options:v1"].(map[string]any)["options"].(map[string]any)
	if got, _ := sent["hooks"].(string); !strings.Contains(got, "an argument") {
		t.Errorf("hooks %q", got)
	}
}

// What a worker finds in its environment is in no option and in no part of the pipeline,
// since Flink shows both. The environment of PROCESS is sent as it was given.
func TestEnvironmentOfTheSubmitterIsNotSent(t *testing.T) {
	t.Setenv("API_KEY", "hunter2hunter2")
	f := startFakeJobs(t)
	if _, _, err := submitted(t, f, bounded, func(o *Options) { o.Async, o.Environment, o.EnvironmentConfig = true, Process, "" }); err != nil {
		t.Fatal(err)
	}
	if text := prototext.Format(f.prepared); strings.Contains(text, "hunter2") {
		t.Error("the variable is in the request")
	}
	for _, env := range f.prepared.GetPipeline().GetComponents().GetEnvironments() {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(env.GetPayload(), []byte(self)) || !bytes.Contains(env.GetPayload(), []byte(parentVariable)) {
			t.Errorf("the boot program is %q", env.GetPayload())
		}
	}
}

func TestSecretOfTheProgramIsRefused(t *testing.T) {
	beam.PipelineOptions.Set("flinkrunner_api_key", "hunter2hunter2")
	t.Cleanup(func() { beam.PipelineOptions.Set("flinkrunner_api_key", "") })
	f := startFakeJobs(t)
	_, _, err := submitted(t, f, bounded, func(o *Options) { o.Async = true })
	wantError(t, err, `"flinkrunner_api_key" looks like a secret`)
	if strings.Contains(err.Error(), "hunter2") || f.prepared != nil {
		t.Errorf("sent, or in the error: %v", err)
	}
}

// A flag of the program that begins as ours do is the program's, and workers read it.
func TestFlagsOfTheProgramAreSent(t *testing.T) {
	beam.PipelineOptions.Set("flink_topic", "orders")
	t.Cleanup(func() { beam.PipelineOptions.Set("flink_topic", "") })
	set(t, map[string]string{"flink_progress": "false", "flink_option": "a=b"})
	f := startFakeJobs(t)
	if _, _, err := submitted(t, f, bounded, func(o *Options) { o.Async = true }); err != nil {
		t.Fatal(err)
	}
	sent := f.prepared.GetPipelineOptions().AsMap()["beam:option:go_options:v1"].(map[string]any)["options"].(map[string]any)
	if sent["flink_topic"] != "orders" {
		t.Errorf("flink_topic is %v", sent["flink_topic"])
	}
	for name := range ownFlags {
		if _, ok := sent[name]; ok {
			t.Errorf("%s is sent", name)
		}
	}
}

// The job may have started when the context ends during the call that starts it.
func TestContextThatEndsAtTheSubmission(t *testing.T) {
	f := startFakeJobs(t)
	f.hang = true
	ctx, cancel := context.WithCancel(t.Context())
	f.running = func() {
		cancel()
		time.Sleep(100 * time.Millisecond) // time for a call that ends with the context to end
	}
	p, s := beam.NewPipelineWithRoot()
	bounded(s)
	_, err := Run(ctx, p, Options{Endpoint: f.address, Environment: Loopback})
	if !errors.Is(err, context.Canceled) || f.cancelled != 1 {
		t.Errorf("%d cancellations, %v", f.cancelled, err)
	}
}

// Two pipelines of a process run beside each other, and one after the other.
func TestPipelinesOfOneProcess(t *testing.T) {
	var names sync.Map
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			f := startFakeJobs(t)
			f.script = []*jobpb.JobMessagesResponse{stateOf(jobpb.JobState_DONE)}
			for range 2 {
				p, s := beam.NewPipelineWithRoot()
				bounded(s)
				if _, err := Run(t.Context(), p, Options{Endpoint: f.address, Environment: Loopback}); err != nil {
					t.Error(err)
				}
				if _, twice := names.LoadOrStore(f.prepared.GetJobName(), true); twice {
					t.Errorf("two jobs are called %s", f.prepared.GetJobName())
				}
			}
		})
	}
	all.Wait()
}

func TestRefusalsLeaveNoFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for name, prepare := range map[string]func(f *fakeJobs){
		"prepare": func(f *fakeJobs) { f.refuse = errors.New("no pipelines today") },
		"stage":   func(f *fakeJobs) { f.stageAt = "127.0.0.1:1" },
		"gone":    func(f *fakeJobs) { f.running = f.stop },
	} {
		t.Run(name, func(t *testing.T) {
			f := startFakeJobs(t)
			prepare(f)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			p, s := beam.NewPipelineWithRoot()
			bounded(s)
			_, err := Run(ctx, p, Options{Endpoint: f.address, Environment: Loopback})
			if err == nil {
				t.Error("no error")
			}
			t.Log(err)
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
