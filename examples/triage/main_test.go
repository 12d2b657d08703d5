package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"github.com/google/go-cmp/cmp"
)

// The test binary is also the program, because only a process has an exit status.
func TestMain(m *testing.M) {
	if os.Getenv("TRIAGE_TEST_RUN") == "1" {
		main()
		os.Exit(0)
	}
	log.LogLevel = "warn"
	ptest.MainWithDefault(m, "prism")
}

// program runs the example, without an endpoint that the environment may name.
func program(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return programAt(t, "", args...)
}

// apiKey must not be in any output.
const apiKey = "sk-a-key-that-nobody-may-see"

// programAt runs the example with the model at an endpoint, or with its own model if the endpoint
// is "".
func programAt(t *testing.T, endpoint string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "TRIAGE_TEST_RUN=1", "OPENAI_BASE_URL="+endpoint, "OPENAI_API_KEY="+apiKey)
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

// readmeSummary returns the table that the README shows.
func readmeSummary(t *testing.T) string {
	t.Helper()
	_, rest, found := strings.Cut(readFile(t, "README.md"), "--out ../../out/triage\n")
	want, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md does not show the summary")
	}
	return want
}

// The README shows the summary of the sample. Standard error has only the progress.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	stdout, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", dir, "--latency", "1ms")
	if status != 0 {
		t.Fatalf("status %d, stderr %s", status, stderr)
	}
	if diff := cmp.Diff(readmeSummary(t), stdout); diff != "" {
		t.Errorf("(-README +got):\n%s", diff)
	}
	for line := range strings.Lines(stderr) {
		if !strings.HasSuffix(line, " model calls\n") {
			t.Errorf("stderr has %q", line)
		}
	}
	for _, name := range outputFiles {
		if readFile(t, dir, name) == "" {
			t.Errorf("%s is empty", name)
		}
	}
}

// If the collector does not exist, its traces are lost, and the metrics count them.
func TestNoCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // nobody listens
	stdout, stderr, status := program(t, "--input", "sample/sample.jsonl", "--out", t.TempDir(), "--latency", "1ms", "--otlp", "--metrics")
	if diff := cmp.Diff(readmeSummary(t), stdout); status != 0 || diff != "" {
		t.Errorf("status %d, (-README +got):\n%s", status, diff)
	}
	for _, want := range []string{"spans are dropped", "\nspans_dropped ", "\nllm_cache_hits ", "\nactivation_ms "} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is not in\n%s", want, stderr)
		}
	}
}

func TestAWrongCallIsOneLine(t *testing.T) {
	folder := t.TempDir()
	right := []string{"--input", "go.mod", "--out", folder}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no input":       {[]string{"--out", folder}, "--input is missing"},
		"no output":      {[]string{"--input", "go.mod"}, "--out is missing"},
		"an argument":    {[]string{"--input", "go.mod", "--out", folder, "x"}, `unexpected argument "x"`},
		"unknown flag":   {[]string{"--input", "go.mod", "--out", folder, "--verbose"}, "flag provided but not defined: -verbose"},
		"legacy runner":  {[]string{"--input", "go.mod", "--out", folder, "--runner", "direct"}, `--runner "direct" is not in this binary`},
		"missing file":   {[]string{"--input", filepath.Join(folder, "none"), "--out", folder}, "cannot read the input"},
		"folder as file": {[]string{"--input", folder, "--out", folder}, "is not a file"},
		"file as folder": {[]string{"--input", "go.mod", "--out", "go.mod"}, "cannot write to --out"},
		"no activations": {append(right, "--concurrency", "-3"), "--concurrency is -3; use 1 to 1024"},
		"too many":       {append(right, "--concurrency", "1025"), "--concurrency is 1025; use 1 to 1024"},
		"latency":        {append(right, "--latency", "-1s"), "--latency is -1s"},
		"no model":       {append(right, "--model", ""), "--model is empty"},
	} {
		stdout, stderr, status := program(t, tc.args...)
		if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "triage: ") || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q; want %q on one line", name, status, stdout, stderr, tc.want)
		}
	}
	for _, endpoint := range []string{"localhost:11434/v1", "ftp://host/v1", "http://", "https://user:pass@host/v1", "http://host\x7f/"} {
		stdout, stderr, status := programAt(t, endpoint, right...)
		if status != 2 || stdout != "" || stderr != "triage: OPENAI_BASE_URL must be like https://host/v1, without a password\n" {
			t.Errorf("OPENAI_BASE_URL=%q: status %d, stdout %q, stderr %q", endpoint, status, stdout, stderr)
		}
	}
	if stdout, stderr, status := program(t, "--help"); status != 0 || stdout != "" || stderr != usage+"\n" {
		t.Errorf("--help: status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

// A real endpoint may refuse requests, and may leave out the token counts. The run continues, and
// the key is in no output.
func TestEndpoint(t *testing.T) {
	input := charges(t, 3, 3)
	for name, tc := range map[string]struct {
		status     int
		body       string
		made, lost int64
	}{
		"refuses":     {http.StatusUnauthorized, `{"error":{"message":"no such key: ` + apiKey + `"}}`, 0, 3},
		"says no use": {http.StatusOK, `{"choices":[{"message":{"role":"assistant","content":"Nothing to do."}}]}`, 3, 0},
		"no choice":   {http.StatusOK, `{"choices":[]}`, 0, 3},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+apiKey {
				t.Errorf("%s: the request has not the key", name)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.body)
		}))
		dir := t.TempDir()
		stdout, stderr, status := programAt(t, server.URL+"/v1", "--input", input, "--out", dir)
		server.Close()
		if status != 0 || strings.Contains(stdout+stderr, apiKey) {
			t.Fatalf("%s: status %d, stdout %s, stderr %s", name, status, stdout, stderr)
		}
		if n, err := readSummary(dir); err != nil || n["model/made"] != tc.made || n["dead letter/activation_error/error"] != tc.lost || n["tokens/input"] != 0 {
			t.Errorf("%s: %v, %v", name, n, err)
		}
		for _, file := range outputFiles {
			if strings.Contains(readFile(t, dir, file), apiKey) {
				t.Errorf("%s: %s has the key", name, file)
			}
		}
	}
}

func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	stdout, stderr, status := program(t, "--input", "go.mod", "--out", dir, "--fingerprint", "-")
	if status != 0 || stderr != "" || !strings.Contains(stdout, "RunAgent/transforms.beamagentsRunAgentFn") {
		t.Errorf("status %d, stderr %q, stdout\n%s", status, stderr, stdout)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("the pipeline ran: %v, %v", files, err)
	}
}
