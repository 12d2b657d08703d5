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

// CacheRequest is what makes two model calls the same call. Messages, Tools and
// Params are anything that canonjson takes.
type CacheRequest struct {
	EntityKey []byte
	Seq       int64 // of the activation
	Model     string
	Messages  any
	Tools     any
	Params    any // with the response schema, if there is one: WithResponseSchema

	// Repeat is 0 for the first of equal calls since the activation's start or its
	// last resume, n for the n-th repetition. Only 0 gives the key that programs in
	// other languages compute.
	Repeat uint32
	// Fresh asks for an answer of its own after a resume: Attempt, the step at which
	// the activation was resumed, becomes part of the key. Else Attempt is ignored.
	Fresh   bool
	Attempt uint32
}

// hasher lets calls of CacheKey share their working memory.
type hasher struct {
	sum hash.Hash
	buf []byte
}

var hashers = sync.Pool{New: func() any { return &hasher{sum: sha256.New()} }}

// CacheKey returns the key of a model call in the replay cache: the SHA-256, 64
// characters of lower case hex, of the canonical JSON object of the request's
// members. The step is no part of it. The error wraps a *canonjson.Error; for an
// object nested deeper than canonjson.MaxDepth that is a canonjson.ErrDepth.
func CacheKey(r CacheRequest) (string, error) {
	h := hashers.Get().(*hasher)
	defer hashers.Put(h)
	h.sum.Reset()

	// The members of the document in their canonical order.
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

// WithResponseSchema returns the params of a call that asks for an answer of the
// given JSON schema: params with the member response_schema, which replaces one
// that is there, or, where params is not an object, a new object of the members
// params and response_schema. It does not change params. The error wraps a
// *canonjson.Error.
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
