package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/proto"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// A traceTree is a trace whose spans are in the order of the tree, each behind its parent.
type traceTree struct {
	id         string
	spans      []*treeSpan
	duplicates int // events that were there again
}

// A treeSpan is a span of a tree: one event, or the START and the END of an activation.
type treeSpan struct {
	start, end *pb.TraceEvent // one of them may be nil; an event of another type is end
	encoded    string         // the event, or one of the two
	attributes map[string]string
	name       string
	startMS    int64
	durationMS int64
	measured   bool // the duration was measured, and is not what is between event times

	parent   *treeSpan
	children []*treeSpan
	orphan   string // why the parent that the span names is not parent
	depth    int
	branch   string // what a line of the tree begins with
	below    string // what those of its children begin with
}

func (s *treeSpan) event() *pb.TraceEvent { return cmp.Or(s.end, s.start) }

// parentID is that of either event.
func (s *treeSpan) parentID() string {
	return cmp.Or(string(s.end.GetParentSpanId()), string(s.start.GetParentSpanId()))
}

func isActivation(t pb.TraceEvent_EventType) bool {
	return t == pb.TraceEvent_ACTIVATION_START || t == pb.TraceEvent_ACTIVATION_END
}

// trees makes the trees of all traces in order of their beginnings. Events without a trace
// id come last.
func (s *traceSet) trees() iter.Seq2[*traceTree, error] {
	return func(yield func(*traceTree, error) bool) {
		ids := slices.SortedFunc(maps.Keys(s.traces), func(a, b string) int {
			switch {
			case a == "":
				return 1
			case b == "":
				return -1
			}
			return cmp.Or(cmp.Compare(s.traces[a].startMS, s.traces[b].startMS), cmp.Compare(a, b))
		})
		for _, id := range ids {
			if !yield(s.traces[id].tree(id)) {
				return
			}
		}
	}
}

func (t *traceEvents) tree(id string) (*traceTree, error) {
	var spans []*treeSpan
	activations := map[string]*treeSpan{}
	add := func(encoded string) error {
		m := new(pb.TraceEvent)
		if err := proto.Unmarshal([]byte(encoded), m); err != nil {
			return fmt.Errorf("decode a TraceEvent: %w", err)
		}
		var s *treeSpan
		paired := id != "" && len(m.GetSpanId()) > 0 && isActivation(m.GetEventType())
		if paired {
			s = activations[string(m.GetSpanId())]
		}
		if s == nil {
			s = &treeSpan{encoded: encoded}
			spans = append(spans, s)
		}
		if paired {
			activations[string(m.GetSpanId())] = s
		}
		if m.GetEventType() == pb.TraceEvent_ACTIVATION_START {
			s.start = m
		} else {
			s.end = m
		}
		return nil
	}
	for _, encoded := range t.events {
		if err := add(encoded); err != nil {
			return nil, err
		}
	}
	for _, encoded := range t.loose {
		if err := add(encoded); err != nil {
			return nil, err
		}
	}
	for _, s := range spans {
		s.describe()
	}
	slices.SortFunc(spans, compareSpans)
	if id != "" {
		relate(spans)
	}
	return &traceTree{id: id, spans: inTreeOrder(spans), duplicates: t.duplicates}, nil
}

// compareSpans is the order of the spans of one parent: as they began, and at one time as
// the activation took its steps.
func compareSpans(a, b *treeSpan) int {
	x, y := a.event(), b.event()
	return cmp.Or(
		cmp.Compare(a.startMS, b.startMS),
		cmp.Compare(x.GetStepIndex(), y.GetStepIndex()),
		cmp.Compare(x.GetEventType(), y.GetEventType()),
		cmp.Compare(string(x.GetSpanId()), string(y.GetSpanId())),
		cmp.Compare(a.encoded, b.encoded), // only spans without an id get here
	)
}

