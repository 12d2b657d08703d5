package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata anew, from the embedded runner")

// The test binary is also the program: a process can run only one pipeline, and only a process has
// an exit status.
func TestMain(m *testing.M) {
	if os.Getenv("EVENTS_TEST_RUN") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program runs the example.
func program(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "EVENTS_TEST_RUN=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// sampleOutputs runs the example over its sample and returns the files and the table.
func sampleOutputs(t *testing.T, runner string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	stdout, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", dir, "--runner", runner)
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	got := map[string]string{"stdout.txt": stdout}
	for _, name := range outputFiles {
		got[name] = readFile(t, filepath.Join(dir, name))
	}
	return got
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSampleOnBothRunners(t *testing.T) {
	if *update {
		for name, content := range sampleOutputs(t, "prism") {
			if err := os.WriteFile(filepath.Join("testdata", name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := map[string]string{}
	for _, name := range append(outputFiles, "stdout.txt") {
		want[name] = readFile(t, filepath.Join("testdata", name))
	}
	for name, runner := range map[string]string{"prism": "prism", "prism again": "prism", "direct": "direct"} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, sampleOutputs(t, runner)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// No event of the sample is lost: each is in a timeline or in a dead letter.
func TestSampleIsAllThere(t *testing.T) {
	lines := map[string]bool{}
	for line := range strings.Lines(readFile(t, "sample/sample.jsonl")) {
		lines[line] = true // the sample has some events twice
	}
	moments := strings.Count(readFile(t, "testdata/timelines.txt"), " ms  ")
	letters := 0
	for line := range strings.Lines(readFile(t, "testdata/dead_letters.jsonl")) {
		// These two kinds of dead letters are about events that are also in a timeline.
		if !strings.Contains(line, `"reason":"activation_error"`) && !strings.Contains(line, "expected i32") {
			letters++
		}
	}
	if moments+letters != len(lines) {
		t.Errorf("%d events in timelines and %d dead letters, of %d lines", moments, letters, len(lines))
	}
}

func TestAWrongCallIsOneLine(t *testing.T) {
	folder := t.TempDir()
	input := filepath.Join(folder, timelinesFile)
	if err := os.WriteFile(input, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no input":            {[]string{"--out", folder}, "--input is missing"},
		"unknown flag":        {[]string{"--input", input, "--out", folder, "--verbose"}, "events: flag provided but not defined: -verbose"},
		"flag without value":  {[]string{"--input"}, "events: flag needs an argument: -input"},
		"no output":           {[]string{"--input", input}, "--out is missing"},
		"an argument":         {[]string{"--input", input, "--out", folder, "x"}, `unexpected argument "x"`},
		"another runner":      {[]string{"--input", input, "--out", folder, "--runner=flink"}, "use prism, direct or agents-flink"},
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

func TestHelpIsTheUsage(t *testing.T) {
	stdout, stderr, status := program(t, "--help")
	if status != 0 || stdout != "" || stderr != "usage: events --input FILE --out DIR [--otlp] [--runner prism|direct|agents-flink] [--fingerprint FILE]\n" {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

// If two transforms refuse an event for the same reason, it is one line. The counters count two.
func TestABrokenEventIsOneDeadLetter(t *testing.T) {
	input := filepath.Join(t.TempDir(), "broken.jsonl")
	lines := `{"version":1,"type":"agent_start","payload":{"prompt":"no metadata"}}
{"version":1,"type":"agent_start","payload":{"prompt":"no run, no time"},"metadata":{"session_id":"s"}}
{"version":2}
{"version":2}
`
	if err := os.WriteFile(input, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, runner := range []string{"prism", "direct"} {
		out := t.TempDir()
		stdout, stderr, status := program(t, "--input", input, "--out", out, "--runner", runner)
		if status != 0 || stderr != "" || !strings.Contains(stdout, "errors_malformed_event          6") {
			t.Errorf("%s: status %d, stdout %q, stderr %q", runner, status, stdout, stderr)
		}
		got := readFile(t, filepath.Join(out, deadLettersFile))
		if strings.Count(got, "\n") != 3 {
			t.Errorf("%s: %s", runner, got)
		}
	}
}

func TestAnEmptyFileHasNoEvents(t *testing.T) {
	input, out := filepath.Join(t.TempDir(), "empty.jsonl"), t.TempDir()
	if err := os.WriteFile(input, []byte("\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, runner := range []string{"prism", "direct"} {
		stdout, stderr, status := program(t, "--input", input, "--out", out, "--runner", runner)
		if status != 0 || stderr != "" || !strings.HasPrefix(stdout, "tool ") {
			t.Errorf("%s: status %d, stdout %q, stderr %q", runner, status, stdout, stderr)
		}
		for _, name := range outputFiles {
			if got := readFile(t, filepath.Join(out, name)); got != "" {
				t.Errorf("%s: %s has %q", runner, name, got)
			}
		}
	}
}

// The fingerprint depends on the program and not on its flags, and the pipeline does not run.
func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, tracesFile)
	if err := os.WriteFile(kept, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "fingerprint.json")
	stdout, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", dir, "--fingerprint", file)
	if status != 0 || stdout != "" || stderr != "" {
		t.Fatalf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	again, _, _ := program(t, "--input", file, "--out", t.TempDir(), "--runner", "direct", "--otlp", "--fingerprint", "-")
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != again || !strings.Contains(again, "EventsToTraces/CoGBK") {
		t.Errorf("%s\nand with other flags\n%s", written, again)
	}
	if b, err := os.ReadFile(kept); err != nil || string(b) != "kept" {
		t.Errorf("an output of an earlier run: %q, %v", b, err)
	}
	if _, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", dir, "--fingerprint", dir); status != 2 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("an unwritable file: status %d, %q", status, stderr)
	}
}
