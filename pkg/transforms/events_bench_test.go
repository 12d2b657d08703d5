package transforms_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beamagents/beamagents-go/pkg/events"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*repeatFn]())
	register.Function1x1(sameBytes)
	register.Function1x0(dropBytes)
	register.Function1x0(dropProjection)
	register.Function1x0(dropLetter)
	register.Emitter1[[]byte]()
}

const benchEvents = 200_000

// repeatFn makes benchEvents elements of a few.
type repeatFn struct{ Lines [][]byte }

func (f *repeatFn) ProcessElement(_ []byte, emit func([]byte)) {
	for i := range benchEvents {
		emit(f.Lines[i%len(f.Lines)])
	}
}

func sameBytes(b []byte) []byte            { return b }
func dropBytes([]byte)                     {}
func dropProjection(events.Projection)     {}
func dropLetter(*pb.ActivationErrorRecord) {}

// BenchmarkEventsOnPrism takes the events of the vectors through a pipeline on the
// embedded runner: decoded and projected, and, to compare, untouched.
func BenchmarkEventsOnPrism(b *testing.B) {
	var lines [][]byte
	for _, e := range theEventVectors(b).Events {
		lines = append(lines, []byte(e.EnvelopeJSON))
	}
	for _, bench := range []struct {
		name  string
		build func(s beam.Scope, raw beam.PCollection)
	}{
		{"identity", func(s beam.Scope, raw beam.PCollection) {
			beam.ParDo0(s, dropBytes, beam.ParDo(s, sameBytes, raw))
		}},
		{"decode and project", func(s beam.Scope, raw beam.PCollection) {
			decoded := transforms.DecodeEvents(s, raw)
			beam.ParDo0(s, dropProjection, transforms.ProjectEvents(s, decoded.Events))
			beam.ParDo0(s, dropLetter, decoded.Errors)
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				p, s := beam.NewPipelineWithRoot()
				bench.build(s, beam.ParDo(s, &repeatFn{Lines: lines}, beam.Impulse(s)))
				if _, err := beam.Run(context.Background(), "prism", p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*benchEvents/b.Elapsed().Seconds(), "events/s")
		})
	}
}
