package golden

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// otherBytes are the values of which a language's deterministic encoding is not ours,
// and why. Readers find the same value in it.
var otherBytes = map[string]string{
	"python/trace_event_attribute_order": "a key of the map comes after the longer keys that begin with it",
	"java/tool_intent_unknown_order":     "unknown fields are sorted by number",
}

// parity lists where what language wrote is not our encoding of the golden values, and
// which values it did not write.
func parity(golden fs.FS, language string, all []Blob) (problems []string) {
	report := func(b Blob, what string) { problems = append(problems, language+" "+path.Base(b.Name)+" "+what) }
	for _, b := range all {
		raw, err := fs.ReadFile(golden, path.Join(path.Dir(b.Name), language, path.Base(b.Name)+".binpb"))
		if err != nil {
			report(b, "is missing")
			continue
		}
		want, err := b.Value()
		if err != nil {
			report(b, err.Error())
			continue
		}
		ours, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
		if err != nil {
			report(b, err.Error())
			continue
		}
		got := want.ProtoReflect().New().Interface()
		_, differs := otherBytes[language+"/"+path.Base(b.Name)]
		switch err := proto.Unmarshal(raw, got); {
		case err != nil:
			report(b, "does not decode: "+err.Error())
		case bytes.Equal(raw, ours) && differs:
			report(b, "has our bytes now: take it out of otherBytes")
		case bytes.Equal(raw, ours):
		case !differs:
			report(b, "has other bytes")
		case !proto.Equal(got, want): // which ignores the order of different unknown fields
			report(b, "has another value")
		}
	}
	return problems
}

func TestParity(t *testing.T) {
	all := blobs(t)
	for _, language := range []string{"python", "java"} {
		if problems := parity(os.DirFS("."), language, all); len(problems) > 0 {
			t.Errorf("%q", problems)
		}
		written, err := fs.Glob(os.DirFS("."), "v1/"+language+"/*")
		if err != nil || len(written) != len(all) {
			t.Errorf("%s has %d files for %d values (%v)", language, len(written), len(all), err)
		}
	}
}

func TestParityCanFail(t *testing.T) {
	for _, language := range []string{"python", "java"} {
		for _, name := range []string{"v1/tool_intent", "v1/agent_envelope_event_empty", "v1/trace_event_attribute_order", "v1/tool_intent_unknown_order"} {
			b := lookup(t, name)
			b.Text = strings.NewReplacer("seq: 7", "seq: 8", `external_event: ""`, `external_event: "x"`, `"aa"`, `"bb"`, "a01f", "a81f").Replace(b.Text)
			if problems := parity(os.DirFS("."), language, []Blob{b}); len(problems) != 1 {
				t.Errorf("another value passes for %s: %q", language, problems)
			}
		}
		b := lookup(t, "v1/tool_intent")
		b.Name = "v1/nothing"
		if problems := parity(os.DirFS("."), language, []Blob{b}); len(problems) != 1 {
			t.Errorf("a missing file passes: %q", problems)
		}
	}
}
