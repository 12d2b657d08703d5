package transforms

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/pkg/events"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// tracedTypes are the types of events that [traceRun] turns into spans.
var tracedTypes = map[string]bool{
	events.EventAgentStart:          true,
	events.EventAgentEnd:            true,
	events.EventTurnStart:           true,
	events.EventTurnEnd:             true,
	events.EventToolStart:           true,
	events.EventToolExecutionStart:  true,
	events.EventToolEnd:             true,
	events.EventPermissionDenied:    true,
	events.EventSubagentStart:       true,
	events.EventSubagentEnd:         true,
	events.EventModelUsageBound:     true,
	events.EventError:               true,
	events.EventPersistenceFailed:   true,
	events.EventCommandDeadLettered: true,
}

// maxAttributeBytes bounds the value of an attribute. The text of a tool or a model can have any
// size.
const maxAttributeBytes = 4096

// otherError is the error.type of a failure that names no type.
const otherError = "_OTHER"

// runEvent is a decoded event of a run. An event of a type that is not traced has only a
// position.
type runEvent struct {
	runPosition
	env   events.Envelope
	event events.Event
}

// span is a TraceEvent under construction.
type span struct {
	*pb.TraceEvent
	bound, ended *events.TokenUsage // tokens as model_usage_bound and the end of the span report them
}

// call is an open tool call or subagent.
type call struct {
	*span
	running bool // a tool_execution_start was seen
	denied  bool
}

// runTrace is the state of [traceRun].
type runTrace struct {
	key        []byte // the key of the run, from which the ids are derived
	traceID    [16]byte
	now        runPosition
	root, turn *span            // turn is the latest turn
	turnNumber uint64           // the number of turn
	inTurn     bool             // turn is open
	calls      map[string]*call // by kind and id
	taken      map[string]uint32
	spans      []*span
}

// compareEvents orders the events of a run.
func compareEvents(a, b runEvent) int {
	if c := cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.timeMS, b.timeMS), cmp.Compare(a.env.Type, b.env.Type)); c != 0 {
		return c
	}
	// Two events at one position are a fault of the source, but their order must still be
	// deterministic.
	return cmp.Or(cmp.Compare(a.env.Payload.JSON(), b.env.Payload.JSON()), cmp.Compare(a.env.Metadata.JSON(), b.env.Metadata.JSON()))
}

// traceRun returns the trace of a run with the key of [runKey]. All events must be of that run,
// and there must be at least one. They may come in any order and more than once. Events of other
// types than [tracedTypes] have only a position.
func traceRun(key []byte, run []runEvent) []*pb.TraceEvent {
	slices.SortFunc(run, compareEvents)
	run = slices.CompactFunc(run, func(a, b runEvent) bool {
		return a.sequence == b.sequence && a.timeMS == b.timeMS && a.env.Equal(b.env)
	})
	t := &runTrace{
		key: key, traceID: intent.TraceID(key, 0), now: run[0].runPosition,
		calls: map[string]*call{}, taken: map[string]uint32{},
	}
	t.root = t.open(pb.TraceEvent_ACTIVATION_END, nil)
	t.root.set("beam_agents.activation.kind", "start")
	t.root.set("beam_agents.activation.status", "incomplete")
	t.root.set("beam_agents.run_id", t.now.runID)
	t.root.set("gen_ai.conversation.id", t.now.sessionID)
	t.root.set("gen_ai.operation.name", "invoke_agent")
	for _, e := range run {
		t.now = e.runPosition
		t.add(e.event)
	}
	t.endTurn(true)
	for _, c := range t.calls { // the order does not matter, because the calls are independent
		if !c.denied {
			t.end(c.span)
			c.set("beam_agents.incomplete", "true")
		}
	}
	t.end(t.root)
	t.root.StepIndex = t.step()
	traces := make([]*pb.TraceEvent, 0, len(t.spans)+1)
	traces = append(traces, t.start())
	for _, s := range t.spans {
		s.setUsage()
		traces = append(traces, s.TraceEvent)
	}
	return traces
}

