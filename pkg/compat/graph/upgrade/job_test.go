// Package upgrade_test is the upgrade matrix: jobs that are changed while they run, what
// Flink did with their state and timers, and what package compat says of the change.
//
// The table of cases holds what was observed. An ordinary test holds the table to the
// rules of package compat. With the build tag flink, each case is run on a cluster: the
// first version of the job counts and arms timers, is stopped with a savepoint, and the
// second version starts from it; what then happens is compared with the table.
package upgrade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	for _, t := range []reflect.Type{
		reflect.TypeFor[*feedFn](), reflect.TypeFor[*keyFn](),
		reflect.TypeFor[*groupFn](), reflect.TypeFor[*sidedFn](), reflect.TypeFor[*itemFn](), reflect.TypeFor[*constantFn](), reflect.TypeFor[*sidedStateFn](), reflect.TypeFor[*noneFn](),
		reflect.TypeFor[*plainFn](), reflect.TypeFor[*bothFn](), reflect.TypeFor[*joinFn](), reflect.TypeFor[*sumsFn](), reflect.TypeFor[*statelessFn](),
	} {
		beam.RegisterDoFn(t)
	}
	// The SDK looks into a zero value of what is registered as a DoFn, which has no cells
	// here, and makes a schema of what is registered as a type.
	for _, t := range []reflect.Type{reflect.TypeFor[stepFn](), reflect.TypeFor[renamedStepFn](), reflect.TypeFor[cellsFn](), reflect.TypeFor[renamedCellsFn]()} {
		runtime.RegisterType(t)
	}
	register.Function2x1(total) // combining cells take no function that is not registered so
	register.Function2x1(largest)
	for _, f := range []any{pass, passOther, swallow} {
		beam.RegisterFunction(f)
	}
}

// feed is the input of a job, which a test adds to while the job runs. All versions of the
// job read the same feed: a source that was restored goes on where the savepoint was taken.
type feed struct {
	mu        sync.Mutex
	elements  []element
	watermark int64 // seconds
}

// element is a command for a key, at an event time in seconds.
type element struct {
	text string
	at   int64
}

func (f *feed) add(at int64, commands ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range commands {
		f.elements = append(f.elements, element{c, at})
	}
}

func (f *feed) advance(seconds int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watermark = max(f.watermark, seconds)
}

// at is the element of that number, if it is there, and the watermark.
func (f *feed) at(i int64) (element, bool, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := time.Unix(f.watermark, 0)
	if i >= int64(len(f.elements)) {
		return element{}, false, w
	}
	return f.elements[i], true, w
}

// log is what the steps of one version of a job have reported: the last line of each
// subject, and how often there was one.
type log struct {
	mu   sync.Mutex
	last map[string]string
}

func (l *log) report(subject, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[string]string{}
	}
	l.last[subject] = text
}

func (l *log) get(subject string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[subject]
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for subject, text := range l.last {
		lines = append(lines, subject+"="+text)
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// Workers run in the process of the test, so that feeds and logs are global, by name.
var feeds, logs sync.Map

func feedOf(name string) *feed {
	f, _ := feeds.LoadOrStore(name, new(feed))
	return f.(*feed)
}

func logOf(name string) *log {
	l, _ := logs.LoadOrStore(name, new(log))
	return l.(*log)
}

// feedFn is a source of the elements of a feed, with the feed's watermark.
type feedFn struct{ Feed string }

func (*feedFn) CreateInitialRestriction(_ []byte) offsetrange.Restriction {
	return offsetrange.Restriction{Start: 0, End: math.MaxInt64}
}

func (*feedFn) SplitRestriction(_ []byte, r offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{r}
}

func (*feedFn) RestrictionSize(_ []byte, r offsetrange.Restriction) float64 { return r.Size() }

func (*feedFn) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(r))
}

func (*feedFn) InitialWatermarkEstimatorState(_ beam.EventTime, _ offsetrange.Restriction, _ []byte) time.Time {
	return time.Unix(0, 0)
}

