// Package replay is the bounded cache of a key's model responses, over its stored
// LlmCacheBlob, so that a retry or a resume does not pay for a response again.
//
// # Behaviour
//
// [Cache.Get] returns a response only if the whole of it is stored. Of a response that was
// too large the cache keeps a digest alone. Such an entry is a miss: the model is called
// again, and [Cache.Put] compares the new response with the digest (see [Stored]).
//
// Entries are ordered from the least to the most recently used one, and that order is their
// order in the blob. Put moves its entry to the end and stamps it with the "now" of [New] or
// [Cache.SetNow] (ms, event time). A Get of an entry does the same, also if the entry is a
// digest or the most recent one, because programs in other languages that share the stored
// form do. A new order or stamp counts as a change. No clock is read.
//
// An entry lives for [TTLMS] after it was put, and a Get does not renew it. A Get removes an
// expired entry that it finds; a Put removes all expired entries.
//
// Responses are copied on their way in and out. The blob itself is not: New takes it over,
// and [Cache.Blob] hands it back.
//
// New repairs inconsistent blobs: it recomputes a wrong total, drops nil entries, and keeps
// only the last entry of a duplicate key. A repair counts as a change, so that the repaired
// blob is written. A blob stored without a version (stamp 0) is read as version 1, and the
// next write stores the version. Unknown fields of the blob and of its entries are kept
// until Clear, until the entry is removed, or until its key is put again.
//
// [Cache.Begin] starts a transaction. [Cache.Keep] ends it with all changes, and
// [Cache.Rollback] restores what was there at Begin. A transaction that changes nothing
// copies nothing.
//
// [Repeats] gives equal calls of one activation different keys.
//
// # Limits
//
// A cache has at most [MaxEntries] entries and [MaxBlobBytes] of encoded blob. A Put evicts
// the least recently used entries until both limits are kept, but never the entry that it
// has written. A response that does not fit even alone evicts nothing; its digest is stored.
// A stored blob that exceeds the limits is kept until the next Put. A key has 1 to
// [MaxKeyBytes] bytes of UTF-8. A stored key that breaks the rule can be read.
//
// A Cache and a Repeats belong to one goroutine. Create a Cache with New: its zero value
// cannot be used.
//
// # Differences
//
// The Python side returns digests as hits and compares them with nothing. It counts each hit
// as a change. Equal calls of one activation share one entry there.
package replay

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/internal/storedkey"
	"github.com/beamagents/beamagents-go/pkg/migrate"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Limits.
const (
	MaxEntries   = 64
	MaxBlobBytes = 102_400    // bytes of the encoded blob
	TTLMS        = 21_600_000 // ms from Put; an entry that is older has expired
	MaxKeyBytes  = 1024       // bytes of a key
)

// ErrKey is what errors of Put wrap: the key is empty, too long, or not UTF-8.
var ErrKey = errors.New("unusable key")

// Cache holds the model responses of one key.
type Cache struct {
	blob    *pb.LlmCacheBlob // always ready to be stored
	nowMS   int64
	changes int

	undo *undo // nil outside of a transaction
}

// Stored says how a response was stored.
type Stored struct {
	// DigestOnly: the response was too large, and only its digest is in the cache.
	DigestOnly bool
	// Differs: the cache had the digest of an earlier response to the same call, and the new
	// response is another one. So the model gave two answers to one question, and what was
	// derived from the first answer may not agree with the second. It is not an error:
	// count it and trace it.
	Differs bool
	// Evicted is the number of other entries that were evicted before they had expired.
	Evicted int
}

// New opens a blob of the current schema version at nowMS. The cache owns the blob from then
// on. A nil blob is an empty cache.
func New(blob *pb.LlmCacheBlob, nowMS int64) *Cache {
	if blob == nil {
		blob = new(pb.LlmCacheBlob)
	}
	c := &Cache{blob: blob, nowMS: nowMS}
	n, total := len(blob.Entries), blob.TotalResponseBytes
	blob.StateSchemaVersion = migrate.Current
	c.setEntries(lastOfEachKey(blob.Entries))
	if len(blob.Entries) != n || blob.TotalResponseBytes != total {
		c.changes++
	}
	return c
}

// lastOfEachKey removes nil entries, and all but the last entry of each key.
func lastOfEachKey(entries []*pb.LlmCacheEntry) []*pb.LlmCacheEntry {
	last := make(map[string]int, len(entries))
	for i, e := range entries {
		if e != nil {
			last[e.CacheKey] = i
		}
	}
	if len(last) == len(entries) {
		return entries
	}
	kept := entries[:0]
	for i, e := range entries {
		if e != nil && last[e.CacheKey] == i {
			kept = append(kept, e)
		}
	}
	clear(entries[len(kept):])
	return kept
}

// setEntries sets the entries of the blob and their total.
func (c *Cache) setEntries(entries []*pb.LlmCacheEntry) {
	c.blob.Entries, c.blob.TotalResponseBytes = entries, 0
	for _, e := range entries {
		c.blob.TotalResponseBytes += int64(len(e.Response))
	}
}

func (c *Cache) find(key string) int {
	return slices.IndexFunc(c.blob.Entries, func(e *pb.LlmCacheEntry) bool { return e.CacheKey == key })
}

func (c *Cache) expired(e *pb.LlmCacheEntry) bool {
	// Unsigned, the difference is exact for any two times.
	return e.CreatedAtMs < c.nowMS && uint64(c.nowMS)-uint64(e.CreatedAtMs) > TTLMS
}

