package modelcall

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// MaxRequestBytes bounds the body of a recorded request, in bytes. A longer request reaches the
// provider, but its response is not recorded.
const MaxRequestBytes = 32 << 20

type freshKey struct{}

// WithFresh returns a context whose requests get a new answer after each resume.
func WithFresh(ctx context.Context) context.Context { return context.WithValue(ctx, freshKey{}, true) }

func isFresh(ctx context.Context) bool { return ctx.Value(freshKey{}) != nil }

// transport is the http.RoundTripper of an activation's client.
type transport struct{ calls *Calls }

// RoundTrip returns the recorded response of a request, or makes the request and records the
// response while it is read.
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
	turn, stored, err := c.admit(id)
	if err != nil {
		return nil, err
	}
	recorded := false
	defer func() {
		if !recorded { // also if the transport panics, which may be the agent's code
			turn.failed()
		}
	}()
	turn.http, turn.server = true, serverOf(req.URL)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if answer := turn.find(stored); answer != nil {
		if err := turn.answered(*answer); err != nil {
			return nil, err
		}
		return answer.http(req), nil
	}
	resp, err := c.send(req, body, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 || resp.StatusCode == http.StatusPartialContent {
		return resp, nil
	}
	recorded = true
	resp.Body = &recorder{body: resp.Body, resp: resp, turn: turn}
	return resp, nil
}

// unrecorded makes a request without recording it.
func (c *Calls) unrecorded(req *http.Request, body []byte, rest io.ReadCloser) (*http.Response, error) {
	c.mu.Lock()
	err := c.err
	if c.ended {
		err = c.Ended
	}
	c.mu.Unlock()
	if err != nil {
		if rest != nil {
			_ = rest.Close()
		}
		return nil, err
	}
	return c.send(req, body, rest)
}

// send makes a request once the process allows it. The call is in flight until its body is read
// to the end or closed. rest, if not nil, follows body.
func (c *Calls) send(req *http.Request, body []byte, rest io.ReadCloser) (*http.Response, error) {
	host := req.URL.Host
	ctx, release, err := c.start(req.Context(), host)
	if err != nil {
		if rest != nil {
			_ = rest.Close()
		}
		return nil, err
	}
	out := req.Clone(ctx)
	out.Body, out.ContentLength, out.GetBody = http.NoBody, int64(len(body)), nil
	switch {
	case rest != nil:
		out.ContentLength = req.ContentLength
		out.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), rest), rest}
	case len(body) > 0:
		out.Body = io.NopCloser(bytes.NewReader(body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	completed := false
	defer func() {
		if !completed { // the transport has failed or panicked; it may be the agent's code
			release()
		}
	}()
	resp, err := c.Process.transport.RoundTrip(out)
	if err != nil {
		return nil, c.endedOr(err)
	}
	completed = true
	c.Process.pauseIfAsked(host, resp)
	c.noteLocation(resp.Header.Get("Location"))
	resp.Request = req
	resp.Body = &released{resp.Body, release}
	return resp, nil
}

// endedOr returns the error of a call: that of the ended activation, or else err.
func (c *Calls) endedOr(err error) error {
	if c.ctx.Err() != nil {
		return c.Ended
	}
	return err
}

// readBody reads the body of a request and closes it. If the body is too long, it stays open, and
// rest is the unread part.
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

// released is a body that releases the slot of its call when it ends.
type released struct {
	io.ReadCloser

	release func()
}

// Read reads the body and releases the slot at its end.
func (b *released) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	}
	return n, err
}

// Close closes the body and releases the slot.
func (b *released) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// recorder is a response body that is recorded while it is read.
type recorder struct {
	body io.ReadCloser
	resp *http.Response
	turn *turn

	mu   sync.Mutex
	buf  []byte
	long bool // the body is longer than what is recorded
	over bool // the call has ended
	err  error
}

// Read reads the body and records it.
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
	if !r.over {
		r.over = true
		_ = r.turn.broke(r.part())
	}
	return n, r.turn.calls.endedOr(err)
}

// Close closes the body. The response is recorded if its content was read completely.
func (r *recorder) Close() error {
	err := r.body.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.end(false), err)
}

