package beamagents_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/state"
	"github.com/beamagents/beamagents-go/pkg/transforms"
)

var agentPages = []string{"docs/agents.md", "docs/suspensions.md", "docs/guarantees.md", "docs/limits.md", "docs/concurrency.md"}

// The snippets of the pages on agents are files of packages whose tests pass, or parts of
// the quickstart.
func TestAgentPagesSnippets(t *testing.T) {
	quickstart := readText(t, "examples/quickstart/refunds.go") + readText(t, "examples/quickstart/main.go")
	files := map[string]string{
		// These tests check what the pages say, and add the code that the pages leave to the
		// reader.
		"agents/desk_test.go": `package desk

import (
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agenttest"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func TestDesk(t *testing.T) {
	agenttest.Everywhere(t, agenttest.AgentParams{Name: "desk", Agent: &Desk{Index: "docs"}}, func(r *agenttest.Runtime) {
		k := r.Key("customer-1")
		search := k.Event(question{"q1", "opening hours?"}).Intent("search")
		if out := k.Event(question{"q1", "opening hours?"}); len(out.Intents) > 0 {
			t.Errorf("delivered twice, and run twice:\n%v", out)
		}
		if out := k.Answer(search, pb.ToolResult_OK, "9 to 5"); string(out.Outputs[0].Value) != "9 to 5" {
			t.Errorf("answered:\n%v", out)
		}
		k.Event(question{"q2", "address?"})
		if out := r.Wait(time.Minute); string(out.Outputs[0].Value) != "the search took too long" {
			t.Errorf("at the deadline:\n%v", out)
		}
		if c, _ := agenttest.Memory[customer](k, "customer"); c.Questions != 2 {
			t.Errorf("the customer has asked %d questions", c.Questions)
		}
	})
}
`,
		"suspensions/refunds_test.go": `package refunds

import (
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/agenttest"
)

// runs returns the arguments that alice approves, and those that run.
func runs(t *testing.T, before, after agent.Agent) (approved, run string) {
	r := agenttest.New(t, agenttest.AgentParams{Name: "refunds", Agent: before})
	k := r.Key("customer-1")
	asked := k.Event(order{Cents: 5000}).Intent("refund")
	r.Wait(time.Hour)
	r.Deploy(agenttest.AgentParams{Name: "refunds", Agent: after})
	return asked.GetArgsJson(), k.Approve(asked, "alice").Intent("refund").GetArgsJson()
}

func TestExact(t *testing.T) {
	if approved, run := runs(t, &Exact{100}, &Exact{2000}); approved != "{\"cents\":4900}" || run != approved {
		t.Errorf("alice has approved %s, and %s runs", approved, run)
	}
}

func TestAnew(t *testing.T) {
	if approved, run := runs(t, &Anew{Exact{100}}, &Anew{Exact{2000}}); approved != "{\"cents\":4900}" || run != "{\"cents\":3000}" {
		t.Errorf("alice has approved %s, and %s runs", approved, run)
	}
}
`,
		"concurrency/model.go": `package writer

import "context"

func model(_ context.Context, prompt string) (string, error) { return "about " + prompt, nil }
`,
		"agents/refunds/main_test.go": `package main

import (
	"os"
	"strings"
	"testing"
)

func TestProgram(t *testing.T) {
	main()
	outputs, err := os.ReadFile("out/outputs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if want := "{\"key\":\"ann\",\"value\":\"__hitl_timeout__\"}\n{\"key\":\"bob\",\"value\":\"__hitl_timeout__\"}\n"; string(outputs) != want {
		t.Errorf("outputs\n%s", outputs)
	}
	intents, err := os.ReadFile("out/intents.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	call, approval, _ := strings.Cut(string(intents), "\n")
	if !strings.Contains(call, "\"kind\":\"TOOL\"") || !strings.Contains(call, "\"key\":\"ann\"") ||
		!strings.Contains(approval, "\"kind\":\"APPROVAL\"") || !strings.Contains(approval, "\"key\":\"bob\"") {
		t.Errorf("intents\n%s", intents)
	}
}
`,
		"concurrency/writer_test.go": `package writer

import (
	"testing"

	"github.com/beamagents/beamagents-go/pkg/agenttest"
)

func TestWriter(t *testing.T) {
	agenttest.Everywhere(t, agenttest.AgentParams{Name: "writer", Agent: &Writer{Calls: 1}}, func(r *agenttest.Runtime) {
		for _, key := range []string{"a", "b", "a"} {
			if out := r.Key(key).Event("bees").Outputs; len(out) != 1 || string(out[0].Value) != "about bees" {
				t.Errorf("the writer emits %v", out)
			}
		}
	})
}
`,
	}
	for _, page := range agentPages {
		for _, snippet := range goSnippets(t, page) {
			name, rest, _ := strings.Cut(strings.TrimPrefix(snippet, "// "), "\n")
			path := strings.TrimSuffix(filepath.Base(page), ".md") + "/" + name
			switch {
			case strings.HasSuffix(name, ".go") && files[path] == "":
				files[path] = rest
			case !strings.Contains(quickstart, snippet):
				t.Errorf("%s: a snippet is neither a new file nor a part of the quickstart:\n%s", page, snippet)
			}
		}
	}
	for _, name := range []string{ // their tests would not compile without them
		"agents/desk.go", "suspensions/refunds.go", "concurrency/writer.go",
	} {
		if files[name] == "" {
			t.Fatalf("there is no %s", name)
		}
	}
	files["agents/refunds/refunds.go"] = readText(t, "examples/quickstart/refunds.go")
	_, input, _ := strings.Cut(readText(t, "docs/agents.md"), "```json\n")
	files["agents/refunds/in.jsonl"], _, _ = strings.Cut(input, "```")
	run := readerModule(t, files)
	run("vet", "-mod=readonly", "./...")
	run("test", "-mod=readonly", "./...")
}

