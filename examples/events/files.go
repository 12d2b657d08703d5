package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The files of an output folder.
const (
	timelinesFile   = "timelines.txt"
	toolsFile       = "tools.jsonl"
	tracesFile      = "traces.jsonl"
	deadLettersFile = "dead_letters.jsonl"
)

var outputFiles = []string{timelinesFile, toolsFile, tracesFile, deadLettersFile}

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*eventLineFn]())
	beam.RegisterDoFn(reflect.TypeFor[*letterKeyFn]())
	beam.RegisterDoFn(reflect.TypeFor[*firstLetterFn]())
	register.Emitter2[beam.EventTime, []byte]()
	register.Iter1[*pb.ActivationErrorRecord]()
}

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

// readEvents returns the lines of a file, which are events, as a PCollection<[]byte>. It skips
// blank lines.
func readEvents(s beam.Scope, path string) beam.PCollection {
	s = s.Scope("ReadEvents")
	return beam.ParDo(s, &eventLineFn{}, textio.Read(s, path))
}

type eventLineFn struct{}

func (*eventLineFn) ProcessElement(_ context.Context, line string, emit func(beam.EventTime, []byte)) {
	if event := bytes.TrimRight([]byte(line), "\r\n"); len(bytes.TrimSpace(event)) > 0 {
		// The lines of a file have no timestamp. Without this one, the legacy direct runner would
		// use the clock.
		emit(mtime.MinTimestamp, event)
	}
}

// eachLetterOnce keeps one dead letter for each input and code, because several transforms may
// refuse the same broken event. It returns a PCollection<*pb.ActivationErrorRecord>.
func eachLetterOnce(s beam.Scope, letters beam.PCollection) beam.PCollection {
	s = s.Scope("EachLetterOnce")
	return beam.ParDo(s, &firstLetterFn{}, beam.GroupByKey(s, beam.ParDo(s, &letterKeyFn{}, letters)))
}

// letterKeyFn keys a dead letter by its code and its input, or by itself if it has no input.
type letterKeyFn struct{}

func (*letterKeyFn) ProcessElement(rec *pb.ActivationErrorRecord) ([]byte, *pb.ActivationErrorRecord, error) {
	letter, err := deadletter.Read(rec)
	if err == nil && len(letter.Input) > 0 {
		return append([]byte(letter.Code+" "), letter.Input...), rec, nil
	}
	key, err := encode(rec) // the dead letter of another program is its own key
	return key, rec, err
}

// firstLetterFn emits the first dead letter of a key, in the order of their bytes, at its event
// time.
type firstLetterFn struct{}

func (*firstLetterFn) ProcessElement(_ []byte, next func(**pb.ActivationErrorRecord) bool) (beam.EventTime, *pb.ActivationErrorRecord, error) {
	var first *pb.ActivationErrorRecord
	var least []byte
	for rec := (*pb.ActivationErrorRecord)(nil); next(&rec); {
		b, err := encode(rec)
		if err != nil {
			return 0, nil, err
		}
		if first == nil || bytes.Compare(b, least) < 0 {
			first, least = rec, b
		}
	}
	return mtime.FromMilliseconds(first.GetEventTimeMs()), first, nil
}

func encode(rec *pb.ActivationErrorRecord) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(rec)
}
