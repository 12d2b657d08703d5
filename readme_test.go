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

// goSnippets are the Go snippets of a page.
func goSnippets(t *testing.T, page string) (snippets []string) {
	t.Helper()
	for _, part := range strings.Split(readText(t, page), "```go\n")[1:] {
		snippet, _, closed := strings.Cut(part, "```\n")
		if !closed {
			t.Fatalf("%s: a Go snippet does not end", page)
		}
		snippets = append(snippets, snippet)
	}
	return snippets
}

// readerModule is a module of a reader's own, with these files, that requires this one.
// It runs go commands in it, which must succeed.
func readerModule(t *testing.T, files map[string]string) (run func(args ...string)) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// The versions and sums of this module, which a reader's go command would choose, too:
	// so nothing is fetched that its own tests did not need. What is left out of go.sum
	// would be missed.
	files["go.mod"] = strings.Replace(readText(t, "go.mod"), "module "+module+"\n",
		"module example.test/reader\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n", 1)
	files["go.sum"] = readText(t, "go.sum")
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return func(args ...string) {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// The snippet of the README builds in a module of its own, which inherits no tool.
func TestReadmeSnippet(t *testing.T) {
	snippets := goSnippets(t, "README.md")
	if len(snippets) != 1 {
		t.Fatalf("README.md has %d Go snippets", len(snippets))
	}
	if lines := strings.Count(snippets[0], "\n"); lines > 25 {
		t.Errorf("the snippet has %d lines: too long for a README", lines)
	}
	run := readerModule(t, map[string]string{"main.go": snippets[0]})
	run("build", "-mod=readonly", "-o", os.DevNull, ".")
	run("vet", "-mod=readonly", ".")
	if tool := regexp.MustCompile(`(?m)^.*(bufbuild/buf|golangci|x/perf).*$`).FindString(readText(t, "go.sum")); tool != "" {
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
