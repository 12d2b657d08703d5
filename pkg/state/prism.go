package state

import (
	"flag"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
)

func init() {
	beam.RegisterInit(func() {
		if prismIsChosen() {
			KeepKeysWhole()
		}
	})
}

// noSplits is an experiment of Prism, the embedded runner, that stops it from splitting bundles.
const noSplits = "prism_disable_sdf_split"

// KeepKeysWhole asks Prism, the embedded runner, not to split bundles. beam.Init calls it in
// every program that links this package, unless the flag --runner names another runner. Call it
// yourself, after beam.Init and before the pipeline runs, if Prism runs under another name, such
// as --runner=universal with the endpoint of a Prism server. It adds an experiment to the options
// of the pipeline. Other runners ignore it.
//
// Without it, Prism splits a bundle that makes no progress for about 200 ms, for example because
// it waits for a model, and it may split between two elements of one key. Both parts then run at
// the same time, each with its own state. One of the two states is lost silently, or the job
// hangs.
func KeepKeysWhole() {
	if !slices.Contains(jobopts.GetExperiments(), noSplits) {
		*jobopts.Experiments = strings.TrimPrefix(*jobopts.Experiments+","+noSplits, ",")
	}
}

// prismIsChosen reports whether --runner names Prism or is empty, because Prism is Beam's
// default. It looks the flag up by name: importing the flag would define it in programs that have
// their own flag "runner".
func prismIsChosen() bool {
	runner := flag.Lookup("runner")
	return runner == nil || slices.Contains([]string{"", "prism", "PrismRunner"}, runner.Value.String())
}
