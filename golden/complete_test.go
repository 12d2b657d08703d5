package golden

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/beamagents/beamagents-go/golden/internal/frozen"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// insideOnly are the messages that are never written alone and need no blob of
// their own: every other message does.
var insideOnly = []protoreflect.FullName{
	"beam_agents.v1.MemoryEntry", "beam_agents.v1.LlmCacheEntry",
	"beam_agents.runtime.v1.StoredHeader", "beam_agents.runtime.v1.RequestPart", "beam_agents.runtime.v1.StoredUsage",
}

// languagePath is what another language wrote: the value of v1/NAME.txtpb.
var languagePath = regexp.MustCompile(`^(v[1-9][0-9]*)/(?:python|java)/([a-z][a-z0-9_]*)\.binpb$`)

var blobPath = regexp.MustCompile(`^v([1-9][0-9]*)/[a-z][a-z0-9_]*\.(binpb|txtpb)$`)

// releasePath is what a release stored, which golden/freeze copies and checks.
var releasePath = regexp.MustCompile(`^release/v[^/]+/state/[a-z][a-z0-9_]*\.(binpb|txtpb)$`)

// misplaced lists the blobs of the tree golden that are outside a version folder and a release, the
// other files in such a folder, and the blobs that lack one of their two files.
func misplaced(golden fs.FS) (problems []string, err error) {
	err = fs.WalkDir(golden, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		ext := path.Ext(file)
		isBlob := ext == ".binpb" || ext == ".txtpb"
		inVersion := regexp.MustCompile(`^v[0-9]`).MatchString(file)
		switch {
		case !isBlob && !inVersion:
			return nil
		case languagePath.MatchString(file):
			if _, err := fs.Stat(golden, languagePath.ReplaceAllString(file, "$1/$2.txtpb")); err != nil {
				problems = append(problems, file+" is of no blob")
			}
			return nil
		case !blobPath.MatchString(file) && !releasePath.MatchString(file):
			problems = append(problems, file+" is no blob of a version folder")
			return nil
		}
		other := strings.TrimSuffix(file, ext) + map[string]string{".binpb": ".txtpb", ".txtpb": ".binpb"}[ext]
		if _, err := fs.Stat(golden, other); err != nil {
			problems = append(problems, file+" has no "+other)
		}
		return nil
	})
	return problems, err
}

