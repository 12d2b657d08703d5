package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

type result struct {
	Code           int
	Stdout, Stderr string
}

func runWith(stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func TestDecodeAndEncode(t *testing.T) {
	const three = "\x02\x18\x07" + "\x02\x18\x80" + "\x02\x18\x09" // the second one is cut short inside
	for name, tc := range map[string]struct {
		stdin string
		args  string
		want  result
	}{
		"empty message":          {"", "decode --type ToolIntent", result{0, "{}\n", "beamagents: the input is empty\n"}},
		"no messages":            {"", "decode --type ToolIntent --delimited", result{0, "", "beamagents: the input is empty\n"}},
		"full name":              {"\x18\x07", "decode --type beam_agents.v1.ToolIntent", result{0, "{\"seq\":\"7\"}\n", ""}},
		"dash":                   {"\x18\x07", "decode --type ToolIntent -", result{0, "{\"seq\":\"7\"}\n", ""}},
		"bad message":            {"\x18\x80", "decode --type ToolIntent", result{1, "", "beamagents: message 1 at byte 0: ToolIntent.seq is cut short\n"}},
		"text that is not":       {"\x0a\x01\xff", "decode --type ToolIntent", result{1, "", "beamagents: message 1 at byte 2: ToolIntent.intent_id is not UTF-8\n"}},
		"bad in the middle":      {three, "decode --type ToolIntent --delimited", result{1, "{\"seq\":\"7\"}\n", "beamagents: message 2 at byte 4: ToolIntent.seq is cut short\n"}},
		"keep going":             {three, "decode --type ToolIntent --delimited --keep-going", result{1, "{\"seq\":\"7\"}\n{\"seq\":\"9\"}\n", "beamagents: message 2 at byte 4: ToolIntent.seq is cut short\n"}},
		"bad inside":             {"\x02\x18\x07\x03\x0a\x01\xff", "decode --type ToolIntent --delimited", result{1, "{\"seq\":\"7\"}\n", "beamagents: message 2 at byte 6: ToolIntent.intent_id is not UTF-8\n"}},
		"bad length":             {"\x02\x18\x07\x80", "decode --type ToolIntent --delimited", result{1, "{\"seq\":\"7\"}\n", "beamagents: message 2 at byte 3: the length of a message is cut short\n"}},
		"bad framing":            {"\x02\x18\x07\x05\x18", "decode --type ToolIntent --delimited --keep-going", result{1, "{\"seq\":\"7\"}\n", "beamagents: message 2 at byte 4: a message of 5 bytes is cut short after 1\n"}},
		"unknown type":           {"", "decode --type Tool", result{2, "", "beamagents: there is no message \"Tool\"; beamagents types lists them\n"}},
		"no type":                {"", "decode", result{2, "", "beamagents: required flag(s) \"type\" not set\n"}},
		"a map entry":            {"", "decode --type TraceEvent.AttributesEntry", result{2, "", "beamagents: there is no message \"TraceEvent.AttributesEntry\"; beamagents types lists them\n"}},
		"encode":                 {"{\n \"seq\": 7\n}\n", "encode --type ToolIntent", result{0, "\x18\x07", ""}},
		"encode lines":           {"{\"seq\":7}\n\n  \n{}\r\n{\"seq\":9}", "encode --type ToolIntent --delimited", result{0, "\x02\x18\x07\x00\x02\x18\x09", ""}},
		"encode nothing":         {"", "encode --type ToolIntent", result{1, "", "beamagents: line 1: the JSON is cut short\n"}},
		"encode no lines":        {"", "encode --type ToolIntent --delimited", result{0, "", "beamagents: the input is empty\n"}},
		"encode empty lines":     {"\n\n", "encode --type ToolIntent --delimited", result{0, "", ""}},
		"encode bad line":        {"{\"seq\":7}\n{\"seq\":x}\n{\"seq\":9}\n", "encode --type ToolIntent --delimited", result{1, "\x02\x18\x07", "beamagents: line 2: seq: not valid JSON: invalid character 'x' at start of value\n"}},
		"encode keep going":      {"{\"seq\":7}\n{\"seq\"\n{\"seq\":9}\n", "encode --type ToolIntent --delimited --keep-going", result{1, "\x02\x18\x07\x02\x18\x09", "beamagents: line 2: seq: the JSON is cut short\n"}},
		"encode line of a fault": {"{\n\"seq\": 7,\n\"kind\":\n \"OTHER\"}", "encode --type ToolIntent", result{1, "", "beamagents: line 4: kind: a text that does not fit, want a name or number of Kind\n"}},
		"encode readable":        {`{"key":"k","external_event":{"b": 1}}`, "encode --type AgentEnvelope", result{0, "\x0a\x01k\x1a\x08{\"b\": 1}", ""}},
		"encode readable args":   {`{"key":"k","args_json":{"a":1}}`, "encode --type ToolIntent", result{0, "\x12\x01k\x32\x07{\"a\":1}", ""}},
		"encode two keys":        {`{"key":"k","entity_key":"aw=="}`, "encode --type ToolIntent", result{1, "", "beamagents: line 1: entity_key: a member occurs twice\n"}},
		"encode unknown type":    {"", "encode --type Tool", result{2, "", "beamagents: there is no message \"Tool\"; beamagents types lists them\n"}},
		"no such file":           {"", "decode --type ToolIntent nowhere", result{2, "", "beamagents: open nowhere: no such file or directory\n"}},
		"two files":              {"", "decode --type ToolIntent a b", result{2, "", "beamagents: accepts at most 1 arg(s), received 2\n"}},
		"unknown flag":           {"", "decode --typ ToolIntent", result{2, "", "beamagents: unknown flag: --typ\n"}},
		"unknown command":        {"", "decod", result{2, "", "beamagents: unknown command \"decod\" for \"beamagents\"\n"}},
		"no command":             {"", "deadletter", result{2, "", "beamagents: beamagents deadletter needs a command; see beamagents deadletter --help\n"}},
		"no command of snapshot": {"", "snapshot", result{2, "", "beamagents: beamagents snapshot needs a command; see beamagents snapshot --help\n"}},
		"no command of intent":   {"", "intent", result{2, "", "beamagents: beamagents intent needs a command; see beamagents intent --help\n"}},
		"no command of trace":    {"", "trace", result{2, "", "beamagents: beamagents trace needs a command; see beamagents trace --help\n"}},
		"no command of events":   {"", "events", result{2, "", "beamagents: beamagents events needs a command; see beamagents events --help\n"}},
		"no shell":               {"", "completion", result{2, "", "beamagents: beamagents completion needs a command; see beamagents completion --help\n"}},
		"unknown shell":          {"", "completion nope", result{2, "", "beamagents: unknown command \"nope\" for \"beamagents completion\"\n"}},
		"unknown in a group":     {"", "intent nope", result{2, "", "beamagents: unknown command \"nope\" for \"beamagents intent\"\n"}},
		"help on nothing":        {"", "help nope", result{2, "", "beamagents: there is no command \"nope\": see beamagents --help\n"}},
		"help on nothing below":  {"", "help intent nope", result{2, "", "beamagents: there is no command \"intent nope\": see beamagents --help\n"}},
		"nothing with --help":    {"", "nope --help", result{2, "", "beamagents: unknown command \"nope\" for \"beamagents\"\n"}},
		"types of nothing":       {"", "types Tool", result{2, "", "beamagents: there is no message \"Tool\"; beamagents types lists them\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, runWith(tc.stdin, strings.Fields(tc.args)...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Help is printed on standard output with exit status 0, however the user asks for it.
func TestHelp(t *testing.T) {
	if bare, asked := runWith(""), runWith("", "--help"); bare != asked || bare.Code != 0 || !strings.Contains(bare.Stdout, "Available Commands:") {
		t.Errorf("without a command: %+v; with --help: %+v", bare, asked)
	}
	for _, command := range []string{"decode", "deadletter", "deadletter show", "snapshot", "snapshot show", "intent", "intent sign", "trace", "trace tree", "events", "completion", "completion bash", "help"} {
		words := strings.Fields(command)
		asked, help := runWith("", append(words, "--help")...), runWith("", append([]string{"help"}, words...)...)
		if asked != help || asked.Code != 0 || asked.Stderr != "" || !strings.Contains(asked.Stdout, "beamagents "+command) {
			t.Errorf("%s --help: %+v; help: %+v", command, asked, help)
		}
	}
}

func TestFileArgument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m")
	if err := os.WriteFile(file, []byte("\x18\x07"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runWith("", "decode", "--type", "ToolIntent", file); got != (result{0, "{\"seq\":\"7\"}\n", ""}) {
		t.Errorf("decode FILE = %+v", got)
	}
	if got := runWith("", "decode", "--type", "ToolIntent", filepath.Dir(file)); got.Code != 2 {
		t.Errorf("decode FOLDER = %+v", got)
	}
}

// A file may have any name.
func TestErrorsAreForATerminal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a\x1b[2J\u202eb")
	if got := runWith("", "decode", "--type", "ToolIntent", name); got.Code != 2 || !strings.Contains(got.Stderr, "a\ufffd[2J\ufffdb: no such file") {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(name, []byte("\x01\x18"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runWith("", "trace", "tree", "--keep-going", name, name); got.Code != 1 || !strings.Contains(got.Stderr, "a\ufffd[2J\ufffdb: message 1") {
		t.Errorf("%+v", got)
	}
}

// If the reader of the output is gone, the program ends. This is not a fault of the data.
func TestOutputThatFails(t *testing.T) {
	var stderr bytes.Buffer
	if code := run([]string{"decode", "--type", "ToolIntent"}, strings.NewReader("\x18\x07"), broken{}, &stderr); code != 2 {
		t.Errorf("exit status %d, %s", code, &stderr)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, fmt.Errorf("broken pipe") }

func TestTypes(t *testing.T) {
	list := runWith("", "types")
	lines := strings.Split(strings.TrimSuffix(list.Stdout, "\n"), "\n")
	if list.Code != 0 || len(lines) != len(messageNames()) {
		t.Fatalf("types = %+v", list)
	}
	for i, name := range messageNames() {
		if !strings.HasPrefix(lines[i], name+" ") {
			t.Errorf("line %d is %q, want %s", i, lines[i], name)
		}
		short, full := runWith("", "types", name), runWith("", "types", "beam_agents.v1."+name)
		if short.Code != 0 || short != full {
			t.Errorf("types %s = %+v, %+v", name, short, full)
		}
		fields := typeOf(t, protoreflect.FullName(schemaPackage+"."+name)).Descriptor().Fields()
		for j := range fields.Len() {
			if want := fmt.Sprintf("\n%d %s ", fields.Get(j).Number(), fields.Get(j).Name()); !strings.Contains(short.Stdout, want) {
				t.Errorf("types %s lacks %q", name, want)
			}
		}
	}
	for name, want := range map[string]string{
		"TraceEvent":    "\n8 attributes map<string, string>\n    Names and values of OpenTelemetry attributes, as text.",
		"ToolIntent":    "\nenum Kind\n    What the intent asks for.\n0 TOOL_KIND_UNSPECIFIED\n    Written before kinds existed. It is read as TOOL.\n",
		"AgentEnvelope": "\npayload: one of external_event, tool_result, approval, export_request\n    At most one is set.",
		"StateSnapshot": "\n8 pending repeated ToolIntent\n",
	} {
		if got := runWith("", "types", name); !strings.Contains(got.Stdout, want) {
			t.Errorf("types %s lacks %q:\n%s", name, want, got.Stdout)
		}
	}
}

func TestDeadletterShow(t *testing.T) {
	seq := int64(7)
	env := &pb.AgentEnvelope{EntityKey: []byte("k"), Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte("e")}}
	record := func(l deadletter.Letter) *pb.ActivationErrorRecord {
		rec, err := l.Record()
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	for name, tc := range map[string]struct {
		rec  *pb.ActivationErrorRecord
		want string
	}{
		"envelope": {
			record(deadletter.Letter{
				Reason: deadletter.ActivationError, Code: deadletter.Failed, Error: "no", EntityKey: []byte("k"), EventTimeMS: 1000,
				InputKind: deadletter.EnvelopeInput, Input: deterministic(t, env), Position: deadletter.Position{Seq: &seq},
			}),
			`{"entity_key":"aw==","reason":"activation_error","detail":{"code":"error","error":"no","input":"CgFrGgFl","input_kind":"envelope","position":{"seq":7}},"event_time_ms":"1000","input":{"entity_key":"aw==","external_event":"ZQ=="}}`,
		},
		"bytes that decode": {
			record(deadletter.Letter{Reason: deadletter.MalformedEnvelope, Code: deadletter.EmptyPayload, InputKind: deadletter.BytesInput, Input: []byte("\x0a\x01k")}),
			`{"reason":"malformed_envelope","detail":{"code":"empty_payload","input":"CgFr","input_kind":"bytes"},"input":{"entity_key":"aw=="}}`,
		},
		"bytes that do not": {
			record(deadletter.Letter{Reason: deadletter.MalformedEnvelope, Code: deadletter.Unparsable, InputKind: deadletter.BytesInput, Input: []byte("\x0a")}),
			`{"reason":"malformed_envelope","detail":{"code":"unparsable","input":"Cg==","input_kind":"bytes"}}`,
		},
		"bytes of an intent that decode as an envelope": {
			record(deadletter.Letter{Reason: deadletter.MalformedIntent, Code: deadletter.Unparsable, InputKind: deadletter.BytesInput, Input: []byte("\x0a\x01k")}),
			`{"reason":"malformed_intent","detail":{"code":"unparsable","input":"CgFr","input_kind":"bytes"}}`,
		},
		"event": {
			record(deadletter.Letter{Reason: deadletter.MalformedEvent, Code: deadletter.MissingField, InputKind: deadletter.EventInput, Input: []byte("{\n \"a\": 1.0 }")}),
			`{"reason":"malformed_event","detail":{"code":"missing_field","input":"ewogImEiOiAxLjAgfQ==","input_kind":"event"},"input":{"a":1.0}}`,
		},
		"intent": {
			record(deadletter.Letter{Reason: deadletter.UnknownKind, Code: "unknown_kind", InputKind: deadletter.IntentInput, Input: deterministic(t, &pb.ToolIntent{Kind: 99})}),
			`{"reason":"unknown_kind","detail":{"code":"unknown_kind","input":"UGM=","input_kind":"intent"},"input":{"kind":99}}`,
		},
		"no input": {
			record(deadletter.Letter{Reason: deadletter.HITLTimeout, Code: deadletter.Dropped}),
			`{"reason":"hitl_timeout","detail":{"code":"dropped","input_kind":"none"}}`,
		},
		"another program's text":   {&pb.ActivationErrorRecord{Reason: "r", Detail: "plain \"text\"\nof two lines"}, `{"reason":"r","detail":"plain \"text\"\nof two lines"}`},
		"another program's object": {&pb.ActivationErrorRecord{Reason: "r", Detail: "{ \"a\":\n [1, 2.50] }"}, `{"reason":"r","detail":{"a":[1,2.50]}}`},
		"not quite JSON":           {&pb.ActivationErrorRecord{Reason: "r", Detail: `{"a":1,"a":2}`}, `{"reason":"r","detail":"{\"a\":1,\"a\":2}"}`},
	} {
		t.Run(name, func(t *testing.T) {
			tc.rec.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x2a})
			want := result{0, strings.TrimSuffix(tc.want, "}") + `,"@unknown":"a01f2a"}` + "\n", ""}
			if diff := cmp.Diff(want, runWith(string(deterministic(t, tc.rec)), "deadletter", "show")); diff != "" {
				t.Errorf("record: %s", diff)
			}
			wrapped, err := deadletter.Wrap(tc.rec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, runWith(string(deterministic(t, wrapped)), "deadletter", "show")); diff != "" {
				t.Errorf("envelope: %s", diff)
			}
		})
	}
	// Every record and every envelope around one of the golden blobs can be shown.
	shown := 0
	for _, b := range blobs(t) {
		if strings.HasPrefix(b.Name, "v1/activation_error_record") || strings.HasPrefix(b.Name, "v1/agent_envelope_dead_letter") {
			shown++
			if got := runWith(string(b.Bytes), "deadletter", "show"); got.Code != 0 || !strings.HasPrefix(got.Stdout, `{"`) {
				t.Errorf("%s: %+v", b.Name, got)
			}
		}
	}
	if shown < 5 {
		t.Errorf("only %d blobs are dead letters", shown)
	}
}

// A bad record is reported as a record, at the byte of the input where it is bad.
func TestDeadletterShowBadData(t *testing.T) {
	for name, tc := range map[string]struct{ stdin, want string }{
		"record, detail not UTF-8":            {"\x12\x01x\x1a\x01\xff", "byte 5: ActivationErrorRecord.detail is not UTF-8"},
		"record, cut inside its reason":       {"\x0a\x01k\x12\x05ab", "byte 3: ActivationErrorRecord.reason is cut short"},
		"record, reason not UTF-8":            {"\x12\x01\xff", "byte 2: ActivationErrorRecord.reason is not UTF-8"},
		"record, empty reason":                {"\x12\x00", "byte 0: ActivationErrorRecord.reason is empty"},
		"envelope, cut inside its key":        {"\x0a", "byte 0: AgentEnvelope.entity_key is cut short"},
		"envelope, bad tag":                   {"\x10\x01\x1a\x01\xff\x00", "byte 5: AgentEnvelope: the tag of a field is not valid"},
		"envelope, empty":                     {"", "byte 0: deadletter: envelope holds no dead letter: it has no external_event"},
		"envelope, a record without a reason": {"\x10\x01\x1a\x03\x0a\x01k", "byte 4: deadletter: envelope holds no dead letter: external_event has no reason"},
		"envelope, detail of the record":      {"\x0a\x01k\x10\x01\x1a\x06\x12\x01x\x1a\x01\xff", "byte 12: AgentEnvelope.external_event: ActivationErrorRecord.detail is not UTF-8"},
		"envelope, the last event counts":     {"\x1a\x03\x12\x01x\x1a\x03\x12\x05x", "byte 7: AgentEnvelope.external_event: ActivationErrorRecord.reason is cut short"},
		"envelope, the last variant counts":   {"\x1a\x03\x12\x01x\x2a\x00", "byte 0: deadletter: envelope holds no dead letter: it has no external_event"},
	} {
		want := result{1, "", "beamagents: message 1 at " + tc.want + "\n"}
		if diff := cmp.Diff(want, runWith(tc.stdin, "deadletter", "show")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	const stream = "\x04\x12\x02hi\x01\x0a\x02\x12\x00\x06\x12\x01x\x1a\x01\xff"
	want := result{1, "{\"reason\":\"hi\"}\n", "beamagents: message 2 at byte 6: AgentEnvelope.entity_key is cut short\n" +
		"beamagents: message 3 at byte 8: ActivationErrorRecord.reason is empty\n" +
		"beamagents: message 4 at byte 16: ActivationErrorRecord.detail is not UTF-8\n"}
	if diff := cmp.Diff(want, runWith(stream, "deadletter", "show", "--delimited", "--keep-going")); diff != "" {
		t.Error(diff)
	}
}

// Dead letters in JSON, one on a line, are shown as the encoded ones are.
func TestDeadletterShowJSON(t *testing.T) {
	record := &pb.ActivationErrorRecord{EntityKey: []byte("k"), Reason: "activation_error", Detail: `{"code":"failed","error":"boom"}`, EventTimeMs: 5}
	envelope, err := deadletter.Wrap(record)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"entity_key":"aw==","reason":"activation_error","detail":{"code":"failed","error":"boom"},"event_time_ms":"5"}` + "\n"
	in := runWith(string(deterministic(t, record)), "decode", "--type", "ActivationErrorRecord").Stdout +
		runWith(string(deterministic(t, envelope)), "decode", "--type", "AgentEnvelope").Stdout
	if diff := cmp.Diff(result{0, want + want, ""}, runWith(in, "deadletter", "show")); diff != "" {
		t.Error(diff)
	}
	for text, fault := range map[string]string{
		`{"entity_key":"aw=="}`:                         "ActivationErrorRecord.reason is empty",
		`{"entity_key":"aw==","external_event":"eA=="}`: "deadletter: envelope holds no dead letter: ",
		`{"entity_key":"aw==","external_event":"e"}`:    "external_event: a text that does not fit",
		`{"reason":"r","event_time_ms":"soon"}`:         "event_time_ms: ",
		`{"reason":1}`:                                  "",
		`{"reason":"r","color":"red"}`:                  "",
		`{`:                                             "",
	} {
		got := runWith(text+"\n"+`{"reason":"r"}`, "deadletter", "show", "--keep-going")
		if got.Code != 1 || got.Stdout != `{"reason":"r"}`+"\n" || !strings.HasPrefix(got.Stderr, "beamagents: line 1: "+fault) || strings.Count(got.Stderr, "\n") != 1 {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func FuzzReadRecord(f *testing.F) {
	f.Add([]byte("\x12\x01r"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		rec, offset, fault := readRecord(frame)
		if (rec == nil) != (fault != "") || offset < 0 || offset > len(frame) {
			t.Fatalf("%v, byte %d: %s", rec, offset, fault)
		}
		if line := appendRecord(nil, rec); rec != nil && !json.Valid(line) {
			t.Fatalf("%s", line)
		}
	})
}

// For an input that it refuses, show prints only what is wrong with it.
func TestDeadletterShowNothing(t *testing.T) {
	if got, want := runWith("", "deadletter", "show", "--delimited"), (result{0, "", "beamagents: the input is empty\n"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := runWith("", "deadletter", "show"); got.Code != 1 || strings.Count(got.Stderr, "\n") != 1 {
		t.Errorf("%+v, want one line", got)
	}
}

func TestVersion(t *testing.T) {
	got := runWith("", "version")
	want := "\n" + runtime.Version() + "\nwire schema beam_agents.v1\nstate schema version 1\nagent event protocol 1\n"
	if got.Code != 0 || !strings.HasPrefix(got.Stdout, "beamagents ") || !strings.HasSuffix(got.Stdout, want) {
		t.Errorf("version = %+v", got)
	}
	newest := 0
	for _, b := range blobs(t) {
		var n int
		if _, err := fmt.Sscanf(b.Name, "v%d/", &n); err != nil {
			t.Fatal(err)
		}
		newest = max(newest, n)
	}
	if newest != stateSchemaVersion {
		t.Errorf("state schema version %d, golden blobs of %d", stateSchemaVersion, newest)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := runWith("", "completion", shell); got.Code != 0 || !strings.Contains(got.Stdout, "beamagents") {
			t.Errorf("completion %s ends with %d: %s", shell, got.Code, got.Stderr)
		}
	}
	for _, args := range [][]string{{"decode", "--type", ""}, {"encode", "--type", ""}, {"types", ""}} {
		if got := runWith("", append([]string{"__complete"}, args...)...); !strings.HasPrefix(got.Stdout, strings.Join(messageNames(), "\n")) {
			t.Errorf("completion of %q: %+v", args, got)
		}
	}
}
