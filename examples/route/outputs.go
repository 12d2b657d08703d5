package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The files in the output folder. Those of the four variants hold envelopes, so each can be an
// input of this job.
const (
	eventsFile          = "events.jsonl"
	toolResultsFile     = "tool_results.jsonl"
	approvalsFile       = "approvals.jsonl"
	exportRequestsFile  = "export_requests.jsonl"
	deadLettersFile     = "dead_letters.jsonl"           // for people
	tooLargeFile        = "dead_letters_too_large.jsonl" // the dead letters that are too large for the next file
	deadLetterTopicFile = "dead_letters.binpb"           // the messages of an errors topic
)

var outputFiles = []string{
	eventsFile, toolResultsFile, approvalsFile, exportRequestsFile, deadLettersFile, tooLargeFile, deadLetterTopicFile,
}

func init() {
	register.Function3x1(eventEnvelope)
	register.Function3x1(toolResultEnvelope)
	register.Function3x1(approvalEnvelope)
	register.Function3x1(exportRequestEnvelope)
}

// prepare creates the folder. It refuses a folder in which an output would replace the input.
func prepare(dir string, input fs.FileInfo) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("cannot write the outputs: %w", err)
	}
	for _, name := range outputFiles {
		if old, err := os.Stat(filepath.Join(dir, name)); err == nil && os.SameFile(old, input) {
			return fmt.Errorf("cannot write the outputs: %s is the input; choose another --out", filepath.Join(dir, name))
		}
	}
	return nil
}

func eventEnvelope(ts beam.EventTime, key, event []byte) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{
		EntityKey: key, EventTimeMs: ts.Milliseconds(), Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: event},
	}
}

func toolResultEnvelope(ts beam.EventTime, key []byte, r *pb.ToolResult) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{
		EntityKey: key, EventTimeMs: ts.Milliseconds(), Payload: &pb.AgentEnvelope_ToolResult{ToolResult: r},
	}
}

func approvalEnvelope(ts beam.EventTime, key []byte, a *pb.AgentEnvelope_Approval) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{
		EntityKey: key, EventTimeMs: ts.Milliseconds(), Payload: &pb.AgentEnvelope_Approval_{Approval: a},
	}
}

func exportRequestEnvelope(ts beam.EventTime, key []byte, r *pb.AgentEnvelope_StateExportRequest) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{
		EntityKey: key, EventTimeMs: ts.Milliseconds(), Payload: &pb.AgentEnvelope_ExportRequest{ExportRequest: r},
	}
}
