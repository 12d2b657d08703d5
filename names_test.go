package beamagents_test

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Beam knows DoFns and emitters by the text of their types, such as transforms.parseFn
// and func(events.Envelope), without the path of the package. The tests of this file see
// to it that this library and packages of a user with the same short names live together.

// ownType is a type that no other package shares its text with: one of our messages or
// of Beam, or one whose name begins with ours. Types of the language are everybody's.
var ownType = regexp.MustCompile(`^(\*|\[\])*((pb|runtimepb|beam)\.\w+|beamagents\w+|byte|string|bool|u?int\d*|float\d\d)$`)

// checkRegistration returns what is wrong with a call to one of Beam's registries.
func checkRegistration(call *ast.CallExpr) (registers bool, fault string) {
	name, arguments, _ := strings.Cut(types.ExprString(call.Fun), "[")
	switch {
	case strings.HasPrefix(name, "register.Iter"): // by the type, not by its text
		return true, ""
	case strings.HasPrefix(name, "register.Emitter"):
		for t := range strings.SplitSeq(strings.TrimSuffix(arguments, "]"), ", ") {
			if !ownType.MatchString(t) {
				fault = "another package may have a " + t
			}
		}
		return true, fault
	case name == "exec.RegisterEmitter":
		t, ok := call.Args[0].(*ast.CallExpr)
		if !ok || !strings.HasPrefix(types.ExprString(t.Fun), "reflect.TypeFor[beamagents") {
			fault = "its type is not called beamagents..."
		}
		return true, fault
	case strings.HasPrefix(name, "register."), name == "reflectx.RegisterFunc":
		return true, "use registerDoFn of pkg/transforms, or beam.RegisterFunction, which knows functions by their path"
	}
	return false, ""
}

