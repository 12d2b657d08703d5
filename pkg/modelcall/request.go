package modelcall

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	"github.com/beamagents/beamagents-go/pkg/intent"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
)

// maxParts bounds the parts of a request that are stored with its response.
const maxParts = 64

// identity says which requests of a key and an activation are equal.
type identity struct {
	// key returns the cache key of the n-th repetition.
	key func(n uint32) string
	// parts returns digests of the parts of the request, with which two requests are compared.
	parts func() []*runtimepb.RequestPart
	fresh bool
	model string // the model that the request asks for
}

// scope is what all requests of an activation have in common.
type scope struct {
	entityKey []byte
	seq       int64
	attempt   uint32
}

// headerNames are the request headers that are part of the identity, in order.
var headerNames = []string{"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta"}

// secretParameters are the query parameters that hold a credential and are not part of the
// identity.
var secretParameters = []string{"access_token", "api_key", "key"}

// isSecretParameter reports whether the value of a query parameter must not be shown in texts. It
// knows more names than secretParameters: those others may change what the request asks for.
func isSecretParameter(name string) bool {
	return slices.Contains([]string{
		"access_token", "api-key", "api_key", "apikey", "key", "sig", "signature", "token", "x-amz-credential", "x-amz-signature",
	}, strings.ToLower(name))
}

// identify returns the identity of an HTTP request:
//
//	{"attempt"?, "body", "headers", "key", "method", "repeat"?, "seq", "url", "v": 1}
//
// as canonical JSON, of which the cache key is the sha256.
func (s scope) identify(r *http.Request, body []byte, fresh bool) (identity, error) {
	address, err := canonjson.Marshal(publicURL(r.URL))
	if err != nil {
		return identity{}, fmt.Errorf("modelcall: the URL of the request: %w", err)
	}
	method, err := canonjson.Marshal(r.Method)
	if err != nil {
		return identity{}, fmt.Errorf("modelcall: the method of the request: %w", err)
	}
	headers := map[string]string{}
	for _, name := range headerNames {
		if values := r.Header.Values(name); len(values) > 0 {
			headers[name] = strings.ToValidUTF8(strings.Join(values, ", "), "\ufffd")
		}
	}
	headerText, err := canonjson.Marshal(headers)
	if err != nil {
		return identity{}, fmt.Errorf("modelcall: the headers of the request: %w", err)
	}
	text, isJSON := canonicalBody(body)

	var before, after []byte
	before = append(before, '{')
	if fresh {
		before = strconv.AppendUint(append(before, `"attempt":`...), uint64(s.attempt), 10)
		before = append(before, ',')
	}
	before = append(append(before, `"body":`...), text...)
	before = append(append(before, `,"headers":`...), headerText...)
	before = hex.AppendEncode(append(before, `,"key":"`...), s.entityKey)
	before = append(append(before, `","method":`...), method...)
	after = strconv.AppendInt(append(after, `,"seq":`...), s.seq, 10)
	after = append(append(after, `,"url":`...), address...)
	after = append(after, `,"v":1}`...)

	id := identity{fresh: fresh, key: func(n uint32) string {
		h := sha256.New()
		h.Write(before)
		if n > 0 {
			h.Write(strconv.AppendUint([]byte(`,"repeat":`), uint64(n), 10))
		}
		h.Write(after)
		return hex.EncodeToString(h.Sum(nil))
	}}
	if isJSON {
		id.model = modelOf(text)
	}
	id.parts = func() []*runtimepb.RequestPart {
		parts := []*runtimepb.RequestPart{part("method", method), part("url", address), part("headers", headerText)}
		return bounded(append(parts, bodyParts("body", text)...), fresh)
	}
	return id, nil
}

