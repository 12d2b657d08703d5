package state_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/state"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// visitsFn remembers when a key came last, for a week.
type visitsFn struct {
	Memory state.Memory
	TTL    state.TTL
}

func (f *visitsFn) ProcessElement(
	w beam.Window, sp beamstate.Provider, tp timers.Provider, key []byte, e *pb.AgentEnvelope, emit func(beam.EventTime, string),
) error {
	now := e.GetEventTimeMs()
	mem, err := f.Memory.Open(sp, now)
	if err != nil {
		return err // newer state, or a failed RPC: the bundle fails and nothing changes
	}
	last, known := mem.Get("last")
	if err := mem.Put("last", fmt.Append(nil, now)); err != nil {
		return err
	}
	emit(beam.EventTime(now), fmt.Sprintf("%s: last seen %q (%v)", key, last, known))
	return errors.Join(mem.Commit(), f.TTL.Touch(sp, tp, w, now, 7*24*time.Hour))
}

// OnTimer has the emitters of ProcessElement.
func (f *visitsFn) OnTimer(
	et beam.EventTime, sp beamstate.Provider, tp timers.Provider, key []byte, timer timers.Context, emit func(beam.EventTime, string),
) {
	since, idle, err := f.TTL.Fired(et, sp, tp, timer, &f.Memory)
	if err != nil {
		panic(err) // an OnTimer can fail its bundle in no other way
	}
	if idle {
		emit(beam.EventTime(since), fmt.Sprintf("%s: forgotten at %d", key, since))
	}
}

func Example() {
	fn := new(visitsFn)
	kit, err := beamtest.New(fn)
	if err != nil {
		fmt.Println(err)
		return
	}
	emit := func(_ beam.EventTime, line string) { fmt.Println(line) }
	for _, ms := range []int64{1000, 2000} {
		err := kit.Run("k", func(sp beamstate.Provider, tp timers.Provider) error {
			return fn.ProcessElement(window.GlobalWindow{}, sp, tp, []byte("k"), &pb.AgentEnvelope{EventTimeMs: ms}, emit)
		})
		fmt.Println(err, kit.RPCs().Total())
	}
	err = kit.Fire(604_802_000, func(t beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
		fn.OnTimer(t.EventTime, sp, tp, []byte(t.Key), t.Context(), emit)
		return nil
	})
	fmt.Println(err, len(kit.Bytes("k", "memory")))
	// Output:
	// k: last seen "" (false)
	// <nil> 7
	// k: last seen "1000" (true)
	// <nil> 7
	// k: forgotten at 604802000
	// <nil> 0
}
