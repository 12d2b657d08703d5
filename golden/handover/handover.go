// Package handover gives a test the state that older builds of this module have written.
//
// # Behaviour
//
// A package that stores state has a test that writes the state to a file. A [Writer] names that
// test. [Writer.Frozen] finds its files in the folders of the releases, where `make freeze` has
// put them. [Writer.Built] builds older commits in a folder outside of the repository, which it
// does not change, and runs the test there.
//
// # Limits
//
// Built looks for the test, and for its flag, in released commits under the names in the Writer. So
// the fields of a Writer never change. Without the repository of this module, Built skips the test.
package handover

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Writer is a test that writes the state of its build.
type Writer struct {
	// Package is the folder of the test's package, relative to the root of the module.
	Package string
	// Test is the name of the test. Flag is the flag of its package that names the folder to
	// write to.
	Test, Flag string
	// Part is the folder of a release in which the file is kept, and the name of the file without
	// .json.
	Part string
}

func (w Writer) file() string { return w.Part + ".json" }

// Frozen calls read with the file of each release that has one.
func (w Writer) Frozen(t *testing.T, read func(t *testing.T, file string)) {
	t.Helper()
	for _, file := range w.frozen(t) {
		t.Run(tagOf(file), func(t *testing.T) { read(t, file) })
	}
}

func (w Writer) frozen(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), "golden", "release", "*", w.Part, w.file()))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// tagOf returns the release of a frozen file.
func tagOf(file string) string { return filepath.Base(filepath.Dir(filepath.Dir(file))) }

// root returns the folder of the module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		} else if dir == filepath.Dir(dir) {
			t.Fatal("handover: there is no go.mod above the folder of the test")
		}
	}
}

// Built calls read with the file of each older build: of the last commit before the code under
// test, and of each release whose tag is in the repository. It skips the last commit if that does
// not have the test yet.
func (w Writer) Built(t *testing.T, read func(t *testing.T, file string)) {
	t.Helper()
	repo, err := openRepository(t.Context(), root(t))
	if err != nil {
		t.Skipf("there is no older build to compare with: %v", err)
	}
	base, err := repo.base()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("last", func(t *testing.T) {
		t.Logf("the older build is %s", base)
		file, err := w.build(t, repo, base)
		if errors.Is(err, errNoWriter) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		read(t, file)
	})
	for _, frozen := range w.frozen(t) {
		tag := tagOf(frozen)
		if _, err := repo.git("rev-parse", "--verify", "refs/tags/"+tag); err != nil {
			t.Logf("%s: the tag is not in this repository; what it froze is read all the same", tag)
			continue
		}
		t.Run(tag, func(t *testing.T) {
			file, err := w.build(t, repo, "refs/tags/"+tag)
			if err != nil {
				t.Fatal(err)
			}
			read(t, file)
		})
	}
}

var errNoWriter = errors.New("handover: the build does not write its state")

// build builds the test of a commit and runs it, so that it writes its file.
func (w Writer) build(t *testing.T, repo repository, ref string) (file string, err error) {
	t.Helper()
	tree := t.TempDir()
	if err := repo.export(ref, tree); err != nil {
		return "", err
	}
	folder := filepath.Join(tree, filepath.FromSlash(w.Package))
	if _, err := os.Stat(folder); err != nil {
		return "", fmt.Errorf("%w: %s has no %s", errNoWriter, ref, w.Package)
	}
	old := filepath.Join(t.TempDir(), "old.test")
	run := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...) //nolint:gosec // go, and the test that it has built
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s, %s %v: %w\n%s", ref, filepath.Base(name), args, err, out)
		}
		return string(out), nil
	}
	if _, err := run("go", "test", "-c", "-o", old, "."); err != nil {
		return "", err
	}
	listed, err := run(old, "-test.list", "^"+w.Test+"$")
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(listed) != w.Test {
		return "", fmt.Errorf("%w: %s has no %s in %s", errNoWriter, ref, w.Test, w.Package)
	}
	dir := t.TempDir()
	if _, err := run(old, "-test.run", "^"+w.Test+"$", "-"+w.Flag, dir); err != nil {
		return "", err
	}
	return filepath.Join(dir, w.file()), nil
}
