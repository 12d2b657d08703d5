package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/golden"
	"github.com/beamagents/beamagents-go/pkg/replay"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// model is a cache that follows the rules in the simplest way, however slow.
type model struct {
	entries []*pb.LlmCacheEntry
	unknown []byte
	now     int64
	changed bool
}

func newModel(stored *pb.LlmCacheBlob, now int64) *model {
	m := &model{now: now, unknown: stored.ProtoReflect().GetUnknown()}
	for i, e := range stored.Entries {
		later := func(e2 *pb.LlmCacheEntry) bool { return e2 != nil && e2.CacheKey == e.CacheKey }
		if e != nil && !slices.ContainsFunc(stored.Entries[i+1:], later) {
			m.entries = append(m.entries, proto.CloneOf(e))
		}
	}
	m.changed = len(m.entries) != len(stored.Entries) || m.total() != stored.TotalResponseBytes
	return m
}

func (m *model) total() (sum int64) {
	for _, e := range m.entries {
		sum += int64(len(e.Response))
	}
	return sum
}

func (m *model) blob() *pb.LlmCacheBlob {
	b := &pb.LlmCacheBlob{StateSchemaVersion: 1, Entries: m.entries, TotalResponseBytes: m.total()}
	b.ProtoReflect().SetUnknown(m.unknown)
	return b
}

// blobBytes computes the length of the blob by the formula that all languages share, and adds
// the unknown fields.
func blobBytes(entries []*pb.LlmCacheEntry, total int64, unknown int) int {
	vlen := func(v int64) int { return protowire.SizeVarint(uint64(v)) }
	field := func(n int) int {
		if n == 0 {
			return 0
		}
		return 1 + vlen(int64(n)) + n
	}
	number := func(v int64) int {
		if v == 0 {
			return 0
		}
		return 1 + vlen(v)
	}
	size := 2 + number(total) + unknown
	for _, e := range entries {
		p := field(len(e.CacheKey)) + field(len(e.Response)) + field(len(e.ResponseDigest)) +
			number(e.CreatedAtMs) + number(e.LastAccessMs) + len(e.ProtoReflect().GetUnknown())
		if e.DigestOnly {
			p += 2
		}
		size += 1 + vlen(int64(p)) + p
	}
	return size
}

func (m *model) size() int { return blobBytes(m.entries, m.total(), len(m.unknown)) }

func (m *model) expired(e *pb.LlmCacheEntry) bool {
	age := new(big.Int).Sub(big.NewInt(m.now), big.NewInt(e.CreatedAtMs))
	return age.Cmp(big.NewInt(21_600_000)) > 0
}

func (m *model) get(key string) ([]byte, bool) {
	i := slices.IndexFunc(m.entries, func(e *pb.LlmCacheEntry) bool { return e.CacheKey == key })
	if i < 0 {
		return nil, false
	}
	e := m.entries[i]
	last := i == len(m.entries)-1
	m.entries = slices.Delete(m.entries, i, i+1)
	if m.expired(e) {
		m.changed = true
		return nil, false
	}
	m.changed = m.changed || !last || e.LastAccessMs != m.now
	e.LastAccessMs = m.now
	m.entries = append(m.entries, e)
	if e.DigestOnly {
		return nil, false
	}
	return e.Response, true
}

func (m *model) put(key string, response []byte) (stored replay.Stored, err error) {
	if key == "" || len(key) > 1024 || !utf8.ValidString(key) {
		return stored, replay.ErrKey
	}
	m.changed = true
	m.entries = slices.DeleteFunc(m.entries, m.expired)
	if i := slices.IndexFunc(m.entries, func(e *pb.LlmCacheEntry) bool { return e.CacheKey == key }); i >= 0 {
		old := m.entries[i]
		stored.Differs = old.DigestOnly && len(old.ResponseDigest) == 32 && string(old.ResponseDigest) != string(digest(string(response)))
		m.entries = slices.Delete(m.entries, i, i+1)
	}
	e := whole(key, string(response), m.now, m.now)
	if blobBytes([]*pb.LlmCacheEntry{e}, int64(len(response)), len(m.unknown)) > 102_400 {
		e = digestOnly(key, string(response), m.now, m.now)
		stored.DigestOnly = true
	}
	m.entries = append(m.entries, e)
	for len(m.entries) > 64 {
		m.entries = m.entries[1:]
		stored.Evicted++
	}
	for len(m.entries) > 1 && m.size() > 102_400 {
		m.entries = m.entries[1:]
		stored.Evicted++
	}
	return stored, nil
}

