package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The files of an output folder. Those of the four variants hold envelopes again, so
// each is a valid input of this job.
const (
	eventsFile          = "events.jsonl"
	toolResultsFile     = "tool_results.jsonl"
	approvalsFile       = "approvals.jsonl"
	exportRequestsFile  = "export_requests.jsonl"
	deadLettersFile     = "dead_letters.jsonl"           // to read
	tooLargeFile        = "dead_letters_too_large.jsonl" // those that are not in the next one
	deadLetterTopicFile = "dead_letters.binpb"           // what an errors topic would hold
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*eventLineFn]())
	beam.RegisterDoFn(reflect.TypeFor[*toolResultLineFn]())
	beam.RegisterDoFn(reflect.TypeFor[*approvalLineFn]())
	beam.RegisterDoFn(reflect.TypeFor[*exportRequestLineFn]())
	beam.RegisterDoFn(reflect.TypeFor[*letterLineFn]())
	beam.RegisterDoFn(reflect.TypeFor[*writeLinesFn]())
	beam.RegisterDoFn(reflect.TypeFor[*writeDelimitedFn]())
	register.Iter1[string]()
	register.Iter1[[]byte]()
}

var outputFiles = []string{
	eventsFile, toolResultsFile, approvalsFile, exportRequestsFile, deadLettersFile, tooLargeFile, deadLetterTopicFile,
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

type eventLineFn struct{}

func (*eventLineFn) ProcessElement(ctx context.Context, ts beam.EventTime, key, event []byte) (string, error) {
	return envelopeLine(ctx, ts, key, &pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: event}})
}

type toolResultLineFn struct{}

func (*toolResultLineFn) ProcessElement(ctx context.Context, ts beam.EventTime, key []byte, r *pb.ToolResult) (string, error) {
	return envelopeLine(ctx, ts, key, &pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ToolResult{ToolResult: r}})
}

type approvalLineFn struct{}

func (*approvalLineFn) ProcessElement(ctx context.Context, ts beam.EventTime, key []byte, a *pb.AgentEnvelope_Approval) (string, error) {
	return envelopeLine(ctx, ts, key, &pb.AgentEnvelope{Payload: &pb.AgentEnvelope_Approval_{Approval: a}})
}

type exportRequestLineFn struct{}

func (*exportRequestLineFn) ProcessElement(
	ctx context.Context, ts beam.EventTime, key []byte, r *pb.AgentEnvelope_StateExportRequest,
) (string, error) {
	return envelopeLine(ctx, ts, key, &pb.AgentEnvelope{Payload: &pb.AgentEnvelope_ExportRequest{ExportRequest: r}})
}

// leftOut counts envelopes with fields of a newer schema.
var leftOut = beam.NewCounter(exampleNamespace, "newer_fields_left_out")

// envelopeLine is an envelope in protobuf JSON. Canonical, since protojson's own
// spacing differs from binary to binary. JSON has no place for unknown fields.
func envelopeLine(ctx context.Context, ts beam.EventTime, key []byte, env *pb.AgentEnvelope) (string, error) {
	env.EntityKey, env.EventTimeMs = key, ts.Milliseconds()
	if hasUnknown(env.ProtoReflect()) {
		leftOut.Inc(ctx, 1)
	}
	b, err := protojson.Marshal(env)
	if err != nil {
		return "", err
	}
	line, err := canonjson.Canonicalize(nil, b)
	return string(line), err
}

// hasUnknown looks in a message and in those that it holds; an envelope has no lists.
func hasUnknown(m protoreflect.Message) bool {
	found := len(m.GetUnknown()) > 0
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		found = found || field.Message() != nil && hasUnknown(v.Message())
		return !found
	})
	return found
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

func (f *writeLinesFn) ProcessElement(_ int, next func(*string) bool) error {
	return writeSorted(f.Path, next, func(w *bufio.Writer, line string) { fmt.Fprintln(w, line) })
}

// writeDelimited writes a PCollection<[]byte> to one file, sorted, each after its
// length as a varint.
func writeDelimited(s beam.Scope, dir, name string, messages beam.PCollection) {
	s = s.Scope("Write " + name)
	beam.ParDo0(s, &writeDelimitedFn{Path: filepath.Join(dir, name)}, beam.GroupByKey(s, beam.AddFixedKey(s, messages)))
}

type writeDelimitedFn struct{ Path string }

func (f *writeDelimitedFn) ProcessElement(_ int, next func(*[]byte) bool) error {
	nextString := func(out *string) bool {
		var b []byte
		ok := next(&b)
		*out = string(b)
		return ok
	}
	return writeSorted(f.Path, nextString, func(w *bufio.Writer, message string) {
		fmt.Fprintf(w, "%s%s", binary.AppendUvarint(nil, uint64(len(message))), message)
	})
}

// writeSorted replaces a file at once, so that a retried bundle leaves a whole one.
func writeSorted(path string, next func(*string) bool, write func(*bufio.Writer, string)) (err error) {
	var all []string
	for item := ""; next(&item); {
		all = append(all, item)
	}
	slices.Sort(all)
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	w := bufio.NewWriter(file)
	for _, item := range all {
		write(w, item)
	}
	if err := errors.Join(w.Flush(), file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
