// Package copies has programs that copy cells. A line that go vet must report says so.
package copies

import (
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/pkg/state"
	testingpb "github.com/beamagents/beamagents-go/proto/beam_agents/testing/v1"
)

func init() { beam.RegisterDoFn(reflect.TypeFor[ByValue]()) }

// ByValue has a method of a value, which is a copy.
type ByValue struct{ Memory state.Memory }

func (f ByValue) ProcessElement(sp beamstate.Provider, key, value string, emit func(string)) error { // copies
	mem, err := f.Memory.Open(sp, 0)
	if err != nil {
		return err
	}
	emit(key + value)
	return mem.Commit()
}

// All has each cell.
type All struct {
	Memory       state.Memory
	ReplayCache  state.ReplayCache
	Continuation state.Continuation
	Control      state.Control
	Deferred     state.Deferred
	TTL          state.TTL
	Versioned    state.Versioned[*testingpb.Profile]
}

func use(...any) {}

// ProcessElement copies each cell, and the DoFn.
func (f *All) ProcessElement(_ beamstate.Provider, _ timers.Provider, _, _ string, _ func(string)) {
	memory := f.Memory             // copies
	replayCache := f.ReplayCache   // copies
	continuation := f.Continuation // copies
	control := f.Control           // copies
	deferred := f.Deferred         // copies
	ttl := f.TTL                   // copies
	versioned := f.Versioned       // copies
	all := *f                      // copies
	use(&memory, &replayCache, &continuation, &control, &deferred, &ttl, &versioned, &all)
	use(&f.Memory, f)
	pass(f.Memory) // copies
}

func pass(m state.Memory) { use(&m) } // copies

// New makes a DoFn, and copies nothing.
func New() *All {
	return &All{Versioned: state.Versioned[*testingpb.Profile]{Key: "profile"}}
}