// Get returns a copy of the response of key and true, or nil and false if the cache does not
// have it: then call the model and Put its response. An empty response is nil.
func (c *Cache) Get(key string) ([]byte, bool) {
	i := c.find(key)
	if i < 0 {
		return nil, false
	}
	e := c.blob.Entries[i]
	if c.expired(e) {
		c.record()
		c.setEntries(slices.Delete(c.blob.Entries, i, i+1))
		c.changes++
		return nil, false
	}
	if last := len(c.blob.Entries) - 1; i < last || e.LastAccessMs != c.nowMS {
		c.record()
		e.LastAccessMs = c.nowMS
		copy(c.blob.Entries[i:], c.blob.Entries[i+1:])
		c.blob.Entries[last] = e
		c.changes++
	}
	if e.DigestOnly {
		return nil, false
	}
	return append([]byte(nil), e.Response...), true
}

// Peek is [Cache.Get] without a change: the entry keeps its place and its stamp. The response
// is not copied; do not change it.
func (c *Cache) Peek(key string) ([]byte, bool) {
	i := c.find(key)
	if i < 0 || c.expired(c.blob.Entries[i]) || c.blob.Entries[i].DigestOnly {
		return nil, false
	}
	return c.blob.Entries[i].Response, true
}

// Keys returns the keys for which Get returns a response, the least recently used first.
func (c *Cache) Keys() (keys []string) {
	for _, e := range c.blob.Entries {
		if !e.DigestOnly && !c.expired(e) {
			keys = append(keys, e.CacheKey)
		}
	}
	return keys
}

// Put stores a copy of the response of key and replaces an entry that the key has. The entry
// becomes the most recent one, and is created now. Put then removes all expired entries, and
// evicts others until no limit is exceeded. The error wraps ErrKey; then nothing has changed.
func (c *Cache) Put(key string, response []byte) (Stored, error) {
	digest := sha256.Sum256(response)
	return c.put(key, response, digest, digest)
}

// PutRecord is [Cache.Put] for a response in another form, such as a compressed one. Content
// is the SHA-256 of the response itself. If the record is too large, content is stored as the
// digest, and it is compared with an earlier digest.
func (c *Cache) PutRecord(key string, response []byte, content [sha256.Size]byte) (Stored, error) {
	return c.put(key, response, sha256.Sum256(response), content)
}

func (c *Cache) put(key string, response []byte, digest, content [sha256.Size]byte) (Stored, error) {
	if fault := storedkey.Fault(key, MaxKeyBytes); fault != "" {
		return Stored{}, fmt.Errorf("replay: %w: %s", ErrKey, fault)
	}
	e := &pb.LlmCacheEntry{
		CacheKey: key, Response: response, ResponseDigest: digest[:], CreatedAtMs: c.nowMS, LastAccessMs: c.nowMS,
	}
	var stored Stored
	if c.alone(e) > MaxBlobBytes {
		stored.DigestOnly, e.DigestOnly, e.Response, e.ResponseDigest = true, true, nil, content[:]
	} else {
		e.Response = append([]byte(nil), response...)
	}
	c.record()
	entries := slices.DeleteFunc(c.blob.Entries, func(old *pb.LlmCacheEntry) bool {
		if c.expired(old) {
			return true
		}
		if old.CacheKey != key {
			return false
		}
		// Bytes of another length are not a digest and cannot be compared.
		stored.Differs = old.DigestOnly && len(old.ResponseDigest) == len(content) && !bytes.Equal(old.ResponseDigest, content[:])
		return true
	})
	entries = append(entries, e)
	held := len(entries)
	c.setEntries(slices.Delete(entries, 0, max(0, len(entries)-MaxEntries)))
	for len(c.blob.Entries) > 1 && c.BlobBytes() > MaxBlobBytes {
		c.setEntries(slices.Delete(c.blob.Entries, 0, 1))
	}
	stored.Evicted = held - len(c.blob.Entries)
	c.changes++
	return stored, nil
}

// alone is the length of the encoded blob if e were its only entry.
func (c *Cache) alone(e *pb.LlmCacheEntry) int {
	header := pb.LlmCacheBlob{StateSchemaVersion: migrate.Current, TotalResponseBytes: int64(len(e.Response))}
	return proto.Size(&header) + 1 + protowire.SizeBytes(proto.Size(e)) + len(c.blob.ProtoReflect().GetUnknown())
}

// Clear removes everything, also the unknown fields of the blob. If the cache is empty,
// nothing changes.
func (c *Cache) Clear() {
	if c.Empty() {
		return
	}
	c.blob = &pb.LlmCacheBlob{StateSchemaVersion: migrate.Current}
	c.changes++
}

// SetNow sets the "now", in ms, of the calls that follow.
func (c *Cache) SetNow(nowMS int64) { c.nowMS = nowMS }

// Empty reports whether there is nothing to store: neither an entry nor an unknown field.
func (c *Cache) Empty() bool {
	return len(c.blob.Entries) == 0 && len(c.blob.ProtoReflect().GetUnknown()) == 0
}

// Len is the number of entries, digests and expired ones included.
func (c *Cache) Len() int { return len(c.blob.Entries) }

// ResponseBytes is the length of all stored responses together.
func (c *Cache) ResponseBytes() int64 { return c.blob.TotalResponseBytes }

// BlobBytes is the length of the encoded blob, which MaxBlobBytes limits.
func (c *Cache) BlobBytes() int { return proto.Size(c.blob) }

// Changes is the number of changes and repairs since New. A caller that has stored Blob has
// to store it again when the number has changed.
func (c *Cache) Changes() int { return c.changes }

// Changed reports whether anything was changed or repaired since New.
func (c *Cache) Changed() bool { return c.changes > 0 }

// Blob returns the blob to store, with the current version, the entries in order and the
// right total. It still belongs to the cache: encode it or clone it before the next call.
func (c *Cache) Blob() *pb.LlmCacheBlob { return c.blob }
