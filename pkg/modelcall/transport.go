package modelcall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
)

// MaxRequestBytes bounds the body of a request that is recorded, in bytes. A longer one
// reaches the provider, and its response is not recorded.
const MaxRequestBytes = 32 << 20

type freshKey struct{}

// WithFresh returns a context whose requests have answers of their own after each resume.
func WithFresh(ctx context.Context) context.Context { return context.WithValue(ctx, freshKey{}, true) }

func isFresh(ctx context.Context) bool { return ctx.Value(freshKey{}) != nil }

// transport is the transport of the client of an activation.
type transport struct{ calls *Calls }

// RoundTrip returns the recorded response of a request, or makes the request and records
// the response while it is read.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c := t.calls
	c.noteSecrets(req)
	body, rest, err := readBody(req)
	if err != nil {
		return nil, err
	}
	if rest != nil || req.Method == http.MethodHead || req.Method == http.MethodConnect {
		return c.unrecorded(req, body, rest)
	}
	id, err := c.scope.identify(req, body, isFresh(req.Context()))
	if err != nil {
		return nil, err
	}
	turn, found, err := c.admit(id)
	if err != nil {
		return nil, err
	}
	turn.http, turn.server = true, serverOf(req.URL)
	if err := req.Context().Err(); err != nil {
		turn.failed()
		return nil, err
	}
	if found != nil {
		if err := turn.answered(*found, nil, true); err != nil {
			return nil, err
		}
		return found.http(req), nil
	}
	if found, rec := turn.remembered(); found != nil {
		if err := turn.answered(*found, rec, false); err != nil {
			return nil, err
		}
		return found.http(req), nil
	}
	resp, err := c.send(req, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		turn.failed()
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 || resp.StatusCode == http.StatusPartialContent {
		turn.failed()
		return resp, nil
	}
	resp.Body = &recorder{body: resp.Body, resp: resp, turn: turn}
	return resp, nil
}

// unrecorded makes a request that is not recorded.
func (c *Calls) unrecorded(req *http.Request, body []byte, rest io.Reader) (*http.Response, error) {
	c.mu.Lock()
	ended, err := c.ended, c.err
	c.mu.Unlock()
	switch {
	case ended:
		return nil, c.Ended
	case err != nil:
		return nil, err
	case rest == nil:
		return c.send(req, bytes.NewReader(body), int64(len(body)))
	}
	return c.send(req, io.MultiReader(bytes.NewReader(body), rest), req.ContentLength)
}

// send makes a request when the process may. The call is in flight until its body is read
// or closed.
func (c *Calls) send(req *http.Request, body io.Reader, length int64) (*http.Response, error) {
	ctx, cancel := c.bound(req.Context())
	host := req.URL.Host
	if err := c.Process.acquire(ctx, host); err != nil {
		cancel()
		return nil, c.endedOr(err)
	}
	release := sync.OnceFunc(func() {
		c.Process.release()
		cancel()
	})
	out := req.Clone(ctx)
	out.Body, out.ContentLength, out.GetBody = http.NoBody, length, nil
	if length != 0 {
		out.Body = io.NopCloser(body)
		if r, ok := body.(*bytes.Reader); ok {
			out.GetBody = func() (io.ReadCloser, error) {
				again := *r
				_, err := again.Seek(0, io.SeekStart)
				return io.NopCloser(&again), err
			}
		}
	}
	completed := false
	defer func() {
		if !completed { // the transport, which may be the agent's, has failed or panicked
			release()
		}
	}()
	resp, err := c.Process.transport.RoundTrip(out)
	if err != nil {
		return nil, c.endedOr(err)
	}
	completed = true
	c.Process.heed(host, resp)
	resp.Request = req
	resp.Body = &released{resp.Body, release}
	return resp, nil
}

// endedOr is the error of a call, which is that of the activation if it has ended.
func (c *Calls) endedOr(err error) error {
	if c.ctx.Err() != nil {
		return c.Ended
	}
	return err
}

