package collector_test

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// collectOneBatch is a collector that takes one batch, prints the number of its spans, and does not
// answer the next batch.
func collectOneBatch(address string) error {
	batches := 0
	next, err := consumer.NewTraces(func(_ context.Context, traces ptrace.Traces) error {
		batches++ // one exporter sends one batch at a time
		fmt.Println(traces.SpanCount())
		if batches > 1 {
			select {}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := listen(grpc, address, next); err != nil {
		return err
	}
	fmt.Println("ready")
	select {} // until it is killed
}

// If the collector dies, or does not exist, spans are lost and counted. The job succeeds, with the
// outputs of a job that exports nothing.
func TestCollectorDies(t *testing.T) {
	model := serveModel(t)
	without := job(t, model, 8, "OTEL_TRACES_EXPORTER=none")
	spans := int64(0)
	for _, e := range without.events {
		if e.GetEventType() != 1 { // the beginning of a span that another event completes
			spans++
		}
	}
	if without.counts["spans_exported"]+without.counts["spans_dropped"] != 0 || spans < 24 {
		t.Fatalf("%d spans; without an exporter %v", spans, without.counts)
	}

	t.Run("was never there", func(t *testing.T) {
		checkDropped(t, without, job(t, model, 8, exportTo(grpc, freeAddress(t))...), 0, spans)
	})

	t.Run("in the middle of a batch", func(t *testing.T) {
		address := freeAddress(t)
		dying := process(collectorVariable + "=" + address)
		out, err := dying.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := dying.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dying.Process.Kill() }) // if the test ends earlier
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "ready\n" {
			t.Fatalf("the collector says %q, %v", line, err)
		}
		taken := make(chan int64, 1)
		go func() {
			first, _ := lines.ReadString('\n')  // "" if the collector ends earlier
			second, _ := lines.ReadString('\n') // it now holds this batch and does not answer
			_ = dying.Process.Kill()
			_ = dying.Wait() // killed
			n, _ := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
			if second == "" {
				n = 0
			}
			taken <- n
		}()
		dead := job(t, model, 8, exportTo(grpc, address)...)
		_ = dying.Process.Kill() // if there was no second batch
		n := <-taken
		if n == 0 {
			t.Fatal("the collector has not been sent two batches")
		}
		checkDropped(t, without, dead, n, spans)
	})
}

// checkDropped compares a job whose collector took some of the spans with a job that exports
// nothing.
func checkDropped(t *testing.T, without, got result, taken, spans int64) {
	t.Helper()
	if diff := cmp.Diff(without.files, got.files); diff != "" {
		t.Errorf("the outputs differ (-without +with):\n%s", diff)
	}
	if len(got.events) != len(without.events) {
		t.Errorf("%d trace events, want %d", len(got.events), len(without.events))
	}
	if c := got.counts; c["spans_exported"] != taken || c["spans_dropped"] != spans-taken || c["export_failures"] == 0 {
		t.Errorf("the collector took %d of %d spans; counters %v", taken, spans, c)
	}
}
