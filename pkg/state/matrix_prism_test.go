package state_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/migrate"
	"github.com/beamagents/beamagents-go/pkg/state"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	testingpb "github.com/beamagents/beamagents-go/proto/beam_agents/testing/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() { beam.RegisterDoFn(&matrixFn{}) }

// The matrix does all short sequences of operations to a cell and compares what each
// says with a plain model: a map that is stored, and a copy of it that is worked on. A
// case is a sequence, begun with an empty cell or with a filled one, done by one element
// or, split at some place, by two. A last element reads all. A case has a key of its own.
//
// An operation is a letter. Each opens the cell, so all but the first open it again.
const (
	open     = 'O'
	get      = 'G' // of entry "a"
	put      = 'P' // of entry "a", or of one more where there are no entries
	remove   = 'D' // of entry "a"
	keys     = 'K'
	clearAll = 'X'
	commit   = 'C'
	// At the beginning of a case and at its end.
	fill = 'F' // with entries "a" and "b", committed
	all  = '?'
)

// matrixFn does what the elements say: a step, and its operations.
type matrixFn struct {
	Memory       state.Memory
	ReplayCache  state.ReplayCache
	Continuation state.Continuation
	Control      state.Control
	Deferred     state.Deferred
	Profile      state.Versioned[*testingpb.Profile]
}

// cellSet is the cells of a DoFn.
type cellSet struct {
	Memory       *state.Memory
	ReplayCache  *state.ReplayCache
	Continuation *state.Continuation
	Control      *state.Control
	Deferred     *state.Deferred
	Profile      *state.Versioned[*testingpb.Profile]
}

func (f *matrixFn) cells() cellSet {
	return cellSet{&f.Memory, &f.ReplayCache, &f.Continuation, &f.Control, &f.Deferred, &f.Profile}
}

func newMatrixFn() *matrixFn {
	return &matrixFn{Profile: state.Versioned[*testingpb.Profile]{Key: "profile"}}
}

func (f *matrixFn) ProcessElement(sp beamstate.Provider, key, value string, emit func(string)) {
	emit(transcript(key, value, func(kind string, op byte, label int) (string, error) {
		return cells[kind](f.cells(), sp, op, label)
	}))
}

// transcript is what the operations of an element say.
func transcript(key, value string, do func(kind string, op byte, label int) (string, error)) string {
	kind, _, _ := strings.Cut(key, " ")
	step, ops, _ := strings.Cut(value, " ")
	n, err := strconv.Atoi(step)
	if err != nil {
		return err.Error()
	}
	words := []string{key, "step", step}
	for i := range len(ops) {
		said, err := saying(func() (string, error) { return do(kind, ops[i], 10*n+i+1) })
		if err != nil {
			said = err.Error()
		}
		if said != "" {
			words = append(words, string(ops[i])+"="+said)
		}
	}
	return strings.Join(words, " ")
}

func saying(do func() (string, error)) (said string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return do()
}

// cellKind is what the model knows of a kind of cell.
type cellKind struct {
	ops string
	// entry is where a put label goes.
	entry func(label int) string
	// filled are the entries of a filled cell.
	filled map[string]string
	// direct: an operation is stored at once.
	direct bool
	// sum: a label is added to what is there.
	sum bool
	// bare: an entry has no value.
	bare bool
}

func entryA(int) string { return "a" }

func only(int) string { return "" }

var (
	twoEntries = map[string]string{"a": "1", "b": "1"}
	oneEntry   = map[string]string{"": "1"}
	oneItem    = map[string]string{"1": "1"}
)

var kinds = map[string]*cellKind{
	"memory":       {ops: "OGPDXC", entry: entryA, filled: twoEntries},
	"llm_cache":    {ops: "OGPXC", entry: entryA, filled: twoEntries},
	"continuation": {ops: "OGPXC", entry: only, filled: oneEntry},
	"control":      {ops: "OGPXC", entry: only, filled: oneEntry},
	"profile":      {ops: "OGPXC", entry: only, filled: oneEntry},
	"deferred":     {ops: "OGPXC", entry: strconv.Itoa, filled: oneItem},
}

