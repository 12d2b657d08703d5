package transforms

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local" // registers the file system for names without a scheme
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/messagejson"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsMatchFilesFn).ProcessElement, func(f *beamagentsMatchFilesFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].([]byte), a[2].(func(string, []byte))))
	})
	registerDoFn((*beamagentsReadEnvelopesFn).ProcessElement, func(f *beamagentsReadEnvelopesFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(string), a[2].(func(*[]byte) bool),
			a[3].(func(beam.EventTime, *pb.AgentEnvelope)), a[4].(func(beam.EventTime, *pb.ActivationErrorRecord))))
	})
	register.Emitter2[string, []byte]()
	register.Iter1[[]byte]()
	register.Emitter2[beam.EventTime, *pb.ActivationErrorRecord]()
}

// ReadParams are the options of [ReadEnvelopes].
type ReadParams struct {
	// MaxEnvelopeBytes bounds the encoding of one envelope, in bytes; 0 is DefaultMaxBytes. A
	// line of JSON may have twice as many. A longer envelope or line becomes several dead
	// letters, each with a part of about this length, so that the memory of a worker does not
	// depend on the content of a file.
	MaxEnvelopeBytes int
}

func (p ReadParams) validate() error {
	return validateMaxBytes("ReadParams.MaxEnvelopeBytes", p.MaxEnvelopeBytes)
}

// ReadEnvelopes reads the AgentEnvelopes of all files that match a glob, such as "in/*.jsonl" or
// "gs://bucket/in/*.binpb". Like [ParseEnvelopes], it emits each envelope at its event time, and
// dead letters for what it cannot read. The error text of a dead letter names the file, and the
// line or the message in it.
//
// The name of a file says what it holds:
//
//   - .jsonl or .ndjson: one envelope a line, in protobuf JSON or in the form that
//     [WriteFolder] writes. Blank lines are skipped. In both forms, external_event and payload
//     can be a base64 string, or a JSON object or array that stands for its own text.
//   - .binpb or .pb: encoded envelopes, each after its length as a varint.
//   - any other name: lines of JSON if the first byte that is not white space is {, and encoded
//     envelopes otherwise.
//
// A dead letter has the reason malformed_envelope, a code of ParseEnvelopes, and event time 0.
// Its input is the line without its line end, or the encoded envelope. If the length of an
// encoded envelope is broken or cut short, the next envelope cannot be found. Then the rest of
// the file becomes dead letters whose inputs, joined, are its bytes.
//
// The file systems are those of Beam's package io/filesystem. A name without a scheme is a local
// file of the worker. For other file systems, import their package. Workers read different files
// at once; each file is read by one worker, from its beginning to its end. A file that cannot be
// read fails the bundle, and so does a glob that matches nothing.
func ReadEnvelopes(s beam.Scope, params ReadParams, glob string) Parsed {
	err := params.validate()
	if strings.TrimSpace(glob) == "" {
		err = errors.New("the glob is empty: name the files, such as in/*.jsonl")
	}
	if err != nil {
		panic(fmt.Errorf("transforms.ReadEnvelopes: %w", err))
	}
	filesystem.ValidateScheme(glob)
	s = s.Scope("ReadEnvelopes")
	// Group the names, so that any worker may read a file. Beam's Reshuffle would do the same,
	// but its steps are named after their number in the pipeline, so every new step before them
	// renames them.
	files := beam.GroupByKey(s, beam.ParDo(s, &beamagentsMatchFilesFn{Glob: glob}, beam.Impulse(s)))
	envelopes, errs := beam.ParDo2(s, &beamagentsReadEnvelopesFn{
		MaxEnvelopeBytes: cmp.Or(params.MaxEnvelopeBytes, DefaultMaxBytes),
	}, files)
	return Parsed{Envelopes: envelopes, Errors: errs}
}

// beamagentsMatchFilesFn matches the glob on a worker, which sees the files.
type beamagentsMatchFilesFn struct{ Glob string }

