package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	before   = `{"format":1,"transforms":[{"name":"A","kind":"k","flink_operator":"n1","state":[{"id":"s","kind":"bag"}]}]}`
	after    = `{"format":1,"transforms":[{"name":"A","kind":"k","flink_operator":"n2","state":[{"id":"s","kind":"bag"},{"id":"t","kind":"value"}]}]}`
	here     = `{"format":1,"platform":{"parallelism":1},"transforms":[{"name":"A","kind":"k"}]}`
	operator = `flink_operator_changed: A
  what         the input of a transform that keeps state has another number in construction order: with the stock runner its state has another operator id
  old          n1
  new          n2
`
)

func TestCompatCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"old": before, "new": after, "here": here, "there": strings.ReplaceAll(here, `"parallelism":1`, `"parallelism":2`), "format": `{"format":7}`, "member": `{"format":1,"transforms":[],"more":1}`, "none": "{}",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]struct {
		code   int
		stdout []string
		stderr string
	}{
		"old ./old":                     {0, nil, "0 differences, 0 unsafe\n"},
		"- old":                         {0, nil, "0 differences, 0 unsafe\n"},
		"old -":                         {0, nil, "0 differences, 0 unsafe\n"},
		"old new":                       {1, []string{"unsafe " + operator, "\n\nsafe state_added: A, state t\n", "  new          value\n"}, "2 differences, 1 unsafe\n"},
		"--runner flink old new":        {1, []string{"unsafe " + operator}, "2 differences, 1 unsafe\n"},
		"--runner agents-flink old new": {0, []string{"safe " + operator}, "2 differences, 0 unsafe\n"},
		"--runner dataflow old new":     {0, []string{"safe " + operator, "\n\nsafe state_added"}, "2 differences, 0 unsafe\n"},
		"new old":                       {1, []string{"unsafe state_removed: A, state t\n"}, "2 differences, 2 unsafe\n"},
		"--runner spark old new":        {2, nil, "beamagents: --runner \"spark\" is unknown: use one of dataflow, flink, agents-flink\n"},
		"--runner prism old new":        {2, nil, "beamagents: --runner \"prism\" is unknown: use one of dataflow, flink, agents-flink\n"},
		"here there":                    {1, []string{"unsafe parallelism_changed: the job\n"}, "1 difference, 1 unsafe\n"},
		"old":                           {2, nil, "beamagents: accepts 2 arg(s), received 1\n"},
		"old new old":                   {2, nil, "beamagents: accepts 2 arg(s), received 3\n"},
		"- -":                           {2, nil, "beamagents: only one of OLD and NEW can be standard input\n"},
		"old nowhere":                   {2, nil, "beamagents: nowhere: open nowhere: no such file or directory\n"},
		"old .":                         {2, nil, "beamagents: .: . is a folder\n"},
		"old format":                    {2, nil, "beamagents: format: compat: another format: this version reads 1 and not 7; use one version of beamagents for both fingerprints and for the check\n"},
		"none old":                      {2, nil, "beamagents: none: compat: no fingerprint: it has no format; take one with --fingerprint\n"},
	} {
		t.Run(args, func(t *testing.T) {
			got := runWith(before, append([]string{"compat", "check"}, strings.Fields(args)...)...)
			if got.Code != want.code || got.Stderr != want.stderr || want.stdout == nil && got.Stdout != "" {
				t.Errorf("%+v", got)
			}
			for _, text := range want.stdout {
				if !strings.Contains("\n\n"+got.Stdout, text) {
					t.Errorf("no %q in\n%s", text, got.Stdout)
				}
			}
		})
	}
	got := runWith("", "compat", "check", "old", "member")
	if got.Code != 2 || !strings.Contains(got.Stderr, `"more"`) || !strings.Contains(got.Stderr, "a newer version may have written it") {
		t.Errorf("an unknown member: %+v", got)
	}
	if diff := cmp.Diff(result{2, "", "beamagents: beamagents compat needs a command; see beamagents compat --help\n"}, runWith("", "compat")); diff != "" {
		t.Error(diff)
	}
}

func TestCompatLint(t *testing.T) {
	t.Chdir(t.TempDir())
	const families = `{"format":1,"transforms":[{"name":"A","kind":"k","timers":[{"family":"t","time_domain":"EVENT_TIME","coder":{"urn":"u"}},{"family":"u","time_domain":"EVENT_TIME","coder":{"urn":"u"}}]}]}`
	for name, text := range map[string]string{"good": before, "bad": families, "none": "{}"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const text = "timer_families: A\n  what         a transform has more than one timer family\n  new          t, u\n"
	for args, want := range map[string]struct {
		code           int
		stdout, stderr string
	}{
		"good":                  {0, "", "0 problems, 0 unsafe\n"},
		"-":                     {0, "", "0 problems, 0 unsafe\n"},
		"bad":                   {1, "unsafe " + text, "1 problem, 1 unsafe\n"},
		"--runner prism bad":    {1, "unsafe " + text, "1 problem, 1 unsafe\n"},
		"--runner dataflow bad": {0, "safe " + text, "1 problem, 0 unsafe\n"},
		"--runner spark bad":    {2, "", "beamagents: --runner \"spark\" is unknown: use one of dataflow, flink, agents-flink, prism\n"},
		"none":                  {2, "", "beamagents: none: compat: no fingerprint: it has no format; take one with --fingerprint\n"},
		"nowhere":               {2, "", "beamagents: nowhere: open nowhere: no such file or directory\n"},
		"good bad":              {2, "", "beamagents: accepts 1 arg(s), received 2\n"},
	} {
		t.Run(args, func(t *testing.T) {
			got := runWith(before, append([]string{"compat", "lint"}, strings.Fields(args)...)...)
			if got.Code != want.code || got.Stderr != want.stderr || !strings.HasPrefix(got.Stdout, want.stdout) || want.stdout == "" && got.Stdout != "" {
				t.Errorf("%+v", got)
			}
		})
	}
}