func (*feedFn) CreateWatermarkEstimator(at time.Time) *sdf.ManualWatermarkEstimator {
	return &sdf.ManualWatermarkEstimator{State: at}
}

func (*feedFn) WatermarkEstimatorState(e *sdf.ManualWatermarkEstimator) time.Time { return e.State }

func (f *feedFn) ProcessElement(we *sdf.ManualWatermarkEstimator, rt *sdf.LockRTracker, _ []byte, emit func(beam.EventTime, string)) sdf.ProcessContinuation {
	for i := rt.GetRestriction().(offsetrange.Restriction).Start; ; i++ {
		e, ok, watermark := feedOf(f.Feed).at(i)
		if !ok {
			we.UpdateWatermark(watermark)
			return sdf.ResumeProcessingIn(100 * time.Millisecond)
		}
		if !rt.TryClaim(i) {
			return sdf.StopProcessing()
		}
		emit(beam.EventTime(e.at*1000), e.text)
	}
}

// cell names a cell of a step: its id and what is in it.
type cell struct{ ID, Of string }

var count = cell{"count", "int64"}

// made is the cell as the SDK takes it.
func (c cell) made() any {
	switch c.Of {
	case "int64":
		return state.MakeValueState[int64](c.ID)
	case "string":
		return state.MakeValueState[string](c.ID)
	case "bytes":
		return state.MakeValueState[[]byte](c.ID)
	case "bag of int64":
		return state.MakeBagState[int64](c.ID)
	case "map":
		return state.MakeMapState[string, int64](c.ID)
	case "sum":
		return state.MakeCombiningState[int64, int64, int64](c.ID, total)
	case "max":
		return state.MakeCombiningState[int64, int64, int64](c.ID, largest)
	}
	panic("no cell of " + c.Of)
}

// family is a timer family.
type family struct {
	ID         string
	Processing bool
}

var agent = family{"agent", false}

// families are the timers of a step, however many they are.
type families struct{ all []family }

func (f families) Timers() map[string]timers.TimeDomain {
	all := map[string]timers.TimeDomain{}
	for _, family := range f.all {
		all[family.ID] = timers.EventTimeDomain
		if family.Processing {
			all[family.ID] = timers.ProcessingTimeDomain
		}
	}
	return all
}

// spec is what a step does: Log is where it reports, Name what it calls itself.
type spec struct {
	Log, Name string
	Cells     []cell
	Families  []family
}

// cells are the cells of a spec. The SDK finds cells in the fields of a DoFn, and only
// those that hold one.
type cells struct{ Cell0, Cell1 any }

func makeCells(s spec) (c cells) {
	for i, to := range []*any{&c.Cell0, &c.Cell1} {
		if i < len(s.Cells) {
			*to = s.Cells[i].made()
		}
	}
	return c
}

// apply runs a command on every cell and reports them, as "count:3 notes:absent".
func (s spec) apply(c cells, sp state.Provider, key any, command string) error {
	var texts []string
	for i, made := range []any{c.Cell0, c.Cell1} {
		if i >= len(s.Cells) {
			break
		}
		text, err := applyCell(made, sp, command == "add" || command == "add:"+s.Name)
		if err != nil {
			return err
		}
		texts = append(texts, s.Cells[i].ID+":"+text)
	}
	logOf(s.Log).report(s.Name+" "+keyText(key), strings.Join(texts, " "))
	return nil
}

func keyText(key any) string {
	switch k := key.(type) {
	case []byte:
		return string(k)
	case int64:
		return string(rune('a' + k))
	}
	return fmt.Sprint(key)
}

