package transforms

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
)

// contractAgent is the agent of the frozen DoFn: it never changes.
type contractAgent struct{ Limit int }

func init() { RegisterAgent[*contractAgent]() }

func (*contractAgent) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

// addFrozen reports the flag of the other tests of what is frozen.
func addFrozen() bool { return flag.Lookup("add-frozen").Value.String() == "true" }

// writeFrozen writes a file of golden/pipeline.
func writeFrozen(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A frozenRunAgent is what running jobs know of RunAgent in addition to the fingerprint of the
// pipeline: the tags of timers that are set, and the DoFn as the pipeline encoded it.
type frozenRunAgent struct {
	TimerTags []string          `json:"timer_tags"`
	DoFns     []json.RawMessage `json:"do_fns"` // one for each form that the encoding has had
}

// A current worker continues the job of an older build. It reads the DoFn as that build encoded it,
// with each parameter, and knows the timers that are set.
func TestRunAgentIsFrozen(t *testing.T) {
	const path = "../../golden/pipeline/runagent.json"
	params := AgentParams{ // each differs from its default, and from the others
		Name: "frozen", Agent: &contractAgent{Limit: 1}, Concurrency: 2, ActivationTimeout: 3 * time.Second, TTL: 4 * time.Second,
		WhileSuspended: Reject, MaxDeferred: 5, MaxDeferredBytes: 6, MaxIntents: 7, MaxOutputBytes: 8, MaxSnapshotBytes: 9,
		MaxActivationsPerHour: 10, HoldWatermark: true, MeasureDurations: true,
	}
	// The first form knew no model calls: their parameters have their defaults.
	firstFn, err := newRunAgentFn(params)
	if err != nil {
		t.Fatal(err)
	}
	params.MaxTokens, params.MaxModelCalls, params.NoModelMemo = 11, 12, true
	fn, err := newRunAgentFn(params)
	if err != nil {
		t.Fatal(err)
	}
	today, err := json.Marshal(fn)
	if err != nil {
		t.Fatal(err)
	}
	tags := []string{activation.DeadlineTag, activation.TTLTag, activation.WakeTag}

	var frozen frozenRunAgent
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && addFrozen():
		frozen.TimerTags = tags
	case err != nil:
		t.Fatal(err)
	default:
		if err := json.Unmarshal(b, &frozen); err != nil {
			t.Fatal(err)
		}
	}
	for _, tag := range frozen.TimerTags {
		if !slices.Contains(tags, tag) {
			t.Errorf("timers with the tag %q are set in running jobs, and RunAgent has only %q", tag, tags)
		}
	}
	for _, tag := range tags {
		if slices.Contains(frozen.TimerTags, tag) {
			continue
		}
		if !addFrozen() {
			t.Errorf("the tag %q is not frozen yet: run this test with -add-frozen", tag)
		}
		frozen.TimerTags = append(frozen.TimerTags, tag)
	}

	last, err := newAgentHost(fn)
	if err != nil {
		t.Fatal(err)
	}
	first, err := newAgentHost(firstFn)
	if err != nil {
		t.Fatal(err)
	}
	known := false
	for i, encoded := range frozen.DoFns {
		var old beamagentsRunAgentFn
		dec := json.NewDecoder(bytes.NewReader(encoded))
		dec.DisallowUnknownFields() // a field that has another name now
		if err := dec.Decode(&old); err != nil {
			t.Errorf("DoFn %d of running jobs cannot be read any more: %v", i, err)
			continue
		}
		got, err := newAgentHost(&old)
		if err != nil {
			t.Errorf("DoFn %d of running jobs has no agent any more: %v", i, err)
			continue
		}
		want := last
		if !bytes.Contains(encoded, []byte(`"MaxModelCalls"`)) {
			want = first
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(agentHost{}), cmpopts.IgnoreFields(agentHost{}, "slots", "ready", "setUp")); diff != "" {
			t.Errorf("DoFn %d of running jobs is read as another (-want +got):\n%s", i, diff)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, encoded); err != nil {
			t.Fatal(err)
		}
		known = known || compact.String() == string(today)
	}
	if !known {
		if !addFrozen() {
			t.Errorf("the encoding of the DoFn is not frozen yet: run this test with -add-frozen\n%s", today)
		}
		frozen.DoFns = append(frozen.DoFns, today)
	}
	if !addFrozen() || t.Failed() {
		return
	}
	text, err := json.MarshalIndent(frozen, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	writeFrozen(t, path, append(text, '\n'))
}

// Dashboards and alerts identify metrics by kind, namespace and name.
func TestMetricsAreFrozen(t *testing.T) {
	const path = "../../golden/pipeline/metrics.txt"
	metrics := []fmt.Stringer{
		envelopesParsed, routedEvents, routedToolResults, routedApprovals, routedExportRequests, routedTools, routedApprovalIntents,
		intentsSigned, intentsVerified, intentsNotVerified, unsignedAccepted, intentsEncoded, intentsDecoded,
		eventsDecoded, eventsEnveloped, eventsTraced,
		agentTimersWithoutState, activationsAbandoned, activationMS, activationsInFlight, memoryBytes, memoryEvictions, softCapWarnings,
		spansExported, spansDropped, spansUnsampled, eventsWithoutTrace, eventsInvalid, batchesSent, exportFailures,
	}
	if n, want := countInSources(t, regexp.MustCompile(`beam\.New(Counter|Distribution|Gauge)\(`)), len(metrics)+3; n != want {
		t.Errorf("the package makes metrics in %d places, and this test knows of %d", n, want)
	}
	for _, name := range activation.Counters() {
		metrics = append(metrics, agentCounters[name])
	}
	for _, name := range activation.Distributions() {
		metrics = append(metrics, agentDistributions[name])
	}
	for _, reason := range deadletter.Reasons() {
		metrics = append(metrics, errorsByReason[reason])
	}
	var now []string
	for _, m := range metrics {
		// "Counter metric namespace.name", and a namespace has a dot, too.
		kind, name, ok := strings.Cut(m.String(), " metric ")
		if dot := strings.LastIndexByte(name, '.'); ok && dot > 0 {
			now = append(now, fmt.Sprintf("%s %s %s\n", strings.ToLower(kind), name[:dot], name[dot+1:]))
		} else {
			t.Fatalf("the SDK writes a metric as %q", m)
		}
	}
	slices.Sort(now)
	if unique := slices.Compact(slices.Clone(now)); len(unique) != len(now) {
		t.Errorf("a metric is there twice: %q", now)
	}

	b, err := os.ReadFile(path)
	if err != nil && (!addFrozen() || !errors.Is(err, fs.ErrNotExist)) {
		t.Fatal(err)
	}
	frozen := slices.Collect(strings.Lines(string(b)))
	for _, line := range frozen {
		if !slices.Contains(now, line) {
			t.Errorf("dashboards know the %sand the package has it no more", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(frozen, line) && !addFrozen() {
			t.Errorf("not frozen yet: run this test with -add-frozen\n%s", line)
		}
	}
	if addFrozen() && !t.Failed() {
		writeFrozen(t, path, []byte(strings.Join(now, "")))
	}
}

// countInSources counts matches in the package's files, tests left out.
func countInSources(t *testing.T, what *regexp.Regexp) (n int) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n += len(what.FindAll(b, -1))
	}
	return n
}
