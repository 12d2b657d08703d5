package flink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/extworker"
	"google.golang.org/protobuf/proto"
)

// validateEnvironment checks the environment and fills in its defaults.
func (o *Options) validateEnvironment() error {
	switch o.Environment {
	case Loopback:
		switch {
		case o.Async:
			return errors.New("--async with --environment_type=LOOPBACK would leave a job without a worker, since this process is the worker: leave out --async, or use PROCESS or EXTERNAL")
		case o.EnvironmentConfig != "":
			return errors.New("--environment_type=LOOPBACK does not take --environment_config, because this process is the worker: leave it out")
		}
	case Process:
		if o.EnvironmentConfig == "" {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("cannot find this program, which is its own boot program: give --environment_config={\"command\":PATH}: %w", err)
			}
			config, err := json.Marshal(map[string]string{"command": self})
			if err != nil {
				return err
			}
			o.EnvironmentConfig = string(config)
		}
	case External:
		if o.EnvironmentConfig == "" {
			return errors.New("--environment_type=EXTERNAL needs --environment_config=HOST:PORT of a worker pool beside the task manager")
		}
	case Docker:
		if o.EnvironmentConfig == "" {
			o.EnvironmentConfig = core.DefaultDockerImage
		}
	case "":
		return errors.New("--environment_type is missing: use LOOPBACK for development, PROCESS for workers beside the task manager, EXTERNAL for a worker pool, DOCKER for containers")
	default:
		return fmt.Errorf("--environment_type=%s is not valid: use LOOPBACK, PROCESS, EXTERNAL or DOCKER", o.Environment)
	}
	return nil
}

// urnOf maps the environments to their URNs.
var urnOf = map[string]string{
	Loopback: graphx.URNEnvExternal, External: graphx.URNEnvExternal,
	Process: graphx.URNEnvProcess, Docker: graphx.URNEnvDocker,
}

// environment describes where the pipeline's functions run. stop ends what environment has
// started.
func (o *Options) environment(ctx context.Context) (env *pipepb.Environment, stop func(), err error) {
	config := func(context.Context) string { return o.EnvironmentConfig }
	stop = func() {}
	if o.Environment == Loopback {
		server, err := extworker.StartLoopback(ctx, 0)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot listen for the workers of LOOPBACK: %w", err)
		}
		config = server.EnvironmentConfig
		stop = func() { _ = server.Stop(context.WithoutCancel(ctx)) }
	}
	env, err = graphx.CreateEnvironment(ctx, urnOf[o.Environment], config)
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("--environment_config: %w", err)
	}
	if o.Environment == Process {
		if err := endWithStarter(env); err != nil {
			return nil, nil, err
		}
	}
	return env, stop, nil
}

// endWithStarter makes the boot program and the worker end when the program that started them
// ends, whichever boot program is used.
func endWithStarter(env *pipepb.Environment) error {
	var process pipepb.ProcessPayload
	if err := proto.Unmarshal(env.GetPayload(), &process); err != nil {
		return err
	}
	if process.Env == nil {
		process.Env = map[string]string{}
	}
	process.Env[parentVariable] = parentOfBoot
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(&process)
	if err != nil {
		return err
	}
	env.Payload = payload
	return nil
}
