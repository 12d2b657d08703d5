package main

import (
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/transforms"
)

// job is a run of the pipeline.
type job struct {
	input, out  string
	concurrency int
	desk        *triage
	open        bool // the source stays open until the agents are done
}

// build makes the pipeline.
func (j job) build(s beam.Scope) error {
	read, done := transforms.Parsed{}, filepath.Join(j.out, "done")
	if !j.open {
		read = transforms.ReadEnvelopes(s, transforms.ReadParams{}, j.input)
	} else {
		var err error
		if read, err = follow(s, j.input, done); err != nil {
			return err
		}
	}
	keyed := transforms.KeyByEntity(s, read.Envelopes)
	agents := transforms.RunAgent(s, transforms.AgentParams{
		Name: "triage", Agent: j.desk, Concurrency: j.concurrency, HoldWatermark: j.open,
	}, keyed)
	if j.open {
		endWhenDone(s, agents.Outputs, done)
	}
	letters := beam.Flatten(s, read.Errors, agents.Errors)
	transforms.WriteFolder(s, j.out, map[string]beam.PCollection{
		"outputs.jsonl":      agents.Outputs,
		"intents.jsonl":      agents.Intents,
		"traces.jsonl":       agents.Traces,
		"snapshots.jsonl":    agents.Snapshots,
		"dead_letters.jsonl": letters,
		summaryFile:          count(s, keyed, agents, letters),
	})
	return nil
}
