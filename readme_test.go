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

// The agent of the README is the quickstart's, which runs in a module of a reader's own that
// inherits no tool, and prints what the README and the pages on agents say.
func TestReadmeAgent(t *testing.T) {
	agent, pipeline := readText(t, "examples/quickstart/refunds.go"), readText(t, "examples/quickstart/main.go")
	snippets := page(t, "README.md", 2)
	if !strings.HasSuffix(agent, "\n\n"+snippets[0]) || !strings.Contains(pipeline, snippets[1]) {
		t.Error("the Go snippets of README.md are not those of examples/quickstart")
	}
	if lines := strings.Count(snippets[0], "\n"); lines > 45 {
		t.Errorf("the agent has %d lines: too long for a README", lines)
	}
	run := readerModule(t, map[string]string{
		"refunds.go": agent, "main.go": pipeline, "sample.jsonl": readText(t, "examples/quickstart/sample/sample.jsonl"),
	})
	run("vet", "-mod=readonly", ".")
	out := filepath.Join(t.TempDir(), "out")
	printed := run("run", "-mod=readonly", ".", "--input", "sample.jsonl", "--out", out)
	for _, name := range []string{"README.md", "docs/agents.md"} {
		if want := "$ go run ./examples/quickstart --input examples/quickstart/sample/sample.jsonl --out out/quickstart\n" +
			printed + "```\n"; !strings.Contains(readText(t, name), want) {
			t.Errorf("%s does not show what the quickstart prints:\n%s", name, printed)
		}
	}
	// The page on suspensions shows a request for approval and its answer.
	lines := regexp.MustCompile("(?s)```json\n(.*?\n)```").FindAllStringSubmatch(readText(t, "docs/suspensions.md"), -1)
	if len(lines) != 2 || !strings.Contains(readText(t, filepath.Join(out, "intents.jsonl")), lines[0][1]) ||
		!strings.Contains(readText(t, "examples/quickstart/sample/sample.jsonl"), lines[1][1]) {
		t.Errorf("the lines of docs/suspensions.md are not those of the quickstart: %q", lines)
	}
	if tool := regexp.MustCompile(`(?m)^.*(bufbuild/buf|golangci|x/perf).*$`).FindString(readText(t, "go.sum")); tool != "" {
		t.Errorf("a reader's go.sum names a tool: %s", tool)
	}
}

// The first command of make demo is in the README with what it prints, and every command in
// the README of its example.
func TestReadmeDemo(t *testing.T) {
	_, recipe, _ := strings.Cut(readText(t, "Makefile"), "\ndemo: ")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	_, recipe, _ = strings.Cut(recipe, "\n")
	example := regexp.MustCompile(`examples/[a-z]+`)
	for i, command := range strings.Split(strings.TrimSpace(recipe), "\n") {
		command = strings.TrimSpace(command)
		args := strings.Fields(command)
		if len(args) < 3 || args[0] != "go" || args[len(args)-2] != "--out" {
			t.Fatalf("make demo runs %q; this test knows go run with --out as its last flag", command)
		}
		args[len(args)-1] = filepath.Join(t.TempDir(), "out")
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		pages := []string{example.FindString(command) + "/README.md"}
		if i == 0 {
			pages = append(pages, "README.md")
		}
		for _, name := range pages {
			if want := "$ " + command + "\n" + string(out); !strings.Contains(readText(t, name), want) {
				t.Errorf("%s does not show\n%s", name, want)
			}
		}
	}
}

// Every package of the library is in the table, with a sentence. A package of tests alone
// is not.
func TestReadmeListsThePackages(t *testing.T) {
	readme := readText(t, "README.md")
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		if strings.HasPrefix(rel, "pkg/") && len(p.GoFiles) > 0 && !strings.Contains(rel, "/internal/") && !strings.Contains(readme, "| [`"+rel+"`]") {
			t.Errorf("README.md does not list %s", rel)
		}
	}
}
