package main

import (
	"cmp"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/transforms"
)

// job is a run of the pipeline.
type job struct {
	input, out  string
	concurrency int
	desk        *triage
	open        bool   // the source stays open until all agents are done
	exporter    string // exporter of the traces; empty if they are not exported
}

// outputFiles are the files in the folder of a job.
var outputFiles = []string{
	"outputs.jsonl", "intents.jsonl", "traces.jsonl", "snapshots.jsonl", "dead_letters.jsonl", summaryFile,
}

// build builds the pipeline.
func (j job) build(s beam.Scope) error {
	done := filepath.Join(j.out, "done")
	var read transforms.Parsed
	var err error
	if j.open {
		read, err = follow(s, j.input, done)
	} else {
		read = transforms.ReadEnvelopes(s, transforms.ReadParams{}, j.input)
	}
	if err != nil {
		return err
	}
	keyed := transforms.KeyByEntity(s, read.Envelopes)
	agents := transforms.RunAgent(s, transforms.AgentParams{
		Name: "triage", Agent: j.desk, Concurrency: j.concurrency, HoldWatermark: j.open, MeasureDurations: true,
	}, keyed)
	if j.open {
		endWhenDone(s, agents.Outputs, done)
	}
	transforms.ExportTraces(s, transforms.ExportTracesParams{Exporter: cmp.Or(j.exporter, "none")}, agents.Traces)
	letters := beam.Flatten(s, read.Errors, agents.Errors)
	files := map[string]beam.PCollection{}
	for n, col := range []beam.PCollection{
		agents.Outputs, agents.Intents, agents.Traces, agents.Snapshots, letters, count(s, keyed, agents, letters),
	} {
		files[outputFiles[n]] = col
	}
	transforms.WriteFolder(s, j.out, files)
	return nil
}
