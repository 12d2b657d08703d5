package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/events"
)

func TestSampleIsWhatIsWritten(t *testing.T) {
	want, err := os.ReadFile("sample.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	got, err := sample()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Error("sample.jsonl is out of date: run go run . here")
	}
	seen, refused := map[string]bool{}, 0
	for line := range bytes.Lines(got) {
		env, err := events.DecodeEnvelope(line)
		if err != nil {
			refused++
			continue
		}
		if _, err := events.FromEnvelope(env); err == nil {
			seen[env.Type] = true
		}
	}
	for _, name := range events.Types() {
		if !seen[name] {
			t.Errorf("the sample has no %s", name)
		}
	}
	if refused < 5 {
		t.Errorf("the sample has %d broken lines", refused)
	}
}