func (f *beamagentsMatchFilesFn) ProcessElement(ctx context.Context, _ []byte, emit func(string, []byte)) (err error) {
	fs, err := filesystem.New(ctx, f.Glob)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fs.Close()) }()
	names, err := fs.List(ctx, f.Glob)
	if err != nil {
		return fmt.Errorf("transforms.ReadEnvelopes: list %s: %w", f.Glob, err)
	}
	if len(names) == 0 {
		return fmt.Errorf("transforms.ReadEnvelopes: no file matches %q; name at least one that this worker can see", f.Glob)
	}
	for _, name := range names {
		emit(name, nil)
	}
	return nil
}

type beamagentsReadEnvelopesFn struct {
	MaxEnvelopeBytes int
}

func (f *beamagentsReadEnvelopesFn) ProcessElement(
	ctx context.Context, name string, _ func(*[]byte) bool,
	emit func(beam.EventTime, *pb.AgentEnvelope), errs func(beam.EventTime, *pb.ActivationErrorRecord),
) (err error) {
	fs, err := filesystem.New(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fs.Close()) }()
	file, err := fs.OpenRead(ctx, name)
	if err != nil {
		return fmt.Errorf("transforms.ReadEnvelopes: %w", err)
	}
	defer func() { _ = file.Close() }() // the file is only read
	e := &envelopeFile{
		r: bufio.NewReaderSize(file, 64<<10), limit: f.MaxEnvelopeBytes,
		emit: func(env *pb.AgentEnvelope) {
			envelopesParsed.Inc(ctx, 1)
			emit(mtime.FromMilliseconds(env.GetEventTimeMs()), env)
		},
		deadLetter: func(code deadletter.Code, place, text string, key, input []byte) error {
			return emitLetter(ctx, deadletter.Letter{
				Reason: deadletter.MalformedEnvelope, Code: code, Error: printable(name) + ", " + place + ": " + text,
				EntityKey: key, InputKind: deadletter.BytesInput, Input: input,
			}, func(rec *pb.ActivationErrorRecord) {
				// The bytes of a file have no timestamp. Without this one, the legacy direct
				// runner would use the clock.
				errs(mtime.MinTimestamp, rec)
			})
		},
	}
	if err := e.read(path.Ext(name)); err != nil {
		return fmt.Errorf("transforms.ReadEnvelopes: read %s: %w", name, err)
	}
	return nil
}

