package compat

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/beamagents/beamagents-go/internal/terminaltext"
)

// Finding is a difference that Check has found, or a problem that Lint has found.
type Finding struct {
	Kind Kind
	// Transform is its name in the new pipeline, or in the old one if it was removed. It is empty
	// for a finding about the platform of the job.
	Transform string
	// Subject is the part of the transform, such as "state memory" or "input i0". It is empty for
	// the transform as a whole.
	Subject string
	// Old and New describe the part before and after. They are empty where it does not exist.
	Old, New string
	// Severity covers all runners.
	Severity Severity
	Rule
}

// String returns the finding in lines. Unprintable characters are escaped.
func (f Finding) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s: %s", f.Severity, f.Kind, terminaltext.Line(cmp.Or(f.Transform, "the job")))
	if f.Subject != "" {
		text.WriteString(", " + terminaltext.Line(f.Subject))
	}
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&text, "\n  %-12s %s", name, terminaltext.Line(value))
		}
	}
	line("what", f.Summary)
	line("old", f.Old)
	line("new", f.New)
	for _, runner := range append(Runners(), Prism) {
		if c := f.On(runner); c.Effect != "" {
			line(string(runner), c.Text()+": "+c.Source)
		}
	}
	line("avoid", f.Avoid)
	return text.String()
}
