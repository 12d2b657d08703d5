package state_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/internal/racedetector"
)

var updateDisagreements = flag.Bool("update-disagreements", false, "write testdata/disagreements.txt anew")

func init() {
	beam.RegisterDoFn(&rawFn{})
	register.Function2x1(sum)
	for kind, k := range map[string]*cellKind{
		"value":     {ops: "GPX", entry: only, filled: oneEntry},
		"bag":       {ops: "GPX", entry: fmtLabel, filled: oneItem},
		"combining": {ops: "GPX", entry: only, filled: oneEntry, sum: true},
		"map":       {ops: "GPDKX", entry: entryA, filled: twoEntries},
		"set":       {ops: "GPDKX", entry: entryA, filled: map[string]string{"a": "", "b": ""}, bare: true},
		"list":      {ops: "GPX", entry: fmtLabel, filled: oneItem},
	} {
		k.direct = true
		kinds[kind] = k
	}
}

func fmtLabel(label int) string { return fmt.Sprint(label) }

func sum(a, b int64) int64 { return a + b }

// rawFn has the SDK's own cells.
type rawFn struct {
	Value     beamstate.Value[string]
	Bag       beamstate.Bag[string]
	Combining beamstate.Combining[int64, int64, int64]
	Map       beamstate.Map[string, string]
	Set       beamstate.Set[string]
	List      beamstate.OrderedList[string]
}

func newRawFn() *rawFn {
	return &rawFn{
		Value:     beamstate.MakeValueState[string]("value"),
		Bag:       beamstate.MakeBagState[string]("bag"),
		Combining: beamstate.MakeCombiningState[int64, int64, int64]("combining", sum),
		Map:       beamstate.MakeMapState[string, string]("map"),
		Set:       beamstate.MakeSetState[string]("set"),
		List:      beamstate.MakeOrderedListState[string]("list"),
	}
}

var rawCells = map[string]func(f *rawFn, sp beamstate.Provider, op byte, label int) (string, error){
	"value":     (*rawFn).value,
	"bag":       (*rawFn).bag,
	"combining": (*rawFn).combining,
	"map":       (*rawFn).mapped,
	"set":       (*rawFn).set,
	"list":      (*rawFn).list,
}

func (f *rawFn) ProcessElement(sp beamstate.Provider, key, value string, emit func(string)) {
	emit(transcript(key, value, func(kind string, op byte, label int) (string, error) {
		return rawCells[kind](f, sp, op, label)
	}))
}

// single is what a cell with one value says.
func single[T any](op byte, v T, ok bool, err error) (string, error) {
	if op == get || err != nil {
		return found(fmt.Sprint(v), ok), err
	}
	entries := map[string]string{}
	if ok {
		entries[""] = fmt.Sprint(v)
	}
	return listing(entries), nil
}

func (f *rawFn) value(sp beamstate.Provider, op byte, label int) (string, error) {
	switch op {
	case put, fill:
		return "", f.Value.Write(sp, fmtLabel(label))
	case clearAll:
		return "", f.Value.Clear(sp)
	}
	v, ok, err := f.Value.Read(sp)
	return single(op, v, ok, err)
}

func (f *rawFn) combining(sp beamstate.Provider, op byte, label int) (string, error) {
	switch op {
	case put, fill:
		return "", f.Combining.Add(sp, int64(label))
	case clearAll:
		return "", f.Combining.Clear(sp)
	}
	v, ok, err := f.Combining.Read(sp)
	return single(op, v, ok, err)
}

// items are those of a bag, each as often as it is there.
func items(list []string) string {
	entries := map[string]string{}
	for _, item := range list {
		entries[item] += item
	}
	return listing(entries)
}

func (f *rawFn) bag(sp beamstate.Provider, op byte, label int) (string, error) {
	switch op {
	case put, fill:
		return "", f.Bag.Add(sp, fmtLabel(label))
	case clearAll:
		return "", f.Bag.Clear(sp)
	}
	list, _, err := f.Bag.Read(sp)
	return items(list), err
}

func (f *rawFn) list(sp beamstate.Provider, op byte, label int) (string, error) {
	switch op {
	case put, fill:
		return "", f.List.Add(sp, int64(label), fmtLabel(label))
	case clearAll:
		return "", f.List.Clear(sp)
	}
	values, _, err := f.List.Read(sp)
	var list []string
	for _, v := range values {
		list = append(list, v.Value)
	}
	return items(list), err
}

func (f *rawFn) mapped(sp beamstate.Provider, op byte, label int) (string, error) {
	switch op {
	case get:
		v, ok, err := f.Map.Get(sp, "a")
		return found(v, ok), err
	case put:
		return "", f.Map.Put(sp, "a", fmtLabel(label))
	case remove:
		return "", f.Map.Remove(sp, "a")
	case clearAll:
		return "", f.Map.Clear(sp)
	case fill:
		if err := f.Map.Put(sp, "a", "1"); err != nil {
			return "", err
		}
		return "", f.Map.Put(sp, "b", "1")
	}
	list, _, err := f.Map.Keys(sp)
	slices.Sort(list)
	if err != nil || op == keys {
		return fmt.Sprint(list), err
	}
	entries := map[string]string{}
	for _, key := range list {
		v, ok, err := f.Map.Get(sp, key)
		if err != nil {
			return "", err
		}
		entries[key] = found(v, ok)
	}
	return listing(entries), nil
}

