//go:build soak

package state

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*soakCellFn]())
	beam.RegisterDoFn(reflect.TypeFor[*soakValueFn]())
	beam.RegisterDoFn(reflect.TypeFor[*soakSourceFn]())
}

const soakKeys, soakBytes = 100_000, 4 << 10

// kept counts the elements that found what the one before them left.
var kept atomic.Int64

// soakCellFn keeps 4 KiB for each key, in two entries. It emits nothing, but has an output:
// see benchCellFn.
type soakCellFn struct{ Memory Memory }

func (f *soakCellFn) ProcessElement(sp beamstate.Provider, key []byte, i int64, _ func(string)) error {
	h, err := f.Memory.Open(sp, now+i)
	if err != nil {
		return err
	}
	if old, ok := h.Get("value"); ok && bytes.HasPrefix(old, key) && len(old) == soakBytes {
		kept.Add(1)
	}
	if err := h.Put("value", append(bytes.Clone(key), make([]byte, soakBytes-len(key))...)); err != nil {
		return err
	}
	if err := h.Put("round", fmt.Append(nil, i)); err != nil {
		return err
	}
	return h.Commit()
}

// soakValueFn does the same with a raw Value of the same message.
type soakValueFn struct {
	Raw beamstate.Value[*pb.MemoryBlob]
}

func (f *soakValueFn) ProcessElement(sp beamstate.Provider, key []byte, i int64, _ func(string)) error {
	m, ok, err := f.Raw.Read(sp)
	if err != nil {
		return err
	}
	if ok && bytes.HasPrefix(m.Entries[0].Value, key) && len(m.Entries[0].Value) == soakBytes {
		kept.Add(1)
	}
	return f.Raw.Write(sp, &pb.MemoryBlob{StateSchemaVersion: 1, TotalValueBytes: soakBytes, Entries: []*pb.MemoryEntry{
		{Key: "value", Value: append(bytes.Clone(key), make([]byte, soakBytes-len(key))...), LastAccessMs: now + i},
		{Key: "round", Value: fmt.Append(nil, i), LastAccessMs: now + i},
	}})
}

// TestSoakKeys fills 100,000 keys with 4 KiB each and goes through all of them again. Every
// key must find its own. The embedded runner holds all state in memory, in this process:
// what a raw Value needs is reported beside it, and a cell must not need more than a tenth
// above that.
func TestSoakKeys(t *testing.T) {
	measure := func(name string, fn any) uint64 {
		runtime.GC()
		kept.Store(0)
		p, s := beam.NewPipelineWithRoot()
		beam.ParDo(s, fn, beam.ParDo(s, &soakSourceFn{}, beam.Impulse(s)))
		start := time.Now()
		peak := peakHeap(func() {
			if _, err := beam.Run(context.Background(), "prism", p); err != nil {
				t.Fatal(err)
			}
		})
		took := time.Since(start)
		if got := kept.Load(); got != soakKeys {
			t.Fatalf("%s: %d of %d keys found what they had", name, got, soakKeys)
		}
		t.Logf("%-9s %d keys of %d bytes, twice: %.1f s, %.0f elements/s, heap of at most %d MiB",
			name, soakKeys, soakBytes, took.Seconds(), 2*soakKeys/took.Seconds(), peak>>20)
		return peak
	}
	raw := measure("raw Value", &soakValueFn{beamstate.MakeValueState[*pb.MemoryBlob]("raw")})
	cell := measure("Memory", &soakCellFn{})
	if float64(cell) > 1.1*float64(raw) {
		t.Errorf("the cells need %d MiB and raw Values %d MiB", cell>>20, raw>>20)
	}
}

type soakSourceFn struct{}

func (*soakSourceFn) ProcessElement(_ []byte, emit func([]byte, int64)) {
	for round := range int64(2) {
		for i := range soakKeys {
			emit(fmt.Appendf(nil, "customer-%06d", i), round)
		}
	}
}

// peakHeap runs work and returns the largest heap that it needed, in bytes of objects.
func peakHeap(work func()) uint64 {
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		largest := uint64(0)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				metrics.Read(sample)
				largest = max(largest, sample[0].Value.Uint64())
			case <-stop:
				peak <- largest
				return
			}
		}
	}()
	work()
	close(stop)
	return <-peak
}
