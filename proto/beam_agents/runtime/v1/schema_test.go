package beamagentsruntimepb_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	"github.com/beamagents/beamagents-go/proto/internal/schema"
)

// schemaText is the whole of beam_agents.runtime.v1. It changes only by added lines; of
// KeyControl alone, which is versioned, a line may change or go with a new version.
const schemaText = `
file beam_agents/runtime/v1/control.proto proto3
package beam_agents.runtime.v1
go_package github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1;beamagentsruntimepb

message KeyControl
  1 state_schema_version uint32
  2 seq int64
  3 continuation beam_agents.v1.Continuation
  4 pending repeated beam_agents.v1.ToolIntent
  5 expired_intent_ids repeated string
  6 ttl_mark_ms int64
  7 next_arrival int64
  8 deferred_count uint32
  9 deferred_bytes int64
  10 started_ms int64
  11 ttl_armed_ms int64
  12 snapshot_version uint32
  13 recent_event_ids repeated fixed64
  14 hour int64
  15 activations_in_hour uint32
  16 timeouts_in_row uint32
  17 escalation_ids repeated string
  18 drain_now_ms int64
message DeferredEvent
  1 arrival int64
  2 envelope beam_agents.v1.AgentEnvelope
message StoredResponse
  1 status uint32
  2 headers repeated StoredHeader
  3 body bytes
  4 deflated bool
  5 sealed bool
  6 body_bytes int64
  7 seq int64
  8 request repeated RequestPart
  9 usage StoredUsage
message StoredUsage
  1 provider string
  2 response_model string
  3 response_id string
  4 finish_reasons repeated string
  5 known bool
  6 input_tokens int64
  7 output_tokens int64
  8 cache_read_input_tokens int64
  9 cache_creation_input_tokens int64
message StoredHeader
  1 name string
  2 value string
message RequestPart
  1 path string
  2 digest fixed32
`

var today = runtimepb.File_beam_agents_runtime_v1_control_proto

func TestSchema(t *testing.T) {
	if diff := cmp.Diff(schemaText, schema.Text(today)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestRules(t *testing.T) {
	if breaches := schema.Breaches(today); len(breaches) > 0 {
		t.Error(breaches)
	}
}

func baselines(t *testing.T) map[string]protoreflect.FileDescriptor {
	t.Helper()
	all, err := schema.Baselines(os.DirFS("../../../baseline"), today.Path())
	if err != nil || all["release"] == nil {
		t.Fatalf("baselines %v, %v", all, err)
	}
	return all
}

func TestAdditive(t *testing.T) {
	for name, old := range baselines(t) {
		if problems := schema.NotAdditive(old, today); len(problems) > 0 {
			t.Errorf("since %s: %q", name, problems)
		}
	}
}

// What the release holds is protected: a change of any field of both messages is found.
func TestAdditiveCanFail(t *testing.T) {
	release := baselines(t)["release"]
	tried := 0
	for which, md := range protodesc.ToFileDescriptorProto(release).GetMessageType() {
		for i, fd := range md.GetField() {
			for what, edit := range map[string]func(*descriptorpb.FieldDescriptorProto){
				"retyped": func(fd *descriptorpb.FieldDescriptorProto) {
					fd.Type, fd.TypeName = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum(), nil
				},
				"renumbered": func(fd *descriptorpb.FieldDescriptorProto) { fd.Number = new(int32(100)) },
				"renamed":    func(fd *descriptorpb.FieldDescriptorProto) { fd.Name = new("newcomer") },
			} {
				tried++
				altered := protodesc.ToFileDescriptorProto(release)
				edit(altered.GetMessageType()[which].GetField()[i])
				file, err := protodesc.NewFile(altered, protoregistry.GlobalFiles)
				if err != nil {
					t.Fatal(err)
				}
				problems := schema.NotAdditive(release, file)
				if len(problems) != 1 || !strings.Contains(problems[0], md.GetName()) {
					t.Errorf("%s of %s %s: %q", fd.GetName(), md.GetName(), what, problems)
				}
				if schema.Text(file) == schema.Text(release) {
					t.Errorf("%s of %s %s: the text does not show it", fd.GetName(), md.GetName(), what)
				}
			}
		}
	}
	if tried < 3*12 {
		t.Errorf("only %d changes tried", tried)
	}
}
