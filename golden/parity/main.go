// Parity freezes the encodings of the protobuf runtimes of other languages. The programs in the
// folders python and java encode every golden value, and this program adds their files to
// golden/v1/<language>. `make parity` runs all of them.
//
// # Behaviour
//
//	go run ./golden/parity DIR
//
// DIR holds a folder for each language that was run. The program prints the names of new files.
// If a frozen file would change or be deleted, it writes nothing for that language, and the exit
// status is 1.
//
// # Limits
//
// It compares a language with the frozen files of that language. A test of package golden
// compares these with our own encoding; it runs wherever Go runs.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/beamagents/beamagents-go/golden/internal/frozen"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./golden/parity DIR")
		os.Exit(2)
	}
	if err := add(".", os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func add(root, dir string, out io.Writer) error {
	for _, language := range []string{"python", "java"} {
		files := map[string][]byte{}
		written, err := os.ReadDir(filepath.Join(dir, language))
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(out, "%s was not run\n", language)
			continue
		} else if err != nil {
			return fmt.Errorf("parity: %w", err)
		}
		for _, f := range written {
			if files[f.Name()], err = os.ReadFile(filepath.Join(dir, language, f.Name())); err != nil {
				return fmt.Errorf("parity: %w", err)
			}
		}
		folder := path.Join("golden/v1", language)
		never := func(string, []byte, []byte) bool { return false }
		added, err := frozen.Add(root, "golden/MANIFEST.sha256", folder, files, never)
		if err != nil {
			return fmt.Errorf("parity: %w", err)
		}
		for _, name := range added {
			fmt.Fprintf(out, "%s/%s\n", folder, name)
		}
	}
	return nil
}