// start returns the event that marks the beginning of the root span.
func (t *runTrace) start() *pb.TraceEvent {
	r := t.root
	s := span{TraceEvent: &pb.TraceEvent{
		TraceId: r.TraceId, SpanId: r.SpanId, EntityKey: r.EntityKey,
		EventType: pb.TraceEvent_ACTIVATION_START, StartMs: r.StartMs, EndMs: r.StartMs,
		Attributes: map[string]string{},
	}}
	for _, name := range []string{"beam_agents.activation.kind", "beam_agents.run_id", "gen_ai.conversation.id", "gen_ai.operation.name"} {
		s.Attributes[name] = r.Attributes[name]
	}
	return s.TraceEvent
}

func (t *runTrace) add(event events.Event) {
	switch e := event.(type) {
	case events.AgentEnd:
		t.endRun(e)
	case events.TurnStart:
		t.startTurn(e.Turn)
	case events.TurnEnd:
		if !t.inTurn || t.turnNumber != e.Turn {
			t.startTurn(e.Turn)
		}
		t.turn.ended = &e.Usage
		t.endTurn(false)
	case events.ModelUsageBound:
		t.addUsage(e.Snapshot)
	case events.ToolStart:
		t.startCall("tool", e.ID, e.Name, false)
	case events.ToolExecutionStart:
		t.startCall("tool", e.ID, e.Name, true)
	case events.ToolEnd:
		t.endTool(e)
	case events.PermissionDenied:
		c := t.openCall("tool", e.ToolID, e.ToolName)
		c.denied = true
		c.set("error.type", "permission_denied")
		t.end(c.span)
	case events.SubagentStart:
		c := t.startCall("subagent", e.TaskID, e.Agent, true)
		c.set("beam_agents.subagent.session_id", e.SessionID)
	case events.SubagentEnd:
		t.endSubagent(e)
	case events.Error:
		t.fail(e.Message, otherError)
	case events.PersistenceFailed:
		t.fail(e.Operation+": "+e.Error, e.EventType())
	case events.CommandDeadLettered:
		t.fail(e.CommandType+": "+e.Error, e.EventType())
	}
}

func (t *runTrace) endRun(e events.AgentEnd) {
	t.root.ended = &e.Usage
	t.root.set("beam_agents.activation.status", "completed")
	t.root.set("beam_agents.verification.status", string(e.VerificationSummary.Status))
	if m := e.Meta; m != nil {
		t.root.setOptional("gen_ai.provider.name", m.Provider)
		t.root.setOptional("gen_ai.request.model", m.RequestModel)
		t.root.setOptional("gen_ai.response.id", m.ResponseID)
		t.root.setOptional("gen_ai.response.model", m.ResponseModel)
	}
}

func (t *runTrace) startTurn(number uint64) {
	t.endTurn(true)
	t.turnNumber = number
	t.turn = t.open(pb.TraceEvent_LLM_CALL, t.root)
	t.inTurn = true
	t.turn.set("beam_agents.turn", strconv.FormatUint(number, 10))
	t.turn.set("gen_ai.operation.name", "chat")
}

func (t *runTrace) endTurn(incomplete bool) {
	if !t.inTurn {
		return
	}
	t.inTurn = false
	t.end(t.turn)
	if incomplete {
		t.turn.set("beam_agents.incomplete", "true")
	}
}

func (t *runTrace) addUsage(u events.ModelUsageSnapshotV1) {
	s := t.parent()
	if s.bound == nil {
		s.bound = &events.TokenUsage{}
	}
	s.bound.PromptTokens = addCapped(s.bound.PromptTokens, u.ReportedPromptTokens)
	s.bound.CompletionTokens = addCapped(s.bound.CompletionTokens, u.ReportedCompletionTokens)
	s.bound.CacheReadTokens = addOptional(s.bound.CacheReadTokens, u.ReportedCacheReadTokens)
	s.bound.CacheWriteTokens = addOptional(s.bound.CacheWriteTokens, u.ReportedCacheWriteTokens)
}

func addOptional(sum, n *uint64) *uint64 {
	if sum == nil || n == nil {
		return cmp.Or(sum, n)
	}
	return new(addCapped(*sum, *n))
}

