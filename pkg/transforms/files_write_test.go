package transforms

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/beamagents/beamagents-go/golden"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func TestAppendLine(t *testing.T) {
	type point struct {
		Y, X int
		Name string
	}
	for name, tc := range map[string]struct {
		v    any
		want string
	}{
		"JSON in bytes":               {[]byte(` {"b":1.0,"a":"<&>"} `), `{"b":1.0,"a":"<&>"}`},
		"JSON of several lines":       {[]byte("{\"b\":1,\r\n\"a\":2}"), `{"a":2,"b":1}`},
		"a JSON string":               {[]byte(`"text"`), `"text"`},
		"text in bytes":               {[]byte("two\nlines \"quoted\""), `"two\nlines \"quoted\""`},
		"no text":                     {[]byte{0xff, 0}, `{"base64":"/wA="}`},
		"nothing":                     {[]byte{}, `""`},
		"nil":                         {[]byte(nil), `""`},
		"a member twice":              {[]byte(`{"a":1,"a":2}`), `"{\"a\":1,\"a\":2}"`},
		"JSON in a string":            {`[1,2]`, `[1,2]`},
		"a string":                    {"text", `"text"`},
		"a number":                    {7, `7`},
		"a struct":                    {point{1, 2, "<&>"}, `{"Name":"<&>","X":2,"Y":1}`},
		"a dead letter":               {&pb.ActivationErrorRecord{EntityKey: []byte("k"), Reason: "r", Detail: `{"code":"c"}`, EventTimeMs: 7}, `{"key":"k","reason":"r","detail":{"code":"c"},"event_time_ms":"7"}`},
		"an intent":                   {&pb.ToolIntent{IntentId: "i", EntityKey: []byte("k"), ToolName: "refund", ArgsJson: `{"cents":5}`}, `{"intent_id":"i","key":"k","tool_name":"refund","args_json":{"cents":5}}`},
		"a message of another schema": {wrapperspb.Double(1.5), `1.5`},
	} {
		got, err := appendLine([]byte("head "), tc.v)
		if err != nil || string(got) != "head "+tc.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, tc.want)
		}
	}
}

// ReadEnvelopes reads back what WriteFolder writes of an envelope, whatever is in it.
func TestLinesOfEnvelopesAreEnvelopes(t *testing.T) {
	blobs, err := golden.Blobs()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, b := range blobs {
		value, err := b.Value()
		if err != nil {
			t.Fatal(err)
		}
		env, ok := value.(*pb.AgentEnvelope)
		if !ok {
			continue
		}
		seen++
		line, err := appendLine(nil, env)
		if err != nil || bytes.ContainsAny(line, "\r\n") {
			t.Errorf("%s: %q, %v", b.Name, line, err)
		}
		back, code, text := parseLine(line, DefaultMaxBytes)
		wantBack, wantCode, wantText := parseEnvelope(mustMarshal(t, env), DefaultMaxBytes)
		if code != wantCode || text != wantText || string(mustMarshal(t, back)) != string(mustMarshal(t, wantBack)) {
			t.Errorf("%s: %s is read as %v, %s %s", b.Name, line, back, code, text)
		}
	}
	if seen < 5 {
		t.Errorf("%d envelopes", seen)
	}
}

func TestTimesSort(t *testing.T) {
	last := ""
	for _, ts := range []beam.EventTime{-1 << 63, -1, 0, 1, 1<<63 - 1} {
		b := string(appendTime(nil, ts))
		if len(b) != timeBytes || b <= last && last != "" {
			t.Errorf("%d: %x after %x", ts, b, last)
		}
		last = b
	}
}

func TestWriteFolderRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		dir, file string
		col       func(s beam.Scope) beam.PCollection
		want      string
	}{
		"no folder":        {" ", "a.jsonl", text, "the folder has no name: set dir"},
		"no ending":        {"out", "events", text, `the name "events" does not say what to write: end it in .jsonl, .txt or .binpb`},
		"another ending":   {"out", "events.csv", text, `the name "events.csv" does not say`},
		"a folder in it":   {"out", "a/b.jsonl", text, `"a/b.jsonl" is not the name of a file`},
		"a way out":        {"out", `..\b.jsonl`, text, `is not the name of a file`},
		"only an ending":   {"out", ".jsonl", text, `".jsonl" is not the name of a file`},
		"nothing":          {"out", "", text, `"" is not the name of a file`},
		"no PCollection":   {"out", "a.jsonl", func(beam.Scope) beam.PCollection { return beam.PCollection{} }, "a.jsonl has no PCollection: set one"},
		"numbers as text":  {"out", "a.txt", number, "a.txt takes strings and []byte, and the PCollection has int: name it a.jsonl, or map its elements"},
		"KVs as text":      {"out", "a.txt", func(s beam.Scope) beam.PCollection { return beam.AddFixedKey(s, text(s)) }, "a.txt takes strings"},
		"text as messages": {"out", "a.binpb", text, "a.binpb takes []byte and messages, alone or as values of KVs, and the PCollection has string: name it a.jsonl"},
		"groups":           {"out", "a.jsonl", func(s beam.Scope) beam.PCollection { return beam.GroupByKey(s, beam.AddFixedKey(s, text(s))) }, "a.jsonl does not take a PCollection<CoGBK<int,string>>"},
		"unknown scheme":   {"none://out", "a.jsonl", text, `file system scheme "none" not registered`},
	} {
		_, s := beam.NewPipelineWithRoot()
		if got := panicOf(func() { WriteFolder(s, tc.dir, map[string]beam.PCollection{tc.file: tc.col(s)}) }); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	_, s := beam.NewPipelineWithRoot()
	if got := panicOf(func() { WriteFolder(s, "out", nil) }); got != "transforms.WriteFolder: there is no file: name at least one" {
		t.Error(got)
	}
}

func text(s beam.Scope) beam.PCollection { return beam.Create(s, "a") }

func number(s beam.Scope) beam.PCollection { return beam.Create(s, 1) }

func panicOf(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = r.(error).Error()
		}
	}()
	f()
	return "no panic"
}

func TestReadEnvelopesRefuses(t *testing.T) {
	for want, tc := range map[string]struct {
		params ReadParams
		glob   string
	}{
		"transforms.ReadEnvelopes: ReadParams.MaxEnvelopeBytes is -1; set a positive number of bytes, or 0 for 10485760": {ReadParams{MaxEnvelopeBytes: -1}, "in.jsonl"},
		`file system scheme "none" not registered`:                                        {ReadParams{}, "none://in.jsonl"},
		"transforms.ReadEnvelopes: the glob is empty: name the files, such as in/*.jsonl": {ReadParams{}, " "},
	} {
		_, s := beam.NewPipelineWithRoot()
		if got := panicOf(func() { _ = ReadEnvelopes(s, tc.params, tc.glob).Errors }); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
