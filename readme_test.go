package beamagents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The snippet of the README builds in a module of its own, which inherits no tool.
func TestReadmeSnippet(t *testing.T) {
	_, rest, found := strings.Cut(readText(t, "README.md"), "```go\n")
	snippet, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatal("README.md has no Go snippet")
	}
	if lines := strings.Count(snippet, "\n"); lines > 25 {
		t.Errorf("the snippet has %d lines: too long for a README", lines)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(snippet), 0o644); err != nil {
		t.Fatal(err)
	}
	// The versions and sums of this module, which a reader's go command would choose, too:
	// so nothing is fetched that its own tests did not need. What is left out of go.sum
	// would be missed.
	gomod := strings.Replace(readText(t, "go.mod"), "module "+module+"\n",
		"module example.test/reader\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n", 1)
	gosum := readText(t, "go.sum")
	for name, text := range map[string]string{"go.mod": gomod, "go.sum": gosum} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"build", "-mod=readonly", "-o", os.DevNull, "."}, {"vet", "-mod=readonly", "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	if tool := regexp.MustCompile(`(?m)^.*(bufbuild/buf|golangci|x/perf).*$`).FindString(gosum); tool != "" {
		t.Errorf("a reader's go.sum names a tool: %s", tool)
	}
}

// Every package of the library is in the table, with a sentence.
func TestReadmeListsThePackages(t *testing.T) {
	readme := readText(t, "README.md")
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		if strings.HasPrefix(rel, "pkg/") && !strings.Contains(rel, "/internal/") && !strings.Contains(readme, "| [`"+rel+"`]") {
			t.Errorf("README.md does not list %s", rel)
		}
	}
}
