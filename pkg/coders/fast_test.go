package coders

import (
	"bytes"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/golden"
	"github.com/beamagents/beamagents-go/internal/racedetector"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// fast are the messages with a fast path, empty.
var fast = []proto.Message{
	&pb.MemoryBlob{}, &pb.ToolIntent{}, &pb.ToolResult{}, &pb.TraceEvent{}, &pb.AgentEnvelope{},
	&pb.AgentEnvelope_Approval{}, &pb.AgentEnvelope_StateExportRequest{}, &pb.Continuation{},
	&pb.LlmCacheBlob{}, &pb.ActivationErrorRecord{}, &pb.StateSnapshot{},
	&runtimepb.KeyControl{}, &runtimepb.DeferredEvent{},
}

func encodeReference(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func newLike(m proto.Message) proto.Message { return m.ProtoReflect().New().Interface() }

// full is a message like m with every field set. Of a oneof the last one is set.
func full(m proto.Message, text string) proto.Message {
	m = newLike(m)
	fill(m.ProtoReflect(), text)
	return m
}

func fill(m protoreflect.Message, text string) {
	value := func(fd protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
		switch fd.Kind() {
		case protoreflect.MessageKind:
			fill(v.Message(), text)
			return v
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(text)
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes([]byte("bytes"))
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(true)
		case protoreflect.EnumKind:
			return protoreflect.ValueOfEnum(-1)
		case protoreflect.Uint32Kind:
			return protoreflect.ValueOfUint32(1 << 31)
		case protoreflect.Fixed64Kind:
			return protoreflect.ValueOfUint64(1<<63 + 1)
		case protoreflect.Int64Kind:
			return protoreflect.ValueOfInt64(-1)
		}
		panic("the schema has a new kind of field: " + fd.Kind().String())
	}
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		switch {
		case fd.IsMap():
			m.Mutable(fd).Map().Set(protoreflect.ValueOfString("z"+text).MapKey(), protoreflect.ValueOfString(text))
			m.Mutable(fd).Map().Set(protoreflect.ValueOfString("a").MapKey(), protoreflect.ValueOfString(""))
		case fd.IsList():
			for range 3 {
				list := m.Mutable(fd).List()
				list.Append(value(fd, list.NewElement()))
			}
		default:
			m.Set(fd, value(fd, m.NewField(fd)))
		}
	}
}

// variants are envelopes with each payload set.
func variants(text string) (all []proto.Message) {
	one := (&pb.AgentEnvelope{}).ProtoReflect().Descriptor().Oneofs().ByName("payload")
	for i := range one.Fields().Len() {
		env := full(&pb.AgentEnvelope{}, text)
		m, fd := env.ProtoReflect(), one.Fields().Get(i)
		m.Set(fd, m.NewField(fd))
		if fd.Message() != nil {
			fill(m.Mutable(fd).Message(), text)
		}
		all = append(all, env)
	}
	return all
}

func fullMessages(text string) []proto.Message {
	all := variants(text)
	for _, m := range fast {
		all = append(all, full(m, text))
	}
	return all
}

// The fast path must be taken, because otherwise the promised speed is lost silently. A field above
// 31, or of a kind that shapes do not know, fails here.
func TestFastPathIsTaken(t *testing.T) {
	for _, m := range append(fullMessages("text"), fast...) {
		want, err := encodeReference(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := encodeFast(m); got == nil || !bytes.Equal(got, want) {
			t.Errorf("%T: encodeFast = %x; want %x", m, got, want)
		}
		got := newLike(m)
		if !decodeFast(got, want) || !proto.Equal(got, m) {
			t.Errorf("%T: decodeFast = %v; want %v", m, got, m)
		}
	}
	if encodeFast(full(&pb.MemoryEntry{}, "")) != nil || decodeFast(&pb.MemoryEntry{}, nil) {
		t.Error("a message that does not travel has a fast path")
	}
}

func TestEveryTextIsChecked(t *testing.T) {
	const bad = "bad\xff"
	for _, m := range fullMessages("good") {
		each(m.ProtoReflect(), func(set func(text string)) {
			set(bad)
			if b, err := encode(m); err == nil {
				t.Errorf("encoded %v as %q", m, b)
			}
			set("good")
		})
		if _, err := encode(m); err != nil {
			t.Errorf("%T: %v", m, err)
		}
		// Bytes with bad text in each place, one at a time.
		good, err := encodeReference(m)
		if err != nil {
			t.Fatal(err)
		}
		for i := range good {
			if !bytes.HasPrefix(good[i:], []byte("good")) {
				continue
			}
			b := bytes.Clone(good)
			b[i+3] = 0xff
			if got, err := decode(reflect.TypeOf(m), b); err == nil {
				t.Errorf("decoded %q as %v", b, got)
			}
		}
	}
}

// each calls f for every text in m, keys and values of a map included.
func each(m protoreflect.Message, f func(set func(text string))) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			f(func(text string) {
				v.Map().Set(protoreflect.ValueOfString("a").MapKey(), protoreflect.ValueOfString(text))
			})
			f(func(text string) {
				v.Map().Clear(protoreflect.ValueOfString("bad\xff").MapKey())
				v.Map().Set(protoreflect.ValueOfString(text).MapKey(), protoreflect.ValueOfString("v"))
			})
		case fd.IsList():
			for i := range v.List().Len() {
				if fd.Message() != nil {
					each(v.List().Get(i).Message(), f)
				} else if fd.Kind() == protoreflect.StringKind {
					f(func(text string) { v.List().Set(i, protoreflect.ValueOfString(text)) })
				}
			}
		case fd.Message() != nil:
			each(v.Message(), f)
		case fd.Kind() == protoreflect.StringKind:
			f(func(text string) { m.Set(fd, protoreflect.ValueOfString(text)) })
		}
		return true
	})
}

