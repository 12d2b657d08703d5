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
	operator = `flink_operator_changed: A
  what      the input of a stateful transform has another number in construction order, and so its state another operator id; a step that has the old number now gets the state
  old       n1
  new       n2
`
)

func TestCompatCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"old": before, "new": after, "format": `{"format":7}`, "member": `{"format":1,"transforms":[],"more":1}`, "none": "{}",
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
		"old ./old":                 {0, nil, "0 differences, 0 unsafe\n"},
		"- old":                     {0, nil, "0 differences, 0 unsafe\n"},
		"old -":                     {0, nil, "0 differences, 0 unsafe\n"},
		"old new":                   {1, []string{"unsafe " + operator, "\n\nsafe state_added: A, state t\n", "  new       value\n"}, "2 differences, 1 unsafe\n"},
		"--runner flink old new":    {1, []string{"unsafe " + operator}, "2 differences, 1 unsafe\n"},
		"--runner dataflow old new": {0, []string{"safe " + operator, "\n\nsafe state_added"}, "2 differences, 0 unsafe\n"},
		"new old":                   {1, []string{"unsafe state_removed: A, state t\n"}, "2 differences, 2 unsafe\n"},
		"--runner spark old new":    {2, nil, "beamagents: --runner \"spark\" is unknown: use dataflow or flink\n"},
		"old":                       {2, nil, "beamagents: accepts 2 arg(s), received 1\n"},
		"old new old":               {2, nil, "beamagents: accepts 2 arg(s), received 3\n"},
		"- -":                       {2, nil, "beamagents: only one of OLD and NEW can be standard input\n"},
		"old nowhere":               {2, nil, "beamagents: nowhere: open nowhere: no such file or directory\n"},
		"old .":                     {2, nil, "beamagents: .: . is a folder\n"},
		"old format":                {2, nil, "beamagents: format: compat: another format: this version reads 1 and not 7; use one version of beamagents for both fingerprints and for the check\n"},
		"none old":                  {2, nil, "beamagents: none: compat: no fingerprint: it has no format; take one with --fingerprint\n"},
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