func applyCell(made any, sp state.Provider, add bool) (string, error) {
	switch c := made.(type) {
	case state.Value[int64]:
		return applyValue(c, sp, add, func(n int64) int64 { return n + 1 })
	case state.Value[string]:
		return applyValue(c, sp, add, func(s string) string { return s + "x" })
	case state.Value[[]byte]:
		return applyValue(c, sp, add, func(b []byte) []byte { return append(slices.Clone(b), 'x') })
	case state.Bag[int64]:
		items, ok, err := c.Read(sp)
		if err != nil {
			return "", err
		}
		if add {
			if err := c.Add(sp, 1); err != nil {
				return "", err
			}
			items, ok = append(slices.Clone(items), 1), true
		}
		if !ok {
			return "absent", nil
		}
		return strings.ReplaceAll(fmt.Sprint(items), " ", ","), nil
	case state.Map[string, int64]:
		if add {
			if err := c.Put(sp, "k", 1); err != nil {
				return "", err
			}
		}
		n, ok, err := c.Get(sp, "k")
		return fmt.Sprint(n, ok), err
	case state.Combining[int64, int64, int64]:
		if add {
			if err := c.Add(sp, 1); err != nil {
				return "", err
			}
		}
		n, ok, err := c.Read(sp)
		if err != nil || !ok {
			return "absent", err
		}
		return fmt.Sprint(n), nil
	}
	return "", fmt.Errorf("no cell: %T", made)
}

func applyValue[T any](c state.Value[T], sp state.Provider, add bool, next func(T) T) (string, error) {
	v, ok, err := c.Read(sp)
	if err != nil {
		return "", err
	}
	if add {
		v, ok = next(v), true
		if err := c.Write(sp, v); err != nil {
			return "", err
		}
	}
	if !ok {
		return "absent", nil
	}
	if b, isBytes := any(v).([]byte); isBytes {
		return string(b), nil
	}
	return fmt.Sprint(v), nil
}

// stepFn is a step with cells and timers. It obeys add, look and arm:SECONDS.
type stepFn struct {
	Spec spec
	cells
	Cell0, Cell1 any
	Timers       families
}

func newStep(s spec) *stepFn {
	c := makeCells(s)
	return &stepFn{Spec: s, cells: c, Cell0: c.Cell0, Cell1: c.Cell1, Timers: families{s.Families}}
}

// MarshalJSON leaves out what follows from the spec.
func (f *stepFn) MarshalJSON() ([]byte, error) { return json.Marshal(f.Spec) }

// UnmarshalJSON is the other way of MarshalJSON.
func (f *stepFn) UnmarshalJSON(b []byte) error {
	var s spec
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*f = *newStep(s)
	return nil
}

func (f *stepFn) ProcessElement(sp state.Provider, tp timers.Provider, key beam.X, value beam.Y, emit func(string)) error {
	command := commandText(value)
	if err := f.Spec.arm(tp, command); err != nil {
		return err
	}
	emit(command)
	return f.Spec.apply(f.cells, sp, key, command)
}

// arm sets a timer of each family at the time of a command arm:SECONDS.
func (s spec) arm(tp timers.Provider, command string) error {
	text, ok := strings.CutPrefix(command, "arm:")
	if !ok {
		return nil
	}
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	for _, family := range s.Families {
		if family.Processing {
			timers.InProcessingTime(family.ID).Set(tp, time.Now().Add(8*time.Second))
			continue
		}
		timers.InEventTime(family.ID).Set(tp, time.Unix(at, 0), timers.WithTag("t"))
	}
	return nil
}

func (f *stepFn) OnTimer(_ context.Context, _ beam.EventTime, _ state.Provider, _ timers.Provider, key beam.X, timer timers.Context, _ func(string)) {
	logOf(f.Spec.Log).report("fired "+f.Spec.Name+" "+keyText(key), timer.Family)
}

// renamedStepFn is stepFn with another name. The SDK finds fields of its own alone.
type renamedStepFn struct {
	stepFn
	Cell0, Cell1 any
	Timers       families
}

func newRenamedStep(s spec) *renamedStepFn {
	f := newStep(s)
	return &renamedStepFn{*f, f.Cell0, f.Cell1, f.Timers}
}

// UnmarshalJSON is the other way of MarshalJSON, which is that of stepFn.
func (f *renamedStepFn) UnmarshalJSON(b []byte) error {
	err := f.stepFn.UnmarshalJSON(b)
	*f = *newRenamedStep(f.Spec)
	return err
}

