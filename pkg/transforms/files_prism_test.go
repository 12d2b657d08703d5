package transforms_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*countdownFn]())
	beam.RegisterDoFn(reflect.TypeFor[*largeFn]())
	beam.RegisterType(reflect.TypeFor[reading]())
	register.Function1x1(asReading)
	register.Function1x1(asIntent)
	register.Emitter2[beam.EventTime, string]()
}

// framed puts the length in front of each message, as a .binpb file has it.
func framed(messages ...[]byte) (b []byte) {
	for _, m := range messages {
		b = append(binary.AppendUvarint(b, uint64(len(m))), m...)
	}
	return b
}

func TestReadEnvelopes(t *testing.T) {
	first, second := event(2000, "a", `{"n":1}`), event(1000, "b", "no JSON")
	files := map[string][]byte{
		"memfs://read/1.jsonl": []byte(`{"key":"a","event_time_ms":"2000","external_event":{"n":1}}` + "\n{\"key\":\"a\"\n"),
		"memfs://read/2.binpb": framed([]byte{0x0a, 1, 'k'}, canonical(second), []byte{0x1a, 3, 'x'}),
		"memfs://read/3.txt":   []byte(`{"key":"a","event_time_ms":"2000","external_event":{"n":1}}`),
		"memfs://other/1.pb":   []byte("not read"),
	}
	for name, content := range files {
		memfs.Write(name, content)
	}
	onBothRunners(t, func(s beam.Scope) {
		read := transforms.ReadEnvelopes(s, transforms.ReadParams{}, "memfs://read/*")
		equals(s, beam.ParDo(s, stampedEnvelope, read.Envelopes), []string{
			fmt.Sprintf("2000 %x", canonical(first)), fmt.Sprintf("2000 %x", canonical(first)), fmt.Sprintf("1000 %x", canonical(second)),
		})
		equals(s, beam.ParDo(s, stampedLetter, read.Errors), []string{
			`-inf malformed_envelope/unparsable key= time=0 bytes=7b226b6579223a226122 redriven=0: memfs://read/1.jsonl, line 2: the JSON is cut short, at byte 10`,
			`-inf malformed_envelope/empty_payload key=k time=0 bytes=0a016b redriven=0: memfs://read/2.binpb, message 1 at byte 0: the envelope has no payload`,
			`-inf malformed_envelope/unparsable key= time=0 bytes=1a0378 redriven=0: memfs://read/2.binpb, message 3 at byte 20: byte 0: AgentEnvelope.external_event is cut short`,
		})
	}, wantCounters(map[string]int64{"envelopes_parsed": 3, "errors_malformed_envelope": 3}))
}

func TestReadEnvelopesFailsWithoutFiles(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "*.jsonl")
	p, s := beam.NewPipelineWithRoot()
	_ = transforms.ReadEnvelopes(s, transforms.ReadParams{}, missing).Errors
	_, err := beam.Run(context.Background(), "prism", p)
	if err == nil || !strings.Contains(err.Error(), "no file matches") {
		t.Errorf("%v", err)
	}
}

// countdownFn emits its texts, each 1 ms earlier than the previous one.
type countdownFn struct{ Texts []string }

func (f *countdownFn) ProcessElement(_ []byte, emit func(beam.EventTime, string)) {
	for i, text := range f.Texts {
		emit(beam.EventTime(1_000_000-i), text)
	}
}

// largeFn emits texts that begin with a number, in no order.
type largeFn struct{ Count, Size int }

func (f *largeFn) ProcessElement(_ []byte, emit func(beam.EventTime, string)) {
	for i := range f.Count {
		emit(0, largeText(i, f.Count, f.Size))
	}
}

func largeText(i, count, size int) string {
	return fmt.Sprintf("%02d", i*37%count) + strings.Repeat("x", size)
}

type reading struct {
	Where string `json:"where"`
	N     int    `json:"n"`
}

func asReading(text string) reading { return reading{text, len(text)} }

func asIntent(text string) *pb.ToolIntent {
	return &pb.ToolIntent{ToolName: text, ArgsJson: `{"n":1}`}
}

