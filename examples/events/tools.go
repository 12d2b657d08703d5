package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*toolCallFn]())
	beam.RegisterDoFn(reflect.TypeFor[*toolFn]())
	register.Emitter2[string, *pb.TraceEvent]()
	register.Iter1[*pb.TraceEvent]()
}

// toolStatistics aggregates the calls of each tool. It returns a PCollection<string> of JSON.
func toolStatistics(s beam.Scope, traces beam.PCollection) beam.PCollection {
	s = s.Scope("ToolStatistics")
	return beam.ParDo(s, &toolFn{}, beam.GroupByKey(s, beam.ParDo(s, &toolCallFn{}, traces)))
}

type toolCallFn struct{}

// ProcessElement emits a call under the name of its tool. It skips subagents.
func (*toolCallFn) ProcessElement(e *pb.TraceEvent, emit func(string, *pb.TraceEvent)) {
	if e.GetEventType() == pb.TraceEvent_TOOL_CALL && e.GetAttributes()["gen_ai.operation.name"] == "execute_tool" {
		emit(e.GetAttributes()["gen_ai.tool.name"], e)
	}
}

// tool has the statistics of a tool. Times are in ms, and only of calls that have ended.
type tool struct {
	Tool       string           `json:"tool"`
	Calls      int64            `json:"calls"`
	Failures   map[string]int64 `json:"failures"` // by error.type
	Incomplete int64            `json:"incomplete"`
	ExitCodes  map[string]int64 `json:"exit_codes"`
	TotalMS    int64            `json:"total_ms"`
	MaxMS      int64            `json:"max_ms"`
}

type toolFn struct{}

// ProcessElement emits at the beginning of time, so that the file is sorted by its lines.
func (*toolFn) ProcessElement(name string, next func(**pb.TraceEvent) bool) (beam.EventTime, string, error) {
	t := tool{Tool: name, Failures: map[string]int64{}, ExitCodes: map[string]int64{}}
	var e *pb.TraceEvent
	for next(&e) {
		t.Calls++
		if kind, ok := e.GetAttributes()["error.type"]; ok {
			t.Failures[kind]++
		}
		if code, ok := e.GetAttributes()["beam_agents.exit_code"]; ok {
			t.ExitCodes[code]++
		}
		if e.GetAttributes()["beam_agents.incomplete"] != "" {
			t.Incomplete++
			continue
		}
		took := e.GetEndMs() - e.GetStartMs()
		t.TotalMS += took
		t.MaxMS = max(t.MaxMS, took)
	}
	b, err := json.Marshal(t)
	return mtime.MinTimestamp, string(b), err
}

// printTools prints the statistics as a table.
func printTools(w io.Writer, dir string) error {
	file, err := os.Open(filepath.Join(dir, toolsFile))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the file is only read
	var tools []tool
	for lines := json.NewDecoder(file); lines.More(); {
		var t tool
		if err := lines.Decode(&t); err != nil {
			return err
		}
		tools = append(tools, t)
	}
	slices.SortFunc(tools, func(a, b tool) int { return strings.Compare(a.Tool, b.Tool) })
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "tool\tcalls\tfailures\texit codes\ttotal ms\tmax ms")
	for _, t := range tools {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%d\t%d\n", oneLine(t.Tool, 40), t.Calls, tally(t.Failures), tally(t.ExitCodes), t.TotalMS, t.MaxMS)
	}
	return table.Flush()
}

// tally formats counts by name, sorted.
func tally(counts map[string]int64) string {
	var parts []string
	for name, n := range counts {
		parts = append(parts, fmt.Sprintf("%dx %s", n, oneLine(name, 40)))
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// printCounts prints the counters: what was read, and why other input was not.
func printCounts(w io.Writer, counters []metrics.CounterResult) error {
	counts := map[string]int64{}
	for _, c := range counters {
		if c.Key.Namespace == transforms.MetricsNamespace {
			counts[c.Key.Name] += c.Result()
		}
	}
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	var text strings.Builder
	text.WriteByte('\n')
	for _, name := range names {
		fmt.Fprintf(&text, "%-26s %6d\n", name, counts[name])
	}
	_, err := io.WriteString(w, text.String())
	return err
}
