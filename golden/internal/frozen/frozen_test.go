package frozen

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const (
	hashA     = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb" // of "a"
	hashB     = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d" // of "b"
	twoListed = hashA + "  v1/a\n" + hashB + "  v1/b\n"
)

func TestCheck(t *testing.T) {
	tree := func(edit func(fstest.MapFS)) fstest.MapFS {
		fsys := fstest.MapFS{
			"M":     {Data: []byte(twoListed)},
			"v1/a":  {Data: []byte("a")},
			"v1/b":  {Data: []byte("b")},
			"other": {Data: []byte("not frozen")},
		}
		edit(fsys)
		return fsys
	}
	for name, tc := range map[string]struct {
		edit func(fstest.MapFS)
		want error
	}{
		"as listed":      {func(fstest.MapFS) {}, nil},
		"other bytes":    {func(f fstest.MapFS) { f["v1/a"] = &fstest.MapFile{Data: []byte("b")} }, ErrChanged},
		"missing":        {func(f fstest.MapFS) { delete(f, "v1/b") }, ErrChanged},
		"folder missing": {func(f fstest.MapFS) { delete(f, "v1/a"); delete(f, "v1/b") }, fs.ErrNotExist},
		"unlisted":       {func(f fstest.MapFS) { f["v1/c"] = &fstest.MapFile{} }, ErrUnlisted},
		"unlisted below": {func(f fstest.MapFS) { f["v1/deep/a"] = &fstest.MapFile{Data: []byte("a")} }, ErrUnlisted},
		"no manifest":    {func(f fstest.MapFS) { delete(f, "M") }, fs.ErrNotExist},
		"bad manifest":   {func(f fstest.MapFS) { f["M"] = &fstest.MapFile{Data: []byte("x")} }, ErrManifest},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Check(tree(tc.edit), "M", "v1"); !errors.Is(err, tc.want) {
				t.Errorf("Check = %v; want %v", err, tc.want)
			}
		})
	}
}

func TestParseManifest(t *testing.T) {
	if m, err := parseManifest([]byte(twoListed)); err != nil || len(m) != 2 || m["v1/a"] != hashA {
		t.Errorf("parseManifest = %v, %v", m, err)
	}
	for name, text := range map[string]string{
		"order":         hashB + "  v1/b\n" + hashA + "  v1/a\n",
		"twice":         hashA + "  v1/a\n" + hashA + "  v1/a\n",
		"one space":     hashA + " v1/a\n",
		"short hash":    hashA[1:] + "  v1/a\n",
		"outside":       hashA + "  ../a\n",
		"no line break": strings.TrimSuffix(twoListed, "\n"),
		"blank line":    twoListed + "\n",
	} {
		if m, err := parseManifest([]byte(text)); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: parseManifest = %v, %v; want ErrManifest", name, m, err)
		}
	}
}

// tree is every file below root with its content.
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

func never(string, []byte, []byte) bool { return false }

func TestAdd(t *testing.T) {
	root := t.TempDir()
	files := map[string][]byte{"a": []byte("a")}
	steps := []struct {
		name string
		want string
	}{{"a", "[a]"}, {"a", "[]"}, {"b", "[b]"}, {"b", "[]"}}
	for i, step := range steps {
		files[step.name] = []byte(step.name)
		if added, err := Add(root, "M", "v1", files, never); err != nil || fmt.Sprint(added) != step.want {
			t.Fatalf("step %d: Add = %v, %v; want %s", i, added, err, step.want)
		}
	}
	want := map[string]string{"M": twoListed, "v1/a": "a", "v1/b": "b"}
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	// A file that was lost comes back if it is the same.
	if err := os.Remove(filepath.Join(root, "v1/a")); err != nil {
		t.Fatal(err)
	}
	if added, err := Add(root, "M", "v1", files, never); err != nil || fmt.Sprint(added) != "[a]" {
		t.Fatalf("Add = %v, %v; want a back", added, err)
	}
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestAddRefuses(t *testing.T) {
	write := func(t *testing.T, root, name, data string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		edit func(t *testing.T, root string, files map[string][]byte)
		want error
	}{
		"another value": {func(_ *testing.T, _ string, files map[string][]byte) { files["a"] = []byte("A") }, ErrChanged},
		"a file that is no longer made": {func(_ *testing.T, _ string, files map[string][]byte) {
			delete(files, "a")
		}, ErrChanged},
		"a lost file that is no longer made": {func(t *testing.T, root string, files map[string][]byte) {
			delete(files, "a")
			if err := os.Remove(filepath.Join(root, "v1/a")); err != nil {
				t.Fatal(err)
			}
		}, ErrChanged},
		"a lost file that comes back different": {func(t *testing.T, root string, files map[string][]byte) {
			files["a"] = []byte("A")
			if err := os.Remove(filepath.Join(root, "v1/a")); err != nil {
				t.Fatal(err)
			}
		}, ErrChanged},
		"a file changed by hand": {func(t *testing.T, root string, files map[string][]byte) {
			files["a"] = []byte("A")
			write(t, root, "v1/a", "A")
		}, ErrChanged},
		"a file added by hand": {func(t *testing.T, root string, files map[string][]byte) {
			files["z"] = []byte("z")
			write(t, root, "v1/z", "z")
		}, ErrUnlisted},
		"a bad manifest": {func(t *testing.T, root string, _ map[string][]byte) { write(t, root, "M", "x") }, ErrManifest},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			files := map[string][]byte{"a": []byte("a"), "b": []byte("b")}
			if _, err := Add(root, "M", "v1", files, never); err != nil {
				t.Fatal(err)
			}
			files["c"] = []byte("c")
			tc.edit(t, root, files)
			before := tree(t, root)
			if added, err := Add(root, "M", "v1", files, never); !errors.Is(err, tc.want) {
				t.Errorf("Add = %v, %v; want %v", added, err, tc.want)
			}
			if diff := cmp.Diff(before, tree(t, root)); diff != "" {
				t.Errorf("a refused Add wrote (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAddKeepsTheOldOfTheSame(t *testing.T) {
	root := t.TempDir()
	files := map[string][]byte{"a": []byte("a")}
	if _, err := Add(root, "M", "v1", files, never); err != nil {
		t.Fatal(err)
	}
	before := tree(t, root)
	files["a"] = []byte("A")
	if added, err := Add(root, "M", "v1", maps.Clone(files), func(_ string, was, now []byte) bool {
		return bytes.EqualFold(was, now)
	}); err != nil || len(added) > 0 {
		t.Errorf("Add = %v, %v", added, err)
	}
	if diff := cmp.Diff(before, tree(t, root)); diff != "" {
		t.Errorf("tree (-before +after):\n%s", diff)
	}
}
