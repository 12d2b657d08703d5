package handover

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const ourModule = "module github.com/beamagents/beamagents-go"

// A repository is the git repository in which this module is developed. This package does not
// write to it, because it may belong to whoever runs the tests.
type repository struct {
	ctx  context.Context //nolint:containedctx // the context of the test that opens the repository
	root string
}

// openRepository returns the repository whose top folder is root. It returns an error if git, the
// repository or a commit is missing, if the module is a copy inside another repository, or if the
// repository is another project.
func openRepository(ctx context.Context, root string) (repository, error) {
	r := repository{ctx, root}
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
	// The cache of go test does not know what git returns, but it knows which files a test reads.
	// So read the files that change.
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
	cmd := exec.CommandContext(r.ctx, "git", append([]string{"-c", "safe.directory=*"}, args...)...) //nolint:gosec // the arguments are names of refs and files
	// Within a git hook, these variables name the repository of the hook, which is another one.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_OPTIONAL_LOCKS=0") // git status would refresh the index
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, stdout, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("git %v: %w: %s", args, err, &stderr)
	}
	return nil
}

// base returns the last commit before the code under test: the last commit if the code has
// changed since, and otherwise the commit before it. If there is only one commit, base returns
// that.
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
	defer func() { _ = root.Close() }()
	for files := tar.NewReader(&archive); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg { // the names of files contain the folders
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
