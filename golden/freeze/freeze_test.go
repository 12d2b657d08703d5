package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/beamagents/beamagents-go/golden/internal/frozen"
	"github.com/beamagents/beamagents-go/golden/internal/textform"
	"github.com/beamagents/beamagents-go/pkg/compat"
)

// unreadable lists what current code cannot read of the releases in the tree root, or is not
// compatible with.
func unreadable(root fs.FS) []error {
	var problems []error
	err := fs.WalkDir(root, releaseFolder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		check := errors.New("nobody knows what it is")
		parts := strings.Split(strings.TrimPrefix(file, releaseFolder+"/"), "/")
		switch {
		case len(parts) != 3 || !tagForm.MatchString(parts[0]):
		case parts[1] == "pipeline" && parts[2] == "coders.json":
			check = sameCoders(root, file)
		case parts[1] == "pipeline" && parts[2] == "runagent.json":
			check = sameRunAgent(root, file)
		case parts[1] == "pipeline" && path.Ext(file) == ".json":
			check = compatible(root, file)
		case parts[1] == "state" && (path.Ext(file) == ".binpb" || path.Ext(file) == ".txtpb"):
			check = readable(root, file)
		case parts[1] == "cells" && parts[2] == "cells.json", parts[1] == "agents" && parts[2] == "agents.json":
			check = nil // read through the cells, and resumed, by the tests of pkg/state and pkg/transforms
		}
		if check != nil {
			problems = append(problems, fmt.Errorf("%s: %w", file, check))
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		problems = append(problems, err)
	}
	return problems
}

// compatible compares a fingerprint with the current one, which the tests of the packages compare
// with the code.
func compatible(root fs.FS, file string) error {
	var pipelines [2]compat.Fingerprint
	for i, name := range []string{file, path.Join(pipelineFolder, path.Base(file))} {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if pipelines[i], err = compat.Read(bytes.NewReader(text)); err != nil {
			return err
		}
	}
	var unsafe []error
	for _, f := range compat.Check(pipelines[0], pipelines[1]) {
		if f.Severity == compat.Unsafe {
			unsafe = append(unsafe, errors.New(f.String()))
		}
	}
	return errors.Join(unsafe...)
}

// sameCoders wants each coder of a release among those of today.
func sameCoders(root fs.FS, file string) error {
	var coders [2][]map[string]string
	for i, name := range []string{file, path.Join(pipelineFolder, "coders.json")} {
		text, err := fs.ReadFile(root, name)
		if err == nil {
			err = json.Unmarshal(text, &coders[i])
		}
		if err != nil {
			return err
		}
	}
	now := map[string]string{}
	for _, c := range coders[1] {
		now[c["message"]] = fmt.Sprint(c)
	}
	for _, c := range coders[0] {
		if now[c["message"]] != fmt.Sprint(c) {
			return fmt.Errorf("%s has another coder now: %s", c["message"], now[c["message"]])
		}
	}
	return nil
}

// sameRunAgent wants each timer tag and each encoded DoFn of a release among those of
// today, which the test of pkg/transforms reads.
func sameRunAgent(root fs.FS, file string) error {
	var agents [2]struct {
		TimerTags []string         `json:"timer_tags"`
		DoFns     []map[string]any `json:"do_fns"`
	}
	for i, name := range []string{file, path.Join(pipelineFolder, "runagent.json")} {
		text, err := fs.ReadFile(root, name)
		if err == nil {
			err = json.Unmarshal(text, &agents[i])
		}
		if err != nil {
			return err
		}
	}
	if len(agents[0].TimerTags) == 0 || len(agents[0].DoFns) == 0 {
		return errors.New("it has no timer tags or no DoFn")
	}
	for _, tag := range agents[0].TimerTags {
		if !slices.Contains(agents[1].TimerTags, tag) {
			return fmt.Errorf("timers with the tag %q are known no more", tag)
		}
	}
	for i, fn := range agents[0].DoFns {
		if !slices.ContainsFunc(agents[1].DoFns, func(now map[string]any) bool { return reflect.DeepEqual(fn, now) }) {
			return fmt.Errorf("DoFn %d is no longer among those that are read", i)
		}
	}
	return nil
}

// readable compares what the bytes of a blob decode to with its text, both ways.
func readable(root fs.FS, file string) error {
	base := strings.TrimSuffix(file, path.Ext(file))
	text, err := fs.ReadFile(root, base+".txtpb")
	if err != nil {
		return err
	}
	bin, err := fs.ReadFile(root, base+".binpb")
	if err != nil {
		return err
	}
	want, err := textform.Unmarshal(text)
	if err != nil {
		return err
	}
	got := want.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(bin, got); err != nil {
		return err
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		return fmt.Errorf("value (-text +bytes):\n%s", diff)
	}
	return nil
}

// Current code reads every release.
func TestReleases(t *testing.T) {
	for _, problem := range unreadable(os.DirFS("../..")) {
		t.Error(problem)
	}
}

// repository makes a root with what is frozen in ours, but for the releases.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	ours := os.DirFS("../..")
	for _, pattern := range []string{"go.mod", manifestFile, "golden/v*/*.*pb", "golden/v*/*/*.binpb", pipelineFolder + "/*", "proto/baseline/*"} {
		files, err := fs.Glob(ours, pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			b, err := fs.ReadFile(ours, file)
			if err == nil && file == manifestFile { // without the releases that are there
				var kept []string
				for line := range strings.Lines(string(b)) {
					if !strings.Contains(line, "  "+releaseFolder+"/") {
						kept = append(kept, line)
					}
				}
				b = []byte(strings.Join(kept, ""))
			}
			if err != nil {
				t.Fatal(err)
			}
			write(t, root, file, b)
		}
	}
	return root
}

