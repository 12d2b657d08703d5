package handover

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// repository is one whose commits are the tags of these contents of the test's file, in
// order. Without any, there is no package.
func repository(t *testing.T, tags [][2]string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	command := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=A", "-c", "user.email=a@example.test", "-c", "commit.gpgsign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("no git: %v\n%s", err, out)
		}
	}
	write(t, "go.mod", "module example.test/store\n\ngo 1.26\n")
	command("init", "-q")
	command("add", ".")
	command("commit", "-q", "-m", "empty")
	command("tag", "empty")
	for _, tag := range tags {
		write(t, "store/store_test.go", tag[1])
		command("add", ".")
		command("commit", "-q", "-m", tag[0])
		command("tag", tag[0])
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBuild(t *testing.T) {
	repository(t, [][2]string{
		{"without", "package store\n"},
		{"broken", storing("x") + "}"},
		{"failing", "package store\n\nimport \"testing\"\n\nfunc TestWrite(t *testing.T) { t.Fail() }\n"},
		{"writing", storing("state")},
	})
	for _, ref := range []string{"empty", "without"} {
		if _, err := writer.build(t, ref); !errors.Is(err, errNoWriter) {
			t.Errorf("%s: %v; want that it does not write", ref, err)
		}
	}
	for _, ref := range []string{"broken", "failing", "none"} {
		if _, err := writer.build(t, ref); err == nil || errors.Is(err, errNoWriter) {
			t.Errorf("%s: %v; want another error", ref, err)
		}
	}
	file, err := writer.build(t, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "state" {
		t.Errorf("%q, %v", b, err)
	}
	if trees, err := git(t, "worktree", "list", "--porcelain"); err != nil || strings.Count(trees, "worktree ") != 1 {
		t.Errorf("a worktree is left: %v\n%s", err, trees)
	}
}

// The last commit, and the releases whose tags are there, are built; what was frozen is
// read whether there is a tag or not.
func TestWhatIsRead(t *testing.T) {
	repository(t, [][2]string{{"v0.1.0", storing("built 1")}, {"v0.3.0", storing("built 3")}, {"later", storing("built last")}})
	write(t, "golden/release/v0.1.0/cells/cells.json", "frozen 1")
	write(t, "golden/release/v0.2.0/cells/cells.json", "frozen 2")
	write(t, "golden/release/v0.3.0/agents/agents.json", "of another writer")
	t.Chdir("store")
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
