package events_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/events"
)

// checkWritten tests that WriteProjection writes what AppendJSON appends.
func checkWritten(t *testing.T, env events.Envelope) {
	t.Helper()
	var b strings.Builder
	if err := env.WriteProjection(&b); err != nil {
		t.Fatal(err)
	}
	if want := string(env.Project().AppendJSON(nil)); b.String() != want {
		t.Errorf("%s: written as\n%.2000s, want\n%.2000s", env.Type, b.String(), want)
	}
}

func TestWriteProjection(t *testing.T) {
	all := theVectors(t)
	for _, e := range all.Events {
		checkWritten(t, decodeEnvelope(t, e.EnvelopeJSONUnsorted))
	}
	for _, e := range all.ProjectionEdges {
		checkWritten(t, decodeEnvelope(t, e.Input))
	}
	long := strings.Repeat(`é \" \\ \u0001 \u00e9 😀 `, 500) // pieces end in all of these
	for i, payload := range []string{
		`"` + long + `"`, `{"text":"` + long + `"}`, `{"b":"` + long + `","a":["` + long + `",1e5]}`,
		`{"text":"x","verification_summary":{"status":"passed","b":"` + long + `","a":[1e2]}}`,
		`{"text":"x","verification_summary":null}`,
	} {
		for shift := range 7 {
			checkWritten(t, decodeEnvelope(t, strings.Repeat(" ", shift)+`{"version":1,"type":"agent_end","payload":`+payload+
				`,"metadata":{"`+strings.Repeat("m", shift)+`":"`+long+`"}}`))
		}
		if t.Failed() {
			t.Fatalf("payload %d", i)
		}
	}
}

func decodeEnvelope(t *testing.T, text string) events.Envelope {
	t.Helper()
	env, err := events.DecodeEnvelopeString(text)
	if err != nil {
		t.Fatalf("%.300s: %v", text, err)
	}
	return env
}

// failing is a writer that fails after so many bytes.
type failing struct{ room int }

var errFull = errors.New("full")

func (w *failing) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriteProjectionReportsTheWritersError(t *testing.T) {
	env := decodeEnvelope(t, `{"version":1,"type":"x","payload":["`+strings.Repeat("x", 100_000)+`"]}`)
	for _, room := range []int{0, 10_000, 150_000, 200_000} {
		if err := env.WriteProjection(&failing{room}); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
	if err := env.WriteProjection(&failing{300_000}); err != nil {
		t.Error(err)
	}
}
