//go:build unix

package transforms_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/transforms"
)

// What a pipeline writes may be secret. The umask says who may read it, also where a file
// of an earlier run was open to all.
func TestWriteFolderKeepsTheUmask(t *testing.T) {
	for _, umask := range []int{0o077, 0o022} {
		dir := filepath.Join(t.TempDir(), "out")
		earlier := filepath.Join(dir, "earlier", "a.txt")
		if err := errors.Join(os.MkdirAll(filepath.Dir(earlier), 0o755), os.WriteFile(earlier, nil, 0o600), os.Chmod(earlier, 0o666)); err != nil {
			t.Fatal(err)
		}
		p, s := beam.NewPipelineWithRoot()
		for _, folder := range []string{"earlier", "new"} {
			transforms.WriteFolder(s, filepath.Join(dir, folder), map[string]beam.PCollection{"a.txt": beam.Create(s, "a")})
		}
		old := syscall.Umask(umask)
		_, err := beam.Run(context.Background(), "prism", p)
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]fs.FileMode{
			"new": 0o755, "new/a.txt": 0o644, "earlier/a.txt": 0o644,
		} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want&^fs.FileMode(umask) {
				t.Errorf("umask %o: %s has mode %o", umask, name, got)
			}
		}
	}
}
