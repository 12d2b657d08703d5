package activation

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The tags of the timers.
const (
	DeadlineTag = "deadline"
	TTLTag      = "ttl"
	WakeTag     = "wake"
)

// Timeout handles the timer that is due at [Deadline]. If the key is not suspended, it does
// nothing.
func (r *Rules) Timeout(k *Key) (Step, error) {
	s := r.step(k)
	return s.done(s.timeout())
}

func (s *stepper) timeout() error {
	due, ok := Deadline(s.c)
	if !ok {
		return nil
	}
	s.count(Timeouts)
	cont := s.c.Continuation
	if s.c.TimeoutsInRow >= maxTimeoutsInRow {
		return s.drop(due, deadletter.Endless,
			fmt.Sprintf("%d timeouts and expiries in a row without an event or an answer", s.c.TimeoutsInRow))
	}
	s.c.TimeoutsInRow++
	s.changed()
	if due < cont.GetDeadlineMs() {
		return s.expire(due)
	}
	due = cont.GetDeadlineMs()
	if cont.GetAdapter() != s.Name {
		return s.drop(due, deadletter.Dropped, fmt.Sprintf("agent %q has suspended the key, this one is %q", cont.GetAdapter(), s.Name))
	}
	route := agent.Deny([]byte(agent.DefaultTimeoutOutput))
	if policy, ok := s.Agent.(agent.TimeoutRouter); ok {
		t := agent.Timeout{
			Key: bytes.Clone(s.k.Entity), Seq: cont.GetSeq(), Snapshot: bytes.Clone(cont.GetSnapshot()),
			DeadlineMS: due, Escalations: int(cont.GetEscalations()),
		}
		for _, in := range s.c.Pending {
			t.Pending = append(t.Pending, proto.CloneOf(in))
		}
		if failure := s.k.Call(func(context.Context) { route = policy.TimeoutPolicy(t) }); failure != nil {
			return s.drop(due, deadletter.PolicyError, "TimeoutPolicy: "+failure.Text)
		}
		if err := route.Validate(); err != nil {
			return s.drop(due, deadletter.PolicyError, err.Error())
		}
		if n := len(route.Output); n > s.MaxOutputBytes {
			return s.drop(due, deadletter.PolicyError, fmt.Sprintf("TimeoutPolicy returned an output of %d bytes, the limit is %d", n, s.MaxOutputBytes))
		}
	}
	switch route.Kind {
	case agent.DropRoute:
		return s.drop(due, deadletter.Dropped, route.Reason)
	case agent.ResumeRoute:
		return s.timedOut(due)
	case agent.EscalateRoute:
		if int(cont.GetEscalations()) < route.Max {
			return s.escalate(due, route)
		}
		route = agent.Deny([]byte(agent.DefaultTimeoutOutput))
	}
	return s.deny(due, route)
}

// expire tells the agent that all open intents have expired. It tells each intent once, even if
// the activation fails.
func (s *stepper) expire(now int64) error {
	ids := make([]string, len(s.c.Pending))
	for i, in := range s.c.Pending {
		ids[i] = in.GetIntentId()
	}
	slices.Sort(ids)
	told := append(slices.Clone(s.c.ExpiredIntentIds), ids...)
	s.c.ExpiredIntentIds = told[max(0, len(told)-s.MaxIntents):]
	s.setPending(nil)
	s.changed()
	ran, err := s.run(&attempt{
		trigger: agent.Trigger{Kind: agent.Expired, ExpiredIDs: ids},
		now:     now, seq: s.c.Continuation.GetSeq(), startedMS: s.c.StartedMs, resumed: true,
	})
	if err != nil || !ran {
		return err
	}
	return s.drain(now)
}

// timedOut resumes the agent at its deadline. No later time would try it again, so a failure ends
// the suspension.
func (s *stepper) timedOut(now int64) error {
	ran, err := s.run(&attempt{
		trigger: agent.Trigger{Kind: agent.TimedOut},
		now:     now, seq: s.c.Continuation.GetSeq(), startedMS: s.c.StartedMs, resumed: true,
		open: s.c.Pending,
	})
	if err != nil {
		return err
	}
	if !ran {
		s.endSuspension()
		s.touch(now)
	}
	return s.drain(now)
}

