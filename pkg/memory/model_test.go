package memory_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/golden"
	"github.com/beamagents/beamagents-go/pkg/memory"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// model is a memory that follows the rules in the simplest way, however slow.
type model struct {
	blob     *pb.MemoryBlob
	now      int64
	changed  bool
	soft     bool
	evicted  int
	released int64
}

func newModel(stored *pb.MemoryBlob, now int64) *model {
	m := &model{blob: proto.CloneOf(stored), now: now}
	entries := stored.Entries
	m.blob.Entries = nil
	for i, e := range entries {
		if e != nil && !slices.ContainsFunc(entries[i+1:], func(later *pb.MemoryEntry) bool { return later != nil && later.Key == e.Key }) {
			m.blob.Entries = append(m.blob.Entries, proto.CloneOf(e))
		}
	}
	m.blob.StateSchemaVersion = 1
	m.blob.TotalValueBytes = m.total()
	m.changed = len(entries) != len(m.blob.Entries) || stored.TotalValueBytes != m.total()
	return m
}

func (m *model) total() (sum int64) {
	for _, e := range m.blob.Entries {
		sum += int64(len(e.Value))
	}
	return sum
}

func (m *model) find(key string) int {
	return slices.IndexFunc(m.blob.Entries, func(e *pb.MemoryEntry) bool { return e.Key == key })
}

func (m *model) get(key string) ([]byte, bool) {
	i := m.find(key)
	if i < 0 {
		return nil, false
	}
	if i < len(m.blob.Entries)-1 {
		e := m.blob.Entries[i]
		e.LastAccessMs = m.now
		m.blob.Entries = append(slices.Delete(m.blob.Entries, i, i+1), e)
		m.changed = true
	}
	return m.blob.Entries[len(m.blob.Entries)-1].Value, true
}

func (m *model) put(key string, value []byte) error {
	if key == "" || len(key) > 1024 || !utf8.ValidString(key) {
		return memory.ErrKey
	}
	before, i := slices.Clone(m.blob.Entries), m.find(key)
	e := &pb.MemoryEntry{Key: key}
	if i >= 0 {
		e = proto.CloneOf(before[i])
		m.blob.Entries = slices.Delete(m.blob.Entries, i, i+1)
	}
	same := i >= 0 && i == len(before)-1 && bytes.Equal(e.Value, value) && e.LastAccessMs == m.now
	e.Value, e.LastAccessMs = value, m.now
	m.blob.Entries = append(m.blob.Entries, e)
	evicted, released := 0, int64(0)
	for {
		m.blob.TotalValueBytes = m.total()
		if m.total() <= 1<<20 && proto.Size(m.blob) <= 2<<20 {
			break
		}
		if len(m.blob.Entries) == 1 {
			m.blob.Entries = before
			m.blob.TotalValueBytes = m.total()
			return memory.ErrOverflow
		}
		evicted++
		released += int64(len(m.blob.Entries[0].Value))
		m.blob.Entries = m.blob.Entries[1:]
	}
	m.evicted += evicted
	m.released += released
	m.changed = m.changed || !same || evicted > 0
	m.soft = m.soft || m.total() >= 786_432
	return nil
}

func (m *model) remove(key string) bool {
	i := m.find(key)
	if i < 0 {
		return false
	}
	m.blob.Entries = slices.Delete(m.blob.Entries, i, i+1)
	m.blob.TotalValueBytes = m.total()
	m.changed = true
	return true
}

func (m *model) clear() {
	m.changed = m.changed || len(m.blob.Entries) > 0 || len(m.blob.ProtoReflect().GetUnknown()) > 0
	m.blob = &pb.MemoryBlob{StateSchemaVersion: 1}
}

// pair is a memory and its model, which must behave alike.
type pair struct {
	m    *memory.Memory
	want *model
}

