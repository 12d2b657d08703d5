package handover

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var writer = Writer{Package: "store", Test: "TestWrite", Flag: "write", Part: "cells"}

// storing is a test that writes text.
func storing(text string) string {
	return fmt.Sprintf(`package store

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var dir = flag.String("write", "", "")

func TestWrite(t *testing.T) {
	if err := os.WriteFile(filepath.Join(*dir, "cells.json"), []byte(%q), 0o600); err != nil {
		t.Fatal(err)
	}
}
`, text)
}

// tagged makes a repository whose commits are the tags of these contents of the test's
// file, in order. Before them there is one without the package.
func tagged(t *testing.T, tags [][2]string) repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("there is no git: %v", err)
	}
	r := newRepository(t, ourModule+"\n\ngo 1.26\n", "x")
	git := func(args ...string) {
		t.Helper()
		if _, err := r.git(append([]string{"-c", "user.name=n", "-c", "user.email=e@example.test", "-c", "commit.gpgsign=false"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	git("tag", "empty")
	for _, tag := range tags {
		r.write(t, "store/store_test.go", tag[1])
		git("add", ".")
		git("commit", "--quiet", "--no-verify", "-m", tag[0])
		git("tag", tag[0])
	}
	return r
}

func TestBuild(t *testing.T) {
	repo := tagged(t, [][2]string{
		{"without", "package store\n"},
		{"broken", storing("x") + "}"},
		{"failing", "package store\n\nimport \"testing\"\n\nfunc TestWrite(t *testing.T) { t.Fail() }\n"},
		{"writing", storing("state")},
	})
	for _, ref := range []string{"empty", "without"} {
		if _, err := writer.build(t, repo, ref); !errors.Is(err, errNoWriter) {
			t.Errorf("%s: %v; want that it does not write", ref, err)
		}
	}
	for _, ref := range []string{"broken", "failing", "none"} {
		if _, err := writer.build(t, repo, ref); err == nil || errors.Is(err, errNoWriter) {
			t.Errorf("%s: %v; want another error", ref, err)
		}
	}
	file, err := writer.build(t, repo, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "state" {
		t.Errorf("%q, %v", b, err)
	}
}

// The last commit before the code under test, and the releases whose tags are there, are built; what was frozen is
// read whether there is a tag or not.
func TestWhatIsRead(t *testing.T) {
	repo := tagged(t, [][2]string{{"v0.1.0", storing("built 1")}, {"v0.3.0", storing("built 3")}, {"later", storing("built last")}, {"tested", storing("built now")}})
	repo.write(t, "golden/release/v0.1.0/cells/cells.json", "frozen 1")
	repo.write(t, "golden/release/v0.2.0/cells/cells.json", "frozen 2")
	repo.write(t, "golden/release/v0.3.0/agents/agents.json", "of another writer")
	t.Chdir(filepath.Join(repo.root, "store"))
	var got []string
	read := func(t *testing.T, file string) {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(b))
	}
	writer.Frozen(t, read)
	writer.Built(t, read)
	if diff := cmp.Diff([]string{"frozen 1", "frozen 2", "built last", "built 1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
