package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/beamagents/beamagents-go/golden"
	"github.com/beamagents/beamagents-go/internal/messagejson"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// blobs returns the blobs of the wire schema. The command line does not know the runtime's own
// state, which never leaves a pipeline.
func blobs(t testing.TB) []golden.Blob {
	t.Helper()
	all, err := golden.Blobs()
	all = slices.DeleteFunc(all, func(b golden.Blob) bool { return !strings.HasPrefix(string(b.Message), schemaPackage+".") })
	if err != nil || len(all) == 0 {
		t.Fatalf("%d blobs, %v", len(all), err)
	}
	return all
}

func typeOf(t testing.TB, name protoreflect.FullName) protoreflect.MessageType {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return mt
}

func deterministic(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// notCanonical are the blobs that no encoder writes; they say so in their text.
var notCanonical = map[string]bool{"v1/agent_envelope_last_wins": true, "v1/tool_intent_not_canonical": true}

func TestGoldensThereAndBack(t *testing.T) {
	for _, b := range blobs(t) {
		value, err := b.Value()
		if err != nil {
			t.Fatal(err)
		}
		want := deterministic(t, value)
		if bytes.Equal(want, b.Bytes) == notCanonical[b.Name] {
			t.Errorf("%s: is it canonical?", b.Name)
		}
		var line, stderr, back bytes.Buffer
		if code := run([]string{"decode", "--type", string(b.Message)}, bytes.NewReader(b.Bytes), &line, &stderr); code != 0 {
			t.Errorf("%s: decode ends with %d: %s", b.Name, code, &stderr)
		}
		if n := bytes.Count(line.Bytes(), []byte("\n")); n != 1 || !json.Valid(line.Bytes()) {
			t.Errorf("%s: %d lines: %s", b.Name, n, &line)
		}
		text := line.String()
		if code := run([]string{"encode", "--type", string(b.Message)}, &line, &back, &stderr); code != 0 {
			t.Errorf("%s: encode ends with %d: %s", b.Name, code, &stderr)
		}
		if !bytes.Equal(back.Bytes(), want) {
			t.Errorf("%s: %x came back as %x from %s", b.Name, want, back.Bytes(), text)
		}
	}
}

// The JSON is that of protobuf, except for unknown fields, because other programs read it.
func TestJSONIsTheProtobufMapping(t *testing.T) {
	for _, b := range blobs(t) {
		value, err := b.Value()
		if err != nil {
			t.Fatal(err)
		}
		m := proto.CloneOf(value)
		dropUnknown(m.ProtoReflect())
		back := value.ProtoReflect().New().Interface()
		if err := protojson.Unmarshal(messagejson.Append(nil, m.ProtoReflect()), back); err != nil || !proto.Equal(back, m) {
			t.Errorf("%s: protojson reads %v as %v, %v", b.Name, m, back, err)
		}
		for _, options := range []protojson.MarshalOptions{{}, {UseProtoNames: true, UseEnumNumbers: true, EmitUnpopulated: true, Multiline: true}} {
			text, err := options.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			back := value.ProtoReflect().New()
			if err := messagejson.Read(text, back); err != nil || !proto.Equal(back.Interface(), m) {
				t.Errorf("%s: protojson's %s reads as %v, %v", b.Name, text, back, err)
			}
		}
	}
}

// Integers are read as protojson reads them, however they are written.
func TestIntegersAreProtobufs(t *testing.T) {
	spellings := []string{
		"0", "-0", "0.0", "-0.00", "0e5", "0e-5", "0.0e5", "7.0", "7.10", "7.1e1", "7.1e0", "71e-1", "710e-1", "1E3", "1e+3", "10e-1", "100e-2", "100e-3",
		"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "922337203685477580.7e1", "9.223372036854775807e18",
		"9223372036854775807.0", "92233720368547758070e-1", "4294967295", "4294967296", "42949672950e-1", "2147483647", "2147483648", "-2147483648", "1e18", "1e19", "1e20", "1e400", "1e-400", "1e999999999999999999999",
		"+7", "007", "-", "", " 7", "7 ", "0x7", "7.", ".7", "1e1.0", "NaN", "Infinity", "1_000", "\\n7", "7 7",
	}
	for _, spelling := range spellings {
		for _, format := range []string{`{"seq":%s}`, `{"seq":"%s"}`, `{"step_index":%s}`, `{"step_index":"%s"}`, `{"kind":%s}`, `{"kind":"%s"}`} {
			text := []byte(fmt.Sprintf(format, spelling))
			want, got := new(pb.ToolIntent), new(pb.ToolIntent)
			wantErr, gotErr := protojson.Unmarshal(text, want), messagejson.Read(text, got.ProtoReflect())
			if (wantErr == nil) != (gotErr == nil) || wantErr == nil && !proto.Equal(want, got) {
				t.Errorf("%s reads as %v, %v; protojson reads %v, %v", text, got, gotErr, want, wantErr)
			}
		}
	}
}

func dropUnknown(m protoreflect.Message) {
	m.SetUnknown(nil)
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				dropUnknown(v.List().Get(i).Message())
			}
		default:
			dropUnknown(v.Message())
		}
		return true
	})
}

