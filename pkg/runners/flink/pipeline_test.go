package flink

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

// The steps of the pipelines of the tests.

type runnerKeyFn struct{}

func (runnerKeyFn) ProcessElement(_ []byte, emit func(string, int)) {
	for i := range 3 {
		emit(fmt.Sprint(i), i)
	}
}

type runnerCountFn struct{ Count state.Value[int] }

func (f *runnerCountFn) ProcessElement(p state.Provider, _ string, v int, emit func(int)) error {
	n, _, err := f.Count.Read(p)
	if err != nil {
		return err
	}
	emit(n + v)
	return f.Count.Write(p, n+v)
}

type runnerTimerFn struct {
	Count state.Value[int]
	Timer timers.EventTime
}

func (f *runnerTimerFn) ProcessElement(sp state.Provider, tp timers.Provider, _ string, v int, emit func(int)) error {
	f.Timer.Set(tp, time.UnixMilli(int64(v)))
	emit(v)
	return f.Count.Write(sp, v)
}

func (f *runnerTimerFn) OnTimer(context.Context, beam.EventTime, state.Provider, timers.Provider, string, timers.Context, func(int)) {
}

type runnerSideFn struct{ Count state.Value[int] }

func (f *runnerSideFn) ProcessElement(p state.Provider, _ string, v int, side int, emit func(int)) error {
	emit(v + side)
	return f.Count.Write(p, v)
}

func runnerPassFn(k string, v int) (string, int) { return k, v }

func runnerOneFn(_ []byte) int { return 1 }

func runnerAddFn(_ []byte, side int) int { return side + 1 }

// runnerEndlessFn is an unbounded source.
type runnerEndlessFn struct{}

func (runnerEndlessFn) CreateInitialRestriction([]byte) offsetrange.Restriction {
	return offsetrange.Restriction{Start: 0, End: 10}
}

func (runnerEndlessFn) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(r))
}

func (runnerEndlessFn) SplitRestriction(_ []byte, r offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{r}
}

func (runnerEndlessFn) RestrictionSize([]byte, offsetrange.Restriction) float64 { return 1 }

func (runnerEndlessFn) ProcessElement(_ *sdf.LockRTracker, _ []byte, emit func(string, int)) sdf.ProcessContinuation {
	emit("a", 1)
	return sdf.ResumeProcessingIn(time.Second)
}

// runnerFamiliesFn has two timer families.
type runnerFamiliesFn struct {
	First  timers.EventTime
	Second timers.ProcessingTime
}

func (f *runnerFamiliesFn) ProcessElement(_ timers.Provider, _ string, v int, emit func(int)) {
	emit(v)
}

func (f *runnerFamiliesFn) OnTimer(context.Context, timers.Provider, string, timers.Context, func(int)) {
}

type runnerMapFn struct{ Cell state.Map[string, int] }

func (f *runnerMapFn) ProcessElement(p state.Provider, _ string, v int, emit func(int)) error {
	emit(v)
	return f.Cell.Put(p, "k", v)
}

type runnerSetFn struct{ Cell state.Set[string] }

func (f *runnerSetFn) ProcessElement(p state.Provider, _ string, v int, emit func(int)) error {
	emit(v)
	return f.Cell.Add(p, "k")
}

type runnerListFn struct{ Cell state.OrderedList[string] }

func (f *runnerListFn) ProcessElement(p state.Provider, _ string, v int, emit func(int)) error {
	emit(v)
	return f.Cell.Add(p, int64(v), "k")
}

// runnerCellsFn has the kinds of cells that Flink can store.
type runnerCellsFn struct {
	Value state.Value[int]
	Bag   state.Bag[int]
	Sum   state.Combining[int, int, int]
}

func (f *runnerCellsFn) ProcessElement(p state.Provider, _ string, v int, emit func(int)) error {
	emit(v)
	return f.Sum.Add(p, v)
}

func runnerSumFn(a, b int) int { return a + b }

func init() {
	register.Function2x1(runnerSumFn)
	for _, fn := range []any{newFamilies(), &runnerMapFn{}, &runnerSetFn{}, &runnerListFn{}, &runnerCellsFn{}} {
		beam.RegisterDoFn(fn)
	}
	beam.RegisterDoFn(&runnerKeyFn{})
	beam.RegisterDoFn(&runnerCountFn{})
	beam.RegisterDoFn(&runnerTimerFn{})
	beam.RegisterDoFn(&runnerSideFn{})
	beam.RegisterDoFn(&runnerEndlessFn{})
	beam.RegisterFunction(runnerPassFn)
	beam.RegisterFunction(runnerOneFn)
	beam.RegisterFunction(runnerAddFn)
}

func newCount() *runnerCountFn { return &runnerCountFn{Count: state.MakeValueState[int]("count")} }

func newTimer() *runnerTimerFn {
	return &runnerTimerFn{Count: state.MakeValueState[int]("count"), Timer: timers.InEventTime("timer")}
}

func newFamilies() *runnerFamiliesFn {
	return &runnerFamiliesFn{First: timers.InEventTime("first"), Second: timers.InProcessingTime("second")}
}

func keyed(s beam.Scope) beam.PCollection { return beam.ParDo(s, &runnerKeyFn{}, beam.Impulse(s)) }

func endless(s beam.Scope) beam.PCollection {
	return beam.ParDo(s, &runnerEndlessFn{}, beam.Impulse(s))
}

func bounded(s beam.Scope) { beam.ParDo(s, newCount(), keyed(s)) }

func unboundedPipeline(s beam.Scope) { beam.ParDo(s, newTimer(), endless(s)) }

func boundedTimer(s beam.Scope) { beam.ParDo(s, newTimer(), keyed(s)) }

func cellsOfEachKind(s beam.Scope) {
	beam.ParDo(s, &runnerCellsFn{
		state.MakeValueState[int]("value"), state.MakeBagState[int]("bag"), state.MakeCombiningState[int, int, int]("sum", runnerSumFn),
	}, keyed(s))
}

func statelessSideInput(s beam.Scope) {
	side := beam.ParDo(s, runnerOneFn, beam.Impulse(s))
	beam.ParDo(s, runnerAddFn, beam.Impulse(s), beam.SideInput{Input: side})
}

func sideInput(s beam.Scope) {
	side := beam.ParDo(s, runnerOneFn, beam.Impulse(s))
	beam.ParDo(s, &runnerSideFn{Count: state.MakeValueState[int]("count")}, keyed(s), beam.SideInput{Input: side})
}
