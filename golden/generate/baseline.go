package main

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// A stage is a step in the history of the schema: the names of the fields, enums, enum values and
// messages that it added, without the prefix beam_agents.v1, and the paths of files.
type stage struct {
	name string
	adds []string
}

const (
	runtimeName    = "beam_agents.runtime.v1."
	keyControlName = runtimeName + "KeyControl."
)

// history returns all stages, oldest first. A descriptor set before_<stage> lacks what that stage
// and all later stages added. When the schema gets something new, append a stage; then the older
// sets stay as they are.
//
// Within a message, the field numbers show the order of the stages. Between messages the order is
// arbitrary and does not matter, because no stage changes what another one added.
func history() []stage {
	return []stage{
		{"kind", []string{"ToolIntent.kind", "ToolIntent.Kind"}},
		{"trace_id", []string{"ToolIntent.trace_id"}},
		{"signature", []string{
			"ToolIntent.signature_scheme", "ToolIntent.signing_key_id", "ToolIntent.signature",
			"ToolIntent.SignatureScheme",
		}},
		{"escalations", []string{"Continuation.escalations"}},
		{"suspended", []string{"TraceEvent.EventType.SUSPENDED"}},
		// StateSnapshot came with this stage, too. It stays in all sets, so that its content is
		// read with the old shapes.
		{"export_request", []string{"AgentEnvelope.export_request", "AgentEnvelope.StateExportRequest"}},
		// The state of the runtime. Only this module reads it.
		{"runtime", []string{"beam_agents/runtime/v1/control.proto"}},
		// What RunAgent counts and remembers for a key.
		{"run_agent", []string{
			keyControlName + "ttl_armed_ms", keyControlName + "snapshot_version", keyControlName + "recent_event_ids",
			keyControlName + "hour", keyControlName + "activations_in_hour", keyControlName + "timeouts_in_row",
			keyControlName + "escalation_ids", keyControlName + "drain_now_ms",
		}},
		// The response of a model.
		{"stored_response", []string{
			runtimeName + "StoredResponse", runtimeName + "StoredHeader", runtimeName + "RequestPart",
		}},
		// What a response says about its tokens and its model.
		{"stored_usage", []string{runtimeName + "StoredResponse.usage", runtimeName + "StoredUsage"}},
	}
}

func baselineFiles() (map[string][]byte, error) {
	set := schemaToday()
	release, err := encodeSet(set)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{releaseFile: release}
	for _, s := range slices.Backward(history()) {
		for _, name := range s.adds {
			if !cut(set, name) {
				return nil, fmt.Errorf("generate: stage %s: the schema has no %s", s.name, name)
			}
		}
		if files["before_"+s.name+".binpb"], err = encodeSet(set); err != nil {
			return nil, fmt.Errorf("generate: stage %s: %w", s.name, err)
		}
	}
	return files, nil
}

// schemaToday returns all files of the schema, imported files first.
func schemaToday() *descriptorpb.FileDescriptorSet {
	return &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(pb.File_beam_agents_v1_beam_agents_proto),
		protodesc.ToFileDescriptorProto(runtimepb.File_beam_agents_runtime_v1_control_proto),
	}}
}

func encodeSet(set *descriptorpb.FileDescriptorSet) ([]byte, error) {
	if _, err := protodesc.NewFiles(set); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(set)
}

// cut removes the file or the element with that name from set, and reports whether it was there.
func cut(set *descriptorpb.FileDescriptorSet, name string) bool {
	found := false
	hit := func(full string) bool {
		found = found || full == name
		return full == name
	}
	cutEnums := func(prefix string, enums []*descriptorpb.EnumDescriptorProto) []*descriptorpb.EnumDescriptorProto {
		for _, e := range enums {
			e.Value = slices.DeleteFunc(e.Value, func(v *descriptorpb.EnumValueDescriptorProto) bool {
				return hit(prefix + e.GetName() + "." + v.GetName())
			})
		}
		return slices.DeleteFunc(enums, func(e *descriptorpb.EnumDescriptorProto) bool { return hit(prefix + e.GetName()) })
	}
	var cutMessages func(prefix string, messages []*descriptorpb.DescriptorProto) []*descriptorpb.DescriptorProto
	cutMessages = func(prefix string, messages []*descriptorpb.DescriptorProto) []*descriptorpb.DescriptorProto {
		for _, m := range messages {
			below := prefix + m.GetName() + "."
			m.Field = slices.DeleteFunc(m.Field, func(f *descriptorpb.FieldDescriptorProto) bool { return hit(below + f.GetName()) })
			m.EnumType = cutEnums(below, m.EnumType)
			m.NestedType = cutMessages(below, m.NestedType)
		}
		return slices.DeleteFunc(messages, func(m *descriptorpb.DescriptorProto) bool { return hit(prefix + m.GetName()) })
	}
	set.File = slices.DeleteFunc(set.File, func(f *descriptorpb.FileDescriptorProto) bool { return hit(f.GetName()) })
	for _, file := range set.File {
		prefix := strings.TrimPrefix(file.GetPackage()+".", "beam_agents.v1.")
		file.EnumType = cutEnums(prefix, file.EnumType)
		file.MessageType = cutMessages(prefix, file.MessageType)
	}
	return found
}
