package state_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/pkg/state"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	beam.RegisterDoFn(&idleFn{})
}

// idleFn forgets keys after a minute. An element is a time in s, and may set a deadline.
type idleFn struct {
	Idle        time.Duration // a minute if it is 0
	Memory      state.Memory
	ReplayCache state.ReplayCache
	Deferred    state.Deferred
	TTL         state.TTL
}

const deadlineTag = "deadline"

// content says how many entries each cell has.
func (f *idleFn) content(sp beamstate.Provider) (string, error) {
	m, err := f.Memory.Open(sp, now)
	if err != nil {
		return "", err
	}
	c, err := f.ReplayCache.Open(sp, now)
	if err != nil {
		return "", err
	}
	events, err := f.Deferred.Open(sp).Events()
	return fmt.Sprint(m.Len(), c.Len(), len(events)), err
}

func (f *idleFn) ProcessElement(w beam.Window, sp beamstate.Provider, tp timers.Provider, key, value string, emit func(beam.EventTime, string, string)) error {
	text, deadline, _ := strings.Cut(value, " ")
	s, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	nowMS := int64(s) * 1000
	m, err := f.Memory.Open(sp, nowMS)
	if err != nil {
		return err
	}
	c, err := f.ReplayCache.Open(sp, nowMS)
	if err != nil {
		return err
	}
	d := f.Deferred.Open(sp)
	_, cacheErr := c.Put(text, nil)
	if err := errors.Join(
		m.Put(text, nil), cacheErr, d.Add(&runtimepb.DeferredEvent{Arrival: nowMS, Envelope: &pb.AgentEnvelope{}}),
		m.Commit(), c.Commit(), d.Commit(), f.TTL.Touch(sp, tp, w, nowMS, cmp.Or(f.Idle, time.Minute)),
	); err != nil {
		return err
	}
	if deadline != "" {
		at, err := strconv.Atoi(deadline)
		if err != nil {
			return err
		}
		timers.InEventTime(state.TimerFamily).Set(tp, time.Unix(int64(at), 0), timers.WithTag(deadlineTag), timers.WithNoOutputTimestamp())
	}
	content, err := f.content(sp)
	if err != nil {
		return err
	}
	emit(beam.EventTime(nowMS), key, "at "+text+": "+content)
	return nil
}

func (f *idleFn) OnTimer(et beam.EventTime, sp beamstate.Provider, tp timers.Provider, key string, timer timers.Context, emit func(beam.EventTime, string, string)) {
	before, err := f.content(sp)
	if err != nil {
		panic(err)
	}
	_, idle, err := f.TTL.Fired(et, sp, tp, timer, &f.Memory, &f.ReplayCache, &f.Deferred)
	if err != nil {
		panic(err)
	}
	after, err := f.content(sp)
	if err != nil {
		panic(err)
	}
	emit(10*hourMS, key, fmt.Sprintf("%s: idle=%v, from %s to %s", timer.Tag, idle, before, after))
}

// runIdle records what idleFn says, and what comes out of windows of 10 s.
func runIdle(t *testing.T, st *stream, windows bool) []string {
	t.Helper()
	return mustRun(t, func(s beam.Scope, record func(beam.PCollection)) {
		out := beam.ParDo(s, &idleFn{}, st.create(s))
		record(beam.ParDo(s, keyedLine, out))
		if windows {
			windowed := beam.WindowInto(s, window.NewFixedWindows(10*time.Second), out)
			record(beam.WindowInto(s, window.NewGlobalWindows(), beam.ParDo(s, paneLine, beam.GroupByKey(s, windowed))))
		}
	})
}

// at moves the watermark to a time in s, and adds an element of each key there, one after
// the other: the runner keeps no order of keys in a bundle.
func (st *stream) at(s int, keys ...string) {
	st.t.Helper()
	st.watermark(int64(s) * 1000)
	for _, key := range keys {
		st.add(int64(s)*1000, element{key, fmt.Sprint(s)})
	}
}