// uncovered lists the parts of the schema that do not occur in the blobs of the newest version:
// messages without a blob of their own, fields that are never set, enum values that never occur,
// and enums without an unknown number.
func uncovered(golden fs.FS, schema ...protoreflect.FileDescriptor) ([]string, error) {
	files, err := fs.Glob(golden, "v*/*.txtpb")
	if err != nil {
		return nil, err
	}
	newest := 0
	for _, file := range files {
		if parts := blobPath.FindStringSubmatch(file); parts != nil {
			n, err := strconv.Atoi(parts[1])
			if err != nil {
				return nil, err
			}
			newest = max(newest, n)
		}
	}
	seen := map[string]bool{}
	for _, file := range files {
		if !strings.HasPrefix(file, fmt.Sprintf("v%d/", newest)) {
			continue
		}
		b, err := read(golden, strings.TrimSuffix(file, ".txtpb"))
		if err != nil {
			return nil, err
		}
		value, err := b.Value()
		if err != nil {
			return nil, err
		}
		seen["message "+string(b.Message)] = true
		if err := protorange.Range(value.ProtoReflect(), func(v protopath.Values) error {
			if step := v.Index(-1).Step; step.Kind() == protopath.FieldAccessStep {
				fd := step.FieldDescriptor()
				seen["field "+string(fd.FullName())] = true
				if fd.Enum() != nil {
					seen[enumValue(fd.Enum(), v.Index(-1).Value.Enum())] = true
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	missing := map[string]bool{}
	need := func(what string) {
		if !seen[what] {
			missing[what] = true
		}
	}
	var walk func(protoreflect.MessageDescriptors)
	walk = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			md := messages.Get(i)
			if md.IsMapEntry() {
				continue
			}
			if !slices.Contains(insideOnly, md.FullName()) {
				need("message " + string(md.FullName()))
			}
			for i := range md.Fields().Len() {
				need("field " + string(md.Fields().Get(i).FullName()))
			}
			for i := range md.Enums().Len() {
				ed := md.Enums().Get(i)
				need("unknown number of " + string(ed.FullName()))
				for i := range ed.Values().Len() {
					if n := ed.Values().Get(i).Number(); n != 0 { // 0 is an absent field
						need(enumValue(ed, n))
					}
				}
			}
			walk(md.Messages())
		}
	}
	for _, file := range schema {
		walk(file.Messages())
	}
	return slices.Sorted(maps.Keys(missing)), nil
}

func enumValue(ed protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	if v := ed.Values().ByNumber(n); v != nil {
		return "value " + string(v.FullName())
	}
	return "unknown number of " + string(ed.FullName())
}

func TestPlaces(t *testing.T) {
	problems, err := misplaced(os.DirFS("."))
	if err != nil || len(problems) > 0 {
		t.Errorf("misplaced: %v, %q", err, problems)
	}
	// What is on disk is what the package hands out.
	files, err := fs.Glob(os.DirFS("."), "v*/*.binpb")
	if err != nil {
		t.Fatal(err)
	}
	if got := len(blobs(t)); got != len(files) {
		t.Errorf("%d blobs are embedded, %d are there", got, len(files))
	}
}

func TestPlacesCanFail(t *testing.T) {
	pair := func(name string) fstest.MapFS { return fstest.MapFS{name + ".binpb": {}, name + ".txtpb": {}} }
	for name, tc := range map[string]struct {
		golden fstest.MapFS
		want   int
	}{
		"good":                {pair("v1/a"), 0},
		"another version":     {pair("v12/a"), 0},
		"another kind":        {fstest.MapFS{"pipeline/a.json": {}, "README.md": {}}, 0},
		"top level":           {pair("a"), 2},
		"another folder":      {pair("blobs/a"), 2},
		"version 0":           {pair("v0/a"), 2},
		"below a version":     {pair("v1/deep/a"), 2},
		"upper case":          {pair("v1/A"), 2},
		"of python":           {fstest.MapFS{"v1/a.binpb": {}, "v1/a.txtpb": {}, "v1/python/a.binpb": {}, "v1/java/a.binpb": {}}, 0},
		"of python, no blob":  {fstest.MapFS{"v1/a.binpb": {}, "v1/a.txtpb": {}, "v1/python/b.binpb": {}}, 1},
		"of python, a text":   {fstest.MapFS{"v1/a.binpb": {}, "v1/a.txtpb": {}, "v1/python/a.txtpb": {}}, 1},
		"no text":             {fstest.MapFS{"v1/a.binpb": {}}, 1},
		"no bytes":            {fstest.MapFS{"v1/a.txtpb": {}}, 1},
		"of a release":        {pair("release/v0.1.0/state/a"), 0},
		"of a release, part":  {fstest.MapFS{"release/v0.1.0/state/a.binpb": {}}, 1},
		"beside a release":    {pair("release/a"), 2},
		"stranger in version": {fstest.MapFS{"v1/README.md": {}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			problems, err := misplaced(tc.golden)
			if err != nil || len(problems) != tc.want {
				t.Errorf("misplaced = %q, %v; want %d", problems, err, tc.want)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	missing, err := uncovered(os.DirFS("."), schemaToday...)
	if err != nil || len(missing) > 0 {
		t.Errorf("no blob for: %v, %q", err, missing)
	}
}

func TestCompleteCanFail(t *testing.T) {
	schema := protodesc.ToFileDescriptorProto(pb.File_beam_agents_v1_beam_agents_proto)
	schema.MessageType = append(schema.MessageType, &descriptorpb.DescriptorProto{Name: new("Newcomer")})
	intent := schema.MessageType[2]
	intent.Field = append(intent.Field, &descriptorpb.FieldDescriptorProto{
		Name: new("newcomer"), Number: new(int32(100)),
		Type: descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	})
	intent.EnumType[0].Value = append(intent.EnumType[0].Value, &descriptorpb.EnumValueDescriptorProto{
		Name: new("NEWCOMER"), Number: new(int32(50)),
	})
	altered, err := protodesc.NewFile(schema, nil)
	if err != nil {
		t.Fatal(err)
	}
	missing, err := uncovered(os.DirFS("."), altered)
	want := []string{
		"field beam_agents.v1.ToolIntent.newcomer", "message beam_agents.v1.Newcomer", "value beam_agents.v1.ToolIntent.NEWCOMER",
	}
	if err != nil || !slices.Equal(missing, want) {
		t.Errorf("uncovered = %q, %v; want %q", missing, err, want)
	}

	// So it is in the runtime's file.
	control := protodesc.ToFileDescriptorProto(runtimepb.File_beam_agents_runtime_v1_control_proto)
	control.MessageType[0].Field = append(control.MessageType[0].Field, &descriptorpb.FieldDescriptorProto{
		Name: new("newcomer"), Number: new(int32(100)),
		Type: descriptorpb.FieldDescriptorProto_TYPE_INT64.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	})
	if altered, err = protodesc.NewFile(control, protoregistry.GlobalFiles); err != nil {
		t.Fatal(err)
	}
	missing, err = uncovered(os.DirFS("."), pb.File_beam_agents_v1_beam_agents_proto, altered)
	if want := []string{"field beam_agents.runtime.v1.KeyControl.newcomer"}; err != nil || !slices.Equal(missing, want) {
		t.Errorf("uncovered = %q, %v; want %q", missing, err, want)
	}

	// Without the blobs of one message, that message is reported.
	without := fstest.MapFS{}
	for _, b := range blobs(t) {
		if b.Message != "beam_agents.v1.AgentEnvelope.StateExportRequest" {
			without[b.Name+".binpb"] = &fstest.MapFile{Data: b.Bytes}
			without[b.Name+".txtpb"] = &fstest.MapFile{Data: []byte(b.Text)}
		}
	}
	missing, err = uncovered(without, pb.File_beam_agents_v1_beam_agents_proto)
	if want := []string{"message beam_agents.v1.AgentEnvelope.StateExportRequest"}; err != nil || !slices.Equal(missing, want) {
		t.Errorf("uncovered = %q, %v; want %q", missing, err, want)
	}

	// Blobs of an older version do not count. Without any blobs, everything is reported.
	older := fstest.MapFS{"v2/memory_blob.binpb": without["v1/memory_blob.binpb"], "v2/memory_blob.txtpb": without["v1/memory_blob.txtpb"]}
	maps.Copy(older, without)
	missing, err = uncovered(older, pb.File_beam_agents_v1_beam_agents_proto)
	if err != nil || !slices.Contains(missing, "message beam_agents.v1.ToolIntent") || slices.Contains(missing, "message beam_agents.v1.MemoryBlob") {
		t.Errorf("uncovered = %q, %v", missing, err)
	}
}

// TestManifest compares every frozen file with its hash. The tests of package frozen show that the
// check can fail.
func TestManifest(t *testing.T) {
	root := os.DirFS("..")
	versionFolders, err := fs.Glob(root, "golden/v[1-9]*")
	if err != nil || len(versionFolders) == 0 {
		t.Fatalf("version folders: %q, %v", versionFolders, err)
	}
	folders := slices.Concat(versionFolders, []string{"proto/baseline"})
	if _, err := fs.Stat(root, "golden/release"); err == nil { // from the first release on
		folders = append(folders, "golden/release")
	}
	if err := frozen.Check(root, "golden/MANIFEST.sha256", folders...); err != nil {
		t.Error(err)
	}
}
