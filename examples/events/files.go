package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
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
	beam.RegisterDoFn(reflect.TypeFor[*readLinesFn]())
	beam.RegisterDoFn(reflect.TypeFor[*traceLineFn]())
	beam.RegisterDoFn(reflect.TypeFor[*letterLineFn]())
	beam.RegisterDoFn(reflect.TypeFor[*firstLineFn]())
	beam.RegisterDoFn(reflect.TypeFor[*writeLinesFn]())
	register.Emitter2[beam.EventTime, []byte]()
	register.Iter1[string]()
}

// prepare creates the folder and its files, empty: an output without elements has no
// bundle that would write it, and must not keep an earlier run's. It refuses a folder
// that holds the input among them.
func prepare(dir string, input fs.FileInfo) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot write the outputs: %w", err)
	}
	for _, name := range outputFiles {
		if old, err := os.Stat(filepath.Join(dir, name)); err == nil && os.SameFile(old, input) {
			return fmt.Errorf("cannot write the outputs: %s is the input; choose another --out", filepath.Join(dir, name))
		}
	}
	for _, name := range outputFiles {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			return fmt.Errorf("cannot write the outputs: %w", err)
		}
	}
	return nil
}

// readLines reads the lines of a file: PCollection<[]byte>. Blank lines are no lines.
func readLines(s beam.Scope, path string) beam.PCollection {
	s = s.Scope("ReadLines")
	return beam.ParDo(s, &readLinesFn{Path: path}, beam.Impulse(s))
}

// readLinesFn reads on a worker, so that the file is not part of the pipeline.
type readLinesFn struct{ Path string }

func (f *readLinesFn) ProcessElement(_ context.Context, _ []byte, emit func(beam.EventTime, []byte)) error {
	file, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened to read
	for r := bufio.NewReader(file); ; {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(bytes.TrimSpace(line)) > 0 {
			// A file's lines have no time of their own, and the legacy direct runner would
			// stamp them with the clock.
			emit(mtime.MinTimestamp, line)
		}
		if err != nil {
			return nil
		}
	}
}

// traceLineFn is a TraceEvent in protobuf JSON. Canonical, since protojson's own
// spacing differs from binary to binary.
type traceLineFn struct{}

func (*traceLineFn) ProcessElement(e *pb.TraceEvent) (string, error) {
	b, err := protojson.Marshal(e)
	if err != nil {
		return "", err
	}
	line, err := canonjson.Canonicalize(nil, b)
	return string(line), err
}

// letterLines shows dead letters to a person, each input once under each code: every
// transform that takes a broken event may refuse it. PCollection<string>.
func letterLines(s beam.Scope, letters beam.PCollection) beam.PCollection {
	s = s.Scope("LetterLines")
	return beam.ParDo(s, &firstLineFn{}, beam.GroupByKey(s, beam.ParDo(s, &letterLineFn{}, letters)))
}

// letterLineFn makes the line, which the detail is part of, and puts it under the code
// and the input.
type letterLineFn struct{}

func (*letterLineFn) ProcessElement(rec *pb.ActivationErrorRecord) (key []byte, line string, err error) {
	entity := map[string]any{"hex": hex.EncodeToString(rec.GetEntityKey())}
	if utf8.Valid(rec.GetEntityKey()) {
		entity["text"] = string(rec.GetEntityKey())
	}
	members := map[string]any{
		"entity_key": entity, "reason": rec.GetReason(), "event_time_ms": rec.GetEventTimeMs(), "detail": rec.GetDetail(),
	}
	letter, err := deadletter.Read(rec)
	switch {
	case err == nil:
		members["detail"] = json.RawMessage(rec.GetDetail())
	case !errors.Is(err, deadletter.ErrForeign): // whose detail is any text
		return nil, "", err
	}
	b, err := canonjson.Marshal(members)
	if len(letter.Input) == 0 {
		return b, string(b), err
	}
	return append([]byte(letter.Code+" "), letter.Input...), string(b), err
}

// firstLineFn takes the first of the lines of one key, in their order as text.
type firstLineFn struct{}

func (*firstLineFn) ProcessElement(_ []byte, next func(*string) bool) (first string) {
	next(&first)
	for line := ""; next(&line); {
		first = min(first, line)
	}
	return first
}

// writeLines writes a PCollection<string> to one file, sorted: the order in which
// elements arrive is not the same in every run. All of it is in memory at once.
func writeLines(s beam.Scope, dir, name string, lines beam.PCollection) {
	s = s.Scope("Write " + name)
	beam.ParDo0(s, &writeLinesFn{Path: filepath.Join(dir, name)}, beam.GroupByKey(s, beam.AddFixedKey(s, lines)))
}

type writeLinesFn struct{ Path string }

// ProcessElement replaces the file at once, so that a retried bundle leaves a whole one.
func (f *writeLinesFn) ProcessElement(_ int, next func(*string) bool) (err error) {
	var all []string
	for line := ""; next(&line); {
		all = append(all, line)
	}
	slices.Sort(all)
	file, err := os.CreateTemp(filepath.Dir(f.Path), filepath.Base(f.Path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	w := bufio.NewWriter(file)
	for _, line := range all {
		w.WriteString(line + "\n")
	}
	if err := errors.Join(w.Flush(), file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), f.Path)
}
