package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const (
	formatJSONL     = "jsonl"
	formatDelimited = "delimited"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*readFn]())
	register.Emitter2[beam.EventTime, []byte]()
	register.Emitter2[beam.EventTime, *pb.ActivationErrorRecord]()
}

// readEnvelopes reads the encoded envelopes of a file, and as dead letters what has
// not even the form of one.
func readEnvelopes(s beam.Scope, path, format string) (raw, unframed beam.PCollection) {
	s = s.Scope("ReadEnvelopes")
	return beam.ParDo2(s, &readFn{Path: path, Format: format}, beam.Impulse(s))
}

// readFn reads on a worker, so that the file is not part of the pipeline.
type readFn struct {
	Path, Format string
}

// malformed counts as the transforms do, for what fails before them.
var malformed = beam.NewCounter(transforms.MetricsNamespace, "errors_"+string(deadletter.MalformedEnvelope))

func (f *readFn) ProcessElement(
	ctx context.Context, _ []byte, emit func(beam.EventTime, []byte), errs func(beam.EventTime, *pb.ActivationErrorRecord),
) error {
	file, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened to read
	bury := func(input []byte, text string) error {
		rec, err := deadletter.Letter{
			Reason: deadletter.MalformedEnvelope, Code: deadletter.Unparsable, Error: text,
			InputKind: deadletter.BytesInput, Input: input,
		}.Record()
		if err != nil {
			return err
		}
		malformed.Inc(ctx, 1)
		errs(mtime.MinTimestamp, rec)
		return nil
	}
	// A file's bytes have no time of their own, and the legacy direct runner would stamp
	// them with the clock.
	emitTimeless := func(raw []byte) { emit(mtime.MinTimestamp, raw) }
	if f.Format == formatJSONL {
		return readJSONL(bufio.NewReader(file), emitTimeless, bury)
	}
	return readDelimited(bufio.NewReader(file), emitTimeless, bury)
}

// readJSONL reads envelopes in protobuf JSON, one a line. Blank lines are no lines.
func readJSONL(r *bufio.Reader, emit func([]byte), bury func(input []byte, text string) error) error {
	for number, last := 1, false; !last; number++ {
		line, err := r.ReadBytes('\n')
		if last = errors.Is(err, io.EOF); err != nil && !last {
			return err
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // a byte order mark
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) > 0 {
			raw, text := encodeLine(line)
			if text != "" {
				if err := bury(line, fmt.Sprintf("line %d %s", number, text)); err != nil {
					return err
				}
			} else {
				emit(raw)
			}
		}
	}
	return nil
}

// encodeLine returns the bytes of an envelope in JSON, or says why there are none.
func encodeLine(line []byte) (raw []byte, text string) {
	env := new(pb.AgentEnvelope)
	if protojson.Unmarshal(line, env) != nil { // whose words differ from binary to binary
		if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(line, new(any))); ok {
			return nil, fmt.Sprintf("is not JSON: %s at byte %d", syntax, syntax.Offset)
		}
		return nil, "is JSON, but not an AgentEnvelope"
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(env)
	if err != nil {
		return nil, "has text that is not UTF-8"
	}
	return raw, ""
}

// readDelimited reads a varint length and as many bytes, again and again. Where a
// length is broken or too large there is no way to find the next one: what is left of
// the file is one dead letter.
func readDelimited(r *bufio.Reader, emit func([]byte), bury func(input []byte, text string) error) error {
	for number := 1; ; number++ {
		if _, err := r.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		var prefix bytes.Buffer
		length, err := binary.ReadUvarint(byteTee{r, &prefix})
		// Read up to length, not into a buffer of that size: the length may be a lie.
		var body bytes.Buffer
		if err == nil {
			_, err = io.CopyN(&body, r, int64(min(length, 1<<62)))
		}
		if err == nil {
			emit(body.Bytes())
			continue
		}
		rest, readErr := io.ReadAll(io.MultiReader(&prefix, &body, r))
		if readErr != nil {
			return readErr
		}
		text := fmt.Sprintf("message %d is cut short, or its length is not one: %d bytes are left of the file", number, len(rest))
		return bury(rest, text)
	}
}

// byteTee keeps the bytes that were read.
type byteTee struct {
	r    *bufio.Reader
	kept *bytes.Buffer
}

func (t byteTee) ReadByte() (byte, error) {
	b, err := t.r.ReadByte()
	if err == nil {
		t.kept.WriteByte(b)
	}
	return b, err
}
