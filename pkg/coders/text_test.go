package coders

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func TestCheckTextNamesTheField(t *testing.T) {
	const bad = "bad\xff"
	for want, m := range map[string]proto.Message{
		"beam_agents.v1.ToolIntent: tool_name":                &pb.ToolIntent{IntentId: "good", ToolName: bad},
		"beam_agents.v1.MemoryBlob: entries[2].key":           &pb.MemoryBlob{Entries: []*pb.MemoryEntry{nil, {Key: "good"}, {Key: bad}}},
		"beam_agents.v1.MemoryEntry: key":                     &pb.MemoryEntry{Key: bad}, // has no coder of ours
		"beam_agents.v1.LlmCacheBlob: entries[0].cache_key":   &pb.LlmCacheBlob{Entries: []*pb.LlmCacheEntry{{CacheKey: bad}}},
		"beam_agents.v1.Continuation: pending_intent_ids[1]":  &pb.Continuation{PendingIntentIds: []string{"good", bad}},
		"beam_agents.v1.StateSnapshot: pending[1].tool_name":  &pb.StateSnapshot{Pending: []*pb.ToolIntent{{}, {ToolName: bad}}},
		"beam_agents.v1.StateSnapshot: continuation.adapter":  &pb.StateSnapshot{Continuation: &pb.Continuation{Adapter: bad}},
		"beam_agents.v1.StateSnapshot: request_id":            &pb.StateSnapshot{RequestId: bad},
		"beam_agents.v1.AgentEnvelope: approval.approver":     &pb.AgentEnvelope{Payload: &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{Approver: bad}}},
		"beam_agents.v1.AgentEnvelope: tool_result.intent_id": &pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{IntentId: bad}}},
		"beam_agents.v1.TraceEvent: attributes":               &pb.TraceEvent{Attributes: map[string]string{"good": "good", "key": bad}},
		// The first in order of the schema, whatever the order of the map.
		"beam_agents.runtime.v1.KeyControl: pending[0].tool_name": &runtimepb.KeyControl{
			Pending: []*pb.ToolIntent{{ToolName: bad, ArgsJson: bad}}, ExpiredIntentIds: []string{bad},
		},
		"beam_agents.runtime.v1.KeyControl: continuation.pending_intent_ids[0]": &runtimepb.KeyControl{Continuation: &pb.Continuation{PendingIntentIds: []string{bad}}},
		"beam_agents.runtime.v1.KeyControl: expired_intent_ids[1]":              &runtimepb.KeyControl{ExpiredIntentIds: []string{"good", bad}},
		"beam_agents.runtime.v1.DeferredEvent: envelope.export_request.request_id": &runtimepb.DeferredEvent{Envelope: &pb.AgentEnvelope{
			Payload: &pb.AgentEnvelope_ExportRequest{ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: bad}},
		}},
	} {
		err := CheckText(m)
		if !errors.Is(err, ErrText) {
			t.Errorf("CheckText(%v) = %v, want ErrText", m, err)
			continue
		}
		if want := "coders: " + want + ": text is not UTF-8"; err.Error() != want {
			t.Errorf("CheckText = %q, want %q", err, want)
		}
	}
	// The path names neither a key nor a value of the map: such text must not be printed.
	if err := CheckText(&pb.TraceEvent{Attributes: map[string]string{bad: ""}}); !errors.Is(err, ErrText) || !strings.Contains(err.Error(), ": attributes: ") {
		t.Errorf("CheckText of a bad key = %v", err)
	}
}

