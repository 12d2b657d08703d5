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
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/tracing"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// A traceTree is a trace whose spans are in tree order, each after its parent.
type traceTree struct {
	id         string
	spans      []*treeSpan
	duplicates int // events that occurred more than once
}

// A treeSpan is a span of a tree: one event, or the START and END events of an activation.
type treeSpan struct {
	start, end *pb.TraceEvent // one of them may be nil; an event of another type is end
	encoded    string         // the encoding of the event, or of one of the two
	startMS    int64
	durationMS int64

	parent   *treeSpan
	children []*treeSpan
	orphan   string // why the parent that the span names is not used
	depth    int
	branch   string // the beginning of the span's line
	below    string // the beginning of its children's lines
}

func (s *treeSpan) event() *pb.TraceEvent { return cmp.Or(s.end, s.start) }

// parentID returns the parent id of either event.
func (s *treeSpan) parentID() string {
	return cmp.Or(string(s.end.GetParentSpanId()), string(s.start.GetParentSpanId()))
}

func isActivation(t pb.TraceEvent_EventType) bool {
	return t == pb.TraceEvent_ACTIVATION_START || t == pb.TraceEvent_ACTIVATION_END
}

// trees returns the trees of all traces, ordered by their start. Events without a trace id come
// last.
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
		v := s.view()
		s.startMS = v.StartTime().UnixMilli()
		s.durationMS = v.EndTime().UnixMilli() - s.startMS
	}
	slices.SortFunc(spans, compareSpans)
	if id != "" {
		relate(spans)
	}
	return &traceTree{id: id, spans: inTreeOrder(spans), duplicates: t.duplicates}, nil
}

// compareSpans orders the spans of one parent like their events. Within an attempt all events
// have the same time, so their steps decide. A suspension comes last.
func compareSpans(a, b *treeSpan) int {
	x, y := a.event(), b.event()
	return cmp.Or(
		cmp.Compare(x.GetStartMs(), y.GetStartMs()),
		cmp.Compare(x.GetStepIndex(), y.GetStepIndex()),
		cmp.Compare(suspends(x), suspends(y)),
		cmp.Compare(a.startMS, b.startMS),
		cmp.Compare(x.GetEventType(), y.GetEventType()),
		cmp.Compare(string(x.GetSpanId()), string(y.GetSpanId())),
		cmp.Compare(a.encoded, b.encoded), // decides only between spans without an id
	)
}

