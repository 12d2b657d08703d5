package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/pkg/state"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	for _, t := range []reflect.Type{
		reflect.TypeFor[*keyFn](), reflect.TypeFor[*envelopeFn](), reflect.TypeFor[*countFn](), reflect.TypeFor[*cellsFn](),
		reflect.TypeFor[*outputFn](), reflect.TypeFor[*refuseFn](), reflect.TypeFor[*tallyFn](), reflect.TypeFor[*ignoreFn](),
		reflect.TypeFor[*passFn](), reflect.TypeFor[*firstEventsFn](),
	} {
		beam.RegisterDoFn(t)
	}
}

// Event times: number n is at startMS + n. Timers are due at dueMS, which the watermark
// passes when it moves to endMS.
const (
	startMS = int64(1_700_000_000_000)
	dueMS   = startMS + 3_600_000
	endMS   = startMS + 24*3_600_000
)

// tallies is the number of keys of the downstream step.
const tallies = 7

// keyFn makes a KV<key, number> from a line.
type keyFn struct {
	Keys    int
	Crashes Crashes
}

// ProcessElement parses the line.
func (f *keyFn) ProcessElement(line []byte, emit func(beam.EventTime, string, int)) error {
	n, err := strconv.Atoi(string(line))
	if err != nil {
		return err
	}
	if err := f.Crashes.at("keyed", n); err != nil {
		return err
	}
	emit(mtime.FromMilliseconds(startMS+int64(n)), keyOf(n, f.Keys), n)
	return nil
}

func keyOf(n, keys int) string { return fmt.Sprintf("k%03d", n%keys) }

// envelopeFn makes an event from a line.
type envelopeFn struct {
	Keys    int
	Crashes Crashes
}

// ProcessElement parses the line.
func (f *envelopeFn) ProcessElement(line []byte, emit func(beam.EventTime, []byte, *pb.AgentEnvelope)) error {
	n, err := strconv.Atoi(string(line))
	if err != nil {
		return err
	}
	if err := f.Crashes.at("keyed", n); err != nil {
		return err
	}
	at, key := startMS+int64(n), []byte(keyOf(n, f.Keys))
	emit(mtime.FromMilliseconds(at), key, &pb.AgentEnvelope{
		EntityKey: key, EventTimeMs: at, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: line},
	})
	return nil
}

// count reports to the tally that number n of a key was its c-th number. A timer reports n = -1.
func count(emit func(string, string), key string, n, c int) {
	tally := fmt.Sprintf("t%d", n%tallies)
	if n < 0 {
		tally = "timer-" + key
	}
	emit(tally, fmt.Sprintf("%s %d %d", key, n, c))
}

// countFn counts the numbers of a key in a plain Value. It has a timer that reports the count.
type countFn struct {
	Counts  beamstate.Value[int]
	Due     timers.EventTime
	Dir     string
	Crashes Crashes
}

func newCountFn(dir string, crashes Crashes) *countFn {
	return &countFn{
		Counts: beamstate.MakeValueState[int]("counts"), Due: timers.InEventTime("due"), Dir: dir, Crashes: crashes,
	}
}

// ProcessElement counts a number and sets the timer.
func (f *countFn) ProcessElement(sp beamstate.Provider, tp timers.Provider, key string, n int, emit func(string, string)) error {
	c, _, err := f.Counts.Read(sp)
	if err != nil {
		return err
	}
	if err := f.Counts.Write(sp, c+1); err != nil {
		return err
	}
	f.Due.Set(tp, mtime.FromMilliseconds(dueMS).ToTime())
	if err := appendLine(filepath.Join(f.Dir, "effects"), strconv.Itoa(n)); err != nil {
		return err
	}
	if err := f.Crashes.at("count", n); err != nil {
		return err
	}
	count(emit, key, n, c+1)
	return nil
}

// OnTimer reports the count.
func (f *countFn) OnTimer(sp beamstate.Provider, _ timers.Provider, key string, _ timers.Context, emit func(string, string)) {
	c, _, err := f.Counts.Read(sp)
	if err != nil {
		panic(err) // it must fail the bundle
	}
	count(emit, key, -1, c)
}

