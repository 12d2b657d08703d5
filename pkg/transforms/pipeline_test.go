package transforms_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/compat/graph/graphtest"
	"github.com/beamagents/beamagents-go/pkg/events"
	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const frozenPath = "../../golden/pipeline/transforms.txt"

var addFrozen = flag.Bool("add-frozen", false, "add the transforms that are missing in golden/pipeline; those that are there stay")

// everyTransform is a function for each transform of the package, that applies it.
var everyTransform = map[string]func(s beam.Scope){
	"ParseEnvelopes": func(s beam.Scope) {
		_ = transforms.ParseEnvelopes(s, transforms.ParseParams{}, beam.Create(s, []byte{})).Errors
	},
	"KeyByEntity": func(s beam.Scope) { transforms.KeyByEntity(s, beam.Create(s, &pb.AgentEnvelope{})) },
	"Route": func(s beam.Scope) {
		_ = transforms.Route(s, transforms.KeyByEntity(s, beam.Create(s, &pb.AgentEnvelope{}))).Errors
	},
	"MapEnvelopes": func(s beam.Scope) {
		_ = transforms.MapEnvelopes(s, userFunction, beam.Create(s, &pb.AgentEnvelope{})).Errors
	},
	"EncodeErrors": func(s beam.Scope) {
		_ = transforms.EncodeErrors(s, transforms.EncodeErrorsParams{}, beam.Create(s, &pb.ActivationErrorRecord{})).TooLarge
	},
	"RouteIntents": func(s beam.Scope) {
		_ = transforms.RouteIntents(s, beam.Create(s, &pb.ToolIntent{})).Errors
	},
	"SignIntents": func(s beam.Scope) {
		_ = transforms.SignIntents(s, transforms.SignParams{Keyring: "env:KEYS", KeyID: "k1"}, beam.Create(s, &pb.ToolIntent{})).Errors
	},
	"VerifyIntents": func(s beam.Scope) {
		_ = transforms.VerifyIntents(s, transforms.VerifyParams{Mode: intent.ModeOff}, beam.Create(s, &pb.ToolIntent{})).Errors
	},
	"EncodeIntents": func(s beam.Scope) {
		_ = transforms.EncodeIntents(s, transforms.EncodeIntentsParams{}, beam.Create(s, &pb.ToolIntent{})).Errors
	},
	"DecodeIntents": func(s beam.Scope) { // in its two forms
		_ = transforms.DecodeIntents(s, beam.Create(s, []byte{})).Errors
		_ = transforms.DecodeIntents(s, beam.ParDo(s, keyed, beam.Create(s, []byte{}))).Errors
	},
	"DecodeErrors": func(s beam.Scope) {
		_ = transforms.DecodeErrors(s, beam.ParDo(s, keyed, beam.Create(s, []byte{}))).Errors
	},
	"DecodeEvents": func(s beam.Scope) { // in its three forms
		_ = transforms.DecodeEvents(s, beam.Create(s, []byte{})).Errors
		_ = transforms.DecodeEvents(s, beam.ParDo(s, keyed, beam.Create(s, []byte{}))).Errors
		_ = transforms.DecodeEvents(s, beam.Create(s, &pb.AgentEnvelope{})).Errors
	},
	"ProjectEvents":     func(s beam.Scope) { transforms.ProjectEvents(s, beam.Create(s, events.Envelope{})) },
	"EventsToEnvelopes": func(s beam.Scope) { _ = transforms.EventsToEnvelopes(s, beam.Create(s, events.Envelope{})).Errors },
	"EventsToTraces":    func(s beam.Scope) { _ = transforms.EventsToTraces(s, beam.Create(s, events.Envelope{})).Errors },
	"ReadEnvelopes": func(s beam.Scope) {
		_ = transforms.ReadEnvelopes(s, transforms.ReadParams{}, "in/*.jsonl").Errors
	},
	"WriteFolder": func(s beam.Scope) { // a file of each kind of elements
		transforms.WriteFolder(s, "out", map[string]beam.PCollection{
			"a.jsonl": beam.Create(s, &pb.AgentEnvelope{}),
			"b.jsonl": transforms.KeyByEntity(s, beam.Create(s, &pb.AgentEnvelope{})),
		})
	},
	"RunAgent": func(s beam.Scope) {
		_ = transforms.RunAgent(s, transforms.AgentParams{Name: "frozen", Agent: new(frozenAgent)},
			transforms.KeyByEntity(s, beam.Create(s, &pb.AgentEnvelope{}))).Errors
	},
	"ExportTraces": func(s beam.Scope) {
		transforms.ExportTraces(s, transforms.ExportTracesParams{}, beam.Create(s, &pb.TraceEvent{}))
	},
	"DeadLetteredCommands": func(s beam.Scope) { transforms.DeadLetteredCommands(s, beam.Create(s, events.Envelope{})) },
}

// frozenAgent is the agent of a RunAgent that never runs.
type frozenAgent struct{ Limit int }

func init() { transforms.RegisterAgent[*frozenAgent]() }

func (*frozenAgent) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

// shape is what a running job knows of a transform: the name of each step with its
// scopes, and the types of its inputs and outputs in order.
func shape(t *testing.T, name string, apply func(s beam.Scope)) string {
	t.Helper()
	p, s := beam.NewPipelineWithRoot()
	apply(s)
	edges, _, err := p.Build()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, edge := range edges {
		path := edge.Scope().String() + "/" + edge.Name()
		if !strings.Contains(path, "/"+name+"/") {
			continue // what the test puts around it
		}
		fmt.Fprintf(&text, "%s\n", strings.TrimPrefix(path, "root/"))
		for _, in := range edge.Input {
			fmt.Fprintf(&text, "  in  %v\n", in.From.Type())
		}
		for _, out := range edge.Output {
			fmt.Fprintf(&text, "  out %v\n", out.To.Type())
		}
	}
	return text.String()
}

// The update contract: a runner matches the state of a running job by these names.
func TestTransformsAreFrozen(t *testing.T) {
	b, err := os.ReadFile(frozenPath)
	if err != nil {
		t.Fatal(err)
	}
	frozen := map[string]string{}
	for block := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n\n") {
		name, _, _ := strings.Cut(block, "/")
		frozen[name] = block + "\n"
	}
	delete(frozen, "")
	var added strings.Builder
	for _, name := range slices.Sorted(maps.Keys(everyTransform)) {
		got := shape(t, name, everyTransform[name])
		want, ok := frozen[name]
		delete(frozen, name)
		switch {
		case ok:
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: running jobs know another (-frozen +now):\n%s", name, diff)
			}
		case *addFrozen && got != "":
			added.WriteString("\n" + got)
		default:
			t.Errorf("%s is not frozen yet: run this test with -add-frozen\n%s", name, got)
		}
	}
	for gone := range frozen {
		t.Errorf("%s is frozen and is no transform any more, or not in the list of this test", gone)
	}
	if added.Len() > 0 {
		if err := os.WriteFile(frozenPath, append(b, added.String()...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The same as a runner sees it: coders, windowing and code, too.
func TestPipelineIsFrozen(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	// What came after RunAgent is built after it, which so keeps its number.
	late := []string{"ExportTraces"}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(everyTransform)), func(name string) bool { return slices.Contains(late, name) })
	for _, name := range slices.Concat(names, late) {
		everyTransform[name](s.Scope(name)) // which keeps the numbers of equal names to itself
	}
	graphtest.Frozen(t, "../../golden/pipeline/transforms.json", p, *addFrozen)
}
