package events

import (
	"reflect"
	"strconv"
	"strings"
)

// VerificationSummary sums up the verification of a run. It may also be read from an array
// of its fields in their order, which must have at least the first six.
type VerificationSummary struct {
	Status                    VerificationStatus `wire:"status"`
	ReportCount               uint64             `wire:"report_count"`
	RequiredCheckCount        uint64             `wire:"required_check_count"`
	PendingRequiredCheckCount uint64             `wire:"pending_required_check_count"`
	FailedCheckCount          uint64             `wire:"failed_check_count"`
	ResidualRiskCount         uint64             `wire:"residual_risk_count"`
	PendingSubjects           []string           `wire:"pending_subjects,empty"`
	FailedSubjects            []string           `wire:"failed_subjects,empty"`
}

func (VerificationSummary) positional() {}

// VerificationStatus is the outcome of a verification.
type VerificationStatus string

// The values of VerificationStatus.
const (
	VerificationPassed      VerificationStatus = "passed"
	VerificationFailed      VerificationStatus = "failed"
	VerificationNeedsReview VerificationStatus = "needs_review"
	VerificationSkipped     VerificationStatus = "skipped"
)

func (VerificationStatus) words() []string {
	return []string{string(VerificationPassed), string(VerificationFailed), string(VerificationNeedsReview), string(VerificationSkipped)}
}

var summaryShape = unions{}.object(reflect.TypeFor[VerificationSummary](), false)

// summaryOf reads v as a summary on which only Text is called. Whatever the size of v, it
// keeps no more subjects than Text needs. The last of equal members counts.
func summaryOf(v Value) (VerificationSummary, bool) {
	fields := summaryShape.fields
	names, found := make([]string, len(fields)), make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	switch v.head() {
	case '{':
		v.members(names, found)
	case '[':
		c := cursor{s: v.text}
		n := 0
		for more := c.open(']'); more; n++ {
			if n == len(fields) {
				return VerificationSummary{}, false
			}
			found[n] = c.raw()
			c.peek()
			more = c.more()
		}
	default:
		return VerificationSummary{}, false
	}
	var s VerificationSummary
	to := reflect.ValueOf(&s).Elem()
	for i := range fields {
		field := to.Field(i)
		if found[i] == "" {
			if fields[i].missing(field) != nil {
				return VerificationSummary{}, false
			}
			continue
		}
		if subjects, isList := reflect.TypeAssert[*[]string](field.Addr()); isList {
			var ok bool
			if *subjects, ok = firstSubjects(found[i]); !ok {
				return VerificationSummary{}, false
			}
			continue
		}
		d := decoder{cursor{s: found[i]}}
		if d.field(field, &fields[i]) != nil {
			return VerificationSummary{}, false
		}
	}
	return s, true
}

// firstSubjects reads a list of strings and returns the first of them: one more than Text
// names, so that Text knows whether there are more.
func firstSubjects(text string) (first []string, ok bool) {
	c := cursor{s: text}
	if c.peek() != '[' {
		return nil, false
	}
	for more := c.open(']'); more; {
		if c.peek() != '"' {
			return nil, false
		}
		if len(first) <= maxSubjects {
			first = append(first, c.str())
		} else {
			c.quoted()
		}
		c.peek()
		more = c.more()
	}
	return first, true
}

// maxSubjects is how many subjects Text names. An ellipsis stands for the others.
const maxSubjects = 5

// Text returns the summary in one line. Subjects keep their order.
func (s VerificationSummary) Text() string {
	tail := counted(s.ReportCount, "report") + ", " + counted(s.RequiredCheckCount, "required check") + "."
	parts := []string{"Verification "} // joined once, since a subject may be large
	switch s.Status {
	case VerificationPassed:
		parts = append(parts, "passed: ", tail)
	case VerificationFailed:
		parts = append(parts, "failed: ")
		parts = append(parts, about(s.FailedCheckCount, "failed check", "failed report", s.FailedSubjects)...)
		parts = append(parts, tail)
	case VerificationNeedsReview:
		parts = append(parts, "needs review: ")
		parts = append(parts, about(s.PendingRequiredCheckCount, "pending required check", "review required", s.PendingSubjects)...)
		parts = append(parts, tail)
	default:
		reports := "no reports"
		if s.ReportCount > 0 {
			reports = counted(s.ReportCount, "report")
		}
		parts = append(parts, "skipped: ", reports, ".")
	}
	if s.ResidualRiskCount > 0 {
		parts = append(parts, " Residual risks: ", strconv.FormatUint(s.ResidualRiskCount, 10), ".")
	}
	return strings.Join(parts, "")
}

// about returns the words of a summary that say what failed or is pending, and for which
// subjects, with the full stop.
func about(count uint64, noun, without string, subjects []string) []string {
	what := without
	if count > 0 {
		what = counted(count, noun)
	}
	more := ""
	if len(subjects) > maxSubjects {
		subjects, more = subjects[:maxSubjects], ", ..."
	}
	if joined := strings.Join(subjects, ", "); joined != "" || more != "" {
		return []string{what, " across subjects: ", joined, more, ". "}
	}
	return []string{what, ". "}
}

func counted(n uint64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatUint(n, 10) + " " + noun
}
