package golden

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// schemaToday is every file of the schema.
var schemaToday = []protoreflect.FileDescriptor{
	pb.File_beam_agents_v1_beam_agents_proto, runtimepb.File_beam_agents_runtime_v1_control_proto,
}

// stages are the descriptor sets of proto/baseline, oldest first, with the names, as
// below gives them, of what came with each: a reader of a stage lacks that and
// all that came later. An enum value is named beside its enum. The release stands
// before the first stage that came after it.
var stages = []struct{ name, adds string }{
	{"before_kind", "ToolIntent.kind ToolIntent.Kind ToolIntent.TOOL_KIND_UNSPECIFIED ToolIntent.TOOL ToolIntent.APPROVAL"},
	{"before_trace_id", "ToolIntent.trace_id"},
	{"before_signature", "ToolIntent.signature_scheme ToolIntent.signing_key_id ToolIntent.signature " +
		"ToolIntent.SignatureScheme ToolIntent.SIGNATURE_SCHEME_UNSPECIFIED ToolIntent.HMAC_SHA256"},
	{"before_escalations", "Continuation.escalations"},
	{"before_suspended", "TraceEvent.SUSPENDED"},
	{"before_export_request", "AgentEnvelope.export_request AgentEnvelope.StateExportRequest AgentEnvelope.StateExportRequest.request_id"},
	{"before_runtime", runtimeNames},
	{"before_run_agent", runAgentNames},
	{"release", ""},
	{"before_stored_response", storedResponseNames},
	{"before_stored_usage", storedUsageNames},
}

// runtimeNames is all that came with the runtime's own state.
const runtimeNames = `
	beam_agents.runtime.v1.KeyControl
	beam_agents.runtime.v1.KeyControl.state_schema_version
	beam_agents.runtime.v1.KeyControl.seq
	beam_agents.runtime.v1.KeyControl.continuation
	beam_agents.runtime.v1.KeyControl.pending
	beam_agents.runtime.v1.KeyControl.expired_intent_ids
	beam_agents.runtime.v1.KeyControl.ttl_mark_ms
	beam_agents.runtime.v1.KeyControl.next_arrival
	beam_agents.runtime.v1.KeyControl.deferred_count
	beam_agents.runtime.v1.KeyControl.deferred_bytes
	beam_agents.runtime.v1.KeyControl.started_ms
	beam_agents.runtime.v1.DeferredEvent
	beam_agents.runtime.v1.DeferredEvent.arrival
	beam_agents.runtime.v1.DeferredEvent.envelope`

// runAgentNames is what RunAgent counts and remembers of a key.
const runAgentNames = `
	beam_agents.runtime.v1.KeyControl.ttl_armed_ms
	beam_agents.runtime.v1.KeyControl.snapshot_version
	beam_agents.runtime.v1.KeyControl.recent_event_ids
	beam_agents.runtime.v1.KeyControl.hour
	beam_agents.runtime.v1.KeyControl.activations_in_hour
	beam_agents.runtime.v1.KeyControl.timeouts_in_row
	beam_agents.runtime.v1.KeyControl.escalation_ids
	beam_agents.runtime.v1.KeyControl.drain_now_ms`

// storedResponseNames is all that came with what a model answered.
const storedResponseNames = `
	beam_agents.runtime.v1.StoredResponse
	beam_agents.runtime.v1.StoredResponse.status
	beam_agents.runtime.v1.StoredResponse.headers
	beam_agents.runtime.v1.StoredResponse.body
	beam_agents.runtime.v1.StoredResponse.deflated
	beam_agents.runtime.v1.StoredResponse.sealed
	beam_agents.runtime.v1.StoredResponse.body_bytes
	beam_agents.runtime.v1.StoredResponse.seq
	beam_agents.runtime.v1.StoredResponse.request
	beam_agents.runtime.v1.StoredHeader
	beam_agents.runtime.v1.StoredHeader.name
	beam_agents.runtime.v1.StoredHeader.value
	beam_agents.runtime.v1.RequestPart
	beam_agents.runtime.v1.RequestPart.path
	beam_agents.runtime.v1.RequestPart.digest`

