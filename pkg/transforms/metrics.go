package transforms

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// WriteMetrics writes the metrics of this package that a job has, one in a line, in the
// order of their names. Steps of a pipeline that count the same are added up.
func WriteMetrics(w io.Writer, result beam.PipelineResult) error {
	type metric struct{ namespace, name, value string }
	var all []metric
	metrics := result.Metrics().AllMetrics()
	counts := map[metric]int64{}
	for _, c := range metrics.Counters() {
		counts[metric{namespace: c.Namespace(), name: c.Name()}] += c.Result()
	}
	for m, n := range counts {
		m.value = strconv.FormatInt(n, 10)
		all = append(all, m)
	}
	type spread struct{ count, sum, low, high int64 }
	spreads := map[metric]spread{}
	for _, d := range metrics.Distributions() {
		m, v := metric{namespace: d.Namespace(), name: d.Name()}, d.Result()
		s, seen := spreads[m]
		if !seen {
			s.low, s.high = v.Min, v.Max
		}
		spreads[m] = spread{s.count + v.Count, s.sum + v.Sum, min(s.low, v.Min), max(s.high, v.Max)}
	}
	for m, s := range spreads {
		m.value = fmt.Sprintf("count %d, sum %d, min %d, max %d", s.count, s.sum, s.low, s.high)
		all = append(all, m)
	}
	all = slices.DeleteFunc(all, func(m metric) bool {
		return m.namespace != MetricsNamespace && m.namespace != ExportNamespace && m.namespace != memoryNamespace
	})
	slices.SortFunc(all, func(a, b metric) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.namespace, b.namespace))
	})
	width := 0
	for _, m := range all {
		width = max(width, len(m.name))
	}
	var text strings.Builder
	for _, m := range all {
		fmt.Fprintf(&text, "%-*s  %s\n", width, m.name, m.value)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