// cells do an operation. The label tells apart what is put.
var cells = map[string]func(f cellSet, sp beamstate.Provider, op byte, label int) (string, error){
	"memory":       cellSet.memory,
	"llm_cache":    cellSet.replayCache,
	"continuation": cellSet.continuation,
	"control":      cellSet.control,
	"profile":      cellSet.profile,
	"deferred":     cellSet.deferred,
}

const now = 1_700_000_000_000

func (f cellSet) memory(sp beamstate.Provider, op byte, label int) (string, error) {
	h, err := f.Memory.Open(sp, now)
	if err != nil {
		return "", err
	}
	switch op {
	case get:
		v, ok := h.Get("a")
		return found(string(v), ok), nil
	case put:
		return "", h.Put("a", []byte(strconv.Itoa(label)))
	case remove:
		return strconv.FormatBool(h.Delete("a")), nil
	case clearAll:
		h.Clear()
	case commit:
		return "", h.Commit()
	case fill:
		return "", errors.Join(h.Put("a", []byte("1")), h.Put("b", []byte("1")), h.Commit())
	case all:
		entries := map[string]string{}
		for k, v := range h.All() {
			entries[k] = string(v)
		}
		return listing(entries), nil
	}
	return "", nil
}

func (f cellSet) replayCache(sp beamstate.Provider, op byte, label int) (string, error) {
	h, err := f.ReplayCache.Open(sp, now)
	if err != nil {
		return "", err
	}
	switch op {
	case get:
		v, ok := h.Get("a")
		return found(string(v), ok), nil
	case put:
		_, err := h.Put("a", []byte(strconv.Itoa(label)))
		return "", err
	case clearAll:
		h.Clear()
	case commit:
		return "", h.Commit()
	case fill:
		_, err := h.Put("a", []byte("1"))
		_, err2 := h.Put("b", []byte("1"))
		return "", errors.Join(err, err2, h.Commit())
	case all:
		entries := map[string]string{}
		for _, e := range h.Blob().Entries {
			entries[e.CacheKey] = string(e.Response)
		}
		return listing(entries), nil
	}
	return "", nil
}

func (f cellSet) continuation(sp beamstate.Provider, op byte, label int) (string, error) {
	h, err := f.Continuation.Open(sp)
	return message(h, err, op, &pb.Continuation{Seq: int64(label)}, func(m *pb.Continuation) string { return fmt.Sprint(m.Seq) })
}

func (f cellSet) control(sp beamstate.Provider, op byte, label int) (string, error) {
	h, err := f.Control.Open(sp)
	return message(h, err, op, &runtimepb.KeyControl{Seq: int64(label)}, func(m *runtimepb.KeyControl) string { return fmt.Sprint(m.Seq) })
}

var profileSchema = migrate.New(1)

func (f cellSet) profile(sp beamstate.Provider, op byte, label int) (string, error) {
	h, err := f.Profile.Open(sp, profileSchema)
	return message(h, err, op, &testingpb.Profile{Name: strconv.Itoa(label)}, (*testingpb.Profile).GetName)
}

// message does an operation to a cell with one message; m is to be put.
func message[M migrate.Message](h *state.Handle[M], err error, op byte, m M, text func(M) string) (string, error) {
	if err != nil {
		return "", err
	}
	switch op {
	case get:
		m, ok := h.Get()
		if !ok {
			return found("", false), nil
		}
		return found(text(m), true), nil
	case put:
		return "", h.Put(m)
	case clearAll:
		h.Clear()
	case commit:
		return "", h.Commit()
	case fill:
		return "", errors.Join(h.Put(m), h.Commit())
	case all:
		entries := map[string]string{}
		if m, ok := h.Get(); ok {
			entries[""] = text(m)
		}
		return listing(entries), nil
	}
	return "", nil
}

