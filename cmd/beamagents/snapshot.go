package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/messagejson"
	"github.com/beamagents/beamagents-go/internal/terminaltext"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// maxShownBytes bounds what the text form shows of a value, in bytes.
const maxShownBytes = 1 << 10

func newSnapshot() *cobra.Command {
	return group(&cobra.Command{Use: "snapshot", Short: "Read exported state"}, newSnapshotShow())
}

func newSnapshotShow() *cobra.Command {
	var delimited, keepGoing bool
	var output string
	cmd := &cobra.Command{
		Use:   "show [--delimited] [--output text|json] [FILE]",
		Short: "Print the exported state of keys",
		Long: `Print the exported state of keys. The input is one encoded StateSnapshot, or with
--delimited any number of them, or one on each line in JSON, as the file snapshots.jsonl
of transforms.WriteFolder has them and as --output json prints them.

Text is for people: a value that is JSON or text is shown as such, others in base64, and
at most 1,024 bytes of each; a time is milliseconds and the date in UTC. JSON has all of
a snapshot, one object on each line, with JSON in a value shown as what it is.`,
		Example: `  $ beamagents snapshot show --output json golden/v1/state_snapshot_idle.binpb
  {"state_schema_version":1,"key":"entity-1","seq":"8","snapshot_at_ms":"1700000000500"}`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var show func(b []byte, m *pb.StateSnapshot) []byte
			switch output {
			case "text":
				show = appendSnapshots()
			case "json":
				show = func(b []byte, m *pb.StateSnapshot) []byte {
					return append(messagejson.AppendReadable(b, m.ProtoReflect()), '\n')
				}
			default:
				return fmt.Errorf("--output %q is not valid: use text or json", output)
			}
			return convert(cmd, args, keepGoing, func(c *conversion, in io.Reader) error {
				var buf []byte
				return eachSnapshot(c, in, delimited, func(m *pb.StateSnapshot) error {
					buf = show(buf[:0], m)
					_, err := c.out.Write(buf)
					return err
				})
			})
		},
	}
	addConversionFlags(cmd, &delimited, &keepGoing)
	cmd.Flags().StringVar(&output, "output", "text", "text for people, or json for a pipe")
	return cmd
}

// eachSnapshot calls f for each snapshot of the input, which may be empty.
func eachSnapshot(c *conversion, in io.Reader, delimited bool, f func(*pb.StateSnapshot) error) error {
	r := bufio.NewReaderSize(in, 1<<16)
	switch _, err := r.Peek(1); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	fromJSON := func(text []byte) (*pb.StateSnapshot, error) {
		m := new(pb.StateSnapshot)
		return m, messagejson.ReadReadable(text, m.ProtoReflect())
	}
	return eachMessage(c, r, delimited, fromJSON, func(frame []byte) (m *pb.StateSnapshot, offset int, fault string) {
		m = new(pb.StateSnapshot)
		if proto.Unmarshal(frame, m) != nil {
			offset, fault = deadletter.Locate(frame, m)
		}
		return m, offset, fault
	}, f)
}

// appendSnapshots returns a function that appends snapshots as text, with empty lines between
// them.
func appendSnapshots() func(b []byte, m *pb.StateSnapshot) []byte {
	some := false
	return func(b []byte, m *pb.StateSnapshot) []byte {
		if some {
			b = append(b, '\n')
		}
		some = true
		return appendSnapshot(b, m)
	}
}

func appendSnapshot(b []byte, m *pb.StateSnapshot) []byte {
	b = fmt.Appendf(b, "key           %q\n", m.GetEntityKey())
	if m.GetRequestId() != "" {
		b = fmt.Appendf(b, "request       %q\n", m.GetRequestId())
	}
	b = fmt.Appendf(b, "exported at   %s\n", moment(m.GetSnapshotAtMs()))
	b = fmt.Appendf(b, "next seq      %d\n", m.GetSeq())
	b = appendMemory(b, m.GetMemory())
	b = appendReplayCache(b, m.GetLlmCache())
	b = appendSuspension(b, m.GetContinuation())
	b = appendPending(b, m.GetPending())
	if n := len(m.ProtoReflect().GetUnknown()); n > 0 {
		b = fmt.Appendf(b, "newer schema  %s; --output json shows them\n", count(n, "byte"))
	}
	return b
}

func appendMemory(b []byte, m *pb.MemoryBlob) []byte {
	if m == nil {
		return append(b, "memory        empty\n"...)
	}
	size := 0
	for _, e := range m.GetEntries() {
		size += len(e.GetValue())
	}
	b = fmt.Appendf(b, "memory        %s, stored at schema version %d, the least recently used first\n", entries(len(m.GetEntries()), size), max(m.GetStateSchemaVersion(), 1))
	for _, e := range m.GetEntries() {
		b = fmt.Appendf(b, "  %q\n", e.GetKey())
		b = fmt.Appendf(b, "    value     %s\n", shown(e.GetValue()))
		b = fmt.Appendf(b, "    used at   %s\n", moment(e.GetLastAccessMs()))
	}
	return b
}

