package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The test binary is also the program: a process can run only one pipeline, and only a process has
// an exit status.
func TestMain(m *testing.M) {
	if os.Getenv("MEMORY_TEST_RUN") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program runs the example.
func program(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return process(t, []string{"MEMORY_TEST_RUN=1"}, args...)
}

// process runs the test binary.
func process(t *testing.T, env []string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The README shows exactly what the sample prints, in every run.
func TestSampleIsAsTheReadmeSays(t *testing.T) {
	_, rest, found := strings.Cut(readFile(t, "README.md"), "$ go run ./examples/memory --input examples/memory/sample/sample.jsonl --out out/memory\n")
	want, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md does not show the output")
	}
	var first map[string]string
	for range 2 {
		dir := t.TempDir()
		stdout, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", dir)
		if status != 0 || stderr != "" {
			t.Fatalf("status %d, stderr %q", status, stderr)
		}
		if diff := cmp.Diff(want, stdout); diff != "" {
			t.Errorf("(-README +got):\n%s", diff)
		}
		files := map[string]string{}
		for _, name := range outputFiles {
			files[name] = readFile(t, filepath.Join(dir, name))
		}
		if first == nil {
			first = files
		}
		if diff := cmp.Diff(first, files); diff != "" {
			t.Errorf("two runs (-first +second):\n%s", diff)
		}
	}
}

// Lines that are not events become dead letters with their bytes. The other lines are processed.
func TestBrokenLines(t *testing.T) {
	input, out := filepath.Join(t.TempDir(), "events.jsonl"), t.TempDir()
	lines := "\n{\"key\":\"a\"\n[1]\r\n{\"external_event\":7}\n" +
		"{\"key\":\"a\",\"external_event\":{\"topic\":\"b\"}} \n{\"key\":\"a\",\"external_event\":{\"topic\":7}}"
	if err := os.WriteFile(input, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := program(t, "--input", input, "--out", out)
	want := "customer  name  events  migrated  evicted  remembered\n" +
		"\"a\"       \"\"    1       -         -        0 KiB: [\"b\"]\n" +
		"dead letters\n  function_error              1\n  malformed_envelope          3\n  total                       4\n"
	if status != 0 || stderr != "" || stdout != want {
		t.Errorf("status %d, stderr %q, stdout\n%s, want\n%s", status, stderr, stdout, want)
	}
	letters := readFile(t, filepath.Join(out, deadLettersFile))
	for _, text := range []string{
		"events.jsonl, line 2: the JSON is cut short", "events.jsonl, line 3: an array, want an object", "events.jsonl, line 4: external_event: ",
		"cannot unmarshal number into Go struct field event.topic",
	} {
		if !strings.Contains(letters, text) {
			t.Errorf("no %q in\n%s", text, letters)
		}
	}
}

// A file of an earlier run is replaced, even if the new output has no elements.
func TestOutputsOfAnEarlierRunGo(t *testing.T) {
	input, out := filepath.Join(t.TempDir(), "empty.jsonl"), t.TempDir()
	for path, content := range map[string]string{input: "\n\n", filepath.Join(out, customersFile): "old\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdout, stderr, status := program(t, "--input", input, "--out", out)
	if status != 0 || stderr != "" || !strings.HasPrefix(stdout, "customer ") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	for _, name := range outputFiles {
		if got := readFile(t, filepath.Join(out, name)); got != "" {
			t.Errorf("%s has %q", name, got)
		}
	}
}

func TestAWrongCallIsOneLine(t *testing.T) {
	folder := t.TempDir()
	input := filepath.Join(folder, customersFile)
	if err := os.WriteFile(input, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const direct = "memory: --runner direct: keyed state needs prism, the embedded runner, or a portable one; the legacy direct runner has none\n"
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"legacy runner":       {[]string{"--input", input, "--out", t.TempDir(), "--runner", "direct"}, direct},
		"legacy runner alone": {[]string{"--runner=direct"}, direct},
		"no input":            {[]string{"--out", folder}, "--input is missing"},
		"unknown flag":        {[]string{"--input", input, "--out", folder, "--verbose"}, "memory: flag provided but not defined: -verbose"},
		"flag without value":  {[]string{"--input"}, "memory: flag needs an argument: -input"},
		"no output":           {[]string{"--input", input}, "--out is missing"},
		"an argument":         {[]string{"--input", input, "--out", folder, "x"}, `unexpected argument "x"`},
		"another runner":      {[]string{"--input", input, "--out", folder, "--runner=flink"}, `--runner "flink" is not in this binary: use prism or agents-flink`},
		"missing file":        {[]string{"--input", filepath.Join(folder, "none"), "--out", folder}, "cannot read the input"},
		"folder":              {[]string{"--input", folder, "--out", folder}, "is not a file"},
		"input among outputs": {[]string{"--input", input, "--out", folder}, "is the input; choose another --out"},
		"file as folder":      {[]string{"--input", input, "--out", input}, "cannot write the outputs"},
	} {
		stdout, stderr, status := program(t, tc.args...)
		if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q; want %q on one line", name, status, stdout, stderr, tc.want)
		}
	}
}

// The fingerprint depends on the program and not on its flags, and the pipeline does not run.
func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, customersFile)
	if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "fingerprint.json")
	stdout, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", dir, "--fingerprint", file)
	if status != 0 || stdout != "" || stderr != "" {
		t.Fatalf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	again, _, _ := program(t, "--input", file, "--out", t.TempDir(), "--fingerprint", "-")
	if written := readFile(t, file); written != again {
		t.Errorf("%s\nand with other flags\n%s", written, again)
	}
	for _, want := range []string{`"id": "customer"`, `"id": "memory"`, `"id": "ttl"`, `"family": "agent"`} {
		if !strings.Contains(again, want) {
			t.Errorf("no %s in\n%s", want, again)
		}
	}
	if got := readFile(t, kept); got != "kept" {
		t.Errorf("an output of an earlier run: %q", got)
	}
}

func TestHelpIsTheUsage(t *testing.T) {
	stdout, stderr, status := program(t, "--help")
	if status != 0 || stdout != "" || stderr != "usage: memory --input FILE --out DIR [--runner prism|agents-flink] [--fingerprint FILE]\n" {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}
