//go:build flink

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A job that loses a worker while it runs prints the same summary as on the embedded runner, and
// writes the same outputs and intents.
func TestDemoPrintsWhatTheReadmeShows(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "")
	t.Chdir("../../..") // the cluster keeps its jars in the folder of the module
	program, out := filepath.Join(t.TempDir(), "triage"), t.TempDir()
	if text, err := exec.Command("go", "build", "-C", "examples/triage", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var got bytes.Buffer
	if err := demo(t.Context(), program, "examples/triage/sample/sample.jsonl", out, &got); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("examples/triage/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, want, _ := strings.Cut(string(readme), "--out ../../out/triage\n")
	want, _, _ = strings.Cut(want, "```")
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-README +got):\n%s", diff)
	}

	embedded := t.TempDir()
	if text, err := exec.Command(program, "--input", "examples/triage/sample/sample.jsonl", "--out", embedded, "--latency", "0").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, name := range []string{"outputs.jsonl", "intents.jsonl"} {
		a, errA := os.ReadFile(filepath.Join(embedded, name))
		b, errB := os.ReadFile(filepath.Join(out, name))
		if errA != nil || errB != nil || len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("%s: %d bytes on the embedded runner, %d on Flink, and not the same; %v, %v", name, len(a), len(b), errA, errB)
		}
	}
}
