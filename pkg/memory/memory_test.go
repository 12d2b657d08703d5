package memory_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/beamagents/beamagents-go/golden"
	"github.com/beamagents/beamagents-go/pkg/memory"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func entry(key, value string, stamp int64) *pb.MemoryEntry {
	return &pb.MemoryEntry{Key: key, Value: []byte(value), LastAccessMs: stamp}
}

func blob(total int64, entries ...*pb.MemoryEntry) *pb.MemoryBlob {
	return &pb.MemoryBlob{StateSchemaVersion: 1, Entries: entries, TotalValueBytes: total}
}

// abc is opened at 100 and holds three entries.
func abc() *memory.Memory {
	return memory.New(blob(6, entry("a", "1", 1), entry("b", "22", 2), entry("c", "333", 3)), 100)
}

// unknown is a field of n bytes that a newer schema might have.
func unknown(n int) []byte {
	b := protowire.AppendTag(nil, 500, protowire.BytesType)
	return protowire.AppendBytes(b, make([]byte, n-len(b)-protowire.SizeVarint(uint64(n))))
}

func set(t testing.TB, m *memory.Memory, key string, value []byte) {
	t.Helper()
	if err := m.Put(key, value); err != nil {
		t.Fatal(err)
	}
}

// get returns for tables what Get finds, or "-".
func get(m *memory.Memory, key string) string {
	v, ok := m.Get(key)
	if !ok {
		return "-"
	}
	return string(v)
}