// A decoded message is a view of its buffer: all its text and bytes lie in it, and an
// append to bytes leaves it.
func TestDecodedMessageAliasesItsBuffer(t *testing.T) {
	for _, m := range fullMessages("text") {
		b, err := encodeReference(m)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := decode(reflect.TypeOf(m), b)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		views(reflect.ValueOf(decoded), func(at unsafe.Pointer, length, capacity int) {
			n++
			first, last := uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&b[len(b)-1]))
			if p := uintptr(at); p < first || p+uintptr(length)-1 > last {
				t.Errorf("%T has a copy of %d bytes", m, length)
			}
			if capacity != length {
				t.Errorf("%T has %d bytes with a capacity of %d: an append would write over the next field", m, length, capacity)
			}
		})
		if n == 0 {
			t.Errorf("%T has no text and no bytes", m)
		}
	}
}

// views calls f for every text and every bytes that is not empty in v.
func views(v reflect.Value, f func(at unsafe.Pointer, length, capacity int)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			views(v.Elem(), f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				views(v.Field(i), f)
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			views(it.Key(), f)
			views(it.Value(), f)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			f(v.UnsafePointer(), v.Len(), v.Cap())
			return
		}
		for i := range v.Len() {
			views(v.Index(i), f)
		}
	case reflect.String:
		if s := v.String(); s != "" {
			f(unsafe.Pointer(unsafe.StringData(s)), len(s), len(s))
		}
	}
}

// checkDecode compares decode with the reference.
func checkDecode(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, empty proto.Message, b []byte) {
	t.Helper()
	before := bytes.Clone(b)
	want := newLike(empty)
	wantErr := proto.Unmarshal(before, want)
	got, err := decode(reflect.TypeOf(empty), b)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%T from %x: error %v, the reference says %v", empty, before, err, wantErr)
	}
	if !bytes.Equal(b, before) {
		t.Fatalf("%T from %x: decoding changed the buffer to %x", empty, before, b)
	}
	if err != nil {
		return
	}
	m := got.(proto.Message)
	if !proto.Equal(m, want) {
		t.Fatalf("%T from %x is %v, the reference says %v", empty, before, m, want)
	}
	checkEncode(t, m)
	reencoded, err := encode(m)
	if reference, _ := encodeReference(want); err != nil || !bytes.Equal(reencoded, reference) {
		t.Fatalf("%T from %x re-encodes to %x, %v; the reference says %x", empty, before, reencoded, err, reference)
	}
}

// checkEncode compares encode with the reference.
func checkEncode(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, m proto.Message) {
	t.Helper()
	want, wantErr := encodeReference(m)
	got, err := encode(m)
	if (err != nil) != (wantErr != nil) || err == nil && !bytes.Equal(got, want) {
		t.Fatalf("encode(%v) = %x, %v; the reference says %x, %v", m, got, err, want, wantErr)
	}
}

