package beamagents_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
)

// The table of docs/metrics.md has the metrics that golden/pipeline freezes, which are those
// of the code: each with its kind and namespace, and no others.
func TestMetricsPage(t *testing.T) {
	page, err := os.ReadFile("docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := os.ReadFile("golden/pipeline/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	row := regexp.MustCompile("(?m)^\\| `([a-z_<>]+)` \\| (counter|distribution)(?:, `([a-z_.]+)`)? \\| [^|]+ \\|$")
	for _, match := range row.FindAllStringSubmatch(string(page), -1) {
		name, kind, namespace := match[1], match[2], match[3]
		if namespace == "" {
			namespace = "beam_agents.runtime"
		}
		names := []string{name}
		if prefix, ok := strings.CutSuffix(name, "<reason>"); ok {
			names = nil
			for _, reason := range deadletter.Reasons() {
				names = append(names, prefix+string(reason))
			}
		}
		for _, name := range names {
			documented = append(documented, kind+" "+namespace+" "+name)
		}
	}
	slices.Sort(documented)
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(frozen)), "\n"), documented); diff != "" {
		t.Errorf("(-frozen +documented):\n%s", diff)
	}
}
