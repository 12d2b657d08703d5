package activation

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"strconv"
	"strings"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// digest distinguishes the ERROR events of one activation.
func digest(input []byte) [32]byte { return sha256.Sum256(input) }

// attemptSpan returns the id of the span of an attempt. For the first attempt, and for the first
// resume at a step above 0, it is the id that other implementations use. Their ids for further
// resumes may repeat, so our ids for them include the number of the resume.
func attemptSpan(key []byte, seq int64, entry uint32, resumes int64) [8]byte {
	role := intent.RoleActivation
	if resumes > 1 || resumes == 1 && entry == 0 {
		role += "." + strconv.FormatInt(resumes, 10)
	}
	return intent.SpanID(key, seq, role, entry)
}

// tracer makes the trace events of a key at one event time.
type tracer struct {
	s        *stepper
	seq, now int64
}

func (s *stepper) tracer(seq, now int64) tracer { return tracer{s, seq, now} }

func (t tracer) emit(e *pb.TraceEvent, span, parent [8]byte) {
	trace := intent.TraceID(t.s.k.Entity, t.seq)
	e.TraceId, e.SpanId = trace[:], span[:]
	if parent != ([8]byte{}) {
		e.ParentSpanId = parent[:]
	}
	e.EntityKey, e.Seq = bytes.Clone(t.s.k.Entity), t.seq
	if e.EndMs == 0 {
		e.StartMs, e.EndMs = t.now, t.now
	}
	t.s.out.Effects = append(t.s.out.Effects, Effect{AtMS: t.now, Trace: e})
}

// parentOf returns the span of the first attempt of the activation. It is zero for the first
// attempt itself.
func (t tracer) parentOf(a *attempt) (parent [8]byte) {
	if a != nil && a.resumed {
		parent = attemptSpan(t.s.k.Entity, t.seq, 0, 0)
	}
	return parent
}

func kindOf(a *attempt) string {
	if a.resumed {
		return "resume"
	}
	return "start"
}

// link adds the traceparent of the caller, if it has the W3C form.
func link(attributes map[string]string, a *attempt) {
	if traceParentForm.MatchString(a.traceParent) {
		attributes["beam_agents.traceparent"] = a.traceParent
	}
}

// begin emits ACTIVATION_START with the time at which the first attempt started.
func (t tracer) begin(span [8]byte, a *attempt, startedMS int64) {
	attributes := map[string]string{"beam_agents.activation.kind": kindOf(a)}
	link(attributes, a)
	t.emit(&pb.TraceEvent{
		EventType: pb.TraceEvent_ACTIVATION_START, Attributes: attributes, StartMs: startedMS, EndMs: startedMS,
	}, span, t.parentOf(a))
}

// end emits ACTIVATION_END. It carries all that the span of the attempt needs, because an
// exporter may get ACTIVATION_START in another bundle.
func (t tracer) end(span [8]byte, a *attempt, staged agent.Staged, startedMS int64, status string) {
	attributes := map[string]string{}
	maps.Copy(attributes, staged.Attributes)
	attributes["beam_agents.activation.kind"] = kindOf(a)
	attributes["beam_agents.activation.status"] = status
	attributes["gen_ai.agent.name"] = t.s.Name
	if a.resumed {
		attributes["beam_agents.activation.started_ms"] = strconv.FormatInt(startedMS, 10)
	}
	link(attributes, a)
	if diverged := staged.Calls.Diverged; len(diverged) > 0 {
		attributes["beam_agents.replay_divergence"] = strings.Join(diverged, "; ")
	}
	if a.measured != nil {
		attributes["beam_agents.duration_ms"] = strconv.FormatInt(a.measured(), 10)
	}
	t.emit(&pb.TraceEvent{
		EventType: pb.TraceEvent_ACTIVATION_END, StepIndex: staged.Step, Attributes: attributes,
	}, span, t.parentOf(a))
}

