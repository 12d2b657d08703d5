//go:build unix

package flink

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/artifact"
	fnpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/fnexecution_v1"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// fakeTaskManager is what a task manager is to its workers.
type fakeTaskManager struct {
	fnpb.UnimplementedProvisionServiceServer
	fnpb.UnimplementedBeamFnControlServer
	jobpb.UnimplementedArtifactRetrievalServiceServer

	address string
	program []byte // staged
	hash    string
	called  chan struct{} // a worker has called
}

func startFakeTaskManager(t *testing.T, program []byte, hash string) *fakeTaskManager {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeTaskManager{address: l.Addr().String(), program: program, hash: hash, called: make(chan struct{}, 1)}
	s := grpc.NewServer()
	fnpb.RegisterProvisionServiceServer(s, f)
	fnpb.RegisterBeamFnControlServer(s, f)
	jobpb.RegisterArtifactRetrievalServiceServer(s, f)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return f
}

func (f *fakeTaskManager) GetProvisionInfo(context.Context, *fnpb.GetProvisionInfoRequest) (*fnpb.GetProvisionInfoResponse, error) {
	options, err := structpb.NewStruct(map[string]any{"beam:option:go_options:v1": map[string]any{"options": map[string]any{"hookOrder": "[]", "hooks": "{}", "answer": "42"}}})
	if err != nil {
		return nil, err
	}
	payload, err := proto.Marshal(&pipepb.ArtifactFilePayload{Path: "worker", Sha256: f.hash})
	if err != nil {
		return nil, err
	}
	here := &pipepb.ApiServiceDescriptor{Url: f.address}
	return &fnpb.GetProvisionInfoResponse{Info: &fnpb.ProvisionInfo{
		PipelineOptions: options, RetrievalToken: "token", LoggingEndpoint: here, ControlEndpoint: here, ArtifactEndpoint: here,
		RunnerCapabilities: []string{"one", "two"},
		Dependencies:       []*pipepb.ArtifactInformation{{TypeUrn: artifact.URNFileArtifact, TypePayload: payload, RoleUrn: artifact.URNGoWorkerBinaryRole}},
	}}, nil
}

func (f *fakeTaskManager) ResolveArtifacts(_ context.Context, r *jobpb.ResolveArtifactsRequest) (*jobpb.ResolveArtifactsResponse, error) {
	return &jobpb.ResolveArtifactsResponse{Replacements: r.GetArtifacts()}, nil
}

func (f *fakeTaskManager) GetArtifact(_ *jobpb.GetArtifactRequest, s jobpb.ArtifactRetrievalService_GetArtifactServer) error {
	return s.Send(&jobpb.GetArtifactResponse{Data: f.program})
}

// Control takes the call of a worker, and gives it nothing to do.
func (f *fakeTaskManager) Control(s fnpb.BeamFnControl_ControlServer) error {
	f.called <- struct{}{}
	<-s.Context().Done()
	return nil
}

// startBoot starts this test binary as Flink starts a boot program.
func startBoot(t *testing.T, f *fakeTaskManager, env ...string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "--id=1-1", "--provision_endpoint="+f.address, "--semi_persist_dir="+t.TempDir())
	cmd.Env = append(append(os.Environ(), parentVariable+"="+parentOfBoot), env...)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = 10 * time.Second // a worker that outlives its boot program holds the pipes
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &output
}

// The boot program runs the staged program with the job's options, and ends as it does.
func TestBootRunsTheStagedProgram(t *testing.T) {
	temporary := t.TempDir()
	saw := filepath.Join(t.TempDir(), "saw")
	program := []byte("#!/bin/sh\n{ echo \"$@\"; echo \"$RUNNER_CAPABILITIES\"; cat \"$PIPELINE_OPTIONS_FILE\"; } > " + saw + "\nexit 3\n")
	staged := filepath.Join(t.TempDir(), "staged")
	if err := os.WriteFile(staged, program, 0o600); err != nil {
		t.Fatal(err)
	}
	f := startFakeTaskManager(t, program, hashOf(staged))
	cmd, output := startBoot(t, f, "TMPDIR="+temporary)
	err := cmd.Wait()
	wantError(t, err, "exit status 1")
	if !strings.Contains(output.String(), "the worker has ended: exit status 3") {
		t.Errorf("output %q", output)
	}
	content, err := os.ReadFile(saw)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--worker=true --id=1-1 --logging_endpoint=" + f.address + " --control_endpoint=" + f.address, "one two", `"answer":"42"`} {
		if !strings.Contains(strings.ReplaceAll(string(content), " \"42", "\"42"), want) {
			t.Errorf("%q is not in %s", want, content)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestBootRefusesOtherBytes(t *testing.T) {
	f := startFakeTaskManager(t, []byte("#!/bin/sh\n"), strings.Repeat("0", 64))
	cmd, output := startBoot(t, f, "TMPDIR="+t.TempDir())
	if err := cmd.Wait(); err == nil || !strings.Contains(output.String(), "cannot fetch the staged program") {
		t.Errorf("%v, output %q", err, output)
	}
}

// No worker outlives its boot program, however that ends. Flink ends only the latter.
func TestWorkerEndsWithBoot(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, signal := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			f := startFakeTaskManager(t, nil, hashOf(self)) // it runs as the worker, too
			pid := filepath.Join(t.TempDir(), "pid")
			cmd, output := startBoot(t, f, "TMPDIR="+t.TempDir(), pidFile+"="+pid)
			select {
			case <-f.called:
			case <-time.After(2 * time.Minute):
				t.Fatalf("no worker has called: %s", output)
			}
			content, err := os.ReadFile(pid)
			if err != nil {
				t.Fatal(err)
			}
			worker, err := strconv.Atoi(string(content))
			if err != nil || worker == cmd.Process.Pid {
				t.Fatalf("worker %s of boot program %d: %v", content, cmd.Process.Pid, err)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // by a signal
			for start := time.Now(); !gone(worker); time.Sleep(50 * time.Millisecond) {
				if time.Since(start) > time.Minute {
					_ = syscall.Kill(worker, syscall.SIGKILL)
					t.Fatal("the worker lives")
				}
			}
		})
	}
}

// gone tells whether a process has ended. A zombie that nobody waits for has ended.
func gone(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