func (f cellSet) deferred(sp beamstate.Provider, op byte, label int) (string, error) {
	h := f.Deferred.Open(sp)
	add := func() error {
		return h.Add(&runtimepb.DeferredEvent{Arrival: int64(label), Envelope: &pb.AgentEnvelope{EventTimeMs: now}})
	}
	switch op {
	case get, all:
		events, err := h.Events()
		entries := map[string]string{}
		for _, e := range events {
			arrival := fmt.Sprint(e.Arrival)
			entries[arrival] += arrival
		}
		return listing(entries), err
	case put:
		return "", add()
	case clearAll:
		h.Clear()
	case commit:
		return "", h.Commit()
	case fill:
		return "", errors.Join(add(), h.Commit())
	}
	return "", nil
}

func found(v string, ok bool) string {
	if !ok {
		return "none"
	}
	return v
}

// listing is a map in order.
func listing(entries map[string]string) string {
	words := []string{}
	for _, k := range slices.Sorted(maps.Keys(entries)) {
		words = append(words, k+":"+entries[k])
	}
	return fmt.Sprint(words)
}

// model is what a cell must do.
type model struct {
	*cellKind
	stored, staged map[string]string
}

func (m *model) do(op byte, label int) string {
	said := m.stage(op, label)
	if m.direct || op == commit || op == fill {
		m.stored = maps.Clone(m.staged)
	}
	return said
}

func (m *model) stage(op byte, label int) string {
	switch op {
	case get:
		if m.entry(1) != m.entry(2) {
			return listing(m.staged)
		}
		v, ok := m.staged[m.entry(label)]
		return found(v, ok)
	case keys:
		return fmt.Sprint(slices.Sorted(maps.Keys(m.staged)))
	case put:
		v := strconv.Itoa(label)
		switch {
		case m.sum:
			old, _ := strconv.Atoi(m.staged[""])
			v = strconv.Itoa(old + label)
		case m.bare:
			v = ""
		}
		m.staged[m.entry(label)] = v
	case remove:
		_, ok := m.staged["a"]
		delete(m.staged, "a")
		if !m.direct {
			return strconv.FormatBool(ok)
		}
	case clearAll:
		m.staged = map[string]string{}
	case fill:
		m.staged = maps.Clone(m.filled)
	case all:
		return listing(m.staged)
	}
	return ""
}

// matrixCase is a sequence of operations, those from split on in an element of their own.
type matrixCase struct {
	kind   string
	filled bool
	ops    string
	split  int
}

// cases are all that have up to n operations.
func cases(kind, ops string, n int) (list []matrixCase) {
	sequences := []string{""}
	for from := 0; n >= 0; n-- {
		to := len(sequences)
		for _, s := range sequences[from:to] {
			for split := min(1, len(s)); split <= len(s); split++ {
				list = append(list, matrixCase{kind, false, s, split}, matrixCase{kind, true, s, split})
			}
			for _, op := range ops {
				sequences = append(sequences, s+string(op))
			}
		}
		from = to
	}
	return list
}

func (c matrixCase) key() string {
	start := "empty"
	if c.filled {
		start = "filled"
	}
	ops := c.ops
	if c.split < len(c.ops) {
		ops = c.ops[:c.split] + "|" + c.ops[c.split:]
	}
	return c.kind + " " + start + " " + ops
}

// elements are those of the case, in order.
func (c matrixCase) elements() (list []element) {
	var steps []string
	if c.filled {
		steps = append(steps, string(fill))
	}
	steps = append(steps, c.ops[:c.split])
	if c.split < len(c.ops) {
		steps = append(steps, c.ops[c.split:])
	}
	for i, ops := range append(steps, string(all)) {
		list = append(list, element{c.key(), fmt.Sprint(i, " ", ops)})
	}
	return list
}

// want is what the elements of the case must say.
func (c matrixCase) want() (lines []string) {
	m := &model{cellKind: kinds[c.kind], stored: map[string]string{}}
	for _, e := range c.elements() {
		m.staged = maps.Clone(m.stored)
		lines = append(lines, transcript(e.Key, e.Value, func(_ string, op byte, label int) (string, error) {
			return m.do(op, label), nil
		}))
	}
	return lines
}

