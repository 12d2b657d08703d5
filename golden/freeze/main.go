// Freeze copies the state and the fingerprints of a release to golden/release/<tag>. Later code
// must read this state and stay compatible with these fingerprints. Run it from the root of the
// repository, as `make freeze TAG=v1.2.3` does after the tests:
//
//	go run ./golden/freeze TAG
//	go run ./golden/freeze FOLDER TAG
//
// The first form checks whether the tag can be frozen. Run it before the tests.
//
// # Behaviour
//
// It copies, and lists in golden/MANIFEST.sha256,
//
//   - to pipeline/: the fingerprints, coders and the encoding of RunAgent from golden/pipeline,
//     which tests compare with the code;
//   - to state/: every blob of a message with a version stamp from the newest golden/v<N>;
//   - to cells/: FOLDER/cells.json, which the tests of pkg/state write and read;
//   - to agents/: FOLDER/agents.json, which the tests of pkg/transforms write and read for
//     RunAgent.
//
// It refuses a tag that already has a folder, or that is not a version (v1.2.3, v1.2.3-rc.1).
// Then it writes nothing.
//
// # Limits
//
// It does not use git. The caller must check that the tag exists and that everything is
// committed.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/beamagents/beamagents-go/golden/internal/frozen"
	"github.com/beamagents/beamagents-go/golden/internal/textform"
	_ "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1" // registers the types that blobs name
	_ "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const (
	manifestFile   = "golden/MANIFEST.sha256"
	pipelineFolder = "golden/pipeline"
	releaseFolder  = "golden/release"
	versionField   = "state_schema_version"
)

// tagForm matches a semantic version of major 0 or 1. The module never has a higher one.
var tagForm = regexp.MustCompile(`^v[01]\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$`)

func main() {
	if err := freeze(".", os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func freeze(root string, args []string, out io.Writer) error {
	if len(args) != 1 && len(args) != 2 {
		return errors.New("freeze: want the folder that the tests wrote to, and a tag, or the tag alone to check it")
	}
	tag := args[len(args)-1]
	if !tagForm.MatchString(tag) {
		return fmt.Errorf("freeze: %q is not a version tag: use one such as v1.2.3 or v1.2.3-rc.1", tag)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return errors.New("freeze: run it from the root of the repository")
	}
	release := path.Join(releaseFolder, tag)
	if _, err := os.Stat(filepath.Join(root, release)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("freeze: %s exists already, and frozen files never change: choose another tag", release)
	}
	if len(args) == 1 {
		return nil
	}
	written := args[0]
	parts := map[string]map[string][]byte{}
	var err error
	if parts["pipeline"], err = copyOf(os.DirFS(root), pipelineFolder+"/*.json"); err != nil {
		return err
	}
	if parts["state"], err = stateBlobs(os.DirFS(root)); err != nil {
		return err
	}
	for _, part := range []string{"cells", "agents"} {
		if parts[part], err = copyOf(os.DirFS(written), part+".json"); err != nil {
			return err
		}
	}
	for _, part := range []string{"pipeline", "state", "cells", "agents"} {
		added, err := frozen.Add(root, manifestFile, path.Join(release, part), parts[part], never)
		if err != nil {
			return err
		}
		for _, name := range added {
			fmt.Fprintln(out, path.Join(release, part, name))
		}
	}
	return nil
}

func never(string, []byte, []byte) bool { return false }

// copyOf reads the files that match the pattern, and returns them by name without folder. It
// returns an error if no file matches.
func copyOf(fsys fs.FS, pattern string) (map[string][]byte, error) {
	names, err := fs.Glob(fsys, pattern)
	if err != nil {
		return nil, fmt.Errorf("freeze: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("freeze: there is nothing to freeze in %s", pattern)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[path.Base(name)], err = fs.ReadFile(fsys, name); err != nil {
			return nil, fmt.Errorf("freeze: %w", err)
		}
	}
	return files, nil
}

// checkBlobs refuses a blob that lacks one of its two files, or whose text cannot be read.
func checkBlobs(files map[string][]byte) error {
	for name := range files {
		base := strings.TrimSuffix(name, path.Ext(name))
		text, bin := files[base+".txtpb"], files[base+".binpb"]
		if text == nil || bin == nil {
			return fmt.Errorf("freeze: %s is not a blob: a blob has the files %s.binpb and %s.txtpb", name, base, base)
		}
		if _, err := textform.Unmarshal(text); err != nil {
			return fmt.Errorf("freeze: %s: %w", name, err)
		}
	}
	return nil
}

// stateBlobs returns the two files of each blob of the newest version whose message has a version
// stamp.
func stateBlobs(root fs.FS) (map[string][]byte, error) {
	folders, err := fs.Glob(root, "golden/v[1-9]*")
	if err != nil {
		return nil, fmt.Errorf("freeze: %w", err)
	}
	newest := 0
	for _, folder := range folders {
		n, err := strconv.Atoi(strings.TrimPrefix(path.Base(folder), "v"))
		if err != nil {
			return nil, fmt.Errorf("freeze: %s is not a version folder", folder)
		}
		newest = max(newest, n)
	}
	files, err := copyOf(root, fmt.Sprintf("golden/v%d/*.*pb", newest))
	if err != nil {
		return nil, err
	}
	if err := checkBlobs(files); err != nil {
		return nil, err
	}
	stored := map[string][]byte{}
	for name, text := range files {
		if path.Ext(name) != ".txtpb" {
			continue
		}
		message, err := textform.MessageName(text)
		if err != nil {
			return nil, fmt.Errorf("freeze: %s: %w", name, err)
		}
		typ, err := protoregistry.GlobalTypes.FindMessageByName(message)
		if err != nil {
			return nil, fmt.Errorf("freeze: %s: %w", name, err)
		}
		if typ.Descriptor().Fields().ByName(versionField) != nil {
			bin := strings.TrimSuffix(name, ".txtpb") + ".binpb"
			stored[name], stored[bin] = text, files[bin]
		}
	}
	return stored, nil
}