// Reasons and codes on the pages are those of the closed list.
func TestAgentPagesReasons(t *testing.T) {
	seen := 0
	for _, page := range agentPages {
		for _, m := range regexp.MustCompile("`([a-z_]+)`/`([a-z_]+)`").FindAllStringSubmatch(readText(t, page), -1) {
			seen++
			if !slices.Contains(deadletter.Codes(deadletter.Reason(m[1])), deadletter.Code(m[2])) {
				t.Errorf("%s: there is no %s", page, m[0])
			}
		}
	}
	if seen < 20 {
		t.Errorf("found only %d", seen)
	}
}

// testNames are the names of all tests and benchmarks of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	if err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(\w \*testing\.[TB]\)`).FindAllStringSubmatch(readText(t, path), -1) {
			names[m[1]] = true
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// The tests and benchmarks that the README names exist, and each point of what it promises
// names one.
func TestReadmeNamesTests(t *testing.T) {
	names := testNames(t)
	_, promises, _ := strings.Cut(readText(t, "README.md"), "## What you get\n")
	promises, _, _ = strings.Cut(promises, "\n## ")
	points := 0
	for line := range strings.Lines(promises) {
		row := strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| system |") && !strings.HasPrefix(line, "| ---")
		if !row && !strings.HasPrefix(line, "- ") {
			continue
		}
		points++
		found := regexp.MustCompile("`((?:Test|Benchmark)\\w+)`").FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			t.Errorf("no test or benchmark shows that %s", line)
		}
		for _, m := range found {
			if !names[m[1]] {
				t.Errorf("there is no %s, which shows that %s", m[1], line)
			}
		}
	}
	if points < 10 {
		t.Errorf("found only %d points", points)
	}
}

// The tests that the page on guarantees names exist, and each of its rows names one.
func TestGuaranteesPageTests(t *testing.T) {
	tests := testNames(t)
	rows := 0
	for _, row := range tableRows(readText(t, "docs/guarantees.md")) {
		last := row[len(row)-1]
		if strings.HasPrefix(last, "none: ") {
			continue
		}
		rows++
		for name := range strings.SplitSeq(last, ", ") {
			if !tests[strings.Trim(name, "`")] {
				t.Errorf("there is no test %s, which shows that %q", name, row[0])
			}
		}
	}
	if rows < 25 {
		t.Errorf("found only %d rows", rows)
	}
}

