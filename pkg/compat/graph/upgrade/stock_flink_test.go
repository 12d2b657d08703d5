//go:build flink

package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/extworker"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/runnerlib"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/beamagents/beamagents-go/pkg/compat"
)

// runStock submits a pipeline as the SDK's own runner does, with the SDK's ids, and waits
// for its end. The SDK's runner sends six options, none of them Flink's, so that its jobs
// have no checkpoint and cannot be given a savepoint. Runs of the matrix add the options
// without which there is no savepoint, and options of the case.
func runStock(ctx context.Context, endpoint string, p *beam.Pipeline, name, savepoint string, platform compat.Platform) error {
	edges, _, err := p.Build()
	if err != nil {
		return err
	}
	server, err := extworker.StartLoopback(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop(context.WithoutCancel(ctx)) }()
	urn, config := graphx.URNEnvExternal, server.EnvironmentConfig
	if platform.Environment == graphx.URNEnvProcess {
		urn, config = platform.Environment, func(context.Context) string { return `{"command":"/bin/false"}` }
	}
	env, err := graphx.CreateEnvironment(ctx, urn, config)
	if err != nil {
		return err
	}
	pipeline, err := graphx.Marshal(edges, &graphx.Options{Environment: env})
	if err != nil {
		return err
	}
	worker, err := os.CreateTemp("", "upgrade-*")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(worker.Close(), os.Remove(worker.Name())) }()
	if err := runnerlib.UpdateGoEnvironmentWorker(worker.Name(), pipeline); err != nil {
		return err
	}
	options := map[string]any{
		"go_options": map[string]any{"options": map[string]any{}}, "app_name": name, "job_name": name, "experiments": []any{"beam_fn_api"},
		"parallelism": 1, "retain_docker_containers": false, "runner": "",
		"checkpointing_interval": checkpointInterval.Milliseconds(), "finish_bundle_before_checkpointing": true, "streaming": true, "max_bundle_time_mills": 100,
	}
	if savepoint != "" {
		options["savepoint_path"] = savepoint
	}
	if platform.Parallelism > 0 {
		options["parallelism"] = platform.Parallelism
	}
	if platform.MaxParallelism > 0 {
		options["max_parallelism"] = platform.MaxParallelism
	}
	if platform.Chaining != "" {
		options["operator_chaining"] = platform.Chaining == compat.Chaining(true)
	}
	urns := map[string]any{}
	for k, v := range options {
		urns["beam:option:"+k+":v1"] = v
	}
	st, err := structpb.NewStruct(urns)
	if err != nil {
		return err
	}
	cc, err := grpcx.Dial(ctx, endpoint, startLimit)
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }()
	client := jobpb.NewJobServiceClient(cc)
	prepared, err := client.Prepare(ctx, &jobpb.PrepareJobRequest{Pipeline: pipeline, PipelineOptions: st, JobName: name})
	if err != nil {
		return err
	}
	token, err := runnerlib.Stage(ctx, prepared.GetPreparationId(), prepared.GetArtifactStagingEndpoint().GetUrl(), worker.Name(), prepared.GetStagingSessionToken())
	if err != nil {
		return err
	}
	id, err := runnerlib.Submit(ctx, client, prepared.GetPreparationId(), token)
	if err != nil {
		return err
	}
	stream, err := client.GetMessageStream(ctx, &jobpb.JobMessagesRequest{JobId: id})
	if err != nil {
		return err
	}
	last := ""
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if text := m.GetMessageResponse(); text.GetImportance() >= jobpb.JobMessage_JOB_MESSAGE_ERROR {
			last = text.GetMessageText()
		}
		if state := m.GetStateResponse().GetState(); state == jobpb.JobState_FAILED {
			return fmt.Errorf("the job failed: %s", last)
		} else if state == jobpb.JobState_DONE || state == jobpb.JobState_CANCELLED {
			return nil
		}
	}
}