func (f *rawFn) set(sp beamstate.Provider, op byte, _ int) (string, error) {
	switch op {
	case get:
		ok, err := f.Set.Contains(sp, "a")
		return found("", ok), err
	case put:
		return "", f.Set.Add(sp, "a")
	case remove:
		return "", f.Set.Remove(sp, "a")
	case clearAll:
		return "", f.Set.Clear(sp)
	case fill:
		if err := f.Set.Add(sp, "a"); err != nil {
			return "", err
		}
		return "", f.Set.Add(sp, "b")
	}
	list, _, err := f.Set.Keys(sp)
	slices.Sort(list)
	if err != nil || op == keys {
		return fmt.Sprint(list), err
	}
	entries := map[string]string{}
	for _, key := range list {
		ok, err := f.Set.Contains(sp, key)
		if err != nil {
			return "", err
		}
		entries[key] = map[bool]string{false: "not contained"}[ok]
	}
	return listing(entries), nil
}

// contains reports whether a case is a longer form of another, which has the same start.
func (c matrixCase) contains(other matrixCase) bool {
	first, second := c.ops[:c.split], c.ops[c.split:]
	within := func(s, part string) bool {
		for _, op := range s {
			i := strings.IndexRune(part, op)
			if i < 0 {
				return false
			}
			part = part[i+1:]
		}
		return true
	}
	if c.kind != other.kind || c.filled != other.filled || len(c.ops) <= len(other.ops) {
		return false
	}
	if other.split == len(other.ops) {
		return within(other.ops, first) || within(other.ops, second)
	}
	return within(other.ops[:other.split], first) && within(other.ops[other.split:], second)
}

// disagreements are the cases in which the cells said something else than the model, the
// shortest ones: those that contain another are counted.
func disagreements(list []matrixCase, lines []string) string {
	var out strings.Builder
	got, total := byKey(lines), 0
	var minimal []matrixCase
	for _, c := range list {
		want := c.want()
		if slices.Equal(want, got[c.key()]) {
			continue
		}
		total++
		if slices.ContainsFunc(minimal, c.contains) {
			continue
		}
		minimal = append(minimal, c)
		fmt.Fprintf(&out, "%s\n", strings.TrimPrefix(c.key(), c.kind+" "))
		for i, w := range want {
			said := "nothing"
			if i < len(got[c.key()]) {
				said = got[c.key()][i]
			}
			if said != w {
				fmt.Fprintf(&out, "\tsays %s\n\tnot  %s\n", strings.TrimPrefix(said, c.key()+" "), strings.TrimPrefix(w, c.key()+" "))
			}
		}
	}
	return fmt.Sprintf("%d of %d cases\n%s", total, len(list), out.String())
}

// primed are bundles that another key, filled first, takes part in: to clear a list in a
// bundle that has none yet is a trap of its own.
func primed(t *testing.T, kind string, steps [][]element) func(s beam.Scope) beam.PCollection {
	t.Helper()
	st := newStream(t)
	key := kind + " prime"
	st.add(0, element{key, "0 " + string(fill)})
	for i, step := range steps {
		st.add(int64(i)+1, append(step, element{key, "1 " + string(all)})...)
	}
	return st.create
}

// TestClearOfAFirstList: the runner dies of an OrderedList that is cleared before any key
// of the bundle has one.
func TestClearOfAFirstList(t *testing.T) {
	t.Parallel()
	out, ended := inSubprocess(t, time.Minute, func() {
		_ = runMatrix(t, newRawFn(), func(s beam.Scope) beam.PCollection {
			return elements(s, matrixCase{"list", false, string(clearAll), 1}.elements())
		})
	})
	if ended || !strings.Contains(out, "assignment to entry in nil map") {
		t.Errorf("ended well: %v\n%.2000s", ended, out)
	}
}

const disagreementsFile = "testdata/disagreements.txt"

const disagreementsHead = `What the SDK's own state cells do on the embedded runner, where a user expects something
else. go test ./pkg/state -run RawCells -update-disagreements writes this file.

A case is a cell that is empty or filled, and operations by one element, or by two with a
| between them: Get, Put, remove (D), Keys, clear (X). A last element reads all (?). What
is put is a number: the step, and the place in it. All cases of up to three operations are
counted, the shortest are listed.
`

// An SDK that fixes one of these faults, or has new ones, changes the file.
func TestRawCells(t *testing.T) {
	if racedetector.Enabled {
		t.Skip("it looks at Beam's state and not at ours: make test runs this without the race detector")
	}
	out := bytes.NewBufferString(disagreementsHead)
	for _, kind := range []string{"value", "bag", "combining", "map", "set", "list"} {
		list := cases(kind, kinds[kind].ops, 3)
		one := disagreements(list, runMatrix(t, newRawFn(), primed(t, kind, inOneStep(list))))
		several := disagreements(list, runMatrix(t, newRawFn(), primed(t, kind, inSteps(list))))
		if one == several {
			fmt.Fprintf(out, "\n# %s: %s", kind, one)
		} else {
			fmt.Fprintf(out, "\n# %s, all in one bundle: %s", kind, one)
			fmt.Fprintf(out, "\n# %s, each element in a bundle of its own: %s", kind, several)
		}
	}
	if *updateDisagreements {
		if err := os.WriteFile(disagreementsFile, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(disagreementsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("the disagreements have changed (-known +found):\n%s", diff)
	}
}