// tableRows are the rows of the tables of a page, without their heads.
func tableRows(page string) (rows [][]string) {
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case strings.HasPrefix(line, "| ---"):
			inside = true
		case inside:
			cells := strings.Split(strings.TrimSuffix(line[1:], "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// limitOf are the limits of the page, by the first cell of their row: the constant, and the
// unit in which the page gives it. One without a constant is a text.
var limitOf = map[string][2]string{
	"all values in memory, together":                  {"memory.MaxValueBytes", "MiB"},
	"the same, before a warning":                      {"memory.SoftValueBytes", "KiB"},
	"memory, encoded":                                 {"memory.MaxBlobBytes", "MiB"},
	"name of an entry in memory":                      {"memory.MaxKeyBytes", "bytes"},
	"snapshot of a suspension":                        {"activation.DefaultMaxSnapshotBytes", "MiB"},
	"open intents":                                    {"activation.DefaultMaxIntents", ""},
	"open intents, encoded":                           {"activation.DefaultMaxOutputBytes", "MiB"},
	"events that wait for the end of a suspension":    {"activation.DefaultMaxDeferred", ""},
	"all these events, in bytes":                      {"activation.DefaultMaxDeferredBytes", "MiB"},
	"names of events that are remembered (`EventID`)": {"activation.maxEventIDs", ""},
	"idle time before memory is cleared":              {"", "never"},
	"outputs and intents, encoded":                    {"activation.DefaultMaxOutputBytes", "MiB"},
	"name of a tool":                                  {"agent.maxToolNameBytes", "bytes"},
	"attributes of a trace event":                     {"agent.maxAttributes", ""},
	"name of an attribute":                            {"agent.maxAttributeKey", "bytes"},
	"value of an attribute":                           {"agent.maxAttributeValue", "bytes"},
	"an activation":                                   {"activation.DefaultActivationTimeout", "min"},
	"the longest `ActivationTimeout`":                 {"activation.maxActivationTimeout", "h"},
	"activations that ignore their cancelled context, in a worker process": {"transforms.maxAbandoned", ""},
	"answer to a tool call":                {"agent.ToolIntentTTL", "h"},
	"answer to a request for approval":     {"agent.ApprovalIntentTTL", "h"},
	"suspension":                           {"", "the timeout of `Suspend`"},
	"escalations of a suspension, at most": {"agent.MaxEscalations", ""},
	"channel of an escalation":             {"agent.maxAttributeValue", "bytes"},
	"timeouts and expiries in a row without an event or an answer":                                 {"activation.maxTimeoutsInRow", ""},
	"activations of a key in an hour of event time":                                                {"", "no limit"},
	"event time of an envelope, in ms":                                                             {"deadletter.MaxEventTimeMS", ""},
	"activations at once in a worker process":                                                      {"transforms.DefaultConcurrency", ""},
	"the largest `Concurrency`":                                                                    {"transforms.maxConcurrency", ""},
	"deferred events of a key that run in one call":                                                {"activation.maxDrained", ""},
	"keys whose state is written at once, also at most `Concurrency`":                              {"transforms.maxParallelWrites", ""},
	"what the keys of a bundle hold in memory: queued inputs, state and outputs":                   {"transforms.maxHeldBytes", "MiB"},
	"what each key counts in addition":                                                             {"transforms.sessionBytes", "KiB"},
	"name of an agent":                                                                             {"activation.maxAgentName", "bytes"},
	"encoded envelope":                                                                             {"transforms.DefaultMaxBytes", "MiB"},
	"responses of a key that are stored":                                                           {"replay.MaxEntries", ""},
	"all stored responses of a key, encoded":                                                       {"replay.MaxBlobBytes", "KiB"},
	"event time for which a response is stored (6 h)":                                              {"replay.TTLMS", "ms"},
	"body of a response that is recorded":                                                          {"modelcall.MaxResponseBytes", "MiB"},
	"body of a request whose response is recorded":                                                 {"modelcall.MaxRequestBytes", "MiB"},
	"responses that a worker process remembers, for a retried bundle":                              {"modelcall.MaxMemoEntries", ""},
	"all remembered responses, in bytes":                                                           {"modelcall.MaxMemoBytes", "MiB"},
	"model calls in flight in a worker process":                                                    {"modelcall.DefaultMaxCalls", ""},
	"the largest `MaxModelCalls`":                                                                  {"activation.maxModelCalls", ""},
	"pause that a host asks for":                                                                   {"modelcall.MaxPause", "min"},
	"tokens of an activation":                                                                      {"", "no limit"},
	"the same grace time, at least":                                                                {"isolate.minGrace", "ms"},
	"grace time to return after the context is cancelled: as long as `ActivationTimeout`, at most": {"isolate.maxGrace", "s"},
}

// Each number on the page on limits is that of the code, and no bound is left out.
func TestLimitsPage(t *testing.T) {
	limits := constants(t, "pkg/replay/*.go", "pkg/modelcall/*.go", "pkg/memory/*.go", "pkg/agent/*.go", "pkg/activation/*.go", "pkg/deadletter/*.go", "pkg/transforms/*.go", "pkg/internal/isolate/*.go")
	fields := map[string]bool{"`MaxEnvelopeBytes` of ParseEnvelopes and ReadEnvelopes": true, "fixed": true, "`act.ExpireIntentsAfter`": true, "`Suspend`": true, "the limit of `Escalate`": true}
	for f := range reflect.TypeFor[transforms.AgentParams]().Fields() {
		fields["`"+f.Name+"`"] = true
	}
	shown := map[string]bool{}
	rows := tableRows(readText(t, "docs/limits.md"))
	for _, row := range rows {
		limit, ok := limitOf[row[0]]
		want := limit[1]
		if limit[0] != "" {
			want = inUnit(limits[limit[0]], limit[1])
		}
		if !ok || row[1] != want {
			t.Errorf("the limit of %s is %q, the page says %q", row[0], want, row[1])
		}
		if !fields[row[3]] {
			t.Errorf("%s: %s changes nothing", row[0], row[3])
		}
		shown[limit[0]] = true
	}
	if len(rows) != len(limitOf) {
		t.Errorf("the page has %d rows, this test %d", len(rows), len(limitOf))
	}
	bound := regexp.MustCompile(`\.([mM]in|[mM]ax|Soft|Default|session)[A-Z]`)
	// Of transforms and deadletter only what is RunAgent's.
	for name := range constants(t, "pkg/memory/*.go", "pkg/agent/*.go", "pkg/activation/*.go", "pkg/transforms/agent*.go", "pkg/internal/isolate/*.go") {
		if bound.MatchString(name) && !shown[name] && name != "memory.maxScan" { // which is about speed
			t.Errorf("docs/limits.md does not show %s", name)
		}
	}
}

// inUnit is a number as the pages write it.
func inUnit(n int64, unit string) string {
	per := map[string]int64{
		"KiB": 1 << 10, "MiB": 1 << 20, "ms": int64(time.Millisecond), "s": int64(time.Second), "min": int64(time.Minute), "h": int64(time.Hour),
	}[unit]
	if per > 0 && n%per == 0 {
		n /= per
	}
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return strings.TrimSpace(text + " " + unit)
}

// constants returns the integer constants of files, and the variables that are set to one, by
// package and name. Durations are in nanoseconds.
func constants(t *testing.T, globs ...string) map[string]int64 {
	t.Helper()
	exprs := map[string]ast.Expr{}
	for _, glob := range globs {
		paths, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range g.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && len(v.Values) == len(v.Names) {
						for i, name := range v.Names {
							exprs[filepath.Base(filepath.Dir(path))+"."+name.Name] = v.Values[i]
						}
					}
				}
			}
		}
	}
	values := map[string]int64{}
	for name, e := range exprs {
		pkg, _, _ := strings.Cut(name, ".")
		if n, ok := constant.Int64Val(constant.ToInt(evaluate(exprs, pkg, e))); ok {
			values[name] = n
		}
	}
	return values
}

