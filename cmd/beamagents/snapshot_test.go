package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/messagejson"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func newer(m *pb.StateSnapshot) *pb.StateSnapshot {
	m.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x2a})
	return m
}

func TestSnapshotShowText(t *testing.T) {
	long := strings.Repeat("é", 600)
	for name, tc := range map[string]struct {
		m    *pb.StateSnapshot
		want string
	}{
		"a key without state": {
			&pb.StateSnapshot{StateSchemaVersion: 1, EntityKey: []byte("a\xff\x1b"), SnapshotAtMs: 1700000000500},
			`key           "a\xff\x1b"
exported at   1700000000500 (2023-11-14T22:13:20.5Z)
next seq      0
memory        empty
replay cache  empty
suspension    none
pending       none
`,
		},
		"all of it": {
			newer(&pb.StateSnapshot{
				StateSchemaVersion: 1, EntityKey: []byte("acme"), Seq: 8, SnapshotAtMs: 0, RequestId: "export\n1",
				Memory: &pb.MemoryBlob{TotalValueBytes: 99, Entries: []*pb.MemoryEntry{
					{Key: "order", Value: []byte("{\n \"cents\": 5 }"), LastAccessMs: 1},
					{Key: "number", Value: []byte("7"), LastAccessMs: -1},
					{Key: "name", Value: []byte("Mill\nStreet"), LastAccessMs: 253402300799999},
					{Key: "control", Value: []byte("a\x1b[2J"), LastAccessMs: 253402300800000},
					{Key: "bytes", Value: []byte{0xff}, LastAccessMs: math.MaxInt64},
					{Key: "\x1b", LastAccessMs: 2},
					{Key: "long", Value: []byte(long), LastAccessMs: 3},
				}},
				LlmCache: &pb.LlmCacheBlob{StateSchemaVersion: 2, Entries: []*pb.LlmCacheEntry{
					{CacheKey: "\x1bkey", ResponseDigest: []byte{0xab}, DigestOnly: true, CreatedAtMs: 4, LastAccessMs: 5},
				}},
				Continuation: &pb.Continuation{
					StateSchemaVersion: 1, Seq: 7, StepIndex: 2, PendingIntentIds: []string{"i-1"}, Adapter: "refunds", Snapshot: []byte(`"bidi ` + "\u202e" + `"`),
					SuspendedAtMs: 6, DeadlineMs: 7, Escalations: 1,
				},
				Pending: []*pb.ToolIntent{
					{IntentId: "i-1", Seq: 7, StepIndex: 1, ToolName: "refund", Kind: pb.ToolIntent_APPROVAL, ArgsJson: `{"cents":5}`, CreatedAtMs: 6, ExpiresAtMs: 8},
					{IntentId: "i-2", ToolName: "mail", ArgsJson: "no JSON"},
					{IntentId: "i-3", Kind: 99},
				},
			}),
			`key           "acme"
request       "export\n1"
exported at   0 (1970-01-01T00:00:00Z)
next seq      8
memory        7 entries of 1233 bytes, stored at schema version 1, the least recently used first
  "order"
    value     15 bytes, JSON {"cents":5}
    used at   1 (1970-01-01T00:00:00.001Z)
  "number"
    value     1 byte, JSON 7
    used at   -1
  "name"
    value     11 bytes, text "Mill\nStreet"
    used at   253402300799999 (9999-12-31T23:59:59.999Z)
  "control"
    value     5 bytes, base64 YRtbMko=
    used at   253402300800000
  "bytes"
    value     1 byte, base64 /w==
    used at   9223372036854775807
  "\x1b"
    value     0 bytes
    used at   2 (1970-01-01T00:00:00.002Z)
  "long"
    value     1200 bytes, text "` + strings.Repeat("é", 511) + ` ... (cut: --output json shows all)
    used at   3 (1970-01-01T00:00:00.003Z)
replay cache  1 entry of 0 bytes, stored at schema version 2, the least recently used first
  \x1bkey
    response  not kept, sha256 ab
    made at   4 (1970-01-01T00:00:00.004Z)
    used at   5 (1970-01-01T00:00:00.005Z)
suspension    of agent "refunds" at seq 7, step 2, stored at schema version 1
  snapshot    10 bytes, JSON "bidi \u202e"
  since       6 (1970-01-01T00:00:00.006Z)
  deadline    7 (1970-01-01T00:00:00.007Z)
  escalated   1 time
  waits for   i-1
pending       3 intents
  i-1
    approval  "refund" at seq 7, step 1
    args      11 bytes, JSON {"cents":5}
    made at   6 (1970-01-01T00:00:00.006Z)
    expires   8 (1970-01-01T00:00:00.008Z)
  i-2
    tool      "mail" at seq 0, step 0
    args      7 bytes, text "no JSON"
    made at   0 (1970-01-01T00:00:00Z)
    expires   0 (1970-01-01T00:00:00Z)
  i-3
    kind 99   "" at seq 0, step 0
    args      0 bytes
    made at   0 (1970-01-01T00:00:00Z)
    expires   0 (1970-01-01T00:00:00Z)
newer schema  3 bytes; --output json shows them
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(result{0, tc.want, ""}, runWith(string(deterministic(t, tc.m)), "snapshot", "show")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every snapshot of the golden blobs can be shown. The JSON that is printed can be read again, like
// a file of WriteFolder.
func TestSnapshotShowGolden(t *testing.T) {
	var all, lines strings.Builder
	var texts []string
	for _, b := range blobs(t) {
		if b.Message != "beam_agents.v1.StateSnapshot" {
			continue
		}
		all.WriteString(framed(t, string(b.Bytes)))
		text, asJSON := runWith(string(b.Bytes), "snapshot", "show"), runWith(string(b.Bytes), "snapshot", "show", "--output", "json")
		if text.Code != 0 || asJSON.Code != 0 || !strings.HasPrefix(text.Stdout, "key ") || strings.Count(asJSON.Stdout, "\n") != 1 {
			t.Errorf("%s: %+v\n%+v", b.Name, text, asJSON)
		}
		m := new(pb.StateSnapshot)
		if err := messagejson.ReadReadable([]byte(asJSON.Stdout), m.ProtoReflect()); err != nil || !bytes.Equal(deterministic(t, m), b.Bytes) {
			t.Errorf("%s: %s is read as %v, %v", b.Name, asJSON.Stdout, m, err)
		}
		texts = append(texts, text.Stdout)
		lines.WriteString(asJSON.Stdout)
	}
	if len(texts) < 5 {
		t.Errorf("only %d blobs are snapshots", len(texts))
	}
	want := result{0, strings.Join(texts, "\n"), ""}
	if diff := cmp.Diff(want, runWith(all.String(), "snapshot", "show", "--delimited")); diff != "" {
		t.Error(diff)
	}
	file := filepath.Join(t.TempDir(), "snapshots.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, runWith("", "snapshot", "show", file)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(result{0, lines.String(), ""}, runWith("", "snapshot", "show", "--output=json", file)); diff != "" {
		t.Error(diff)
	}
}

func TestSnapshotShowBadData(t *testing.T) {
	const seven = "{\"seq\":\"7\"}\n"
	for name, tc := range map[string]struct {
		stdin, args string
		want        result
	}{
		"nothing":                {"", "", result{0, "", "beamagents: the input is empty\n"}},
		"nothing, delimited":     {"", "--delimited", result{0, "", "beamagents: the input is empty\n"}},
		"another format":         {"", "--output yaml", result{2, "", "beamagents: --output \"yaml\" is not valid: use text or json\n"}},
		"two files":              {"", "a b", result{2, "", "beamagents: accepts at most 1 arg(s), received 2\n"}},
		"no such file":           {"", "nowhere", result{2, "", "beamagents: open nowhere: no such file or directory\n"}},
		"cut short":              {"\x18\x80", "", result{1, "", "beamagents: message 1 at byte 0: StateSnapshot.seq is cut short\n"}},
		"bad inside":             {"\x2a\x04\x12\x02\x0a\x05", "", result{1, "", "beamagents: message 1 at byte 4: StateSnapshot.memory.entries.key is cut short\n"}},
		"bad in the middle":      {"\x02\x18\x07\x02\x18\x80\x02\x18\x07", "--delimited", result{1, seven, "beamagents: message 2 at byte 4: StateSnapshot.seq is cut short\n"}},
		"keep going":             {"\x02\x18\x07\x02\x18\x80\x02\x18\x07", "--delimited --keep-going", result{1, seven + seven, "beamagents: message 2 at byte 4: StateSnapshot.seq is cut short\n"}},
		"bad framing":            {"\x02\x18\x07\x05\x18", "--delimited", result{1, seven, "beamagents: message 2 at byte 4: a message of 5 bytes is cut short after 1\n"}},
		"a brace as a length":    {"\x7b", "--delimited", result{1, "", "beamagents: message 1 at byte 1: a message of 123 bytes is cut short after 0\n"}},
		"lines":                  {"{\"seq\":7}\n\n{\"seq\":\"7\"}", "", result{0, seven + seven, ""}},
		"a bad line":             {"{\"seq\":7}\n{\"key\":7}\n{\"seq\":7}\n", "", result{1, seven, "beamagents: line 2: key: a number that does not fit, want a text\n"}},
		"a bad line, keep going": {"{\"seq\":7}\n{\"key\":7}\n{\"seq\":7}\n", "--keep-going", result{1, seven + seven, "beamagents: line 2: key: a number that does not fit, want a text\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"snapshot", "show", "--output", "json"}, strings.Fields(tc.args)...)
			if diff := cmp.Diff(tc.want, runWith(tc.stdin, args...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever a snapshot contains, the text has no control characters for a terminal, and the JSON is
// read as the same snapshot.
func FuzzSnapshotShow(f *testing.F) {
	f.Add([]byte("\x12\x01k\x2a\x08\x12\x06\x0a\x01\x1b\x12\x01\x1b"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		m := new(pb.StateSnapshot)
		if proto.Unmarshal(frame, m) != nil {
			t.Skip("not a snapshot")
		}
		for _, r := range string(appendSnapshot(nil, m)) {
			if r != '\n' && !strconv.IsPrint(r) {
				t.Fatalf("%q in\n%s", r, appendSnapshot(nil, m))
			}
		}
		line := messagejson.AppendReadable(nil, m.ProtoReflect())
		again := new(pb.StateSnapshot)
		if err := messagejson.ReadReadable(line, again.ProtoReflect()); err != nil || !json.Valid(line) || !proto.Equal(m, again) {
			t.Fatalf("%s is read as %v, %v", line, again, err)
		}
	})
}
