package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/beamagents/beamagents-go/golden/internal/frozen"
)

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAdd(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "golden/v1/.keep"), "")
	write(t, filepath.Join(dir, "python/a.binpb"), "a")
	var out bytes.Buffer
	if err := add(root, dir, &out); err != nil || out.String() != "golden/v1/python/a.binpb\njava was not run\n" {
		t.Fatalf("add = %v, printed %s", err, &out)
	}
	if got, err := os.ReadFile(filepath.Join(root, "golden/v1/python/a.binpb")); err != nil || string(got) != "a" {
		t.Errorf("a.binpb = %q, %v", got, err)
	}
	out.Reset()
	if err := add(root, dir, &out); err != nil || out.String() != "java was not run\n" {
		t.Errorf("add again = %v, printed %s", err, &out)
	}
	write(t, filepath.Join(dir, "python/a.binpb"), "b")
	if err := add(root, dir, &out); !errors.Is(err, frozen.ErrChanged) {
		t.Errorf("add of other bytes = %v", err)
	}
}
