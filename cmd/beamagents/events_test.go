package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/events"
)

// callProgram runs the program in process.
func callProgram(stdin io.Reader, args ...string) (stdout, stderr string, status int) {
	var out, errs bytes.Buffer
	status = run(args, stdin, &out, &errs)
	return out.String(), errs.String(), status
}

type vectors struct {
	Events []struct {
		Envelope   string          `json:"envelope_json_if_preserve_order"`
		Projection json.RawMessage `json:"projection"`
	} `json:"events"`
	EnvelopeDecode []struct {
		Input string `json:"input"`
		Error string `json:"error"`
		Match string `json:"match"`
	} `json:"envelope_decode"`
	ProjectionEdges []struct {
		Input      string          `json:"input"`
		Projection json.RawMessage `json:"projection"`
	} `json:"projection_edges"`
}

func loadVectors(t testing.TB) (v vectors) {
	t.Helper()
	data, err := os.ReadFile("../../pkg/events/testdata/event_protocol_v1.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func compact(t testing.TB, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEventsProjectGivesTheVectors(t *testing.T) {
	v := loadVectors(t)
	var in, want []string
	for _, e := range v.Events {
		in, want = append(in, e.Envelope), append(want, compact(t, e.Projection))
	}
	for _, e := range v.ProjectionEdges {
		in, want = append(in, e.Input), append(want, compact(t, e.Projection))
	}
	stdout, stderr, status := callProgram(strings.NewReader(strings.Join(in, "\n")), "events", "project")
	if status != 0 || stderr != "" {
		t.Errorf("status %d, %s", status, stderr)
	}
	if diff := cmp.Diff(strings.Join(want, "\n")+"\n", stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// refusedVectors are lines of the vectors, and the numbers of those that are refused.
func refusedVectors(t testing.TB) (lines []string, refused map[int]string) {
	refused = map[int]string{}
	for _, e := range loadVectors(t).EnvelopeDecode {
		if strings.Contains(e.Input, "\n") {
			continue // no line
		}
		lines = append(lines, e.Input)
		// Where the vectors are accepted and we refuse, package events tests why.
		if _, err := events.DecodeEnvelope([]byte(e.Input)); err != nil {
			refused[len(lines)] = err.Error()
		} else if e.Error != "" {
			t.Errorf("%s is not refused", e.Input)
		}
	}
	if len(refused) < 10 || len(refused) == len(lines) {
		t.Fatalf("%d of %d lines are refused", len(refused), len(lines))
	}
	return lines, refused
}

func TestEventsProjectAnswersEachLine(t *testing.T) {
	lines, refused := refusedVectors(t)
	stdout, stderr, status := callProgram(strings.NewReader(strings.Join(lines, "\r\n")+"\r\n"), "events", "project")
	if status != 1 || stderr != "" {
		t.Errorf("status %d, %s", status, stderr)
	}
	got := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if len(got) != len(lines) {
		t.Fatalf("%d lines for %d", len(got), len(lines))
	}
	for i, line := range got {
		var answer map[string]any
		if err := json.Unmarshal([]byte(line), &answer); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if want, bad := refused[i+1]; bad && (len(answer) != 1 || !strings.HasPrefix(answer["error"].(string), want[:10])) {
			t.Errorf("%s: %s, want error %s", lines[i], line, want)
		} else if !bad && len(answer) != 17 {
			t.Errorf("%s: %s, want 17 columns", lines[i], line)
		}
	}
}

func TestEventsCheck(t *testing.T) {
	lines, refused := refusedVectors(t)
	var want strings.Builder
	for i := range lines {
		if why, bad := refused[i+1]; bad {
			fmt.Fprintf(&want, "line %d: %s\n", i+1, why)
		}
	}
	stdout, stderr, status := callProgram(strings.NewReader(strings.Join(lines, "\n")), "events", "check", "-")
	if status != 1 || stderr != fmt.Sprintf("%d lines, %d refused\n", len(lines), len(refused)) {
		t.Errorf("status %d, %s", status, stderr)
	}
	if diff := cmp.Diff(want.String(), stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEventsFromFilesAndStrangeInput(t *testing.T) {
	const good = `{"version":1,"type":"turn_start","payload":{"turn":"one"}}`
	file := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(file, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	long := func(size int) string {
		return `{"version":1,"type":"t","payload":"` + strings.Repeat("x", size-37) + `"}`
	}
	for name, tc := range map[string]struct {
		stdin  io.Reader
		args   string
		stdout string
		stderr string
		status int
	}{
		"nothing":          {strings.NewReader(""), "check", "", "0 lines, 0 refused\n", 0},
		"nothing, project": {strings.NewReader(""), "project", "", "beamagents: the input is empty\n", 0},
		"file":             {nil, "check " + file, "", "1 line, 0 refused\n", 0},
		"payload":          {nil, "check --payload " + file, "line 1: invalid type: string \"one\", expected u64\n", "1 line, 1 refused\n", 1},
		"payload of a newer type": {
			strings.NewReader(`{"version":1,"type":"newer","payload":null}`), "check --payload", "", "1 line, 0 refused\n", 0,
		},
		"empty line":           {strings.NewReader(good + "\n\n"), "check", "line 2: expected a value at byte 0\n", "2 lines, 1 refused\n", 1},
		"empty line, project":  {strings.NewReader("\n"), "project", `{"error":"expected a value at byte 0"}` + "\n", "", 1},
		"invalid UTF-8":        {strings.NewReader("\"\xff\""), "project", `{"error":"invalid UTF-8 at byte 1"}` + "\n", "", 1},
		"control in a message": {strings.NewReader(`{"version":1,"type":"model_usage_bound","payload":{"snapshot":{"a\nb\u2028\u202e":1}}}`), "check --payload", "", "1 line, 1 refused\n", 1},
		"longest line":         {strings.NewReader(long(maxLineBytes) + "\n" + good), "check", "", "2 lines, 0 refused\n", 0},
		"too long a line": {
			strings.NewReader(long(maxLineBytes+1) + "\n" + good + "\n" + long(3*maxLineBytes)), "check",
			"line 1: the line is longer than 67108864 bytes\nline 3: the line is longer than 67108864 bytes\n", "3 lines, 2 refused\n", 1,
		},
		"missing file":  {nil, "check /no/such/file", "", "beamagents: open /no/such/file: no such file or directory\n", 2},
		"folder":        {nil, "project " + t.TempDir(), "", "beamagents: ", 2},
		"two files":     {nil, "project a b", "", "beamagents: accepts at most 1 arg(s), received 2\n", 2},
		"broken input":  {io.MultiReader(strings.NewReader(good+"\n"), brokenReader{}), "check", "", "beamagents: pulled out\n", 2},
		"types and all": {nil, "types x", "", "beamagents: unknown command", 2},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, status := callProgram(tc.stdin, append([]string{"events"}, strings.Fields(tc.args)...)...)
			if status != tc.status || !strings.HasPrefix(stderr, tc.stderr) {
				t.Errorf("status %d, stderr %q; want %d, %q", status, stderr, tc.status, tc.stderr)
			}
			if name == "control in a message" {
				if strings.Count(stdout, "\n") != 1 || !strings.Contains(stdout, `a\nb\u2028\u202e`) {
					t.Errorf("not on one line: %q", stdout)
				}
			} else if stdout != tc.stdout {
				t.Errorf("stdout %.300q, want %q", stdout, tc.stdout)
			}
		})
	}
}

// A line needs a few times its length, whatever is in it: nothing is collected as garbage
// in this count, so the peak is below it.
func TestEventsProjectMemory(t *testing.T) {
	if racedetector.Enabled {
		t.Skip("it counts memory: make test runs this without the race detector")
	}
	const size = 2 << 20
	fill := func(before, piece, after string) string {
		return before + strings.Repeat(piece, (size-len(before)-len(after))/len(piece)) + after
	}
	payload := func(before, piece, after string) string {
		return fill(`{"version":1,"type":"t","payload":`+before, piece, after+`}`)
	}
	nest := strings.Repeat(`{"":`, 120) + "0" + strings.Repeat("}", 120) + ","
	for name, line := range map[string]string{
		"text":                  fill(`{"version":1,"type":"text_delta","payload":{"text":"`, "x", `"}}`),
		"escapes":               fill(`{"version":1,"type":"tool_end","payload":{"output":"`, `\n`, `","id":""}}`),
		"canonical":             payload("[", `{"a":"x","b":1},`, `0]`),
		"quotes":                payload(`["`, `\"`, `"]`),
		"members not sorted":    payload("[", `{"b":1,"a":"x"},`, `0]`),
		"one object, all equal": payload("{", `"":0,`, `"":1}`),
		"nested":                payload("[", nest, `0]`),
		"numbers":               payload("[", `1e15,`, `0]`),
		"metadata":              fill(`{"version":1,"type":"error","payload":0,"metadata":[`, `{"b":1,"a":2},`, `0]}`),
		"why a tool failed":     fill(`{"version":1,"type":"tool_end","payload":{"error_kind":{"type":"x","a":[`, `1,`, `0]}}}`),
		"summary of numbers":    fill(`{"version":1,"type":"agent_end","payload":{"verification_summary":[`, `1e15,`, `0]}}`),
		"summary of members":    fill(`{"version":1,"type":"agent_end","payload":{"verification_summary":{"x":[`, `{"b":1,"a":2},`, `0]}}}`),
		"subjects":              fill(`{"version":1,"type":"agent_end","payload":{"verification_summary":["failed",1,1,0,1,0,[],[`, `"",`, `"s"]]}}`),
		"one subject":           fill(`{"version":1,"type":"agent_end","payload":{"verification_summary":["failed",1,1,0,1,1,[],["`, `x`, `"]]}}`),
		"broken":                fill(`{"version":1,"type":"t","payload":[`, `1,`, `]}`),
	} {
		in := strings.NewReader(line)
		var stderr bytes.Buffer
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		status := run([]string{"events", "project"}, in, io.Discard, &stderr)
		runtime.ReadMemStats(&after)
		if stderr.Len() > 0 || (status == 0) == (name == "broken") {
			t.Errorf("%s: status %d, %s", name, status, stderr.String())
		}
		got := float64(after.TotalAlloc-before.TotalAlloc) / size
		t.Logf("%s: %.1f times the line", name, got)
		if got > 5 {
			t.Errorf("%s: %.1f times the line is allocated, at most 5", name, got)
		}
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("pulled out") }

func TestEventsTypes(t *testing.T) {
	stdout, stderr, status := callProgram(nil, "events", "types")
	if status != 0 || stderr != "" {
		t.Errorf("status %d, %s", status, stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if len(lines) != 50 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, name := range events.Types() {
		if strings.Fields(lines[i])[0] != name {
			t.Errorf("line %d is %q, want %s", i+1, lines[i], name)
		}
	}
	const toolEnd = "tool_end                 id string, name string, args? any, output string, exit_code i32, metadata? any, error_kind? ToolErrorKind"
	if lines[9] != toolEnd {
		t.Errorf("%s\nwant %s", lines[9], toolEnd)
	}
}