// readBody reads the body of a request, and closes it unless it is too long: then rest is
// what is left of it.
func readBody(req *http.Request) (body []byte, rest io.ReadCloser, err error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil, nil
	}
	body, err = io.ReadAll(io.LimitReader(req.Body, MaxRequestBytes+1))
	if err == nil && len(body) > MaxRequestBytes {
		return body, req.Body, nil
	}
	return body, nil, errors.Join(err, req.Body.Close())
}

// released is a body whose end releases the slot of its call.
type released struct {
	io.ReadCloser

	release func()
}

// Read reads the body.
func (b *released) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	}
	return n, err
}

// Close closes the body.
func (b *released) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// recorder is a body that is recorded while it is read.
type recorder struct {
	body io.ReadCloser
	resp *http.Response
	turn *turn

	mu   sync.Mutex
	buf  []byte
	long bool // more than is recorded
	over bool // the end was seen
	err  error
}

// Read reads the body.
func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over && !r.long {
		if r.long = len(r.buf)+n > MaxResponseBytes; r.long {
			r.buf = nil
		} else {
			r.buf = append(r.buf, p[:n]...)
		}
	}
	if err == nil {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		if end := r.end(true); end != nil {
			err = end
		}
		return n, err
	}
	r.over = true
	r.turn.failed()
	return n, r.turn.calls.endedOr(err)
}

// Close closes the body. A body that was read as far as its content goes is recorded.
func (r *recorder) Close() error {
	err := r.body.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.end(false), err)
}

// end is the end of reading.
func (r *recorder) end(atEOF bool) error {
	if r.over {
		return r.err
	}
	r.over = true
	switch body, complete := r.complete(atEOF); {
	case r.long && atEOF:
		r.err = r.turn.notStored()
	case complete:
		r.err = r.turn.answered(response{status: r.resp.StatusCode, header: r.resp.Header, body: body}, nil, false)
	default:
		r.turn.failed()
	}
	r.buf = nil
	return r.err
}

// complete returns the body that was read, if all of it was.
func (r *recorder) complete(atEOF bool) (body []byte, complete bool) {
	length := r.resp.ContentLength
	switch whole := atEOF || int64(len(r.buf)) == length; {
	case r.long || atEOF && length >= 0 && int64(len(r.buf)) != length:
		return nil, false
	case r.resp.Header.Get("Content-Encoding") != "":
		return r.buf, whole
	case isEventStream(r.resp.Header):
		return completeStream(r.buf, whole)
	case isJSON(r.resp.Header):
		// A decoder stops at the end of the value.
		body := bytes.TrimRight(r.buf, " \t\r\n")
		return body, json.Valid(body)
	default:
		return r.buf, whole
	}
}

func mediaType(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

func isEventStream(h http.Header) bool { return mediaType(h) == "text/event-stream" }

func isJSON(h http.Header) bool {
	t := mediaType(h)
	return t == "application/json" || strings.HasSuffix(t, "+json")
}

// secretHeaders are the request headers that hold a credential.
var secretHeaders = []string{
	"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Amz-Security-Token",
	"Ocp-Apim-Subscription-Key",
}

// minSecret is the length of the shortest text that is taken for a credential.
const minSecret = 4

// noteSecrets remembers the credentials of a request, so that no text shows them.
func (c *Calls) noteSecrets(req *http.Request) {
	var found []string
	for _, name := range secretHeaders {
		for _, v := range req.Header.Values(name) {
			found = append(found, v)
			if _, token, ok := strings.Cut(v, " "); ok {
				found = append(found, token)
			}
		}
	}
	for name, values := range req.URL.Query() {
		if isSecretParameter(name) {
			found = append(found, values...)
		}
	}
	for member := range strings.SplitSeq(req.URL.RawQuery, "&") { // as it stands in a text
		if name, value, _ := strings.Cut(member, "="); isSecretParameter(name) {
			found = append(found, value)
		}
	}
	if password, ok := req.URL.User.Password(); ok {
		found = append(found, password)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range found {
		if len(v) >= minSecret && len(c.secrets) < 64 {
			c.secrets = append(c.secrets, v)
		}
	}
}
