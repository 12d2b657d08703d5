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

// The flags that a task manager passes to a boot program, besides those of the SDK's workers.
const (
	provisionFlag = "provision_endpoint"
	artifactFlag  = "artifact_endpoint"
)

// parentVariable tells a boot program or a worker to end when its parent ends. Its value is the
// process id of the parent, or parentOfBoot for whoever starts the program.
const (
	parentVariable = "BEAMAGENTS_WORKER_PARENT"
	parentOfBoot   = "starter"
)

// parentInterval is the time between two checks of the parent.
const parentInterval = 500 * time.Millisecond

func init() {
	defineBootFlags(flag.CommandLine, os.Args[1:])
	if of := os.Getenv(parentVariable); of != "" {
		// Programs that an agent starts must not end with the parent of the worker.
		_ = os.Unsetenv(parentVariable)
		pid := os.Getppid()
		if of != parentOfBoot {
			pid, _ = strconv.Atoi(of)
		}
		go endWith(pid)
	}
	// The SDK's own hook runs first. In a worker it does not return.
	runtime.RegisterInit(boot)
}

// defineBootFlags defines the flags of a boot program, but only in a program that is started as
// one. Other programs may have flags with these names.
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

// flagValue returns the value of a flag, or "" if the flag does not exist.
func flagValue(name string) string {
	if f := flag.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// endWith ends this process when its parent is no longer pid. Flink ends the boot program, which
// it has started, but not the worker.
func endWith(pid int) {
	for os.Getppid() == pid {
		time.Sleep(parentInterval)
	}
	fmt.Fprintln(os.Stderr, "beamagents: the process that started this worker has ended")
	os.Exit(1)
}

// boot does not return if a task manager has started this program as a boot program. Otherwise it
// does nothing.
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

// runWorker asks for the job, fetches the staged program, and runs it as a worker. It returns
// when the worker has ended or this process is told to end.
func runWorker(provision string) error {
	id := flag.Lookup("id").Value.String()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	ctx = grpcx.WriteWorkerID(ctx, id)
	info, err := tools.ProvisionInfo(ctx, provision)
	if err != nil {
		return fmt.Errorf("cannot get the job from %s: %w", provision, err)
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

// workerCommand returns the command that runs the program as a worker.
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
	cmd := exec.CommandContext(ctx, program, //nolint:gosec // the program that was staged with the job, checked by its hash
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

// fetch returns the path of the staged program: this program if it has the same bytes, and
// otherwise a copy in dir.
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
	return "", errors.New("the job has no staged program")
}

// goWorker returns the name and the hash of a staged Go program.
func goWorker(a *pipepb.ArtifactInformation) (name, hash string, err error) {
	if a.GetRoleUrn() != artifact.URNGoWorkerBinaryRole {
		return "", "", errors.New("it is not a Go program")
	}
	var file pipepb.ArtifactFilePayload
	if err := proto.Unmarshal(a.GetTypePayload(), &file); err != nil {
		return "", "", err
	}
	return file.GetPath(), file.GetSha256(), nil
}

// hashOf returns the SHA-256 of a file in hexadecimal, or "" if the file cannot be read.
func hashOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // the file is only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
