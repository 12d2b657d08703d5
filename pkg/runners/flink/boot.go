package flink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/artifact"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
	"google.golang.org/protobuf/proto"
)

// Flags that a task manager gives to a boot program, beside those of the SDK's workers.
const (
	provisionFlag = "provision_endpoint"
	artifactFlag  = "artifact_endpoint"
)

// parentVariable tells a boot program and a worker to end when their parent does. Its
// value is the parent's process id, or parentOfBoot for whoever starts the program.
const (
	parentVariable = "BEAMAGENTS_WORKER_PARENT"
	parentOfBoot   = "starter"
)

// parentInterval is how often a process looks for its parent.
const parentInterval = 500 * time.Millisecond

func init() {
	defineBootFlags(flag.CommandLine, os.Args[1:])
	if of := os.Getenv(parentVariable); of != "" {
		// What an agent starts is not to end with the worker's parent.
		_ = os.Unsetenv(parentVariable)
		pid := os.Getppid()
		if of != parentOfBoot {
			pid, _ = strconv.Atoi(of)
		}
		go endWith(pid)
	}
	// The SDK's own hook runs first, and does not return in a worker.
	runtime.RegisterInit(boot)
}

// defineBootFlags defines the flags of a boot program in a program that is started as one.
// Any other program may have flags of these names.
func defineBootFlags(flags *flag.FlagSet, args []string) {
	for name, usage := range map[string]string{
		provisionFlag: "Start as the boot program of a worker, which the task manager tells where to ask for its job.",
		artifactFlag:  "Where a boot program fetches the staged program.",
	} {
		given := slices.ContainsFunc(args, func(arg string) bool {
			arg, _, _ = strings.Cut(arg, "=")
			return arg == "-"+name || arg == "--"+name
		})
		if given && flags.Lookup(name) == nil {
			flags.String(name, "", usage)
		}
	}
}

// flagValue is the value of a flag, empty if there is no such flag.
func flagValue(name string) string {
	if f := flag.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// endWith ends this process when its parent is another than pid. Flink ends the process
// that it has started, which is the boot program, and nobody else would end the worker.
func endWith(pid int) {
	for os.Getppid() == pid {
		time.Sleep(parentInterval)
	}
	fmt.Fprintln(os.Stderr, "beamagents: the process that started this worker has ended")
	os.Exit(1)
}

// boot makes this program the boot program of a worker, if a task manager has started it
// as one. Then it does not return.
func boot() {
	provision := flagValue(provisionFlag)
	if provision == "" {
		return
	}
	if err := runWorker(provision); err != nil {
		fmt.Fprintln(os.Stderr, "beamagents: worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runWorker asks for the job, fetches the staged program, and runs it as a worker until it
// ends or this process is told to end.
func runWorker(provision string) error {
	id := flag.Lookup("id").Value.String()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	ctx = grpcx.WriteWorkerID(ctx, id)
	info, err := tools.ProvisionInfo(ctx, provision)
	if err != nil {
		return fmt.Errorf("no word on the job from %s: %w", provision, err)
	}
	dir, err := os.MkdirTemp("", "beamagents-worker-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, err := fetch(ctx, info, dir)
	if err != nil {
		return fmt.Errorf("cannot fetch the staged program: %w", err)
	}
	cmd, err := workerCommand(ctx, program, id, dir, info)
	if err != nil {
		return err
	}
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the worker has ended: %w", err)
	}
	return nil
}

// workerCommand is the command that runs the program as a worker.
func workerCommand(ctx context.Context, program, id, dir string, info *fnpb.ProvisionInfo) (*exec.Cmd, error) {
	options, err := tools.ProtoToJSON(info.GetPipelineOptions())
	if err != nil {
		return nil, fmt.Errorf("the job's options: %w", err)
	}
	file := filepath.Join(dir, "pipeline_options.json")
	if err := os.WriteFile(file, []byte(options), 0o600); err != nil {
		return nil, err
	}
	endpoint := func(flagName string, of *pipepb.ApiServiceDescriptor) string {
		if url := of.GetUrl(); url != "" {
			return url
		}
		return flagValue(flagName)
	}
	cmd := exec.CommandContext(ctx, program, //nolint:gosec // the program that was staged with the job, by its hash
		"--worker=true",
		"--id="+id,
		"--logging_endpoint="+endpoint("logging_endpoint", info.GetLoggingEndpoint()),
		"--control_endpoint="+endpoint("control_endpoint", info.GetControlEndpoint()),
		"--semi_persist_dir="+dir,
	)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		parentVariable+"="+strconv.Itoa(os.Getpid()),
		"PIPELINE_OPTIONS_FILE="+file,
		"RUNNER_CAPABILITIES="+strings.Join(info.GetRunnerCapabilities(), " "),
		"STATUS_ENDPOINT="+info.GetStatusEndpoint().GetUrl(),
	)
	return cmd, nil
}

// fetch is the path of the staged program: this one if its bytes are those of the staged
// one, else a copy in dir.
func fetch(ctx context.Context, info *fnpb.ProvisionInfo, dir string) (string, error) {
	if self, err := os.Executable(); err == nil {
		for _, d := range info.GetDependencies() {
			if _, hash, err := goWorker(d); err == nil && hash != "" && hash == hashOf(self) {
				return self, nil
			}
		}
	}
	endpoint := info.GetArtifactEndpoint().GetUrl()
	if endpoint == "" {
		endpoint = flagValue(artifactFlag)
	}
	artifacts, err := artifact.Materialize(artifact.WithArtifactValidation(ctx, true), endpoint, info.GetDependencies(), info.GetRetrievalToken(), dir)
	if err != nil {
		return "", err
	}
	for _, a := range artifacts {
		name, _, err := goWorker(a)
		if err != nil {
			continue
		}
		program := filepath.Join(dir, name)
		return program, os.Chmod(program, 0o700) //nolint:gosec // a program has to be executable
	}
	return "", errors.New("none was staged with the job")
}

// goWorker is the name and the hash of a staged Go program.
func goWorker(a *pipepb.ArtifactInformation) (name, hash string, err error) {
	if a.GetRoleUrn() != artifact.URNGoWorkerBinaryRole {
		return "", "", errors.New("this is no Go program")
	}
	var file pipepb.ArtifactFilePayload
	if err := proto.Unmarshal(a.GetTypePayload(), &file); err != nil {
		return "", "", err
	}
	return file.GetPath(), file.GetSha256(), nil
}

// hashOf is the SHA-256 of a file in hexadecimal, empty if it cannot be read.
func hashOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