// traps are bytes on which generated code and the reference differ, or might.
func traps() [][]byte {
	tag := func(n protowire.Number, typ protowire.Type) []byte { return protowire.AppendTag(nil, n, typ) }
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	overlong := []byte{0x81, 0x80, 0x00}
	overflow := append(bytes.Repeat([]byte{0xff}, 9), 0x02)
	eleven := append(bytes.Repeat([]byte{0x80}, 10), 0x01)
	largest := append(bytes.Repeat([]byte{0xff}, 9), 0x01)
	all := [][]byte{
		nil,
		{0},
		{0x0a},             // no length
		{0x0a, 1},          // no content
		{0x0a, 0xff, 0x7f}, // a length beyond the end
		cat([]byte{0x0a}, largest),
		cat([]byte{0x12}, overflow),
		{0x0a, 2, 0xc3, 0x28}, // not UTF-8
		{0x0a, 2, 0xc3, 0xa9},
		cat([]byte{0x18}, overlong), cat([]byte{0x18}, overflow), cat([]byte{0x18}, eleven), cat([]byte{0x18}, largest),
		{0x18, 0xff},
		cat([]byte{0x8a, 0x00}, []byte{1, 'k'}), // field 1, in a tag of two bytes
		cat([]byte{0x8a, 0x80, 0x80, 0x80, 0x10}, []byte{1, 'k'}),       // field 2^29 + 1
		cat([]byte{0x8a, 0x80, 0x80, 0x80, 0x80, 0x01}, []byte{1, 'k'}), // field 2^32 + 1, which aliases 1
		cat(tag(protowire.MaxValidNumber, protowire.VarintType), []byte{1}),
		cat(tag(500, protowire.VarintType), []byte{42}, []byte{0x18, 7}, tag(16, protowire.BytesType), []byte{1, 9}),
		cat(tag(500, protowire.StartGroupType), []byte{0x08, 1}, tag(500, protowire.EndGroupType)),
		cat(tag(500, protowire.StartGroupType), []byte{0x08, 1}, tag(501, protowire.EndGroupType)),
		{0x0b, 0x0c}, // field 1 as a group
		{0x0c},
		{0x0e}, {0x0f}, // no wire types
		{0x0d, 1, 2, 3, 4}, {0x09, 1, 2, 3, 4, 5, 6, 7, 8}, {0x08, 1}, {0x1a, 1, 1}, {0x10, 1, 0x12, 1, 1}, // other wire types
		{0x12, 0, 0x12, 0}, {0x1a, 0}, {0x22, 0}, {0x32, 0},
		{0x22, 2, 0x18, 1, 0x22, 2, 0x20, 1},              // one message in two parts
		{0x22, 2, 0x18, 1, 0x2a, 0, 0x22, 2, 0x20, 1},     // another variant between the two
		{0x1a, 1, 1, 0x22, 2, 0x18, 1, 0x1a, 0},           // the last variant wins
		{0x22, 3, 0x18, 1, 0x0a},                          // cut short inside
		{0x22, 3, 0x0a, 1, 0xff},                          // not UTF-8 inside
		{0x22, 4, 0xa0, 0x1f, 0x2a, 0x18},                 // unknown inside, then cut short
		{0x22, 3, 0xa0, 0x1f, 0x2a},                       // unknown inside
		{0x42, 0}, {0x42, 2, 0x0a, 0}, {0x42, 2, 0x12, 0}, // map entries without key, value
		{0x42, 3, 0x12, 1, 'v', 0x42, 3, 0x0a, 1, 'k'},     // value without key, key without value
		{0x42, 6, 0x12, 1, 'v', 0x0a, 1, 'k'},              // value before key
		{0x42, 6, 0x0a, 1, 'a', 0x0a, 1, 'b'},              // two keys
		{0x42, 5, 0x0a, 1, 'a', 0x18, 1},                   // an unknown field in a map entry
		{0x42, 4, 0x08, 1, 0x10, 1},                        // numbers in a map entry
		{0x42, 3, 0x0a, 1, 0xff}, {0x42, 3, 0x12, 1, 0xff}, // not UTF-8 in a map
		{0x42, 3, 0x0a, 1, 'k', 0x42, 6, 0x0a, 1, 'k', 0x12, 1, 'v'}, // one key twice
		cat([]byte{0x38}, largest), cat([]byte{0x38, 99}),            // enum numbers
		cat([]byte{0x30}, largest), cat([]byte{0x20}, largest), // numbers of 32 bits
		{0x30, 2},                          // a bool that is 2
		{0x80}, {0x80, 1}, {0x80, 1, 0xff}, // field 16, cut short
		{0x80, 1, 7}, cat([]byte{0x80, 1}, largest), cat([]byte{0x80, 1}, overflow),
		{0x80, 0x81, 0, 7}, {0x80, 0x80, 1, 7}, {0x80, 2, 7}, // its tag overlong; other fields
		{0x82, 1, 1, 7}, {0x85, 1, 1, 2, 3, 4}, {0x88, 1, 1}, // fields 16 and 17 in other wire types
		{0x8a}, {0x8a, 1}, {0x8a, 1, 1}, {0x8a, 1, 2, 'k'}, {0x8a, 1, 0}, {0x8a, 1, 1, 'k', 0x8a, 1, 0},
		{0x8a, 1, 1, 0xff}, {0x8a, 2, 1, 'k'}, {0x8b, 1, 0x8c, 1}, {0x92, 1, 0}, {0xfa, 1, 0}, {0x82, 2, 0},
		{0x6a, 0}, {0x6a}, {0x6a, 8, 1}, cat([]byte{0x6a}, largest), // packed lists
		{0x6a, 8, 1, 2, 3, 4, 5, 6, 7, 8}, {0x6a, 7, 1, 2, 3, 4, 5, 6, 7}, {0x6a, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9},
		{0x6a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0x6a, 16, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0x6a, 0},
		{0x69, 1, 2, 3, 4, 5, 6, 7, 8}, {0x69, 1, 2}, {0x68, 1}, // not packed; another wire type
		{0x69, 1, 2, 3, 4, 5, 6, 7, 8, 0x6a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0x69, 1, 2, 3, 4, 5, 6, 7, 8},
	}
	return all
}

