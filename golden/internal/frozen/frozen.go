// Package frozen checks folders to which files may be added, but whose files never change.
//
// # Behaviour
//
// A manifest lists the SHA-256 of every file in the frozen folders, in the format of sha256sum,
// with paths relative to the root of the repository. `sha256sum -c golden/MANIFEST.sha256` checks
// it without this package. [Check] compares folders with the manifest. [Add] adds files to both.
//
// # Limits
//
// Files are read into memory. Paths must not contain line breaks.
package frozen

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

var (
	// ErrChanged says that a frozen file is missing or has other bytes.
	ErrChanged = errors.New("frozen file changed")
	// ErrUnlisted says that a file in a frozen folder is not in the manifest.
	ErrUnlisted = errors.New("file not in the manifest")
	// ErrManifest says that the manifest cannot be read.
	ErrManifest = errors.New("malformed manifest")
)

// manifest maps the path of each frozen file, slash-separated and relative to the root, to its
// SHA-256 in lower-case hexadecimal.
type manifest map[string]string

// parseManifest reads lines of a hash, two spaces and a path, sorted by path.
func parseManifest(text []byte) (manifest, error) {
	m := manifest{}
	for line := range strings.Lines(string(text)) {
		hash, file, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || len(hash) != 2*sha256.Size || !fs.ValidPath(file) {
			return nil, fmt.Errorf("frozen: %w: line %q", ErrManifest, line)
		}
		if _, twice := m[file]; twice {
			return nil, fmt.Errorf("frozen: %w: %s is listed twice", ErrManifest, file)
		}
		m[file] = hash
	}
	if !bytes.Equal(m.text(), text) {
		return nil, fmt.Errorf("frozen: %w: not in order of path, or no line break at the end", ErrManifest)
	}
	return m, nil
}

// text returns the manifest in the form that parseManifest reads.
func (m manifest) text() []byte {
	var out bytes.Buffer
	for _, file := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&out, "%s  %s\n", m[file], file)
	}
	return out.Bytes()
}

func hash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// Check returns all differences between the manifest file and the files in and below folders, as
// joined errors: ErrChanged, ErrUnlisted, ErrManifest.
func Check(root fs.FS, manifestFile string, folders ...string) error {
	text, err := fs.ReadFile(root, manifestFile)
	if err != nil {
		return fmt.Errorf("frozen: %w", err)
	}
	m, err := parseManifest(text)
	if err != nil {
		return err
	}
	var problems []error
	seen := map[string]bool{}
	for _, folder := range folders {
		err := fs.WalkDir(root, folder, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(root, file)
			if err != nil {
				return err
			}
			seen[file] = true
			if want, listed := m[file]; !listed {
				problems = append(problems, fmt.Errorf("frozen: %w: %s", ErrUnlisted, file))
			} else if want != hash(data) {
				problems = append(problems, fmt.Errorf("frozen: %w: %s", ErrChanged, file))
			}
			return nil
		})
		if err != nil {
			problems = append(problems, fmt.Errorf("frozen: %w", err))
		}
	}
	for _, file := range slices.Sorted(maps.Keys(m)) {
		if !seen[file] {
			problems = append(problems, fmt.Errorf("frozen: %w: %s is missing", ErrChanged, file))
		}
	}
	return errors.Join(problems...)
}

// Add adds files to folder, a path below the directory root, and lists them in the manifest file.
// It returns the names of the files that it added, sorted. The keys of files have no folders;
// folder may have subfolders.
//
// Add only adds. If a file would change, or if an existing or listed file is not among files, it
// writes nothing and returns ErrChanged or ErrUnlisted. If same accepts the old and the new
// version of a file, that is not a change, and the old version stays. A missing manifest counts
// as empty.
func Add(root, manifestFile, folder string, files map[string][]byte, same func(name string, was, now []byte) bool) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, manifestFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("frozen: %w", err)
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, filepath.FromSlash(folder))
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("frozen: %w", err)
	}
	var problems []error
	for _, e := range entries {
		if _, ok := files[e.Name()]; !ok && !e.IsDir() {
			problems = append(problems, fmt.Errorf("frozen: %w: %s would be deleted", ErrChanged, path.Join(folder, e.Name())))
		}
	}
	for file := range m {
		if _, ok := files[path.Base(file)]; !ok && path.Dir(file) == folder {
			problems = append(problems, fmt.Errorf("frozen: %w: %s would be deleted", ErrChanged, file))
		}
	}
	var added []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := path.Join(folder, name)
		listed, isListed := m[file]
		old, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && isListed && listed != hash(files[name]):
			problems = append(problems, fmt.Errorf("frozen: %w: %s is missing and would come back different", ErrChanged, file))
		case errors.Is(err, fs.ErrNotExist):
			added = append(added, name)
			m[file] = hash(files[name])
		case err != nil:
			problems = append(problems, fmt.Errorf("frozen: %w", err))
		case !isListed:
			problems = append(problems, fmt.Errorf("frozen: %w: %s", ErrUnlisted, file))
		case listed != hash(old), !bytes.Equal(old, files[name]) && !same(name, old, files[name]):
			problems = append(problems, fmt.Errorf("frozen: %w: %s", ErrChanged, file))
		}
	}
	if err := errors.Join(problems...); err != nil || len(added) == 0 {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("frozen: %w", err)
	}
	for _, name := range added {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o666); err != nil {
			return nil, fmt.Errorf("frozen: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, manifestFile), m.text(), 0o666); err != nil {
		return nil, fmt.Errorf("frozen: %w", err)
	}
	return added, nil
}