func openPair(stored *pb.MemoryBlob, now int64) *pair {
	return &pair{want: newModel(stored, now), m: memory.New(stored, now)}
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

const operations = 9

// do calls one operation on both, and compares the results and the states after it.
func (p *pair) do(t failer, op int, key string, value []byte) {
	t.Helper()
	switch op {
	case 0:
		got, ok := p.m.Get(key)
		want, wantOK := p.want.get(key)
		if ok != wantOK || !bytes.Equal(got, want) {
			t.Fatalf("Get(%.20q) = %d bytes, %v; want %d, %v", key, len(got), ok, len(want), wantOK)
		}
	case 1, 2:
		err, want := p.m.Put(key, value), p.want.put(key, value)
		if !errors.Is(err, want) {
			t.Fatalf("Put(%.20q) of %d bytes: %v, want %v", key, len(value), err, want)
		}
	case 3:
		if got, want := p.m.Delete(key), p.want.remove(key); got != want {
			t.Fatalf("Delete(%.20q) = %v", key, got)
		}
	case 4:
		p.m.Clear()
		p.want.clear()
	case 5:
		p.m.Saved()
		p.want.changed = false
	case 6:
		p.compareBlob(t)
	case 7:
		i := 0
		for k, v := range p.m.All() {
			if e := p.want.blob.Entries[i]; k != e.Key || !bytes.Equal(v, e.Value) {
				t.Fatalf("All yields %.20q as number %d, want %.20q", k, i, e.Key)
			}
			i++
		}
		if i != len(p.want.blob.Entries) || i != len(slices.Collect(p.m.Keys())) {
			t.Fatalf("All yields %d entries, Keys %d, want %d", i, len(slices.Collect(p.m.Keys())), len(p.want.blob.Entries))
		}
	case 8: // time may go back
		p.want.now += int64(len(value)) - 100
		p.m.SetNow(p.want.now)
	}
	n, released := p.m.Evicted()
	if p.m.Changed() != p.want.changed || p.m.Len() != len(p.want.blob.Entries) || p.m.ValueBytes() != p.want.total() ||
		p.m.BlobBytes() != proto.Size(p.want.blob) || n != p.want.evicted || released != p.want.released ||
		p.m.SoftCapReached() != p.want.soft || p.m.Empty() != (proto.Size(p.want.blob) == 2) {
		t.Fatalf("after %d: changed %v %v, len %d %d, values %d %d, blob %d %d, evicted %d %d, their bytes %d %d, soft cap %v %v", op,
			p.m.Changed(), p.want.changed, p.m.Len(), len(p.want.blob.Entries), p.m.ValueBytes(), p.want.total(),
			p.m.BlobBytes(), proto.Size(p.want.blob), n, p.want.evicted, released, p.want.released, p.m.SoftCapReached(), p.want.soft)
	}
}

func (p *pair) compareBlob(t failer) {
	t.Helper()
	if got := p.m.Blob(); !proto.Equal(got, p.want.blob) {
		t.Fatalf("%s", cmp.Diff(p.want.blob, got, protocmp.Transform()))
	}
}

// reopen encodes and decodes the blob, which demands that keys are text.
func (p *pair) reopen(t failer, now int64) {
	t.Helper()
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(p.m.Blob())
	if err != nil {
		t.Fatalf("%v", err)
	}
	stored := new(pb.MemoryBlob)
	if err := proto.Unmarshal(wire, stored); err != nil || len(wire) != p.m.BlobBytes() {
		t.Fatalf("%d bytes, BlobBytes %d, %v", len(wire), p.m.BlobBytes(), err)
	}
	*p = *openPair(stored, now)
	if p.m.Changed() {
		t.Fatalf("what was written is mended")
	}
	p.compareBlob(t)
}

func drawKey(t *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
		return rapid.SampledFrom([]string{"", "é🔑", strings.Repeat("k", 1024), strings.Repeat("k", 1025)}).Draw(t, "key")
	}
	return fmt.Sprint(rapid.IntRange(0, 2*maxKeys).Draw(t, "key"))
}

// maxKeys is several times the number of keys up to which there is no index.
const maxKeys = 16

func drawValue(t *rapid.T) []byte {
	sizes := rapid.SampledFrom([]int{0, 1, 2, 127, 128, 1000})
	if rapid.IntRange(0, 9).Draw(t, "large") == 0 {
		sizes = rapid.SampledFrom([]int{300_000, 524_288, 786_432, 1<<20 - 1, 1 << 20, 1<<20 + 1})
	}
	return bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, sizes.Draw(t, "size"))
}