// storedUsageNames is all that came with what an answer says of itself.
const storedUsageNames = `
	beam_agents.runtime.v1.StoredResponse.usage
	beam_agents.runtime.v1.StoredUsage
	beam_agents.runtime.v1.StoredUsage.provider
	beam_agents.runtime.v1.StoredUsage.response_model
	beam_agents.runtime.v1.StoredUsage.response_id
	beam_agents.runtime.v1.StoredUsage.finish_reasons
	beam_agents.runtime.v1.StoredUsage.known
	beam_agents.runtime.v1.StoredUsage.input_tokens
	beam_agents.runtime.v1.StoredUsage.output_tokens
	beam_agents.runtime.v1.StoredUsage.cache_read_input_tokens
	beam_agents.runtime.v1.StoredUsage.cache_creation_input_tokens`

// lacks is everything that a reader of the i-th stage does not know, in order.
func lacks(i int) (names []string) {
	for _, s := range stages[i:] {
		names = append(names, strings.Fields(s.adds)...)
	}
	slices.Sort(names)
	return names
}

// stageFiles are the files of the schema as a reader of that stage knows them.
func stageFiles(t *testing.T, name string) *protoregistry.Files {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "proto", "baseline", name+".binpb"))
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(raw, set); err != nil {
		t.Fatal(err)
	}
	for _, file := range set.GetFile() {
		if file.GetSourceCodeInfo() != nil {
			t.Errorf("%s: %s has source info", name, file.GetName())
		}
	}
	return linked(t, set)
}

