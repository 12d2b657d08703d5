package compat

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updatePage = flag.Bool("update-page", false, "write the tables of docs/updates.md anew")

// tables begins what follows from the rules, up to the end of the page.
const tables = "<!-- The tables and the sources are written by: go test ./pkg/compat -run TestPage -update-page -->\n"

// The page has a row for each kind, made from its rule, and the sources below.
func TestPageHasEveryKind(t *testing.T) {
	const name = "../../docs/updates.md"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, got, ok := strings.Cut(string(page), tables)
	if !ok {
		t.Fatalf("%s has no line\n%s", name, tables)
	}
	want := rulesPage()
	if *updatePage {
		if err := os.WriteFile(name, []byte(before+tables+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run it with -update-page (-rules +page):\n%s", diff)
	}
}

func rulesPage() string {
	var text strings.Builder
	var sources []string
	cite := func(source string) int {
		if i := slices.Index(sources, source); i >= 0 {
			return i + 1
		}
		sources = append(sources, source)
		return len(sources)
	}
	table := func(kinds []Kind, runners []Runner) {
		text.WriteString("| kind | |")
		for _, r := range runners {
			fmt.Fprintf(&text, " %s |", r)
		}
		text.WriteString(" how to avoid it |\n|" + strings.Repeat(" --- |", len(runners)+3) + "\n")
		for _, k := range kinds {
			rule, _ := RuleOf(k)
			fmt.Fprintf(&text, "| `%s` | %s |", k, rule.Summary)
			for _, r := range runners {
				c := rule.On(r)
				effect := string(c.Effect)
				if c.unsafe() {
					effect = "**" + effect + "**"
				}
				fmt.Fprintf(&text, " %s, %s [%d] |", effect, c.Evidence, cite(c.Source))
			}
			fmt.Fprintf(&text, " %s |\n", rule.Avoid)
		}
	}
	text.WriteString("\n### Between two fingerprints: `compat check`\n\n")
	table(Kinds(), Runners())
	text.WriteString("\n### In one fingerprint: `compat lint`\n\n")
	table(LintKinds(), append(Runners(), Prism))
	text.WriteString("\n### Sources\n\n")
	for i, source := range sources {
		fmt.Fprintf(&text, "%d. %s\n", i+1, source)
	}
	return text.String()
}
