//go:build flink

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// unsafeServer is a job server that passes jobs on without the options that prevent the loss of
// elements, as if the SDK's own runner had sent them.
type unsafeServer struct {
	jobpb.UnimplementedJobServiceServer
	to jobpb.JobServiceClient
}

func startUnsafeServer(t *testing.T, endpoint string) string {
	t.Helper()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	jobpb.RegisterJobServiceServer(server, &unsafeServer{to: jobpb.NewJobServiceClient(conn)})
	go server.Serve(listener)
	t.Cleanup(func() {
		server.Stop()
		conn.Close()
	})
	return listener.Addr().String()
}

func (s *unsafeServer) Prepare(ctx context.Context, req *jobpb.PrepareJobRequest) (*jobpb.PrepareJobResponse, error) {
	for _, name := range []string{"streaming", "finish_bundle_before_checkpointing", "max_bundle_time_mills"} {
		delete(req.GetPipelineOptions().GetFields(), "beam:option:"+name+":v1")
	}
	return s.to.Prepare(ctx, req)
}

func (s *unsafeServer) Run(ctx context.Context, req *jobpb.RunJobRequest) (*jobpb.RunJobResponse, error) {
	return s.to.Run(ctx, req)
}

func (s *unsafeServer) GetState(ctx context.Context, req *jobpb.GetJobStateRequest) (*jobpb.JobStateEvent, error) {
	return s.to.GetState(ctx, req)
}

func (s *unsafeServer) Cancel(ctx context.Context, req *jobpb.CancelJobRequest) (*jobpb.CancelJobResponse, error) {
	return s.to.Cancel(ctx, req)
}

func (s *unsafeServer) GetJobMetrics(ctx context.Context, req *jobpb.GetJobMetricsRequest) (*jobpb.GetJobMetricsResponse, error) {
	return s.to.GetJobMetrics(ctx, req)
}

func (s *unsafeServer) GetMessageStream(req *jobpb.JobMessagesRequest, to jobpb.JobService_GetMessageStreamServer) error {
	from, err := s.to.GetMessageStream(to.Context(), req)
	if err != nil {
		return err
	}
	for {
		m, err := from.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := to.Send(m); err != nil {
			return err
		}
	}
}
