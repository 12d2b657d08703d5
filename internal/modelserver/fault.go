package modelserver

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"
)

// Fault says how an answer fails. The zero value does not fail.
type Fault struct {
	// Status, if not 0, is the status of an error answer in the form of the API.
	Status int
	// RetryAfter, if not "", is the header Retry-After.
	RetryAfter string
	// Latency passes before the answer begins.
	Latency time.Duration
	// Pause passes before each event of a stream except the first.
	Pause time.Duration
	// Cut, if not 0, cuts the connection after so many bytes of the body.
	Cut int
	// Truncate, if not 0, ends the body after so many bytes, as if it were complete.
	Truncate int
	// Pad adds at least so many bytes to the text of the answer. -1 makes the answer endless.
	Pad int64
}

// event is a server-sent event.
type event struct {
	name string // "" if it has no name
	data any    // a string is written as it is, everything else as JSON
	text bool   // the event has text, which Fault.Pad repeats
}

func (e event) bytes() []byte {
	var b bytes.Buffer
	if e.name != "" {
		b.WriteString("event: " + e.name + "\n")
	}
	b.WriteString("data: ")
	if s, ok := e.data.(string); ok {
		b.WriteString(s)
	} else {
		b.Write(encode(e.data))
	}
	b.WriteString("\n\n")
	return b.Bytes()
}

// faultyWriter writes a body with a fault.
type faultyWriter struct {
	w     http.ResponseWriter
	ctx   context.Context //nolint:containedctx // the context of the one request that it answers
	fault Fault
	sent  int
	ended bool
}

// write writes a part of the body, and reports whether more of the body may follow.
func (f *faultyWriter) write(b []byte) bool {
	for _, limit := range []int{f.fault.Cut, f.fault.Truncate} {
		if limit > 0 && f.sent+len(b) >= limit {
			b, f.ended = b[:limit-f.sent], true
		}
	}
	n, err := f.w.Write(b)
	f.sent += n
	if f.ended && f.fault.Cut > 0 && f.sent == f.fault.Cut {
		f.flush()
		panic(http.ErrAbortHandler) // net/http cuts the connection
	}
	f.ended = f.ended || err != nil || f.ctx.Err() != nil
	return !f.ended
}

func (f *faultyWriter) flush() {
	if flusher, ok := f.w.(http.Flusher); ok {
		flusher.Flush()
	}
}

// filler is the text with which Fault.Pad pads.
var filler = bytes.Repeat([]byte("pad "), 1<<10)

// padding marks the place for the padding in the text of a plain answer.
const padding = "\x00padding\x00"

// plain writes a JSON body.
func (f *faultyWriter) plain(body []byte) {
	mark := bytes.Trim(encode(padding), `"`)
	before, after, padded := bytes.Cut(body, mark)
	if !padded && f.fault.Cut == 0 && f.fault.Truncate == 0 {
		f.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if !f.write(before) {
		return
	}
	for left := f.fault.Pad; padded && left != 0; {
		part := filler
		if left > 0 {
			part = filler[:min(left, int64(len(filler)))]
			left -= int64(len(part))
		}
		if !f.write(part) {
			return
		}
	}
	f.write(after)
}

// stream writes events. It repeats the first event with text until the padding is reached.
func (f *faultyWriter) stream(events []event) {
	left := f.fault.Pad
	for i, e := range events {
		if i > 0 && !wait(f.ctx, f.fault.Pause) {
			return
		}
		b := e.bytes()
		if e.text && left != 0 && f.write(b) {
			b = bytes.Repeat(b, 1+len(filler)/len(b)) // a few large writes take less time
		}
		for {
			if !f.write(b) {
				f.flush()
				return
			}
			if !e.text || left == 0 {
				break
			}
			if left > 0 {
				left -= min(left, int64(len(b)))
			}
		}
		f.flush()
	}
}

// wait waits, and reports whether the request is still open.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
