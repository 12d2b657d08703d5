package flink

import (
	"fmt"
	"maps"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/hooks"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// pipelineOptions returns the options as the job server takes them: those of the Java
// runner, those of the Go SDK, which the workers read, and the submission by which the
// runner finds the job on the cluster.
func (o *Options) pipelineOptions(p *pipepb.Pipeline, submission string) (*structpb.Struct, error) {
	sdk, err := sdkOptions()
	if err != nil {
		return nil, err
	}
	options := o.javaOptions(p)
	extra, err := o.extra()
	if err != nil {
		return nil, err
	}
	maps.Copy(options, extra)
	experiments := []any{}
	for _, e := range append(slices.Clone(o.Experiments), "beam_fn_api") {
		experiments = append(experiments, e)
	}
	maps.Copy(options, map[string]any{
		"go_options":               map[string]any{"options": sdk},
		submissionOption:           submission,
		"app_name":                 o.JobName,
		"job_name":                 o.JobName,
		"experiments":              experiments,
		"runner":                   "",
		"retain_docker_containers": o.RetainDocker,
	})
	named := make(map[string]any, len(options))
	for name, value := range options {
		named["beam:option:"+name+":v1"] = value
	}
	s, err := structpb.NewStruct(named)
	if err != nil {
		return nil, fmt.Errorf("cannot send the options: %w", err)
	}
	return s, nil
}

// javaOptions returns the options of Flink's runner, each with its reason.
func (o *Options) javaOptions(p *pipepb.Pipeline) map[string]any {
	options := map[string]any{
		// Without streaming, the runner ends bundles only at checkpoints.
		"streaming": !o.Batch,
		// The first start divides keyed state into this many parts, and that cannot be changed
		// later. Flink's own default depends on the first parallelism, so the job could hardly
		// grow.
		"max_parallelism": o.MaxParallelism,
		// With chaining, the address of an Impulse's state changes with the parallelism.
		"operator_chaining": o.Chaining,
	}
	if !o.Batch {
		options["max_bundle_time_mills"] = o.BundleTime.Milliseconds()
	}
	if o.Parallelism > 0 {
		options["parallelism"] = o.Parallelism
	} else {
		options["parallelism"] = -1
	}
	if interval := o.checkpointInterval(p); interval > 0 {
		options["checkpointing_interval"] = interval.Milliseconds()
		options["checkpoint_timeout_millis"] = o.CheckpointTimeout.Milliseconds()
		// Without it, the elements of a bundle that is open at a checkpoint are lost when the job
		// is restored.
		options["finish_bundle_before_checkpointing"] = true
		// Keep the last checkpoint when a job is cancelled or fails for good.
		options["externalized_checkpoints_enabled"] = true
		options["retain_externalized_checkpoints_on_cancellation"] = true
	}
	if o.Master != "" {
		options["flink_master"] = o.Master
	}
	if o.Savepoint != "" {
		options["savepoint_path"] = o.Savepoint
		options["allow_non_restored_state"] = o.AllowNonRestoredState
	}
	return options
}

// notForWorkers reports whether an option is only for the submission. The configuration of an
// environment may hold variables for a worker, and those must not appear in a web page.
func notForWorkers(name string) bool {
	return name == "environment_config" || name == "endpoint" || ownFlags[name]
}

// sdkOptions returns the content of beam.PipelineOptions, including the program's flags, as the
// SDK's own runners do.
func sdkOptions() (map[string]any, error) {
	hooks.SerializeHooksToOptions()
	beam.PipelineOptions.LoadOptionsFromFlags(nil)
	options := map[string]any{}
	all := beam.PipelineOptions.Export().Options
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if notForWorkers(name) {
			continue
		}
		if looksSecret(name, all[name]) {
			return nil, fmt.Errorf("the flag or pipeline option %q looks like a secret, and Flink shows every option in its web page: give a reference such as env:NAME or file:PATH, and let the worker read it", name)
		}
		options[name] = all[name]
	}
	return options, nil
}
