package intent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"strconv"
	"sync"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
)

// CacheRequest identifies a model call: two calls with equal fields are the same call. Messages,
// Tools and Params are values that canonjson takes.
type CacheRequest struct {
	EntityKey []byte
	Seq       int64 // number of the activation
	Model     string
	Messages  any
	Tools     any
	Params    any // use WithResponseSchema to add a response schema

	// Repeat numbers equal calls since the activation's start or its last resume: 0 for the
	// first, n for the n-th repetition. Programs in other languages compute only the key for 0.
	Repeat uint32
	// Fresh asks for a new answer after a resume. Then Attempt, the step at which the activation
	// was resumed, is part of the key. Otherwise Attempt is ignored.
	Fresh   bool
	Attempt uint32
}

// hasher holds the buffers that calls of CacheKey reuse.
type hasher struct {
	sum hash.Hash
	buf []byte
}

var hashers = sync.Pool{New: func() any { return &hasher{sum: sha256.New()} }}

// CacheKey returns the key of a model call in the replay cache: the SHA-256 of the canonical JSON
// object of the request's members, as 64 lower-case hexadecimal characters. The step is not part
// of it. The error wraps a *canonjson.Error, which is a canonjson.ErrDepth if the object is
// nested deeper than canonjson.MaxDepth.
func CacheKey(r CacheRequest) (string, error) {
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.sum.Reset()

	// The members of the document, in canonical order.
	b := h.buf[:0]
	b = append(b, '{')
	if r.Fresh {
		b = append(b, `"attempt":`...)
		b = strconv.AppendUint(b, uint64(r.Attempt), 10)
		b = append(b, ',')
	}
	b = append(b, `"key":"`...)
	b = hex.AppendEncode(b, r.EntityKey)
	b = append(b, `","messages":`...)
	h.sum.Write(b)
	if err := canonjson.WriteNested(h.sum, r.Messages, 1); err != nil {
		return "", fmt.Errorf("intent: cache key: messages: %w", err)
	}
	b = append(b[:0], `,"model":`...)
	b, err := canonjson.AppendString(b, r.Model)
	if err != nil {
		return "", fmt.Errorf("intent: cache key: model: %w", err)
	}
	b = append(b, `,"params":`...)
	h.sum.Write(b)
	if err := canonjson.WriteNested(h.sum, r.Params, 1); err != nil {
		return "", fmt.Errorf("intent: cache key: params: %w", err)
	}
	b = b[:0]
	if r.Repeat > 0 {
		b = append(b, `,"repeat":`...)
		b = strconv.AppendUint(b, uint64(r.Repeat), 10)
	}
	b = append(b, `,"seq":`...)
	b = strconv.AppendInt(b, r.Seq, 10)
	b = append(b, `,"tools":`...)
	h.sum.Write(b)
	if err := canonjson.WriteNested(h.sum, r.Tools, 1); err != nil {
		return "", fmt.Errorf("intent: cache key: tools: %w", err)
	}
	b = append(b[:0], '}')
	h.sum.Write(b)

	b = h.sum.Sum(b[:0])
	n := len(b)
	b = hex.AppendEncode(b, b)
	if cap(b) <= 64<<10 {
		h.buf = b[:0]
	}
	return string(b[n:]), nil
}

// WithResponseSchema returns the params of a call that asks for an answer of a JSON schema. If
// params is an object, the result is params with the member response_schema, which replaces an
// existing one. Otherwise the result is a new object with the members params and response_schema.
// params is not changed. The error wraps a *canonjson.Error.
func WithResponseSchema(params, schema any) (any, error) {
	const name = "response_schema"
	if m, ok := params.(map[string]any); ok && m != nil {
		m = maps.Clone(m)
		m[name] = schema
		return m, nil
	}
	text, err := canonjson.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("intent: params: %w", err)
	}
	if text[0] != '{' {
		return map[string]any{"params": json.RawMessage(text), name: schema}, nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("intent: params: %w", err)
	}
	members := make(map[string]any, len(m)+1)
	for k, v := range m {
		members[k] = v
	}
	members[name] = schema
	return members, nil
}
