package beamagents_test

import (
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
)

// The page is what somebody reads at night: it has every reason, with its codes in order.
func TestDeadLetterPageIsComplete(t *testing.T) {
	page := readText(t, "docs/dead-letters.md")
	_, table, _ := strings.Cut(page, "## Reasons and codes")
	rows := strings.Count(table, "\n| `")
	if rows != len(deadletter.Reasons()) {
		t.Errorf("%d rows, but %d reasons", rows, len(deadletter.Reasons()))
	}
	for _, r := range deadletter.Reasons() {
		var words []string
		for _, c := range deadletter.Codes(r) {
			words = append(words, "`"+string(c)+"`")
		}
		if row := "\n| `" + string(r) + "` | " + strings.Join(words, ", ") + " |"; !strings.Contains(page, row) {
			t.Errorf("docs/dead-letters.md lacks %s", row)
		}
	}
}
