// Package graphtest tests that a pipeline still has the fingerprint that a running job knows it
// by.
//
//	var addFrozen = flag.Bool("add-frozen", false, "freeze what is new")
//
//	func TestPipelineIsFrozen(t *testing.T) {
//		p, s := beam.NewPipelineWithRoot()
//		build(s)
//		graphtest.Frozen(t, "testdata/pipeline.json", p, *addFrozen)
//	}
//
// # Behaviour
//
// [Frozen] compares the pipeline with the file, and says for each difference what a runner would
// do. If it is told to add, it writes a missing file, and rewrites a file if all differences are
// safe, or if only the form of the file differs, such as that of an older version.
//
// # Limits
//
// Freeze each pipeline in its own file. If several are built into one graph, what is constructed
// first gives numbers to what comes after it.
//
// # Differences from compat check
//
// Unlike the command beamagents compat check, it also fails for safe differences, so that the
// file is always that of the code beside it.
package graphtest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/compat"
	"github.com/beamagents/beamagents-go/pkg/compat/graph"
)

// Frozen fails the test if the fingerprint of p is not the one in file. With add it writes a file
// that is missing or has only safe differences, and creates its folder.
func Frozen(t testing.TB, file string, p *beam.Pipeline, add bool) {
	t.Helper()
	now, err := graph.Fingerprint(p)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := now.Write(&text); err != nil {
		t.Fatal(err)
	}
	frozen, err := os.ReadFile(file)
	switch {
	case err == nil && bytes.Equal(frozen, text.Bytes()):
		return
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		t.Fatal(err)
	default:
		old, err := compat.Read(bytes.NewReader(frozen))
		if err != nil {
			t.Fatal(err)
		}
		found := compat.Check(old, now)
		for _, f := range found {
			if !add || f.Severity == compat.Unsafe {
				t.Errorf("%s: running jobs know another pipeline\n%s", file, f)
			}
		}
		if slices.ContainsFunc(found, func(f compat.Finding) bool { return f.Severity == compat.Unsafe }) {
			return
		}
	}
	if !add {
		t.Errorf("%s: not all is frozen yet: run this test with -add-frozen", file)
		return
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