func TestTraps(t *testing.T) {
	for _, m := range fast {
		for _, b := range traps() {
			checkDecode(t, m, bytes.Clone(b))
		}
	}
}

func TestGoldens(t *testing.T) {
	blobs, err := golden.Blobs()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blobs {
		value, err := b.Value()
		if err != nil {
			t.Fatal(err)
		}
		checkDecode(t, newLike(value), b.Bytes)
		checkEncode(t, value)
	}
}

// Values that no decoder makes, but a user can.
func TestEncodeOddValues(t *testing.T) {
	newer := func(m proto.Message) proto.Message {
		m.ProtoReflect().SetUnknown([]byte{0xa8, 0x1f, 1, 0xa0, 0x1f, 0x2a})
		return m
	}
	for _, m := range []proto.Message{
		&pb.MemoryBlob{Entries: []*pb.MemoryEntry{nil, {Key: "k"}, nil}},
		&pb.LlmCacheBlob{Entries: []*pb.LlmCacheEntry{nil}},
		&pb.StateSnapshot{Pending: []*pb.ToolIntent{nil, {Seq: 1}}, Memory: &pb.MemoryBlob{}},
		&pb.AgentEnvelope{Payload: (*pb.AgentEnvelope_ExternalEvent)(nil)},
		&pb.AgentEnvelope{Payload: (*pb.AgentEnvelope_ToolResult)(nil)},
		&pb.AgentEnvelope{Payload: (*pb.AgentEnvelope_Approval_)(nil)},
		&pb.AgentEnvelope{Payload: (*pb.AgentEnvelope_ExportRequest)(nil)},
		&pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ExternalEvent{}, EventTimeMs: 1},
		&pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ToolResult{}, EventTimeMs: 1},
		&pb.AgentEnvelope{Payload: &pb.AgentEnvelope_Approval_{}, EventTimeMs: 1},
		&pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ExportRequest{}, EventTimeMs: 1},
		&pb.AgentEnvelope{EntityKey: []byte{}},
		&pb.TraceEvent{Attributes: map[string]string{}},
		&pb.TraceEvent{Attributes: map[string]string{"": ""}},
		&pb.Continuation{PendingIntentIds: []string{"", "a", ""}},
		newer(&pb.TraceEvent{Attributes: map[string]string{"b": "1", "a": "", "": "2"}, EventType: -1}),
		newer(&pb.ToolIntent{Kind: -1, SignatureScheme: 99}),
		newer(&pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ToolResult{ToolResult: newer(&pb.ToolResult{Seq: -1}).(*pb.ToolResult)}}),
		newer(&pb.StateSnapshot{
			Memory:  newer(&pb.MemoryBlob{Entries: []*pb.MemoryEntry{newer(&pb.MemoryEntry{}).(*pb.MemoryEntry)}}).(*pb.MemoryBlob),
			Pending: []*pb.ToolIntent{newer(&pb.ToolIntent{}).(*pb.ToolIntent)},
		}),
		&runtimepb.KeyControl{Continuation: &pb.Continuation{}, Pending: []*pb.ToolIntent{nil, {Seq: 1}}, ExpiredIntentIds: []string{"", "a", ""}},
		newer(&runtimepb.KeyControl{
			Continuation: newer(&pb.Continuation{}).(*pb.Continuation), Pending: []*pb.ToolIntent{newer(&pb.ToolIntent{}).(*pb.ToolIntent)},
		}),
		&runtimepb.KeyControl{RecentEventIds: []uint64{}, EscalationIds: []string{"", "a\xff"}},
		newer(&runtimepb.KeyControl{RecentEventIds: []uint64{0, 0, 1}, TimeoutsInRow: 1, EscalationIds: []string{""}, DrainNowMs: -1}),
		&runtimepb.DeferredEvent{Envelope: &pb.AgentEnvelope{}},
		&runtimepb.DeferredEvent{Envelope: &pb.AgentEnvelope{Payload: (*pb.AgentEnvelope_ToolResult)(nil)}},
		&runtimepb.DeferredEvent{Envelope: &pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ToolResult{}}, Arrival: 1},
		newer(&runtimepb.DeferredEvent{Envelope: newer(&pb.AgentEnvelope{}).(*pb.AgentEnvelope)}),
		&pb.MemoryEntry{Key: "alone"},
		&pb.MemoryEntry{Key: "alone\xff"},
	} {
		checkEncode(t, m)
	}
	many := &pb.TraceEvent{Attributes: map[string]string{}}
	for i := range 100 { // more keys than are sorted without an allocation
		many.Attributes[strings.Repeat("k", i%7)+string(rune('0'+i))] = "v"
	}
	checkEncode(t, many)
}

