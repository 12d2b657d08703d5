// Parity freezes what the protobuf runtimes of other languages write: the programs in
// python and java, beside it, encode every golden value, and this one adds their files
// to golden/v1/<language>. Run all with `make parity`.
//
// # Behaviour
//
//	go run ./golden/parity DIR
//
// DIR holds a folder for each language that was run. Names of new files are printed.
// Where a frozen file would change or go, nothing of that language is written and the
// exit status is 1.
//
// # Limits
//
// It compares a language with its own frozen files. A test of package golden compares
// those with our encoding, wherever there is Go.
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