// cellsFn is a step without timers.
type cellsFn struct {
	Spec spec
	cells
	Cell0, Cell1 any
}

func newCells(s spec) *cellsFn {
	c := makeCells(s)
	return &cellsFn{Spec: s, cells: c, Cell0: c.Cell0, Cell1: c.Cell1}
}

// MarshalJSON leaves out what follows from the spec.
func (f *cellsFn) MarshalJSON() ([]byte, error) { return json.Marshal(f.Spec) }

// UnmarshalJSON is the other way of MarshalJSON.
func (f *cellsFn) UnmarshalJSON(b []byte) error {
	var s spec
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*f = *newCells(s)
	return nil
}

func (f *cellsFn) ProcessElement(sp state.Provider, key beam.X, value beam.Y, emit func(string)) error {
	command := commandText(value)
	emit(command)
	return f.Spec.apply(f.cells, sp, key, command)
}

// renamedCellsFn is cellsFn with another name.
type renamedCellsFn struct {
	cellsFn
	Cell0, Cell1 any
}

func newRenamedCells(s spec) *renamedCellsFn {
	f := newCells(s)
	return &renamedCellsFn{*f, f.Cell0, f.Cell1}
}

// UnmarshalJSON is the other way of MarshalJSON, which is that of cellsFn.
func (f *renamedCellsFn) UnmarshalJSON(b []byte) error {
	err := f.cellsFn.UnmarshalJSON(b)
	*f = *newRenamedCells(f.Spec)
	return err
}

// statelessFn has the input of a step and keeps nothing.
type statelessFn struct{ Log, Name string }

func (f *statelessFn) ProcessElement(key []byte, command string, emit func(string)) {
	logOf(f.Log).report(f.Name+" "+keyText(key), "stateless")
	emit(command)
}

// plainFn keeps nothing and reports what comes.
type plainFn struct{ Log, Name string }

func (f *plainFn) ProcessElement(text string, emit func(string)) {
	logOf(f.Log).report(f.Name+" "+text, "seen")
	emit(text)
}

// groupFn reports the groups of a GroupByKey.
type groupFn struct{ Log, Name string }

func (f *groupFn) ProcessElement(key []byte, values func(*beam.Y) bool, emit func(string)) {
	var all []string
	for v := new(beam.Y); values(v); {
		all = append(all, fmt.Sprint(*v))
	}
	slices.Sort(all)
	logOf(f.Log).report(f.Name+" "+string(key), strings.Join(all, ","))
	emit("")
}

// joinFn reports the groups of a CoGroupByKey of two inputs.
type joinFn struct{ Log, Name string }

func (f *joinFn) ProcessElement(key []byte, left, right func(*string) bool, emit func(string)) {
	var all [2][]string
	for i, side := range []func(*string) bool{left, right} {
		for v := ""; side(&v); {
			all[i] = append(all[i], v)
		}
		slices.Sort(all[i])
	}
	logOf(f.Log).report(f.Name+" "+string(key), strings.Join(all[0], ",")+"|"+strings.Join(all[1], ","))
	emit("")
}

// sumsFn reports what a CombinePerKey gives.
type sumsFn struct{ Log, Name string }

func (f *sumsFn) ProcessElement(key []byte, sum beam.X, emit func(string)) {
	logOf(f.Log).report(f.Name+" "+string(key), fmt.Sprint(sum))
	emit("")
}

// sidedFn has a side input of any type, and adds the number of its items.
type sidedFn struct{}

func (f *sidedFn) ProcessElement(text string, side func(*beam.X) bool, emit func(string)) {
	n := 0
	for v := new(beam.X); side(v); {
		n++
	}
	emit(fmt.Sprint(text, " of ", n))
}

// itemFn emits one item, a text or a number.
type itemFn struct{ Number bool }

func (f *itemFn) ProcessElement(_ []byte, emit func(beam.X)) {
	if f.Number {
		emit(int64(1))
		return
	}
	emit("a")
}

// constantFn emits one element.
type constantFn struct{ Text string }

