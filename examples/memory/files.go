package main

import (
	"bufio"
	"bytes"
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
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The files of an output folder.
const (
	customersFile   = "customers.jsonl"
	deadLettersFile = "dead_letters.jsonl"
)

var outputFiles = []string{customersFile, deadLettersFile}

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*readEventsFn]())
	beam.RegisterDoFn(reflect.TypeFor[*letterLineFn]())
	beam.RegisterDoFn(reflect.TypeFor[*writeLinesFn]())
	register.Emitter1[[]byte]()
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

// readEvents reads the events of a file, one a line, as encoded envelopes, and as dead
// letters the lines that are none. Blank lines are no lines.
func readEvents(s beam.Scope, path string) (raw, unreadable beam.PCollection) {
	s = s.Scope("ReadEvents")
	return beam.ParDo2(s, &readEventsFn{Path: path}, beam.Impulse(s))
}

// readEventsFn reads on a worker, so that the file is not part of the pipeline.
type readEventsFn struct{ Path string }

func (f *readEventsFn) ProcessElement(_ []byte, emit func([]byte), errs func(*pb.ActivationErrorRecord)) error {
	file, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened to read
	r := bufio.NewReader(file)
	for number, last := 1, false; !last; number++ {
		line, err := r.ReadBytes('\n')
		if last = errors.Is(err, io.EOF); err != nil && !last {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		raw, err := encodeLine(line)
		if err == nil {
			emit(raw)
			continue
		}
		rec, err := deadletter.Letter{
			Reason: deadletter.MalformedEnvelope, Code: deadletter.Unparsable, Error: fmt.Sprintf("line %d: %v", number, err),
			InputKind: deadletter.BytesInput, Input: line,
		}.Record()
		if err != nil {
			return err
		}
		errs(rec)
	}
	return nil
}

// encodeLine puts an event into an envelope: its customer is the key.
func encodeLine(line []byte) ([]byte, error) {
	var head struct {
		Customer string `json:"customer"`
		TimeMS   int64  `json:"time_ms"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, err
	}
	if head.Customer == "" {
		return nil, errors.New("an event without a customer")
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&pb.AgentEnvelope{
		EntityKey: []byte(head.Customer), EventTimeMs: head.TimeMS,
		Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: line},
	})
}

// letterLineFn shows a dead letter to a person: its detail is part of the line.
type letterLineFn struct{}

func (*letterLineFn) ProcessElement(rec *pb.ActivationErrorRecord) (string, error) {
	key := map[string]any{"hex": hex.EncodeToString(rec.GetEntityKey())}
	if utf8.Valid(rec.GetEntityKey()) {
		key["text"] = string(rec.GetEntityKey())
	}
	line := map[string]any{
		"entity_key": key, "reason": rec.GetReason(), "event_time_ms": rec.GetEventTimeMs(), "detail": rec.GetDetail(),
	}
	switch _, err := deadletter.Read(rec); {
	case err == nil:
		line["detail"] = json.RawMessage(rec.GetDetail())
	case !errors.Is(err, deadletter.ErrForeign): // whose detail is any text
		return "", err
	}
	b, err := canonjson.Marshal(line)
	return string(b), err
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
