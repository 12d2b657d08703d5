package transforms_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/beamagents/beamagents-go/pkg/transforms"
)

// A pipeline from files to files: envelopes by kind, and what could not be read.
func ExampleWriteFolder() {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // an example's own
	in := filepath.Join(dir, "in.jsonl")
	lines := `{"key":"acme","event_time_ms":1700000000001,"external_event":{"cents":900}}
{"key":"acme","event_time_ms":1700000000000,"external_event":{"cents":500}}
{"key":"acme","event":{}}
`
	if err := os.WriteFile(in, []byte(lines), 0o600); err != nil {
		panic(err)
	}

	p, s := beam.NewPipelineWithRoot()
	read := transforms.ReadEnvelopes(s, transforms.ReadParams{}, in)
	transforms.WriteFolder(s, filepath.Join(dir, "out"), map[string]beam.PCollection{
		"envelopes.jsonl":    read.Envelopes,
		"dead_letters.jsonl": read.Errors,
	})
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		panic(err)
	}

	for _, name := range []string{"envelopes.jsonl", "dead_letters.jsonl"} {
		b, err := os.ReadFile(filepath.Join(dir, "out", name))
		if err != nil {
			panic(err)
		}
		fmt.Print(strings.ReplaceAll(string(b), dir, "DIR"))
	}
	// Output:
	// {"key":"acme","event_time_ms":"1700000000000","external_event":{"cents":500}}
	// {"key":"acme","event_time_ms":"1700000000001","external_event":{"cents":900}}
	// {"reason":"malformed_envelope","detail":{"code":"unparsable","error":"DIR/in.jsonl, line 3: event: AgentEnvelope has no such field, at byte 21","input":"eyJrZXkiOiJhY21lIiwiZXZlbnQiOnt9fQ==","input_kind":"bytes"}}
}
