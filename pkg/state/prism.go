package state

import (
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
)

// noSplits is an experiment of Prism, the embedded runner.
const noSplits = "prism_disable_sdf_split"

// KeepKeysWhole is for programs that run keyed state on Prism, the embedded runner: call
// it once, after beam.Init, before the pipeline runs. Other runners ignore it.
//
// Prism splits a bundle that makes no progress for some 200 ms, as one that waits for a
// model does, and in the midst of a key's elements if it comes to that. Both parts then
// run at once, each with a state of its own, of which one is lost without a word; or the
// job hangs. This asks it, by an experiment in the pipeline's options, not to.
func KeepKeysWhole() {
	if !slices.Contains(jobopts.GetExperiments(), noSplits) {
		*jobopts.Experiments = strings.TrimPrefix(*jobopts.Experiments+","+noSplits, ",")
	}
}
