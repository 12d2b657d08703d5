package flink

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/harness/init" // makes a program with this runner able to be a worker
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/xlangx"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/runnerlib"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/vet"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
)

// Name is the name of the runner for the flag --runner and for beam.Run.
const Name = "agents-flink"

// dialTimeout is how long the runner waits for the job server.
const dialTimeout = 2 * time.Minute

func init() {
	beam.RegisterRunner(Name, Execute)
}

// Execute runs the pipeline with the options that the flags of the program give; see [Options]
// for the flags. It returns when the job has ended, or with --async when the job is submitted. If
// ctx ends first, or if the program is interrupted with LOOPBACK, Execute cancels the job.
func Execute(ctx context.Context, p *beam.Pipeline) (beam.PipelineResult, error) {
	o, err := fromFlags()
	if err != nil {
		return nil, err
	}
	if *jobopts.Strict {
		if _, err := vet.Execute(ctx, p); err != nil {
			return nil, fmt.Errorf("--beam_strict: %w", err)
		}
	}
	if o.Environment = strings.ToUpper(o.Environment); o.Environment == Loopback {
		// Without this process, which is its worker, the job would restart for ever. A second
		// signal ends the process at once.
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
	}
	return Run(ctx, p, o)
}

// Run runs the pipeline with the given options and ignores the flags of the program. It returns
// when the job has ended, or with Async when the job is submitted. If ctx ends first, Run cancels
// the job. If the job fails, the error is a *JobError.
func Run(ctx context.Context, p *beam.Pipeline, o Options) (beam.PipelineResult, error) {
	result, err := o.run(ctx, p)
	return result, forTerminal(err)
}

func (o *Options) run(ctx context.Context, p *beam.Pipeline) (beam.PipelineResult, error) {
	if !beam.Initialized() {
		return nil, errors.New("the program has not called beam.Init: call it at the start of main, before the pipeline is built")
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	edges, _, err := p.Build()
	if err != nil {
		return nil, err
	}
	xlangx.ResolveArtifacts(ctx, edges, nil)
	env, stop, err := o.environment(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	pipeline, err := graphx.Marshal(edges, &graphx.Options{
		Environment:           env,
		PipelineResourceHints: jobopts.GetPipelineResourceHints(),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot describe the pipeline to the job server: %w", err)
	}
	if err := o.check(pipeline); err != nil {
		return nil, err
	}
	if err := stableIDs(pipeline); err != nil {
		return nil, err
	}
	return o.submit(ctx, pipeline)
}

// submit sends the pipeline to the job server, and waits for the end of the job unless Async is
// set.
func (o *Options) submit(ctx context.Context, pipeline *pipepb.Pipeline) (beam.PipelineResult, error) {
	worker, err := o.stageWorker(pipeline)
	if err != nil {
		return nil, err
	}
	defer worker.remove()

	submission := rand.Text()
	options, err := o.pipelineOptions(pipeline, submission)
	if err != nil {
		return nil, err
	}
	cc, err := grpcx.Dial(ctx, o.Endpoint, dialTimeout)
	if err != nil {
		return nil, fmt.Errorf("no job server answers at --endpoint=%s: %w", o.Endpoint, err)
	}
	defer func() { _ = cc.Close() }()
	client := jobpb.NewJobServiceClient(cc)

	prepared, err := client.Prepare(ctx, &jobpb.PrepareJobRequest{Pipeline: pipeline, PipelineOptions: options, JobName: o.JobName})
	if err != nil {
		return nil, fmt.Errorf("the job server at %s refuses the pipeline: %w", o.Endpoint, err)
	}
	token, err := runnerlib.Stage(ctx, prepared.GetPreparationId(), prepared.GetArtifactStagingEndpoint().GetUrl(), worker.path, prepared.GetStagingSessionToken())
	if err != nil {
		return nil, fmt.Errorf("cannot stage %s: %w", worker.path, err)
	}
	var rest *restAPI
	if o.Master != "" {
		if rest, err = newREST(ctx, o.Master, o.JobName, submission); err != nil {
			return nil, fmt.Errorf("no cluster answers at --flink_master=%s: %w", o.Master, err)
		}
	}
	id, err := start(ctx, client, prepared.GetPreparationId(), token)
	if err != nil {
		return nil, fmt.Errorf("the job server at %s cannot start the job: %w", o.Endpoint, err)
	}
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, "flink: job %s submitted to %s (%s)\n", oneLine(o.JobName), o.Endpoint, oneLine(id))
	}
	if o.Async {
		return &result{id: id}, nil
	}
	return o.wait(ctx, client, id, pipeline, rest)
}

// start starts the job. If ctx ends meanwhile, the job may be running, so start still gets its
// id, which is needed to cancel the job.
func start(ctx context.Context, client jobpb.JobServiceClient, prepared, token string) (id string, err error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	submission, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-submission.Done():
		case <-time.After(cancelTimeout):
			stop()
		}
	})()
	return runnerlib.Submit(submission, client, prepared, token)
}

// worker is the program to stage.
type worker struct {
	path      string
	temporary bool
}

func (w worker) remove() {
	if w.temporary {
		_ = os.Remove(w.path)
	}
}

// stageWorker adds the program that runs the pipeline's functions to the pipeline, with its hash.
func (o *Options) stageWorker(pipeline *pipepb.Pipeline) (worker, error) {
	w := worker{path: o.WorkerBinary}
	switch {
	case o.Environment == Loopback:
		// This process is the worker, but the job server needs a file all the same.
		f, err := os.CreateTemp("", "beamagents-loopback-*")
		if err != nil {
			return worker{}, err
		}
		w = worker{path: f.Name(), temporary: true}
		if err := f.Close(); err != nil {
			return worker{}, err
		}
	case w.path == "":
		self, err := os.Executable()
		if err != nil {
			return worker{}, fmt.Errorf("cannot find this program to stage it, name it with --worker_binary: %w", err)
		}
		w.path = self
	}
	if err := runnerlib.UpdateGoEnvironmentWorker(w.path, pipeline); err != nil {
		w.remove()
		return worker{}, fmt.Errorf("cannot stage %s: %w", w.path, err)
	}
	return w, nil
}