func TestOperations(t *testing.T) {
	for name, tt := range map[string]struct {
		do      func(t *testing.T, m *memory.Memory)
		want    *pb.MemoryBlob
		changed bool
	}{
		"nothing": {
			func(*testing.T, *memory.Memory) {},
			blob(6, entry("a", "1", 1), entry("b", "22", 2), entry("c", "333", 3)), false,
		},
		"a hit moves to the end": {
			func(t *testing.T, m *memory.Memory) {
				if got := get(m, "a"); got != "1" {
					t.Errorf("Get = %q", got)
				}
			},
			blob(6, entry("b", "22", 2), entry("c", "333", 3), entry("a", "1", 100)), true,
		},
		"a hit at the end changes nothing": {
			func(t *testing.T, m *memory.Memory) {
				if got := get(m, "c"); got != "333" {
					t.Errorf("Get = %q", got)
				}
			},
			blob(6, entry("a", "1", 1), entry("b", "22", 2), entry("c", "333", 3)), false,
		},
		"a miss changes nothing": {
			func(t *testing.T, m *memory.Memory) {
				if got := get(m, "d"); got != "-" {
					t.Errorf("Get = %q", got)
				}
			},
			blob(6, entry("a", "1", 1), entry("b", "22", 2), entry("c", "333", 3)), false,
		},
		"put appends": {
			func(t *testing.T, m *memory.Memory) { set(t, m, "d", []byte("4444")) },
			blob(10, entry("a", "1", 1), entry("b", "22", 2), entry("c", "333", 3), entry("d", "4444", 100)), true,
		},
		"put replaces": {
			func(t *testing.T, m *memory.Memory) { set(t, m, "b", nil) },
			blob(4, entry("a", "1", 1), entry("c", "333", 3), entry("b", "", 100)), true,
		},
		"put of an equal value stamps": {
			func(t *testing.T, m *memory.Memory) { set(t, m, "c", []byte("333")) },
			blob(6, entry("a", "1", 1), entry("b", "22", 2), entry("c", "333", 100)), true,
		},
		"put of what is there to the stamp": {
			func(t *testing.T, m *memory.Memory) {
				set(t, m, "c", []byte("x"))
				m.Saved()
				set(t, m, "c", []byte("x"))
			},
			blob(4, entry("a", "1", 1), entry("b", "22", 2), entry("c", "x", 100)), false,
		},
		"put of what is there to the stamp, but not at the end": {
			func(t *testing.T, m *memory.Memory) {
				set(t, m, "a", []byte("x"))
				set(t, m, "b", []byte("y"))
				m.Saved()
				set(t, m, "a", []byte("x"))
			},
			blob(5, entry("c", "333", 3), entry("b", "y", 100), entry("a", "x", 100)), true,
		},
		"put of another value at the same stamp": {
			func(t *testing.T, m *memory.Memory) {
				set(t, m, "c", []byte("x"))
				m.Saved()
				set(t, m, "c", []byte("y"))
			},
			blob(4, entry("a", "1", 1), entry("b", "22", 2), entry("c", "y", 100)), true,
		},
		"delete": {
			func(t *testing.T, m *memory.Memory) {
				if !m.Delete("b") || m.Delete("b") {
					t.Error("Delete does not say what it did")
				}
			},
			blob(4, entry("a", "1", 1), entry("c", "333", 3)), true,
		},
		"delete of nothing": {
			func(t *testing.T, m *memory.Memory) {
				if m.Delete("d") {
					t.Error("Delete found something")
				}
			},
			blob(6, entry("a", "1", 1), entry("b", "22", 2), entry("c", "333", 3)), false,
		},
		"the last one deleted, the one before it is most recent": {
			func(t *testing.T, m *memory.Memory) {
				m.Delete("b")
				m.Delete("c")
				m.Saved()
				if got := get(m, "a"); got != "1" {
					t.Errorf("Get = %q", got)
				}
			},
			blob(1, entry("a", "1", 1)), false,
		},
		"clear": {
			func(t *testing.T, m *memory.Memory) {
				m.Clear()
				if m.Len() != 0 || m.ValueBytes() != 0 || get(m, "a") != "-" {
					t.Error("something is left")
				}
			},
			blob(0), true,
		},
		"clear of nothing": {
			func(_ *testing.T, m *memory.Memory) {
				m.Clear()
				m.Saved()
				m.Clear()
			},
			blob(0), false,
		},
		"put after clear": {
			func(t *testing.T, m *memory.Memory) {
				m.Clear()
				set(t, m, "a", []byte("new"))
			},
			blob(3, entry("a", "new", 100)), true,
		},
		"saved and changed again": {
			func(_ *testing.T, m *memory.Memory) {
				m.Get("a")
				m.Saved()
				m.Get("b")
			},
			blob(6, entry("c", "333", 3), entry("a", "1", 100), entry("b", "22", 100)), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := abc()
			tt.do(t, m)
			check(t, m)
			if m.Changed() != tt.changed {
				t.Errorf("Changed = %v", m.Changed())
			}
			if diff := cmp.Diff(tt.want, m.Blob(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// check tests what holds for every memory, and for the memory that its blob is opened as.
func check(t testing.TB, m *memory.Memory) {
	t.Helper()
	size := m.BlobBytes()
	b := m.Blob()
	if got := proto.Size(b); got != size || m.BlobBytes() != size {
		t.Fatalf("BlobBytes = %d, then %d; proto.Size = %d", size, m.BlobBytes(), got)
	}
	var total int64
	seen := make(map[string]bool)
	for _, e := range b.Entries {
		if e == nil || seen[e.Key] {
			t.Fatalf("entry %v is nil, or there twice", e)
		}
		seen[e.Key] = true
		total += int64(len(e.Value))
	}
	if b.StateSchemaVersion != 1 || b.TotalValueBytes != total || m.ValueBytes() != total || m.Len() != len(b.Entries) {
		t.Fatalf("version %d, total %d, ValueBytes %d, Len %d of %d entries with %d bytes",
			b.StateSchemaVersion, b.TotalValueBytes, m.ValueBytes(), m.Len(), len(b.Entries), total)
	}
}

// The test vector that all languages share, without the kind byte: in Python the value of k is
// the byte 00 and v.
func TestBytes(t *testing.T) {
	m := memory.New(nil, 1000)
	set(t, m, "k", []byte("\x00v"))
	set(t, m, "r", []byte("\x01\x00\x00\x00\x01a\x00\x00\x00\x02bc"))
	const want = "0801120a0a016b1202007618e80712140a0172120c01000000016100000002626318e807180e"
	if got := hex.EncodeToString(encode(t, m.Blob())); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := hex.EncodeToString(encode(t, memory.New(nil, 1000).Blob())); got != "0801" {
		t.Errorf("an empty memory is %s", got)
	}
}

func TestGolden(t *testing.T) {
	// New repairs these blobs.
	mended := map[string]func(*pb.MemoryBlob){
		"v1/memory_blob_binary": func(b *pb.MemoryBlob) { b.TotalValueBytes = 256 },
		"v1/memory_blob_order": func(b *pb.MemoryBlob) {
			b.Entries, b.TotalValueBytes = b.Entries[2:], 3
		},
	}
	blobs, err := golden.Blobs()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, g := range blobs {
		value, err := g.Value()
		if err != nil {
			t.Fatal(err)
		}
		want, ok := value.(*pb.MemoryBlob)
		if !ok || want.StateSchemaVersion > 1 { // of the future: never opened
			continue
		}
		found++
		stored := new(pb.MemoryBlob)
		if err := proto.Unmarshal(g.Bytes, stored); err != nil {
			t.Fatal(err)
		}
		want.StateSchemaVersion = 1
		mend := mended[g.Name]
		if mend != nil {
			mend(want)
		}
		m := memory.New(stored, 5)
		check(t, m)
		if m.Changed() != (mend != nil) {
			t.Errorf("%s: Changed = %v", g.Name, m.Changed())
		}
		if diff := cmp.Diff(want, m.Blob(), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", g.Name, diff)
		}
	}
	if found < 7 {
		t.Errorf("only %d golden blobs", found)
	}
}

func TestHostile(t *testing.T) {
	long := strings.Repeat("k", 5000)
	many := func(n int) (entries []*pb.MemoryEntry) {
		for i := range n {
			entries = append(entries, entry(fmt.Sprint(i), "x", 1))
		}
		return entries
	}
	for name, tt := range map[string]struct {
		stored, want *pb.MemoryBlob
		changed      bool
	}{
		"total too low":                   {blob(0, entry("a", "1", 1)), blob(1, entry("a", "1", 1)), true},
		"total too high":                  {blob(9), blob(0), true},
		"total negative":                  {blob(math.MinInt64, entry("a", "1", 1)), blob(1, entry("a", "1", 1)), true},
		"no version":                      {&pb.MemoryBlob{}, blob(0), false},
		"nil entries":                     {blob(1, nil, entry("a", "1", 1), nil), blob(1, entry("a", "1", 1)), true},
		"nothing but nil":                 {blob(0, nil, nil), blob(0), true},
		"one key twice":                   {blob(3, entry("a", "1", 1), entry("b", "2", 1), entry("a", "", 2)), blob(1, entry("b", "2", 1), entry("a", "", 2)), true},
		"twice in a row":                  {blob(2, entry("a", "1", 1), entry("a", "2", 1)), blob(1, entry("a", "2", 1)), true},
		"twice, and nothing else differs": {blob(1, entry("a", "", 1), entry("a", "2", 1)), blob(1, entry("a", "2", 1)), true},
		"stamps of all signs":             {blob(2, entry("a", "1", math.MaxInt64), entry("b", "2", -1)), blob(2, entry("a", "1", math.MaxInt64), entry("b", "2", -1)), false},
		"keys against the rule":           {blob(2, entry("", "1", 1), entry(long, "2", 1)), blob(2, entry("", "1", 1), entry(long, "2", 1)), false},
		"more than is scanned":            {blob(102, append(many(101), entry("3", "y", 2))...), blob(101, append(append(many(3), many(101)[4:]...), entry("3", "y", 2))...), true},
	} {
		t.Run(name, func(t *testing.T) {
			m := memory.New(tt.stored, 100)
			if m.Changed() != tt.changed {
				t.Errorf("Changed = %v", m.Changed())
			}
			check(t, m)
			if diff := cmp.Diff(tt.want, m.Blob(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Keys that Put refuses may have been stored by another program. They can be read and removed.
func TestStoredKeysAgainstTheRule(t *testing.T) {
	for _, key := range []string{"", strings.Repeat("k", memory.MaxKeyBytes+1), "\xff"} {
		m := memory.New(blob(2, entry(key, "1", 1), entry("a", "2", 1)), 100)
		size := m.BlobBytes()
		if err := m.Put(key, nil); !errors.Is(err, memory.ErrKey) {
			t.Errorf("Put of %.9q: %v", key, err)
		}
		if m.Changed() || m.BlobBytes() != size {
			t.Error("a refused Put changed something")
		}
		if got := get(m, key); got != "1" || !m.Changed() {
			t.Errorf("Get of %.9q = %q", key, got)
		}
		if !m.Delete(key) || m.Len() != 1 {
			t.Errorf("%.9q cannot be deleted", key)
		}
		check(t, m)
	}
}

func TestPutKeys(t *testing.T) {
	m := memory.New(nil, 100)
	for _, key := range []string{"k", "\x00", "é🔑", strings.Repeat("k", memory.MaxKeyBytes)} {
		set(t, m, key, []byte("v"))
		if got := get(m, key); got != "v" {
			t.Errorf("%.9q reads %q", key, got)
		}
	}
	for key, want := range map[string]string{
		"":                        "memory: unusable key: it is empty",
		strings.Repeat("é", 513):  "memory: unusable key: it has 1026 bytes, the cap is 1024",
		"a\xff":                   `memory: unusable key: "a\xff" is not UTF-8`,
		strings.Repeat("k", 1025): "memory: unusable key: it has 1025 bytes, the cap is 1024",
	} {
		if err := m.Put(key, nil); !errors.Is(err, memory.ErrKey) || err.Error() != want {
			t.Errorf("Put of %.9q: %v", key, err)
		}
	}
}

func TestValueCap(t *testing.T) {
	m := memory.New(nil, 100)
	set(t, m, "a", make([]byte, 1))
	set(t, m, "b", make([]byte, 2))
	set(t, m, "c", make([]byte, memory.MaxValueBytes-3))
	if n, _ := m.Evicted(); n != 0 || m.ValueBytes() != memory.MaxValueBytes {
		t.Fatalf("%d evicted at the cap, not above it", n)
	}
	// b is more recent now. Evicting a is enough.
	m.Get("b")
	set(t, m, "d", make([]byte, 1))
	if n, size := m.Evicted(); n != 1 || size != 1 || get(m, "a") != "-" || get(m, "d") == "-" {
		t.Errorf("evicted %d entries of %d bytes", n, size)
	}
	// A value that needs the whole memory evicts all others.
	set(t, m, "e", make([]byte, memory.MaxValueBytes))
	if n, size := m.Evicted(); n != 4 || size != memory.MaxValueBytes+1 || m.Len() != 1 {
		t.Errorf("evicted %d entries of %d bytes; %d are left", n, size, m.Len())
	}
	m.Saved()
	err := m.Put("f", make([]byte, memory.MaxValueBytes+1))
	if !errors.Is(err, memory.ErrOverflow) ||
		err.Error() != `memory: value does not fit: it has 1048577 bytes, the cap is 1048576 (key "f")` {
		t.Error(err)
	}
	if n, _ := m.Evicted(); n != 4 || m.Changed() || m.Len() != 1 {
		t.Error("a refused Put changed something")
	}
	check(t, m)
}

// Eviction finds the first entry also after all entries have been removed.
func TestEvictAfterEmpty(t *testing.T) {
	m := memory.New(nil, 100)
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		set(t, m, key, make([]byte, 250_000))
	}
	for key := range m.Keys() {
		m.Delete(key)
	}
	set(t, m, "h", make([]byte, 400_000))
	set(t, m, "i", make([]byte, 400_000))
	set(t, m, "j", make([]byte, 600_000))
	if n, _ := m.Evicted(); n != 4 || get(m, "h") != "-" || get(m, "i") == "-" || get(m, "j") == "-" {
		t.Errorf("%d evicted", n)
	}
	check(t, m)
}

// When the value of a key is replaced, only the new value counts.
func TestReplaceAtTheCap(t *testing.T) {
	m := memory.New(nil, 100)
	set(t, m, "a", make([]byte, 10))
	set(t, m, "b", make([]byte, memory.MaxValueBytes-10))
	set(t, m, "b", bytes.Repeat([]byte{1}, memory.MaxValueBytes-10))
	if n, _ := m.Evicted(); n != 0 || m.Len() != 2 {
		t.Errorf("%d evicted", n)
	}
}

func TestBlobCap(t *testing.T) {
	m := memory.New(nil, 100)
	n := 0
	for evicted := 0; evicted == 0; n++ {
		set(t, m, fmt.Sprintf("%01024d", n), nil)
		evicted, _ = m.Evicted()
	}
	// An entry: 3 bytes of framing, 3 of the key's, 1024 of the key, 2 of the stamp.
	if want := (memory.MaxBlobBytes - 2) / 1032; n != want+1 || m.Len() != want {
		t.Errorf("%d of %d are left, want %d", m.Len(), n, want)
	}
	if get(m, fmt.Sprintf("%01024d", 0)) != "-" || get(m, fmt.Sprintf("%01024d", 1)) == "-" {
		t.Error("not the least recently used went")
	}
	check(t, m)
}

// Fields that this build does not know count too. With them, a value that is within its own
// limit may not fit.
func TestUnknownFields(t *testing.T) {
	open := func(ofBlob, ofEntry int) *memory.Memory {
		e := entry("a", "1", 1)
		if ofEntry > 0 {
			e.ProtoReflect().SetUnknown(unknown(ofEntry))
		}
		b := blob(2, e, entry("b", "2", 1))
		b.ProtoReflect().SetUnknown(unknown(ofBlob))
		return memory.New(b, 100)
	}
	// The version 2, the total 4, framing 4, key 3, in front of the value 4, stamp 2.
	fits := make([]byte, 900_000)
	m := open(memory.MaxBlobBytes-19-len(fits), 0)
	if err := m.Put("c", make([]byte, len(fits)+1)); !errors.Is(err, memory.ErrOverflow) || m.Changed() {
		t.Errorf("a byte too many: %v", err)
	}
	set(t, m, "c", fits)
	if n, _ := m.Evicted(); n != 2 || m.BlobBytes() != memory.MaxBlobBytes {
		t.Errorf("%d evicted, %d bytes", n, m.BlobBytes())
	}
	check(t, m)

	m = open(memory.MaxBlobBytes-100, 50)
	err := m.Put("c", make([]byte, 1000))
	if !errors.Is(err, memory.ErrOverflow) || !strings.HasPrefix(err.Error(), "memory: value does not fit: 1000 bytes make a blob of 20") {
		t.Error(err)
	}
	if n, _ := m.Evicted(); n != 0 || m.Changed() || m.Len() != 2 {
		t.Error("a refused Put changed something")
	}
	set(t, m, "a", []byte("new"))
	if got := m.Blob(); len(got.Entries) != 2 || len(got.Entries[1].ProtoReflect().GetUnknown()) != 50 ||
		len(got.ProtoReflect().GetUnknown()) != memory.MaxBlobBytes-100 {
		t.Error("unknown fields are lost")
	}
	check(t, m)
	// The unknown fields of the entry itself may exceed the limit.
	if err := m.Put("a", make([]byte, 40)); !errors.Is(err, memory.ErrOverflow) {
		t.Error(err)
	}
	set(t, m, "b", make([]byte, 40))

	m = open(20, 0)
	m.Delete("a")
	m.Delete("b")
	m.Saved()
	m.Clear()
	if !m.Changed() || m.BlobBytes() != 2 {
		t.Error("Clear leaves unknown fields")
	}
}

// A blob that exceeds the limits is kept until the next Put.
func TestStoredAboveTheCaps(t *testing.T) {
	big := strings.Repeat("x", memory.MaxValueBytes)
	m := memory.New(blob(3*memory.MaxValueBytes, entry("a", big, 1), entry("b", big, 1), entry("c", big, 1)), 100)
	if m.Changed() || m.Len() != 3 || get(m, "a") != big {
		t.Error("it is not kept")
	}
	if n, _ := m.Evicted(); n != 0 || m.SoftCapReached() {
		t.Error("a Get evicts")
	}
	m.Delete("b")
	if m.Len() != 2 {
		t.Error("a Delete evicts")
	}
	set(t, m, "d", nil)
	if n, size := m.Evicted(); n != 1 || size != memory.MaxValueBytes || get(m, "c") != "-" || m.Len() != 2 {
		t.Errorf("%d evicted", n)
	}
	check(t, m)

	// Also a Put that changes nothing else evicts.
	m = memory.New(blob(2*memory.MaxValueBytes, entry("a", big, 1), entry("b", big, 100)), 100)
	set(t, m, "b", []byte(big))
	if n, _ := m.Evicted(); n != 1 || !m.Changed() {
		t.Errorf("%d evicted", n)
	}
}

func TestSoftCap(t *testing.T) {
	m := memory.New(nil, 100)
	set(t, m, "a", make([]byte, memory.SoftValueBytes-1))
	if m.SoftCapReached() {
		t.Error("reached a byte before")
	}
	set(t, m, "b", make([]byte, 1))
	if !m.SoftCapReached() {
		t.Error("not reached at the soft cap itself")
	}
	// The size after eviction counts.
	m = memory.New(nil, 100)
	set(t, m, "a", make([]byte, memory.SoftValueBytes-1))
	set(t, m, "b", make([]byte, memory.MaxValueBytes-memory.SoftValueBytes+2))
	if n, _ := m.Evicted(); n != 1 || m.SoftCapReached() {
		t.Errorf("%d evicted; reached: %v", n, m.SoftCapReached())
	}
}

// A value does not change after it was passed to the memory or returned by it.
func TestCopies(t *testing.T) {
	value := []byte("one")
	m := memory.New(nil, 100)
	set(t, m, "a", value)
	value[0] = 'X'
	got, _ := m.Get("a")
	got[0] = 'Y'
	for _, v := range m.All() {
		v[0] = 'Z'
	}
	if got := get(m, "a"); got != "one" {
		t.Errorf("Get = %q", got)
	}
}

func TestAll(t *testing.T) {
	m := abc()
	var got []string
	for k, v := range m.All() {
		got = append(got, k+"="+string(v))
		// The loop does not see changes that it makes.
		m.Delete("b")
		set(t, m, "c", []byte("new"))
		set(t, m, "d", nil)
	}
	if diff := cmp.Diff([]string{"a=1", "b=22", "c=333"}, got); diff != "" {
		t.Error(diff)
	}
	got = nil
	m.Saved()
	for k := range m.Keys() {
		got = append(got, k)
		m.Delete(k)
		if k == "c" {
			break
		}
	}
	for k := range m.All() {
		got = append(got, k)
		break
	}
	if diff := cmp.Diff([]string{"a", "c", "d"}, got); diff != "" {
		t.Error(diff)
	}
	m.Saved()
	for range m.Keys() {
		for range m.All() {
		}
	}
	if m.Changed() {
		t.Error("a loop is a change")
	}
}
