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

// noSplits is an experiment of Prism, the embedded runner.
const noSplits = "prism_disable_sdf_split"

// KeepKeysWhole asks Prism, the embedded runner, not to split bundles. beam.Init calls it
// in every program that links this package, unless the flag --runner names another runner.
// Call it yourself, after beam.Init and before the pipeline runs, only where Prism runs
// under another name, such as --runner=universal with the endpoint of a Prism server. It
// adds an experiment to the pipeline's options, which other runners ignore.
//
// Prism splits a bundle that makes no progress for some 200 ms, as one does that waits for
// a model, even between two elements of one key. Both parts then run at the same time,
// each with its own state. One of the two states is lost without a word, or the job hangs.
func KeepKeysWhole() {
	if !slices.Contains(jobopts.GetExperiments(), noSplits) {
		*jobopts.Experiments = strings.TrimPrefix(*jobopts.Experiments+","+noSplits, ",")
	}
}

// prismIsChosen reports whether --runner names Prism or nothing: Prism is Beam's default.
// The flag is looked up by name, since importing it would define it in programs that have
// a flag "runner" of their own.
func prismIsChosen() bool {
	runner := flag.Lookup("runner")
	return runner == nil || slices.Contains([]string{"", "prism", "PrismRunner"}, runner.Value.String())
}