func linked(t *testing.T, set *descriptorpb.FileDescriptorSet) *protoregistry.Files {
	t.Helper()
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// below is name without the package of the wire schema.
func below(name protoreflect.FullName) string {
	return strings.TrimPrefix(string(name), "beam_agents.v1.")
}

// messageOf is the message of that full name in files, nil if there is none.
func messageOf(files *protoregistry.Files, name protoreflect.FullName) protoreflect.MessageDescriptor {
	md, err := files.FindDescriptorByName(name)
	if err != nil {
		return nil
	}
	return md.(protoreflect.MessageDescriptor)
}

// readOld decodes b as md, a message type of an old schema, and reports where the
// old reader fails, sees another value than we do, or loses something when it
// writes what it has read.
func readOld(b Blob, md protoreflect.MessageDescriptor) error {
	value, err := b.Value()
	if err != nil {
		return err
	}
	old := dynamicpb.NewMessage(md)
	if err := proto.Unmarshal(b.Bytes, old); err != nil {
		return fmt.Errorf("old reader: %w", err)
	}
	if err := seesTheSame(old, value.ProtoReflect()); err != nil {
		return fmt.Errorf("old reader: %w", err)
	}
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(old)
	if err != nil {
		return fmt.Errorf("old writer: %w", err)
	}
	back := value.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(again, back); err != nil {
		return fmt.Errorf("after the old writer: %w", err)
	}
	if diff := cmp.Diff(value, back, protocmp.Transform()); diff != "" {
		return fmt.Errorf("after the old writer (-want +got):\n%s", diff)
	}
	return nil
}

// seesTheSame compares the fields that old knows, and looks for the others among
// its unknown fields.
func seesTheSame(old, now protoreflect.Message) (err error) {
	unknown := unknownNumbers(old)
	oldFields := old.Descriptor().Fields()
	known := 0
	now.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		oldFd := oldFields.ByNumber(fd.Number())
		switch {
		case oldFd == nil && !slices.Contains(unknown, fd.Number()):
			err = fmt.Errorf("%s is lost", fd.FullName())
		case oldFd == nil:
			if one := fd.ContainingOneof(); one != nil && old.WhichOneof(old.Descriptor().Oneofs().ByName(one.Name())) != nil {
				err = fmt.Errorf("%s reads as another variant", fd.FullName())
			}
		case oldFd.IsList() != fd.IsList(), oldFd.Kind() != fd.Kind() && fd.Message() != nil:
			err = fmt.Errorf("%s was %s %s", fd.FullName(), oldFd.Cardinality(), oldFd.Kind())
		case !old.Has(oldFd):
			err = fmt.Errorf("%s reads as absent", fd.FullName())
		default:
			known++
			err = sameValue(fd, old.Get(oldFd), v)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	populated := 0
	old.Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool { populated++; return true })
	if populated != known {
		return fmt.Errorf("%s has %d fields, want %d", old.Descriptor().FullName(), populated, known)
	}
	for _, n := range unknownNumbers(now) {
		if !slices.Contains(unknown, n) {
			return fmt.Errorf("unknown field %d of %s is lost", n, now.Descriptor().FullName())
		}
	}
	return nil
}

func sameValue(fd protoreflect.FieldDescriptor, old, now protoreflect.Value) error {
	switch {
	case fd.IsList() && fd.Message() != nil:
		if old.List().Len() != now.List().Len() {
			return fmt.Errorf("%s has %d elements, want %d", fd.FullName(), old.List().Len(), now.List().Len())
		}
		for i := range now.List().Len() {
			if err := seesTheSame(old.List().Get(i).Message(), now.List().Get(i).Message()); err != nil {
				return err
			}
		}
		return nil
	case fd.Message() != nil && !fd.IsMap():
		return seesTheSame(old.Message(), now.Message())
	case !old.Equal(now): // an enum is its number here, known or not
		return fmt.Errorf("%s reads as %v, want %v", fd.FullName(), old, now)
	}
	return nil
}

func unknownNumbers(m protoreflect.Message) (numbers []protowire.Number) {
	for raw := m.GetUnknown(); len(raw) > 0; {
		n, _, size := protowire.ConsumeField(raw)
		numbers, raw = append(numbers, n), raw[size:]
	}
	return numbers
}

func TestOldReaders(t *testing.T) {
	all := blobs(t)
	for i, s := range stages {
		files := stageFiles(t, s.name)
		for _, b := range all {
			md := messageOf(files, b.Message)
			if md == nil {
				// Nobody sends one alone to a reader from before it.
				if !slices.Contains(lacks(i), below(b.Message)) {
					t.Errorf("%s: no message %s", s.name, b.Message)
				}
				continue
			}
			t.Run(s.name+"/"+b.Name, func(t *testing.T) {
				if err := readOld(b, md); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestOldReadersCanFail reads with schemas that no old reader may have had.
func TestOldReadersCanFail(t *testing.T) {
	for name, tc := range map[string]struct {
		blob string
		edit func(*descriptorpb.DescriptorProto)
	}{
		"an enum that was text": {"tool_intent_signed", func(m *descriptorpb.DescriptorProto) {
			m.Field[9].Type, m.Field[9].TypeName = descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), nil
		}},
		"a signed number that was zigzag": {"tool_intent_signed", func(m *descriptorpb.DescriptorProto) {
			m.Field[2].Type = descriptorpb.FieldDescriptorProto_TYPE_SINT64.Enum()
		}},
		"bytes that were text": {"tool_intent_extremes", func(m *descriptorpb.DescriptorProto) {
			m.Field[1].Type = descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
		}},
		"a list that was single": {"memory_blob", func(m *descriptorpb.DescriptorProto) {
			m.Field[1].Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
		}},
		"a reused number": {"tool_intent_future_field", func(m *descriptorpb.DescriptorProto) {
			m.Field[8].Number = new(int32(500))
		}},
		"a number of fewer bits": {"tool_intent_signed", func(m *descriptorpb.DescriptorProto) {
			m.Field[6].Type = descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum()
		}},
		"a message that was bytes": {"key_control", func(m *descriptorpb.DescriptorProto) {
			m.Field[2].Type, m.Field[2].TypeName = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum(), nil
		}},
		"an intent that was another message": {"key_control", func(m *descriptorpb.DescriptorProto) {
			m.Field[3].TypeName = new(".beam_agents.v1.ToolResult")
		}},
		"a packed list of fewer bits": {"key_control_all_fields", func(m *descriptorpb.DescriptorProto) {
			m.Field[12].Type = descriptorpb.FieldDescriptorProto_TYPE_FIXED32.Enum()
		}},
		"a packed list that was text": {"key_control_all_fields", func(m *descriptorpb.DescriptorProto) {
			m.Field[12].Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		}},
		"a variant that was another": {"agent_envelope_event_empty", func(m *descriptorpb.DescriptorProto) {
			m.Field[2].Number, m.Field[5].Number = m.Field[5].Number, m.Field[2].Number
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := lookup(t, "v1/"+tc.blob)
			set := &descriptorpb.FileDescriptorSet{}
			for _, file := range schemaToday {
				set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
				for _, m := range set.File[len(set.File)-1].GetMessageType() {
					if strings.HasSuffix(string(b.Message), "."+m.GetName()) {
						tc.edit(m)
					}
				}
			}
			if readOld(b, messageOf(linked(t, set), b.Message)) == nil {
				t.Error("passes")
			}
		})
	}
	// A value that is not the blob's is seen.
	b := lookup(t, "v1/tool_intent_signed")
	b.Bytes = bytes.Replace(b.Bytes, []byte("http"), []byte("HTTP"), 1)
	if readOld(b, (&pb.ToolIntent{}).ProtoReflect().Descriptor()) == nil {
		t.Error("another tool name passes")
	}
}

// TestOldReadersLack pins what each stage does not know yet: exactly its own
// additions and the later ones.
func TestOldReadersLack(t *testing.T) {
	files, err := os.ReadDir(filepath.Join("..", "proto", "baseline"))
	if err != nil {
		t.Fatal(err)
	}
	var onDisk, want []string
	for _, f := range files {
		onDisk = append(onDisk, f.Name())
	}
	for _, s := range stages {
		want = append(want, s.name+".binpb")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, onDisk); diff != "" {
		t.Errorf("proto/baseline (-want +got):\n%s", diff)
	}
	today := names(schemaToday...)
	for i, s := range stages {
		var files []protoreflect.FileDescriptor
		stageFiles(t, s.name).RangeFiles(func(file protoreflect.FileDescriptor) bool {
			files = append(files, file)
			return true
		})
		have := names(files...)
		got := slices.DeleteFunc(slices.Clone(today), func(name string) bool { return slices.Contains(have, name) })
		if diff := cmp.Diff(lacks(i), got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s lacks (-want +got):\n%s", s.name, diff)
		}
		if len(have)+len(got) != len(today) {
			t.Errorf("%s has something that the schema lacks", s.name)
		}
	}
}

// names is everything in files, in order.
func names(files ...protoreflect.FileDescriptor) (all []string) {
	add := func(d protoreflect.Descriptor) {
		all = append(all, below(d.FullName()))
	}
	var walk func(protoreflect.MessageDescriptors)
	walk = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			md := messages.Get(i)
			add(md)
			for i := range md.Fields().Len() {
				add(md.Fields().Get(i))
			}
			for i := range md.Oneofs().Len() {
				add(md.Oneofs().Get(i))
			}
			for i := range md.Enums().Len() {
				add(md.Enums().Get(i))
				for j := range md.Enums().Get(i).Values().Len() {
					add(md.Enums().Get(i).Values().Get(j))
				}
			}
			walk(md.Messages())
		}
	}
	for _, file := range files {
		walk(file.Messages())
	}
	slices.Sort(all)
	return all
}

// TestOldReadersSee spells out what a reader from before each stage finds in
// today's bytes.
func TestOldReadersSee(t *testing.T) {
	for _, tc := range []struct {
		stage, blob string
		known       string // fields that it reads
		unknown     []protowire.Number
	}{
		{"before_kind", "tool_intent_all_fields", "args_json attempt created_at_ms entity_key expires_at_ms intent_id seq step_index tool_name", []protowire.Number{10, 11, 12, 13, 14}},
		{"before_trace_id", "tool_intent_all_fields", "args_json attempt created_at_ms entity_key expires_at_ms intent_id kind seq step_index tool_name", []protowire.Number{11, 12, 13, 14}},
		{"before_signature", "tool_intent_all_fields", "args_json attempt created_at_ms entity_key expires_at_ms intent_id kind seq step_index tool_name trace_id", []protowire.Number{12, 13, 14}},
		{"before_signature", "tool_intent_future_field", "args_json created_at_ms entity_key expires_at_ms intent_id kind seq step_index tool_name", []protowire.Number{12, 13, 14, 500}},
		{"release", "tool_intent_future_field", "args_json created_at_ms entity_key expires_at_ms intent_id kind seq signature signature_scheme signing_key_id step_index tool_name", []protowire.Number{500}},
		{"release", "key_control_newer", "continuation deferred_bytes deferred_count expired_intent_ids next_arrival pending seq started_ms state_schema_version ttl_mark_ms", []protowire.Number{500}},
		{"before_run_agent", "key_control_all_fields", "continuation deferred_bytes deferred_count expired_intent_ids next_arrival pending seq started_ms state_schema_version ttl_mark_ms", []protowire.Number{11, 12, 13, 14, 15, 16, 17, 18}},
		{"before_run_agent", "key_control_not_packed", "state_schema_version", []protowire.Number{13, 16, 17, 13, 13, 13, 16, 17}},
		{"release", "key_control_all_fields_newer", "activations_in_hour continuation deferred_bytes deferred_count drain_now_ms escalation_ids expired_intent_ids hour next_arrival pending recent_event_ids seq snapshot_version started_ms state_schema_version timeouts_in_row ttl_armed_ms ttl_mark_ms", []protowire.Number{500, 511}},
		{"release", "deferred_event_newer", "arrival envelope", []protowire.Number{500}},
		{"before_escalations", "continuation_escalated", "adapter deadline_ms pending_intent_ids seq snapshot state_schema_version step_index suspended_at_ms", []protowire.Number{9}},
		{"before_export_request", "agent_envelope_export", "entity_key event_time_ms", []protowire.Number{6}},
		{"before_export_request", "agent_envelope_export_empty", "", []protowire.Number{6}},
		{"before_export_request", "agent_envelope_newer_variant", "entity_key event_time_ms", []protowire.Number{507}},
		{"before_export_request", "agent_envelope_tool_result", "entity_key event_time_ms tool_result", nil},
	} {
		t.Run(tc.stage+"/"+tc.blob, func(t *testing.T) {
			b := lookup(t, "v1/"+tc.blob)
			m := dynamicpb.NewMessage(messageOf(stageFiles(t, tc.stage), b.Message))
			if err := proto.Unmarshal(b.Bytes, m); err != nil {
				t.Fatal(err)
			}
			known := map[string]bool{}
			m.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
				known[string(fd.Name())] = true
				return true
			})
			if got := strings.Join(slices.Sorted(maps.Keys(known)), " "); got != tc.known {
				t.Errorf("known %q, want %q", got, tc.known)
			}
			if got := unknownNumbers(m); !slices.Equal(got, tc.unknown) {
				t.Errorf("unknown %v, want %v", got, tc.unknown)
			}
			if one := m.Descriptor().Oneofs().ByName("payload"); one != nil {
				if got := m.WhichOneof(one); (got != nil) != strings.Contains(tc.known, "tool_result") {
					t.Errorf("payload reads as %v", got)
				}
			}
		})
	}

	// A new enum number stays the number, without a name.
	m := dynamicpb.NewMessage(messageOf(stageFiles(t, "before_suspended"), "beam_agents.v1.TraceEvent"))
	if err := proto.Unmarshal(lookup(t, "v1/trace_event_suspended").Bytes, m); err != nil {
		t.Fatal(err)
	}
	fd := m.Descriptor().Fields().ByName("event_type")
	if n := m.Get(fd).Enum(); n != 7 || fd.Enum().Values().ByNumber(n) != nil {
		t.Errorf("SUSPENDED reads as %d, %v", n, fd.Enum().Values().ByNumber(n))
	}
}

// TestStagesHaveBlobs names the blobs that a writer of each stage left: none
// holds what came at that stage or later.
func TestStagesHaveBlobs(t *testing.T) {
	for stage, name := range map[string]string{
		"before_kind": "tool_intent", "before_trace_id": "tool_intent_approval", "before_signature": "tool_intent_traced",
		"before_escalations": "continuation", "before_suspended": "trace_event", "before_export_request": "agent_envelope",
		"before_runtime": "agent_envelope_export", "before_run_agent": "key_control",
	} {
		b := lookup(t, "v1/"+name)
		m := dynamicpb.NewMessage(messageOf(stageFiles(t, stage), b.Message))
		if err := proto.Unmarshal(b.Bytes, m); err != nil || len(m.GetUnknown()) > 0 {
			t.Errorf("%s is not from %s: %v, unknown %v", name, stage, err, unknownNumbers(m))
		}
	}
}
