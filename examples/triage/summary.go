package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/filter"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*triageCountFn]())
	register.Emitter2[string, int64]()
}

const summaryFile = "summary.jsonl"

// count returns the summary of a run as names and numbers. The pipeline itself counts. So the
// numbers are those of its results on every runner, also if a worker has crashed.
func count(s beam.Scope, keyed beam.PCollection, agents transforms.Agents, letters beam.PCollection) beam.PCollection {
	s = s.Scope("Summary")
	customers := filter.Distinct(s, beam.DropValue(s, keyed))
	counts := []beam.PCollection{beam.ParDo(s, &triageCountFn{Name: "customers"}, customers)}
	for _, col := range []beam.PCollection{beam.DropKey(s, keyed), beam.DropKey(s, agents.Outputs), agents.Intents, agents.Traces, letters} {
		counts = append(counts, beam.ParDo(s, &triageCountFn{}, col))
	}
	return stats.SumPerKey(s, beam.Flatten(s, counts...))
}

// triageCountFn counts an element under its names in the summary.
type triageCountFn struct{ Name string } // the name for elements that are only counted

func (f *triageCountFn) ProcessElement(element beam.T, emit func(string, int64)) error {
	switch e := any(element).(type) {
	case []byte:
		if f.Name != "" {
			emit(f.Name, 1)
			return nil
		}
		var output struct {
			Decision string `json:"decision"`
		}
		if err := json.Unmarshal(e, &output); err != nil {
			return err
		}
		emit("decision/"+output.Decision, 1)
		if output.Decision == timedOut {
			emit("approval/"+timedOut, 1)
		}
	case *pb.AgentEnvelope:
		if _, ok := e.GetPayload().(*pb.AgentEnvelope_ExternalEvent); ok {
			emit("events", 1)
		}
	case *pb.ToolIntent:
		emit("intent/"+e.GetKind().String(), 1) // TOOL or APPROVAL
	case *pb.TraceEvent:
		return countTrace(e, emit)
	case *pb.ActivationErrorRecord:
		letter, err := deadletter.Read(e)
		if err != nil {
			return err
		}
		emit(fmt.Sprintf("dead letter/%s/%s", letter.Reason, letter.Code), 1)
		var env pb.AgentEnvelope
		if letter.InputKind == deadletter.EnvelopeInput && proto.Unmarshal(letter.Input, &env) == nil && env.GetExternalEvent() != nil {
			emit("events failed", 1)
		}
	}
	return nil
}

func countTrace(e *pb.TraceEvent, emit func(string, int64)) error {
	attributes := e.GetAttributes()
	switch e.GetEventType() {
	case pb.TraceEvent_ACTIVATION_START:
		emit("activation/"+attributes["beam_agents.activation.kind"], 1)
	case pb.TraceEvent_ACTIVATION_END:
		if approval := attributes[approvalAttribute]; approval != "" {
			emit("approval/"+approval, 1)
		}
	case pb.TraceEvent_LLM_CALL:
		if attributes["beam_agents.cache_hit"] == "true" {
			emit("model/replayed", 1)
			return nil
		}
		emit("model/made", 1)
		for _, side := range []string{"input", "output"} {
			counted, ok := attributes["gen_ai.usage."+side+"_tokens"]
			if !ok {
				continue // not every model reports its tokens
			}
			tokens, err := strconv.ParseInt(counted, 10, 64)
			if err != nil {
				return fmt.Errorf("the %s tokens of a model call: %w", side, err)
			}
			emit("tokens/"+side, tokens)
		}
	}
	return nil
}

// readSummary reads the numbers of a run.
func readSummary(dir string) (map[string]int64, error) {
	file, err := os.Open(filepath.Join(dir, summaryFile))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the file is only read
	all := map[string]int64{}
	for lines := bufio.NewScanner(file); ; {
		if !lines.Scan() {
			return all, lines.Err()
		}
		var line struct {
			Key   string `json:"key"`
			Value int64  `json:"value"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, err
		}
		all[line.Key] += line.Value
	}
}

// printSummary prints the numbers of a run as a table.
func printSummary(w io.Writer, dir string) error {
	n, err := readSummary(dir)
	if err != nil {
		return err
	}
	row := func(name string, value int64) { fmt.Fprintf(w, "%-36s%9d\n", name, value) }
	group := func(title, prefix string) {
		var total int64
		var names []string
		for name, value := range n {
			if short, ok := strings.CutPrefix(name, prefix); ok {
				total += value
				names = append(names, short)
			}
		}
		slices.Sort(names)
		row(title, total)
		for _, name := range names {
			row("  "+name, n[prefix+name])
		}
	}
	row("customers", n["customers"])
	row("events", n["events"])
	// Each event starts an activation, becomes a dead letter, or is a duplicate.
	row("  duplicates dropped", n["events"]-n["activation/start"]-n["events failed"])
	group("decisions", "decision/")
	row("refund calls", n["intent/TOOL"])
	group("approvals", "approval/")
	group("model calls", "model/")
	group("tokens", "tokens/")
	group("dead letters", "dead letter/")
	return nil
}
