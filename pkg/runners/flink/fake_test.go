package flink

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// pidFile is where a test binary that is started as a worker writes its process id.
const pidFile = "BEAMAGENTS_TEST_PID_FILE"

func TestMain(m *testing.M) {
	flag.Parse()
	if file := os.Getenv(pidFile); file != "" && flag.Lookup("worker").Value.String() == "true" {
		_ = os.WriteFile(file+".part", []byte(fmt.Sprint(os.Getpid())), 0o600)
		_ = os.Rename(file+".part", file)
	}
	beam.Init() // does not return in a boot program or a worker
	os.Exit(m.Run())
}

// submission is the random text that the runner has sent with the job.
func (f *fakeJobs) submission() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, _ := f.prepared.GetPipelineOptions().AsMap()["beam:option:beamagents_submission:v1"].(string)
	return text
}

// fakeJobs is a job server that keeps what it is given and says what it is told to.
type fakeJobs struct {
	jobpb.UnimplementedJobServiceServer
	jobpb.UnimplementedArtifactStagingServiceServer

	address string
	// script is what the stream of a job says. The stream then ends, or with hang stays.
	script  []*jobpb.JobMessagesResponse
	hang    bool
	metrics *jobpb.MetricResults
	// Of the calls of GetJobMetrics, the first hanging ones get no answer. The stream says
	// later when the last of them has come.
	hanging int
	later   []*jobpb.JobMessagesResponse
	refuse  error  // what Prepare says
	stageAt string // the address of the artifacts, if it is another
	running func() // called when a job is to run
	stop    func() // ends the server

	mu        sync.Mutex
	prepared  *jobpb.PrepareJobRequest
	staged    int // bytes
	ran       int
	cancelled int
	asked     int           // calls of GetJobMetrics
	hung      chan struct{} // closed at the last call that hangs
	once      sync.Once
	streaming chan struct{} // closed when the first stream has said its script
}

func startFakeJobs(t *testing.T) *fakeJobs {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeJobs{address: l.Addr().String(), streaming: make(chan struct{}), hung: make(chan struct{}), metrics: &jobpb.MetricResults{}}
	s := grpc.NewServer()
	jobpb.RegisterJobServiceServer(s, f)
	jobpb.RegisterArtifactStagingServiceServer(s, f)
	f.stop = func() { go s.Stop() }
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return f
}

func (f *fakeJobs) Prepare(_ context.Context, r *jobpb.PrepareJobRequest) (*jobpb.PrepareJobResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.prepared = proto.CloneOf(r)
	return &jobpb.PrepareJobResponse{
		PreparationId: "prepared", StagingSessionToken: "token",
		ArtifactStagingEndpoint: &pipepb.ApiServiceDescriptor{Url: cmp.Or(f.stageAt, f.address)},
	}, nil
}

// ReverseArtifactRetrievalService asks for the Go program of the pipeline.
func (f *fakeJobs) ReverseArtifactRetrievalService(stream jobpb.ArtifactStagingService_ReverseArtifactRetrievalServiceServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	f.mu.Lock()
	var artifact *pipepb.ArtifactInformation
	for _, env := range f.prepared.GetPipeline().GetComponents().GetEnvironments() {
		artifact = env.GetDependencies()[0]
	}
	f.mu.Unlock()
	if err := stream.Send(&jobpb.ArtifactRequestWrapper{Request: &jobpb.ArtifactRequestWrapper_GetArtifact{
		GetArtifact: &jobpb.GetArtifactRequest{Artifact: artifact},
	}}); err != nil {
		return err
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.staged += len(r.GetGetArtifactResponse().GetData())
		f.mu.Unlock()
		if r.GetIsLast() {
			return nil
		}
	}
}

func (f *fakeJobs) Run(_ context.Context, r *jobpb.RunJobRequest) (*jobpb.RunJobResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ran++
	if f.running != nil {
		f.running()
	}
	if r.GetPreparationId() != "prepared" || r.GetRetrievalToken() != "token" {
		return nil, fmt.Errorf("run of %v", r)
	}
	return &jobpb.RunJobResponse{JobId: "job-1"}, nil
}

func (f *fakeJobs) GetMessageStream(_ *jobpb.JobMessagesRequest, stream jobpb.JobService_GetMessageStreamServer) error {
	for _, m := range f.script {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	f.once.Do(func() { close(f.streaming) })
	if f.later != nil {
		<-f.hung
	}
	for _, m := range f.later {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	if f.hang {
		<-stream.Context().Done()
	}
	return nil
}

func (f *fakeJobs) GetJobMetrics(ctx context.Context, _ *jobpb.GetJobMetricsRequest) (*jobpb.GetJobMetricsResponse, error) {
	f.mu.Lock()
	f.asked++
	asked := f.asked
	f.mu.Unlock()
	if asked == f.hanging {
		close(f.hung)
	}
	if asked <= f.hanging {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &jobpb.GetJobMetricsResponse{Metrics: f.metrics}, nil
}

func (f *fakeJobs) Cancel(context.Context, *jobpb.CancelJobRequest) (*jobpb.CancelJobResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelled++
	return &jobpb.CancelJobResponse{}, nil
}

func stateOf(s jobpb.JobState_Enum) *jobpb.JobMessagesResponse {
	return &jobpb.JobMessagesResponse{Response: &jobpb.JobMessagesResponse_StateResponse{StateResponse: &jobpb.JobStateEvent{State: s}}}
}

func errorOf(text string) *jobpb.JobMessagesResponse {
	return &jobpb.JobMessagesResponse{Response: &jobpb.JobMessagesResponse_MessageResponse{
		MessageResponse: &jobpb.JobMessage{MessageText: text, Importance: jobpb.JobMessage_JOB_MESSAGE_ERROR},
	}}
}

// locked is a writer for several goroutines.
type locked struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// marshalled is the pipeline as a job server gets it, before stableIDs.
func marshalled(t *testing.T, build func(s beam.Scope)) *pipepb.Pipeline {
	t.Helper()
	p, s := beam.NewPipelineWithRoot()
	build(s)
	edges, _, err := p.Build()
	if err != nil {
		t.Fatal(err)
	}
	env, err := graphx.CreateEnvironment(t.Context(), graphx.URNEnvExternal, func(context.Context) string { return "127.0.0.1:1" })
	if err != nil {
		t.Fatal(err)
	}
	m, err := graphx.Marshal(edges, &graphx.Options{Environment: env})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// stepNamed is the step whose unique name ends with name.
func stepNamed(t *testing.T, p *pipepb.Pipeline, name string) *pipepb.PTransform {
	t.Helper()
	var found []*pipepb.PTransform
	for _, step := range p.GetComponents().GetTransforms() {
		if strings.HasSuffix(step.GetUniqueName(), name) {
			found = append(found, step)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d steps are called %s", len(found), name)
	}
	return found[0]
}

func values(m map[string]string) []string {
	var all []string
	for _, v := range m {
		all = append(all, v)
	}
	slices.Sort(all)
	return all
}

func client(t *testing.T, f *fakeJobs) jobpb.JobServiceClient {
	t.Helper()
	cc, err := grpc.NewClient(f.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return jobpb.NewJobServiceClient(cc)
}
