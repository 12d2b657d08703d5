// Jobs is the program with the pipelines that the tests of this package crash on a Flink cluster.
//
//	jobs --job count|cells|agents|deadlines|reshuffle|keyed --dir DIR ... --runner agents-flink --endpoint HOST:PORT
//
// A job count, cells or agents reads numbers, one a line, from DIR/numbers and counts them by key
// in state. A step downstream counts them again in its own state, and writes that state to
// DIR/tally. See package tail for the marker files DIR/complete and DIR/until. A job deadlines
// has a bounded input; all its agents suspend, and it writes what they emit to DIR/outputs. The
// jobs reshuffle and keyed are for measurements and generate their numbers.
//
// When the job has ended the program prints its counters as a JSON object.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink" // the stock runner, for comparison
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/beamagents/beamagents-go/internal/tail"
	_ "github.com/beamagents/beamagents-go/pkg/runners/flink"
	"github.com/beamagents/beamagents-go/pkg/transforms"
)

// The marker files of a job, and the file of its numbers.
const (
	numbersFile  = "numbers"
	completeFile = "complete"
	untilFile    = "until"
)

// job holds the values of the flags.
type job struct {
	kind      string
	dir       string
	keys      int
	numbers   int
	perBundle int
	sleepMS   int
	crashes   string
	inserted  bool
}

func main() {
	var j job
	flag.StringVar(&j.kind, "job", "", "count, cells, agents, deadlines, reshuffle or keyed")
	flag.StringVar(&j.dir, "dir", "", "folder of the job, which the workers share")
	flag.IntVar(&j.keys, "keys", 10, "number of keys")
	flag.IntVar(&j.numbers, "numbers", 0, "how many numbers there will be")
	flag.IntVar(&j.perBundle, "per_bundle", 20, "numbers that the source emits at a time")
	flag.IntVar(&j.sleepMS, "sleep_ms", 0, "how long an activation takes")
	flag.StringVar(&j.crashes, "crashes", "", "STEP:NUMBER:KIND,... where KIND is error, panic or kill")
	flag.BoolVar(&j.inserted, "inserted", false, "construct further steps before and between the others")
	flag.Parse()
	log.LogLevel = "warn"
	beam.Init() // does not return in a worker
	p, s := beam.NewPipelineWithRoot()
	if err := j.build(s); err != nil {
		fmt.Fprintln(os.Stderr, "jobs:", err)
		os.Exit(2)
	}
	result, err := beam.Run(context.Background(), *runners.Runner, p)
	if err != nil {
		fmt.Fprintln(os.Stderr, "jobs:", err)
		os.Exit(1)
	}
	counters := map[string]int64{}
	for _, c := range result.Metrics().AllMetrics().Counters() {
		counters[c.Key.Name] += c.Result()
	}
	if err := json.NewEncoder(os.Stdout).Encode(counters); err != nil {
		os.Exit(1)
	}
}

// build builds the pipeline.
func (j job) build(s beam.Scope) error {
	crashes, err := parseCrashes(j.crashes, j.dir)
	if err != nil {
		return err
	}
	if j.kind == "deadlines" {
		agents := transforms.RunAgent(s, transforms.AgentParams{
			Name: "deadlines", Agent: &waitingAgent{},
		}, beam.ParDo(s, &firstEventsFn{Keys: j.keys}, beam.Impulse(s)))
		transforms.WriteFolder(s, filepath.Join(j.dir, "outputs"), map[string]beam.PCollection{
			"outputs.jsonl": agents.Outputs, "dead_letters.jsonl": agents.Errors,
		})
		return nil
	}
	if j.kind == "reshuffle" || j.kind == "keyed" {
		buildBench(s, j)
		return nil
	}
	if j.inserted {
		for _, name := range []string{"Early", "zone"} { // sorts before and after the other names
			early := s.Scope(name)
			beam.ParDo0(early, &ignoreFn{}, beam.Impulse(early))
		}
	}
	numbers := tail.Lines(s, tail.Params{
		File: filepath.Join(j.dir, numbersFile), PerBundle: j.perBundle,
		Complete: filepath.Join(j.dir, completeFile), Until: filepath.Join(j.dir, untilFile),
		Watermark: endMS,
	})
	if j.inserted {
		numbers = beam.ParDo(s.Scope("Passed"), &passFn{}, numbers)
	}
	var counted beam.PCollection // KV<string, string>: the key of the tally, and a count
	switch j.kind {
	case "count":
		keyed := beam.ParDo(s.Scope("Keyed"), &keyFn{Keys: j.keys, Crashes: crashes}, numbers)
		counted = beam.ParDo(s.Scope("Count"), newCountFn(j.dir, crashes), keyed)
	case "cells":
		keyed := beam.ParDo(s.Scope("Keyed"), &keyFn{Keys: j.keys, Crashes: crashes}, numbers)
		counted = beam.ParDo(s.Scope("Cells"), newCellsFn(crashes), keyed)
	case "agents":
		keyed := beam.ParDo(s.Scope("Keyed"), &envelopeFn{Keys: j.keys, Crashes: crashes}, numbers)
		agents := transforms.RunAgent(s, transforms.AgentParams{
			Name: "counter", Agent: &countingAgent{SleepMS: j.sleepMS, LastFrom: j.numbers - j.keys, Crashes: crashes},
		}, keyed)
		counted = beam.ParDo(s.Scope("Outputs"), &outputFn{}, agents.Outputs)
		// A dead letter would be an element that was not counted, so it fails the job.
		beam.ParDo0(s.Scope("Errors"), &refuseFn{}, agents.Errors)
	default:
		return fmt.Errorf("--job %q is not valid: use count, cells, agents, deadlines, reshuffle or keyed", j.kind)
	}
	beam.ParDo(s.Scope("Tally"), newTallyFn(j.dir, crashes), counted)
	return nil
}
