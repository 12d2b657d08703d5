package beamagents_test

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/compat"
)

// page returns the Go snippets of a page that must have that many of them.
func page(t *testing.T, path string, snippets int) []string {
	t.Helper()
	all := goSnippets(t, path)
	if len(all) != snippets {
		t.Fatalf("%s has %d Go snippets, not %d: run the new ones here, too", path, len(all), snippets)
	}
	return all
}

// The snippets of the page on intents sign, send and receive intents.
func TestIntentsPageSnippets(t *testing.T) {
	snippets := page(t, "docs/intents.md", 2)
	run := readerModule(t, map[string]string{"main.go": `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"

	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() { beam.RegisterFunction(message) }

func message(intent []byte) (key, value []byte) { return []byte("k"), intent }

func send(s beam.Scope, intents beam.PCollection) beam.PCollection {
	` + snippets[0] + `
	passert.Empty(s, beam.Flatten(s, signed.Errors, messages.Errors))
	return messages.Encoded
}

func receive(s beam.Scope, messages beam.PCollection) {
	` + snippets[1] + `
	passert.Count(s, routed.Tools, "tools", 2)
	passert.Count(s, routed.Approvals, "approvals", 1)
	passert.Count(s, letters, "dead letters", 3)
}

func main() {
	os.Setenv("KEYS", "k1=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	beam.Init()
	p, s := beam.NewPipelineWithRoot()
	sent := send(s, beam.Create(s,
		&pb.ToolIntent{IntentId: "1", EntityKey: []byte("a"), ToolName: "t"},
		&pb.ToolIntent{IntentId: "2", EntityKey: []byte("a"), ToolName: "t", Kind: pb.ToolIntent_TOOL},
		&pb.ToolIntent{IntentId: "3", EntityKey: []byte("b"), ToolName: "t", Kind: pb.ToolIntent_APPROVAL},
		&pb.ToolIntent{IntentId: "4", EntityKey: []byte("b"), ToolName: "t", Kind: 99},
	))
	// One that nobody has signed, and one that cannot be read.
	unsigned := transforms.EncodeIntents(s, transforms.EncodeIntentsParams{}, beam.Create(s, &pb.ToolIntent{IntentId: "5"}))
	passert.Empty(s, unsigned.Errors)
	broken := beam.ParDo(s, message, beam.Create(s, []byte("broken")))
	receive(s, beam.Flatten(s, sent, unsigned.Encoded, broken))
	if _, err := prism.Execute(context.Background(), p); err != nil {
		panic(err)
	}
	fmt.Println("all intents arrived")
}
`})
	run("vet", "-mod=readonly", ".")
	if printed := run("run", "-mod=readonly", "."); !strings.Contains(printed, "all intents arrived\n") {
		t.Errorf("the program prints\n%s", printed)
	}
}

// The line of the page on updates gives any program the flag, and changes nothing without
// it.
func TestUpdatesPageSnippet(t *testing.T) {
	run := readerModule(t, map[string]string{"main.go": `package main

import (
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/compat/graph"
	"github.com/beamagents/beamagents-go/pkg/transforms"
)

func main() {
	p, s := beam.NewPipelineWithRoot()
	parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, beam.Create(s, []byte("broken")))
	transforms.KeyByEntity(s, parsed.Envelopes)
	` + page(t, "docs/updates.md", 1)[0] + `
	fmt.Println("the pipeline runs")
}
`})
	run("vet", "-mod=readonly", ".")
	if printed := run("run", "-mod=readonly", "."); printed != "the pipeline runs\n" {
		t.Errorf("without the flag the program prints\n%s", printed)
	}
	printed := run("run", "-mod=readonly", ".", "--fingerprint", "-")
	if f, err := compat.Read(strings.NewReader(printed)); err != nil || len(f.Transforms) == 0 || strings.Contains(printed, "the pipeline runs") {
		t.Errorf("with the flag the program prints (%v)\n%s", err, printed)
	}
}

// The lines of the page on golden files write the fingerprint of a pipeline, where the
// test then finds it.
func TestGoldenPageSnippet(t *testing.T) {
	run := readerModule(t, map[string]string{"pkg/mine/pipeline_test.go": `package mine

import (
	"flag"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/compat/graph/graphtest"
)

var addFrozen = flag.Bool("add-frozen", false, "")

func build(s beam.Scope) {
	beam.GroupByKey(s, beam.AddFixedKey(s, beam.Impulse(s)))
}

func TestFrozen(t *testing.T) {
	` + page(t, "golden/README.md", 1)[0] + `
}
`})
	run("vet", "-mod=readonly", "./...")
	run("test", "-mod=readonly", "./pkg/mine", "-run", "TestFrozen", "-add-frozen")
	run("test", "-mod=readonly", "./pkg/mine", "-run", "TestFrozen")
}

// Every page with Go on it is named by a test of this folder, which runs what is there.
func TestEveryGoSnippetIsRun(t *testing.T) {
	var tests strings.Builder
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file != "snippets_test.go" {
			tests.WriteString(readText(t, file))
		}
	}
	tests.WriteString(strings.Split(readText(t, "snippets_test.go"), "func TestEveryGoSnippetIsRun")[0])
	pages := 0
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" || !strings.Contains(readText(t, path), "```go\n") {
			return err
		}
		pages++
		if !strings.Contains(tests.String(), strconv.Quote(filepath.ToSlash(path))) {
			t.Errorf("%s has Go on it, and no test of this folder names it", path)
		}
		return nil
	})
	if err != nil || pages < 6 {
		t.Errorf("%d pages: %v", pages, err)
	}
}
