package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/messagejson"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const (
	// maxTraceBytes bounds the events that trace tree holds, 128 MiB. An event counts with its
	// encoding and eventOverheadBytes.
	maxTraceBytes      = 128 << 20
	eventOverheadBytes = 128
)

func newTrace() *cobra.Command {
	return group(&cobra.Command{Use: "trace", Short: "Read the traces of activations"}, newTraceTree())
}

func newTraceTree() *cobra.Command {
	var keepGoing bool
	var output string
	var ids []string
	cmd := &cobra.Command{
		Use:   "tree [--trace-id ID]... [--output text|json] [FILE]...",
		Short: "Print traces as trees of spans with their durations",
		Long: `Print traces as trees of spans with their durations. Each FILE holds any number of
TraceEvents, each behind its length as a varint, or one on each line in JSON, as the file
traces.jsonl of transforms.WriteFolder has them. The files may be parts of the same traces.

A line is a span: its name, when it began after the first span of its trace, how long it
took ("-" where nothing was measured), and what is known of it. An event that a retried
bundle has repeated, with the same trace id, span id and type, is shown once. A span whose
parent is not in the input is an orphan, and stands where a trace begins. JSON has one
object on each line for each span, in the order of the tree.

The events may take 128 MiB, counted with 128 bytes for each beside its encoding. For
more, name the traces with --trace-id. Nothing is printed if a message is bad, or with
--keep-going the trees of all others.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var write func(*bufio.Writer, *traceTree) error
			switch output {
			case "text":
				write = textTrees()
			case "json":
				write = writeJSONTree
			default:
				return fmt.Errorf("--output %q is not valid: use text or json", output)
			}
			set, err := newTraceSet(ids)
			if err != nil {
				return err
			}
			c := &conversion{cmd: cmd, out: bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16), keepGoing: keepGoing}
			if err := readTraces(c, args, set); err != nil {
				return err
			}
			for tree, err := range set.trees() {
				if err != nil {
					return err
				}
				if err := write(c.out, tree); err != nil {
					return err
				}
			}
			err = set.missing()
			if err == nil && c.bad {
				err = &dataError{} // each fault is reported already
			}
			return flush(c.out, err)
		},
	}
	cmd.Flags().StringArrayVar(&ids, "trace-id", nil, "only the trace of this id, in hex; may be repeated")
	cmd.Flags().BoolVar(&keepGoing, "keep-going", false, "report a bad message and do the rest; the exit status is still 1")
	cmd.Flags().StringVar(&output, "output", "text", "text for people, or json for a pipe")
	return cmd
}

// readTraces adds the events of all inputs to set. It reports if all inputs are empty.
func readTraces(c *conversion, names []string, set *traceSet) error {
	if len(names) == 0 {
		names = []string{"-"}
	}
	some := false
	for _, name := range names {
		in, err := openInput(c.cmd, []string{name})
		if err != nil {
			return err
		}
		if len(names) > 1 {
			c.name = name
		}
		if err := errors.Join(eachTraceEvent(c, in, set.add), in.Close()); err != nil {
			return err
		}
		some = some || in.some
	}
	if !some {
		return noteEmptyInput(c.cmd)
	}
	return nil
}

// jsonBegins matches the beginning of a JSON object. A delimited event could begin like this only
// if it had 123 bytes, no ids, and an entity key that holds the rest of the match.
var jsonBegins = regexp.MustCompile(`^\{[ \t]*(\}|"[@\w]+"[ \t]*:)`)

// eachTraceEvent calls f for each event of the input.
func eachTraceEvent(c *conversion, in io.Reader, f func(*pb.TraceEvent) error) error {
	r := bufio.NewReaderSize(in, 1<<16)
	first, err := r.Peek(64)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if jsonBegins.Match(first) {
		return eachTraceLine(c, r, f)
	}
	var failed error // an error of this function, not of the framing
	err = eachFrame(r, true, func(p place, frame []byte) error {
		m := new(pb.TraceEvent)
		if proto.Unmarshal(frame, m) != nil {
			offset, fault := deadletter.Locate(frame, m)
			failed = c.fault("%s: %s", p.at(offset), fault)
		} else {
			failed = f(m)
		}
		return failed
	})
	if bad, ok := errors.AsType[*dataError](err); ok && failed == nil {
		return c.fault("%w", bad.err)
	}
	return err
}

func eachTraceLine(c *conversion, r *bufio.Reader, f func(*pb.TraceEvent) error) error {
	lines := lineReader{r: r}
	for number := 1; ; number++ {
		line, err := lines.next()
		line = strings.TrimRight(line, " \t\r")
		m := new(pb.TraceEvent)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, errLongLine):
			return err
		case err == nil && line == "":
			continue
		case err == nil:
			err = messagejson.ReadReadable([]byte(line), m.ProtoReflect())
		}
		if err != nil {
			err = c.fault("line %d: %w", number, err)
		} else {
			err = f(m)
		}
		if err != nil {
			return err
		}
	}
}

// traceSet holds the events of traces, each event once.
type traceSet struct {
	only   []string // the ids of the traces to keep; empty for all
	traces map[string]*traceEvents
	size   int
	limit  int
}

// traceEvents holds the encoded events of a trace.
type traceEvents struct {
	events     map[eventID]string
	loose      []string // events without a trace id or a span id, which cannot be duplicates
	startMS    int64    // the earliest start
	duplicates int
}

// eventID identifies an event within a trace.
type eventID struct {
	span      string
	eventType pb.TraceEvent_EventType
}

func newTraceSet(ids []string) (*traceSet, error) {
	s := &traceSet{traces: map[string]*traceEvents{}, limit: maxTraceBytes}
	for _, id := range ids {
		b, err := hex.DecodeString(id)
		if err != nil || len(b) != 16 {
			return nil, fmt.Errorf("--trace-id %q is not valid: use 32 digits in hex", id)
		}
		s.only = append(s.only, string(b))
	}
	return s, nil
}

// add adds an event if its trace was asked for. Of several events with one id it keeps the one
// whose encoding sorts first, so that the order of the input does not matter.
func (s *traceSet) add(m *pb.TraceEvent) error {
	id := string(m.GetTraceId())
	if len(s.only) > 0 && !slices.Contains(s.only, id) {
		return nil
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a TraceEvent: %w", err)
	}
	t := s.traces[id]
	if t == nil {
		t = &traceEvents{events: map[eventID]string{}, startMS: math.MaxInt64}
		s.traces[id] = t
	}
	t.startMS = min(t.startMS, m.GetStartMs())
	key := eventID{string(m.GetSpanId()), m.GetEventType()}
	old, again := t.events[key]
	switch {
	case id == "" || key.span == "":
		t.loose = append(t.loose, string(encoded))
	case again:
		t.duplicates++
		s.size -= len(old) + eventOverheadBytes
		encoded = []byte(min(string(encoded), old))
		t.events[key] = string(encoded)
	default:
		t.events[key] = string(encoded)
	}
	if s.size += len(encoded) + eventOverheadBytes; s.size > s.limit {
		return &dataError{fmt.Errorf("the events take more than %d bytes: name traces with --trace-id", s.limit)}
	}
	return nil
}

// missing returns an error if a trace that was asked for has no events.
func (s *traceSet) missing() error {
	for _, id := range s.only {
		if s.traces[id] == nil {
			return &dataError{fmt.Errorf("there is no event of trace %x", id)}
		}
	}
	return nil
}
