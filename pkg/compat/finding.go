package compat

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/beamagents/beamagents-go/internal/terminaltext"
)

// Finding is one difference.
type Finding struct {
	Kind Kind
	// Transform is the name in the new pipeline, or in the old one where it is gone. It is
	// empty where the finding is about the platform of the job.
	Transform string
	// Subject is what of it changed, such as "state memory", "input i0"; empty for the
	// transform as a whole.
	Subject string
	// Old and New are what was and what is, empty for nothing.
	Old, New string
	// Severity is about all runners.
	Severity Severity
	Rule
}

// String is all of f, in lines, with what cannot be printed escaped.
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
