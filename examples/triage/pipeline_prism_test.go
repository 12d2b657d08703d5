package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/internal/prismtest"
)

// run runs the job on a file, and returns its summary and its counters.
func run(t testing.TB, input string, latency time.Duration, concurrency int) (summary, counters map[string]int64) {
	t.Helper()
	model := &localModel{latency: latency}
	server, err := model.start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	dir := t.TempDir()
	p, s := beam.NewPipelineWithRoot()
	desk := &triage{BaseURL: server.URL + "/v1", Model: "m", LimitCents: 5000}
	if err := (job{input: input, out: dir, concurrency: concurrency, desk: desk}).build(s); err != nil {
		t.Fatal(err)
	}
	result := prismtest.Run(t, p)
	counters = map[string]int64{"requests": model.calls.Load()}
	for _, c := range result.Metrics().AllMetrics().Counters() {
		counters[c.Key.Name] += c.Result()
	}
	if summary, err = readSummary(dir); err != nil {
		t.Fatal(err)
	}
	return summary, counters
}

// The numbers that the summary derives are those that the runtime counts.
func TestSummaryIsWhatTheRuntimeCounts(t *testing.T) {
	n, counters := run(t, "sample/sample.jsonl", 0, 64)
	for what, pair := range map[string][2]int64{
		"duplicates":  {n["events"] - n["activation/start"] - n["events failed"], counters["events_duplicate"]},
		"activations": {n["activation/start"] + n["activation/resume"], counters["activations"]},
		"intents":     {n["intent/TOOL"] + n["intent/APPROVAL"], counters["intents_emitted"]},
		"approvals":   {n["approval/approved"] + n["approval/denied"] + n["approval/"+timedOut], n["intent/APPROVAL"]},
		"timeouts":    {n["decision/"+timedOut] + n["dead letter/hitl_timeout/dropped"], counters["timeouts"]},
		// Each refund is called, and its result ends the case.
		"refunds": {n["decision/refunded"] + n["decision/refund failed"] + n["dead letter/hitl_timeout/dropped"], n["intent/TOOL"]},
		// Each decision of the model without a refund is one call; a refund is two, and what
		// the agent does not believe is in no trace.
		"model calls": {n["model/made"] + n["dead letter/activation_error/error"], counters["requests"]},
		// Each resumed activation asks about its case again.
		"replayed": {n["model/replayed"], n["activation/resume"]},
	} {
		if pair[0] != pair[1] || pair[0] == 0 {
			t.Errorf("%s: %d and %d", what, pair[0], pair[1])
		}
	}
}

// charges writes a number of events of a number of customers.
func charges(t testing.TB, events, customers int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "charges.jsonl")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for n := range events {
		fmt.Fprintf(file, `{"key":"customer-%d","event_time_ms":"%d","external_event":{"id":"%d","type":"charge","cents":100}}`+"\n", n%customers, 1_000_000+n, n)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// BenchmarkTriage is the job with 1,000 events of 200 customers and a model that takes a
// while, with 64 activations at once and one after the other.
func BenchmarkTriage(b *testing.B) {
	for _, bench := range []struct {
		latency     time.Duration
		concurrency int
	}{{200 * time.Millisecond, 64}, {200 * time.Millisecond, 1}, {0, 64}, {0, 1}} {
		b.Run(fmt.Sprintf("latency=%v/concurrency=%d", bench.latency, bench.concurrency), func(b *testing.B) {
			input := charges(b, 1000, 200)
			for b.Loop() {
				if n, _ := run(b, input, bench.latency, bench.concurrency); n["decision/no action"] != 1000 {
					b.Fatalf("got %v", n)
				}
			}
			b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s")
		})
	}
}
