package handover

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newRepository makes a repository with a commit for each of contents, of a file pkg/f and
// a go.mod.
func newRepository(t *testing.T, mod string, contents ...string) repository {
	t.Helper()
	r := repository{t.Context(), t.TempDir()}
	git := func(args ...string) {
		t.Helper()
		if _, err := r.git(append([]string{"-c", "user.name=n", "-c", "user.email=e@example.test", "-c", "commit.gpgsign=false"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "--quiet")
	r.write(t, "go.mod", mod)
	for _, content := range contents {
		r.write(t, "pkg/f", content)
		git("add", ".")
		git("commit", "--quiet", "--no-verify", "-m", content)
	}
	return r
}

func (r repository) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(r.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Only the repository of this project is accepted.
func TestOpenRepository(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("there is no git: %v", err)
	}
	// The variables of a git hook do not lead to another repository.
	t.Setenv("GIT_DIR", filepath.Join(newRepository(t, ourModule+"\n", "x").root, ".git"))
	ours, theirs := ourModule+"\n\ngo 1.26\n", "module example.test/theirs\n"
	for name, tc := range map[string]struct {
		root, want string
	}{
		"ours":             {newRepository(t, ours, "a").root, ""},
		"no repository":    {t.TempDir(), "not a git repository"},
		"no commit":        {newRepository(t, ours).root, "HEAD"},
		"another project":  {newRepository(t, theirs, "a").root, "the last commit is of another project"},
		"a vendored copy":  {filepath.Join(newRepository(t, theirs, "a").root, "pkg"), "a copy in the folder pkg/ of another repository"},
		"a nested project": {filepath.Join(newRepository(t, ours, "a").root, "pkg"), "a copy in the folder pkg/ of another repository"},
	} {
		_, err := openRepository(t.Context(), tc.root)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
}

// The code under test is compared with another commit, if there is one. Reading that commit changes
// no file of the repository.
func TestRepositoryBase(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("there is no git: %v", err)
	}
	for name, tc := range map[string]struct {
		commits []string
		edit    map[string]string
		want    string // what is in the file of the base
	}{
		"the code is the last commit":        {[]string{"a", "b", "c"}, nil, "b"},
		"the code was written again":         {[]string{"a", "b", "c"}, map[string]string{"pkg/f": "c"}, "b"},
		"the code has changed since":         {[]string{"a", "b", "c"}, map[string]string{"pkg/f": "d"}, "c"},
		"there is new code":                  {[]string{"a", "b", "c"}, map[string]string{"pkg/new/g": "d"}, "c"},
		"what is no code has changed since":  {[]string{"a", "b", "c"}, map[string]string{"README.md": "d"}, "b"},
		"there is only one commit":           {[]string{"a"}, nil, "a"},
		"only one commit, and changed since": {[]string{"a"}, map[string]string{"pkg/f": "d"}, "a"},
	} {
		r := newRepository(t, ourModule+"\n", tc.commits...)
		for file, content := range tc.edit {
			r.write(t, file, content)
		}
		before := listing(t, r.root)
		opened, err := openRepository(t.Context(), r.root)
		if err != nil {
			t.Fatal(err)
		}
		base, err := opened.base()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := opened.export(base, dir); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "pkg", "f")); err != nil || string(got) != tc.want {
			t.Errorf("%s: the base has %q, %v; want %q", name, got, err, tc.want)
		}
		if diff := cmp.Diff(before, listing(t, r.root)); diff != "" {
			t.Errorf("%s: the repository has changed (-before +after):\n%s", name, diff)
		}
	}
}

// listing is every file below root, with the time of its last change.
func listing(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		all = append(all, fmt.Sprint(path, " ", info.ModTime(), " ", info.Size()))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