// An idle key is cleared when its minute is over, and a key in use is not cleared. Keys that are
// left at the end of the input are cleared then.
func TestTTLWipesIdleKeys(t *testing.T) {
	st := newStream(t)
	st.at(1, "idle", "busy")
	st.at(50, "busy")
	st.at(61)
	st.at(90, "idle", "busy")
	lines := runIdle(t, st, false)
	slices.Sort(lines[min(6, len(lines)):]) // those of the end, in no order
	wantLines(t, lines,
		"idle at 1: 1 1 1", "busy at 1: 1 1 1", "busy at 50: 2 2 2",
		"idle ttl: idle=true, from 1 1 1 to 0 0 0",
		"idle at 90: 1 1 1", "busy at 90: 3 3 3",
		"busy ttl: idle=true, from 3 3 3 to 0 0 0", "idle ttl: idle=true, from 1 1 1 to 0 0 0",
	)
}

// A late element does not move the mark back.
func TestTTLAndLateElements(t *testing.T) {
	st := newStream(t)
	st.at(100, "k")
	st.add(10_000, element{"k", "10"})
	st.at(155, "clock")
	st.at(165, "clock")
	wantLines(t, runIdle(t, st, false),
		"k at 100: 1 1 1", "k at 10: 2 2 2", "clock at 155: 1 1 1",
		"k ttl: idle=true, from 2 2 2 to 0 0 0", "clock at 165: 2 2 2",
		"clock ttl: idle=true, from 2 2 2 to 0 0 0",
	)
}

// The timer does not hold the watermark: a window of 10 s has its result long before the minute is
// over.
func TestTTLHoldsNoWatermark(t *testing.T) {
	st := newStream(t)
	st.at(1, "k")
	st.at(30)
	wantLines(t, runIdle(t, st, true),
		"k at 1: 1 1 1", `k pane ["at 1: 1 1 1"]`,
		"k ttl: idle=true, from 1 1 1 to 0 0 0", `k pane ["ttl: idle=true, from 1 1 1 to 0 0 0"]`,
	)
}

// Timers of another tag fire on their own, before and after. TTL ignores them.
func TestTTLLeavesOtherTags(t *testing.T) {
	st := newStream(t)
	st.add(1000, element{"early", "1 20"})
	st.add(5000, element{"late", "5 100"})
	st.at(30)
	st.at(63)
	st.at(70)
	st.at(110)
	wantLines(t, runIdle(t, st, false),
		"early at 1: 1 1 1", "late at 5: 1 1 1",
		"early deadline: idle=false, from 1 1 1 to 1 1 1",
		"early ttl: idle=true, from 1 1 1 to 0 0 0",
		"late ttl: idle=true, from 1 1 1 to 0 0 0",
		"late deadline: idle=false, from 0 0 0 to 0 0 0",
	)
}

// runInWindows is a stream in windows of 30 s.
func runInWindows(st *stream, idle time.Duration) ([]string, error) {
	return runPrism(func(s beam.Scope, record func(beam.PCollection)) {
		windowed := beam.WindowInto(s, window.NewFixedWindows(30*time.Second), st.create(s))
		lines := beam.ParDo(s, keyedLine, beam.ParDo(s, &idleFn{Idle: idle}, windowed))
		record(beam.WindowInto(s, window.NewGlobalWindows(), lines))
	})
}

// In windows of 30 s, each has its own state, mark and timer. A key is idle at the latest
// when its window ends, while its state is still there.
func TestTTLInWindows(t *testing.T) {
	st := newStream(t)
	st.at(1, "k")
	st.at(20, "k")
	st.at(40, "k")
	st.at(51)
	st.at(85, "clock")
	st.at(150)
	lines, err := runInWindows(st, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, lines,
		"k at 1: 1 1 1", "k ttl: idle=true, from 1 1 1 to 0 0 0",
		"k at 20: 1 1 1", "k ttl: idle=true, from 1 1 1 to 0 0 0", // at the end of its window
		"k at 40: 1 1 1", "k ttl: idle=true, from 1 1 1 to 0 0 0",
		"clock at 85: 1 1 1", "clock ttl: idle=true, from 1 1 1 to 0 0 0",
	)
}

// A ttl that is not shorter than every window is refused, because the runner would clear the state
// before its timers fire.
func TestTTLLongerThanItsWindow(t *testing.T) {
	st := newStream(t)
	st.at(1, "k")
	if lines, err := runInWindows(st, 30*time.Second); err == nil || !strings.Contains(err.Error(), "a ttl of 30s ends after its window of 30000 ms") {
		t.Errorf("%q, %v", lines, err)
	}
}
