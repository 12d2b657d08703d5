package schema_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
	"github.com/beamagents/beamagents-go/proto/internal/schema"
)

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

func TestBreaches(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*descriptorpb.FileDescriptorProto)
		want string // "" is no breach
	}{
		"a field": {func(f *descriptorpb.FileDescriptorProto) {
			m := messageNamed(t, f, "ToolIntent")
			m.Field = append(m.Field, newField("newcomer", 100))
		}, ""},
		"a second map": {func(f *descriptorpb.FileDescriptorProto) {
			m := messageNamed(t, f, "ToolResult")
			entry := proto.CloneOf(messageNamed(t, f, "TraceEvent").GetNestedType()[0])
			m.NestedType = append(m.NestedType, entry)
			m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
				Name: new("attributes"), Number: proto.Int32(100), TypeName: new(".beam_agents.v1.ToolResult.AttributesEntry"),
				Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(),
			})
		}, `maps are ["beam_agents.v1.ToolResult.attributes" "beam_agents.v1.TraceEvent.attributes"], want ["beam_agents.v1.TraceEvent.attributes"]`},
		"the map gone": {func(f *descriptorpb.FileDescriptorProto) {
			m := messageNamed(t, f, "TraceEvent")
			m.Field, m.NestedType = slices.Delete(m.GetField(), 7, 8), nil
		}, `maps are [], want ["beam_agents.v1.TraceEvent.attributes"]`},
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
			if got := strings.Join(schema.Breaches(file, "beam_agents.v1.TraceEvent.attributes"), "; "); got != tc.want {
				t.Errorf("breaches %q, want %q", got, tc.want)
			}
			if schema.Text(file) == schema.Text(pb.File_beam_agents_v1_beam_agents_proto) {
				t.Error("Text does not show it")
			}
		})
	}
}