func appendReplayCache(b []byte, m *pb.LlmCacheBlob) []byte {
	if m == nil {
		return append(b, "replay cache  empty\n"...)
	}
	size := 0
	for _, e := range m.GetEntries() {
		size += len(e.GetResponse())
	}
	b = fmt.Appendf(b, "replay cache  %s, stored at schema version %d, the least recently used first\n", entries(len(m.GetEntries()), size), max(m.GetStateSchemaVersion(), 1))
	for _, e := range m.GetEntries() {
		b = fmt.Appendf(b, "  %s\n", terminaltext.Line(e.GetCacheKey()))
		if e.GetDigestOnly() {
			b = fmt.Appendf(b, "    response  not kept, sha256 %s\n", hex.EncodeToString(e.GetResponseDigest()))
		} else {
			b = fmt.Appendf(b, "    response  %s\n", shown(e.GetResponse()))
		}
		b = fmt.Appendf(b, "    made at   %s\n", moment(e.GetCreatedAtMs()))
		b = fmt.Appendf(b, "    used at   %s\n", moment(e.GetLastAccessMs()))
	}
	return b
}

func appendSuspension(b []byte, m *pb.Continuation) []byte {
	if m == nil {
		return append(b, "suspension    none\n"...)
	}
	b = fmt.Appendf(b, "suspension    of agent %q at seq %d, step %d, stored at schema version %d\n", m.GetAdapter(), m.GetSeq(), m.GetStepIndex(), max(m.GetStateSchemaVersion(), 1))
	b = fmt.Appendf(b, "  snapshot    %s\n", shown(m.GetSnapshot()))
	b = fmt.Appendf(b, "  since       %s\n", moment(m.GetSuspendedAtMs()))
	b = fmt.Appendf(b, "  deadline    %s\n", moment(m.GetDeadlineMs()))
	b = fmt.Appendf(b, "  escalated   %s\n", count(int(m.GetEscalations()), "time"))
	for _, id := range m.GetPendingIntentIds() {
		b = fmt.Appendf(b, "  waits for   %s\n", terminaltext.Line(id))
	}
	return b
}

func appendPending(b []byte, pending []*pb.ToolIntent) []byte {
	if len(pending) == 0 {
		return append(b, "pending       none\n"...)
	}
	b = fmt.Appendf(b, "pending       %s\n", count(len(pending), "intent"))
	for _, in := range pending {
		b = fmt.Appendf(b, "  %s\n", terminaltext.Line(in.GetIntentId()))
		b = fmt.Appendf(b, "    %-8s  %q at seq %d, step %d\n", kindName(in.GetKind()), in.GetToolName(), in.GetSeq(), in.GetStepIndex())
		b = fmt.Appendf(b, "    args      %s\n", shown([]byte(in.GetArgsJson())))
		b = fmt.Appendf(b, "    made at   %s\n", moment(in.GetCreatedAtMs()))
		b = fmt.Appendf(b, "    expires   %s\n", moment(in.GetExpiresAtMs()))
	}
	return b
}

func kindName(kind pb.ToolIntent_Kind) string {
	switch kind {
	case pb.ToolIntent_TOOL_KIND_UNSPECIFIED, pb.ToolIntent_TOOL:
		return "tool"
	case pb.ToolIntent_APPROVAL:
		return "approval"
	default:
		return fmt.Sprintf("kind %d", kind)
	}
}

func count(n int, noun string) string { return fmt.Sprintf("%d %s", n, plural(n, noun)) }

func entries(n, size int) string {
	if n == 1 {
		return "1 entry of " + count(size, "byte")
	}
	return fmt.Sprintf("%d entries of %s", n, count(size, "byte"))
}

// moment formats a time in ms with its date, if it is within the years that people write.
func moment(ms int64) string {
	const last = 253402300799999 // the end of the year 9999
	if ms < 0 || ms > last {
		return strconv.FormatInt(ms, 10)
	}
	return fmt.Sprintf("%d (%s)", ms, time.UnixMilli(ms).UTC().Format(time.RFC3339Nano))
}

// isText reports whether b is UTF-8 with only printable characters and white space.
func isText(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool { return !strconv.IsPrint(r) && !unicode.IsSpace(r) })
}

// shown formats a value with its size: as JSON or text if it is that, and otherwise in base64.
func shown(value []byte) string {
	size := count(len(value), "byte")
	if len(value) == 0 {
		return size
	}
	var kind, text string
	switch compact := jsontext.Value(bytes.Clone(value)); {
	case compact.IsValid() && compact.Compact() == nil:
		kind, text = "JSON", terminaltext.Line(string(compact))
	case isText(value):
		kind, text = "text", strconv.Quote(string(value))
	default:
		kind, text = "base64", base64.StdEncoding.EncodeToString(value)
	}
	if len(text) > maxShownBytes {
		end := maxShownBytes
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + " ... (cut: --output json shows all)"
	}
	return fmt.Sprintf("%s, %s %s", size, kind, text)
}