func suspends(e *pb.TraceEvent) int {
	if e.GetEventType() == pb.TraceEvent_SUSPENDED {
		return 1
	}
	return 0
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

// cutCycles removes the parent of the first span in each cycle.
func cutCycles(spans []*treeSpan) {
	place := make(map[*treeSpan]int, len(spans))
	for i, s := range spans {
		place[s] = i
	}
	seen := map[*treeSpan]int{} // by the number of the walk
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

// maxBranches bounds the depth to which a tree is drawn. Deeper spans are drawn at this depth,
// with their own depth as a number.
const maxBranches = 24

// inTreeOrder returns the spans in the order of the lines of a tree, and draws the branches. It
// does not recurse, because a trace may be one long chain.
func inTreeOrder(spans []*treeSpan) []*treeSpan {
	ordered := make([]*treeSpan, 0, len(spans))
	var waiting []*treeSpan // a stack: the next span is the last element
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

// A spanView is the span that an exporter would send.
type spanView struct {
	sdktrace.ReadOnlySpan
}

// The ids of spanViews.
var traceID, spanID = bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{1}, 8)

// view makes the span from the events. The result is not kept, because it takes several times the
// memory of the events.
func (s *treeSpan) view() spanView {
	e := s.event()
	// The ids do not change the view, and here they may have any length. Whether the activation
	// has an end does not change it either.
	of := &pb.TraceEvent{
		TraceId: traceID, SpanId: spanID, EntityKey: e.GetEntityKey(), Seq: e.GetSeq(), StepIndex: e.GetStepIndex(),
		EventType: e.GetEventType(), Attributes: e.GetAttributes(), StartMs: e.GetStartMs(), EndMs: e.GetEndMs(),
	}
	if s.end == nil {
		of.EventType = pb.TraceEvent_ACTIVATION_END
	}
	span, _ := tracing.Span(of, tracing.Options{Contents: true}) // always Mapped, because the ids are valid
	return spanView{span}
}

// label returns the name of the span, fit for a line.
func (v spanView) label() string {
	operation, about, _ := strings.Cut(v.Name(), " ")
	return named(word(operation), about)
}

// attribute returns the value of an attribute. It is invalid if the attribute is absent.
func (v spanView) attribute(name string) attribute.Value {
	all := v.Attributes() // sorted by name
	i, found := slices.BinarySearchFunc(all, name, func(a attribute.KeyValue, name string) int { return strings.Compare(string(a.Key), name) })
	if !found {
		return attribute.Value{}
	}
	return all[i].Value
}

// text returns a text attribute, or "" if it is absent.
func (v spanView) text(name string) string { return v.attribute(name).AsString() }

// number returns an integer attribute, or -1 if it is absent.
func (v spanView) number(name string) int64 {
	if a := v.attribute(name); a.Type() == attribute.INT64 {
		return a.AsInt64()
	}
	return -1
}

// measured reports whether the duration was measured. Otherwise it is the time between two
// events.
func (v spanView) measured() bool { return v.number("beam_agents.duration_ms") >= 0 }

// named returns a name with its subject.
func named(operation, about string) string {
	if about == "" {
		return operation
	}
	return operation + " " + word(about)
}

// maxWordRunes bounds a value on a line of a tree.
const maxWordRunes = 64

// word returns a value for a line, quoted if a terminal or a reader would misread it.
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

// duration formats a duration in ms for people.
func duration(ms int64) string {
	if ms < 1000 {
		return fmt.Sprintf("%dms", ms)
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

// textTrees returns a function that writes trees as text, with empty lines between them.
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
		for i, column := range s.columns(s.view(), firstMS) {
			widths[i] = max(widths[i], utf8.RuneCountInString(column))
		}
	}
	var b []byte
	for _, s := range t.spans {
		b = b[:0]
		v := s.view()
		for i, column := range s.columns(v, firstMS) {
			b = append(b, column...)
			for range widths[i] - utf8.RuneCountInString(column) + 2 {
				b = append(b, ' ')
			}
		}
		b = append(b, strings.Join(slices.Concat(v.details(), s.faults()), "  ")...)
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

// columns returns three columns for a span: its name in the tree, when it began after firstMS,
// and how long it took.
func (s *treeSpan) columns(v spanView, firstMS int64) [3]string {
	label, took := v.label(), "-"
	if s.depth > maxBranches {
		label = fmt.Sprintf("(depth %d) %s", s.depth, label)
	}
	if v.measured() || s.durationMS > 0 {
		took = duration(s.durationMS)
	}
	return [3]string{s.branch + label, "+" + duration(s.startMS-firstMS), took}
}

// quoted returns a text of any length in quotes.
func quoted(text string) string {
	if len(text) > maxShownBytes {
		return strconv.Quote(text[:maxShownBytes]) + "..."
	}
	return strconv.Quote(text)
}

// date formats a time in ms, or returns its number if it has no date.
func date(ms int64) string {
	if _, text, ok := strings.Cut(moment(ms), " ("); ok {
		return strings.TrimSuffix(text, ")")
	}
	return strconv.FormatInt(ms, 10)
}

// details returns what a line says after the name and the times.
func (v spanView) details() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if v.text("beam_agents.activation.kind") == "resume" {
		add("resumed")
	}
	if status := v.text("beam_agents.activation.status"); status != "" {
		add("%s", word(status))
	}
	if v.attribute("beam_agents.cache_hit").AsBool() {
		add("from the replay cache")
	}
	if in := v.number("gen_ai.usage.input_tokens"); in >= 0 {
		if cached := v.number("gen_ai.usage.cache_read.input_tokens"); cached >= 0 {
			add("in %d (%d cached)", in, cached)
		} else {
			add("in %d", in)
		}
	}
	if out := v.number("gen_ai.usage.output_tokens"); out >= 0 {
		add("out %d", out)
	}
	if id := v.text("beam_agents.intent_id"); id != "" {
		add("id %s", word(id))
	}
	if ms := v.number("beam_agents.deadline_ms"); ms >= 0 {
		add("until %s", date(ms))
	}
	if waits := v.attribute("beam_agents.pending_intent_ids").AsStringSlice(); len(waits) > 0 {
		add("waits for %s", count(len(waits), "intent"))
	}
	if v.Status().Code == codes.Error {
		add("error %s", word(v.text("error.type")))
		if reason := v.Status().Description; reason != "" {
			add("reason %s", word(reason))
		}
	}
	if v.attribute("beam_agents.incomplete").AsBool() {
		add("incomplete")
	}
	for _, link := range v.Links() {
		add("called from trace %s", link.SpanContext.TraceID())
	}
	return all
}

// faults returns what is wrong with the events of a span.
func (s *treeSpan) faults() (all []string) {
	switch {
	case s.start != nil && s.end == nil:
		all = append(all, "no end")
	case s.start == nil && isActivation(s.end.GetEventType()):
		all = append(all, "no start")
	}
	switch s.orphan {
	case "missing":
		all = append(all, "orphan of "+word(hex.EncodeToString([]byte(s.parentID()))))
	case "cycle":
		all = append(all, "orphan: its parents are a cycle")
	}
	return all
}

// jsonSpan is a line of --output json.
type jsonSpan struct {
	TraceID      string         `json:"trace_id,omitzero"`
	SpanID       string         `json:"span_id,omitzero"`
	ParentSpanID string         `json:"parent_span_id,omitzero"`
	Depth        int            `json:"depth"`
	Orphan       string         `json:"orphan,omitzero"`
	Name         string         `json:"name"`
	Kind         string         `json:"kind"`
	Events       []string       `json:"events"`
	StartMS      int64          `json:"start_ms"`
	DurationMS   int64          `json:"duration_ms"`
	Measured     bool           `json:"measured"`
	Error        bool           `json:"error,omitzero"`
	Links        []string       `json:"links,omitempty"`
	Attributes   map[string]any `json:"attributes"`
}

func writeJSONTree(w *bufio.Writer, t *traceTree) error {
	for _, s := range t.spans {
		e, v := s.event(), s.view()
		line := jsonSpan{
			TraceID: hex.EncodeToString(e.GetTraceId()), SpanID: hex.EncodeToString(e.GetSpanId()),
			ParentSpanID: hex.EncodeToString([]byte(s.parentID())), Depth: s.depth, Orphan: s.orphan,
			Name: v.Name(), Kind: v.SpanKind().String(), StartMS: s.startMS, DurationMS: s.durationMS, Measured: v.measured(),
			Error: v.Status().Code == codes.Error, Attributes: map[string]any{},
		}
		for _, e := range []*pb.TraceEvent{s.start, s.end} {
			if e != nil {
				line.Events = append(line.Events, e.GetEventType().String())
			}
		}
		for _, link := range v.Links() {
			line.Links = append(line.Links, fmt.Sprintf("%s-%s", link.SpanContext.TraceID(), link.SpanContext.SpanID()))
		}
		for _, a := range v.Attributes() {
			line.Attributes[string(a.Key)] = jsonValue(a.Value)
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

// jsonValue returns the value of an attribute in a form for JSON.
func jsonValue(v attribute.Value) any {
	if f := v.AsFloat64(); v.Type() == attribute.FLOAT64 && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return v.String()
	}
	return v.AsInterface()
}