func drawBlob(t *rapid.T) *pb.MemoryBlob {
	b := &pb.MemoryBlob{StateSchemaVersion: rapid.Uint32Range(0, 1).Draw(t, "version")}
	for range rapid.IntRange(0, rapid.SampledFrom([]int{0, 3, 60}).Draw(t, "most")).Draw(t, "entries") {
		if rapid.IntRange(0, 15).Draw(t, "nil") == 0 {
			b.Entries = append(b.Entries, nil)
			continue
		}
		e := &pb.MemoryEntry{Key: drawKey(t), Value: drawValue(t), LastAccessMs: rapid.Int64().Draw(t, "stamp")}
		if n := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 200, 1_500_000}).Draw(t, "unknown of entry"); n > 0 {
			e.ProtoReflect().SetUnknown(unknown(n))
		}
		b.Entries = append(b.Entries, e)
		b.TotalValueBytes += int64(len(e.Value))
	}
	if rapid.IntRange(0, 3).Draw(t, "lies") == 0 {
		b.TotalValueBytes = rapid.Int64().Draw(t, "total")
	}
	if n := rapid.SampledFrom([]int{0, 0, 0, 10, 1_500_000, 2<<20 - 500, 2 << 20}).Draw(t, "unknown"); n > 0 {
		b.ProtoReflect().SetUnknown(unknown(n))
	}
	return b
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := openPair(drawBlob(t), rapid.Int64Range(0, 1<<42).Draw(t, "now"))
		for range rapid.IntRange(0, 60).Draw(t, "operations") {
			op := rapid.IntRange(0, operations-1).Draw(t, "operation")
			if op == 4 && rapid.IntRange(0, 3).Draw(t, "spare") > 0 {
				op = 0 // else little lives long
			}
			p.do(t, op, drawKey(t), drawValue(t))
		}
		p.reopen(t, 1)
		p.do(t, 1, "a", []byte("b"))
		p.compareBlob(t)
	})
}

// Many entries and many moves, so that the array is compacted and the index rebuilt.
func TestManyMoves(t *testing.T) {
	p := openPair(new(pb.MemoryBlob), 7)
	next := uint32(1)
	for i := range 5000 {
		next = next*1664525 + 1013904223 // a fixed sequence that looks random
		key := fmt.Sprint(next >> 16 % 100)
		p.do(t, []int{0, 0, 0, 1, 1, 3}[next>>8%6], key, []byte{byte(i)})
		if i%1000 == 0 {
			p.compareBlob(t)
		}
	}
	p.compareBlob(t)
}

// FuzzOpen opens any blob that can be decoded, and runs the operations of script on it. An
// operation is three bytes: one for its kind, one for the key and one for the value.
func FuzzOpen(f *testing.F) {
	blobs, err := golden.Blobs()
	if err != nil {
		f.Fatal(err)
	}
	for _, g := range blobs {
		if g.Message == new(pb.MemoryBlob).ProtoReflect().Descriptor().FullName() {
			f.Add(g.Bytes, []byte("\x00\x00\x00\x01\x01\x10\x06\x00\x00\x01\x81\xff\x03\x02\x00\x05\x00\x00\x07\x00\x00"))
		}
	}
	f.Add([]byte("\x12\x00\x12\x03\x0a\x01a\x12\x03\x0a\x01a\x18\xff\x01"), []byte("\x01\x80\xff\x01\x81\xfe\x01\x82\xfd\x06\x00\x00"))
	f.Fuzz(func(t *testing.T, wire, script []byte) {
		stored := new(pb.MemoryBlob)
		if proto.Unmarshal(wire, stored) != nil || len(script) > 300 {
			return
		}
		keys := []string{"", "a", "\xff", strings.Repeat("k", 1024)}
		for _, e := range stored.Entries {
			keys = append(keys, e.Key)
		}
		p := openPair(stored, 1_700_000_000_000)
		for ; len(script) >= 3; script = script[3:] {
			key := keys[int(script[1])%len(keys)]
			if script[1] >= 0x80 {
				key = string(rune('a' + script[1]&15))
			}
			size := int(script[2])
			if size >= 0xf0 { // some fit alone only, one does not
				size = memory.MaxValueBytes/8*(size-0xf0) + 1
			}
			p.do(t, int(script[0])%operations, key, bytes.Repeat(script[2:3], size))
		}
		p.compareBlob(t)
		p.reopen(t, -1)
	})
}
