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
// Run runs a go command in it, which must succeed, and returns all that it prints.
func readerModule(t *testing.T, files map[string]string) (run func(args ...string) string) {
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
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
}

// The snippet of the README runs in a module of its own, which inherits no tool, and prints
// what the README says.
func TestReadmeSnippet(t *testing.T) {
	snippets := goSnippets(t, "README.md")
	if len(snippets) != 1 {
		t.Fatalf("README.md has %d Go snippets", len(snippets))
	}
	if lines := strings.Count(snippets[0], "\n"); lines > 25 {
		t.Errorf("the snippet has %d lines: too long for a README", lines)
	}
	run := readerModule(t, map[string]string{"main.go": snippets[0]})
	run("vet", "-mod=readonly", ".")
	printed := run("run", "-mod=readonly", ".")
	for _, line := range []string{"key and event: ([107],[123 125])", "byte 0: field 12 of AgentEnvelope is cut short"} {
		if !strings.Contains(readText(t, "README.md"), line) || strings.Count(printed, line) != 1 {
			t.Errorf("README.md and its snippet do not both print %q:\n%s", line, printed)
		}
	}
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