func TestDelimitedThereAndBack(t *testing.T) {
	streams := map[protoreflect.FullName][]byte{}
	for _, b := range blobs(t) {
		if !notCanonical[b.Name] {
			streams[b.Message] = append(binary.AppendUvarint(streams[b.Message], uint64(len(b.Bytes))), b.Bytes...)
		}
	}
	for name, stream := range streams {
		var lines, back, stderr bytes.Buffer
		code := run([]string{"decode", "--delimited", "--type", string(name)}, bytes.NewReader(stream), &lines, &stderr)
		code += run([]string{"encode", "--delimited", "--type", string(name)}, &lines, &back, &stderr)
		if code != 0 || !bytes.Equal(back.Bytes(), stream) {
			t.Errorf("%s: %x came back as %x, %s", name, stream, back.Bytes(), &stderr)
		}
	}
}

func TestReadJSON(t *testing.T) {
	for _, tc := range []struct{ message, text, want string }{
		{"ToolIntent", `{"seq":7}`, `{"seq":"7"}`},
		{"ToolIntent", ` { "intentId" : "i", "seq" : "-9223372036854775808", "step_index" : "4294967295" } `, `{"intent_id":"i","seq":"-9223372036854775808","step_index":4294967295}`},
		{"ToolIntent", `{"seq":7.0,"step_index":1e3,"kind":2.0}`, `{"seq":"7","step_index":1000,"kind":"APPROVAL"}`},
		{"ToolIntent", `{"seq":"-1.50e1","step_index":"70E-1"}`, `{"seq":"-15","step_index":7}`},
		{"ToolIntent", `{"entity_key":"+/8"}`, `{"entity_key":"+/8="}`},
		{"ToolIntent", `{"kind":"APPROVAL"}`, `{"kind":"APPROVAL"}`},
		{"ToolIntent", `{"kind":2}`, `{"kind":"APPROVAL"}`},
		{"ToolIntent", `{"kind":-1}`, `{"kind":-1}`},
		{"ToolIntent", `{"entity_key":"-_8"}`, `{"entity_key":"+/8="}`},
		{"ToolIntent", `{"entity_key":null,"seq":null,"kind":null}`, `{}`},
		{"ToolIntent", `{"intent_id":"\ud83d\ude00\u2028<&>"}`, `{"intent_id":"😀` + "\u2028" + `<&>"}`},
		{"AgentEnvelope", `{"external_event":""}`, `{"external_event":""}`},
		{"AgentEnvelope", `{"export_request":{}}`, `{"export_request":{}}`},
		{"AgentEnvelope", `{"external_event":null,"approval":{"approved":true}}`, `{"approval":{"approved":true}}`},
		{"AgentEnvelope", `{"tool_result":{"@unknown":"a01f2a"},"@unknown":"A81F01"}`, `{"tool_result":{"@unknown":"a01f2a"},"@unknown":"a81f01"}`},
		{"AgentEnvelope", `{"@unknown":"180a"}`, `{"@unknown":"180a"}`}, // a known field in another wire type
		{"TraceEvent", `{"attributes":{"b":"1","":"","a":"2"}}`, `{"attributes":{"":"","a":"2","b":"1"}}`},
		{"MemoryBlob", `{"entries":[{},{"key":"k"}]}`, `{"entries":[{},{"key":"k"}]}`},

		{"ToolIntent", ``, `the JSON is cut short`},
		{"ToolIntent", `{"seq":`, `seq: the JSON is cut short`},
		{"ToolIntent", `{"seq":7}{}`, `more than one JSON value`},
		{"ToolIntent", `[]`, `an array, want an object`},
		{"ToolIntent", `{"sequence":7}`, `sequence: ToolIntent has no such field`},
		{"ToolIntent", `{"seq":7,"seq":7}`, `a member occurs twice`},
		{"ToolIntent", `{"intent_id":"a","intentId":"b"}`, `intentId: a member occurs twice`},
		{"ToolIntent", `{"seq":7.5}`, `seq: a number that does not fit, want an integer of 64 bits`},
		{"ToolIntent", `{"seq":9223372036854775808}`, `seq: a number that does not fit, want an integer of 64 bits`},
		{"ToolIntent", `{"seq":"+7"}`, `seq: a text that does not fit, want an integer of 64 bits`},
		{"ToolIntent", `{"seq":"007"}`, `seq: a text that does not fit, want an integer of 64 bits`},
		{"ToolIntent", `{"step_index":"+7"}`, `step_index: a text that does not fit, want an integer from 0 to 4294967295`},
		{"ToolIntent", `{"seq":1e999999999}`, `seq: a number that does not fit, want an integer of 64 bits`},
		{"ToolIntent", `{"seq":true}`, `seq: true or false, want an integer of 64 bits`},
		{"ToolIntent", `{"seq":{}}`, `seq: an object, want an integer of 64 bits`},
		{"ToolIntent", `{"step_index":-1}`, `step_index: a number that does not fit, want an integer from 0 to 4294967295`},
		{"ToolIntent", `{"kind":"OTHER"}`, `kind: a text that does not fit, want a name or number of Kind`},
		{"ToolIntent", `{"kind":2147483648}`, `kind: a number that does not fit, want a name or number of Kind`},
		{"ToolIntent", `{"entity_key":"a"}`, `entity_key: a text that does not fit, want bytes in base64`},
		{"ToolIntent", `{"entity_key":"-/8="}`, `entity_key: a text that does not fit, want bytes in base64`},
		{"ToolIntent", `{"entity_key":"+/\n8="}`, `entity_key: a text that does not fit, want bytes in base64`},
		{"ToolIntent", `{"entity_key":"+/8\r="}`, `entity_key: a text that does not fit, want bytes in base64`},
		{"ToolIntent", `{"a\nbeamagents: line 9: all is well":1}`, `"a\nbeamagents: line 9: all is well": ToolIntent has no such field`},
		{"ToolIntent", `{"\u001b[2J":1}`, `"\x1b[2J": ToolIntent has no such field`},
		{"ToolIntent", `{"":1}`, `"": ToolIntent has no such field`},
		{"ToolIntent", `{"seq: 7":1}`, `"seq: 7": ToolIntent has no such field`},
		{"TraceEvent", `{"attributes":{"a\r\u2028\u202e":1}}`, `attributes."a\r\u2028\u202e": a number that does not fit, want a text`},
		{"TraceEvent", `{"attributes":{"a.b":1}}`, `attributes."a.b": a number that does not fit, want a text`},
		{"ToolIntent", `{"intent_id":7}`, `intent_id: a number that does not fit, want a text`},
		{"ToolIntent", `{"@unknown":"a01f"}`, `@unknown: these are not whole fields that ToolIntent does not know`},
		{"ToolIntent", `{"@unknown":"1807"}`, `@unknown: these are not whole fields that ToolIntent does not know`},
		{"ToolIntent", `{"@unknown":"x"}`, `@unknown: a text that does not fit, want bytes in hex`},
		{"AgentEnvelope", `{"external_event":"","approval":{}}`, `approval: external_event is set already, and only one of them can be`},
		{"AgentEnvelope", `{"approval":{"approved":1}}`, `approval.approved: a number that does not fit, want true or false`},
		{"StateSnapshot", `{"memory":{"entries":[{},{"value":1}]}}`, `memory.entries[1].value: a number that does not fit, want bytes in base64`},
		{"TraceEvent", `{"attributes":{"a":1}}`, `attributes.a: a number that does not fit, want a text`},
		{"TraceEvent", `{"attributes":["a"]}`, `attributes: an array, want an object`},
		{"MemoryBlob", `{"entries":{}}`, `entries: an object, want an array`},
		{"MemoryBlob", `{"entries":[null]}`, `entries[0]: null, want an object`},
	} {
		m := typeOf(t, protoreflect.FullName("beam_agents.v1."+tc.message)).New()
		err := messagejson.Read([]byte(tc.text), m)
		got := string(messagejson.Append(nil, m))
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s of %s gives %s; want %s", tc.text, tc.message, got, tc.want)
		}
	}
	for _, text := range []string{"{\"intent_id\":\"\xff\"}", `{"intent_id":"\ud800"}`, `{"seq":01}`, `{"seq":7,}`, `{'seq':7}`, `nul`} {
		var bad *messagejson.Error
		if err := messagejson.Read([]byte(text), new(pb.ToolIntent).ProtoReflect()); !errors.As(err, &bad) {
			t.Errorf("%q gives %v", text, err)
		}
	}
}

