package modelcall

import (
	"bytes"
	"compress/flate"
	"strings"
	"sync"
	"testing"
)

// A writer that was used before leaves the bytes that a new one leaves, also when several
// activations record at once: a retried bundle must store the same.
func TestDeflateIsTheSameWhenUsedAgain(t *testing.T) {
	bodies := [][]byte{
		[]byte(strings.Repeat(`{"role":"assistant","content":"one"}`, 50)),
		[]byte(strings.Repeat("other words entirely, ", 4000)),
		bytes.Repeat([]byte{0, 1, 2, 250}, 100),
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := range 30 {
				body := bodies[n%len(bodies)]
				var fresh bytes.Buffer
				w, err := flate.NewWriter(&fresh, flate.DefaultCompression)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = w.Write(body)
				_ = w.Close()
				got := deflate(body)
				if !bytes.Equal(got, fresh.Bytes()) {
					t.Errorf("body %d: a used writer leaves other bytes", n)
				}
				if back, err := inflate(got, int64(len(body))); err != nil || !bytes.Equal(back, body) {
					t.Errorf("body %d: it is read as other bytes: %v", n, err)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkDeflate(b *testing.B) {
	body := []byte(strings.Repeat(`{"role":"assistant","content":"Nothing to do."}`, 20))
	b.ReportAllocs()
	for b.Loop() {
		deflate(body)
	}
}