// identifyCall returns the identity of a call that is not made over HTTP. Programs in other
// languages compute the same cache keys.
func (s scope) identifyCall(r Request) (identity, error) {
	request := intent.CacheRequest{
		EntityKey: s.entityKey, Seq: s.seq, Model: r.Model, Messages: r.Messages, Tools: r.Tools, Params: r.Params,
		Fresh: r.Fresh, Attempt: s.attempt,
	}
	// Copies, because the caller may change these values, and they are hashed more than once.
	for _, v := range []*any{&request.Messages, &request.Tools, &request.Params} {
		text, err := canonjson.Marshal(*v)
		if err != nil {
			return identity{}, fmt.Errorf("modelcall: the request cannot be encoded as canonical JSON: %w", err)
		}
		*v = json.RawMessage(text)
	}
	if _, err := intent.CacheKey(request); err != nil {
		return identity{}, fmt.Errorf("modelcall: %w", err)
	}
	id := identity{fresh: r.Fresh, model: r.Model, key: func(n uint32) string {
		repeated := request
		repeated.Repeat = n
		key, _ := intent.CacheKey(repeated) // the same request was encoded above
		return key
	}}
	id.parts = func() []*runtimepb.RequestPart {
		parts := []*runtimepb.RequestPart{part("model", []byte(r.Model))}
		parts = append(parts, bodyParts("messages", request.Messages.(json.RawMessage))...)
		parts = append(parts, bodyParts("tools", request.Tools.(json.RawMessage))...)
		return bounded(append(parts, bodyParts("params", request.Params.(json.RawMessage))...), r.Fresh)
	}
	return id, nil
}

// publicURL returns a URL without its credentials.
func publicURL(u *url.URL) string {
	public := *u
	public.User, public.Fragment, public.RawFragment = nil, "", ""
	if u.RawQuery != "" {
		kept := slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(member string) bool {
			name, _, _ := strings.Cut(member, "=")
			if decoded, err := url.QueryUnescape(name); err == nil {
				name = decoded
			}
			return slices.Contains(secretParameters, strings.ToLower(name))
		})
		public.RawQuery = strings.Join(kept, "&")
	}
	return strings.ToValidUTF8(public.String(), "\ufffd")
}

// canonicalBody returns a body as canonical JSON, or its hash as a JSON string if the body is not
// JSON.
func canonicalBody(body []byte) (text []byte, isJSON bool) {
	if len(body) > 0 {
		// The body becomes a member of an object, so its depth starts at 1.
		var buf bytes.Buffer
		if err := canonjson.WriteNested(&buf, json.RawMessage(body), 1); err == nil {
			return buf.Bytes(), true
		}
	}
	sum := sha256.Sum256(body)
	return fmt.Appendf(nil, `"sha256:%x"`, sum), false
}

func modelOf(body []byte) string {
	var request struct {
		Model any `json:"model"`
	}
	if json.Unmarshal(body, &request) != nil {
		return ""
	}
	model, _ := request.Model.(string)
	return model
}

func part(path string, text []byte) *runtimepb.RequestPart {
	sum := sha256.Sum256(text)
	return &runtimepb.RequestPart{Path: path, Digest: binary.LittleEndian.Uint32(sum[:4])}
}

// bodyParts returns the parts of a body: the members of an object and the elements of the arrays
// in it, or else the text as a whole.
func bodyParts(path string, text []byte) []*runtimepb.RequestPart {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || len(members) == 0 {
		return elementParts(path, text)
	}
	var parts []*runtimepb.RequestPart
	for name, value := range members {
		if len(name) > 64 {
			name = "?"
		}
		parts = append(parts, elementParts(path+"."+name, value)...)
	}
	return parts
}

func elementParts(path string, text []byte) []*runtimepb.RequestPart {
	var elements []json.RawMessage
	if json.Unmarshal(text, &elements) != nil || len(elements) == 0 {
		return []*runtimepb.RequestPart{part(path, text)}
	}
	parts := make([]*runtimepb.RequestPart, len(elements))
	for i, e := range elements {
		parts[i] = part(path+"["+strconv.Itoa(i)+"]", e)
	}
	return parts
}

// freshPart marks a request that is not answered from the cache after a resume.
const freshPart = "attempt"

// bounded sorts parts and keeps the first maxParts of them.
func bounded(parts []*runtimepb.RequestPart, fresh bool) []*runtimepb.RequestPart {
	slices.SortStableFunc(parts, func(a, b *runtimepb.RequestPart) int { return strings.Compare(a.GetPath(), b.GetPath()) })
	parts = parts[:min(len(parts), maxParts-1)]
	if fresh {
		parts = slices.Insert(parts, 0, &runtimepb.RequestPart{Path: freshPart})
	}
	return parts
}