func write(t *testing.T, root, file string, b []byte) {
	t.Helper()
	name := filepath.Join(root, file)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, root, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// written makes a folder with these files, as tests write them.
func written(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		write(t, dir, name, []byte(`[]`))
	}
	return dir
}

// all is what the tests write.
func all(t *testing.T) string {
	t.Helper()
	return written(t, "cells.json", "agents.json")
}

const release = releaseFolder + "/v0.1.0"

func TestFreeze(t *testing.T) {
	root := repository(t)
	var out bytes.Buffer
	if err := freeze(root, []string{all(t), "v0.1.0"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"pipeline/coders.json", "pipeline/runagent.json", "pipeline/transforms.json", "cells/cells.json", "agents/agents.json",
		"state/memory_blob.binpb", "state/memory_blob.txtpb", "state/continuation_sleep.binpb", "state/llm_cache_blob_one.binpb",
		"state/memory_blob_future_version.binpb", "state/key_control.binpb",
	} {
		if !strings.Contains(out.String(), release+"/"+want+"\n") {
			t.Errorf("%s was not written", want)
		}
	}
	if strings.Contains(out.String(), "tool_intent") || strings.Contains(out.String(), "transforms.txt") {
		t.Errorf("what is not stored was written:\n%s", out.String())
	}
	if problems := unreadable(os.DirFS(root)); len(problems) > 0 {
		t.Errorf("a fresh release: %v", problems)
	}
	listed := func() error {
		folders, err := fs.Glob(os.DirFS(root), "golden/v[1-9]*")
		if err != nil {
			t.Fatal(err)
		}
		return frozen.Check(os.DirFS(root), manifestFile, append(folders, "proto/baseline", releaseFolder)...)
	}
	if err := listed(); err != nil {
		t.Errorf("the manifest: %v", err)
	}
	manifest := read(t, root, manifestFile)
	if err := freeze(root, []string{"v0.1.0"}, &out); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("the tag alone: %v", err)
	}
	if err := freeze(root, []string{all(t), "v0.1.0"}, &out); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("a second time: %v", err)
	}
	if diff := cmp.Diff(manifest, read(t, root, manifestFile)); diff != "" {
		t.Error(diff)
	}
	if err := freeze(root, []string{all(t), "v0.2.0-rc.1"}, &out); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if err := errors.Join(append(unreadable(os.DirFS(root)), listed())...); err != nil {
		t.Errorf("two releases: %v", err)
	}
	write(t, root, release+"/state/memory_blob.binpb", []byte{0x08, 2})
	if err := listed(); !errors.Is(err, frozen.ErrChanged) {
		t.Errorf("the manifest passes a changed file: %v", err)
	}
}

