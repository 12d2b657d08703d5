package messagejson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/beamagents/beamagents-go/golden"
	"github.com/beamagents/beamagents-go/internal/messagejson"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// messageTypes are the messages of the schema.
func messageTypes() (all []protoreflect.MessageType) {
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		if mt.Descriptor().ParentFile().Package() == "beam_agents.v1" {
			all = append(all, mt)
		}
		return true
	})
	slices.SortFunc(all, func(a, b protoreflect.MessageType) int {
		return strings.Compare(string(a.Descriptor().FullName()), string(b.Descriptor().FullName()))
	})
	return all
}

func TestReadable(t *testing.T) {
	for name, tc := range map[string]struct {
		m    proto.Message
		want string
	}{
		"a key that is text":           {&pb.AgentEnvelope{EntityKey: []byte("acme \"1\"")}, `{"key":"acme \"1\""}`},
		"another key":                  {&pb.AgentEnvelope{EntityKey: []byte{0xff}}, `{"entity_key":"/w=="}`},
		"no key":                       {&pb.AgentEnvelope{EventTimeMs: 7}, `{"event_time_ms":"7"}`},
		"an event":                     {event(`{"b":1.0,"a":"<&>"}`), `{"external_event":{"b":1.0,"a":"<&>"}}`},
		"an array":                     {event(`[1, 2]`), `{"external_event":[1, 2]}`},
		"JSON of another kind":         {event(`"e30="`), `{"external_event":"ImUzMD0i"}`},
		"a line break":                 {event("{\"a\":\n1}"), `{"external_event":"eyJhIjoKMX0="}`},
		"a member twice":               {event(`{"a":1,"a":2}`), `{"external_event":"eyJhIjoxLCJhIjoyfQ=="}`},
		"two values":                   {event(`{} {}`), `{"external_event":"e30ge30="}`},
		"space around":                 {event(` {}`), `{"external_event":"IHt9"}`},
		"an empty event":               {event(``), `{"external_event":""}`},
		"in another message":           {&pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{EntityKey: []byte("k"), Payload: []byte(`{"ok":true}`)}}}, `{"tool_result":{"key":"k","payload":{"ok":true}}}`},
		"in a list":                    {&pb.MemoryBlob{Entries: []*pb.MemoryEntry{{Key: "k", Value: []byte(`{}`)}}}, `{"entries":[{"key":"k","value":{}}]}`},
		"detail of a dead letter":      {&pb.ActivationErrorRecord{Reason: "r", Detail: `{"code":"c"}`}, `{"reason":"r","detail":{"code":"c"}}`},
		"arguments of an intent":       {&pb.ToolIntent{ArgsJson: `{"cents":5}`}, `{"args_json":{"cents":5}}`},
		"detail of another program":    {&pb.ActivationErrorRecord{Detail: "no JSON"}, `{"detail":"no JSON"}`},
		"text elsewhere stays as text": {&pb.ToolResult{IntentId: "{}"}, `{"intent_id":"{}"}`},
	} {
		got := messagejson.AppendReadable(nil, tc.m.ProtoReflect())
		back := tc.m.ProtoReflect().New()
		if err := messagejson.ReadReadable(got, back); err != nil || string(got) != tc.want || !proto.Equal(back.Interface(), tc.m) {
			t.Errorf("%s: %s, read as %v, %v; want %s", name, got, back, err, tc.want)
		}
	}
}

// A user's program can build a message that no decoder returns.
func TestReadableTextIsUTF8(t *testing.T) {
	m := &pb.TraceEvent{Attributes: map[string]string{"a\xff": "\xff\xff"}}
	if got := string(messagejson.AppendReadable(nil, m.ProtoReflect())); got != "{\"attributes\":{\"a\ufffd\":\"\ufffd\"}}" {
		t.Error(got)
	}
}

func event(text string) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte(text)}}
}

func TestReadReadableRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"key":"a","entity_key":"YQ=="}`:  "entity_key: a member occurs twice",
		`{"entityKey":"YQ==","key":"a"}`:   "key: a member occurs twice",
		`{"key":7}`:                        "key: a number that does not fit, want a text",
		`{"key":{"text":"a"}}`:             "key: an object, want a text",
		`{"external_event":{"a":1,"a":2}}`: "external_event: a member occurs twice",
		`{"external_event":7}`:             "external_event: a number that does not fit, want bytes in base64",
		`{"external_event":{`:              "external_event: the JSON is cut short",
	} {
		var bad *messagejson.Error
		if err := messagejson.ReadReadable([]byte(text), new(pb.AgentEnvelope).ProtoReflect()); !errors.As(err, &bad) || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, fd := range []string{"detail", "args_json"} {
		found := 0
		for _, mt := range messageTypes() {
			m := mt.New()
			if messagejson.ReadReadable([]byte(`{"`+fd+`":[]}`), m) == nil {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d messages have JSON in %s", found, fd) // a field was renamed
		}
	}
	// The strict form knows neither.
	for _, text := range []string{`{"key":"a"}`, `{"external_event":{}}`} {
		if err := messagejson.Read([]byte(text), new(pb.AgentEnvelope).ProtoReflect()); err == nil {
			t.Errorf("Read takes %s", text)
		}
	}
}

// No message of the schema has a field that the readable form's own member would hide.
func TestNoFieldIsHidden(t *testing.T) {
	for _, mt := range messageTypes() {
		fields := mt.Descriptor().Fields()
		if fields.ByName("entity_key") != nil && (fields.ByName("key") != nil || fields.ByName("entity_key").Kind() != protoreflect.BytesKind) {
			t.Errorf("%s has another key", mt.Descriptor().FullName())
		}
	}
}

func FuzzReadable(f *testing.F) {
	types := messageTypes()
	blobs, err := golden.Blobs()
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range blobs {
		for i, mt := range types {
			if mt.Descriptor().FullName() == b.Message {
				f.Add(uint8(i), b.Bytes)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		m := types[int(which)%len(types)].New()
		if proto.Unmarshal(b, m.Interface()) != nil {
			t.Skip("not a message")
		}
		text := messagejson.AppendReadable(nil, m)
		if !json.Valid(text) || bytes.ContainsAny(text, "\n\r") {
			t.Fatalf("%x becomes %s", b, text)
		}
		back := m.New()
		if err := messagejson.ReadReadable(text, back); err != nil || !proto.Equal(back.Interface(), m.Interface()) {
			t.Fatalf("%s is read as %v, %v", text, back, err)
		}
	})
}