func (m *model) clear() {
	m.changed = m.changed || len(m.entries) > 0 || len(m.unknown) > 0
	m.entries, m.unknown = nil, nil
}

// pair is a cache and its model, which must behave alike.
type pair struct {
	c    *replay.Cache
	want *model
}

func openPair(stored *pb.LlmCacheBlob, now int64) *pair {
	want := newModel(stored, now)
	return &pair{replay.New(stored, now), want}
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

const operations = 7

// do calls one operation on both, and compares the results and the states after it.
func (p *pair) do(t failer, op int, key string, response []byte) {
	t.Helper()
	switch op {
	case 0, 1:
		got, ok := p.c.Get(key)
		want, wantOK := p.want.get(key)
		if ok != wantOK || !bytes.Equal(got, want) {
			t.Fatalf("Get(%.20q) = %d bytes, %v; want %d, %v", key, len(got), ok, len(want), wantOK)
		}
	case 2, 3:
		got, err := p.c.Put(key, response)
		want, wantErr := p.want.put(key, response)
		if got != want || !errors.Is(err, wantErr) {
			t.Fatalf("Put(%.20q) of %d bytes = %+v, %v; want %+v, %v", key, len(response), got, err, want, wantErr)
		}
	case 4:
		p.c.Clear()
		p.want.clear()
	case 5:
		p.c.Saved()
		p.want.changed = false
	case 6: // time may go back, or on to the end of an entry's life
		p.want.now += int64(len(response)-100) * 1_000_000
		p.c.SetNow(p.want.now)
	}
	if p.c.Changed() != p.want.changed || p.c.Len() != len(p.want.entries) || p.c.ResponseBytes() != p.want.total() ||
		p.c.BlobBytes() != p.want.size() || p.c.Empty() != (p.want.size() == 2) {
		t.Fatalf("after %d: changed %v %v, len %d %d, responses %d %d, blob %d %d", op, p.c.Changed(), p.want.changed,
			p.c.Len(), len(p.want.entries), p.c.ResponseBytes(), p.want.total(), p.c.BlobBytes(), p.want.size())
	}
	if got := p.c.Blob(); !proto.Equal(got, p.want.blob()) {
		t.Fatalf("after %d: %s", op, cmp.Diff(p.want.blob(), got, protocmp.Transform()))
	}
}

// reopen encodes and decodes the blob, which demands that keys are text.
func (p *pair) reopen(t failer, now int64) {
	t.Helper()
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(p.c.Blob())
	if err != nil {
		t.Fatalf("%v", err)
	}
	stored := new(pb.LlmCacheBlob)
	if err := proto.Unmarshal(wire, stored); err != nil || len(wire) != p.c.BlobBytes() {
		t.Fatalf("%d bytes, BlobBytes %d, %v", len(wire), p.c.BlobBytes(), err)
	}
	before := p.want.blob()
	*p = *openPair(stored, now)
	if p.c.Changed() || !proto.Equal(p.c.Blob(), before) {
		t.Fatalf("what was written is mended")
	}
}

func drawKey(t *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
		return rapid.SampledFrom([]string{"", "é🔑", strings.Repeat("k", 1024), strings.Repeat("k", 1025)}).Draw(t, "key")
	}
	return fmt.Sprint(rapid.IntRange(0, 2*replay.MaxEntries).Draw(t, "key"))
}

func drawResponse(t *rapid.T) []byte {
	sizes := rapid.SampledFrom([]int{0, 1, 127, 128, 1000})
	if rapid.IntRange(0, 9).Draw(t, "large") == 0 {
		sizes = rapid.SampledFrom([]int{20_000, 50_000, 102_330, 102_331, 102_332, 102_333, 102_400, 200_000})
	}
	return bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, sizes.Draw(t, "size"))
}

