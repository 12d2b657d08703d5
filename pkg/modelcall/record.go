package modelcall

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
)

// MaxResponseBytes bounds the body of a recorded response, in bytes. A longer response reaches
// the agent but is not recorded.
const MaxResponseBytes = 4 << 20

// minDeflate is the smallest body that is compressed, in bytes.
const minDeflate = 256

const maxHeaderValue = 1024

// storedHeaders are the response headers that are stored.
var storedHeaders = []string{"Apim-Request-Id", "Content-Encoding", "Content-Type", "Request-Id", "X-Amzn-Requestid", "X-Request-Id"}

// Hooks are the agent's functions for responses that are stored. Each may be nil. If Redact or
// Seal fails or panics, the response is not recorded. If Open fails or panics, the call is made
// again.
type Hooks struct {
	Redact func(body []byte) ([]byte, error)
	Seal   func(plain []byte) ([]byte, error)
	Open   func(sealed []byte) ([]byte, error)
}

// response is the response of a model.
type response struct {
	status int // 0 if the call was not made over HTTP
	header http.Header
	body   []byte
}

// record is a response as it is stored.
type record struct {
	message *runtimepb.StoredResponse
	encoded []byte
	content [sha256.Size]byte // digest of the body, to compare a response that was too large to keep
}

func newRecord(r found, seq int64, parts []*runtimepb.RequestPart, hooks Hooks) (*record, error) {
	body := r.body
	if hooks.Redact != nil {
		var err error
		if body, err = call(hooks.Redact, body); err != nil {
			return nil, fmt.Errorf("RedactResponse: %w", err)
		}
	}
	m := &runtimepb.StoredResponse{
		Status: uint32(r.status), Body: bytes.Clone(body), BodyBytes: int64(len(body)), Seq: seq, Request: parts,
		Usage: r.usage.stored(),
	}
	for _, name := range storedHeaders {
		if v := r.header.Get(name); v != "" && len(v) <= maxHeaderValue && utf8.ValidString(v) {
			m.Headers = append(m.Headers, &runtimepb.StoredHeader{Name: name, Value: v})
		}
	}
	rec := &record{message: m, content: sha256.Sum256(body)}
	if len(body) >= minDeflate {
		if short := deflate(body); len(short) < len(body) {
			m.Body, m.Deflated = short, true
		}
	}
	if hooks.Seal != nil {
		sealed, err := call(hooks.Seal, m.GetBody())
		if err != nil {
			return nil, fmt.Errorf("SealResponse: %w", err)
		}
		m.Body, m.Sealed = sealed, true
	}
	var err error
	rec.encoded, err = proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("modelcall: %w", err)
	}
	return rec, nil
}

var errUnreadable = errors.New("modelcall: a stored response cannot be read")

// openRecord returns the response in a record.
func openRecord(m *runtimepb.StoredResponse, hooks Hooks) (response, error) {
	body := m.GetBody()
	if m.GetSealed() {
		if hooks.Open == nil {
			return response{}, fmt.Errorf("%w: it is sealed, and the agent has no method OpenResponse", errUnreadable)
		}
		var err error
		if body, err = call(hooks.Open, body); err != nil {
			return response{}, fmt.Errorf("%w: OpenResponse: %w", errUnreadable, err)
		}
	}
	if m.GetDeflated() {
		var err error
		if body, err = inflate(body, m.GetBodyBytes()); err != nil {
			return response{}, err
		}
	}
	if int64(len(body)) != m.GetBodyBytes() {
		return response{}, fmt.Errorf("%w: it has %d bytes, not %d", errUnreadable, len(body), m.GetBodyBytes())
	}
	if !m.GetDeflated() {
		body = bytes.Clone(body) // the original belongs to the record
	}
	r := response{status: int(m.GetStatus()), header: http.Header{}, body: body}
	for _, h := range m.GetHeaders() {
		r.header.Set(h.GetName(), h.GetValue())
	}
	return r, nil
}

func (r response) http(req *http.Request) *http.Response {
	r.header.Set("Content-Length", strconv.Itoa(len(r.body)))
	return &http.Response{
		Status: strconv.Itoa(r.status) + " " + http.StatusText(r.status), StatusCode: r.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.header, ContentLength: int64(len(r.body)), Body: io.NopCloser(bytes.NewReader(r.body)), Request: req,
	}
}

// deflaters reuses writers, because a new one allocates more than half a megabyte of tables.
var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.DefaultCompression) // fails only for an invalid level
	return w
}}

func deflate(body []byte) []byte {
	var buf bytes.Buffer
	w := deflaters.Get().(*flate.Writer) //nolint:forcetypeassert // New makes no other
	w.Reset(&buf)
	_, _ = w.Write(body) // writes to memory do not fail
	_ = w.Close()
	deflaters.Put(w)
	return buf.Bytes()
}

func inflate(short []byte, size int64) ([]byte, error) {
	if size < 0 || size > MaxResponseBytes {
		return nil, fmt.Errorf("%w: its size is %d bytes, which is out of range", errUnreadable, size)
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := buf.ReadFrom(io.LimitReader(flate.NewReader(bytes.NewReader(short)), size+1)); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return buf.Bytes(), nil
}

// call calls a hook with a copy of b, because the hook is the user's code.
func call(hook func([]byte) ([]byte, error), b []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("panic: %s", isolate.Describe(p))
		}
	}()
	if out, err = hook(bytes.Clone(b)); err != nil {
		return nil, errors.New(isolate.Describe(err))
	}
	return bytes.Clone(out), nil
}
