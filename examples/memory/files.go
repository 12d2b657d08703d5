package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The files of an output folder.
const (
	customersFile   = "customers.jsonl"
	deadLettersFile = "dead_letters.jsonl"
)

var outputFiles = []string{customersFile, deadLettersFile}

// prepare creates the folder. It refuses a folder in which an output would replace the input.
func prepare(dir string, input fs.FileInfo) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("cannot write the outputs: %w", err)
	}
	for _, name := range outputFiles {
		if old, err := os.Stat(filepath.Join(dir, name)); err == nil && os.SameFile(old, input) {
			return fmt.Errorf("cannot write the outputs: %s is the input; choose another --out", filepath.Join(dir, name))
		}
	}
	return nil
}
