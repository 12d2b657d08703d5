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

// A repository is the git repository that this module is developed in. Nothing here writes
// to it: it may belong to whoever runs the tests.
type repository struct {
	ctx  context.Context //nolint:containedctx // of the test that the repository is opened for
	root string
}

// openRepository returns the repository whose top folder is root. The error says why there
// is none: no git, no repository or no commit, a copy of this module inside somebody else's
// repository, or another project.
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
	cmd := exec.CommandContext(r.ctx, "git", append([]string{"-c", "safe.directory=*"}, args...)...) //nolint:gosec // names of refs and files
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
	defer func() { _ = root.Close() }()
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