// cellsFn counts the numbers of a key in the memory of an agent.
type cellsFn struct {
	Memory  state.Memory
	Crashes Crashes
}

func newCellsFn(crashes Crashes) *cellsFn { return &cellsFn{Crashes: crashes} }

// ProcessElement counts a number.
func (f *cellsFn) ProcessElement(at beam.EventTime, sp beamstate.Provider, key string, n int, emit func(string, string)) error {
	m, err := f.Memory.Open(sp, at.Milliseconds())
	if err != nil {
		return err
	}
	c := 0
	if v, ok := m.Get("count"); ok {
		if c, err = strconv.Atoi(string(v)); err != nil {
			return err
		}
	}
	if err := m.Put("count", []byte(strconv.Itoa(c+1))); err != nil {
		return err
	}
	if err := m.Commit(); err != nil {
		return err
	}
	if err := f.Crashes.at("count", n); err != nil {
		return err
	}
	count(emit, key, n, c+1)
	return nil
}

// outputFn makes counts from the outputs of the agents.
type outputFn struct{}

// ProcessElement decodes an output.
func (f *outputFn) ProcessElement(key, text []byte, emit func(string, string)) error {
	var n, c int
	if _, err := fmt.Sscanf(string(text), "%d %d", &n, &c); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	count(emit, string(key), n, c)
	return nil
}

// refuseFn fails for every dead letter.
type refuseFn struct{}

// ProcessElement returns the dead letter as an error.
func (f *refuseFn) ProcessElement(m *pb.ActivationErrorRecord) error {
	return fmt.Errorf("dead letter %s %s", m.GetReason(), m.GetDetail())
}

// ignoreFn ignores its input. It has no output.
type ignoreFn struct{}

// ProcessElement ignores the line.
func (f *ignoreFn) ProcessElement([]byte) {}

// passFn passes its input on.
type passFn struct{}

// ProcessElement emits the line.
func (f *passFn) ProcessElement(at beam.EventTime, line []byte, emit func(beam.EventTime, []byte)) {
	emit(at, line)
}

// tallyFn keeps in state how often each count has arrived, and writes this to a file. A bundle
// that runs again writes the same file.
type tallyFn struct {
	Tally   beamstate.Value[[]byte]
	Dir     string
	Crashes Crashes
}

func newTallyFn(dir string, crashes Crashes) *tallyFn {
	return &tallyFn{Tally: beamstate.MakeValueState[[]byte]("tally"), Dir: dir, Crashes: crashes}
}

// entry is the number of bytes that the tally keeps for number i*tallies + its key: how often it
// has arrived, and the last count that arrived with it.
const entry = 3

// ProcessElement adds a count to the tally.
func (f *tallyFn) ProcessElement(sp beamstate.Provider, tally, text string, _ func(string)) error {
	var key string
	var n, c int
	if _, err := fmt.Sscanf(text, "%s %d %d", &key, &n, &c); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	all, _, err := f.Tally.Read(sp)
	if err != nil {
		return err
	}
	i := max(n, 0) / tallies
	for len(all) <= i*entry {
		all = append(all, make([]byte, entry)...)
	}
	all[i*entry]++
	binary.BigEndian.PutUint16(all[i*entry+1:], uint16(c))
	if err := f.Tally.Write(sp, all); err != nil {
		return err
	}
	if n >= 0 {
		if err := f.Crashes.at("tally", n); err != nil {
			return err
		}
	}
	return writeTally(f.Dir, tally, all)
}

// writeTally replaces the file of a tally.
func writeTally(dir, tally string, all []byte) error {
	path := filepath.Join(dir, "tally", tally)
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tally-*")
	if err != nil {
		return err
	}
	if _, err := tmp.Write(all); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// appendLine adds a line to a file that several workers write.
func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(strings.TrimSuffix(line, "\n") + "\n"); err != nil {
		return err
	}
	return f.Close()
}
