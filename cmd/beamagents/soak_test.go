//go:build soak

package main

import (
	"encoding/binary"
	"io"
	"runtime"
	"testing"
)

// repeated is a stream of size bytes: one part, over and over. The last one is whole.
type repeated struct {
	part []byte
	at   int
	left int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	if r.left <= 0 && r.at == 0 {
		return 0, io.EOF
	}
	n = copy(p, r.part[r.at:])
	r.at = (r.at + n) % len(r.part)
	r.left -= n
	return n, nil
}

// peak notes the largest heap whenever a good deal of output has gone by.
type peak struct {
	written int64
	heap    uint64
}

func (p *peak) Write(b []byte) (int, error) {
	if p.written>>26 != (p.written+int64(len(b)))>>26 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.heap = max(p.heap, m.HeapInuse)
	}
	p.written += int64(len(b))
	return len(b), nil
}

// 1 GB of delimited messages go through decode in the memory of a few of them.
func TestSoakDecode(t *testing.T) {
	const size, limit = 1 << 30, 64 << 20
	var part []byte
	for _, b := range blobs(t) {
		if b.Message == "beam_agents.v1.StateSnapshot" {
			part = append(binary.AppendUvarint(part, uint64(len(b.Bytes))), b.Bytes...)
		}
	}
	var out peak
	var stderr peak
	code := run([]string{"decode", "--type", "StateSnapshot", "--delimited"}, &repeated{part: part, left: size}, &out, &stderr)
	if code != 0 || out.written < size {
		t.Fatalf("exit status %d, %d bytes written", code, out.written)
	}
	t.Logf("%d bytes written, at most %d bytes of heap", out.written, out.heap)
	if out.heap == 0 || out.heap > limit {
		t.Errorf("the heap grew to %d bytes, the limit is %d", out.heap, limit)
	}
}
