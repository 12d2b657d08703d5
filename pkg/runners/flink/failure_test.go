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

// The text of a step's error is its data's, and ends on a terminal.
func TestErrorTextIsForATerminal(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	said := "DoFn[UID:6, PID:t:A\x1b[2J, Name: main.fn] failed:\nred \x1b[31m\u009b31m \u202eevil\xff\tfirst\nsecond " + strings.Repeat("ö", 1<<20)
	err := failed("job-1", []string{said})
	if want := "red �[31m�31m �evil�\tfirst\nsecond ö"; !strings.HasPrefix(err.Reason, want) || err.Step != "A�[2J" {
		t.Errorf("step %q, reason %.80q", err.Step, err.Reason)
	}
	if len(err.Reason) > 5000 || !strings.HasSuffix(err.Reason, "ö ...") {
		t.Errorf("%d bytes, ending in %q", len(err.Reason), err.Reason[len(err.Reason)-10:])
	}
	if content, readErr := os.ReadFile(err.TraceFile); readErr != nil || !strings.Contains(string(content), said) {
		t.Errorf("the trace has %d bytes, %v", len(content), readErr)
	}
}

func TestProgressIsOneLineForATerminal(t *testing.T) {
	var progress locked
	w := &watch{name: "orders\x1b[2J", progress: &progress}
	w.restarted("DoFn[UID:6, PID:t:A, Name: main.fn] failed:\nfirst\x1b[31m\nsecond " + strings.Repeat("x", 1<<20))
	got := progress.String()
	if want := "flink: job orders�[2J: a bundle failed, Flink starts it again: in step A: first�[31m second x"; !strings.HasPrefix(got, want) {
		t.Errorf("%.120q", got)
	}
	if strings.Count(got, "\n") != 1 || len(got) > 5000 {
		t.Errorf("%d lines, %d bytes", strings.Count(got, "\n"), len(got))
	}
}

// A job is called after its program, and its id has the name in it.
func TestTraceOfAJobWithALongName(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	if err := failed(strings.Repeat("long", 100), []string{"one"}); err.TraceFile == "" {
		t.Error("no trace is kept")
	}
}
