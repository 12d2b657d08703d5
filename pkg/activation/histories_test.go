package activation_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/memory"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

var rewrite = flag.Bool("rewrite", false, "write what the histories in testdata do now as what they must do")

// TestHistories runs the files in testdata. A file is a history of one key of a scripted agent. For
// each input it has, after "----", the effects, the state after the input, and a hash of all bytes.
// "go test -run TestHistories -rewrite" rewrites the files.
func TestHistories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 8 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newHistory(t).replay(string(want))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
			for i := range max(len(gotLines), len(wantLines)) {
				if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
					t.Fatalf("line %d differs; the whole is now\n%s", i+1, got)
				}
			}
		})
	}
}

// history is a file that runs.
type history struct {
	*world

	names map[string]string // of intents, by id
}

func newHistory(t *testing.T) *history {
	w := newScripted(t)
	return &history{w, map[string]string{}}
}

// replay runs the inputs of a file and returns the file with the actual results.
func (h *history) replay(file string) string {
	var out strings.Builder
	skip := false // what was expected
	for line := range strings.Lines(file) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "":
			skip = false
			fmt.Fprintln(&out)
		case skip:
		case strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
		case line == "----":
			skip = true
		default:
			h.effects, h.last = nil, activation.Step{}
			h.input(line)
			fmt.Fprintf(&out, "%s\n----\n%s", line, h.said())
		}
	}
	return out.String()
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// input runs a line.
func (h *history) input(line string) {
	words := strings.Fields(line)
	rest := func(n int) string {
		if parts := strings.SplitN(line, " ", n+1); len(parts) > n {
			return parts[n]
		}
		return ""
	}
	switch words[0] {
	case "rules":
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			switch name {
			case "ttl":
				h.rules.TTLMS = number(value)
			case "defer":
				h.rules.MaxDeferred = int(number(value))
			case "budget":
				h.rules.MaxActivationsPerHour = int(number(value))
			case "name":
				h.rules.Name = value
			case "reject":
				h.rules.WhileSuspended = activation.Reject
			default:
				h.t.Fatalf("no rule %q", word)
			}
		}
	case "event":
		h.event(number(words[1]), rest(2))
	case "result": // ms, intent, status, payload
		h.result(number(words[1]), h.named(words[2]), pb.ToolResult_Status(pb.ToolResult_Status_value[words[3]]), rest(4))
	case "approval": // ms, intent, approved, decided
		h.approve(number(words[1]), number(words[4]), h.named(words[2]).GetIntentId(), words[3] == "true")
	case "export":
		h.envelope(&pb.AgentEnvelope{EventTimeMs: number(words[1]), Payload: &pb.AgentEnvelope_ExportRequest{
			ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: words[2]},
		}})
	case "timeout":
		h.timeout()
	case "timeouts": // as many
		for range number(words[1]) {
			h.effects = nil
			h.timeout()
		}
	case "idle":
		h.idle()
	case "drain":
		h.drain()
	default:
		h.t.Fatalf("no input %q", line)
	}
}

// named returns the intent that the file calls "#" and a number, which counts the intents in the
// order in which they were emitted.
func (h *history) named(name string) *pb.ToolIntent {
	for id, n := range h.names {
		if n == name {
			in := &pb.ToolIntent{IntentId: id, EntityKey: []byte(h.key)}
			for _, p := range h.now().GetPending() {
				if p.GetIntentId() == id {
					in.Seq = p.GetSeq()
				}
			}
			return in
		}
	}
	h.t.Fatalf("no intent %s", name)
	return nil
}

func (h *history) namesOf(ids []string) string {
	var names []string
	for _, id := range ids {
		names = append(names, h.names[id])
	}
	return strings.Join(names, " ")
}