// byKey gathers the lines of each case. They must be in order, and are compared so.
func byKey(lines []string) map[string][]string {
	m := map[string][]string{}
	for _, line := range lines {
		key, _, _ := strings.Cut(line, " step ")
		m[key] = append(m[key], line)
	}
	return m
}

func compare(t *testing.T, list []matrixCase, lines []string) {
	t.Helper()
	got, failures := byKey(lines), 0
	for _, c := range list {
		if want := c.want(); !slices.Equal(got[c.key()], want) {
			failures++
			if failures <= 20 {
				t.Errorf("\n got %q\nwant %q", got[c.key()], want)
			}
		}
	}
	if failures > 0 {
		t.Errorf("%d of %d cases", failures, len(list))
	}
}

// On the kit, over both providers: each element is a bundle of its own.
func TestMatrixOnTheKit(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(cells)) {
		n := 4
		if racedetector.Enabled {
			n = 3
		}
		list := cases(kind, kinds[kind].ops, n)
		for _, sdk := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " sdk=", sdk), func(t *testing.T) {
				fn := newMatrixFn()
				k, err := beamtest.New(fn)
				if err != nil {
					t.Fatal(err)
				}
				k.SDK = sdk
				var lines []string
				for _, c := range list {
					for _, e := range c.elements() {
						if err := k.Run(e.Key, func(sp beamstate.Provider, _ timers.Provider) error {
							fn.ProcessElement(sp, e.Key, e.Value, func(line string) { lines = append(lines, line) })
							return nil
						}); err != nil {
							t.Fatal(err)
						}
					}
				}
				compare(t, list, lines)
			})
		}
	}
}

// On the embedded runner: all elements are one bundle, or, up to three operations, each
// element of a case is in a bundle of its own. With the race detector, to stay below a
// minute, a sequence of four is split in the middle alone, and all but that have two.
func TestMatrix(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(cells)) {
		few := 3
		if racedetector.Enabled {
			few = 2
		}
		n := few
		if kind == "memory" {
			n = 4
		}
		list := cases(kind, kinds[kind].ops, n)
		if racedetector.Enabled {
			list = slices.DeleteFunc(list, func(c matrixCase) bool { return len(c.ops) == 4 && c.split%2 == 1 })
		}
		t.Run(kind+" one bundle", func(t *testing.T) {
			compare(t, list, runMatrix(t, newMatrixFn(), func(s beam.Scope) beam.PCollection { return elements(s, inOneStep(list)[0]) }))
		})
		t.Run(kind+" bundles", func(t *testing.T) {
			list := cases(kind, kinds[kind].ops, few)
			compare(t, list, runMatrix(t, newMatrixFn(), bundles(t, inSteps(list))))
		})
	}
}

// inOneStep are all elements of the cases.
func inOneStep(list []matrixCase) [][]element {
	var all []element
	for _, c := range list {
		all = append(all, c.elements()...)
	}
	return [][]element{all}
}

// inSteps are the first elements of all cases, then the second ones, and so on.
func inSteps(list []matrixCase) [][]element {
	steps := make([][]element, 4)
	for _, c := range list {
		for i, e := range c.elements() {
			steps[i] = append(steps[i], e)
		}
	}
	return steps
}

// bundles are a bundle for each step.
func bundles(t *testing.T, steps [][]element) func(s beam.Scope) beam.PCollection {
	t.Helper()
	st := newStream(t)
	for i, step := range steps {
		st.add(int64(i), step...)
	}
	return st.create
}

func runMatrix(t *testing.T, fn any, source func(s beam.Scope) beam.PCollection) []string {
	t.Helper()
	lines, err := runPrism(func(s beam.Scope, record func(beam.PCollection)) {
		record(beam.ParDo(s, fn, source(s)))
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
