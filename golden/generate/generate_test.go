package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/golden/internal/frozen"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// repository makes a root with what is frozen in ours.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, folder := range []string{versionFolder, baselineFolder} {
		if err := os.CopyFS(filepath.Join(root, folder), os.DirFS(filepath.Join("../..", folder))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"go.mod", manifestFile} {
		data, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(os.DirFS(root), file)
		files[file] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestNothingToAdd(t *testing.T) {
	root := repository(t)
	before := tree(t, root)
	var out bytes.Buffer
	if err := generate(root, &out); err != nil || out.Len() > 0 {
		t.Errorf("generate = %v, added %s", err, &out)
	}
	if diff := cmp.Diff(before, tree(t, root)); diff != "" {
		t.Errorf("tree (-before +after):\n%s", diff)
	}
}

func TestFromNothing(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "golden"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := generate(root, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	got, want := tree(t, root), tree(t, repository(t))
	for file := range want { // which golden/parity adds
		if dir := filepath.Dir(file); dir == versionFolder+"/python" || dir == versionFolder+"/java" {
			delete(want, file)
		}
	}
	for file, content := range want {
		switch {
		case file == "go.mod", file == manifestFile, filepath.Base(file) == releaseFile:
		case !strings.HasSuffix(file, ".txtpb"):
			if got[file] != content {
				t.Errorf("%s comes out different", file)
			}
		case !same(file, []byte(content), []byte(got[file])):
			t.Errorf("%s comes out with another value", file)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
}

func TestRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		edit func(string) string
		want error
	}{
		"bytes":      {versionFolder + "/tool_intent.binpb", func(s string) string { return s + "\xa0\x1f\x2a" }, frozen.ErrChanged},
		"text":       {versionFolder + "/tool_intent.txtpb", func(s string) string { return strings.Replace(s, "seq: 7", "seq: 8", 1) }, frozen.ErrChanged},
		"descriptor": {baselineFolder + "/before_kind.binpb", func(s string) string { return s[1:] }, frozen.ErrChanged},
		"release":    {baselineFolder + "/" + releaseFile, func(s string) string { return s[1:] }, frozen.ErrChanged},
		"stranger":   {versionFolder + "/other.binpb", func(string) string { return "" }, frozen.ErrChanged},
	} {
		t.Run(name, func(t *testing.T) {
			root := repository(t)
			file := filepath.Join(root, tc.file)
			old, err := os.ReadFile(file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(tc.edit(string(old))), 0o600); err != nil {
				t.Fatal(err)
			}
			before := tree(t, root)
			if err := generate(root, &bytes.Buffer{}); !errors.Is(err, tc.want) {
				t.Errorf("generate = %v; want %v", err, tc.want)
			}
			if diff := cmp.Diff(before, tree(t, root)); diff != "" {
				t.Errorf("a refusal wrote (-before +after):\n%s", diff)
			}
		})
	}
	if err := generate(t.TempDir(), &bytes.Buffer{}); err == nil {
		t.Error("generate runs outside a repository")
	}
}

func TestBlobFilesRefuses(t *testing.T) {
	for name, blobs := range map[string][]blob{
		"no line for people": {{name: "a", value: &pb.ToolIntent{}}},
		"twice":              {{name: "a", doc: "One.", value: &pb.ToolIntent{}}, {name: "a", doc: "Two.", value: &pb.ToolIntent{}}},
		"bytes of another":   {{name: "a", doc: "One.", value: &pb.ToolIntent{}, wire: []byte{0x18, 1}}},
		"broken bytes":       {{name: "a", doc: "One.", value: &pb.ToolIntent{}, wire: []byte{0x18}}},
		"invalid text":       {{name: "a", doc: "One.", value: &pb.ToolIntent{ToolName: "\xff"}}},
	} {
		if files, err := blobFiles(blobs); err == nil {
			t.Errorf("%s: blobFiles = %v", name, files)
		}
	}
}

func TestSame(t *testing.T) {
	const text = "# proto-message: beam_agents.v1.ToolIntent\n# A.\n\nseq: 7\n"
	for name, tc := range map[string]struct {
		other string
		want  bool
	}{
		"layout":  {strings.Replace(text, ": 7", ":  7", 1), true},
		"value":   {strings.Replace(text, ": 7", ": 8", 1), false},
		"type":    {strings.Replace(text, "ToolIntent", "ToolResult", 1), false},
		"unknown": {strings.Replace(text, "# A.", "# unknown: a01f2a", 1), false},
		"broken":  {text + "}", false},
	} {
		if got := same("a.txtpb", []byte(text), []byte(tc.other)); got != tc.want {
			t.Errorf("%s: same = %v", name, got)
		}
	}
	if same("a.binpb", []byte(text), []byte(text)) {
		t.Error("bytes are compared as text")
	}
	if !same(releaseFile, []byte("old"), []byte("new")) || same("before_kind.binpb", []byte("old"), []byte("new")) {
		t.Error("of the descriptors the release alone may differ from today's")
	}
}

// TestSchemaToday: a file that is missing here is in no release, and so not protected, as
// that of the tests' own messages.
func TestSchemaToday(t *testing.T) {
	var got, want []string
	for _, file := range schemaToday().GetFile() {
		got = append(got, file.GetName())
	}
	proto := os.DirFS("../../proto")
	if err := fs.WalkDir(proto, ".", func(file string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(file, ".proto") && !strings.HasPrefix(file, "beam_agents/testing/") {
			want = append(want, file)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-in proto +here):\n%s", diff)
	}
}

func TestCut(t *testing.T) {
	before := schemaToday()
	for name, lost := range map[string]string{
		"ToolIntent.kind": "kind", "ToolIntent.Kind": "Kind", "TraceEvent.EventType.SUSPENDED": "SUSPENDED", "MemoryEntry": "MemoryEntry",
		"AgentEnvelope.StateExportRequest": "StateExportRequest", "beam_agents.runtime.v1.KeyControl.seq": "seq",
		"beam_agents.runtime.v1.DeferredEvent": "DeferredEvent", "beam_agents/runtime/v1/control.proto": "beam_agents/runtime/v1/control.proto",
	} {
		set := schemaToday()
		if !cut(set, name) || proto.Size(set) >= proto.Size(before)-len(lost) {
			t.Errorf("%s was not cut", name)
		}
	}
	for _, name := range []string{"", "KeyControl", "ToolIntent.nothing", "beam_agents.v1.ToolIntent", "beam_agents.runtime.v1", "control.proto"} {
		if set := schemaToday(); cut(set, name) || !proto.Equal(set, before) {
			t.Errorf("%q was cut", name)
		}
	}
}

// TestCareless holds the blob that is not canonical to what its text claims.
func TestCareless(t *testing.T) {
	raw := careless(intentKey0())
	got := &pb.ToolIntent{}
	if err := proto.Unmarshal(raw, got); err != nil || !proto.Equal(got, intentKey0()) {
		t.Errorf("careless reads as %v, %v", got, err)
	}
	for what, part := range map[string][]byte{
		"an explicit zero": {0x48, 0}, "a long varint": {0x20, 0x81, 0x80, 0}, "a repeated scalar": []byte("\x2a\x0boverwritten"),
	} {
		if !bytes.Contains(raw, part) {
			t.Errorf("no %s", what)
		}
	}
	if bytes.HasPrefix(raw, []byte{0x0a}) {
		t.Error("the fields are in order")
	}
}
