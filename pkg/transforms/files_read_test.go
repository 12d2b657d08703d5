package transforms

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const (
	plainLine    = `{"entityKey":"aw==","eventTimeMs":"7","externalEvent":"e30="}`
	readableLine = `{"key":"k","event_time_ms":7,"external_event":{}}`
)

// readFile reads content as a file with that ending, and returns the results in order: ok for an
// envelope, and the dead letters.
func readFile(t *testing.T, ext string, content io.Reader, limit int) (out []string, inputs [][]byte) {
	t.Helper()
	e := &envelopeFile{
		r: bufio.NewReaderSize(content, 16), limit: limit,
		emit: func(*pb.AgentEnvelope) { out = append(out, "ok") },
		deadLetter: func(code deadletter.Code, place, text string, _, input []byte) error {
			out = append(out, fmt.Sprintf("%s, %s: %s", code, place, text))
			inputs = append(inputs, slices.Clone(input))
			return nil
		},
	}
	if err := e.read(ext); err != nil {
		t.Error(err)
	}
	return out, inputs
}

func TestReadLines(t *testing.T) {
	long := `{"external_event":"` + strings.Repeat("A", 300) + `"}`
	for name, tc := range map[string]struct {
		content string
		want    []string
		inputs  []string
	}{
		"empty":             {"", nil, nil},
		"blank lines":       {"\n \n\r\n" + plainLine + "\n\n", []string{"ok"}, nil},
		"no newline at end": {readableLine, []string{"ok"}, nil},
		"byte order mark":   {"\xef\xbb\xbf" + plainLine + "\n", []string{"ok"}, nil},
		"Windows lines":     {plainLine + "\r\n" + readableLine + "\r\n", []string{"ok", "ok"}, nil},
		"broken first": {
			"{\n" + plainLine,
			[]string{"unparsable, line 1: the JSON is cut short, at byte 1", "ok"},
			[]string{"{"},
		},
		"broken last, after a blank one": {
			plainLine + "\n\nx\n",
			[]string{"ok", "unparsable, line 3: not valid JSON: invalid character 'x' at start of value, at byte 0"},
			[]string{"x"},
		},
		"broken in the middle": {
			plainLine + "\n{\"a\":1}\n" + plainLine,
			[]string{"ok", "unparsable, line 2: a: AgentEnvelope has no such field, at byte 4", "ok"},
			[]string{`{"a":1}`},
		},
		"two payloads": {
			`{"external_event":"","approval":{}}`,
			[]string{"unparsable, line 1: approval: external_event is set already, and only one of them can be, at byte 31"},
			[]string{`{"external_event":"","approval":{}}`},
		},
		"text that is not UTF-8": {
			"{\"approval\":{\"intent_id\":\"\xff\"}}",
			[]string{"unparsable, line 1: approval.intent_id: not valid JSON: invalid UTF-8, at byte 26"},
			[]string{"{\"approval\":{\"intent_id\":\"\xff\"}}"},
		},
		"no payload":      {`{"key":"k"}`, []string{"empty_payload, line 1: the envelope has no payload"}, []string{`{"key":"k"}`}},
		"no date":         {`{"event_time_ms":-1,"external_event":""}`, []string{"bad_event_time, line 1: event_time_ms is -1, the range is 0 to 253402300799999"}, []string{`{"event_time_ms":-1,"external_event":""}`}},
		"a newer variant": {`{"@unknown":"3a0178"}`, []string{"ok"}, nil},
		"too large, but not to be held": {
			`{"external_event":"` + strings.Repeat("A", 140) + `"}` + "\n" + plainLine,
			[]string{"oversize, line 1: 107 bytes, the limit is 100", "ok"},
			[]string{`{"external_event":"` + strings.Repeat("A", 140) + `"}`},
		},
		"too large to be held": {
			plainLine + "\n" + long + "\n" + plainLine,
			[]string{
				"ok",
				"oversize, line 2: a line of more than 200 bytes, the limit of an envelope is 100; part 1",
				"oversize, line 2: a line of more than 200 bytes, the limit of an envelope is 100; part 2",
				"ok",
			},
			[]string{long[:208], long[208:]},
		},
	} {
		for reader, content := range map[string]io.Reader{
			"at once": strings.NewReader(tc.content), "byte by byte": iotest.OneByteReader(strings.NewReader(tc.content)),
		} {
			out, inputs := readFile(t, ".jsonl", content, 100)
			if !slices.Equal(out, tc.want) || !slices.EqualFunc(inputs, tc.inputs, func(a []byte, b string) bool { return string(a) == b }) {
				t.Errorf("%s, %s: %q with inputs %q; want %q with %q", name, reader, out, inputs, tc.want, tc.inputs)
			}
		}
	}
}