// Any values at all, invalid text included.
func TestEncodeEqualsTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newLike(rapid.SampledFrom(fast).Draw(t, "message"))
		draw(t, m.ProtoReflect())
		checkEncode(t, m)
		if b, err := encodeReference(m); err == nil {
			checkDecode(t, m, b)
		}
	})
}

func draw(t *rapid.T, m protoreflect.Message) {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "k", "b", "a", "\xff", "é"}), rapid.String())
	value := func(fd protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
		switch fd.Kind() {
		case protoreflect.MessageKind:
			draw(t, v.Message())
			return v
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(text.Draw(t, "text"))
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes"))
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
		case protoreflect.EnumKind:
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.Int32().Draw(t, "enum")))
		case protoreflect.Uint32Kind:
			return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "uint32"))
		case protoreflect.Fixed64Kind:
			return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "fixed64"))
		default:
			return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int64"))
		}
	}
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		if rapid.IntRange(0, 2).Draw(t, "absent") == 0 {
			continue
		}
		switch {
		case fd.IsMap():
			for range rapid.IntRange(0, 40).Draw(t, "attributes") {
				m.Mutable(fd).Map().Set(
					protoreflect.ValueOfString(text.Draw(t, "key")).MapKey(), protoreflect.ValueOfString(text.Draw(t, "value")))
			}
		case fd.IsList():
			for range rapid.IntRange(0, 3).Draw(t, "length") {
				list := m.Mutable(fd).List()
				list.Append(value(fd, list.NewElement()))
			}
		default:
			m.Set(fd, value(fd, m.NewField(fd)))
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "newer") == 0 {
		m.SetUnknown([]byte{0xa0, 0x1f, 0x2a})
	}
}