// The check finds each way in which the code and a release can differ.
func TestTampering(t *testing.T) {
	root := repository(t)
	if err := freeze(root, []string{all(t), "v0.1.0"}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	fresh := inMemory(t, root)
	replace := func(from, to string) func(string) string {
		return func(s string) string { return strings.Replace(s, from, to, 1) }
	}
	for name, tc := range map[string]struct {
		file string
		edit func(string) string
		want string
	}{
		"the code renamed a step":      {pipelineFolder + "/transforms.json", replace("/EventsToTraces/CoGBK", "/EventsToTraces/ByRun"), "grouping_renamed"},
		"the code has another coder":   {pipelineFolder + "/transforms.json", replace("coders.encode", "coders.marshal"), "coder_changed"},
		"the code has coders renamed":  {pipelineFolder + "/coders.json", replace("coders.decode", "coders.unmarshal"), "another coder now"},
		"the code has a tag renamed":   {pipelineFolder + "/runagent.json", replace(`"wake"`, `"woke"`), `timers with the tag "wake"`},
		"the code reads another DoFn":  {pipelineFolder + "/runagent.json", replace(`"MaxIntents"`, `"MaxOpen"`), "DoFn 0 is no longer"},
		"the DoFn of a release":        {release + "/pipeline/runagent.json", func(string) string { return "{}" }, "no timer tags or no DoFn"},
		"the code lost its DoFns":      {pipelineFolder + "/runagent.json", nil, "file does not exist"},
		"the code lost a fingerprint":  {pipelineFolder + "/transforms.json", nil, "file does not exist"},
		"a fingerprint of a release":   {release + "/pipeline/transforms.json", replace(`"format": 1`, `"format": 2`), "another format"},
		"bytes of a release":           {release + "/state/memory_blob.binpb", func(s string) string { return s[:len(s)-1] }, "proto"},
		"another value in its bytes":   {release + "/state/continuation.binpb", func(s string) string { return s + "\x08\x07" }, "value (-text +bytes)"},
		"a text is gone":               {release + "/state/memory_blob.txtpb", nil, "file does not exist"},
		"a stranger":                   {release + "/state/notes.md", func(string) string { return "x" }, "nobody knows what it is"},
		"a stranger of an agent":       {release + "/agents/notes.json", func(string) string { return "x" }, "nobody knows what it is"},
		"a stranger beside":            {release + "/notes.md", func(string) string { return "x" }, "nobody knows what it is"},
		"a folder that is no release":  {releaseFolder + "/latest/state/a.binpb", func(string) string { return "x" }, "nobody knows what it is"},
		"the code added a step at end": {pipelineFolder + "/transforms.json", replace(`"transforms": [`, `"transforms": [{"name":"A","kind":"k"},`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(fresh)
			var was []byte
			if f := fresh[tc.file]; f != nil {
				was = f.Data
			}
			delete(files, tc.file)
			if tc.edit != nil {
				files[tc.file] = &fstest.MapFile{Data: []byte(tc.edit(string(was)))}
				if bytes.Equal(files[tc.file].Data, was) {
					t.Fatal("nothing to edit")
				}
			}
			err := errors.Join(unreadable(files)...)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("unreadable = %v; want %q", err, tc.want)
			}
		})
	}
}

// inMemory is the tree below root.
func inMemory(t *testing.T, root string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(os.DirFS(root), "golden", func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[file] = &fstest.MapFile{Data: []byte(read(t, root, file))}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestFreezeRefuses(t *testing.T) {
	root := repository(t)
	before := read(t, root, manifestFile)
	for name, tc := range map[string]struct {
		root string
		args []string
	}{
		"nothing":                    {root, nil},
		"no tag":                     {root, []string{all(t)}},
		"an empty tag":               {root, []string{all(t), ""}},
		"two tags":                   {root, []string{all(t), "v0.1.0", "v0.2.0"}},
		"no v":                       {root, []string{all(t), "0.1.0"}},
		"two numbers":                {root, []string{all(t), "v0.1"}},
		"a leading zero":             {root, []string{all(t), "v0.01.0"}},
		"major version 2":            {root, []string{all(t), "v2.0.0"}},
		"a path":                     {root, []string{all(t), "v0.1.0/../../v1"}},
		"a line break":               {root, []string{all(t), "v0.1.0\n"}},
		"build metadata":             {root, []string{all(t), "v0.1.0+1"}},
		"an empty suffix":            {root, []string{all(t), "v0.1.0-"}},
		"outside of a repository":    {t.TempDir(), []string{all(t), "v0.1.0"}},
		"a folder that is not there": {root, []string{filepath.Join(root, "none"), "v0.1.0"}},
		"no folder":                  {root, []string{"", "v0.1.0"}},
		"no cells":                   {root, []string{written(t, "agents.json"), "v0.1.0"}},
		"no agents":                  {root, []string{written(t, "cells.json"), "v0.1.0"}},
		"only an empty tag":          {root, []string{""}},
		"only a bad tag":             {root, []string{"0.1.0"}},
	} {
		if err := freeze(tc.root, tc.args, &bytes.Buffer{}); err == nil || !strings.HasPrefix(err.Error(), "freeze: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := freeze(root, []string{"v0.1.0"}, &bytes.Buffer{}); err != nil {
		t.Errorf("a tag that can be frozen: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, releaseFolder)); !errors.Is(err, fs.ErrNotExist) || read(t, root, manifestFile) != before {
		t.Errorf("a refusal wrote: %v", err)
	}
}