func frame(b []byte) string {
	return string(append(binary.AppendUvarint(nil, uint64(len(b))), b...))
}

func TestReadDelimited(t *testing.T) {
	good := frame(mustMarshal(t, event(7, "e")))
	large := frame(mustMarshal(t, event(7, strings.Repeat("e", 250))))
	bad := frame([]byte("no protobuf"))
	huge := string(binary.AppendUvarint(nil, 1<<60))
	for name, tc := range map[string]struct {
		content string
		want    []string
		inputs  []string
	}{
		"empty":         {"", nil, nil},
		"two":           {good + good, []string{"ok", "ok"}, nil},
		"empty message": {"\x00" + good, []string{"empty_payload, message 1 at byte 0: the envelope has no payload", "ok"}, []string{""}},
		"no envelope": {
			good + bad + good,
			[]string{"ok", "unparsable, message 2 at byte 9: " + explained(t, "no protobuf"), "ok"},
			[]string{"no protobuf"},
		},
		"cut short":          {good + "\x05xy", []string{"ok", "unparsable, message 2 at byte 9: a message of 5 bytes is cut short after 2"}, []string{"\x05xy"}},
		"nothing of it":      {"\x01", []string{"unparsable, message 1 at byte 0: a message of 1 bytes is cut short after 0"}, []string{"\x01"}},
		"length cut short":   {good + "\x80", []string{"ok", "unparsable, message 2 at byte 9: the length of the message is cut short"}, []string{"\x80"}},
		"too large":          {good + large + good, []string{"ok", "oversize, message 2 at byte 9: a message of 258 bytes, the limit is 100; part 1", "oversize, message 2 at byte 9: a message of 258 bytes, the limit is 100; part 2", "oversize, message 2 at byte 9: a message of 258 bytes, the limit is 100; part 3", "ok"}, []string{large[:102], large[102:202], large[202:]}},
		"length of 1 EiB":    {good + huge + "rest", []string{"ok", "oversize, message 2 at byte 9: a message of 1152921504606846976 bytes, the limit is 100; part 1"}, []string{huge + "rest"}},
		"above 63 bits":      {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01rest", []string{"oversize, message 1 at byte 0: a message of 18446744073709551615 bytes, the limit is 100; part 1"}, []string{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01rest"}},
		"no varint":          {strings.Repeat("\xff", 10) + "rest", []string{"unparsable, message 1 at byte 0: the length of the message is not a varint; part 1"}, []string{strings.Repeat("\xff", 10) + "rest"}},
		"no varint, a lot":   {strings.Repeat("\xff", 220), []string{"unparsable, message 1 at byte 0: the length of the message is not a varint; part 1", "unparsable, message 1 at byte 0: the length of the message is not a varint; part 2", "unparsable, message 1 at byte 0: the length of the message is not a varint; part 3"}, []string{strings.Repeat("\xff", 110), strings.Repeat("\xff", 100), strings.Repeat("\xff", 10)}},
		"parts to the limit": {strings.Repeat("\xff", 210), []string{"unparsable, message 1 at byte 0: the length of the message is not a varint; part 1", "unparsable, message 1 at byte 0: the length of the message is not a varint; part 2"}, []string{strings.Repeat("\xff", 110), strings.Repeat("\xff", 100)}},
	} {
		for reader, content := range map[string]io.Reader{
			"at once": strings.NewReader(tc.content), "byte by byte": iotest.OneByteReader(strings.NewReader(tc.content)),
		} {
			out, inputs := readFile(t, ".binpb", content, 100)
			if !slices.Equal(out, tc.want) || !slices.EqualFunc(inputs, tc.inputs, func(a []byte, b string) bool { return string(a) == b }) {
				t.Errorf("%s, %s: %q with inputs %q; want %q with %q", name, reader, out, inputs, tc.want, tc.inputs)
			}
		}
	}
}

