package state

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const ourModule = "module github.com/beamagents/beamagents-go"

// A repository is the git repository that this module is developed in. Nothing here writes
// to it: it may belong to whoever runs the tests.
type repository struct {
	root string
}

// openRepository returns the repository whose top folder is root. The error says why there
// is none: no git, no repository or no commit, a copy of this module inside somebody else's
// repository, or another project.
func openRepository(root string) (repository, error) {
	r := repository{root}
	prefix, err := r.git("rev-parse", "--show-prefix")
	if err != nil {
		return r, err
	}
	if prefix != "" {
		return r, fmt.Errorf("this is a copy in the folder %s of another repository", prefix)
	}
	mod, err := r.git("show", "HEAD:go.mod")
	if err != nil {
		return r, err
	}
	if !slices.Contains(strings.Split(mod, "\n"), ourModule) {
		return r, errors.New("the last commit is of another project")
	}
	// What git says is nothing that the cache of go test knows of; these files are.
	for _, name := range []string{"HEAD", "logs/HEAD", "packed-refs", "refs/tags"} {
		path, err := r.git("rev-parse", "--path-format=absolute", "--git-path", name)
		if err != nil {
			return r, err
		}
		if f, err := os.Open(path); err == nil {
			_ = f.Close()
		}
	}
	return r, nil
}

// git runs git in the repository and returns what it prints, without white space around.
func (r repository) git(args ...string) (string, error) {
	var stdout bytes.Buffer
	err := r.run(&stdout, args...)
	return strings.TrimSpace(stdout.String()), err
}

func (r repository) run(stdout io.Writer, args ...string) error {
	var stderr bytes.Buffer
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*"}, args...)...)
	// Git tells its hooks by variables which repository they work on, which is not this one.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_OPTIONAL_LOCKS=0") // git status would refresh the index
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, stdout, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git %v: %w: %s", args, err, &stderr)
	}
	return nil
}

// base is the last commit that is not the code under test: the last one if the code has
// changed since, else the one before. Where the last one is the only one, it is that.
func (r repository) base() (string, error) {
	changed, err := r.git("status", "--porcelain", "--", "go.mod", "pkg", "proto")
	if err != nil {
		return "", err
	}
	if changed == "" {
		if parent, err := r.git("rev-parse", "--verify", "HEAD~1"); err == nil {
			return parent, nil
		}
	}
	return r.git("rev-parse", "--verify", "HEAD")
}

// export writes the files of a commit to dir.
func (r repository) export(commit, dir string) error {
	var archive bytes.Buffer
	if err := r.run(&archive, "archive", "--format=tar", commit); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for files := tar.NewReader(&archive); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg { // folders, which the files name, too
			continue
		}
		b, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		if err := root.MkdirAll(filepath.Dir(h.Name), 0o777); err != nil {
			return err
		}
		if err := root.WriteFile(h.Name, b, h.FileInfo().Mode().Perm()); err != nil {
			return err
		}
	}
}

// newRepository makes a repository with a commit for each of contents, of a file pkg/f and
// a go.mod.
func newRepository(t *testing.T, mod string, contents ...string) repository {
	t.Helper()
	r := repository{t.TempDir()}
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

// Only the repository of this project is taken for it.
func TestOpenRepository(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("there is no git: %v", err)
	}
	// A hook's variables do not lead to another repository.
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
		_, err := openRepository(tc.root)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
}

// The code under test is compared with another commit, if there is one, and reading that
// changes no file of the repository.
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
		opened, err := openRepository(r.root)
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
