package main

import (
	"bytes"
	"os"
	"testing"
)

func TestSampleFilesAreWhatTheProgramWrites(t *testing.T) {
	for name, content := range map[string]func() ([]byte, error){"sample.jsonl": jsonl, "sample.binpb": delimited} {
		want, err := content()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: run go run . in this folder", name)
		}
	}
}