// end ends the call: complete and short enough, the response is recorded.
func (r *recorder) end(atEOF bool) error {
	if r.over {
		return r.err
	}
	r.over = true
	switch body, complete := r.complete(atEOF); {
	case r.long && atEOF:
		r.err = r.turn.notStored()
	case complete:
		r.buf = body
		r.err = r.turn.answered(r.turn.given(r.part()))
	default:
		r.err = r.turn.broke(r.part())
	}
	r.buf = nil
	return r.err
}

// part returns the part of the response that was read.
func (r *recorder) part() response {
	return response{status: r.resp.StatusCode, header: r.resp.Header, body: r.buf}
}

// complete returns the body and whether all of it was read.
func (r *recorder) complete(atEOF bool) (body []byte, complete bool) {
	length := r.resp.ContentLength
	switch whole := atEOF && marksItsEnd(r.resp) || int64(len(r.buf)) == length; {
	case r.long || atEOF && length >= 0 && int64(len(r.buf)) != length:
		return nil, false
	case r.resp.Header.Get("Content-Encoding") != "":
		return r.buf, whole
	case isEventStream(r.resp.Header):
		return completeStream(r.buf, whole)
	case isJSON(r.resp.Header):
		if whole {
			return r.buf, len(r.buf) == 0 || json.Valid(r.buf)
		}
		// A JSON decoder stops reading at the end of the value, before the end of the body. Only
		// a number does not show where it ends.
		value := bytes.TrimRight(r.buf, " \t\r\n")
		if !atEOF {
			body = value
		} else {
			body = r.buf
		}
		return body, len(value) > 0 && strings.IndexByte(`}]"`, value[len(value)-1]) >= 0 && json.Valid(value)
	default:
		return r.buf, whole
	}
}

// marksItsEnd reports whether a body that is cut short can be told from a whole one. A body of
// HTTP/1 without a length and without chunks ends wherever the connection does.
func marksItsEnd(resp *http.Response) bool {
	return resp.ProtoMajor != 1 || resp.ContentLength >= 0 || resp.Uncompressed || slices.Contains(resp.TransferEncoding, "chunked")
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

// secretHeaders are the request headers that hold credentials.
var secretHeaders = []string{
	"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Amz-Security-Token",
	"Ocp-Apim-Subscription-Key",
}

// minSecret is the length of the shortest text that counts as a credential.
const minSecret = 4

// maxSecrets bounds the credentials that are remembered for an activation.
const maxSecrets = 256

// noteSecrets remembers the credentials of a request, so that they can be removed from texts.
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
	for _, cookie := range req.Cookies() {
		found = append(found, cookie.Value)
	}
	found = append(found, secretsOfQuery(req.URL.RawQuery)...)
	if u := req.URL.User; u != nil {
		password, _ := u.Password()
		found = append(found, secretsOfUser(cmp.Or(password, u.Username()))...)
	}
	c.note(found)
}

// noteLocation remembers the credentials in the address of a redirect, because an error may show
// the address.
func (c *Calls) noteLocation(location string) {
	if location == "" {
		return
	}
	address, query, _ := strings.Cut(location, "?")
	query, _, _ = strings.Cut(query, "#")
	found := secretsOfQuery(query)
	_, host, _ := strings.Cut(address, "//")
	host, _, _ = strings.Cut(host, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		name, password, _ := strings.Cut(host[:at], ":")
		found = append(found, cmp.Or(password, name))
	}
	c.note(found)
}

// secretsOfQuery returns the credentials in a query, in encoded and in decoded form.
func secretsOfQuery(query string) (found []string) {
	for member := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(member, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		if !isSecretParameter(name) {
			continue
		}
		found = append(found, value)
		if decoded, err := url.QueryUnescape(value); err == nil {
			found = append(found, decoded)
		}
	}
	return found
}

// secretsOfUser returns a password, or a user name that is a credential, as it is and in its
// encoded form.
func secretsOfUser(s string) []string {
	return []string{s, url.User(s).String()}
}

func (c *Calls) note(found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range found {
		if len(v) >= minSecret && len(c.secrets) < maxSecrets && !c.ended && !slices.Contains(c.secrets, v) {
			c.secrets = append(c.secrets, v)
		}
	}
}
