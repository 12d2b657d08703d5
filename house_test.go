// Package beamagents_test holds the rules that no single package can check.
package beamagents_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/beamagents/beamagents-go"
	beam   = "github.com/apache/beam/"
)

// A folder of the house. A package imports only packages of folders above it in the list.
type folder struct {
	path  string
	beams bool // may link Beam
}

var house = []folder{
	{"proto", false},
	{"golden", false}, // test data, for the tests of all that follow
	{"pkg/internal", false},
	{"internal/racedetector", false},
	{"internal/prismtest", true},
	{"internal/tail", true},
	{"internal/terminaltext", false},
	{"internal/flinktest", false},
	{"pkg/canonjson", false},
	{"internal/messagejson", false},
	{"internal/modelserver", false},
	{"pkg/intent", false},
	{"pkg/migrate", false},
	{"pkg/memory", false},
	{"pkg/replay", false},
	{"pkg/modelcall", false},
	{"pkg/deadletter", false},
	{"pkg/events", false},
	{"pkg/agent", false},
	{"internal/modelagent", false},
	{"pkg/adapter", false},
	{"pkg/activation", false},
	{"pkg/agenttest", false},
	{"pkg/tracing", false},
	{"pkg/compat", false},
	{"pkg/coders", true},
	{"pkg/state", true},
	{"pkg/transforms", true},
	{"pkg/compat/graph", true},
	{"pkg/runners/flink", true},
	{"pkg/beamtest", true},
	{"cmd", false},
	{"examples", true},
	{"internal/flinktest/jobs", true}, // programs of the tests on Flink
}

// place is the index of the folder of a package, -1 outside the house. The root has no
// code but tests.
func place(importPath string) int {
	rel := strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
	best := -1
	for i, f := range house {
		if rel == f.path || strings.HasPrefix(rel, f.path+"/") {
			if best < 0 || len(f.path) > len(house[best].path) {
				best = i
			}
		}
	}
	return best
}

// listed is what go list prints about a package.
type listed struct {
	ImportPath, Name                                  string
	GoFiles, Imports, Deps, TestImports, XTestImports []string
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	var stderr bytes.Buffer
	// With the tag, so that the files of the long tests are read, too.
	cmd := exec.Command("go", "list", "-tags=soak", "-json=ImportPath,Name,GoFiles,Imports,Deps,TestImports,XTestImports", "./...")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// violations returns the breaches of the import rule by one package.
func violations(p listed) []string {
	if p.ImportPath == module {
		return nil
	}
	own := place(p.ImportPath)
	if own < 0 {
		return []string{p.ImportPath + " has no place in the house: add its folder to the list"}
	}
	var found []string
	for _, i := range p.Imports {
		if !strings.HasPrefix(i, module+"/") {
			continue
		}
		if at := place(i); at > own {
			found = append(found, fmt.Sprintf("%s imports %s, which stands below it", p.ImportPath, i))
		}
	}
	if house[own].beams {
		return found
	}
	isBeam := func(i string) bool { return strings.HasPrefix(i, beam) }
	if i := slices.IndexFunc(p.Deps, isBeam); i >= 0 {
		found = append(found, fmt.Sprintf("%s links Beam (%s)", p.ImportPath, p.Deps[i]))
	}
	for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
		at := place(i)
		if isBeam(i) || strings.HasPrefix(i, module+"/") && at >= 0 && house[at].beams {
			found = append(found, fmt.Sprintf("a test of %s imports Beam (%s)", p.ImportPath, i))
		}
	}
	return found
}

func TestImportRule(t *testing.T) {
	packages := listPackages(t)
	if len(packages) < 10 {
		t.Fatalf("go list found only %d packages", len(packages))
	}
	for _, p := range packages {
		for _, v := range violations(p) {
			t.Error(v)
		}
	}
}

