package state

import (
	"slices"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
)

func TestKeepKeysWhole(t *testing.T) {
	before := *jobopts.Experiments
	defer func() { *jobopts.Experiments = before }()
	for set, want := range map[string][]string{
		"":                   {noSplits},
		"mine":               {"mine", noSplits},
		"mine,other":         {"mine", "other", noSplits},
		noSplits:             {noSplits},
		"mine," + noSplits:   {"mine", noSplits},
		noSplits + "_at_all": {noSplits + "_at_all", noSplits},
	} {
		*jobopts.Experiments = set
		KeepKeysWhole()
		KeepKeysWhole()
		if got := jobopts.GetExperiments(); !slices.Equal(got, want) {
			t.Errorf("%q: %q; want %q", set, got, want)
		}
	}
}