// drawTime draws times around now, among them times at which entries expire.
func drawTime(t *rapid.T, now int64) int64 {
	return rapid.OneOf(
		rapid.SampledFrom([]int64{0, now, now - replay.TTLMS, now - replay.TTLMS - 1, now + 1, math.MinInt64, math.MaxInt64}),
		rapid.Int64Range(now-replay.TTLMS, now),
	).Draw(t, "time")
}

func drawBlob(t *rapid.T, now int64) *pb.LlmCacheBlob {
	b := &pb.LlmCacheBlob{StateSchemaVersion: rapid.Uint32Range(0, 1).Draw(t, "version")}
	for range rapid.IntRange(0, rapid.SampledFrom([]int{0, 3, 100}).Draw(t, "most")).Draw(t, "entries") {
		if rapid.IntRange(0, 15).Draw(t, "nil") == 0 {
			b.Entries = append(b.Entries, nil)
			continue
		}
		e := whole(drawKey(t), string(drawResponse(t)), drawTime(t, now), drawTime(t, now))
		if rapid.IntRange(0, 3).Draw(t, "digest only") == 0 {
			e.DigestOnly = true
			e.Response = rapid.SampledFrom([][]byte{nil, nil, nil, []byte("x")}).Draw(t, "response")
			e.ResponseDigest = e.ResponseDigest[:rapid.SampledFrom([]int{32, 32, 32, 31, 0}).Draw(t, "digest")]
		}
		if n := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 5, 200, 50_000}).Draw(t, "unknown of entry"); n > 0 {
			e.ProtoReflect().SetUnknown(unknown(n))
		}
		b.Entries = append(b.Entries, e)
		b.TotalResponseBytes += int64(len(e.Response))
	}
	if rapid.IntRange(0, 3).Draw(t, "lies") == 0 {
		b.TotalResponseBytes = rapid.Int64().Draw(t, "total")
	}
	if n := rapid.SampledFrom([]int{0, 0, 0, 10, 60_000, 102_300, 102_400}).Draw(t, "unknown"); n > 0 {
		b.ProtoReflect().SetUnknown(unknown(n))
	}
	return b
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.SampledFrom([]int64{0, t0, -5}).Draw(t, "now")
		p := openPair(drawBlob(t, now), now)
		for range rapid.IntRange(0, 40).Draw(t, "operations") {
			op := rapid.IntRange(0, operations-1).Draw(t, "operation")
			if op == 4 && rapid.IntRange(0, 3).Draw(t, "spare") > 0 {
				op = 0 // else little lives long
			}
			p.do(t, op, drawKey(t), drawResponse(t))
		}
		p.reopen(t, drawTime(t, now))
		p.do(t, 0, drawKey(t), nil)
		p.do(t, 2, "a", []byte("b"))
	})
}

// FuzzOpen opens any blob that can be decoded, and runs the operations of script on it. An
// operation is three bytes: one for its kind, one for the key and one for the response.
func FuzzOpen(f *testing.F) {
	blobs, err := golden.Blobs()
	if err != nil {
		f.Fatal(err)
	}
	for _, g := range blobs {
		if g.Message == new(pb.LlmCacheBlob).ProtoReflect().Descriptor().FullName() {
			f.Add(g.Bytes, int64(t0), []byte("\x00\x03\x00\x02\x04\x10\x05\x00\x00\x02\x81\xff\x00\x03\x00"))
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte, now int64, script []byte) {
		stored := new(pb.LlmCacheBlob)
		if proto.Unmarshal(wire, stored) != nil || len(script) > 300 {
			return
		}
		keys := []string{"", "\xff", strings.Repeat("k", 1024)}
		for _, e := range stored.Entries {
			keys = append(keys, e.CacheKey)
		}
		p := openPair(stored, now)
		for ; len(script) >= 3; script = script[3:] {
			key := keys[int(script[1])%len(keys)]
			if script[1] >= 0x80 {
				key = string(rune('a' + script[1]&15))
			}
			size := int(script[2])
			if size >= 0xf0 { // the last ones fit as digests only
				size = replay.MaxBlobBytes / 12 * (size - 0xf0)
			}
			p.do(t, int(script[0])%operations, key, bytes.Repeat(script[2:3], size))
		}
		p.reopen(t, math.MaxInt64)
		p.do(t, 2, "a", nil)
	})
}
