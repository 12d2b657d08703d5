package graph_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window/trigger"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/google/go-cmp/cmp"

	_ "github.com/beamagents/beamagents-go/pkg/coders"
	"github.com/beamagents/beamagents-go/pkg/compat"
	"github.com/beamagents/beamagents-go/pkg/compat/graph"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*textsFn]())
	beam.RegisterFunction(split)
	beam.RegisterFunction(emptied)
	beam.RegisterDoFn(reflect.TypeFor[*cellsFn]())
	beam.RegisterDoFn(reflect.TypeFor[*bareFn]())
	beam.RegisterDoFn(reflect.TypeFor[*sideFn]())
	beam.RegisterFunction(keyed)
	beam.RegisterFunction(passOn)
	beam.RegisterFunction(counted)
	beam.RegisterFunction(joined)
	beam.RegisterType(reflect.TypeFor[row]())
	beam.RegisterType(reflect.TypeFor[sumFn]())
}

// The test binary builds a pipeline, too, and prints its fingerprint: another process.
func TestMain(m *testing.M) {
	if parse := parsers[os.Getenv("GRAPH_TEST_PARSER")]; parse != nil {
		parserMain(parse)
	}
	switch os.Getenv("GRAPH_TEST_PIPELINE") {
	case "":
		os.Exit(m.Run())
	case "empty":
		graphMain(beam.NewPipeline())
	case "not UTF-8":
		p, s := beam.NewPipelineWithRoot()
		beam.Impulse(s.Scope("\xff"))
		graphMain(p)
	default:
		p, s := beam.NewPipelineWithRoot()
		everything(s)
		graphMain(p)
	}
}

func graphMain(p *beam.Pipeline) {
	flag.String("runner", "direct", "")
	graph.RegisterPlatform("telling", func() (compat.Platform, error) { return compat.Platform{Environment: "beam:env:process:v1"}, nil })
	graph.RegisterPlatform("failing", func() (compat.Platform, error) { return compat.Platform{}, errors.New("no endpoint") })
	flag.Parse()
	beam.Init()
	graph.WriteIfAsked(p)
	os.Exit(7) // nobody asked
}

type row struct {
	Name  string
	Count int64
	Inner *struct{ Of []string }
}

// cellsFn has a cell of each kind that matters, and timers.
type cellsFn struct {
	Value  state.Value[*pb.MemoryBlob]
	Bag    state.Bag[string]
	Sum    state.Combining[int64, int64, int64]
	Map    state.Map[string, int64]
	Set    state.Set[string]
	Timers timers.EventTime
	Config string
}

func newCellsFn(config string) *cellsFn {
	return &cellsFn{
		Value:  state.MakeValueState[*pb.MemoryBlob]("value"),
		Bag:    state.MakeBagState[string]("bag"),
		Sum:    state.MakeCombiningState[int64, int64, int64]("sum", sumFn{}),
		Map:    state.MakeMapState[string, int64]("map"),
		Set:    state.MakeSetState[string]("set"),
		Timers: timers.InEventTime("agent"), Config: config,
	}
}

func (*cellsFn) ProcessElement(_ state.Provider, _ timers.Provider, _ []byte, _ *pb.AgentEnvelope, _ func(string)) {
}

func (*cellsFn) OnTimer(_ context.Context, _ beam.EventTime, _ state.Provider, _ timers.Provider, _ []byte, _ timers.Context, _ func(string)) {
}

type sumFn struct{}

func (sumFn) MergeAccumulators(a, b int64) int64 { return a + b }

// bareFn has one cell of the SDK.
type bareFn struct{ Value state.Value[int64] }

func (*bareFn) ProcessElement(_ state.Provider, _ []byte, _ *pb.AgentEnvelope, _ func(string)) {}

type sideFn struct{}

func (*sideFn) ProcessElement(_ string, _ func(*string) bool, _ func(*row) bool, _ func(row)) {}

// textsFn has two side inputs of one type.
type textsFn struct{}

