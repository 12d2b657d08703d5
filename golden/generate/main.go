// Generate adds to the frozen files: the golden blobs of the current version in golden/v1, the
// descriptor sets in proto/baseline, and their hashes in golden/MANIFEST.sha256. Run it from the
// root of the repository:
//
//	go run ./golden/generate
//
// # Behaviour
//
// It writes files that are missing and prints their names. If a frozen file would change or be
// deleted, it names the file, writes nothing more and ends with status 1. Every run gives the
// same bytes.
//
// # Limits
//
// It only knows the folder of the current version, and never opens older ones. release.binpb is
// the schema of the last release, not today's schema. It is written only if it is missing.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/golden/internal/frozen"
	"github.com/beamagents/beamagents-go/golden/internal/textform"
)

const (
	versionFolder  = "golden/v1"
	baselineFolder = "proto/baseline"
	releaseFile    = "release.binpb"
	manifestFile   = "golden/MANIFEST.sha256"
)

func main() {
	if err := generate(".", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(root string, out io.Writer) error {
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return errors.New("generate: run it from the root of the repository")
	}
	blobs, err := blobFiles(v1())
	if err != nil {
		return err
	}
	baselines, err := baselineFiles()
	if err != nil {
		return err
	}
	for _, f := range []struct {
		folder string
		files  map[string][]byte
	}{{versionFolder, blobs}, {baselineFolder, baselines}} {
		added, err := frozen.Add(root, manifestFile, f.folder, f.files, same)
		if err != nil {
			return err
		}
		for _, name := range added {
			fmt.Fprintf(out, "%s/%s\n", f.folder, name)
		}
	}
	return nil
}

// same accepts two differences from today's output. The release may be older than the schema,
// until a person updates it. The layout of a text file may differ, because protobuf does not
// promise the same layout in every version; its value must be the same.
func same(name string, was, now []byte) bool {
	if filepath.Ext(name) != ".txtpb" {
		return name == releaseFile
	}
	a, errA := textform.Unmarshal(was)
	b, errB := textform.Unmarshal(now)
	return errA == nil && errB == nil && proto.Equal(a, b)
}

// A blob is a value to freeze.
type blob struct {
	name  string
	doc   string // the second line of the text file
	value proto.Message
	// wire is the encoding, if it is not the canonical encoding of value.
	wire []byte
}

func blobFiles(blobs []blob) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, b := range blobs {
		wire := b.wire
		if wire == nil {
			var err error
			if wire, err = (proto.MarshalOptions{Deterministic: true}).Marshal(b.value); err != nil {
				return nil, fmt.Errorf("generate: %s: %w", b.name, err)
			}
		}
		back := b.value.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(wire, back); err != nil {
			return nil, fmt.Errorf("generate: %s: %w", b.name, err)
		}
		if !proto.Equal(back, b.value) {
			return nil, fmt.Errorf("generate: %s: the bytes read as another value", b.name)
		}
		text, err := textform.Marshal(b.doc, b.value)
		if err != nil {
			return nil, fmt.Errorf("generate: %s: %w", b.name, err)
		}
		if files[b.name+".binpb"] != nil || files[b.name+".txtpb"] != nil {
			return nil, fmt.Errorf("generate: %s is defined twice", b.name)
		}
		files[b.name+".binpb"], files[b.name+".txtpb"] = bytes.Clone(wire), text
	}
	return files, nil
}
