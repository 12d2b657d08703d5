package transforms

import (
	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/events"
)

func init() {
	registerDoFn((*beamagentsProjectFn).ProcessElement, func(f *beamagentsProjectFn, a []any) []any {
		r0 := f.ProcessElement(a[0].(events.Envelope))
		return []any{r0}
	})
}

// ProjectEvents returns the flat view of each event of a PCollection<events.Envelope> as a
// PCollection<events.Projection>. Every event has such a view, so ProjectEvents needs no Errors
// output. For a sink that takes JSON, use Projection.AppendJSON.
func ProjectEvents(s beam.Scope, col beam.PCollection) beam.PCollection {
	mustBeEvents("ProjectEvents", col)
	return beam.ParDo(s.Scope("ProjectEvents"), &beamagentsProjectFn{}, col)
}

type beamagentsProjectFn struct{}

func (*beamagentsProjectFn) ProcessElement(env events.Envelope) events.Projection {
	return env.Project()
}
