//go:build flink

package main

import (
	"slices"
	"testing"

	"github.com/beamagents/beamagents-go/internal/flinktest"
)

// A task manager whose class path has Beam's jars runs a batch job with state after another
// job has ended. Its gRPC threads still have the class loader of the ended job. With Flink's
// check of class loaders the first job of all that needs state in batch fails there, and then
// each later one.
func TestStateInBatchAfterAnotherJob(t *testing.T) {
	pom, err := flinktest.POM()
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := flinktest.Start(t.Context(), pom) // no job has loaded a class in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fresh.Stop(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	kinds := append(slices.Repeat([]string{"reshuffle"}, 6), "keyed") // one before is not enough
	for _, kind := range kinds {
		r := newRun(t, job{kind: kind, keys: 10, numbers: 1000})
		r.cluster = fresh
		r.start("LOOPBACK", "--flink_batch")
		if got := r.counters()["dropped"]; got != 1000 {
			t.Errorf("%s: %d numbers, want 1000", kind, got)
		}
	}
}