// relate finds the parent of each span.
func relate(spans []*treeSpan) {
	byID := map[string]*treeSpan{}
	for _, s := range spans {
		id := string(s.event().GetSpanId())
		if old := byID[id]; old == nil || !isActivation(old.event().GetEventType()) && isActivation(s.event().GetEventType()) {
			byID[id] = s
		}
	}
	for _, s := range spans {
		id := s.parentID()
		if id == "" {
			continue
		}
		if s.parent = byID[id]; s.parent == nil {
			s.orphan = "missing"
		}
	}
	cutCycles(spans)
	for _, s := range spans {
		if s.parent != nil {
			s.parent.children = append(s.parent.children, s)
		}
	}
}

// cutCycles takes the parent from the first span of each cycle.
func cutCycles(spans []*treeSpan) {
	place := make(map[*treeSpan]int, len(spans))
	for i, s := range spans {
		place[s] = i
	}
	seen := map[*treeSpan]int{} // by which walk
	for i, s := range spans {
		walk := i + 1
		at := s
		for at != nil && seen[at] == 0 {
			seen[at] = walk
			at = at.parent
		}
		if at == nil || seen[at] != walk {
			continue
		}
		first := at
		for next := at.parent; next != at; next = next.parent {
			if place[next] < place[first] {
				first = next
			}
		}
		first.parent, first.orphan = nil, "cycle"
	}
}

// maxBranches bounds how deep a tree is drawn; what is deeper stands at this depth, with
// its own in numbers.
const maxBranches = 24

// inTreeOrder returns the spans as the lines of a tree, and draws its branches. It does not
// recurse: a trace may be one long chain.
func inTreeOrder(spans []*treeSpan) []*treeSpan {
	ordered := make([]*treeSpan, 0, len(spans))
	var waiting []*treeSpan // the next one last
	for _, s := range slices.Backward(spans) {
		if s.parent == nil {
			waiting = append(waiting, s)
		}
	}
	for len(waiting) > 0 {
		s := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		ordered = append(ordered, s)
		for i, child := range slices.Backward(s.children) {
			child.depth = s.depth + 1
			switch {
			case child.depth > maxBranches:
				child.branch, child.below = s.branch, s.below
			case i == len(s.children)-1:
				child.branch, child.below = s.below+"└─ ", s.below+"   "
			default:
				child.branch, child.below = s.below+"├─ ", s.below+"│  "
			}
			waiting = append(waiting, child)
		}
	}
	return ordered
}

// describe works out what is shown of a span.
func (s *treeSpan) describe() {
	s.attributes = map[string]string{}
	maps.Copy(s.attributes, s.start.GetAttributes())
	maps.Copy(s.attributes, s.end.GetAttributes())
	s.name = s.spanName()
	s.startMS, s.durationMS, s.measured = s.times()
}

func (s *treeSpan) spanName() string {
	a := s.attributes
	switch t := s.event().GetEventType(); t {
	case pb.TraceEvent_ACTIVATION_START, pb.TraceEvent_ACTIVATION_END:
		return named("invoke_agent", a["gen_ai.agent.name"])
	case pb.TraceEvent_LLM_CALL:
		return named("chat", a["gen_ai.request.model"])
	case pb.TraceEvent_TOOL_CALL:
		if a["gen_ai.operation.name"] == "invoke_agent" {
			return named("invoke_agent", a["gen_ai.agent.name"])
		}
		return named("execute_tool", cmp.Or(a["gen_ai.tool.name"], a["beam_agents.tool_name"]))
	case pb.TraceEvent_INTENT_EMITTED:
		if a["beam_agents.intent_kind"] == pb.ToolIntent_APPROVAL.String() {
			return named("approval", a["beam_agents.tool_name"])
		}
		return named("intent", a["beam_agents.tool_name"])
	case pb.TraceEvent_SUSPENDED:
		return "suspended"
	case pb.TraceEvent_ERROR:
		return "error"
	default:
		return fmt.Sprintf("event %d", t)
	}
}

// named is a name with what it is about.
func named(operation, about string) string {
	if about == "" {
		return operation
	}
	return operation + " " + word(about)
}

// maxWordRunes bounds a value on a line of a tree.
const maxWordRunes = 64