func (f *constantFn) ProcessElement(_ []byte, emit func(string)) { emit(f.Text) }

type countState = state.Value[int64]

// sidedStateFn has a cell and a side input.
type sidedStateFn struct{ Count countState }

func (f *sidedStateFn) ProcessElement(sp state.Provider, _ []byte, command string, side func(*string) bool, emit func(string)) error {
	for v := ""; side(&v); {
		command += " " + v
	}
	emit(command)
	return f.Count.Write(sp, 1)
}

// bothFn is a ParDo and a combine, whichever it is used for.
type bothFn struct{}

func (*bothFn) ProcessElement(_ []byte, command string, emit func(string)) { emit(command) }

func (*bothFn) MergeAccumulators(a, b string) string { return max(a, b) }

func total(a, b int64) int64 { return a + b }

func largest(a, b int64) int64 { return max(a, b) }

// keyFn makes a key and a value of these types of an element "key command".
type keyFn struct{ Key, Value, Prefix string }

func (f *keyFn) ProcessElement(text string, emit func(beam.X, beam.Y)) {
	key, command, _ := strings.Cut(text, " ")
	command = f.Prefix + command
	var k, v any = []byte(key), command
	switch f.Key {
	case "string":
		k = key
	case "int64":
		k = int64(key[0] - 'a')
	}
	switch f.Value {
	case "int64":
		v = int64(len(command))
	case "bytes":
		v = []byte(command)
	}
	emit(k, v)
}

// noneFn emits nothing.
type noneFn struct{}

func (*noneFn) ProcessElement(_ string, _ func([]byte, string)) {}

var typesOf = map[string]reflect.Type{
	"": reflect.TypeFor[string](), "string": reflect.TypeFor[string](), "int64": reflect.TypeFor[int64](), "bytes": reflect.TypeFor[[]byte](),
}

// commandText is the command that a value stands for. A number adds.
func commandText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return "add"
}

func pass(text string) string { return text }

func passOther(text string) string { return text }

func swallow(_ string) {}

// plan is where the parts of one version of a job find their feed and their log.
// Jobs of several cases have one source, which is shared.
type plan struct {
	feed, log string
	shared    *beam.PCollection
}

func (p plan) source(s beam.Scope) beam.PCollection {
	if p.shared != nil {
		return *p.shared
	}
	return beam.ParDo(s, &feedFn{p.feed}, beam.Impulse(s))
}

// spec is that of a step with a count and a timer family.
func (p plan) spec(name string, more ...cell) spec {
	return spec{Log: p.log, Name: name, Cells: append([]cell{count}, more...), Families: []family{agent}}
}

// step is a step with timers in a scope of its name, whose output is watched.
func (p plan) step(s beam.Scope, sp spec, in beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope(sp.Name), newStep(sp), in)
}

func (p plan) cellsStep(s beam.Scope, sp spec, in beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope(sp.Name), newCells(sp), in)
}

// key makes keys and values of these types, in a scope.
func (p plan) key(s beam.Scope, f keyFn, in beam.PCollection) beam.PCollection {
	key := reflect.TypeFor[[]byte]()
	if f.Key != "" {
		key = typesOf[f.Key]
	}
	return beam.ParDo(s, &f, in, beam.TypeDefinition{Var: beam.XType, T: key}, beam.TypeDefinition{Var: beam.YType, T: typesOf[f.Value]})
}

func (p plan) keyed(s beam.Scope, in beam.PCollection) beam.PCollection {
	return p.key(s.Scope("Key"), keyFn{}, in)
}

// none has the type of key, and no elements.
func (p plan) none(s beam.Scope, in beam.PCollection) beam.PCollection {
	return beam.ParDo(s, &noneFn{}, in)
}

// seen reports what comes from the source.
func (p plan) seen(s beam.Scope, in beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope("Seen"), &plainFn{p.log, "seen"}, in)
}

func windowed(s beam.Scope, seconds int, in beam.PCollection) beam.PCollection {
	return beam.WindowInto(s, window.NewFixedWindows(time.Duration(seconds)*time.Second), in)
}
