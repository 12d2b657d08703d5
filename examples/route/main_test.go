package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The test binary is also the program: a process can run only one pipeline, and only a process has
// an exit status.
func TestMain(m *testing.M) {
	if os.Getenv("ROUTE_TEST_RUN") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// route runs the program.
func route(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "ROUTE_TEST_RUN=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func readFile(t *testing.T, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// frames splits a delimited file.
func frames(t *testing.T, b []byte) [][]byte {
	t.Helper()
	var all [][]byte
	for r := bytes.NewReader(b); r.Len() > 0; {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			t.Fatal(err)
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(r, frame); err != nil {
			t.Fatal(err)
		}
		all = append(all, frame)
	}
	return all
}

func TestSamples(t *testing.T) {
	for format, tc := range map[string]struct {
		letters string
		codes   map[string]int
	}{
		"jsonl": {
			"dead letters\n  malformed_envelope          7\n  total                       7\n",
			map[string]int{"unparsable": 4, "empty_payload": 1, "bad_event_time": 2},
		},
		"binpb": {
			"dead letters\n  malformed_envelope          8\n  unknown_payload             1\n  total                       9\n",
			map[string]int{"unparsable": 5, "empty_payload": 2, "bad_event_time": 1, "newer_variant": 1},
		},
	} {
		t.Run(format, func(t *testing.T) {
			want := "routed\n  event                     198\n  tool_result                60\n  approval                   30\n" +
				"  export_request             12\n  total                     300\n" + tc.letters
			outs := map[string]string{}
			for _, runner := range []string{"prism", "direct"} {
				outs[runner] = t.TempDir()
				stdout, stderr, status := route(t, "--input", "sample/sample."+format, "--out", outs[runner], "--runner", runner)
				if status != 0 || stdout != want || stderr != "" {
					t.Fatalf("%s: status %d, stderr %q, stdout\n%s, want\n%s", runner, status, stderr, stdout, want)
				}
			}
			codes, total := map[string]int{}, 0
			for _, name := range outputFiles {
				b := readFile(t, outs["prism"], name)
				if !bytes.Equal(b, readFile(t, outs["direct"], name)) {
					t.Errorf("%s: the runners differ", name)
				}
				if name == deadLetterTopicFile {
					continue
				}
				for line := range strings.Lines(string(b)) {
					total++
					if name == deadLettersFile {
						var l struct {
							Detail struct{ Code string } `json:"detail"`
						}
						if err := json.Unmarshal([]byte(line), &l); err != nil {
							t.Fatal(err)
						}
						codes[l.Detail.Code]++
					}
				}
			}
			letters := 0
			for code, n := range tc.codes {
				letters += n
				if codes[code] != n {
					t.Errorf("%d dead letters with code %s, want %d", codes[code], code, n)
				}
			}
			if total != 300+letters {
				t.Errorf("%d lines of output, want %d: something was lost", total, 300+letters)
			}
			keepsInputs(t, format, readFile(t, outs["prism"], deadLetterTopicFile), letters)
			readsItsOwnOutputs(t, outs["prism"], letters)
		})
	}
}

// keepsInputs looks for the exact input of each dead letter in the sample.
func keepsInputs(t *testing.T, format string, topic []byte, letters int) {
	t.Helper()
	sample := readFile(t, "sample", "sample."+format)
	messages := frames(t, topic)
	if len(messages) != letters {
		t.Errorf("%d messages for the errors topic, want %d", len(messages), letters)
	}
	for _, message := range messages {
		env := new(pb.AgentEnvelope)
		if err := proto.Unmarshal(message, env); err != nil {
			t.Fatal(err)
		}
		rec, err := deadletter.Unwrap(env)
		if err != nil {
			t.Fatal(err)
		}
		l, err := deadletter.Read(rec)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(sample, l.Input) {
			t.Errorf("%s: input %x is not in the sample", l.Code, l.Input)
		}
	}
}

// readsItsOwnOutputs runs the job on its own outputs: every output is a valid input.
func readsItsOwnOutputs(t *testing.T, out string, letters int) {
	t.Helper()
	again := t.TempDir()
	stdout, stderr, status := route(t, "--input", filepath.Join(out, toolResultsFile), "--out", again)
	if status != 0 || !strings.Contains(stdout, "tool_result                60\n") || !strings.Contains(stdout, "dead letters\n  total                       0\n") {
		t.Errorf("tool results again: status %d, %s%s", status, stderr, stdout)
	}
	if !bytes.Equal(readFile(t, again, toolResultsFile), readFile(t, out, toolResultsFile)) {
		t.Error("the tool results changed")
	}
	stdout, stderr, status = route(t, "--input", filepath.Join(out, deadLetterTopicFile), "--out", again)
	if status != 0 || !strings.Contains(stdout, fmt.Sprintf("  event                %8d\n", letters)) {
		t.Errorf("dead letters again: status %d, %s%s", status, stderr, stdout)
	}
}

func TestUsageErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(file, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(dir, "blocked")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	if err := os.WriteFile(filepath.Join(own, eventsFile), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"nothing":            {nil, "--input is missing"},
		"no output":          {[]string{"--input", file}, "--out is missing"},
		"missing file":       {[]string{"--input", filepath.Join(dir, "none.jsonl"), "--out", dir}, "no such file"},
		"folder as a file":   {[]string{"--input", dir, "--out", dir}, "is not a file"},
		"unwritable folder":  {[]string{"--input", file, "--out", filepath.Join(blocked, "out")}, "cannot write the outputs"},
		"folder is a file":   {[]string{"--input", file, "--out", blocked}, "cannot write the outputs"},
		"unknown runner":     {[]string{"--input", file, "--out", dir, "--runner", "spark"}, "use prism, direct or agents-flink"},
		"stray argument":     {[]string{"--input", file, "--out", dir, "more"}, `unexpected argument "more"`},
		"output is an input": {[]string{"--input", filepath.Join(own, eventsFile), "--out", own}, "choose another --out"},
	} {
		stdout, stderr, status := route(t, tc.args...)
		if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q; want 2 and one line about %q", name, status, stdout, stderr, tc.want)
		}
	}
	if string(readFile(t, own, eventsFile)) != "{}\n" {
		t.Error("the input was overwritten")
	}
}

// A file of an earlier run is replaced, even if the new output has no elements.
func TestOutputsOfAnEarlierRunGo(t *testing.T) {
	in, out := filepath.Join(t.TempDir(), "empty.jsonl"), t.TempDir()
	for path, content := range map[string]string{in: "\n", filepath.Join(out, eventsFile): "old\n"} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, stderr, status := route(t, "--input", in, "--out", out); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if b := readFile(t, out, eventsFile); len(b) != 0 {
		t.Errorf("events of an earlier run: %s", b)
	}
}

// Fields of a newer schema are kept, also in the readable files.
func TestNewerFieldsStay(t *testing.T) {
	newer := &pb.ToolResult{IntentId: "i"}
	newer.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x2a})
	b, err := proto.Marshal(&pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ToolResult{ToolResult: newer}})
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(t.TempDir(), "in.binpb"), t.TempDir()
	if err := os.WriteFile(in, append(binary.AppendUvarint(nil, uint64(len(b))), b...), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := route(t, "--input", in, "--out", out); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	const want = `{"tool_result":{"intent_id":"i","@unknown":"a01f2a"}}` + "\n"
	if got := string(readFile(t, out, toolResultsFile)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The fingerprint depends on the program and not on its flags, and the pipeline does not run.
func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, eventsFile)
	if err := os.WriteFile(kept, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "fingerprint.json")
	stdout, stderr, status := route(t, "--input", "sample/sample.jsonl", "--out", dir, "--fingerprint", file)
	if status != 0 || stdout != "" || stderr != "" {
		t.Fatalf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	again, _, _ := route(t, "--input", file, "--out", t.TempDir(), "--runner", "direct", "--fingerprint", "-")
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != again || !strings.Contains(again, "Route/transforms.beamagentsRouteFn") {
		t.Errorf("%s\nand with other flags\n%s", written, again)
	}
	if b, err := os.ReadFile(kept); err != nil || string(b) != "kept" {
		t.Errorf("an output of an earlier run: %q, %v", b, err)
	}
	if _, stderr, status := route(t, "--input", "sample/sample.jsonl", "--out", dir, "--fingerprint", dir); status != 2 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("an unwritable file: status %d, %q", status, stderr)
	}
}