func TestWriteFolder(t *testing.T) {
	one := event(7, "k", `{"n":1}`)
	want := map[string]string{
		"countdown.txt":   "c\nb\na\n",
		"windowed.txt":    "c\nb\na\n",
		"ties.txt":        "a\nc\n" + "c\n",
		"empty.jsonl":     "",
		"readings.jsonl":  `{"n":2,"where":"aa"}` + "\n" + `{"n":3,"where":"bbb"}` + "\n",
		"pairs.jsonl":     `{"key":"kv-key","value":"text"}` + "\n" + `{"key":"kv-key","value":{"n":1}}` + "\n",
		"nested.jsonl":    `{"key":"k","value":{"key":"k","event_time_ms":"7","external_event":{"n":1}}}` + "\n",
		"intents.jsonl":   `{"tool_name":"refund","args_json":{"n":1}}` + "\n",
		"envelopes.binpb": string(framed(canonical(one))),
		"values.binpb":    string(framed([]byte("text"), []byte(`{"n":1}`))),
	}
	for _, dir := range []string{filepath.Join(t.TempDir(), "a", "b"), t.TempDir()} {
		t.Run("", func(t *testing.T) {
			onBothRunners(t, func(s beam.Scope) {
				if err := os.MkdirAll(dir, 0o777); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"empty.jsonl", "countdown.txt"} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte("of an earlier run\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				countdown := beam.ParDo(s, &countdownFn{Texts: []string{"a", "b", "c"}}, beam.Impulse(s))
				pairs := beam.ParDo(s, keyed, beam.Create(s, []byte("text"), []byte(`{"n":1}`)))
				envelopes := beam.Create(s, one)
				transforms.WriteFolder(s, dir+"/", map[string]beam.PCollection{
					"countdown.txt":   countdown,
					"windowed.txt":    beam.WindowInto(s, window.NewFixedWindows(time.Millisecond), countdown),
					"ties.txt":        beam.CreateList(s, []string{"c", "a", "c"}),
					"empty.jsonl":     beam.ParDo(s, asReading, beam.CreateList(s, []string{})),
					"readings.jsonl":  beam.ParDo(s, asReading, beam.Create(s, "bbb", "aa")),
					"pairs.jsonl":     pairs,
					"nested.jsonl":    transforms.KeyByEntity(s, envelopes),
					"intents.jsonl":   beam.ParDo(s, asIntent, beam.Create(s, "refund")),
					"envelopes.binpb": transforms.KeyByEntity(s, envelopes),
					"values.binpb":    pairs,
				})
			}, func(t *testing.T, _ map[string]int64) {
				if diff := cmp.Diff(want, folder(t, dir)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// folder is what the files of a folder hold.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		b, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(b)
	}
	return all
}

// More records than a worker holds in memory are sorted, too, and no temporary file is left.
func TestWriteFolderSortsMoreThanItHolds(t *testing.T) {
	if racedetector.Enabled {
		t.Skip("one goroutine sorts 40 MiB: make test runs this without the race detector")
	}
	const lines, size = 40, 1 << 20
	t.Setenv("TMPDIR", t.TempDir())
	var texts []string
	for i := range lines {
		texts = append(texts, largeText(i, lines, size))
	}
	dir := t.TempDir()
	p, s := beam.NewPipelineWithRoot()
	transforms.WriteFolder(s, dir, map[string]beam.PCollection{"a.txt": beam.ParDo(s, &largeFn{Count: lines, Size: size}, beam.Impulse(s))})
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		t.Fatal(err)
	}
	slices.Sort(texts)
	if got := folder(t, dir)["a.txt"]; got != strings.Join(texts, "\n")+"\n" {
		t.Errorf("%d bytes in another order", len(got))
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "beamagents-*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left behind, %v", left, err)
	}
}

// The folder may be on any file system. If the file system fails, the bundle fails.
func TestWriteFolderOnOtherFileSystems(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	transforms.WriteFolder(s, "memfs://out", map[string]beam.PCollection{"a.txt": beam.Create(s, "a")})
	if _, err := beam.Run(context.Background(), "prism", p); err != nil {
		t.Fatal(err)
	}
	fs := memfs.New(context.Background())
	names, err := fs.List(context.Background(), "memfs://out/*")
	if err != nil || !slices.Equal(names, []string{"memfs://out/a.txt"}) {
		t.Errorf("%q, %v", names, err)
	}

	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, s = beam.NewPipelineWithRoot()
	transforms.WriteFolder(s, blocked, map[string]beam.PCollection{"a.txt": beam.Create(s, "a")})
	if _, err := beam.Run(context.Background(), "prism", p); err == nil || !strings.Contains(err.Error(), "transforms.WriteFolder: write a.txt: ") {
		t.Errorf("%v", err)
	}
}