// Messages that no decoder makes, but a user can, do not count as invalid text.
func TestCheckTextOfOddValues(t *testing.T) {
	odd := []proto.Message{
		nil,
		(*pb.MemoryEntry)(nil),
		&pb.MemoryEntry{},
		&pb.MemoryBlob{Entries: []*pb.MemoryEntry{nil}},
		&pb.LlmCacheBlob{Entries: []*pb.LlmCacheEntry{nil}},
		&pb.StateSnapshot{Pending: []*pb.ToolIntent{nil}},
		&pb.TraceEvent{Attributes: map[string]string{"": ""}},
		&pb.ToolIntent{EntityKey: []byte{0xff}}, // bytes are no text
		&runtimepb.KeyControl{Continuation: (*pb.Continuation)(nil), Pending: []*pb.ToolIntent{nil}},
		&runtimepb.DeferredEvent{Envelope: (*pb.AgentEnvelope)(nil)},
	}
	for _, m := range fast {
		odd = append(odd, m, m.ProtoReflect().Type().Zero().Interface())
	}
	for _, payload := range []*pb.AgentEnvelope{
		{Payload: (*pb.AgentEnvelope_ExternalEvent)(nil)},
		{Payload: (*pb.AgentEnvelope_ToolResult)(nil)},
		{Payload: (*pb.AgentEnvelope_Approval_)(nil)},
		{Payload: (*pb.AgentEnvelope_ExportRequest)(nil)},
		{Payload: &pb.AgentEnvelope_ToolResult{}},
		{Payload: &pb.AgentEnvelope_Approval_{}},
		{Payload: &pb.AgentEnvelope_ExportRequest{}},
	} {
		odd = append(odd, &pb.AgentEnvelope{Payload: payload.Payload}, &runtimepb.DeferredEvent{Envelope: &pb.AgentEnvelope{Payload: payload.Payload}})
	}
	for _, m := range odd {
		if err := CheckText(m); err != nil {
			t.Errorf("CheckText(%T %v) = %v", m, m, err)
		}
	}
	// What is odd in one place hides nothing in another.
	for _, m := range []proto.Message{
		&pb.StateSnapshot{Pending: []*pb.ToolIntent{nil, {ToolName: "\xff"}}},
		&runtimepb.KeyControl{Pending: []*pb.ToolIntent{nil}, ExpiredIntentIds: []string{"\xff"}},
	} {
		if err := CheckText(m); !errors.Is(err, ErrText) {
			t.Errorf("CheckText(%v) = %v, want ErrText", m, err)
		}
	}
}

// CheckText promises what the coder will do: it finds a text if and only if the encoding
// fails.
func TestCheckTextAgreesWithTheEncoding(t *testing.T) {
	agree := func(t interface {
		Helper()
		Fatalf(format string, args ...any)
	}, m proto.Message) {
		t.Helper()
		_, want := encodeReference(m)
		if got := CheckText(m); (got != nil) != (want != nil) || got != nil && !errors.Is(got, ErrText) {
			t.Fatalf("CheckText(%v) = %v, encoding gives %v", m, got, want)
		}
	}
	for _, m := range fullMessages("good") {
		agree(t, m)
		each(m.ProtoReflect(), func(set func(text string)) {
			set("bad\xff")
			agree(t, m)
			set("good")
		})
	}
	messages := append(fullMessages("good"), &pb.MemoryEntry{}, &pb.LlmCacheEntry{})
	rapid.Check(t, func(t *rapid.T) {
		m := newLike(rapid.SampledFrom(messages).Draw(t, "message"))
		draw(t, m.ProtoReflect())
		agree(t, m)
	})
}

// Messages that a pipeline registers itself may be of any syntax: one whose messages are
// delimited as groups has text in them all the same, and reports the same field each time.
func TestCheckTextOfOtherSchemas(t *testing.T) {
	optional, message := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	text := descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("other.proto"), Package: new("other"), Syntax: new("editions"), Edition: descriptorpb.Edition_EDITION_2023.Enum(),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: new("Other"),
			Field: []*descriptorpb.FieldDescriptorProto{
				{Name: new("first"), Number: new(int32(1)), Type: text, Label: optional},
				{Name: new("second"), Number: new(int32(2)), Type: text, Label: optional},
				{
					Name: new("inner"), Number: new(int32(3)), Type: message, TypeName: new(".other.Other"), Label: optional,
					Options: &descriptorpb.FieldOptions{Features: &descriptorpb.FeatureSet{MessageEncoding: descriptorpb.FeatureSet_DELIMITED.Enum()}},
				},
			},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := func(name protoreflect.Name, v protoreflect.Value) protoreflect.Value {
		m := dynamicpb.NewMessage(file.Messages().Get(0))
		m.Set(m.Descriptor().Fields().ByName(name), v)
		return protoreflect.ValueOfMessage(m)
	}
	bad := protoreflect.ValueOfString("bad\xff")
	inner := other("inner", other("second", bad)).Message()
	if _, err := encodeReference(inner.Interface()); err == nil {
		t.Fatal("it encodes")
	}
	if err := CheckText(inner.Interface()); !errors.Is(err, ErrText) || !strings.Contains(err.Error(), " inner.second: ") {
		t.Errorf("CheckText = %v, want inner.second", err)
	}
	for range 50 {
		both := other("first", bad).Message()
		both.Set(both.Descriptor().Fields().ByName("second"), bad)
		if err := CheckText(both.Interface()); err == nil || !strings.Contains(err.Error(), " first: ") {
			t.Fatalf("CheckText = %v, want the first", err)
		}
	}
}