// The writers and readers of JSON know the kinds of fields that the schema has.
func TestKindsOfFields(t *testing.T) {
	for _, name := range messageNames() {
		fields := typeOf(t, protoreflect.FullName(schemaPackage+"."+name)).Descriptor().Fields()
		for i := range fields.Len() {
			fd := fields.Get(i)
			if fd.IsMap() && (fd.MapKey().Kind() != protoreflect.StringKind || fd.MapValue().Message() != nil) {
				t.Errorf("%s is another map", fd.FullName())
			}
			switch fd.Kind() {
			case protoreflect.MessageKind, protoreflect.StringKind, protoreflect.BytesKind, protoreflect.BoolKind,
				protoreflect.EnumKind, protoreflect.Uint32Kind, protoreflect.Int64Kind:
			default:
				t.Errorf("%s has kind %s", fd.FullName(), fd.Kind())
			}
		}
	}
}

func FuzzThereAndBack(f *testing.F) {
	names := messageNames()
	for _, b := range blobs(f) {
		for i, name := range names {
			if string(b.Message) == schemaPackage+"."+name {
				f.Add(uint8(i), b.Bytes)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		mt := typeOf(t, protoreflect.FullName(schemaPackage+"."+names[int(which)%len(names)]))
		m := mt.New().Interface()
		if proto.Unmarshal(b, m) != nil {
			t.Skip("not a message")
		}
		text := messagejson.Append(nil, m.ProtoReflect())
		if !json.Valid(text) || bytes.ContainsAny(text, "\n\r") {
			t.Fatalf("%x becomes %s", b, text)
		}
		back, err := encodeJSON(text, mt)
		if want := deterministic(t, m); err != nil || !bytes.Equal(back, want) {
			t.Fatalf("%x came back as %x, %v from %s", want, back, err, text)
		}
	})
}

func FuzzReadJSON(f *testing.F) {
	names := messageNames()
	for i, name := range names {
		f.Add(uint8(i), `{}`)
		for _, b := range blobs(f) {
			if value, err := b.Value(); err == nil && string(b.Message) == schemaPackage+"."+name {
				f.Add(uint8(i), string(messagejson.Append(nil, value.ProtoReflect())))
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		mt := typeOf(t, protoreflect.FullName(schemaPackage+"."+names[int(which)%len(names)]))
		b, err := encodeJSON([]byte(text), mt)
		if err != nil {
			var bad *messagejson.Error
			if !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > int64(len(text)) {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		m := mt.New().Interface()
		if err := proto.Unmarshal(b, m); err != nil || !bytes.Equal(deterministic(t, m), b) {
			t.Fatalf("%q: %x does not decode to itself: %v", text, b, err)
		}
	})
}

func TestSchemaSetIsTheSchema(t *testing.T) {
	file, err := readSchema()
	if err != nil {
		t.Fatal(err)
	}
	got := protodesc.ToFileDescriptorProto(file)
	got.SourceCodeInfo = nil
	want := protodesc.ToFileDescriptorProto(pb.File_beam_agents_v1_beam_agents_proto)
	if !proto.Equal(got, want) {
		t.Error("schema.binpb is out of date: run make generate")
	}
	if set := new(descriptorpb.FileDescriptorSet); proto.Unmarshal(schemaSet, set) != nil || len(set.GetFile()) != 1 {
		t.Error("schema.binpb is not one file")
	}
	for _, name := range messageNames() {
		md := messageIn(file, name)
		if comment(md) == "" && !strings.HasSuffix(name, "Entry") {
			t.Errorf("%s has no comment", name)
		}
		for i := range md.Fields().Len() {
			if comment(md.Fields().Get(i)) == "" {
				t.Errorf("%s has no comment", md.Fields().Get(i).FullName())
			}
		}
	}
}