// FuzzFastPath: what the reference decodes, decode gives as an equal message that
// encodes to equal bytes; what it refuses, decode refuses.
func FuzzFastPath(f *testing.F) {
	blobs, err := golden.Blobs()
	if err != nil {
		f.Fatal(err)
	}
	// Each seed takes long, since Beam is in the binary: every third blob must do.
	for which, m := range fast {
		n := 0
		for _, b := range blobs {
			if b.Message == m.ProtoReflect().Descriptor().FullName() {
				if n%3 == 0 {
					f.Add(uint8(which), b.Bytes)
				}
				n++
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		checkDecode(t, fast[int(which)%len(fast)], bytes.Clone(b))
	})
}

// A decoded message costs only its own structs and lists.
func TestAllocations(t *testing.T) {
	if racedetector.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, tc := range []struct {
		m    proto.Message
		need float64 // allocations of the message itself
	}{
		{&pb.ToolIntent{}, 1},
		{&pb.ToolResult{}, 1},
		{&pb.AgentEnvelope_Approval{}, 1},
		{&pb.AgentEnvelope_StateExportRequest{}, 1},
		{&pb.ActivationErrorRecord{}, 1},
		{&pb.Continuation{}, 2}, // the list
		{&pb.MemoryBlob{}, 3},   // list and entries
		{&pb.LlmCacheBlob{}, 3},
		{&pb.AgentEnvelope{}, 3},        // variant and its message
		{&pb.TraceEvent{}, 3},           // map and its group of slots
		{&pb.StateSnapshot{}, 17},       // three blobs, four lists, nine elements
		{&runtimepb.KeyControl{}, 10},   // the continuation and its list, four lists, three intents
		{&runtimepb.DeferredEvent{}, 4}, // as the envelope in it
	} {
		b, err := encodeReference(full(tc.m, "text"))
		if err != nil {
			t.Fatal(err)
		}
		of := reflect.TypeOf(tc.m)
		if n := testing.AllocsPerRun(100, func() { _, _ = decode(of, b) }); n > tc.need {
			t.Errorf("decoding %T makes %v allocations; it needs %v", tc.m, n, tc.need)
		}
		m := full(tc.m, "text")
		if n := testing.AllocsPerRun(100, func() { _, _ = encode(m) }); n > 1 {
			t.Errorf("encoding %T makes %v allocations", tc.m, n)
		}
	}
}

// Many empty elements in few bytes: what they cost is bounded by what they cost the
// reference, although lists are made at their final size.
func TestRepeatedElementsCostNoMoreThanTheReference(t *testing.T) {
	if racedetector.Enabled {
		t.Skip("it counts memory: make test runs this without the race detector")
	}
	allocated := func(work func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		work()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	tried := map[string]bool{}
	for _, m := range fast {
		for path, b := range hostile(m.ProtoReflect().Descriptor(), 1<<18) {
			tried[path] = true
			reference := allocated(func() {
				if err := proto.Unmarshal(b, newLike(m)); err != nil {
					t.Fatal(err)
				}
			})
			ours := allocated(func() {
				if _, err := decode(reflect.TypeOf(m), b); err != nil {
					t.Fatal(err)
				}
			})
			if limit := reference + 1<<20; ours > limit {
				t.Errorf("%s: %d KiB for %d elements, the reference needs %d", path, ours>>10, 1<<18, reference>>10)
			}
		}
	}
	for _, path := range []string{
		"MemoryBlob.entries", "TraceEvent.attributes", "StateSnapshot.memory.entries", "StateSnapshot.pending",
		"KeyControl.pending", "KeyControl.expired_intent_ids", "KeyControl.continuation.pending_intent_ids",
		"KeyControl.recent_event_ids", "KeyControl.escalation_ids",
	} {
		if !tried[path] {
			t.Errorf("%s is not among %v", path, tried)
		}
	}
}

// hostile are, for each repeated field at any depth, the bytes of a message of type md
// with n empty elements in it.
func hostile(md protoreflect.MessageDescriptor, n int) map[string][]byte {
	all := map[string][]byte{}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		tag := protowire.AppendTag(nil, fd.Number(), protowire.BytesType)
		path := string(md.Name()) + "." + string(fd.Name())
		switch {
		case fd.Cardinality() == protoreflect.Repeated:
			all[path] = bytes.Repeat(append(tag, 0), n)
		case fd.Message() != nil:
			for below, b := range hostile(fd.Message(), n) {
				_, below, _ = strings.Cut(below, ".")
				all[path+"."+below] = protowire.AppendBytes(bytes.Clone(tag), b)
			}
		}
	}
	return all
}