func (*textsFn) ProcessElement(_ string, _, _ func(*string) bool, _ func(string)) {}

// split has two outputs of one type.
func split(_ *pb.AgentEnvelope, _, _ func(*pb.AgentEnvelope)) {}

func emptied(_ *pb.AgentEnvelope) string { return "" }

func keyed(e *pb.AgentEnvelope) ([]byte, *pb.AgentEnvelope) { return e.GetEntityKey(), e }

func counted(s string) (string, int64) { return s, 1 }

func passOn(e *pb.AgentEnvelope) *pb.AgentEnvelope { return e }

func joined(_ []byte, _, _ func(**pb.AgentEnvelope) bool, _ func(*pb.AgentEnvelope)) {}

// everything has all that a fingerprint can hold.
func everything(s beam.Scope) {
	keyed := beam.ParDo(s.Scope("Key"), keyed, beam.Create(s, &pb.AgentEnvelope{}))
	texts := beam.ParDo(s.Scope("Cells"), newCellsFn("/secret/path"), keyed)
	rows := beam.Create(s.Scope("Rows"), row{Name: "a"})
	beam.ParDo(s.Scope("Side"), &sideFn{}, texts, beam.SideInput{Input: texts}, beam.SideInput{Input: rows})
	beam.ParDo(s.Scope("Join"), joined, beam.CoGroupByKey(s, keyed, keyed))
	beam.CombinePerKey(s, sumFn{}, beam.ParDo(s, counted, texts))
	windowed := beam.WindowInto(s, window.NewSlidingWindows(time.Minute, 10*time.Second), keyed,
		beam.Trigger(trigger.Repeat(trigger.AfterCount(3))), beam.PanesAccumulate(), beam.AllowedLateness(time.Second))
	beam.GroupByKey(s, windowed)
	beam.GroupByKey(s, beam.WindowInto(s, window.NewSessions(time.Hour), keyed))
	beam.GroupByKey(s, beam.WindowInto(s, window.NewFixedWindows(time.Hour), keyed))
	beam.Reshuffle(s, texts)
	beam.Flatten(s, texts, texts)
}