// said returns the effects of an input.
func (h *history) said() string {
	var b strings.Builder
	for _, e := range h.effects {
		switch {
		case e.Output != nil:
			text := string(e.Output)
			for id, name := range h.names {
				text = strings.ReplaceAll(text, id, name)
			}
			fmt.Fprintf(&b, "output   @%d %s\n", e.AtMS, text)
		case e.Intent != nil:
			in := e.Intent
			name := fmt.Sprintf("#%d", len(h.names))
			h.names[in.GetIntentId()] = name
			fmt.Fprintf(&b, "intent   @%d %s %s %v %s %s seq %d step %d expires %d\n", e.AtMS, name, in.GetIntentId(), in.GetKind(),
				in.GetToolName(), in.GetArgsJson(), in.GetSeq(), in.GetStepIndex(), in.GetExpiresAtMs())
		case e.Trace != nil:
			fmt.Fprintf(&b, "trace    @%d %v span %x", e.AtMS, e.Trace.GetEventType(), e.Trace.GetSpanId())
			if parent := e.Trace.GetParentSpanId(); len(parent) > 0 {
				fmt.Fprintf(&b, " in %x", parent)
			}
			fmt.Fprintf(&b, " seq %d step %d\n", e.Trace.GetSeq(), e.Trace.GetStepIndex())
		case e.Snapshot != nil:
			s := e.Snapshot
			fmt.Fprintf(&b, "snapshot @%d %s seq %d, %d values, suspended %v, %d pending\n", e.AtMS, s.GetRequestId(), s.GetSeq(),
				len(s.GetMemory().GetEntries()), s.GetContinuation() != nil, len(s.GetPending()))
		case e.Error != nil:
			l, err := deadletter.Read(e.Error)
			if err != nil {
				h.t.Fatal(err)
			}
			fmt.Fprintf(&b, "error    @%d %s/%s %s of %d: %s\n", e.AtMS, l.Reason, l.Code, l.InputKind, l.EventTimeMS, l.Error)
		}
	}
	if counters := slices.Clone(h.last.Counters); len(counters) > 0 {
		fmt.Fprintf(&b, "counted  %s\n", strings.Join(counters, " "))
	}
	h.sayState(&b)
	all := sha256.New()
	fmt.Fprintf(all, "%s%x", h.bytesOf(activation.Step{Effects: h.effects}), h.stored)
	fmt.Fprintf(&b, "bytes    %x\n", all.Sum(nil)[:8])
	return b.String()
}

func (h *history) sayState(b *strings.Builder) {
	c := h.now()
	fmt.Fprintf(b, "state    seq %d", c.GetSeq())
	if mark, ok := h.rules.TTLMark(c); ok {
		fmt.Fprintf(b, ", idle at %d", mark)
	}
	if n := len(c.GetRecentEventIds()); n > 0 {
		fmt.Fprintf(b, ", %d names", n)
	}
	if n := c.GetActivationsInHour(); n > 0 {
		fmt.Fprintf(b, ", %d activations in hour %d", n, c.GetHour())
	}
	if n := c.GetTimeoutsInRow(); n > 0 {
		fmt.Fprintf(b, ", %d timeouts in a row", n)
	}
	if c.GetDrainNowMs() > 0 {
		fmt.Fprintf(b, ", drains at %d", c.GetDrainNowMs())
	}
	fmt.Fprintln(b)
	if cont := c.GetContinuation(); cont != nil {
		due, _ := activation.Deadline(c)
		fmt.Fprintf(b, "         suspended: seq %d step %d deadline %d timer %d escalations %d started %d snapshot %q\n",
			cont.GetSeq(), cont.GetStepIndex(), cont.GetDeadlineMs(), due, cont.GetEscalations(), c.GetStartedMs(), cont.GetSnapshot())
		for _, list := range []struct {
			name string
			ids  []string
		}{{"pending", cont.GetPendingIntentIds()}, {"expired", c.GetExpiredIntentIds()}, {"escalations", c.GetEscalationIds()}} {
			if len(list.ids) > 0 {
				fmt.Fprintf(b, "         %s: %s\n", list.name, h.namesOf(list.ids))
			}
		}
	}
	if h.memory != nil {
		for name, value := range memory.New(h.memoryBlob(), 0).All() {
			fmt.Fprintf(b, "         memory: %s = %q\n", name, value)
		}
	}
	if len(h.deferred) > 0 {
		fmt.Fprint(b, "         deferred:")
		for _, d := range h.deferred {
			e := new(runtimepb.DeferredEvent)
			h.decode(d, e)
			fmt.Fprintf(b, " %d@%d", e.GetArrival(), e.GetEnvelope().GetEventTimeMs())
		}
		fmt.Fprintln(b)
	}
}