func TestNotAdditive(t *testing.T) {
	today := pb.File_beam_agents_v1_beam_agents_proto
	reserve := func(m *descriptorpb.DescriptorProto, number int32, name string) {
		m.ReservedRange = append(m.ReservedRange, &descriptorpb.DescriptorProto_ReservedRange{Start: &number, End: new(number + 1)})
		m.ReservedName = append(m.ReservedName, name)
	}
	for name, tc := range map[string]struct {
		edit func(intent, result, envelope *descriptorpb.DescriptorProto)
		want string // "" is additive
	}{
		"a new field": {func(intent, _, _ *descriptorpb.DescriptorProto) {
			intent.Field = append(intent.Field, newField("newcomer", 100))
		}, ""},
		"a new message": {func(intent, _, _ *descriptorpb.DescriptorProto) {
			intent.NestedType = append(intent.NestedType, &descriptorpb.DescriptorProto{Name: new("Newcomer")})
		}, ""},
		"a new enum value": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.EnumType[0].Value = append(result.EnumType[0].Value, &descriptorpb.EnumValueDescriptorProto{Name: new("NEWCOMER"), Number: proto.Int32(50)})
		}, ""},
		"removed and reserved": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.Field = slices.Delete(result.Field, 6, 7)
			reserve(result, 7, "completed_at_ms")
		}, ""},
		"removed": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.Field = slices.Delete(result.Field, 6, 7)
		}, "completed_at_ms is gone and not reserved"},
		"number reserved, name not": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.Field = slices.Delete(result.Field, 6, 7)
			reserve(result, 7, "other")
		}, "completed_at_ms is gone and not reserved"},
		"renamed": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.Field[6].Name = new("done_at_ms")
		}, "field 7 of beam_agents.v1.ToolResult is"},
		"another JSON name": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.Field[6].JsonName = new("doneAtMs")
		}, "field 7 of beam_agents.v1.ToolResult is"},
		"renumbered": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.Field[6].Number = proto.Int32(100)
		}, "completed_at_ms is gone and not reserved"},
		"retyped": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.Field[6].Type = descriptorpb.FieldDescriptorProto_TYPE_UINT64.Enum()
		}, "field 7 of beam_agents.v1.ToolResult is"},
		"made a list": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.Field[6].Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}, "field 7 of beam_agents.v1.ToolResult is"},
		"another message": {func(_, _, envelope *descriptorpb.DescriptorProto) {
			envelope.Field[4].TypeName = new(".beam_agents.v1.ToolResult")
		}, "field 5 of beam_agents.v1.AgentEnvelope is"},
		"out of the oneof": {func(_, _, envelope *descriptorpb.DescriptorProto) {
			envelope.Field[2].OneofIndex = nil
		}, "field 3 of beam_agents.v1.AgentEnvelope is"},
		"two that swap": {func(intent, _, _ *descriptorpb.DescriptorProto) {
			intent.Field[6].Number, intent.Field[7].Number = intent.Field[7].Number, intent.Field[6].Number
		}, "field 7 of beam_agents.v1.ToolIntent is"},
		"an enum value renamed": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.EnumType[0].Value[4].Name = new("REFUSED")
		}, "4 of beam_agents.v1.ToolResult.Status is REFUSED, was REJECTED"},
		"an enum value gone": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.EnumType[0].Value = slices.Delete(result.EnumType[0].Value, 4, 5)
		}, "beam_agents.v1.ToolResult.REJECTED is gone and not reserved"},
		"an enum gone": {func(_, result, _ *descriptorpb.DescriptorProto) {
			result.EnumType = nil
			result.Field[3].Type, result.Field[3].TypeName = descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(), nil
		}, "enum beam_agents.v1.ToolResult.Status is gone"},
		"a message gone": {func(_, _, envelope *descriptorpb.DescriptorProto) {
			envelope.NestedType = slices.Delete(envelope.NestedType, 1, 2)
			envelope.Field = slices.Delete(envelope.Field, 5, 6)
			reserve(envelope, 6, "export_request")
		}, "message beam_agents.v1.AgentEnvelope.StateExportRequest is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			now := altered(t, func(f *descriptorpb.FileDescriptorProto) {
				tc.edit(messageNamed(t, f, "ToolIntent"), messageNamed(t, f, "ToolResult"), messageNamed(t, f, "AgentEnvelope"))
			})
			got := schema.NotAdditive(today, now)
			if (len(got) == 0) != (tc.want == "") || !strings.Contains(strings.Join(got, "; "), tc.want) {
				t.Errorf("problems %q, want %q", got, tc.want)
			}
		})
	}

	// What was reserved stays so.
	reserved := altered(t, func(f *descriptorpb.FileDescriptorProto) {
		m := messageNamed(t, f, "ToolResult")
		reserve(m, 200, "old_field")
		m.EnumType[0].ReservedName = append(m.EnumType[0].ReservedName, "OLD")
	})
	back := altered(t, func(f *descriptorpb.FileDescriptorProto) {
		m := messageNamed(t, f, "ToolResult")
		m.Field = append(m.Field, newField("fresh", 200), newField("old_field", 201))
		m.EnumType[0].Value = append(m.EnumType[0].Value, &descriptorpb.EnumValueDescriptorProto{Name: new("OLD"), Number: proto.Int32(50)})
	})
	if got := schema.NotAdditive(reserved, back); len(got) != 3 {
		t.Errorf("reuse of what was reserved: %q", got)
	}
}

func TestBaselines(t *testing.T) {
	baseline := os.DirFS("../../baseline")
	for path, want := range map[string]bool{ // whether the oldest set has it
		"beam_agents/v1/beam_agents.proto":     true,
		"beam_agents/runtime/v1/control.proto": false,
	} {
		all, err := schema.Baselines(baseline, path)
		if err != nil || all["release"] == nil || (all["before_kind"] != nil) != want {
			t.Errorf("%s: %v, %v", path, all, err)
		}
	}
	if all, err := schema.Baselines(baseline, "other.proto"); err != nil || len(all) > 0 {
		t.Errorf("no such file: %v, %v", all, err)
	}
	unlinked, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		{Name: new("a.proto"), Dependency: []string{"b.proto"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"no set": {0x0a}, "an import that is not there": unlinked} {
		if all, err := schema.Baselines(fstest.MapFS{"a.binpb": {Data: raw}}, "a.proto"); err == nil {
			t.Errorf("%s: %v", name, all)
		}
	}
}