// Generated decoding accepts invalid text and field numbers, and aliases its input. Only the
// coders, which check the input before, may call it. All other code uses proto.Unmarshal for bytes
// from outside.
func TestOnlyCodersCallTheFastPath(t *testing.T) {
	calls := regexp.MustCompile(`\.(UnmarshalVT\w*|MarshalVT\w*|MarshalTo\w*VT\w*|SizeVT|CloneVT|EqualVT)\(`)
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found := calls.FindString(string(b))
		if strings.HasPrefix(path, "pkg/coders/") {
			seen += len(found)
		} else if found != "" {
			t.Errorf("%s calls %s", path, found)
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Errorf("found no call in pkg/coders: %v", err)
	}
}

func TestImportRuleFinds(t *testing.T) {
	for want, p := range map[string]listed{
		"stands below it":     {ImportPath: module + "/pkg/canonjson", Imports: []string{module + "/pkg/deadletter"}},
		"stands below":        {ImportPath: module + "/pkg/compat", Imports: []string{module + "/pkg/compat/graph"}},
		"links Beam":          {ImportPath: module + "/cmd/beamagents", Deps: []string{beam + "sdks/v2/go/pkg/beam"}},
		"imports Beam (git":   {ImportPath: module + "/pkg/events", TestImports: []string{module + "/pkg/coders"}},
		"imports Beam":        {ImportPath: module + "/pkg/intent", XTestImports: []string{beam + "sdks/v2/go/pkg/beam"}},
		"no place":            {ImportPath: module + "/pkg/util"},
		"no place in the hou": {ImportPath: module + "/protocol"},
	} {
		if got := violations(p); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: found %q, want something about %q", p.ImportPath, got, want)
		}
	}
	fine := listed{
		ImportPath: module + "/pkg/transforms/internal/x", Deps: []string{beam + "sdks/v2/go/pkg/beam"},
		Imports: []string{module + "/pkg/coders", module + "/proto/beam_agents/v1", module + "/pkg/transforms", "fmt"},
	}
	if got := violations(fine); got != nil {
		t.Errorf("found %q in a package that keeps the rule", got)
	}
}

// An adapter to an SDK of others is a module of its own, so that users of the library do not
// inherit that SDK. It imports only public packages, and no package here imports it.
func TestContribModules(t *testing.T) {
	root, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(root), module+"/contrib/") {
		t.Error("go.mod requires a module of contrib")
	}
	folders, err := os.ReadDir("contrib")
	if err != nil || len(folders) == 0 {
		t.Fatalf("%d modules: %v", len(folders), err)
	}
	imports := regexp.MustCompile(`(?m)"` + regexp.QuoteMeta(module) + `/([^"]*)"$`)
	for _, f := range folders {
		mod, err := os.ReadFile(filepath.Join("contrib", f.Name(), "go.mod"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, line := range []string{"module " + module + "/contrib/" + f.Name() + "\n", "replace " + module + " => ../..\n"} {
			if !strings.Contains(string(mod), line) {
				t.Errorf("contrib/%s/go.mod has no line %q", f.Name(), line)
			}
		}
		if _, err := os.Stat(filepath.Join("contrib", f.Name(), "README.md")); err != nil {
			t.Error(err)
		}
		err = filepath.WalkDir(filepath.Join("contrib", f.Name()), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			for _, found := range imports.FindAllStringSubmatch(string(b), -1) {
				if p := found[1]; !strings.HasPrefix(p, "pkg/") && !strings.HasPrefix(p, "proto/") {
					t.Errorf("%s imports %s, which a user cannot", path, p)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Only sources are committed. A program that was built here, or a file that a failed test leaves
// behind, would stay in every clone.
func TestTreeHoldsSources(t *testing.T) {
	if _, err := os.Stat(".git"); err != nil {
		t.Skip("not a checkout of its own repository: nobody can say what is committed")
	}
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z")
	// Git tells its hooks by variables which repository they work on.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	const most = 1 << 20
	paths := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(paths) < 100 {
		t.Fatalf("git knows only %d files", len(paths))
	}
	for _, path := range paths {
		if info, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		} else if err != nil {
			t.Fatal(err)
		} else if info.Size() > most {
			t.Errorf("%s has %d bytes, more than %d: remove it from the repository", path, info.Size(), most)
		}
		if strings.Contains(path, "/testdata/rapid/") {
			t.Errorf("%s is what rapid leaves of a failed test: remove it, and write the case as a test", path)
		}
	}
}