var durations = map[string]time.Duration{
	"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

// evaluate returns the value of a constant expression of integers, or unknown for any other
// expression.
func evaluate(exprs map[string]ast.Expr, pkg string, e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.ParenExpr:
		return evaluate(exprs, pkg, e.X)
	case *ast.Ident:
		if of := exprs[pkg+"."+e.Name]; of != nil {
			return evaluate(exprs, pkg, of)
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && x.Name == "time" && durations[e.Sel.Name] != 0 {
			return constant.MakeInt64(int64(durations[e.Sel.Name]))
		}
	case *ast.BinaryExpr:
		x, y := evaluate(exprs, pkg, e.X), evaluate(exprs, pkg, e.Y)
		if x.Kind() != constant.Int || y.Kind() != constant.Int {
			break
		}
		switch e.Op {
		case token.SHL:
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, token.SHL, uint(n))
		case token.QUO:
			return constant.BinaryOp(x, token.QUO_ASSIGN, y) // of integers
		case token.ADD, token.SUB, token.MUL:
			return constant.BinaryOp(x, e.Op, y)
		default:
		}
	}
	return constant.MakeUnknown()
}

// The table of parameters has each field of AgentParams, in order, with the default and
// the bounds of the code.
func TestAgentsPageParameters(t *testing.T) {
	c := constants(t, "pkg/activation/*.go", "pkg/transforms/*.go", "pkg/modelcall/*.go")
	limit := func(name, unit string) string { return inUnit(c[name], unit) }
	many := "1 or more"
	want := map[string][2]string{
		"Name":                  {"required", "1 to " + limit("activation.maxAgentName", "") + " of `a-z0-9_-`"},
		"Agent":                 {"required", "pointer to a registered struct"},
		"Concurrency":           {limit("transforms.DefaultConcurrency", ""), "1 to " + limit("transforms.maxConcurrency", "")},
		"ActivationTimeout":     {limit("activation.DefaultActivationTimeout", "min"), "1 ms to " + limit("activation.maxActivationTimeout", "h")},
		"TTL":                   {"never", "1 ms or more"},
		"WhileSuspended":        {"`Defer`", "`Defer` or `Reject`"},
		"MaxDeferred":           {limit("activation.DefaultMaxDeferred", ""), many},
		"MaxDeferredBytes":      {limit("activation.DefaultMaxDeferredBytes", "MiB"), many},
		"MaxIntents":            {limit("activation.DefaultMaxIntents", ""), many},
		"MaxOutputBytes":        {limit("activation.DefaultMaxOutputBytes", "MiB"), many},
		"MaxSnapshotBytes":      {limit("activation.DefaultMaxSnapshotBytes", "MiB"), many},
		"MaxActivationsPerHour": {"no limit", many},
		"MaxTokens":             {"no limit", many},
		"MaxModelCalls":         {limit("modelcall.DefaultMaxCalls", ""), "1 to " + limit("activation.maxModelCalls", "")},
		"NoModelMemo":           {"off", ""},
		"HoldWatermark":         {"off", ""},
		"MeasureDurations":      {"off", ""},
	}
	_, table, _ := strings.Cut(readText(t, "docs/agents.md"), "## Parameters")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := tableRows(table)
	fields := reflect.VisibleFields(reflect.TypeFor[transforms.AgentParams]())
	if len(rows) != len(fields) {
		t.Fatalf("%d rows for %d fields", len(rows), len(fields))
	}
	for i, f := range fields {
		if row := rows[i]; row[0] != "`"+f.Name+"`" || row[1] != want[f.Name][0] || row[2] != want[f.Name][1] {
			t.Errorf("the row of %s is %q, want %q", f.Name, row, want[f.Name])
		}
	}
	// What the page calls the least is the least.
	params := func(set func(p *transforms.AgentParams)) error {
		p := activation.AgentParams{Name: "test", Agent: new(repeatAgent)}
		full := transforms.AgentParams{Name: p.Name, Agent: p.Agent}
		set(&full)
		p.ActivationTimeout, p.TTL = full.ActivationTimeout, full.TTL
		_, err := p.WithDefaults()
		return err
	}
	for _, d := range []time.Duration{time.Millisecond, time.Millisecond - 1} {
		for _, err := range []error{
			params(func(p *transforms.AgentParams) { p.ActivationTimeout = d }), params(func(p *transforms.AgentParams) { p.TTL = d }),
		} {
			if (err == nil) != (d == time.Millisecond) {
				t.Errorf("with %v: %v", d, err)
			}
		}
	}
}

