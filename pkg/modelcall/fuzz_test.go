package modelcall

import (
	"bytes"
	"compress/flate"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/golden"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
)

// bomb is a body that says that it is short, and inflates to 64 MiB.
func bomb(tb testing.TB) []byte {
	tb.Helper()
	var short bytes.Buffer
	w, err := flate.NewWriter(&short, flate.BestCompression)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 64<<20)); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	b, err := proto.Marshal(&runtimepb.StoredResponse{Status: 200, Body: short.Bytes(), Deflated: true, BodyBytes: 300})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Stored bytes are read with at most the memory that they declare, or are refused.
func FuzzOpenRecord(f *testing.F) {
	blobs, err := golden.Blobs()
	if err != nil {
		f.Fatal(err)
	}
	seeds := 0
	for _, b := range blobs {
		if strings.HasPrefix(b.Name, "v1/stored_response") {
			f.Add(b.Bytes)
			f.Add(b.Bytes[:len(b.Bytes)/2])
			seeds++
		}
	}
	if seeds < 6 {
		f.Fatalf("%d stored responses are frozen", seeds)
	}
	f.Add(bomb(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := new(runtimepb.StoredResponse)
		if proto.Unmarshal(b, m) != nil {
			return
		}
		before := proto.CloneOf(m)
		r, err := openRecord(m, Hooks{Open: func(b []byte) ([]byte, error) { return b, nil }})
		if err != nil {
			return
		}
		if int64(len(r.body)) != m.GetBodyBytes() || m.GetDeflated() && len(r.body) > MaxResponseBytes {
			t.Errorf("a body of %d bytes says that it has %d", len(r.body), m.GetBodyBytes())
		}
		clear(r.body)
		if !proto.Equal(before, m) {
			t.Error("what is stored has changed with what was read")
		}
		u := storedUsage(m.GetUsage(), "m")
		if u.Input < 0 || u.Output < 0 || u.Input+u.Output < 0 {
			t.Errorf("tokens of %+v", u)
		}
		resp := r.http(new(http.Request))
		if err := resp.Body.Close(); err != nil || resp.StatusCode != int(m.GetStatus()) {
			t.Errorf("status %d, %v", resp.StatusCode, err)
		}
	})
}

// What is recorded is read back.
func FuzzRecord(f *testing.F) {
	f.Add([]byte("{}"), "application/json")
	f.Add(bytes.Repeat([]byte("data: x\n\n"), 100), "text/event-stream")
	f.Add([]byte(nil), "\xff")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		r := found{response: response{status: 200, header: http.Header{"Content-Type": {contentType}}, body: body}}
		r.usage = readUsage(r.response, "")
		rec, err := newRecord(r, 1, nil, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		m := new(runtimepb.StoredResponse)
		if err := proto.Unmarshal(rec.encoded, m); err != nil {
			t.Fatal(err)
		}
		got, err := openRecord(m, Hooks{})
		if err != nil || !bytes.Equal(got.body, body) {
			t.Errorf("%q, %v, want %q", got.body, err, body)
		}
	})
}

// A stream that contains the event that ends it is complete up to that event.
func FuzzCompleteStream(f *testing.F) {
	f.Add([]byte("data: {\"object\":\"chat.completion.chunk\"}\n\ndata: [DONE]\n\n"), 20)
	f.Add([]byte("data: {\"type\":\"message_stop\"}\r\n\r\ndata: x"), 3)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		whole, complete := completeStream(stream, false)
		if complete && !bytes.HasPrefix(stream, whole) {
			t.Errorf("%q does not begin with %q", stream, whole)
		}
		if cut < 0 || cut >= len(whole) || !complete {
			return
		}
		if part, complete := completeStream(whole[:cut], false); complete && len(part) < len(whole) {
			t.Errorf("%q is complete, and the whole is %q", part, whole)
		}
	})
}