func addCapped(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// startCall begins a call. A tool_execution_start continues the call of the tool_start before it.
// Any other second beginning leaves the first call incomplete.
func (t *runTrace) startCall(kind, id, name string, running bool) *call {
	if c := t.calls[kind+id]; c != nil {
		if running && !c.running && !c.denied {
			c.running = true
			c.StartMs = t.now.timeMS
			return c
		}
		if !c.denied {
			t.end(c.span)
			c.set("beam_agents.incomplete", "true")
		}
		delete(t.calls, kind+id)
	}
	c := t.openCall(kind, id, name)
	c.running = running
	return c
}

// openCall returns the open call with that id, or a new one.
func (t *runTrace) openCall(kind, id, name string) *call {
	if c := t.calls[kind+id]; c != nil {
		return c
	}
	c := &call{span: t.open(pb.TraceEvent_TOOL_CALL, t.parent())}
	c.set("beam_agents.tool_name", name)
	c.set("gen_ai.tool.call.id", id)
	if kind == "tool" {
		c.set("gen_ai.operation.name", "execute_tool")
		c.set("gen_ai.tool.name", name)
	} else {
		c.set("gen_ai.operation.name", "invoke_agent")
		c.set("gen_ai.agent.name", name)
	}
	t.calls[kind+id] = c
	return c
}

func (t *runTrace) endTool(e events.ToolEnd) {
	c := t.openCall("tool", e.ID, e.Name)
	delete(t.calls, "tool"+e.ID)
	t.end(c.span)
	c.set("beam_agents.exit_code", strconv.Itoa(int(e.ExitCode)))
	switch {
	case e.ErrorKind != nil:
		c.set("error.type", e.ErrorKind.Kind())
	case e.ExitCode != 0 && !c.denied:
		c.set("error.type", otherError)
	}
}

func (t *runTrace) endSubagent(e events.SubagentEnd) {
	c := t.openCall("subagent", e.TaskID, e.Agent)
	delete(t.calls, "subagent"+e.TaskID)
	t.end(c.span)
	c.set("beam_agents.subagent.session_id", e.SessionID)
	if !e.Success {
		c.set("error.type", otherError)
	}
}

func (t *runTrace) fail(reason, errorType string) {
	s := t.open(pb.TraceEvent_ERROR, t.parent())
	s.set("beam_agents.reason", reason)
	s.set("error.type", errorType)
}

// parent returns the parent span for the current event.
func (t *runTrace) parent() *span { return cmp.Or(t.turn, t.root) }

// step returns the number of the latest turn, at most 2^32-1.
func (t *runTrace) step() uint32 { return uint32(min(t.turnNumber, math.MaxUint32)) }

// open begins a span at the current event. Its id is derived from the position of that event,
// which is unique within the run. A further event at the same position gets the next number.
func (t *runTrace) open(eventType pb.TraceEvent_EventType, parent *span) *span {
	role := intent.RoleOf(eventType) + "@" + strconv.FormatUint(t.now.sequence, 10)
	id := intent.SpanID(t.key, 0, role, t.taken[role])
	t.taken[role]++
	s := &span{TraceEvent: &pb.TraceEvent{
		TraceId: t.traceID[:], SpanId: id[:], EntityKey: []byte(t.now.sessionID),
		StepIndex: t.step(), EventType: eventType, Attributes: map[string]string{},
		StartMs: t.now.timeMS, EndMs: t.now.timeMS,
	}}
	if parent != nil {
		s.ParentSpanId = parent.SpanId
	}
	t.spans = append(t.spans, s)
	return s
}

// end ends a span at the current event, but not before the span began.
func (t *runTrace) end(s *span) { s.EndMs = max(s.StartMs, t.now.timeMS) }

// set adds an attribute. It cuts the value to maxAttributeBytes, between characters.
func (s *span) set(name, value string) {
	if len(value) > maxAttributeBytes {
		end := maxAttributeBytes
		for !utf8.RuneStart(value[end]) {
			end--
		}
		value = value[:end]
	}
	s.Attributes[name] = value
}

func (s *span) setOptional(name string, value *string) {
	if value != nil {
		s.set(name, *value)
	}
}

func (s *span) setUsage() {
	u := cmp.Or(s.ended, s.bound)
	if u == nil {
		return
	}
	count := func(name string, n *uint64) {
		if n != nil {
			s.set(name, strconv.FormatUint(*n, 10))
		}
	}
	count("gen_ai.usage.input_tokens", &u.PromptTokens)
	count("gen_ai.usage.output_tokens", &u.CompletionTokens)
	count("gen_ai.usage.cache_read.input_tokens", u.CacheReadTokens)
	count("gen_ai.usage.cache_creation.input_tokens", u.CacheWriteTokens)
}