// word is a value on a line: quoted where a terminal or a reader would take it for something
// else.
func word(text string) string {
	runes := 0
	for i := range text {
		if runes++; runes > maxWordRunes {
			text = text[:i] + "…"
			break
		}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r == ' ' || r == '"' || !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// number reads an attribute that is a number of at least 0.
func (s *treeSpan) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(s.attributes[name], 10, 64)
	return n, err == nil && n >= 0
}

// times are the measured ones where there are any, else those of the events.
func (s *treeSpan) times() (startMS, durationMS int64, measured bool) {
	first := cmp.Or(s.start, s.end)
	startMS = first.GetStartMs()
	if s.end != nil && s.attributes["beam_agents.activation.kind"] == "resume" {
		startMS = s.end.GetStartMs() // that of START is when the activation began, before it waited
	}
	if offset, ok := s.number("beam_agents.offset_ms"); ok {
		startMS = addMS(startMS, offset)
	}
	if d, ok := s.number("beam_agents.duration_ms"); ok {
		return startMS, d, true
	}
	return startMS, subMS(s.event().GetEndMs(), startMS), false
}

// addMS and subMS do not overflow; a span does not end before it began.
func addMS(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func subMS(a, b int64) int64 {
	switch d := a - b; {
	case a <= b:
		return 0
	case d < 0:
		return math.MaxInt64
	default:
		return d
	}
}

// duration is one for people.
func duration(ms int64) string {
	if ms < 1000 || ms > math.MaxInt64/int64(time.Millisecond) {
		return fmt.Sprintf("%dms", ms)
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

// textTrees returns a function that writes trees as text, with an empty line between them.
func textTrees() func(*bufio.Writer, *traceTree) error {
	some := false
	return func(w *bufio.Writer, t *traceTree) error {
		if some {
			if err := w.WriteByte('\n'); err != nil {
				return err
			}
		}
		some = true
		return writeTextTree(w, t)
	}
}

func writeTextTree(w *bufio.Writer, t *traceTree) error {
	firstMS := t.spans[0].startMS
	for _, s := range t.spans {
		firstMS = min(firstMS, s.startMS)
	}
	if err := writeTreeHead(w, t, firstMS); err != nil {
		return err
	}
	var widths [3]int
	for _, s := range t.spans {
		for i, column := range s.columns(firstMS) {
			widths[i] = max(widths[i], utf8.RuneCountInString(column))
		}
	}
	var b []byte
	for _, s := range t.spans {
		b = b[:0]
		for i, column := range s.columns(firstMS) {
			b = append(b, column...)
			for range widths[i] - utf8.RuneCountInString(column) + 2 {
				b = append(b, ' ')
			}
		}
		b = append(b, strings.Join(s.details(), "  ")...)
		if _, err := w.Write(append(bytes.TrimRight(b, " "), '\n')); err != nil {
			return err
		}
	}
	return nil
}

func writeTreeHead(w *bufio.Writer, t *traceTree, firstMS int64) error {
	head := "no trace id  " + count(len(t.spans), "span")
	if t.id != "" {
		e := t.spans[0].event()
		head = fmt.Sprintf("trace %x  key %s  seq %d  from %s  %s", t.id, quoted(string(e.GetEntityKey())), e.GetSeq(), date(firstMS), count(len(t.spans), "span"))
	}
	if t.duplicates > 0 {
		head += "  " + count(t.duplicates, "duplicate") + " left out"
	}
	_, err := w.WriteString(head + "\n")
	return err
}

// columns are the name of a span in the tree, when it began after firstMS, and how long it
// took.
func (s *treeSpan) columns(firstMS int64) [3]string {
	took := "-"
	if s.measured || s.durationMS > 0 {
		took = duration(s.durationMS)
	}
	return [3]string{s.branch + s.label(), "+" + duration(subMS(s.startMS, firstMS)), took}
}

func (s *treeSpan) label() string {
	if s.depth > maxBranches {
		return fmt.Sprintf("(depth %d) %s", s.depth, s.name)
	}
	return s.name
}

// quoted is a text of any length in quotes.
func quoted(text string) string {
	if len(text) > maxShownBytes {
		return strconv.Quote(text[:maxShownBytes]) + "..."
	}
	return strconv.Quote(text)
}

// date is a time, or the number of it where it has no date.
func date(ms int64) string {
	if _, text, ok := strings.Cut(moment(ms), " ("); ok {
		return strings.TrimSuffix(text, ")")
	}
	return strconv.FormatInt(ms, 10)
}

// details are what a line says behind name and times.
func (s *treeSpan) details() (all []string) {
	a := s.attributes
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if a["beam_agents.activation.kind"] == "resume" {
		add("resumed")
	}
	if v := a["beam_agents.activation.status"]; v != "" {
		add("%s", word(v))
	}
	if a["beam_agents.cache_hit"] == "true" {
		add("from the replay cache")
	}
	if in, ok := s.number("gen_ai.usage.input_tokens"); ok {
		cached := ""
		if n, ok := s.number("gen_ai.usage.cache_read.input_tokens"); ok {
			cached = fmt.Sprintf(" (%d cached)", n)
		}
		add("in %d%s", in, cached)
	}
	if out, ok := s.number("gen_ai.usage.output_tokens"); ok {
		add("out %d", out)
	}
	if v := a["beam_agents.intent_id"]; v != "" {
		add("id %s", word(v))
	}
	if s.event().GetEventType() == pb.TraceEvent_SUSPENDED {
		if ms, ok := s.number("beam_agents.deadline_ms"); ok {
			add("until %s", date(ms))
		}
		if v := a["beam_agents.pending_intent_ids"]; v != "" {
			add("waits for %s", count(strings.Count(v, ",")+1, "intent"))
		}
	}
	if v := a["error.type"]; v != "" {
		add("error %s", word(v))
	}
	if v := a["beam_agents.reason"]; v != "" {
		add("reason %s", word(v))
	}
	if a["beam_agents.incomplete"] == "true" {
		add("incomplete")
	}
	switch {
	case s.start != nil && s.end == nil:
		add("no end")
	case s.start == nil && isActivation(s.end.GetEventType()):
		add("no start")
	}
	switch s.orphan {
	case "missing":
		add("orphan of %s", word(hex.EncodeToString([]byte(s.parentID()))))
	case "cycle":
		add("orphan: its parents are a cycle")
	}
	return all
}

// jsonSpan is a line of --output json.
type jsonSpan struct {
	TraceID      string            `json:"trace_id,omitzero"`
	SpanID       string            `json:"span_id,omitzero"`
	ParentSpanID string            `json:"parent_span_id,omitzero"`
	Depth        int               `json:"depth"`
	Orphan       string            `json:"orphan,omitzero"`
	Name         string            `json:"name"`
	Key          *string           `json:"key,omitzero"`
	EntityKey    []byte            `json:"entity_key,omitzero"`
	Seq          int64             `json:"seq"`
	StepIndex    uint32            `json:"step_index"`
	Events       []string          `json:"events"`
	StartMS      int64             `json:"start_ms"`
	DurationMS   int64             `json:"duration_ms"`
	Measured     bool              `json:"measured"`
	Attributes   map[string]string `json:"attributes"`
}

func writeJSONTree(w *bufio.Writer, t *traceTree) error {
	for _, s := range t.spans {
		e := s.event()
		line := jsonSpan{
			TraceID: hex.EncodeToString(e.GetTraceId()), SpanID: hex.EncodeToString(e.GetSpanId()),
			ParentSpanID: hex.EncodeToString([]byte(s.parentID())), Depth: s.depth, Orphan: s.orphan, Name: s.name,
			Seq: e.GetSeq(), StepIndex: e.GetStepIndex(), StartMS: s.startMS, DurationMS: s.durationMS, Measured: s.measured, Attributes: s.attributes,
		}
		if key := string(e.GetEntityKey()); utf8.ValidString(key) {
			line.Key = &key
		} else {
			line.EntityKey = e.GetEntityKey()
		}
		for _, e := range []*pb.TraceEvent{s.start, s.end} {
			if e != nil {
				line.Events = append(line.Events, e.GetEventType().String())
			}
		}
		b, err := json.Marshal(line, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("write a span: %w", err)
		}
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	return nil
}
