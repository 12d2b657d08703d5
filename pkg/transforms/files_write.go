package transforms

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/messagejson"
	"github.com/beamagents/beamagents-go/pkg/canonjson"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsFileNamesFn).ProcessElement, func(f *beamagentsFileNamesFn, a []any) []any {
		f.ProcessElement(a[0].([]byte), a[1].(func(string, []byte)))
		return nil
	})
	registerDoFn((*beamagentsFileRecordFn).ProcessElement, func(f *beamagentsFileRecordFn, a []any) []any {
		name, record, err := f.ProcessElement(a[0].(beam.EventTime), a[1])
		return []any{name, record, err}
	})
	registerDoFn((*beamagentsFilePairFn).ProcessElement, func(f *beamagentsFilePairFn, a []any) []any {
		name, record, err := f.ProcessElement(a[0].(beam.EventTime), a[1], a[2])
		return []any{name, record, err}
	})
	registerDoFn((*beamagentsWriteFileFn).ProcessElement, func(f *beamagentsWriteFileFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(string), a[2].(func(*[]byte) bool)))
	})
	register.Emitter2[string, []byte]()
	register.Iter1[[]byte]()
}

// WriteFolder writes each PCollection to one file in a folder. The keys of files are the names.
// It is meant for outputs that a person reads or a test compares: one worker writes one file. The
// input must be bounded. WriteFolder creates a folder that is missing. It replaces a file of an
// earlier run, also if the PCollection is empty.
//
// The ending of a name says what is written. Any other name panics while the pipeline is built.
//
//   - .jsonl takes any PCollection, and writes each element as one line of JSON. A message is
//     written in protobuf JSON with the field names of its schema. A message of package
//     beamagentspb is written so that a person can read it and ReadEnvelopes can read the same
//     envelopes back: an entity key that is text is the member key; bytes that hold a JSON
//     object or array are shown as that JSON, and so are the arguments of an intent and the
//     detail of a dead letter; fields of a newer schema are the member @unknown. Bytes and
//     strings are written as the JSON that they hold, else as a JSON string, else as
//     {"base64":"..."}. A KV is {"key":...,"value":...}. Other types are written as
//     encoding/json does.
//   - .txt takes strings and []byte, and writes each with a line feed after it.
//   - .binpb takes []byte and messages, alone or as values of KVs, whose keys are not written.
//     It writes each after its length as a varint.
//
// The elements of a file are ordered by event time, and elements with the same time by their
// bytes. So two runs with the same elements write the same file. A worker sorts with about 32 MiB
// of memory, and uses the disk of os.TempDir beyond that.
//
// The folder may be on any file system of Beam's package io/filesystem whose package is imported.
// A name without a scheme is local to the worker. A local file has the mode that the umask
// allows. It is first written with .part at the end of its name and then renamed, so a file
// without .part is complete.
func WriteFolder(s beam.Scope, dir string, files map[string]beam.PCollection) {
	names := slices.Sorted(maps.Keys(files))
	if err := validateFolder(dir, names, files); err != nil {
		panic(fmt.Errorf("transforms.WriteFolder: %w", err))
	}
	filesystem.ValidateScheme(dir)
	s = s.Scope("WriteFolder")
	records := []beam.PCollection{beam.ParDo(s, &beamagentsFileNamesFn{Names: names}, beam.Impulse(s))}
	for _, name := range names {
		col := files[name]
		if col.WindowingStrategy().Fn.Kind != window.GlobalWindows {
			col = beam.WindowInto(s, window.NewGlobalWindows(), col) // a file holds the elements of all windows
		}
		var fn any = &beamagentsFileRecordFn{Name: name}
		if typex.IsKV(col.Type()) {
			fn = &beamagentsFilePairFn{Name: name}
		}
		records = append(records, beam.ParDo(s, fn, col))
	}
	beam.ParDo0(s, &beamagentsWriteFileFn{Dir: dir}, beam.GroupByKey(s, beam.Flatten(s, records...)))
}

