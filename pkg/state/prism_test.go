package state

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
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

const childArgs = "BEAMAGENTS_TEST_INIT"

// beam.Init keeps keys whole where Prism runs, and leaves the options of other runners
// alone. Init works once in a process, so each case has one of its own.
func TestInitKeepsKeysWhole(t *testing.T) {
	if os.Getenv(childArgs) != "" {
		beam.Init()
		fmt.Printf("<%s>", *jobopts.Experiments)
		os.Exit(0)
	}
	for args, want := range map[string]string{
		"":                                     noSplits,
		"--runner=prism":                       noSplits,
		"--runner=PrismRunner":                 noSplits,
		"--experiments=mine":                   "mine," + noSplits,
		"--experiments=" + noSplits:            noSplits,
		"--runner=direct":                      "",
		"--runner=dataflow":                    "",
		"--runner=flink --experiments=mine":    "mine",
		"--runner=universal":                   "",
		"--runner=of_the_users_own":            "",
		"--endpoint=localhost:1":               noSplits,
		"--runner=prism --environment_type=no": noSplits,
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-test.run=^TestInitKeepsKeysWhole$"}, strings.Fields(args)...)...)
		cmd.Env = append(os.Environ(), childArgs+"=1")
		out, err := cmd.Output()
		if err != nil || string(out) != "<"+want+">" {
			t.Errorf("%q: %s, %v; want <%s>", args, out, err, want)
		}
	}
}

// A program without Beam's flag has Prism, or says so itself.
func TestRunnerIsLookedUp(t *testing.T) {
	all := flag.CommandLine
	defer func() { flag.CommandLine = all }()
	flag.CommandLine = flag.NewFlagSet("empty", flag.ContinueOnError)
	if !prismIsChosen() {
		t.Error("without a flag --runner another runner is taken to be named")
	}
	flag.CommandLine.String("runner", "hare", "the user's own")
	if prismIsChosen() {
		t.Error("--runner=hare is taken to name Prism")
	}
}
