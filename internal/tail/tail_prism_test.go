package tail

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/internal/prismtest"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*keyFn]())
	beam.RegisterDoFn(reflect.TypeFor[*sawFn]())
}

func TestMain(m *testing.M) {
	beam.Init()
	os.Exit(m.Run())
}

// saw has the lines as they are emitted, and the timers that fired. A test runs one job.
var saw = make(chan string, 100)

// keyFn gives all lines one key, and the event time 0.
type keyFn struct{}

func (f *keyFn) ProcessElement(line []byte, emit func(beam.EventTime, string, string)) {
	emit(0, "all", string(line))
}

// sawFn reports what arrives, and when the watermark passes Due.
type sawFn struct {
	Due   int64
	Timer timers.EventTime
}

func (f *sawFn) ProcessElement(tp timers.Provider, _, line string) {
	f.Timer.Set(tp, mtime.FromMilliseconds(f.Due).ToTime())
	saw <- line
}

func (f *sawFn) OnTimer(timers.Provider, string, timers.Context) { saw <- "the watermark" }

// Lines are emitted as they are appended. The watermark moves when the lines are complete and all
// of them are emitted, and the source ends when it may.
func TestLines(t *testing.T) {
	const watermark = int64(1_700_000_000_000)
	dir := t.TempDir()
	file, complete, until := filepath.Join(dir, "lines"), filepath.Join(dir, "complete"), filepath.Join(dir, "until")
	write := func(path, text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			select {
			case line := <-saw:
				got = append(got, line)
			case err := <-ended:
				t.Fatalf("the job has ended: %v; %q came, want %q", err, got, want)
			case <-time.After(time.Minute):
				t.Fatalf("%q came, want %q", got, want)
			}
		}
		slices.Sort(got) // no runner promises an order
		if !slices.Equal(got, want) {
			t.Fatalf("%q came, want %q", got, want)
		}
	}

	write(file, "1\n\n2\nhal")
	p, s := beam.NewPipelineWithRoot()
	lines := Lines(s, Params{File: file, PerBundle: 2, Complete: complete, Until: until, Watermark: watermark})
	beam.ParDo0(s, &sawFn{Due: watermark - 1, Timer: timers.InEventTime("due")}, beam.ParDo(s, &keyFn{}, lines))
	go func() {
		_, err := prismtest.Execute(p)
		ended <- err
	}()
	expect("", "1", "2") // and not the half of a line
	write(file, "f\n")
	expect("half")
	write(file, strings.Repeat("x\n", 5))
	write(complete, "")
	expect("the watermark", "x", "x", "x", "x", "x")
	select {
	case err := <-ended:
		t.Fatalf("the source has ended before it may: %v", err)
	default:
	}
	write(until, "")
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the source does not end")
	}
}

func TestLinesRefusesParams(t *testing.T) {
	for want, params := range map[string]Params{
		"File and Params.Until": {File: "f"},
		"PerBundle":             {File: "f", Until: "u", PerBundle: -1},
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("%+v: %q, want %q", params, text, want)
				}
			}()
			_, s := beam.NewPipelineWithRoot()
			Lines(s, params)
		}()
	}
}
