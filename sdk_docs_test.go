package beamagents_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// sdkProgram is a program of docs/sdk.md and what it prints, a line each.
type sdkProgram struct {
	name  string
	lines []string
}

// sdkPrograms writes the files of the page into a folder, and returns its programs.
func sdkPrograms(t *testing.T, dir string) (programs []sdkProgram) {
	t.Helper()
	page := readText(t, "docs/sdk.md")
	name := ""
	for _, block := range regexp.MustCompile("(?s)```(go|text)\n(.*?)```\n").FindAllStringSubmatch(page, -1) {
		if block[1] == "text" {
			programs = append(programs, sdkProgram{name, strings.Split(strings.TrimSpace(block[2]), "\n")})
			continue
		}
		file, text, _ := strings.Cut(strings.TrimPrefix(block[2], "// "), "\n")
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(file) == "." {
			name = strings.TrimSuffix(file, ".go")
		}
	}
	return programs
}

// Each program of the page on the SDK does what the page says. One that does not may be
// repaired in the SDK; then its workaround may no longer be needed.
func TestSDKPagePrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	programs := sdkPrograms(t, dir)
	if faults := strings.Count(readText(t, "docs/sdk.md"), "\n### "); len(programs) != faults || faults < 20 {
		t.Errorf("%d programs for %d faults", len(programs), faults)
	}
	mod := strings.Replace(readText(t, "go.mod"), "module "+module+"\n", "module example.test/reader\n", 1)
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644),
		os.WriteFile(filepath.Join(dir, "go.sum"), []byte(readText(t, "go.sum")), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"build", "-mod=readonly", "-o", "program", "."}, {"vet", "-mod=readonly", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			runSDKProgram(t, filepath.Join(dir, "program"), p)
		})
	}
}

func runSDKProgram(t *testing.T, binary string, p sdkProgram) {
	t.Helper()
	want, last := p.lines, p.lines[len(p.lines)-1]
	if strings.HasPrefix(last, "(") {
		want = want[:len(want)-1]
	}
	limit := time.Minute
	if last == "(hangs)" {
		limit = 15 * time.Second
	}
	var stdout, stderr strings.Builder
	run := func() (hangs bool, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		stdout.Reset()
		stderr.Reset()
		cmd := exec.CommandContext(ctx, binary, p.name)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err = cmd.Run()
		return ctx.Err() != nil, err
	}
	hangs, err := run()
	for try := 1; try < 8 && last == "(hangs)" && !hangs && err == nil; try++ {
		hangs, err = run() // now and then Prism gets through
	}

	got := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if stdout.Len() == 0 {
		got = nil
	}
	if last == "(and more)" && len(got) > len(want) {
		got = got[:len(want)]
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("it prints %q; want %q\n%s", got, want, stderr.String())
	}
	if hangs != (last == "(hangs)") {
		t.Errorf("it hangs: %v; want %s", hangs, last)
	}
	text, fails := strings.CutPrefix(last, `(fails with "`)
	if !hangs && (err != nil) != fails || fails && !strings.Contains(stderr.String(), strings.TrimSuffix(text, `")`)) {
		t.Errorf("it ends with %v; want %s\n%s", err, last, stderr.String())
	}
}
