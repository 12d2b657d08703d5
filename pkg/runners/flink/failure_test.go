package flink

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files hold what Beam's job server 2.65.0 said of jobs on Flink 1.19.
func TestExplain(t *testing.T) {
	for name, want := range map[string]struct{ step, reason string }{
		"error.txt": {"main.countFn", "element 500 is bad"},
		"panic.txt": {"main.countFn", "panic: element is bad in main.(*countFn).ProcessElement (/home/me/program/main.go:50)"},
		"exit.txt":  {"", "a worker process has ended, or cannot be reached (CANCELLED: client cancelled); what it has said is in the log of the task manager, with LOOPBACK in that of this program"},
	} {
		message, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if step, reason := explain(string(message)); step != want.step || reason != want.reason {
			t.Errorf("%s: step %q, reason %q", name, step, reason)
		}
	}
	for message, want := range map[string]struct{ step, reason string }{
		"": {},
		"java.util.concurrent.ExecutionException: org.apache.flink.util.FlinkException: Failed to execute job\n\tat a.B.c(B.java:1)\nCaused by: java.lang.IllegalStateException: There is no operator for the state abc\n\tat a.B.c(B.java:1)\n\t... 3 more": {"", "There is no operator for the state abc"},
		"java.lang.NullPointerException\n\tat a.B.c(B.java:1)":                                                                      {"", "java.lang.NullPointerException"},
		"DoFn[UID:6, PID:t:A/B, C/main.fn, Name: main.fn] failed:\nfirst\nsecond\n\tat org.apache.beam.X.y(X.java:2)\n\t... 3 more": {"A/B, C/main.fn", "first\nsecond"},
		"any other text": {"", "any other text"},
	} {
		if step, reason := explain(message); step != want.step || reason != want.reason {
			t.Errorf("%q: step %q, reason %q", message, step, reason)
		}
	}
}

func TestTraceIsKeptForThisUser(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	err := failed("../job 1", []string{"java.lang.Exception: one\n\tat a.B.c(B.java:1)", "two"})
	if err.Reason != "two" || !strings.Contains(err.Error(), err.TraceFile) {
		t.Errorf("%v", err)
	}
	content, readErr := os.ReadFile(err.TraceFile)
	info, statErr := os.Stat(err.TraceFile)
	if readErr != nil || statErr != nil || !strings.Contains(string(content), "at a.B.c(B.java:1)") || !strings.Contains(string(content), "two") || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %q, %v, %v", err.TraceFile, content, readErr, statErr)
	}
}
