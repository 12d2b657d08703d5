package replay_test

import (
	"bytes"
	"crypto/sha256"
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
	"github.com/beamagents/beamagents-go/pkg/replay"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const t0 = 1_700_000_000_000

func encode(t failer, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

func digest(response string) []byte {
	sum := sha256.Sum256([]byte(response))
	return sum[:]
}

func whole(key, response string, created, accessed int64) *pb.LlmCacheEntry {
	return &pb.LlmCacheEntry{
		CacheKey: key, Response: []byte(response), ResponseDigest: digest(response), CreatedAtMs: created, LastAccessMs: accessed,
	}
}

func digestOnly(key, response string, created, accessed int64) *pb.LlmCacheEntry {
	return &pb.LlmCacheEntry{
		CacheKey: key, ResponseDigest: digest(response), CreatedAtMs: created, LastAccessMs: accessed, DigestOnly: true,
	}
}

func blob(total int64, entries ...*pb.LlmCacheEntry) *pb.LlmCacheBlob {
	return &pb.LlmCacheBlob{StateSchemaVersion: 1, Entries: entries, TotalResponseBytes: total}
}

// unknown is a field of n bytes that a newer schema might have.
func unknown(n int) []byte {
	b := protowire.AppendTag(nil, 500, protowire.BytesType)
	return protowire.AppendBytes(b, make([]byte, n-len(b)-protowire.SizeVarint(uint64(n))))
}

func put(t testing.TB, c *replay.Cache, key, response string) replay.Stored {
	t.Helper()
	stored, err := c.Put(key, []byte(response))
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// get returns for tables what Get finds, or "-".
func get(c *replay.Cache, key string) string {
	v, ok := c.Get(key)
	if !ok {
		return "-"
	}
	return string(v)
}

func TestOperations(t *testing.T) {
	type cache = *replay.Cache
	a, b, d := func() *pb.LlmCacheEntry { return whole("a", "1", t0, t0) },
		func() *pb.LlmCacheEntry { return digestOnly("b", "22", t0+1, t0+1) },
		func() *pb.LlmCacheEntry { return whole("d", "333", t0+2, t0+2) }
	const now = t0 + 100
	wantGet := func(key, want string) func(*testing.T, cache) {
		return func(t *testing.T, c cache) {
			if got := get(c, key); got != want {
				t.Errorf("Get = %q, want %q", got, want)
			}
		}
	}
	wantPut := func(key, response string, want replay.Stored) func(*testing.T, cache) {
		return func(t *testing.T, c cache) {
			if got := put(t, c, key, response); got != want {
				t.Errorf("Put = %+v, want %+v", got, want)
			}
		}
	}
	for name, tt := range map[string]struct {
		now     int64
		do      func(t *testing.T, c cache)
		want    *pb.LlmCacheBlob
		changed bool
	}{
		"nothing": {now, func(*testing.T, cache) {}, blob(4, a(), b(), d()), false},
		"a miss":  {now, wantGet("x", "-"), blob(4, a(), b(), d()), false},
		"a hit moves to the end": {
			now, wantGet("a", "1"),
			blob(4, b(), d(), whole("a", "1", t0, now)), true,
		},
		"a hit at the end stamps": {
			now, wantGet("d", "333"),
			blob(4, a(), b(), whole("d", "333", t0+2, now)), true,
		},
		"a hit at the end, of the same time": {t0 + 2, wantGet("d", "333"), blob(4, a(), b(), d()), false},
		"a digest is a miss, and used": {
			now, wantGet("b", "-"),
			blob(4, a(), d(), digestOnly("b", "22", t0+1, now)), true,
		},
		"put appends": {
			now, wantPut("x", "4444", replay.Stored{}),
			blob(8, a(), b(), d(), whole("x", "4444", now, now)), true,
		},
		"put replaces, and begins a new life": {
			now, wantPut("a", "", replay.Stored{}),
			blob(3, b(), d(), whole("a", "", now, now)), true,
		},
		"put after a digest of the same response": {
			now, wantPut("b", "22", replay.Stored{}),
			blob(6, a(), d(), whole("b", "22", now, now)), true,
		},
		"put after a digest of another response": {
			now, wantPut("b", "2x", replay.Stored{Differs: true}),
			blob(6, a(), d(), whole("b", "2x", now, now)), true,
		},
		"put after another whole response": {
			now, wantPut("a", "x", replay.Stored{}),
			blob(4, b(), d(), whole("a", "x", now, now)), true,
		},
		"a second put after a digest": {
			now, func(t *testing.T, c cache) {
				put(t, c, "b", "22")
				if got := put(t, c, "b", "2x"); got.Differs {
					t.Error("compared with what was no digest any more")
				}
			},
			blob(6, a(), d(), whole("b", "2x", now, now)), true,
		},
		"as old as it may be": {
			t0 + replay.TTLMS, wantGet("a", "1"),
			blob(4, b(), d(), whole("a", "1", t0, t0+replay.TTLMS)), true,
		},
		"expired": {t0 + replay.TTLMS + 1, wantGet("a", "-"), blob(3, b(), d()), true},
		"an expired digest": {
			t0 + replay.TTLMS + 2, wantPut("b", "2x", replay.Stored{}),
			blob(5, d(), whole("b", "2x", t0+replay.TTLMS+2, t0+replay.TTLMS+2)), true,
		},
		"put removes all that is expired": {
			t0 + replay.TTLMS + 3, wantPut("x", "y", replay.Stored{}),
			blob(1, whole("x", "y", t0+replay.TTLMS+3, t0+replay.TTLMS+3)), true,
		},
		"of the future": {
			0, wantGet("a", "1"),
			blob(4, b(), d(), whole("a", "1", t0, 0)), true,
		},
		"the longest time ago": {math.MaxInt64, wantGet("a", "-"), blob(3, b(), d()), true},
		"the longest time ahead": {
			math.MinInt64, wantGet("a", "1"),
			blob(4, b(), d(), whole("a", "1", t0, math.MinInt64)), true,
		},
		"clear": {
			now, func(t *testing.T, c cache) {
				c.Clear()
				wantGet("a", "-")(t, c)
			},
			blob(0), true,
		},
		"clear of nothing": {
			now, func(_ *testing.T, c cache) {
				c.Clear()
				c.Saved()
				c.Clear()
			},
			blob(0), false,
		},
		"saved and changed again": {
			now, func(_ *testing.T, c cache) {
				c.Get("a")
				c.Saved()
				c.Get("d")
			},
			blob(4, b(), whole("a", "1", t0, now), whole("d", "333", t0+2, now)), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := replay.New(blob(4, a(), b(), d()), tt.now)
			tt.do(t, c)
			check(t, c)
			if c.Changed() != tt.changed {
				t.Errorf("Changed = %v", c.Changed())
			}
			if diff := cmp.Diff(tt.want, c.Blob(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// check tests what holds for every cache.
func check(t testing.TB, c *replay.Cache) {
	t.Helper()
	b := c.Blob()
	if got := len(encode(t, b)); got != c.BlobBytes() {
		t.Fatalf("BlobBytes = %d of %d", c.BlobBytes(), got)
	}
	var total int64
	seen := make(map[string]bool)
	for _, e := range b.Entries {
		if e == nil || seen[e.CacheKey] {
			t.Fatalf("entry %v is nil, or there twice", e)
		}
		seen[e.CacheKey] = true
		total += int64(len(e.Response))
	}
	if b.StateSchemaVersion != 1 || b.TotalResponseBytes != total || c.ResponseBytes() != total || c.Len() != len(b.Entries) {
		t.Fatalf("version %d, total %d, ResponseBytes %d, Len %d of %d entries with %d bytes",
			b.StateSchemaVersion, b.TotalResponseBytes, c.ResponseBytes(), c.Len(), len(b.Entries), total)
	}
}

// The test vector that all languages share.
func TestBytes(t *testing.T) {
	c := replay.New(nil, t0)
	if got := hex.EncodeToString(encode(t, c.Blob())); got != "0801" {
		t.Errorf("an empty cache is %s", got)
	}
	put(t, c, strings.Repeat("a", 64), "hi")
	c.Saved()
	if got := get(c, strings.Repeat("a", 64)); got != "hi" || c.Changed() {
		t.Errorf("Get = %q", got)
	}
	want := "080112760a40" + strings.Repeat("61", 64) +
		"120268691a208f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa42080d095ffbc312880d095ffbc311802"
	if got := hex.EncodeToString(encode(t, c.Blob())); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The size of the largest response that is kept whole is the same in all languages.
func TestLargestResponse(t *testing.T) {
	key := strings.Repeat("a", 64)
	c := replay.New(nil, t0)
	largest := strings.Repeat("x", 102_272)
	if got := put(t, c, key, largest); got != (replay.Stored{}) || c.BlobBytes() != 102_400 || get(c, key) != largest {
		t.Errorf("Put = %+v, BlobBytes = %d", got, c.BlobBytes())
	}
	check(t, c)

	c = replay.New(nil, t0)
	put(t, c, "other", "y")
	tooLarge := largest + "x"
	if got := put(t, c, key, tooLarge); got != (replay.Stored{DigestOnly: true}) || get(c, key) != "-" {
		t.Errorf("Put = %+v", got)
	}
	if get(c, "other") != "y" {
		t.Error("what cannot fit has evicted something")
	}
	if got := put(t, c, key, tooLarge); got != (replay.Stored{DigestOnly: true}) {
		t.Errorf("the same again: Put = %+v", got)
	}
	if got := put(t, c, key, tooLarge+"x"); got != (replay.Stored{DigestOnly: true, Differs: true}) {
		t.Errorf("another one: Put = %+v", got)
	}
	if diff := cmp.Diff(blob(1, whole("other", "y", t0, t0), digestOnly(key, tooLarge+"x", t0, t0)), c.Blob(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	check(t, c)
}

func TestGolden(t *testing.T) {
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
		want, ok := value.(*pb.LlmCacheBlob)
		if !ok || want.StateSchemaVersion > 1 { // of the future: never opened
			continue
		}
		found++
		stored := new(pb.LlmCacheBlob)
		if err := proto.Unmarshal(g.Bytes, stored); err != nil {
			t.Fatal(err)
		}
		want.StateSchemaVersion = 1
		c := replay.New(stored, t0)
		check(t, c)
		if c.Changed() {
			t.Errorf("%s is changed by opening it", g.Name)
		}
		if diff := cmp.Diff(want, c.Blob(), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", g.Name, diff)
		}
	}
	if found < 5 {
		t.Errorf("only %d golden blobs", found)
	}
}

func TestHostile(t *testing.T) {
	for name, tt := range map[string]struct {
		stored, want *pb.LlmCacheBlob
		changed      bool
	}{
		"total too low":    {blob(0, whole("a", "1", 1, 1)), blob(1, whole("a", "1", 1, 1)), true},
		"total too high":   {blob(9), blob(0), true},
		"total negative":   {blob(math.MinInt64, whole("a", "1", 1, 1)), blob(1, whole("a", "1", 1, 1)), true},
		"no version":       {&pb.LlmCacheBlob{}, blob(0), false},
		"nil entries":      {blob(1, nil, whole("a", "1", 1, 1), nil), blob(1, whole("a", "1", 1, 1)), true},
		"one key twice":    {blob(3, whole("a", "1", 1, 1), whole("b", "2", 1, 1), whole("a", "3", 2, 2)), blob(2, whole("b", "2", 1, 1), whole("a", "3", 2, 2)), true},
		"nothing else off": {blob(1, digestOnly("a", "1", 1, 1), whole("a", "3", 2, 2)), blob(1, whole("a", "3", 2, 2)), true},
	} {
		t.Run(name, func(t *testing.T) {
			c := replay.New(tt.stored, 100)
			if c.Changed() != tt.changed {
				t.Errorf("Changed = %v", c.Changed())
			}
			check(t, c)
			if diff := cmp.Diff(tt.want, c.Blob(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Entries that only other programs could have written.
func TestStoredEntriesAgainstTheRules(t *testing.T) {
	e := digestOnly("a", "1", t0, t0)
	e.Response = []byte("1")
	c := replay.New(blob(1, e), t0)
	if get(c, "a") != "-" {
		t.Error("a response that is said to be a digest alone is handed out")
	}
	e = digestOnly("a", "1", t0, t0)
	e.ResponseDigest = e.ResponseDigest[:31]
	c = replay.New(blob(0, e), t0)
	if got := put(t, c, "a", "2"); got.Differs {
		t.Error("compared with what is no digest")
	}
	for _, key := range []string{"", strings.Repeat("k", replay.MaxKeyBytes+1), "\xff"} {
		c := replay.New(blob(1, whole(key, "1", t0, t0)), t0)
		if get(c, key) != "1" {
			t.Errorf("%.9q cannot be read", key)
		}
		if _, err := c.Put(key, nil); !errors.Is(err, replay.ErrKey) || c.Changed() {
			t.Errorf("Put of %.9q: %v", key, err)
		}
	}
}

func TestPutKeys(t *testing.T) {
	c := replay.New(nil, t0)
	for _, key := range []string{"k", "é🔑", strings.Repeat("k", replay.MaxKeyBytes)} {
		put(t, c, key, "v")
		if get(c, key) != "v" {
			t.Errorf("%.9q cannot be read", key)
		}
	}
	for key, want := range map[string]string{
		"":                        "replay: unusable key: it is empty",
		"a\xff":                   `replay: unusable key: "a\xff" is not UTF-8`,
		strings.Repeat("k", 1025): "replay: unusable key: it has 1025 bytes, the cap is 1024",
	} {
		if stored, err := c.Put(key, nil); !errors.Is(err, replay.ErrKey) || err.Error() != want || stored != (replay.Stored{}) {
			t.Errorf("Put of %.9q: %v", key, err)
		}
	}
}

func TestCaps(t *testing.T) {
	c := replay.New(nil, t0)
	for i := range replay.MaxEntries {
		if got := put(t, c, fmt.Sprint(i), "x"); got.Evicted != 0 {
			t.Fatalf("entry %d has evicted %d", i, got.Evicted)
		}
	}
	c.Get("0")
	if got := put(t, c, "new", "x"); got.Evicted != 1 {
		t.Errorf("%d evicted, want 1", got.Evicted)
	}
	if c.Len() != replay.MaxEntries || get(c, "0") == "-" || get(c, "1") != "-" {
		t.Errorf("%d entries", c.Len())
	}
	check(t, c)

	c = replay.New(nil, t0)
	third := strings.Repeat("x", 34_000)
	for _, key := range []string{"a", "b", "c"} {
		put(t, c, key, third)
	}
	if c.Len() != 3 {
		t.Fatalf("%d entries", c.Len())
	}
	put(t, c, "d", "small")
	put(t, c, "e", third)
	if c.Len() != 4 || get(c, "a") != "-" || get(c, "b") == "-" || c.BlobBytes() > replay.MaxBlobBytes {
		t.Errorf("%d entries, %d bytes", c.Len(), c.BlobBytes())
	}
	check(t, c)

	// Exactly at the limit nothing is evicted.
	c = replay.New(nil, t0)
	put(t, c, "a", strings.Repeat("x", 50_000))
	put(t, c, "b", strings.Repeat("x", 52_276))
	if c.Len() != 2 || c.BlobBytes() != replay.MaxBlobBytes {
		t.Errorf("%d entries, %d bytes", c.Len(), c.BlobBytes())
	}

	// The digest of a response that does not fit counts too.
	c = replay.New(nil, t0)
	put(t, c, "a", strings.Repeat("x", 50_000))
	put(t, c, "b", strings.Repeat("x", 52_250))
	if c.Len() != 2 {
		t.Fatalf("%d entries", c.Len())
	}
	put(t, c, "c", strings.Repeat("x", 200_000))
	if c.Len() != 2 || get(c, "a") != "-" || c.BlobBytes() > replay.MaxBlobBytes {
		t.Errorf("%d entries, %d bytes", c.Len(), c.BlobBytes())
	}

	// A stored blob that exceeds the limits is kept until the next Put.
	var many []*pb.LlmCacheEntry
	for i := range 1000 {
		many = append(many, whole(fmt.Sprint(i), strings.Repeat("x", 1000), t0, t0))
	}
	c = replay.New(blob(1_000_000, many...), t0)
	if c.Changed() || get(c, "0") == "-" || c.Len() != 1000 {
		t.Errorf("%d entries", c.Len())
	}
	put(t, c, "new", "")
	if c.Len() != replay.MaxEntries || get(c, "0") == "-" || get(c, "999") == "-" || get(c, "1") != "-" {
		t.Errorf("%d entries", c.Len())
	}
	check(t, c)
}

// Fields that this build does not know count too. However large they are, the entry that was
// just written is not evicted.
func TestUnknownFields(t *testing.T) {
	e := whole("a", "1", t0, t0)
	e.ProtoReflect().SetUnknown(unknown(50))
	b := blob(1, e)
	b.ProtoReflect().SetUnknown(unknown(1000))
	c := replay.New(b, t0)
	c.Get("a")
	key := strings.Repeat("k", 64)
	if got := put(t, c, key, strings.Repeat("x", 102_272-1000)); got.DigestOnly || c.Len() != 1 || c.BlobBytes() != replay.MaxBlobBytes {
		t.Errorf("Put = %+v, %d bytes", got, c.BlobBytes())
	}
	if got := put(t, c, key, strings.Repeat("x", 102_273-1000)); !got.DigestOnly {
		t.Errorf("Put = %+v", got)
	}
	check(t, c)

	b = blob(0)
	b.ProtoReflect().SetUnknown(unknown(replay.MaxBlobBytes))
	c = replay.New(b, t0)
	put(t, c, "a", "")
	if got := put(t, c, "b", ""); !got.DigestOnly || c.Len() != 1 || get(c, "b") != "-" {
		t.Errorf("Put = %+v, %d entries", got, c.Len())
	}
	check(t, c)
	c.Clear()
	c.Saved()
	if c.BlobBytes() != 2 {
		t.Error("Clear leaves unknown fields")
	}
}

// A response does not change after it was passed to the cache or returned by it.
func TestCopies(t *testing.T) {
	response := []byte("one")
	c := replay.New(nil, t0)
	if _, err := c.Put("a", response); err != nil {
		t.Fatal(err)
	}
	response[0] = 'X'
	got, _ := c.Get("a")
	if !bytes.Equal(got, []byte("one")) {
		t.Errorf("Get = %q", got)
	}
	got[0] = 'Y'
	if got := get(c, "a"); got != "one" {
		t.Errorf("Get = %q", got)
	}
}
