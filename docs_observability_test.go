package beamagents_test

import (
	"regexp"
	"strings"
	"testing"
)

// The snippet of the page on traces builds a pipeline.
func TestObservabilityPageSnippet(t *testing.T) {
	snippets := page(t, "docs/observability.md", 1)
	run := readerModule(t, map[string]string{
		"job.go": `package reader

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/transforms"
)

type refunds struct{ LimitCents int64 }

func init() { transforms.RegisterAgent[*refunds]() }

func (*refunds) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

func build(s beam.Scope, input, out string) {
	read := transforms.ReadEnvelopes(s, transforms.ReadParams{}, input)
` + snippets[0] + `
	transforms.WriteFolder(s, out, map[string]beam.PCollection{
		"dead_letters.jsonl": beam.Flatten(s, read.Errors, agents.Errors),
	})
}
`,
		"job_test.go": `package reader

import (
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func TestBuild(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	build(s, "in.jsonl", t.TempDir())
	edges, _, err := p.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edges {
		if strings.Contains(e.Scope().String(), "ExportTraces") {
			return
		}
	}
	t.Error("nothing exports traces")
}
`,
	})
	run("vet", "-mod=readonly", ".")
	run("test", "-mod=readonly", ".")
}

// The metrics to alert on are metrics that there are.
func TestObservabilityPageMetrics(t *testing.T) {
	_, table, _ := strings.Cut(readText(t, "docs/observability.md"), "## What to alert on")
	frozen := readText(t, "golden/pipeline/metrics.txt")
	names := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, match := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			names++
			if !strings.Contains(frozen, " "+match[1]+"\n") {
				t.Errorf("there is no metric %s", match[1])
			}
		}
	}
	if names < 8 {
		t.Errorf("only %d metrics were found", names)
	}
}