func fingerprint(t *testing.T, build func(s beam.Scope)) compat.Fingerprint {
	t.Helper()
	p, s := beam.NewPipelineWithRoot()
	build(s)
	f, err := graph.Fingerprint(p)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func text(t *testing.T, f compat.Fingerprint) string {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// program runs the test binary as a pipeline.
func program(t *testing.T, pipeline string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GRAPH_TEST_PIPELINE="+pipeline)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its status says it
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestSameBytesInEveryRunAndProcess(t *testing.T) {
	first := text(t, fingerprint(t, everything))
	for range 50 {
		if diff := cmp.Diff(first, text(t, fingerprint(t, everything))); diff != "" {
			t.Fatalf("another run (-first +now):\n%s", diff)
		}
	}
	for range 3 {
		stdout, stderr, status := program(t, "everything", "--fingerprint", "-")
		if diff := cmp.Diff(first, stdout); status != 0 || stderr != "" || diff != "" {
			t.Fatalf("another process: status %d, %s (-here +there):\n%s", status, stderr, diff)
		}
	}
	f, err := compat.Read(strings.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fingerprint(t, everything), f); diff != "" {
		t.Errorf("read back (-taken +read):\n%s", diff)
	}
}

var update = flag.Bool("update", false, "write testdata anew")

const frozen = "testdata/everything.json"

func TestEverything(t *testing.T) {
	got := text(t, fingerprint(t, everything))
	if *update {
		if err := os.WriteFile(frozen, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(frozen)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-%s +now):\n%s", frozen, diff)
	}
	if strings.Contains(got, "/secret/path") {
		t.Error("the fingerprint holds configuration")
	}
}

// Fingerprints of before, which have no numbers of transforms and no platform, are read
// and compared in what they have.
func TestFingerprintOfBefore(t *testing.T) {
	b, err := os.ReadFile("testdata/everything_without_numbers.json")
	if err != nil {
		t.Fatal(err)
	}
	old, err := compat.Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	now := fingerprint(t, everything)
	now.Platform = &compat.Platform{Environment: "beam:env:process:v1", Parallelism: 2, MaxParallelism: 128, Chaining: compat.Chaining(false)}
	if found := compat.Check(old, now); len(found) > 0 {
		t.Error(found)
	}
	if found := compat.Check(now, old); len(found) > 0 {
		t.Error(found)
	}
}

func TestWriteIfAsked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f.json")
	stdout, stderr, status := program(t, "everything", "--fingerprint="+file)
	b, err := os.ReadFile(file)
	if status != 0 || stdout != "" || stderr != "" || err != nil || string(b) != text(t, fingerprint(t, everything)) {
		t.Errorf("status %d, %q, %q: %v", status, stdout, stderr, err)
	}
	if _, _, status := program(t, "everything"); status != 7 {
		t.Errorf("without the flag: status %d", status)
	}
	if _, stderr, status := program(t, "not UTF-8", "--fingerprint", file); status != 2 || !strings.HasPrefix(stderr, "compat: ") {
		t.Errorf("a name that cannot be written: status %d, %q", status, stderr)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, b) {
		t.Errorf("what was in the file is lost: %v", err)
	}
	for name, tc := range map[string]struct{ runner, platform, stderr string }{
		"a runner that says nothing": {"other", "", ""},
		"a runner that tells":        {"telling", "beam:env:process:v1", ""},
		"a runner that cannot tell":  {"failing", "", "graph: the platform of --runner failing: no endpoint\n"},
	} {
		stdout, stderr, status := program(t, "everything", "--fingerprint", "-", "--runner", tc.runner)
		if stderr != tc.stderr || (status != 0) != (stderr != "") {
			t.Errorf("%s: status %d, %q", name, status, stderr)
			continue
		}
		if stderr != "" {
			continue
		}
		f, err := compat.Read(strings.NewReader(stdout))
		if err != nil {
			t.Fatal(err)
		}
		if (f.Platform == nil) != (tc.platform == "") || f.Platform != nil && f.Platform.Environment != tc.platform {
			t.Errorf("%s: %+v", name, f.Platform)
		}
	}
	for name, tc := range map[string]struct{ pipeline, file, want string }{
		"no such folder": {"everything", filepath.Join(dir, "none", "f.json"), "no such file or directory"},
		"empty pipeline": {"empty", "-", "graph: "},
	} {
		stdout, stderr, status := program(t, tc.pipeline, "--fingerprint", tc.file)
		if status != 2 || stdout != "" || !strings.Contains(stderr, tc.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, stdout %q, stderr %q", name, status, stdout, stderr)
		}
	}
}

func kinds(findings []compat.Finding) []compat.Kind {
	var all []compat.Kind
	for _, f := range findings {
		all = append(all, f.Kind)
	}
	return all
}

// What the SDK does to names and numbers, and what Check makes of it.
func TestChecksOfRealPipelines(t *testing.T) {
	source := func(s beam.Scope) beam.PCollection {
		return beam.ParDo(s, keyed, beam.Create(s, &pb.AgentEnvelope{}))
	}
	one := func(s beam.Scope) { beam.ParDo(s.Scope("Agent"), &bareFn{state.MakeValueState[int64]("v")}, source(s)) }
	unnamed := func(ids ...string) func(s beam.Scope) {
		return func(s beam.Scope) {
			col := source(s)
			for _, id := range ids {
				beam.ParDo(s, &bareFn{state.MakeValueState[int64](id)}, col)
			}
		}
	}
	// A Create for each: they can be told apart by their input alone.
	twins := func(order ...string) func(s beam.Scope) {
		return func(s beam.Scope) {
			cols := map[string]beam.PCollection{"a": source(s.Scope("A")), "b": source(s.Scope("B"))}
			for _, name := range order {
				beam.ParDo(s, &bareFn{state.MakeValueState[int64]("v")}, cols[name])
			}
		}
	}
	two := func(s beam.Scope) (a, b beam.PCollection) { return source(s.Scope("A")), source(s.Scope("B")) }
	ordered := func(join func(s beam.Scope, a, b beam.PCollection)) (old, swapped func(s beam.Scope)) {
		return func(s beam.Scope) { a, b := two(s); join(s, a, b) }, func(s beam.Scope) { a, b := two(s); join(s, b, a) }
	}
	grouped, groupedSwapped := ordered(func(s beam.Scope, a, b beam.PCollection) { beam.CoGroupByKey(s, a, b) })
	flat, flatSwapped := ordered(func(s beam.Scope, a, b beam.PCollection) { beam.Flatten(s, a, b) })
	sides := func(order ...string) func(s beam.Scope) {
		return func(s beam.Scope) {
			cols := map[string]beam.PCollection{}
			for _, name := range []string{"main", "a", "b", "c"} {
				cols[name] = beam.ParDo(s.Scope(name), emptied, beam.Create(s.Scope(name), &pb.AgentEnvelope{}))
			}
			beam.ParDo(s.Scope("Side"), &textsFn{}, cols[order[0]], beam.SideInput{Input: cols[order[1]]}, beam.SideInput{Input: cols[order[2]]})
		}
	}
	outputs := func(swap bool) func(s beam.Scope) {
		return func(s beam.Scope) {
			a, b := beam.ParDo2(s, split, beam.Create(s, &pb.AgentEnvelope{}))
			if swap {
				a, b = b, a
			}
			beam.GroupByKey(s.Scope("A"), beam.ParDo(s.Scope("A"), keyed, a))
			beam.ParDo(s.Scope("B"), passOn, b)
		}
	}
	flatOutputs := func(swap bool) func(s beam.Scope) {
		return func(s beam.Scope) {
			a, b := beam.ParDo2(s, split, beam.Create(s, &pb.AgentEnvelope{}))
			if swap {
				a, b = b, a
			}
			beam.Flatten(s, a, b)
		}
	}
	named := func(order ...string) func(s beam.Scope) {
		return func(s beam.Scope) {
			a, b := two(s)
			for i, col := range []beam.PCollection{a, b} {
				s := s.Scope(order[i])
				again := beam.ParDo(s, keyed, beam.DropKey(s, col))
				beam.ParDo(s, &bareFn{state.MakeValueState[int64]("v")}, again)
			}
		}
	}
	for name, tc := range map[string]struct {
		old, new func(s beam.Scope)
		want     []compat.Kind
	}{
		"inputs of a CoGroupByKey exchanged": {grouped, groupedSwapped, []compat.Kind{compat.InputOrderChanged, compat.InputOrderChanged}},
		"a CoGroupByKey after a new step": {grouped, func(s beam.Scope) {
			beam.ParDo(s.Scope("Before"), passOn, beam.Create(s.Scope("Before"), &pb.AgentEnvelope{}))
			grouped(s)
		}, []compat.Kind{
			compat.TransformAdded, compat.TransformAdded, compat.TransformAdded,
			compat.TransformRenamed, compat.TransformRenamed, compat.GroupingRenamed, compat.TransformRenamed, compat.TransformRenamed,
		}},
		"inputs of a Flatten exchanged":      {flat, flatSwapped, []compat.Kind{compat.InputRewired, compat.InputRewired}},
		"named ones exchanged":               {named("East", "West"), named("West", "East"), []compat.Kind{compat.TransformExchanged, compat.FlinkOperatorExchanged, compat.TransformExchanged, compat.FlinkOperatorExchanged}},
		"outputs exchanged before a Flatten": {flatOutputs(false), flatOutputs(true), []compat.Kind{compat.InputRewired, compat.InputRewired}},
		"side inputs exchanged":              {sides("main", "a", "b"), sides("main", "b", "a"), []compat.Kind{compat.InputOrderChanged, compat.InputOrderChanged}},
		"side inputs shifted":                {sides("main", "a", "b"), sides("main", "b", "c"), []compat.Kind{compat.InputOrderChanged, compat.SideInputRewired}},
		"main and side input exchanged":      {sides("main", "a", "b"), sides("a", "main", "b"), []compat.Kind{compat.FlinkOperatorChanged, compat.AgentsFlinkOperatorChanged, compat.InputOrderChanged, compat.InputOrderChanged}},
		"a side input from elsewhere":        {sides("main", "a", "b"), sides("main", "a", "c"), []compat.Kind{compat.SideInputRewired}},
		"outputs of one type exchanged":      {outputs(false), outputs(true), []compat.Kind{compat.InputOrderChanged, compat.InputOrderChanged}},
		"the same":                           {everything, everything, nil},
		"a stateless step at the end": {one, func(s beam.Scope) {
			one(s)
			beam.ParDo(s.Scope("Later"), passOn, beam.Create(s.Scope("Later"), &pb.AgentEnvelope{}))
		}, []compat.Kind{compat.TransformAdded, compat.TransformAdded, compat.TransformAdded}},
		"another scope": {one, func(s beam.Scope) {
			beam.ParDo(s.Scope("Renamed"), &bareFn{state.MakeValueState[int64]("v")}, source(s))
		}, []compat.Kind{compat.StatefulTransformRenamed, compat.AgentsFlinkOperatorChanged}},
		// Measured: what is constructed before a stateful step changes its Flink operator.
		"a stateless step before": {one, func(s beam.Scope) {
			beam.ParDo(s.Scope("Before"), passOn, beam.Create(s.Scope("Before"), &pb.AgentEnvelope{}))
			one(s)
		}, []compat.Kind{compat.FlinkOperatorChanged, compat.TransformAdded, compat.TransformAdded, compat.TransformAdded}},
		"another cell":            {unnamed("v"), unnamed("w"), []compat.Kind{compat.StateRenamed}},
		"one that is named alike": {unnamed("v"), unnamed("v", "w"), []compat.Kind{compat.FlinkOperatorOrder, compat.StatefulTransformAdded}},
		"exchanged, other shapes": {unnamed("v", "w"), unnamed("w", "v"), []compat.Kind{compat.NumberedTransformMoved, compat.NumberedTransformMoved}},
		"one constructed before":  {unnamed("v"), unnamed("w", "v"), []compat.Kind{compat.NumberedTransformMoved}},
		"exchanged, other inputs": {twins("a", "b"), twins("b", "a"), []compat.Kind{compat.NumberedTransformRewired, compat.FlinkOperatorExchanged, compat.NumberedTransformRewired, compat.FlinkOperatorExchanged}},
		"exchanged, equal in all": {unnamed("v", "v"), unnamed("v", "v"), nil}, // what the page warns of
		"a cell of another type":  {unnamed("v"), func(s beam.Scope) { beam.ParDo(s, newCellsFn(""), source(s)) }, []compat.Kind{compat.StatefulTransformRemoved, compat.StatefulTransformAdded}},
	} {
		t.Run(name, func(t *testing.T) {
			findings := compat.Check(fingerprint(t, tc.old), fingerprint(t, tc.new))
			if diff := cmp.Diff(tc.want, kinds(findings)); diff != "" {
				t.Errorf("(-want +found):\n%s\n%v", diff, findings)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	if _, err := graph.Fingerprint(beam.NewPipeline()); err == nil || !strings.HasPrefix(err.Error(), "graph: ") {
		t.Errorf("an empty pipeline: %v", err)
	}
	if _, err := graph.Fingerprint(nil); err == nil || !strings.HasPrefix(err.Error(), "graph: cannot translate the pipeline: ") {
		t.Errorf("no pipeline: %v", err)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	p, s := beam.NewPipelineWithRoot()
	everything(s)
	for b.Loop() {
		if _, err := graph.Fingerprint(p); err != nil {
			b.Fatal(err)
		}
	}
}
