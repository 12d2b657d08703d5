package graphtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/compat/graph/graphtest"
)

func init() { beam.RegisterFunction(passOn) }

func passOn(b []byte) []byte { return b }

// recorder is a test that fails without ending.
type recorder struct {
	testing.TB
	failures []string
}

func (*recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatal(args ...any) {
	r.failures = append(r.failures, fmt.Sprint(args...))
	panic(r)
}

func frozen(t *testing.T, file string, add bool, scopes ...string) (failures string) {
	t.Helper()
	p, s := beam.NewPipelineWithRoot()
	for _, scope := range scopes {
		beam.ParDo(s.Scope(scope), passOn, beam.Impulse(s.Scope(scope)))
	}
	r := &recorder{TB: t}
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
		failures = strings.Join(r.failures, "\n")
	}()
	graphtest.Frozen(r, file, p, add)
	return ""
}

func TestFrozen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "testdata", "new", "pipeline.json")
	content := func() string {
		b, _ := os.ReadFile(file)
		return string(b)
	}
	for i, step := range []struct {
		scopes  string
		add     bool
		want    string // a failure
		changed bool
	}{
		{"A", false, "not all is frozen yet", false},
		{"A", true, "", true},
		{"A", true, "", false},
		{"A", false, "", false},
		{"A B", false, "safe transform_added: B/", false},
		{"A B", true, "", true},
		{"A", true, "unsafe transform_removed: B/", false},
		{"A C", true, "unsafe transform_renamed: C/", false},
		{"A B", false, "", false},
		{"", true, "graph: ", false},
	} {
		before := content()
		got := frozen(t, file, step.add, strings.Fields(step.scopes)...)
		if (step.want == "") != (got == "") || !strings.Contains(got, step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
		if changed := content() != before; changed != step.changed {
			t.Errorf("step %d: changed: %t", i, changed)
		}
	}
	good := content()
	for _, step := range []struct {
		text string
		add  bool
		want string
	}{
		{"{}", true, "no fingerprint"},
		{strings.ReplaceAll(good, "\n", "\n "), false, "not all is frozen yet"}, // the same in another form
		{strings.ReplaceAll(good, "\n", "\n "), true, ""},
	} {
		if err := os.WriteFile(file, []byte(step.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := frozen(t, file, step.add, "A", "B"); (step.want == "") != (got == "") || !strings.Contains(got, step.want) {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
	if content() != good {
		t.Errorf("the file was not written anew:\n%s", content())
	}
}
