package beamagentspb_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// schema is the whole of beam_agents.v1. It changes only by added lines.
const schema = `
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

// render writes file in the form of schema.
func render(file protoreflect.FileDescriptor) string {
	var out strings.Builder
	options, _ := file.Options().(*descriptorpb.FileOptions)
	fmt.Fprintf(&out, "\nfile %s %v\npackage %s\ngo_package %s\n\n", file.Path(), file.Syntax(), file.Package(), options.GetGoPackage())
	short := func(d protoreflect.Descriptor) string {
		return strings.TrimPrefix(string(d.FullName()), string(file.Package())+".")
	}
	typeOf := func(fd protoreflect.FieldDescriptor) string {
		switch {
		case fd.Message() != nil:
			return short(fd.Message())
		case fd.Enum() != nil:
			return short(fd.Enum())
		}
		return fd.Kind().String()
	}
	var messages func(protoreflect.MessageDescriptors)
	enums := func(all protoreflect.EnumDescriptors) {
		for ed := range elements(all) {
			fmt.Fprintf(&out, "enum %s\n", short(ed))
			for v := range elements(ed.Values()) {
				fmt.Fprintf(&out, "  %d %s\n", v.Number(), v.Name())
			}
		}
	}
	messages = func(all protoreflect.MessageDescriptors) {
		for md := range elements(all) {
			if md.IsMapEntry() {
				continue
			}
			fmt.Fprintf(&out, "message %s\n", short(md))
			for fd := range elements(md.Fields()) {
				fmt.Fprintf(&out, "  %d %s ", fd.Number(), fd.Name())
				switch {
				case fd.IsMap():
					fmt.Fprintf(&out, "map<%s, %s>", typeOf(fd.MapKey()), typeOf(fd.MapValue()))
				case fd.IsList():
					out.WriteString("repeated " + typeOf(fd))
				default:
					out.WriteString(typeOf(fd))
				}
				switch one := fd.ContainingOneof(); {
				case one != nil && !one.IsSynthetic():
					fmt.Fprintf(&out, " oneof %s", one.Name())
				case fd.HasOptionalKeyword():
					out.WriteString(" optional")
				}
				out.WriteByte('\n')
			}
			for i := range md.ReservedRanges().Len() {
				fmt.Fprintf(&out, "  reserved %v\n", md.ReservedRanges().Get(i))
			}
			for i := range md.ReservedNames().Len() {
				fmt.Fprintf(&out, "  reserved %q\n", md.ReservedNames().Get(i))
			}
			enums(md.Enums())
			messages(md.Messages())
		}
	}
	enums(file.Enums())
	messages(file.Messages())
	return out.String()
}

// elements ranges over a list of descriptors.
func elements[D any](list interface {
	Len() int
	Get(int) D
},
) func(func(D) bool) {
	return func(yield func(D) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
		}
	}
}

func TestSchema(t *testing.T) {
	if diff := cmp.Diff(schema, render(pb.File_beam_agents_v1_beam_agents_proto)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

// Golden blobs are frozen and hold these numbers as unknown, so no field or enum
// value may ever get one.
const (
	goldenFirst, goldenLast = 500, 599
	goldenUnknown           = 99
)

// ruleBreaches lists where file breaks a rule that holds for whatever the schema
// will learn.
func ruleBreaches(file protoreflect.FileDescriptor) (breaches []string) {
	var maps []string
	enums := func(all protoreflect.EnumDescriptors) {
		for ed := range elements(all) {
			if zero := ed.Values().ByNumber(0); zero == nil || !strings.HasSuffix(string(zero.Name()), "_UNSPECIFIED") {
				breaches = append(breaches, fmt.Sprintf("the zero value of %s is not _UNSPECIFIED", ed.FullName()))
			}
			for v := range elements(ed.Values()) {
				if v.Number() == goldenUnknown || v.Number() < 0 {
					breaches = append(breaches, fmt.Sprintf("%s has number %d, which golden blobs hold as unknown", v.FullName(), v.Number()))
				}
			}
		}
	}
	var messages func(protoreflect.MessageDescriptors)
	messages = func(all protoreflect.MessageDescriptors) {
		for md := range elements(all) {
			for fd := range elements(md.Fields()) {
				if fd.IsMap() {
					maps = append(maps, string(fd.FullName()))
				}
				if fd.Number() >= goldenFirst && fd.Number() <= goldenLast {
					breaches = append(breaches, fmt.Sprintf("%s has number %d, which golden blobs hold as unknown", fd.FullName(), fd.Number()))
				}
				if fd.HasOptionalKeyword() {
					breaches = append(breaches, fmt.Sprintf("%s is optional", fd.FullName()))
				}
			}
			enums(md.Enums())
			messages(md.Messages())
		}
	}
	enums(file.Enums())
	messages(file.Messages())
	if !slices.Equal(maps, []string{"beam_agents.v1.TraceEvent.attributes"}) {
		breaches = append(breaches, fmt.Sprintf("maps are %q, not TraceEvent.attributes alone", maps))
	}

	// Signatures cover the encoding of a ToolIntent without fields 12 to 14. It
	// is the same for every verifier only while new fields sort behind the known
	// ones and no oneof is encoded in an order of its own.
	const signature = 14
	intent := file.Messages().ByName("ToolIntent")
	if intent.Oneofs().Len() > 0 {
		breaches = append(breaches, "ToolIntent has a oneof")
	}
	for fd := range elements(intent.Fields()) {
		if known := (&pb.ToolIntent{}).ProtoReflect().Descriptor().Fields().ByNumber(fd.Number()); fd.Number() <= signature && (known == nil || known.Name() != fd.Name()) {
			breaches = append(breaches, fmt.Sprintf("new field %s of ToolIntent has number %d", fd.Name(), fd.Number()))
		}
	}
	return breaches
}

func TestRules(t *testing.T) {
	if breaches := ruleBreaches(pb.File_beam_agents_v1_beam_agents_proto); len(breaches) > 0 {
		t.Error(breaches)
	}
}

// altered is the schema after edit.
func altered(t *testing.T, edit func(*descriptorpb.FileDescriptorProto)) protoreflect.FileDescriptor {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(pb.File_beam_agents_v1_beam_agents_proto)
	edit(file)
	fd, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// messageNamed finds a top-level message to alter.
func messageNamed(t *testing.T, file *descriptorpb.FileDescriptorProto, name string) *descriptorpb.DescriptorProto {
	t.Helper()
	i := slices.IndexFunc(file.GetMessageType(), func(m *descriptorpb.DescriptorProto) bool { return m.GetName() == name })
	if i < 0 {
		t.Fatalf("no message %s", name)
	}
	return file.GetMessageType()[i]
}

func newField(name string, number int32) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: &name, Number: &number,
		Type:  descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
}

func TestRulesCanFail(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*descriptorpb.FileDescriptorProto)
		want string // "" is no breach
	}{
		"a field above all": {func(f *descriptorpb.FileDescriptorProto) {
			m := messageNamed(t, f, "ToolIntent")
			m.Field = append(m.Field, newField("newcomer", 100))
		}, ""},
		"a field that takes a number": {func(f *descriptorpb.FileDescriptorProto) {
			m := messageNamed(t, f, "ToolIntent")
			m.Field[8] = newField("newcomer", 9)
		}, "new field newcomer of ToolIntent has number 9"},
		"a oneof": {func(f *descriptorpb.FileDescriptorProto) {
			m := messageNamed(t, f, "ToolIntent")
			field := newField("newcomer", 100)
			field.OneofIndex = proto.Int32(0)
			m.Field = append(m.Field, field)
			m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: new("choice")})
		}, "ToolIntent has a oneof"},
		"a second map": {func(f *descriptorpb.FileDescriptorProto) {
			m := messageNamed(t, f, "ToolResult")
			entry := proto.CloneOf(messageNamed(t, f, "TraceEvent").GetNestedType()[0])
			m.NestedType = append(m.NestedType, entry)
			m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
				Name: new("attributes"), Number: proto.Int32(100), TypeName: new(".beam_agents.v1.ToolResult.AttributesEntry"),
				Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(),
			})
		}, `maps are ["beam_agents.v1.ToolResult.attributes" "beam_agents.v1.TraceEvent.attributes"], not TraceEvent.attributes alone`},
		"the map gone": {func(f *descriptorpb.FileDescriptorProto) {
			m := messageNamed(t, f, "TraceEvent")
			m.Field, m.NestedType = slices.Delete(m.GetField(), 7, 8), nil
		}, "maps are [], not TraceEvent.attributes alone"},
		"a zero with a meaning": {func(f *descriptorpb.FileDescriptorProto) {
			messageNamed(t, f, "ToolResult").GetEnumType()[0].GetValue()[0].Name = new("UNKNOWN")
		}, "the zero value of beam_agents.v1.ToolResult.Status is not _UNSPECIFIED"},
		"a golden field number": {func(f *descriptorpb.FileDescriptorProto) {
			m := messageNamed(t, f, "ToolIntent")
			m.Field = append(m.Field, newField("newcomer", 500))
		}, "beam_agents.v1.ToolIntent.newcomer has number 500, which golden blobs hold as unknown"},
		"a golden enum number": {func(f *descriptorpb.FileDescriptorProto) {
			e := messageNamed(t, f, "ToolResult").GetEnumType()[0]
			e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: new("NEWCOMER"), Number: proto.Int32(99)})
		}, "beam_agents.v1.ToolResult.NEWCOMER has number 99, which golden blobs hold as unknown"},
		"an optional field": {func(f *descriptorpb.FileDescriptorProto) {
			m := messageNamed(t, f, "MemoryBlob")
			field := newField("newcomer", 100)
			field.OneofIndex, field.Proto3Optional = proto.Int32(0), new(true)
			m.Field = append(m.Field, field)
			m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: new("_newcomer")})
		}, "beam_agents.v1.MemoryBlob.newcomer is optional"},
	} {
		t.Run(name, func(t *testing.T) {
			file := altered(t, tc.edit)
			if got := strings.Join(ruleBreaches(file), "; "); got != tc.want {
				t.Errorf("breaches %q, want %q", got, tc.want)
			}
			if render(file) == schema {
				t.Error("render does not show it")
			}
		})
	}
}
