package beamagentspb_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
	"github.com/beamagents/beamagents-go/proto/internal/schema"
)

// schemaText is the whole of beam_agents.v1. It changes only by added lines.
const schemaText = `
file beam_agents/v1/beam_agents.proto proto3
package beam_agents.v1
go_package github.com/beamagents/beamagents-go/proto/beam_agents/v1;beamagentspb

message MemoryBlob
  1 state_schema_version uint32
  2 entries repeated MemoryEntry
  3 total_value_bytes int64
message MemoryEntry
  1 key string
  2 value bytes
  3 last_access_ms int64
message ToolIntent
  1 intent_id string
  2 entity_key bytes
  3 seq int64
  4 step_index uint32
  5 tool_name string
  6 args_json string
  7 created_at_ms int64
  8 expires_at_ms int64
  9 attempt uint32
  10 kind ToolIntent.Kind
  11 trace_id bytes
  12 signature_scheme ToolIntent.SignatureScheme
  13 signing_key_id string
  14 signature bytes
enum ToolIntent.Kind
  0 TOOL_KIND_UNSPECIFIED
  1 TOOL
  2 APPROVAL
enum ToolIntent.SignatureScheme
  0 SIGNATURE_SCHEME_UNSPECIFIED
  1 HMAC_SHA256
message ToolResult
  1 intent_id string
  2 entity_key bytes
  3 seq int64
  4 status ToolResult.Status
  5 payload bytes
  6 error_message string
  7 completed_at_ms int64
enum ToolResult.Status
  0 STATUS_UNSPECIFIED
  1 OK
  2 ERROR
  3 EXPIRED
  4 REJECTED
message TraceEvent
  1 trace_id bytes
  2 span_id bytes
  3 parent_span_id bytes
  4 entity_key bytes
  5 seq int64
  6 step_index uint32
  7 event_type TraceEvent.EventType
  8 attributes map<string, string>
  9 start_ms int64
  10 end_ms int64
enum TraceEvent.EventType
  0 EVENT_TYPE_UNSPECIFIED
  1 ACTIVATION_START
  2 LLM_CALL
  3 TOOL_CALL
  4 INTENT_EMITTED
  5 ACTIVATION_END
  6 ERROR
  7 SUSPENDED
message AgentEnvelope
  1 entity_key bytes
  2 event_time_ms int64
  3 external_event bytes oneof payload
  4 tool_result ToolResult oneof payload
  5 approval AgentEnvelope.Approval oneof payload
  6 export_request AgentEnvelope.StateExportRequest oneof payload
message AgentEnvelope.Approval
  1 intent_id string
  2 approved bool
  3 approver string
  4 decided_at_ms int64
message AgentEnvelope.StateExportRequest
  1 request_id string
message Continuation
  1 state_schema_version uint32
  2 seq int64
  3 step_index uint32
  4 pending_intent_ids repeated string
  5 adapter string
  6 snapshot bytes
  7 suspended_at_ms int64
  8 deadline_ms int64
  9 escalations uint32
message LlmCacheBlob
  1 state_schema_version uint32
  2 entries repeated LlmCacheEntry
  3 total_response_bytes int64
message LlmCacheEntry
  1 cache_key string
  2 response bytes
  3 response_digest bytes
  4 created_at_ms int64
  5 last_access_ms int64
  6 digest_only bool
message ActivationErrorRecord
  1 entity_key bytes
  2 reason string
  3 detail string
  4 event_time_ms int64
message StateSnapshot
  1 state_schema_version uint32
  2 entity_key bytes
  3 seq int64
  4 snapshot_at_ms int64
  5 memory MemoryBlob
  6 llm_cache LlmCacheBlob
  7 continuation Continuation
  8 pending repeated ToolIntent
  9 request_id string
`

func TestSchema(t *testing.T) {
	if diff := cmp.Diff(schemaText, schema.Text(pb.File_beam_agents_v1_beam_agents_proto)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestAdditive(t *testing.T) {
	today := pb.File_beam_agents_v1_beam_agents_proto
	all, err := schema.Baselines(os.DirFS("../../baseline"), today.Path())
	if err != nil || len(all) < 2 || all["release"] == nil {
		t.Fatalf("baselines %v, %v", all, err)
	}
	for name, old := range all {
		if problems := schema.NotAdditive(old, today); len(problems) > 0 {
			t.Errorf("since %s: %q", name, problems)
		}
		// A stage of its history lacks something; those of the runtime lack nothing of this file.
		whole := slices.Contains([]string{"release", "before_runtime", "before_run_agent", "before_stored_response", "before_stored_usage"}, name)
		if problems := schema.NotAdditive(today, old); (len(problems) == 0) != whole {
			t.Errorf("%s: whole %v, lacks %q", name, whole, problems)
		}
	}
}

// intentBreaches lists where file breaks a rule of ToolIntent. Signatures cover the
// encoding of a ToolIntent without fields 12 to 14. It is the same for every verifier only
// while new fields sort behind the known ones and no oneof is encoded in an order of its
// own.
func intentBreaches(file protoreflect.FileDescriptor) (breaches []string) {
	const signature = 14
	intent := file.Messages().ByName("ToolIntent")
	if intent.Oneofs().Len() > 0 {
		breaches = append(breaches, "ToolIntent has a oneof")
	}
	known := (&pb.ToolIntent{}).ProtoReflect().Descriptor().Fields()
	for i := range intent.Fields().Len() {
		fd := intent.Fields().Get(i)
		if known := known.ByNumber(fd.Number()); fd.Number() <= signature && (known == nil || known.Name() != fd.Name()) {
			breaches = append(breaches, fmt.Sprintf("new field %s of ToolIntent has number %d", fd.Name(), fd.Number()))
		}
	}
	return breaches
}

func TestRules(t *testing.T) {
	file := pb.File_beam_agents_v1_beam_agents_proto
	breaches := append(schema.Breaches(file, "beam_agents.v1.TraceEvent.attributes"), intentBreaches(file)...)
	if len(breaches) > 0 {
		t.Error(breaches)
	}
}

func TestIntentRulesCanFail(t *testing.T) {
	newcomer := func(number int32) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: new("newcomer"), Number: &number,
			Type:  descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
	}
	for name, tc := range map[string]struct {
		edit func(intent *descriptorpb.DescriptorProto)
		want string // "" is no breach
	}{
		"a field above all": {func(m *descriptorpb.DescriptorProto) {
			m.Field = append(m.Field, newcomer(100))
		}, ""},
		"a field that takes a number": {func(m *descriptorpb.DescriptorProto) {
			m.Field[8] = newcomer(9)
		}, "new field newcomer of ToolIntent has number 9"},
		"a oneof": {func(m *descriptorpb.DescriptorProto) {
			field := newcomer(100)
			field.OneofIndex = proto.Int32(0)
			m.Field = append(m.Field, field)
			m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: new("choice")})
		}, "ToolIntent has a oneof"},
	} {
		t.Run(name, func(t *testing.T) {
			altered := protodesc.ToFileDescriptorProto(pb.File_beam_agents_v1_beam_agents_proto)
			i := slices.IndexFunc(altered.GetMessageType(), func(m *descriptorpb.DescriptorProto) bool { return m.GetName() == "ToolIntent" })
			tc.edit(altered.GetMessageType()[i])
			file, err := protodesc.NewFile(altered, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(intentBreaches(file), "; "); got != tc.want {
				t.Errorf("breaches %q, want %q", got, tc.want)
			}
		})
	}
}
