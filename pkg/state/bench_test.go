package state

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*benchCellFn]())
	beam.RegisterDoFn(reflect.TypeFor[*benchValueFn]())
	beam.RegisterDoFn(reflect.TypeFor[*benchSourceFn]())
	register.Emitter1[string]()
	register.Emitter2[[]byte, int64]()
}

var sizes = []struct {
	name  string
	bytes int
}{{"1KiB", 1 << 10}, {"16KiB", 16 << 10}, {"64KiB", 64 << 10}, {"100KiB", 100 << 10}}

// benchBlob is a memory of about so many bytes, in entries of at most 1 KiB.
func benchBlob(size int) *pb.MemoryBlob {
	m := &pb.MemoryBlob{StateSchemaVersion: 1}
	value := min(1000, size/2)
	for i := 0; i*(value+40) < size; i++ {
		m.Entries = append(m.Entries, &pb.MemoryEntry{
			Key: fmt.Sprintf("conversation/turn/%04d", i), Value: bytes.Repeat([]byte{'v'}, value), LastAccessMs: now,
		})
		m.TotalValueBytes += int64(value)
	}
	return m
}

// BenchmarkCell opens a memory on the kit and commits it: without a change, and with one
// new value. The raw cell reads and writes the same blob, and decides nothing.
func BenchmarkCell(b *testing.B) {
	for _, size := range sizes {
		fn := newAllFn()
		raw := beamstate.MakeValueState[*pb.MemoryBlob](memoryID)
		var value byte
		for _, bench := range []struct {
			name string
			call func(sp beamstate.Provider) error
		}{
			{"op=open/by=cell", func(sp beamstate.Provider) error {
				h, err := fn.Memory.Open(sp, now)
				if err != nil {
					return err
				}
				return h.Commit()
			}},
			{"op=open/by=value", func(sp beamstate.Provider) error {
				_, _, err := raw.Read(sp)
				return err
			}},
			{"op=change/by=cell", func(sp beamstate.Provider) error {
				h, err := fn.Memory.Open(sp, now)
				if err != nil {
					return err
				}
				value++
				if err := h.Put("conversation/turn/0000", []byte{value}); err != nil {
					return err
				}
				return h.Commit()
			}},
			{"op=change/by=value", func(sp beamstate.Provider) error {
				m, _, err := raw.Read(sp)
				if err != nil {
					return err
				}
				value++
				m.Entries[0].Value = []byte{value}
				return raw.Write(sp, m)
			}},
		} {
			b.Run("size="+size.name+"/"+bench.name, func(b *testing.B) {
				k := newKit(b, fn)
				if err := k.SetValue("k", memoryID, benchBlob(size.bytes)); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := k.Run("k", func(sp beamstate.Provider, _ timers.Provider) error { return bench.call(sp) }); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// benchCellFn reads and writes a memory, and benchValueFn a raw Value of the same bytes.
// They emit nothing, but have an output: without one the embedded runner spins while the
// stage is at work, which makes its RPCs many times slower.
type benchCellFn struct {
	Size   int
	Memory Memory
}

func (f *benchCellFn) ProcessElement(sp beamstate.Provider, _ []byte, i int64, _ func(string)) error {
	h, err := f.Memory.Open(sp, now)
	if err != nil {
		return err
	}
	if h.Len() == 0 {
		for _, e := range benchBlob(f.Size).GetEntries() {
			if err := h.Put(e.GetKey(), e.GetValue()); err != nil {
				return err
			}
		}
	}
	if err := h.Put("conversation/turn/0000", fmt.Appendf(nil, "%0999d", i)); err != nil {
		return err
	}
	return h.Commit()
}

type benchValueFn struct {
	Size int
	Raw  beamstate.Value[*pb.MemoryBlob]
}

func (f *benchValueFn) ProcessElement(sp beamstate.Provider, _ []byte, i int64, _ func(string)) error {
	m, ok, err := f.Raw.Read(sp)
	if err != nil {
		return err
	}
	if !ok {
		m = benchBlob(f.Size)
	}
	m.Entries[0].Value = fmt.Appendf(nil, "%0999d", i)
	return f.Raw.Write(sp, m)
}

type benchSourceFn struct{ Elements, Keys int }

func (f *benchSourceFn) ProcessElement(_ []byte, emit func([]byte, int64)) {
	for i := range f.Elements {
		emit(fmt.Appendf(nil, "customer-%04d", i%f.Keys), int64(i))
	}
}

// BenchmarkPrism sends elements of 100 keys through a cell, and through a raw Value. make
// bench prints the ratio of the throughputs.
func BenchmarkPrism(b *testing.B) {
	const elements = 2000
	for _, size := range sizes {
		for _, bench := range []struct {
			by string
			fn any
		}{
			{"value", &benchValueFn{Size: size.bytes, Raw: beamstate.MakeValueState[*pb.MemoryBlob]("raw")}},
			{"ours", &benchCellFn{Size: size.bytes}},
		} {
			b.Run("transform=Memory_"+size.name+"/by="+bench.by, func(b *testing.B) {
				for b.Loop() {
					p, s := beam.NewPipelineWithRoot()
					beam.ParDo(s, bench.fn, beam.ParDo(s, &benchSourceFn{elements, 100}, beam.Impulse(s)))
					if _, err := beam.Run(context.Background(), "prism", p); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(elements*b.N)/b.Elapsed().Seconds(), "elements/s")
			})
		}
	}
}
