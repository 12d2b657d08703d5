package main

import (
	"bytes"
	"os"
	"testing"
)

func TestSampleIsWhatIsWritten(t *testing.T) {
	want, err := os.ReadFile("sample.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, sample()) {
		t.Error("sample.jsonl is out of date: run go run . in this folder")
	}
}