// The library registers no emitter and no function under a text that other packages may have. A
// test in pkg/transforms checks the DoFns, because it knows their types.
func TestRegistrationsAreOurs(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("pkg", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				registers, fault := checkRegistration(call)
				if registers {
					seen++
				}
				if fault != "" {
					t.Errorf("%s: %s: %s; Beam would take one for the other (see pkg/transforms/emitters.go)",
						positions.Position(call.Pos()), types.ExprString(call), fault)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 10 {
		t.Errorf("only %d registrations were found: the test looks for the wrong calls", seen)
	}
}

// A program has packages called transforms and events, with DoFns and element types that have the
// same names as ours. It runs its own transforms and ours, whichever of them is registered last.
func TestHostileTwins(t *testing.T) {
	names := doFnNames(t)
	files := map[string]string{}
	for order, first := range map[string]string{
		// Go initializes packages in the order of their paths, dependencies first, and
		// example.test comes before github.com.
		"before": "",
		"after":  "\n\t_ \"" + module + "/pkg/transforms\"",
	} {
		files[order+"/transforms/transforms.go"] = twinTransforms(t, names, order, first)
		files[order+"/events/events.go"] = strings.Replace(twinEvents, "\n\t// FIRST", first, 1)
		files[order+"/a/v1/v1.go"], files[order+"/b/v1/v1.go"] = twinMessage, twinMessage
		files[order+"/main_test.go"] = strings.ReplaceAll(twinTest, "ORDER", order)
	}
	run := readerModule(t, files)
	run("test", "-mod=readonly", "./...")
}

// doFnNames are the names of the types of all DoFns of ours.
func doFnNames(t *testing.T) (names []string) {
	t.Helper()
	for _, match := range regexp.MustCompile(`"name": "\*`+module+`/pkg/transforms\.(\w+)"`).
		FindAllStringSubmatch(readText(t, "golden/pipeline/transforms.json"), -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 10 {
		t.Fatalf("only %d DoFns were found: %q", len(names), names)
	}
	return names
}

// twinTransforms is a user's package with two DoFns for each of ours: one with the common part of
// its name, and one with the whole name. The first checks its type, like the wrappers of Beam's
// register. Beam keeps one wrapper for a name, so a DoFn of the user with our whole name would
// replace our wrapper if it is registered later. So the twin with the whole name has no wrapper.
func twinTransforms(t *testing.T, names []string, order, first string) string {
	t.Helper()
	var inits, types, all strings.Builder
	add := func(name string, wrapped bool) {
		fmt.Fprintf(&types, "type %s struct{}\n\nfunc (*%[1]s) ProcessElement(b []byte, emit func([]byte)) { emit(b) }\n\n", name)
		if wrapped {
			fmt.Fprintf(&inits, `reflectx.RegisterStructWrapper(reflect.TypeFor[%s](), func(fn any) map[string]reflectx.Func {
				return map[string]reflectx.Func{"ProcessElement": reflectx.MakeFunc(fn.(*%[1]s).ProcessElement)}
			})
			`, name)
		}
		fmt.Fprintf(&inits, "beam.RegisterDoFn(reflect.TypeFor[*%s]())\n", name)
		fmt.Fprintf(&all, "&%s{},\n", name)
	}
	for _, name := range names {
		common := []rune(strings.TrimPrefix(name, "beamagents"))
		common[0] = unicode.ToLower(common[0])
		if string(common) != name {
			add(string(common), true)
		}
		add(name, order == "before")
	}
	source, err := format.Source([]byte(`package transforms

import (
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"
` + first + `
)

func init() {
	` + inits.String() + `
}

` + types.String() + `
// All is a DoFn of each type.
var All = []any{
	` + all.String() + `
}
`))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// twinEvents is a user's package with elements that are called as ours are.
const twinEvents = `package events

import (
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	// FIRST
)

type Envelope struct{ Name string }

type Projection struct{ Name string }

func init() {
	beam.RegisterFunction(Name)
	beam.RegisterFunction(Key)
	beam.RegisterFunction(Project)
	beam.RegisterFunction(Stamp)
	beam.RegisterFunction(Join)
	register.Emitter1[Envelope]()
	register.Emitter2[[]byte, Envelope]()
	register.Emitter2[beam.EventTime, Envelope]()
	register.Emitter3[beam.EventTime, []byte, Envelope]()
	register.Emitter1[Projection]()
	register.Iter1[Envelope]()
}

func Name(b []byte, emit func(Envelope)) { emit(Envelope{string(b)}) }

func Key(e Envelope, emit func([]byte, Envelope)) { emit([]byte(e.Name), e) }

func Stamp(ts beam.EventTime, e Envelope, emit func(beam.EventTime, Envelope)) { emit(ts, e) }

func Project(e Envelope, emit func(Projection)) { emit(Projection(e)) }

func Join(_ []byte, next func(*Envelope) bool, emit func(beam.EventTime, []byte, Envelope)) {
	var e Envelope
	for next(&e) {
		emit(0, []byte(e.Name), e)
	}
}
`

// twinMessage is a package of generated messages, as far as coders see it. That two of
// them are called v1 is common.
const twinMessage = `package v1

import (
	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/coders"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

type Message struct{ pb.ToolIntent }

func init() {
	coders.Register((*Message)(nil))
	beam.RegisterFunction(Make)
	beam.RegisterFunction(Text)
}

func Make(b []byte) ([]byte, *Message) {
	m := new(Message)
	m.IntentId = string(b)
	return b, m
}

func Text(_ []byte, next func(**Message) bool, emit func(string)) {
	var m *Message
	for next(&m) {
		emit(m.IntentId)
	}
}
`

const twinTest = `package ORDER

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"

	a "example.test/reader/ORDER/a/v1"
	b "example.test/reader/ORDER/b/v1"
	"example.test/reader/ORDER/events"
	twins "example.test/reader/ORDER/transforms"
	"github.com/beamagents/beamagents-go/pkg/agent"
	ourevents "github.com/beamagents/beamagents-go/pkg/events"
	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const event = ` + "`" + `{"version":1,"type":"command_dead_lettered","payload":{"attempts":3,"command_id":"c","command_type":"bash","error":"e","lane":"l"},` +
	`"metadata":{"session_id":"s","run_id":"r","sequence":1,"timestamp_ms":5}}` + "`" + `

func init() {
	beam.RegisterFunction(pass)
	transforms.RegisterAgent[*echo]()
}

type echo struct{}

func (*echo) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), act.Emit(act.Trigger().Event)
}

func pass(_ context.Context, env *pb.AgentEnvelope) (*pb.AgentEnvelope, error) { return env, nil }

func TestMain(m *testing.M) {
	log.LogLevel = "error"
	os.Exit(ptest.MainRetWithDefault(m, "prism"))
}

func TestTwins(t *testing.T) {
	// The twins are twins: Beam would take one for the other.
	if reflect.TypeFor[events.Envelope]().String() != reflect.TypeFor[ourevents.Envelope]().String() ||
		reflect.TypeFor[events.Envelope]() == reflect.TypeFor[ourevents.Envelope]() {
		t.Fatal("no twins")
	}
	for _, runner := range []string{"direct", "prism"} {
		p, s := beam.NewPipelineWithRoot()
		n := 0
		count := func(col beam.PCollection, want int) {
			n++
			passert.Count(s, col, fmt.Sprintf("%s %d", runner, n), want)
		}

		for _, twin := range twins.All {
			count(beam.ParDo(s, twin, beam.Create(s, []byte("x"))), 1)
		}
		theirs := beam.ParDo(s, events.Stamp, beam.ParDo(s, events.Name, beam.Create(s, []byte("x"))))
		count(beam.ParDo(s, events.Project, theirs), 1)
		count(beam.ParDo(s, events.Join, beam.GroupByKey(s, beam.ParDo(s, events.Key, theirs))), 1)

		for _, fns := range [][2]any{{a.Make, a.Text}, {b.Make, b.Text}} {
			count(beam.ParDo(s, fns[1], beam.GroupByKey(s, beam.ParDo(s, fns[0], beam.Create(s, []byte("x"))))), 1)
		}

		raw := beam.Create(s, []byte(event))
		decoded := transforms.DecodeEvents(s, raw)
		count(decoded.Errors, 0)
		count(transforms.ProjectEvents(s, decoded.Events), 1)
		letters := transforms.DeadLetteredCommands(s, decoded.Events)
		count(letters, 1)
		encodedErrors := transforms.EncodeErrors(s, transforms.EncodeErrorsParams{}, letters)
		count(encodedErrors.TooLarge, 0)
		decodedErrors := transforms.DecodeErrors(s, encodedErrors.Encoded)
		count(decodedErrors.Records, 1)
		count(decodedErrors.Errors, 0)
		traces := transforms.EventsToTraces(s, decoded.Events)
		count(traces.Traces, 3)
		count(traces.Errors, 0)
		envelopes := transforms.EventsToEnvelopes(s, decoded.Events)
		count(envelopes.Errors, 0)
		mapped := transforms.MapEnvelopes(s, pass, beam.DropKey(s, envelopes.Envelopes))
		count(mapped.Errors, 0)
		again := transforms.DecodeEvents(s, mapped.Envelopes)
		count(again.Events, 1)
		count(again.Errors, 0)
		routed := transforms.Route(s, transforms.KeyByEntity(s, mapped.Envelopes))
		count(routed.Errors, 0)
		keyed := transforms.DecodeEvents(s, routed.Events)
		count(keyed.Events, 1)
		count(keyed.Errors, 0)

		parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, raw)
		count(parsed.Envelopes, 0)
		count(parsed.Errors, 1)

		signed := transforms.SignIntents(s, transforms.SignParams{Keyring: "env:TWINS_KEYRING", KeyID: "k"}, beam.Create(s, &pb.ToolIntent{IntentId: "i"}))
		count(signed.Errors, 0)
		encoded := transforms.EncodeIntents(s, transforms.EncodeIntentsParams{}, signed.Intents)
		count(encoded.Errors, 0)
		intents := transforms.DecodeIntents(s, encoded.Encoded)
		count(intents.Errors, 0)
		plain := transforms.DecodeIntents(s, beam.DropKey(s, encoded.Encoded))
		count(plain.Intents, 1)
		count(plain.Errors, 0)
		verified := transforms.VerifyIntents(s, transforms.VerifyParams{Mode: intent.ModeRequire, Keyring: "env:TWINS_KEYRING"}, intents.Intents)
		count(verified.Errors, 0)
		kinds := transforms.RouteIntents(s, verified.Intents)
		count(kinds.Tools, 1)
		count(kinds.Errors, 0)

		if runner == "prism" { // the direct runner has no state
			agents := transforms.RunAgent(s, transforms.AgentParams{Name: "twin", Agent: new(echo)}, transforms.KeyByEntity(s, mapped.Envelopes))
			count(agents.Outputs, 1)
			count(agents.Traces, 2)
			count(agents.Errors, 0)
		}

		t.Setenv("TWINS_KEYRING", "k=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
		_, err := beam.Run(context.Background(), runner, p)
		for try := 0; try < 4 && err != nil && strings.Contains(err.Error(), "worker.(*W).NextInst"); try++ {
			_, err = beam.Run(context.Background(), runner, p) // a fault of Prism on a busy machine: docs/sdk.md
		}
		if err != nil {
			t.Errorf("%s: %v", runner, err)
		}
	}
}
`
