package beamagentspb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// notAdditive lists what keeps now from reading, unchanged in number, type and
// name, everything that old defines. A field or enum value may go only where its
// number and its name are reserved.
func notAdditive(old, now protoreflect.FileDescriptor) (problems []string) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if old.Package() != now.Package() {
		report("package %s is %s", old.Package(), now.Package())
	}
	enums := func(oldEnums, nowEnums protoreflect.EnumDescriptors) {
		for ed := range elements(oldEnums) {
			nowEd := nowEnums.ByName(ed.Name())
			if nowEd == nil {
				report("enum %s is gone", ed.FullName())
				continue
			}
			for v := range elements(ed.Values()) {
				got := nowEd.Values().ByNumber(v.Number())
				switch {
				case got != nil && got.Name() != v.Name():
					report("%d of %s is %s, was %s", v.Number(), ed.FullName(), got.Name(), v.Name())
				case got == nil && (!nowEd.ReservedRanges().Has(v.Number()) || !nowEd.ReservedNames().Has(v.Name())):
					report("%s is gone and not reserved", v.FullName())
				}
			}
			for v := range elements(nowEd.Values()) {
				if ed.ReservedRanges().Has(v.Number()) || ed.ReservedNames().Has(v.Name()) {
					report("%s was reserved", v.FullName())
				}
			}
		}
	}
	var messages func(oldMessages, nowMessages protoreflect.MessageDescriptors)
	messages = func(oldMessages, nowMessages protoreflect.MessageDescriptors) {
		for md := range elements(oldMessages) {
			nowMd := nowMessages.ByName(md.Name())
			if nowMd == nil {
				report("message %s is gone", md.FullName())
				continue
			}
			for fd := range elements(md.Fields()) {
				got := nowMd.Fields().ByNumber(fd.Number())
				switch {
				case got != nil && wireShape(got) != wireShape(fd):
					report("field %d of %s is %q, was %q", fd.Number(), md.FullName(), wireShape(got), wireShape(fd))
				case got == nil && (!nowMd.ReservedRanges().Has(fd.Number()) || !nowMd.ReservedNames().Has(fd.Name())):
					report("%s is gone and not reserved", fd.FullName())
				}
			}
			for fd := range elements(nowMd.Fields()) {
				if md.ReservedRanges().Has(fd.Number()) || md.ReservedNames().Has(fd.Name()) {
					report("%s was reserved", fd.FullName())
				}
			}
			enums(md.Enums(), nowMd.Enums())
			messages(md.Messages(), nowMd.Messages())
		}
	}
	enums(old.Enums(), now.Enums())
	messages(old.Messages(), now.Messages())
	return problems
}

// wireShape is all of a field that its encodings, binary and JSON, depend on.
func wireShape(fd protoreflect.FieldDescriptor) string {
	parts := []string{string(fd.Name()), fd.JSONName(), fd.Cardinality().String(), fd.Kind().String()}
	switch {
	case fd.Message() != nil:
		parts = append(parts, string(fd.Message().FullName()))
	case fd.Enum() != nil:
		parts = append(parts, string(fd.Enum().FullName()))
	}
	if fd.HasPresence() {
		parts = append(parts, "presence")
	}
	if fd.IsPacked() {
		parts = append(parts, "packed")
	}
	if fd.IsMap() {
		parts = append(parts, "map")
	}
	if one := fd.ContainingOneof(); one != nil {
		parts = append(parts, "oneof", string(one.Name()))
	}
	return strings.Join(parts, " ")
}

func baselines(t *testing.T) map[string]protoreflect.FileDescriptor {
	t.Helper()
	files, err := filepath.Glob("../../baseline/*.binpb")
	if err != nil || len(files) < 2 {
		t.Fatalf("baselines: %q, %v", files, err)
	}
	all := map[string]protoreflect.FileDescriptor{}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		set := &descriptorpb.FileDescriptorSet{}
		if err := proto.Unmarshal(raw, set); err != nil {
			t.Fatal(err)
		}
		for _, file := range set.GetFile() {
			if all[filepath.Base(name)], err = protodesc.NewFile(file, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

func TestAdditive(t *testing.T) {
	all := baselines(t)
	if all["release.binpb"] == nil {
		t.Error("no release")
	}
	for name, old := range all {
		if problems := notAdditive(old, pb.File_beam_agents_v1_beam_agents_proto); len(problems) > 0 {
			t.Errorf("since %s: %q", name, problems)
		}
		// A stage of the history lacks something.
		if problems := notAdditive(pb.File_beam_agents_v1_beam_agents_proto, old); len(problems) == 0 && name != "release.binpb" {
			t.Errorf("%s is the schema of today", name)
		}
	}
}

func TestAdditiveCanFail(t *testing.T) {
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
			got := notAdditive(today, now)
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
	if got := notAdditive(reserved, back); len(got) != 3 {
		t.Errorf("reuse of what was reserved: %q", got)
	}
}