func (s *stepper) deny(now int64, route agent.Route) error {
	s.traceTimeout(now, deadletter.HITLTimeout, "denied")
	if len(route.Output) > 0 {
		s.out.Effects = append(s.out.Effects, Effect{AtMS: now, Output: bytes.Clone(route.Output)})
	}
	s.endSuspension()
	s.touch(now)
	return s.drain(now)
}

func (s *stepper) drop(now int64, code deadletter.Code, text string) error {
	s.traceTimeout(now, deadletter.HITLTimeout, string(code))
	deadline := s.c.Continuation.GetDeadlineMs() // still ahead if an expiry, not the deadline, was one too many
	err := s.deadLetter(now, deadletter.Letter{
		Reason: deadletter.HITLTimeout, Code: code, Error: text,
		EntityKey: s.k.Entity, EventTimeMS: deadline, InputKind: deadletter.NoInput,
		Position: deadletter.Position{Seq: new(s.c.Continuation.GetSeq()), DeadlineMS: &deadline},
	})
	if err != nil {
		return err
	}
	s.count(AgentErrors)
	s.endSuspension()
	s.touch(now)
	return s.drain(now)
}

// escalate stages an intent that asks for the oldest open approval again.
func (s *stepper) escalate(now int64, route agent.Route) error {
	cont := s.c.Continuation
	i := slices.IndexFunc(s.c.Pending, func(in *pb.ToolIntent) bool {
		return intent.KindOf(in) == intent.Approval && !s.isEscalation(in)
	})
	if i < 0 {
		return s.drop(now, deadletter.PolicyError, "TimeoutPolicy returned Escalate, and no approval is open")
	}
	asked := s.c.Pending[i]
	deadline := add(now, route.Timeout.Milliseconds())
	in, err := intent.Builder{
		EntityKey: s.k.Entity, Seq: cont.GetSeq(), Step: cont.GetStepIndex(), Kind: intent.Approval, Name: asked.GetToolName(),
		CreatedAtMs: now, ExpiresAtMs: deadline,
	}.Build()
	if err != nil {
		return err
	}
	in.ArgsJson = asked.GetArgsJson()
	root := attemptSpan(s.k.Entity, cont.GetSeq(), 0, 0)
	s.tracer(cont.GetSeq(), now).intent(root, in, route.Channel, nil)
	s.emitIntent(now, in)
	s.count(Escalations)
	cont.StepIndex++
	cont.Escalations++
	cont.DeadlineMs = deadline
	s.c.EscalationIds = append(slices.Clone(s.c.EscalationIds), in.GetIntentId())
	s.setPending(append(slices.Clone(s.c.Pending), in))
	s.changed()
	s.touch(now)
	return nil
}

// Idle handles the timer that is due at the TTL mark. It clears memory and replay cache. It keeps
// seq, so that ids stay unique, and the count of activations in the hour, so that a TTL below an
// hour does not lift MaxActivationsPerHour. It does not clear a key that is suspended or has
// deferred events.
func (r *Rules) Idle(k *Key) (Step, error) {
	s := r.step(k)
	return s.done(s.idle())
}

func (s *stepper) idle() error {
	mark, ok := s.TTLMark(s.c)
	if !ok {
		return nil
	}
	// The TTL mark is after the deadline, so the deadline is due, too. This is otherwise only if
	// the TTL was off when the suspension began.
	if due, suspended := Deadline(s.c); suspended && due <= mark {
		if err := s.timeout(); err != nil {
			return err
		}
	}
	if s.c.Continuation != nil || s.c.DeferredCount > 0 {
		if err := s.drain(max(mark, s.c.GetDrainNowMs())); err != nil {
			return err
		}
		s.touch(mark)
		return nil
	}
	// Open both cells before clearing either, so that a cell of a newer version is not lost.
	mem, err := s.k.Memory()
	if err != nil {
		return err
	}
	cache, err := s.k.Cache()
	if err != nil {
		return err
	}
	mem.Clear()
	cache.Clear()
	s.c.TtlMarkMs, s.c.RecentEventIds = 0, nil
	s.changed()
	s.count(KeysCleared)
	return nil
}
