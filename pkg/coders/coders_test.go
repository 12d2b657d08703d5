package coders_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/beamagents/beamagents-go/pkg/coders"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// travelling are all messages that are elements by themselves.
var travelling = []proto.Message{
	&pb.MemoryBlob{}, &pb.ToolIntent{}, &pb.ToolResult{}, &pb.TraceEvent{}, &pb.AgentEnvelope{},
	&pb.AgentEnvelope_Approval{}, &pb.AgentEnvelope_StateExportRequest{}, &pb.Continuation{},
	&pb.LlmCacheBlob{}, &pb.ActivationErrorRecord{}, &pb.StateSnapshot{},
	&runtimepb.KeyControl{}, &runtimepb.DeferredEvent{},
}

// encodeElement and decodeElement go through Beam's own element coders, as a runner does.
func encodeElement(m any) ([]byte, error) {
	var buf bytes.Buffer
	err := beam.NewElementEncoder(reflect.TypeOf(m)).Encode(m, &buf)
	return buf.Bytes(), err
}

func decodeElement(t reflect.Type, b []byte) (proto.Message, error) {
	m, err := beam.NewElementDecoder(t).Decode(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return m.(proto.Message), nil
}

// framed is content as Beam's element encoder frames a custom coder's bytes.
func framed(content []byte) []byte {
	return append(protowire.AppendVarint(nil, uint64(len(content))), content...)
}

func name(m proto.Message) string { return string(m.ProtoReflect().Descriptor().FullName()) }

// parts are the messages that are never an element or a cell by themselves.
var parts = []protoreflect.FullName{
	"beam_agents.v1.MemoryEntry", "beam_agents.v1.LlmCacheEntry",
	"beam_agents.runtime.v1.StoredResponse", "beam_agents.runtime.v1.StoredUsage", "beam_agents.runtime.v1.StoredHeader", "beam_agents.runtime.v1.RequestPart",
}

func TestEveryTravellingMessageHasADeterministicCoder(t *testing.T) {
	listed := map[protoreflect.FullName]bool{}
	for _, m := range travelling {
		listed[m.ProtoReflect().Descriptor().FullName()] = true
		c := beam.NewCoder(typex.New(reflect.TypeOf(m)))
		if !c.IsDeterministic() {
			t.Errorf("%s: IsDeterministic() = false", name(m))
		}
		if custom := coder.LookupCustomCoder(reflect.TypeOf(m)); custom == nil || !strings.Contains(custom.Enc.Fn.Name(), "pkg/coders.encode") {
			t.Errorf("%s has coder %v, which is not ours", name(m), c)
		}
	}
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_beam_agents_v1_beam_agents_proto, runtimepb.File_beam_agents_runtime_v1_control_proto,
	} {
		for i := range file.Messages().Len() {
			m := file.Messages().Get(i).FullName()
			if !listed[m] && !slices.Contains(parts, m) {
				t.Errorf("%s has no coder: register it, and list it here", m)
			}
		}
	}
}

func TestCoderWritesTheDeterministicEncoding(t *testing.T) {
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 500, protowire.BytesType), []byte("newer"))
	event := &pb.TraceEvent{Seq: -1, EventType: 99, Attributes: map[string]string{}}
	for i := range 100 {
		event.Attributes[fmt.Sprintf("k%02d", i)] = ""
	}
	event.ProtoReflect().SetUnknown(unknown)
	memory := &pb.MemoryBlob{Entries: []*pb.MemoryEntry{{Key: "b"}, {Key: "a"}, {Key: "b"}}}
	for _, m := range append(travelling, event, memory) {
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 { // a map would come out in another order
			got, err := encodeElement(m)
			if err != nil {
				t.Fatalf("%s: %v", name(m), err)
			}
			if !bytes.Equal(got, framed(want)) {
				t.Fatalf("%s: encoded %x, want %x", name(m), got, framed(want))
			}
		}
		back, err := decodeElement(reflect.TypeOf(m), framed(want))
		if err != nil {
			t.Fatalf("%s: %v", name(m), err)
		}
		if diff := cmp.Diff(m, back, protocmp.Transform()); diff != "" {
			t.Errorf("%s changed (-want +got):\n%s", name(m), diff)
		}
	}
}

