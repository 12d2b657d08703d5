package transforms

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/beamtest"
)

// applyCrashing applies an operation in a worker that crashes now and then, at a state call, a
// timer call, an emit or the end of a bundle. The runner retries each bundle until it succeeds.
func (k *agentKit) applyCrashing(r *rand.Rand, op historyOp) (crashes int) {
	k.t.Helper()
	retry := func(bundle func() error) {
		k.t.Helper()
		k.CrashAt(1 + r.IntN(60))
		for err := bundle(); err != nil; err = bundle() {
			k.FailBundle()
			if !errors.Is(err, beamtest.ErrCrash) {
				k.t.Fatal(err)
			}
			crashes++
			k.CrashAt(r.IntN(200)) // 0 is never
		}
		k.CrashAt(0)
	}
	if len(op.bundle) > 0 {
		retry(func() error {
			if err := k.StartBundle(); err != nil {
				return err
			}
			for _, env := range op.bundle {
				if err := k.Run(string(env.GetEntityKey()), k.element(proto.CloneOf(env))); err != nil {
					return err
				}
			}
			if op.advanceMS > 0 { // timers in the bundle of the elements
				if err := k.Fire(op.advanceMS, k.onTimer); err != nil {
					return err
				}
			}
			return k.FinishBundle()
		})
	}
	if op.advanceMS > 0 {
		retry(func() error { return k.Fire(op.advanceMS, k.onTimer) })
	}
	return crashes
}

// If a worker crashes again and again, at any place, all outputs and all stored bytes stay the
// same.
func TestAgentSameWithCrashes(t *testing.T) {
	seeds := uint64(100)
	if racedetector.Enabled {
		seeds = 10
	}
	crashes := 0
	for seed := range seeds {
		params := historyParams(seed)
		h := makeHistory(t, 1000+seed, params, 1+int(seed%5), 25)
		params.Concurrency = 1
		want := newAgentKit(t, params)
		for _, op := range h.ops {
			want.apply(op)
		}
		for _, concurrency := range forms {
			p := params
			p.Concurrency = concurrency
			k := newAgentKit(t, p)
			r := rand.New(rand.NewPCG(seed, 2))
			for _, op := range h.ops {
				crashes += k.applyCrashing(r, op)
			}
			k.compare(fmt.Sprintf("seed %d, concurrency %d", seed, concurrency), want)
			if t.Failed() {
				t.Logf("the history of seed %d:\n%v", seed, h)
				return
			}
		}
	}
	if crashes < int(seeds)*10 {
		t.Errorf("%d crashes in %d histories", crashes, seeds)
	}
}