var (
	bytesType   = reflect.TypeFor[[]byte]()
	messageType = reflect.TypeFor[proto.Message]()
)

// The formats of a file, by the ending of its name.
const (
	jsonlFile = ".jsonl"
	textFile  = ".txt"
	binpbFile = ".binpb"
)

func validateFolder(dir string, names []string, files map[string]beam.PCollection) error {
	if strings.TrimSpace(dir) == "" {
		return errors.New("the folder has no name: set dir")
	}
	if len(names) == 0 {
		return errors.New("there is no file: name at least one")
	}
	for _, name := range names {
		if strings.ContainsAny(name, `/\`) || path.Ext(name) == name {
			return fmt.Errorf("%q is not the name of a file: use one such as events.jsonl, without a folder", name)
		}
		col := files[name]
		if !col.IsValid() {
			return fmt.Errorf("%s has no PCollection: set one", name)
		}
		t := col.Type()
		kv := typex.IsKV(t)
		value := t
		if kv {
			value = t.Components()[1]
		}
		binary := value.Type() == bytesType || value.Type().Implements(messageType)
		switch format := path.Ext(name); {
		case format != jsonlFile && format != textFile && format != binpbFile:
			return fmt.Errorf("the name %q does not say what to write: end it in %s, %s or %s", name, jsonlFile, textFile, binpbFile)
		case typex.IsCoGBK(t):
			return fmt.Errorf("%s does not take a PCollection<%v>: map its groups to single elements", name, t)
		case format == textFile && (kv || value.Type() != bytesType && value.Type().Kind() != reflect.String):
			return fmt.Errorf("%s takes strings and []byte, and the PCollection has %v: name it %s, or map its elements",
				name, t, strings.TrimSuffix(name, textFile)+jsonlFile)
		case format == binpbFile && !binary:
			return fmt.Errorf("%s takes []byte and messages, alone or as values of KVs, and the PCollection has %v: name it %s, or map its elements",
				name, t, strings.TrimSuffix(name, binpbFile)+jsonlFile)
		}
	}
	return nil
}

// beamagentsFileNamesFn emits an empty record for each file, so that a file without elements is
// written, too.
type beamagentsFileNamesFn struct{ Names []string }

func (f *beamagentsFileNamesFn) ProcessElement(_ []byte, emit func(string, []byte)) {
	for _, name := range f.Names {
		emit(name, nil)
	}
}

// beamagentsFileRecordFn makes a record of an element: the event time in eight bytes that sort
// like the times, and then the bytes for the file.
type beamagentsFileRecordFn struct{ Name string }

func (f *beamagentsFileRecordFn) ProcessElement(ts beam.EventTime, v beam.T) (name string, record []byte, err error) {
	record = appendTime(nil, ts)
	switch path.Ext(f.Name) {
	case jsonlFile:
		record, err = appendLine(record, v)
	case textFile:
		if b, ok := v.([]byte); ok {
			record = append(record, b...)
		} else {
			record = append(record, reflect.ValueOf(v).String()...)
		}
	default:
		record, err = appendDelimited(record, v)
		return f.Name, record, err
	}
	return f.Name, append(record, '\n'), err
}

// beamagentsFilePairFn does for KVs what beamagentsFileRecordFn does for elements.
type beamagentsFilePairFn struct{ Name string }

func (f *beamagentsFilePairFn) ProcessElement(ts beam.EventTime, k beam.X, v beam.Y) (name string, record []byte, err error) {
	record = appendTime(nil, ts)
	if path.Ext(f.Name) == binpbFile {
		record, err = appendDelimited(record, v)
		return f.Name, record, err
	}
	record = append(record, `{"key":`...)
	switch k := k.(type) {
	case []byte:
		record = appendText(record, k)
	case string:
		record = appendText(record, []byte(k))
	default:
		if record, err = appendLine(record, k); err != nil {
			return "", nil, err
		}
	}
	if record, err = appendLine(append(record, `,"value":`...), v); err != nil {
		return "", nil, err
	}
	return f.Name, append(record, "}\n"...), nil
}

const timeBytes = 8

func appendTime(b []byte, ts beam.EventTime) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(ts)^1<<63) // flips the sign bit, so that negative times sort first
}

// appendLine appends an element as one line of JSON.
func appendLine(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return appendHeld(b, v), nil
	case string:
		return appendHeld(b, []byte(v)), nil
	case proto.Message:
		m := v.ProtoReflect()
		if m.Descriptor().ParentFile().Path() == pb.File_beam_agents_v1_beam_agents_proto.Path() {
			return messagejson.AppendReadable(b, m), nil
		}
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(v)
		if err != nil {
			return b, err
		}
		return canonjson.Canonicalize(b, text) // the spacing of protojson differs from binary to binary
	}
	text, err := json.Marshal(v)
	if err != nil {
		return b, err
	}
	return canonjson.Canonicalize(b, text)
}

// appendHeld appends bytes that hold JSON as that JSON, and other bytes as appendText does.
func appendHeld(b, held []byte) []byte {
	canonical, err := canonjson.Canonicalize(nil, held)
	switch {
	case err != nil:
		return appendText(b, held)
	case bytes.ContainsAny(held, "\r\n"):
		return append(b, canonical...)
	}
	return append(b, bytes.TrimSpace(held)...)
}

// appendText appends bytes as a JSON string, or as {"base64":"..."} if they are not text.
func appendText(b, text []byte) []byte {
	if !utf8.Valid(text) {
		b = append(b, `{"base64":"`...)
		return append(base64.StdEncoding.AppendEncode(b, text), `"}`...)
	}
	b, _ = canonjson.AppendString(b, string(text)) // fails only on text that is not UTF-8
	return b
}

// appendDelimited appends bytes, or the encoding of a message, after their length.
func appendDelimited(b []byte, v any) ([]byte, error) {
	message, ok := v.([]byte)
	if !ok {
		var err error
		if message, err = (proto.MarshalOptions{Deterministic: true}).Marshal(v.(proto.Message)); err != nil {
			return b, err
		}
	}
	return append(binary.AppendUvarint(b, uint64(len(message))), message...), nil
}

// beamagentsWriteFileFn writes the records of one file.
type beamagentsWriteFileFn struct{ Dir string }

func (f *beamagentsWriteFileFn) ProcessElement(ctx context.Context, name string, records func(*[]byte) bool) error {
	sorter := &recordSorter{limit: sortBytes}
	err := f.sort(sorter, records)
	if err == nil {
		err = writeFile(ctx, strings.TrimSuffix(f.Dir, "/")+"/"+name, sorter)
	}
	if err = errors.Join(err, sorter.close()); err != nil {
		return fmt.Errorf("transforms.WriteFolder: write %s: %w", name, err)
	}
	return nil
}

func (*beamagentsWriteFileFn) sort(sorter *recordSorter, records func(*[]byte) bool) error {
	for record := []byte(nil); records(&record); {
		if len(record) == 0 {
			continue // the record of beamagentsFileNamesFn
		}
		if err := sorter.add(record); err != nil {
			return err
		}
	}
	return nil
}

// writeFile replaces a file atomically if the file system can rename. Other file systems, such as
// object stores, show a file when it is closed.
func writeFile(ctx context.Context, name string, sorted *recordSorter) (err error) {
	fs, err := filesystem.New(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fs.Close()) }()
	renamer, renames := fs.(filesystem.Renamer)
	target := name
	if renames {
		target += ".part"
	}
	file, err := fs.OpenWrite(ctx, target)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, 64<<10)
	err = sorted.each(func(record []byte) error {
		_, err := w.Write(record[timeBytes:])
		return err
	})
	if err := errors.Join(err, w.Flush(), file.Close()); err != nil {
		return err
	}
	if renames {
		return renamer.Rename(ctx, target, name)
	}
	return nil
}