// eachText returns, for each string that a message of this type can hold at any depth,
// a message in which it is text.
func eachText(m protoreflect.Message, text string) map[string]proto.Message {
	found := map[string]proto.Message{}
	v := protoreflect.ValueOfString(text)
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		name := string(field.Name())
		add := func(path string, set func(in protoreflect.Message)) {
			in := m.New()
			set(in)
			found[path] = in.Interface()
		}
		switch {
		case field.IsMap():
			add(name+".value", func(in protoreflect.Message) {
				in.Mutable(field).Map().Set(protoreflect.ValueOfString("k").MapKey(), v)
			})
			add(name+".key", func(in protoreflect.Message) {
				in.Mutable(field).Map().Set(v.MapKey(), protoreflect.ValueOfString("v"))
			})
		case field.Kind() == protoreflect.StringKind && field.IsList():
			add(name, func(in protoreflect.Message) { in.Mutable(field).List().Append(v) })
		case field.Kind() == protoreflect.StringKind:
			add(name, func(in protoreflect.Message) { in.Set(field, v) })
		case field.Message() != nil && field.IsList():
			for path, inner := range eachText(m.NewField(field).List().NewElement().Message(), text) {
				add(name+"."+path, func(in protoreflect.Message) {
					in.Mutable(field).List().Append(protoreflect.ValueOfMessage(inner.ProtoReflect()))
				})
			}
		case field.Message() != nil:
			for path, inner := range eachText(m.NewField(field).Message(), text) {
				add(name+"."+path, func(in protoreflect.Message) {
					in.Set(field, protoreflect.ValueOfMessage(inner.ProtoReflect()))
				})
			}
		}
	}
	return found
}

func TestCoderRefuses(t *testing.T) {
	const good, bad = "~marker~", "~mark\xffr~"
	texts := 0
	for _, m := range travelling {
		for path, broken := range eachText(m.ProtoReflect(), bad) {
			b, err := encodeElement(broken)
			if err == nil {
				t.Errorf("%s.%s: encoded text that is not UTF-8 as %x", name(m), path, b)
				continue
			}
			// The error names the field, in the words of CheckText.
			want := strings.TrimPrefix(coders.CheckText(broken).Error(), "coders: ")
			if !errors.Is(err, coders.ErrText) || !strings.Contains(err.Error(), "encode "+want) || !strings.Contains(want, name(m)) {
				t.Errorf("%s.%s: the error is %v; want encode %s", name(m), path, err, want)
			}
		}
		for path, valid := range eachText(m.ProtoReflect(), good) {
			texts++
			b, err := encodeElement(valid)
			if err != nil {
				t.Fatal(err)
			}
			b = bytes.Replace(b, []byte(good), []byte(bad), 1)
			got, err := decodeElement(reflect.TypeOf(m), b)
			if err == nil {
				t.Errorf("%s.%s: decoded text that is not UTF-8 as %v", name(m), path, got)
				continue
			}
			if field := path[strings.LastIndexByte(path, '.')+1:]; !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), " is not UTF-8") {
				t.Errorf("%s.%s: the error is %v; want the field and what is wrong", name(m), path, err)
			}
		}
	}
	if texts < 30 {
		t.Errorf("only %d places of text", texts)
	}
	for _, m := range travelling {
		typedNil := reflect.Zero(reflect.TypeOf(m)).Interface()
		if _, err := encodeElement(typedNil); !errors.Is(err, coders.ErrNil) {
			t.Errorf("%s: encoding nil gave %v, want ErrNil", name(m), err)
		}
		if _, err := decodeElement(reflect.TypeOf(m), framed([]byte{0x0a})); err == nil {
			t.Errorf("%s: decoded a message that is cut short", name(m))
		}
	}
}

// Beam accepts registrations until beam.Init, so the second registration happens here. Every test
// of this package runs after it.
func init() {
	coders.Register((*pb.ToolIntent)(nil), (*pb.ToolIntent)(nil))
}

// The Row coder accepts a struct without the star and writes other bytes. The package documents
// this trap. It would be good if Beam returned an error.
func TestWithoutPointerBeamUsesTheRowCoder(t *testing.T) {
	c := beam.NewCoder(typex.New(reflect.TypeFor[pb.ToolResult]()))
	if c.IsDeterministic() || strings.Contains(c.String(), "encode") {
		t.Errorf("a message by value now has coder %v: correct the package documentation", c)
	}
}

func FuzzDecode(f *testing.F) {
	for i := range travelling {
		f.Add(uint8(i), []byte{0x0a, 1, 'k', 0x18, 7})
		f.Add(uint8(i), []byte{0xa0, 0x1f, 0x2a})
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		of := reflect.TypeOf(travelling[int(which)%len(travelling)])
		m, err := decodeElement(of, framed(b))
		reference := reflect.New(of.Elem()).Interface().(proto.Message)
		if wantErr := proto.Unmarshal(b, reference); (err != nil) != (wantErr != nil) {
			t.Fatalf("error %v, protobuf says %v", err, wantErr)
		}
		if err != nil {
			return
		}
		encoded, err := encodeElement(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeElement(of, encoded)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(reference, again, protocmp.Transform()); diff != "" {
			t.Fatalf("changed on the way (-want +got):\n%s", diff)
		}
		twice, err := encodeElement(again)
		if err != nil || !bytes.Equal(encoded, twice) {
			t.Fatalf("equal messages, other bytes: %x, %x (%v)", encoded, twice, err)
		}
	})
}
