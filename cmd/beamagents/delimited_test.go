package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

type readFrame struct {
	Text   string
	Offset int64
}

// readAll returns the messages of a stream and the error that ended it.
func readAll(r io.Reader, delimited bool) (all []readFrame, err error) {
	frames := newFrameReader(r, delimited)
	for {
		frame, offset, err := frames.next()
		if err != nil {
			if _, bad := errors.AsType[*dataError](err); bad {
				err = fmt.Errorf("byte %d: %w", offset, err)
			}
			return all, err
		}
		all = append(all, readFrame{string(frame), offset})
	}
}

func TestFrames(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for name, tc := range map[string]struct {
		input     string
		delimited bool
		want      []readFrame
		err       string // "" is the end
	}{
		"one message":         {"abc", false, []readFrame{{"abc", 0}}, ""},
		"an empty message":    {"", false, []readFrame{{"", 0}}, ""},
		"no messages":         {"", true, nil, ""},
		"messages":            {"\x01a\x00\x03abc", true, []readFrame{{"a", 1}, {"", 3}, {"abc", 4}}, ""},
		"a long message":      {"\x01a\xc0\x9a\x0c" + long + "\x00", true, []readFrame{{"a", 1}, {long, 5}, {"", 200_006}}, ""},
		"a long varint":       {"\x81\x80\x00a", true, []readFrame{{"a", 3}}, ""},
		"cut short":           {"\x01a\x05abc", true, []readFrame{{"a", 1}}, "byte 3: a message of 5 bytes is cut short after 3"},
		"nothing of it":       {"\x01a\x05", true, []readFrame{{"a", 1}}, "byte 3: a message of 5 bytes is cut short after 0"},
		"length cut short":    {"\x01a\x80", true, []readFrame{{"a", 1}}, "byte 2: the length of a message is cut short"},
		"length is no varint": {strings.Repeat("\xff", 11), true, nil, "byte 0: the length of a message is not a varint"},
		"length overflows":    {strings.Repeat("\xff", 9) + "\x02", true, nil, "byte 0: the length of a message is not a varint"},
		"length above 1 GiB":  {"\x81\x80\x80\x80\x04", true, nil, "byte 0: a message of 1073741825 bytes, the limit is 1073741824"},
		"length of 1 GiB":     {"\x80\x80\x80\x80\x04abc", true, nil, "byte 5: a message of 1073741824 bytes is cut short after 3"},
	} {
		t.Run(name, func(t *testing.T) {
			for reader, r := range map[string]io.Reader{
				"whole": strings.NewReader(tc.input), "byte by byte": iotest.OneByteReader(strings.NewReader(tc.input)),
			} {
				got, err := readAll(r, tc.delimited)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s: (-want +got):\n%.1000s", reader, diff)
				}
				var bad *dataError
				switch {
				case tc.err == "" && !errors.Is(err, io.EOF):
					t.Errorf("%s: %v, want the end", reader, err)
				case tc.err != "" && (!errors.As(err, &bad) || err.Error() != tc.err):
					t.Errorf("%s: %v, want the data error %q", reader, err, tc.err)
				}
			}
		})
	}
}

func TestFramesLimit(t *testing.T) {
	for input, want := range map[string]string{
		"abcd": "", "abcde": "a message of more than 4 bytes",
		"\x04abcd": "", "\x05abcde": "a message of 5 bytes, the limit is 4",
	} {
		frames := newFrameReader(strings.NewReader(input), input[0] != 'a')
		frames.limit = 4
		got, _, err := frames.next()
		switch {
		case want == "" && (err != nil || string(got) != "abcd"):
			t.Errorf("%q: %q, %v", input, got, err)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("%q: %q, %v; want %q", input, got, err, want)
		}
	}
}

// An input that cannot be read is not bad data.
func TestFramesInputError(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, start := range []string{"", "\x80", "\x05ab", strings.Repeat("\x80", 9)} {
		for _, delimited := range []bool{true, false} {
			_, err := readAll(io.MultiReader(strings.NewReader(start), iotest.ErrReader(broken)), delimited)
			var bad *dataError
			if !errors.Is(err, broken) || errors.As(err, &bad) {
				t.Errorf("%q: %v", start, err)
			}
		}
	}
}

// A length may be wrong, so no memory is allocated for it.
func TestFramesClaimedLength(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readAll(strings.NewReader("\x80\x80\x80\x80\x04abc"), true)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > 1<<20 {
		t.Errorf("%d bytes allocated for a message of 3 (%v)", took, err)
	}
}

func TestWriteFrame(t *testing.T) {
	var out bytes.Buffer
	var want []readFrame
	offset := int64(0)
	for _, text := range []string{"", "abc", strings.Repeat("x", 1000)} {
		if err := writeFrame(&out, []byte(text), true); err != nil {
			t.Fatal(err)
		}
		offset += int64(len(binary.AppendUvarint(nil, uint64(len(text)))))
		want = append(want, readFrame{text, offset})
		offset += int64(len(text))
	}
	got, err := readAll(&out, true)
	if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
		t.Error(diff, err)
	}
	if err := writeFrame(&out, []byte("abc"), false); err != nil || out.String() != "abc" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x01a\x00\x03abc"))
	f.Add([]byte("\x81\x80\x00a\x80"))
	f.Add(bytes.Repeat([]byte{0xff}, 11))
	f.Fuzz(func(t *testing.T, input []byte) {
		all, err := readAll(bytes.NewReader(input), true)
		var bad *dataError
		if !errors.Is(err, io.EOF) && !errors.As(err, &bad) {
			t.Fatal(err)
		}
		for _, frame := range all {
			if got := string(input[frame.Offset:][:len(frame.Text)]); got != frame.Text {
				t.Fatalf("at %d is %q, read %q", frame.Offset, got, frame.Text)
			}
		}
	})
}