// explained is what ParseEnvelopes says of these bytes.
func explained(t *testing.T, raw string) string {
	t.Helper()
	_, code, text := parseEnvelope([]byte(raw), math.MaxInt)
	if code != deadletter.Unparsable {
		t.Fatal(code)
	}
	return text
}

func TestTheNameOfAFileSaysWhatIsInIt(t *testing.T) {
	delimited := frame(mustMarshal(t, event(7, "e")))
	for name, tc := range map[string]struct{ ext, content string }{
		".ndjson":                {".ndjson", plainLine},
		".pb":                    {".pb", delimited},
		"JSON, no ending":        {"", plainLine},
		"JSON, after blank ones": {".log", "\xef\xbb\xbf\r\n \n" + plainLine},
		"messages, no ending":    {"", delimited},
		"messages, .bin":         {".bin", delimited},
		"123 bytes of message":   {".binpb", frame(mustMarshal(t, event(7, strings.Repeat("e", 123-7))))}, // 123 is {
	} {
		if out, _ := readFile(t, tc.ext, strings.NewReader(tc.content), 1000); !slices.Equal(out, []string{"ok"}) {
			t.Errorf("%s: %q", name, out)
		}
	}
}

// A file that consists of one endless line or message takes no more memory than the limit, and all
// of it is in dead letters.
func TestWhatAFileClaimsTakesNoMemory(t *testing.T) {
	const limit = 1 << 10
	size := 64 << 20
	if racedetector.Enabled {
		size = 4 << 20
	}
	for name, tc := range map[string]struct {
		ext  string
		head []byte
		fill byte
		most int
	}{
		"line":      {".jsonl", nil, 'x', 2*limit + 16},
		"blanks":    {".jsonl", nil, ' ', 2*limit + 16},
		"returns":   {".jsonl", nil, '\r', 2*limit + 16},
		"message":   {".binpb", binary.AppendUvarint(nil, uint64(size)), 'x', limit + binary.MaxVarintLen64},
		"no length": {".binpb", nil, 0xff, limit + binary.MaxVarintLen64},
	} {
		var held, most int
		e := &envelopeFile{
			r: bufio.NewReaderSize(io.MultiReader(strings.NewReader(string(tc.head)), io.LimitReader(filler(tc.fill), int64(size-1)), strings.NewReader("x")), 16), limit: limit,
			emit: func(*pb.AgentEnvelope) { t.Errorf("%s: an envelope", name) },
			deadLetter: func(_ deadletter.Code, _, _ string, _, input []byte) error {
				held, most = held+len(input), max(most, len(input))
				return nil
			},
		}
		if err := e.read(tc.ext); err != nil {
			t.Error(err)
		}
		if held != len(tc.head)+size || most > tc.most {
			t.Errorf("%s: %d bytes in dead letters of up to %d; want %d in up to %d", name, held, most, len(tc.head)+size, tc.most)
		}
	}
}

type filler byte

func (f filler) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(f)
	}
	return len(b), nil
}

func TestReadErrorsAreNoData(t *testing.T) {
	for _, ext := range []string{".jsonl", ".binpb", ""} {
		for _, head := range []string{"", "{", "\x05", "\x05ab", strings.Repeat("\xff", 11)} {
			e := &envelopeFile{
				r: bufio.NewReaderSize(io.MultiReader(strings.NewReader(head), iotest.ErrReader(io.ErrClosedPipe)), 16), limit: 100,
				deadLetter: func(deadletter.Code, string, string, []byte, []byte) error { return nil },
			}
			if err := e.read(ext); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s after %q: %v", ext, head, err)
			}
		}
	}
}

func TestPrintableNames(t *testing.T) {
	for name, want := range map[string]string{
		"in/übung 1.jsonl": "in/übung 1.jsonl", "a\nb": `"a\nb"`, "a\"b": `"a\"b"`, "a\xff": `"a\xff"`,
	} {
		if got := printable(name); got != want {
			t.Errorf("%q: %s", name, got)
		}
	}
}