// The page names every optional method of an agent, and every call on an activation.
func TestAgentsPageMethods(t *testing.T) {
	page := readText(t, "docs/agents.md")
	for _, method := range []reflect.Type{
		reflect.TypeFor[agent.Preparer](), reflect.TypeFor[agent.TimeoutRouter](), reflect.TypeFor[agent.EventIdentifier](),
		reflect.TypeFor[agent.SnapshotVersioner](), reflect.TypeFor[agent.SnapshotMigrator](), reflect.TypeFor[agent.TraceLinker](),
	} {
		m := method.Method(0)
		signature := strings.NewReplacer("func(", m.Name+"(", "uint8", "byte").Replace(m.Type.String())
		if !strings.Contains(page, "`"+signature+"`") {
			t.Errorf("docs/agents.md does not have `%s`", signature)
		}
	}
	for m := range reflect.TypeFor[*agent.Activation]().Methods() {
		name := m.Name
		if name == "End" || name == "Restore" { // for runtimes
			continue
		}
		if !strings.Contains(page, "act."+name+"(") {
			t.Errorf("docs/agents.md does not name act.%s", name)
		}
	}
	for kind := agent.Event; kind <= agent.TimedOut; kind++ {
		name := strings.ReplaceAll(kind.String(), "_", "")
		if !regexp.MustCompile("(?i)\n\\| `" + name + "` \\|").MatchString(page) {
			t.Errorf("docs/agents.md does not explain the trigger %v", kind)
		}
	}
}

// The package doc of transforms names what the update contract freezes of an agent. The
// counters are in docs/metrics.md.
func TestTransformsDocNames(t *testing.T) {
	doc := strings.Join(strings.Fields(strings.ReplaceAll(readText(t, "pkg/transforms/doc.go"), "//", " ")), " ")
	names := []string{
		activation.DeadlineTag, activation.TTLTag, activation.WakeTag, state.TimerFamily,
		state.Control{}.StateKey(), state.Memory{}.StateKey(), state.ReplayCache{}.StateKey(), state.Deferred{}.StateKey(), "docs/metrics.md",
	}
	for _, name := range names {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(doc) {
			t.Errorf("pkg/transforms/doc.go does not name %s", name)
		}
	}
}
