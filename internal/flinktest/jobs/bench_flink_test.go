//go:build flink

package main

import (
	"strings"
	"testing"
)

// BenchmarkThroughput compares runners on one cluster: the SDK's runner, this project's runner with
// its defaults, without those defaults that cost time, and in batch mode, which the SDK's runner
// chooses for bounded sources. The time is that of Flink, from the creation of the job to its end.
func BenchmarkThroughput(b *testing.B) {
	for _, test := range []struct {
		kind    string
		numbers int
	}{{"reshuffle", 400_000}, {"keyed", 20_000}} {
		b.Run(test.kind, func(b *testing.B) {
			r := newRun(b, job{kind: test.kind, keys: 100})
			rate := func(numbers int, flags ...string) float64 {
				r.numbers = numbers
				r.start("LOOPBACK", flags...)
				if got := r.counters()["dropped"]; got != int64(numbers) {
					b.Fatalf("%d of %d numbers came", got, numbers)
				}
				jobs, err := r.cluster.REST.Jobs(r.ctx)
				if err != nil {
					b.Fatal(err)
				}
				last := jobs[0]
				for _, j := range jobs {
					if j.StartTime > last.StartTime {
						last = j
					}
				}
				return float64(numbers) / float64(last.Duration) * 1000
			}
			variants := []struct {
				name  string
				flags []string
			}{
				{"stock", []string{"--runner=flink"}},
				{"agents", nil},
				{"agents-chained", []string{"--flink_operator_chaining", "--flink_bundle_time=1s"}},
				{"agents-batch", []string{"--flink_batch"}},
			}
			sums := map[string]float64{}
			for _, v := range variants { // the first job of a kind is slow
				rate(test.numbers/20, v.flags...)
			}
			for i := range b.N {
				for j := range variants { // each runner has another place in each round
					v := variants[(i+j)%len(variants)]
					sums[v.name] += rate(test.numbers, v.flags...)
				}
			}
			for _, v := range variants {
				b.ReportMetric(sums[v.name]/float64(b.N), v.name+"/s")
				if strings.HasPrefix(v.name, "agents") {
					b.ReportMetric(sums[v.name]/sums["stock"], v.name+":stock")
				}
			}
		})
	}
}
