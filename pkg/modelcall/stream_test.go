package modelcall

import "testing"

// A stream is complete with the event that ends it. One of an unknown API is complete where
// an event ends.
func TestCompleteStream(t *testing.T) {
	const chunk = `data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"
	const last = `data: {"object":"chat.completion.chunk","choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	const started = "event: message_start\ndata: {\"type\":\"message_start\"}\n\n"
	for _, c := range []struct {
		stream string
		atEOF  bool
		want   string // "": not complete
	}{
		{chunk + last + "data: [DONE]\n\n", false, chunk + last + "data: [DONE]\n\n"},
		{chunk + last, true, chunk + last},
		{chunk + last, false, ""},
		{chunk, true, ""},
		{chunk[:40], true, ""},
		{started, true, ""},
		{started[:30], true, ""},
		{started + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n: late", false, started + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		{"data: 1\n\n", true, "data: 1\n\n"},
		{"data: 1\r\n\r\n", true, "data: 1\r\n\r\n"},
		{"data: 1\n\n: ping\n\n", true, "data: 1\n\n: ping\n\n"},
		{"data: 1\n\n", false, ""},
		{"data: 1\n", true, ""},
		{"data: 1\n\nda", true, ""},
		{"", true, ""},
	} {
		got, complete := completeStream([]byte(c.stream), c.atEOF)
		if complete != (c.want != "") || complete && string(got) != c.want {
			t.Errorf("%q at its end %v: got %q, %v", c.stream, c.atEOF, got, complete)
		}
	}
}
