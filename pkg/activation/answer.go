package activation

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// toolResult handles the result of a tool. A result is accepted as long as its intent is open,
// even if it is late, because knowledge about a side effect must not be lost.
func (s *stepper) toolResult(env *pb.AgentEnvelope, result *pb.ToolResult) error {
	id := result.GetIntentId()
	in, code, text := s.openIntent(id)
	// EXPIRED and REJECTED mean that the call was not executed. They can answer an approval, too.
	undone := result.GetStatus() == pb.ToolResult_EXPIRED || result.GetStatus() == pb.ToolResult_REJECTED
	switch {
	case code != "":
	case !undone && intent.KindOf(in) != intent.Tool:
		code, text = deadletter.KindMismatch, "a tool result answers an approval"
	case result.GetSeq() != in.GetSeq():
		code, text = deadletter.IdentityMismatch, fmt.Sprintf("the result has seq %d, the intent %d", result.GetSeq(), in.GetSeq())
	case len(result.GetEntityKey()) > 0 && !bytes.Equal(result.GetEntityKey(), in.GetEntityKey()):
		code, text = deadletter.IdentityMismatch, "the entity key of the result is not that of the intent"
	}
	if code != "" {
		return s.orphan(env, id, code, text)
	}
	return s.resume(env, id, agent.Trigger{Kind: agent.ToolResult, Result: result, Intent: s.answered(in)})
}

// approval handles the decision of a human. The decision counts if it was made before the
// deadline of the suspension and before the expiry of its intent.
func (s *stepper) approval(env *pb.AgentEnvelope, decision *pb.AgentEnvelope_Approval) error {
	id := decision.GetIntentId()
	in, code, text := s.openIntent(id)
	decided := cmp.Or(decision.GetDecidedAtMs(), env.GetEventTimeMs())
	switch {
	case code != "":
	case intent.KindOf(in) != intent.Approval:
		code, text = deadletter.KindMismatch, "an approval answers a tool call"
	case decided >= s.c.Continuation.GetDeadlineMs():
		code = deadletter.ApprovalTooLate
		text = fmt.Sprintf("decided at %d, the deadline of the suspension was %d", decided, s.c.Continuation.GetDeadlineMs())
	case decided >= s.expiry(in):
		code, text = deadletter.ApprovalTooLate, fmt.Sprintf("decided at %d, the intent expired at %d", decided, s.expiry(in))
	}
	if code != "" {
		return s.orphan(env, id, code, text)
	}
	return s.resume(env, id, agent.Trigger{
		Kind: agent.Approval, Approved: decision.GetApproved(), Approver: decision.GetApprover(), DecidedAtMS: decided,
		Intent: s.answered(in),
	})
}

// openIntent returns the open intent with an id, or a code and a text that say why it is not
// open.
func (s *stepper) openIntent(id string) (in *pb.ToolIntent, code deadletter.Code, text string) {
	if s.c.Continuation == nil {
		return nil, deadletter.NoContinuation, "the key is not suspended"
	}
	if in := find(s.c.Pending, id); in != nil {
		return in, "", ""
	}
	if slices.Contains(s.c.ExpiredIntentIds, id) {
		return nil, deadletter.IntentExpired, "the agent was told that the intent has expired"
	}
	return nil, deadletter.UnknownIntent, "the suspension does not wait for this intent"
}

func find(pending []*pb.ToolIntent, id string) *pb.ToolIntent {
	if i := slices.IndexFunc(pending, func(in *pb.ToolIntent) bool { return in.GetIntentId() == id }); i >= 0 {
		return pending[i]
	}
	return nil
}

// answered returns the intent that an answer to in is about. For an escalation, that is the
// oldest open approval, for which the escalation asks again.
func (s *stepper) answered(in *pb.ToolIntent) *pb.ToolIntent {
	if !s.isEscalation(in) {
		return in
	}
	for _, p := range s.c.Pending {
		if intent.KindOf(p) == intent.Approval && !s.isEscalation(p) && sameCall(p, in) {
			return p
		}
	}
	return in
}

// expiry returns when a question to humans expires: when the last of the intents that ask it
// expires. So an escalation can be answered on the first channel as well.
func (s *stepper) expiry(in *pb.ToolIntent) int64 {
	asked, latest := s.answered(in).GetIntentId(), in.GetExpiresAtMs()
	for _, p := range s.c.Pending {
		if s.answered(p).GetIntentId() == asked {
			latest = max(latest, p.GetExpiresAtMs())
		}
	}
	return latest
}

func (s *stepper) isEscalation(in *pb.ToolIntent) bool {
	return slices.Contains(s.c.EscalationIds, in.GetIntentId())
}

// sameCall reports whether two intents are for the same tool with the same arguments.
func sameCall(a, b *pb.ToolIntent) bool {
	return a.GetToolName() == b.GetToolName() && a.GetArgsJson() == b.GetArgsJson()
}

// remaining returns the open intents without the answered one. It also leaves out the escalations
// that ask for the same approval, so that an approval is used once.
func (s *stepper) remaining(answered *pb.ToolIntent) []*pb.ToolIntent {
	var open []*pb.ToolIntent
	for _, in := range s.c.Pending {
		if s.answered(in).GetIntentId() != answered.GetIntentId() {
			open = append(open, in)
		}
	}
	return open
}

// orphan makes a dead letter of an answer for which no intent is open.
func (s *stepper) orphan(env *pb.AgentEnvelope, id string, code deadletter.Code, text string) error {
	seq := s.c.Seq
	if s.c.Continuation != nil {
		seq = s.c.Continuation.GetSeq()
	}
	l, err := s.letterOf(env, deadletter.OrphanedResult, code, text)
	if err != nil {
		return err
	}
	l.Position = deadletter.Position{Seq: new(seq), IntentID: id}
	s.count(OrphanedResults)
	s.traceError(seq, env.GetEventTimeMs(), digest(l.Input), l, nil)
	return s.deadLetter(env.GetEventTimeMs(), l)
}

// resume resumes the suspended activation.
func (s *stepper) resume(env *pb.AgentEnvelope, id string, t agent.Trigger) error {
	ran, err := s.run(&attempt{
		trigger: t, env: env, now: env.GetEventTimeMs(), seq: s.c.Continuation.GetSeq(),
		startedMS: s.c.StartedMs, resumed: true, open: s.remaining(t.Intent), intentID: id,
	})
	if err != nil || !ran {
		return err
	}
	return s.drain(env.GetEventTimeMs())
}
