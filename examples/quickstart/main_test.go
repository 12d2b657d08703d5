package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The test binary is also the program: a process can run only one pipeline, and only a process has
// an exit status.
func TestMain(m *testing.M) {
	if os.Getenv("QUICKSTART_TEST_RUN") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program runs the example.
func program(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "QUICKSTART_TEST_RUN=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func readFile(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// unmeasured returns the traces without measured values.
func unmeasured(traces string) string {
	return regexp.MustCompile(`("beam_agents\.(?:duration|offset)_ms"):"[0-9]+"`).ReplaceAllString(traces, "$1:measured")
}

// The README shows exactly what the sample prints, in every run, and lines of the sample.
func TestSampleIsAsTheReadmeSays(t *testing.T) {
	readme := readFile(t, "README.md")
	_, rest, found := strings.Cut(readme, "$ go run ./examples/quickstart --input examples/quickstart/sample/sample.jsonl --out out/quickstart\n")
	want, rest, closed := strings.Cut(rest, "```")
	_, rest, opened := strings.Cut(rest, "```\n")
	lines, _, ended := strings.Cut(rest, "```")
	if !found || !closed || !opened || !ended {
		t.Fatal("README.md does not show the output and lines of the sample")
	}
	sample := readFile(t, "sample", "sample.jsonl")
	for line := range strings.Lines(lines) {
		if !strings.Contains(sample, line) {
			t.Errorf("the sample lacks %s", line)
		}
	}
	for range 2 {
		dir := t.TempDir()
		stdout, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", dir)
		if status != 0 || stderr != "" {
			t.Fatalf("status %d, stderr %q", status, stderr)
		}
		if diff := cmp.Diff(want, stdout); diff != "" {
			t.Errorf("(-README +got):\n%s", diff)
		}
		if got := readFile(t, dir, "outputs.jsonl"); got != stdout {
			t.Errorf("outputs.jsonl has\n%s", got)
		}
		for _, name := range []string{"intents.jsonl", "snapshots.jsonl", "dead_letters.jsonl"} {
			if diff := cmp.Diff(readFile(t, "testdata", name), readFile(t, dir, name)); diff != "" {
				t.Errorf("%s (-testdata +got):\n%s", name, diff)
			}
		}
		// Durations are measured. Everything else is the same in each run.
		if diff := cmp.Diff(unmeasured(readFile(t, "testdata", "traces.jsonl")), unmeasured(readFile(t, dir, "traces.jsonl"))); diff != "" {
			t.Errorf("traces.jsonl (-testdata +got):\n%s", diff)
		}
	}
}

func TestAWrongCallIsOneLine(t *testing.T) {
	folder := t.TempDir()
	input := filepath.Join(folder, "in.jsonl")
	if err := os.WriteFile(input, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no input":       {[]string{"--out", folder}, "--input is missing"},
		"no output":      {[]string{"--input", input}, "--out is missing"},
		"an argument":    {[]string{"--input", input, "--out", folder, "x"}, `unexpected argument "x"`},
		"unknown flag":   {[]string{"--input", input, "--out", folder, "--verbose"}, "flag provided but not defined: -verbose"},
		"legacy runner":  {[]string{"--input", input, "--out", folder, "--runner", "direct"}, `--runner "direct" is not in this binary: use prism`},
		"missing file":   {[]string{"--input", filepath.Join(folder, "none"), "--out", folder}, "cannot read the input"},
		"folder as file": {[]string{"--input", folder, "--out", folder}, "is not a file"},
	} {
		stdout, stderr, status := program(t, tc.args...)
		if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "quickstart: ") || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q; want %q on one line", name, status, stdout, stderr, tc.want)
		}
	}
	stdout, stderr, status := program(t, "--help")
	if status != 0 || stdout != "" || stderr != "usage: quickstart --input FILE --out DIR [--otlp] [--metrics] [--runner prism|agents-flink] [--fingerprint FILE]\n" {
		t.Errorf("--help: status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

// If the folder cannot be written, the run fails, and the last line says why.
func TestUnwritableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", file)
	if status != 1 || stdout != "" || !strings.Contains(stderr, "quickstart: ") || !strings.Contains(stderr, "not a directory") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

// If the collector does not exist, its traces are lost, with a warning. The files are those of a
// run without a collector.
func TestNoCollector(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // nobody listens
	stdout, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", dir, "--otlp")
	if status != 0 || stdout != readFile(t, dir, "outputs.jsonl") || !strings.Contains(stderr, "spans are dropped") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if diff := cmp.Diff(readFile(t, "testdata", "intents.jsonl"), readFile(t, dir, "intents.jsonl")); diff != "" {
		t.Errorf("intents.jsonl (-testdata +got):\n%s", diff)
	}
}

// The metrics are printed on standard error, and only if the flag is set. The README shows some of
// them.
func TestMetrics(t *testing.T) {
	dir := t.TempDir()
	stdout, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", dir, "--metrics")
	if status != 0 || stdout != readFile(t, dir, "outputs.jsonl") {
		t.Errorf("status %d, stdout %q", status, stdout)
	}
	_, rest, found := strings.Cut(readFile(t, "README.md"), "--metrics` prints the metrics of the job on standard error, such as\n\n```\n")
	want, _, closed := strings.Cut(rest, "```")
	if !found || !closed || want == "" {
		t.Fatal("README.md shows no metrics")
	}
	for line := range strings.Lines(want) {
		if !strings.Contains(stderr, line) {
			t.Errorf("%q of README.md is not in\n%s", line, stderr)
		}
	}
}

// The fingerprint depends on the program and not on its flags, and the pipeline does not run.
func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	stdout, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", dir, "--fingerprint", "-")
	if status != 0 || stderr != "" || !strings.Contains(stdout, "RunAgent/transforms.beamagentsRunAgentFn") || !strings.Contains(stdout, `"family": "agent"`) {
		t.Errorf("status %d, stderr %q, stdout\n%s", status, stderr, stdout)
	}
	if again, _, _ := program(t, "--input", "README.md", "--out", t.TempDir(), "--otlp", "--fingerprint", "-"); again != stdout {
		t.Errorf("%s\nand with other flags\n%s", stdout, again)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("the pipeline ran: %v, %v", files, err)
	}
}