// printable quotes a name with characters that would break the line.
func printable(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// envelopeFile reads one file.
type envelopeFile struct {
	r     *bufio.Reader
	limit int // the bound of an envelope, in bytes

	emit func(*pb.AgentEnvelope)
	// deadLetter emits a dead letter. place is where in the file it failed, and text why; key and
	// input are the key and the bytes of the envelope.
	deadLetter func(code deadletter.Code, place, text string, key, input []byte) error
}

func (e *envelopeFile) read(ext string) error {
	switch ext {
	case ".jsonl", ".ndjson":
		return e.readLines()
	case ".binpb", ".pb":
		return e.readDelimited()
	}
	start, err := e.r.Peek(e.r.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.HasPrefix(bytes.TrimSpace(bytes.TrimPrefix(start, byteOrderMark)), []byte("{")) {
		return e.readLines()
	}
	return e.readDelimited()
}

// usable emits an envelope, or a dead letter if there is a code.
func (e *envelopeFile) usable(env *pb.AgentEnvelope, code deadletter.Code, place, text string, input []byte) error {
	if code != "" {
		return e.deadLetter(code, place, text, env.GetEntityKey(), input)
	}
	e.emit(env)
	return nil
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// readLines reads one envelope in JSON from each line.
func (e *envelopeFile) readLines() error {
	for number, part, last := 1, 1, false; !last; {
		line, more, err := e.linePart()
		if last = errors.Is(err, io.EOF); err != nil && !last {
			return err
		}
		if number == 1 && part == 1 {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		if !more {
			line = bytes.TrimRight(line, "\r\n")
		}
		place := fmt.Sprintf("line %d", number)
		switch {
		case (more || part > 1) && len(line) > 0: // keep a blank part, too: it may be part of a string
			text := fmt.Sprintf("a line of more than %d bytes, the limit of an envelope is %d; part %d", 2*e.limit, e.limit, part)
			if err := e.deadLetter(deadletter.Oversize, place, text, nil, line); err != nil {
				return err
			}
		case len(bytes.TrimSpace(line)) == 0:
		default:
			env, code, text := parseLine(line, e.limit)
			if err := e.usable(env, code, place, text, line); err != nil {
				return err
			}
		}
		if more {
			part++
		} else {
			number, part = number+1, 1
		}
	}
	return nil
}

// linePart reads up to the end of a line, or up to the limit of a part; then more is true. The
// error is io.EOF at the end of the file.
func (e *envelopeFile) linePart() (part []byte, more bool, err error) {
	for {
		chunk, err := e.r.ReadSlice('\n')
		part = append(part, chunk...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return part, false, err
		}
		if len(part) > 2*e.limit {
			return part, true, nil
		}
	}
}

// parseLine does for JSON what [parseEnvelope] does for encoded envelopes.
func parseLine(line []byte, maxBytes int) (env *pb.AgentEnvelope, code deadletter.Code, text string) {
	env = new(pb.AgentEnvelope)
	if err := messagejson.ReadReadable(line, env.ProtoReflect()); err != nil {
		text = err.Error()
		if bad, ok := errors.AsType[*messagejson.Error](err); ok {
			text = fmt.Sprintf("%s, at byte %d", text, bad.Offset)
		}
		return nil, deadletter.Unparsable, text
	}
	if size := proto.Size(env); size > maxBytes {
		return env, deadletter.Oversize, fmt.Sprintf("%d bytes, the limit is %d", size, maxBytes)
	}
	code, text = unusable(env)
	return env, code, text
}

// readDelimited reads encoded envelopes, each after its length as a varint.
func (e *envelopeFile) readDelimited() error {
	var message bytes.Buffer
	for number, at := 1, int64(0); ; number++ {
		place := fmt.Sprintf("message %d at byte %d", number, at)
		prefix := byteRecorder{r: e.r}
		size, err := binary.ReadUvarint(&prefix)
		at += int64(len(prefix.read))
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return e.deadLetter(deadletter.Unparsable, place, "the length of the message is cut short", nil, prefix.read)
		case err != nil && len(prefix.read) == binary.MaxVarintLen64: // a varint that is too long; any other error is a failure to read the file
			_, err := e.parts(deadletter.Unparsable, place, "the length of the message is not a varint", prefix.read, math.MaxInt64)
			return err
		case err != nil:
			return err
		case size > uint64(e.limit):
			text := fmt.Sprintf("a message of %d bytes, the limit is %d", size, e.limit)
			n, err := e.parts(deadletter.Oversize, place, text, prefix.read, int64(min(size, math.MaxInt64)))
			if err != nil {
				return err
			}
			at += n
			continue
		}
		message.Reset()
		n, err := io.CopyN(&message, e.r, int64(size)) // allocates only for bytes that are there
		if errors.Is(err, io.EOF) {
			text := fmt.Sprintf("a message of %d bytes is cut short after %d", size, n)
			return e.deadLetter(deadletter.Unparsable, place, text, nil, append(prefix.read, message.Bytes()...))
		} else if err != nil {
			return err
		}
		at += n
		env, code, text := parseEnvelope(message.Bytes(), e.limit)
		if err := e.usable(env, code, place, text, message.Bytes()); err != nil {
			return err
		}
	}
}

// parts makes dead letters of head and of up to n bytes that follow it in the file. It returns
// how many bytes followed.
func (e *envelopeFile) parts(code deadletter.Code, place, text string, head []byte, n int64) (read int64, err error) {
	part := bytes.NewBuffer(head)
	for number := 1; ; number++ {
		m, err := io.CopyN(part, e.r, min(int64(e.limit), n-read))
		read += m
		last := read == n || errors.Is(err, io.EOF)
		if err != nil && !last {
			return read, err
		}
		if part.Len() > 0 {
			if err := e.deadLetter(code, place, fmt.Sprintf("%s; part %d", text, number), nil, part.Bytes()); err != nil {
				return read, err
			}
		}
		if last {
			return read, nil
		}
		part.Reset()
	}
}

// byteRecorder records the bytes that are read through it.
type byteRecorder struct {
	r    io.ByteReader
	read []byte
}

func (b *byteRecorder) ReadByte() (byte, error) {
	c, err := b.r.ReadByte()
	if err == nil {
		b.read = append(b.read, c)
	}
	return c, err
}
