package state

import (
	"flag"
	"reflect"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/pkg/compat/graph/graphtest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

var addFrozen = flag.Bool("add-frozen", false, "freeze what is new in golden/pipeline; what is there stays")

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*frozenFn]())
	beam.RegisterFunction(noEnvelopes)
}

func noEnvelopes([]byte, func(beam.EventTime, []byte, *pb.AgentEnvelope)) {}

// frozenFn has all cells of the library, for their ids, coders, kinds and the timer family.
type frozenFn struct {
	Memory       Memory
	ReplayCache  ReplayCache
	Continuation Continuation
	Control      Control
	Deferred     Deferred
	TTL          TTL
}

func (*frozenFn) ProcessElement(beamstate.Provider, timers.Provider, []byte, *pb.AgentEnvelope) {}

func (*frozenFn) OnTimer(beamstate.Provider, timers.Provider, []byte, timers.Context) {}

// The update contract: a difference here loses the state of running jobs, or makes a
// runner refuse their update.
func TestCellsAreFrozen(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, &frozenFn{}, beam.ParDo(s, noEnvelopes, beam.Impulse(s)))
	graphtest.Frozen(t, "../../golden/pipeline/cells.json", p, *addFrozen)
}
