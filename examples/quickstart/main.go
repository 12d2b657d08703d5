// Quickstart is the smallest useful agent: it pays small refunds, asks a human about large
// ones, and waits for the answers.
//
//	go run ./examples/quickstart --input FILE --out DIR [--runner prism] [--fingerprint FILE]
//
// It prints what the agent has decided. Everything that leaves the agent is in the folder.
// Exit status: 0 when the pipeline ran, dead letters or not, or the fingerprint was
// written; 1 when it failed; 2 for a wrong flag.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"github.com/beamagents/beamagents-go/pkg/compat/graph"
	"github.com/beamagents/beamagents-go/pkg/transforms"
)

func main() {
	input := flag.String("input", "", "file of envelopes, one a line in JSON")
	out := flag.String("out", "", "folder for the outputs, created if need be")
	flag.Parse()
	log.LogLevel = "warn" // at "info" the embedded runner reports every step it takes
	beam.Init()           // does not return in a worker, which has no flag of ours
	if *input == "" || *out == "" {
		fmt.Fprintln(os.Stderr, "usage: quickstart --input FILE --out DIR [--runner prism] [--fingerprint FILE]")
		os.Exit(2)
	}
	p, s := beam.NewPipelineWithRoot()
	build(s, *input, *out)
	graph.WriteIfAsked(p)
	if err := beamx.Run(context.Background(), p); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
	decisions, err := os.ReadFile(filepath.Join(*out, "outputs.jsonl"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
	fmt.Print(string(decisions))
}

// build is the pipeline.
func build(s beam.Scope, input, out string) {
	read := transforms.ReadEnvelopes(s, transforms.ReadParams{}, input)
	agents := transforms.RunAgent(s, transforms.AgentParams{
		Name: "refunds", Agent: &refunds{LimitCents: 5000},
	}, transforms.KeyByEntity(s, read.Envelopes))
	transforms.WriteFolder(s, out, map[string]beam.PCollection{
		"outputs.jsonl":      agents.Outputs,
		"intents.jsonl":      agents.Intents,
		"traces.jsonl":       agents.Traces,
		"snapshots.jsonl":    agents.Snapshots,
		"dead_letters.jsonl": beam.Flatten(s, read.Errors, agents.Errors),
	})
}
