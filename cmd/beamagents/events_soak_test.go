//go:build soak

package main

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"
)

// manyEvents reads as size bytes of lines that are made as they are read, one in a
// thousand of them broken, and watches the heap.
type manyEvents struct {
	size, made int
	line       int
	rest       []byte
	peak       uint64
	sampled    int
}

const heapBound = 64 << 20

func (m *manyEvents) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(m.rest) == 0 {
			if m.made >= m.size {
				break
			}
			m.next()
		}
		copied := copy(p[n:], m.rest)
		n, m.rest = n+copied, m.rest[copied:]
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (m *manyEvents) next() {
	output := bytes.Repeat([]byte("A line of output. "), m.line%200)
	m.rest = fmt.Appendf(m.rest[:0], `{"version":1,"type":"tool_end","payload":{"id":"t%d","name":"sh","output":"%s","exit_code":%d}}`+"\n",
		m.line, output, m.line%3)
	if m.line%1000 == 999 {
		m.rest = append(m.rest[:len(m.rest)/2], '\n')
	}
	m.line++
	m.made += len(m.rest)
	if m.made-m.sampled > 8<<20 {
		m.sampled = m.made
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		m.peak = max(m.peak, stats.HeapInuse)
	}
}

func TestSoakEventsProject(t *testing.T) {
	for _, command := range []string{"project", "check"} {
		t.Run(command, func(t *testing.T) {
			in := &manyEvents{size: 1 << 30}
			out := &countWriter{}
			var stderr bytes.Buffer
			if status := run([]string{"events", command}, in, out, &stderr); status != 1 {
				t.Fatalf("status %d, %s", status, stderr.String())
			}
			if want := map[string]int{"project": in.line, "check": in.line / 1000}[command]; out.lines != want {
				t.Errorf("%d lines, want %d", out.lines, want)
			}
			t.Logf("%d MB, %d lines, peak heap %d MB", in.made>>20, in.line, in.peak>>20)
			if in.peak > heapBound {
				t.Errorf("peak heap %d bytes, the bound is %d", in.peak, heapBound)
			}
		})
	}
}

type countWriter struct{ lines int }

func (w *countWriter) Write(p []byte) (int, error) {
	w.lines += bytes.Count(p, []byte("\n"))
	return len(p), nil
}