func (t tracer) intent(parent [8]byte, in *pb.ToolIntent, channel string, offsetMS *int64) {
	attributes := map[string]string{
		"beam_agents.intent_id":     in.GetIntentId(),
		"beam_agents.tool_name":     in.GetToolName(),
		"beam_agents.intent_kind":   in.GetKind().String(),
		"beam_agents.expires_at_ms": strconv.FormatInt(in.GetExpiresAtMs(), 10),
	}
	if channel != "" {
		attributes["beam_agents.channel"] = strings.ToValidUTF8(channel, "\ufffd")
	}
	if offsetMS != nil {
		attributes["beam_agents.offset_ms"] = strconv.FormatInt(*offsetMS, 10)
	}
	span := intent.SpanID(t.s.k.Entity, t.seq, intent.RoleOf(pb.TraceEvent_INTENT_EMITTED), in.GetStepIndex())
	t.emit(&pb.TraceEvent{
		EventType: pb.TraceEvent_INTENT_EMITTED, StepIndex: in.GetStepIndex(), Attributes: attributes,
	}, span, parent)
}

func (t tracer) suspended(parent [8]byte, cont *pb.Continuation, step, entry uint32, resumes int64) {
	role := intent.RoleOf(pb.TraceEvent_SUSPENDED)
	if resumes > 0 && step == entry {
		role += "." + strconv.FormatInt(resumes, 10) // as for attemptSpan
	}
	t.emit(&pb.TraceEvent{
		EventType: pb.TraceEvent_SUSPENDED, StepIndex: step,
		Attributes: map[string]string{
			"beam_agents.deadline_ms":        strconv.FormatInt(cont.GetDeadlineMs(), 10),
			"beam_agents.adapter":            cont.GetAdapter(),
			"beam_agents.pending_intent_ids": strings.Join(cont.GetPendingIntentIds(), ","),
		},
	}, intent.SpanID(t.s.k.Entity, t.seq, role, step), parent)
}

// traceError emits the ERROR event of an input that failed.
func (s *stepper) traceError(seq, now int64, input [32]byte, l deadletter.Letter, a *attempt) {
	t := s.tracer(seq, now)
	attributes := map[string]string{
		"beam_agents.reason": string(l.Reason),
		"error.type":         string(l.Code),
	}
	if p := l.Position; a != nil {
		attributes["gen_ai.operation.name"] = "invoke_agent"
		attributes["gen_ai.agent.name"] = s.Name
		link(attributes, a)
		if a.measured != nil {
			attributes["beam_agents.duration_ms"] = strconv.FormatInt(a.measured(), 10)
		}
		attributes["beam_agents.failure.step"] = strconv.FormatInt(*p.Step, 10)
		if p.LastEvent != "" {
			attributes["beam_agents.failure.last_event"] = p.LastEvent
			attributes["beam_agents.failure.staged_intents"] = strconv.FormatInt(*p.Intents, 10)
		}
		if p.ModelCalls != nil {
			attributes["beam_agents.failure.llm_calls"] = strconv.FormatInt(*p.ModelCalls, 10)
		}
	}
	// The span of the first attempt exists only if that attempt has suspended.
	var parent [8]byte
	if s.c.Continuation != nil && s.c.Continuation.GetSeq() == seq {
		parent = attemptSpan(s.k.Entity, seq, 0, 0)
	}
	t.emit(&pb.TraceEvent{EventType: pb.TraceEvent_ERROR, Attributes: attributes},
		intent.ErrorSpanID(s.k.Entity, seq, input), parent)
}

// traceTimeout emits the ERROR event of a suspension that a timer has ended.
func (s *stepper) traceTimeout(now int64, reason deadletter.Reason, kind string) {
	seq := s.c.Continuation.GetSeq()
	s.tracer(seq, now).emit(&pb.TraceEvent{
		EventType:  pb.TraceEvent_ERROR,
		Attributes: map[string]string{"beam_agents.reason": string(reason), "error.type": kind},
	}, intent.SpanID(s.k.Entity, seq, intent.RoleTimer, 0), attemptSpan(s.k.Entity, seq, 0, 0))
}
