package activation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/memory"
	"github.com/beamagents/beamagents-go/pkg/migrate"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const currentVersion = migrate.Current

// attempt is one try of an activation.
type attempt struct {
	trigger   agent.Trigger
	env       *pb.AgentEnvelope // nil if a timer starts the attempt
	now       int64
	seq       int64
	startedMS int64 // when the first attempt of the activation began
	resumed   bool
	open      []*pb.ToolIntent // the open intents without the answered one
	intentID  string           // the id of the intent that the envelope answers
	arrival   *int64           // the arrival number of a deferred event
	names     bool             // the name of the event is still to be checked

	measured    func() int64
	traceParent string // the traceparent of the caller, as the agent has read it
}

// entry returns the step at which an attempt begins.
func (s *stepper) entry(a *attempt) uint32 {
	if a.resumed {
		return s.c.Continuation.GetStepIndex()
	}
	return 0
}

// run tries an activation and reports whether it has taken effect. If it fails, run makes a dead
// letter.
func (s *stepper) run(a *attempt) (ran bool, err error) {
	if a.resumed && s.c.Continuation.GetAdapter() != s.Name {
		return false, s.failWith(a, deadletter.AdapterMismatch, deadletter.Code(deadletter.AdapterMismatch),
			fmt.Sprintf("agent %q has suspended the key, this one is %q", s.c.Continuation.GetAdapter(), s.Name))
	}
	if s.MaxActivationsPerHour > 0 && a.now/hourMS <= s.c.Hour && int(s.c.ActivationsInHour) >= s.MaxActivationsPerHour {
		if a.names { // a duplicate is dropped and makes no dead letter
			id, failure := s.eventID(a.trigger.Event)
			switch {
			case failure != nil:
				return false, s.fail(a, failure, agent.Staged{})
			case id != 0 && slices.Contains(s.c.RecentEventIds, id):
				s.count(EventsDuplicate)
				return true, nil
			}
		}
		return false, s.failWith(a, deadletter.BudgetExceeded, deadletter.Activations,
			fmt.Sprintf("%d activations of the key in an hour, the limit is %d", s.c.ActivationsInHour, s.MaxActivationsPerHour))
	}

	start := agent.Start{
		Trigger: a.trigger, Key: s.k.Entity, Seq: a.seq, Step: s.entry(a), NowMS: a.now, Open: a.open,
		MaxIntents: s.MaxIntents, MaxOutputBytes: s.MaxOutputBytes,
	}
	key, seq, entry, resumes := s.k.Entity, a.seq, s.entry(a), s.resumes(a)
	start.TraceParent = func() string {
		trace, span := intent.TraceID(key, seq), attemptSpan(key, seq, entry, resumes)
		return fmt.Sprintf("00-%x-%x-01", trace[:], span[:])
	}
	var mem *memory.Memory
	start.Memory = func() (*memory.Memory, error) {
		if mem == nil {
			m, err := s.k.Memory()
			if err != nil {
				return nil, err
			}
			m.SetNow(a.now)
			m.Begin()
			mem = m
		}
		return mem, nil
	}
	var stored []byte
	var storedVersion uint32
	if a.resumed {
		stored, storedVersion = s.c.Continuation.GetSnapshot(), s.c.SnapshotVersion
	}
	measured := func() int64 { return 0 }
	if s.k.Measure != nil {
		measured = s.k.Measure()
	}
	if s.MeasureDurations {
		a.measured, start.Offset = measured, measured
	}

	// result is read only if the agent's code has returned, because code that ignores its time
	// limit may still write to it. For the same reason the code gets copies of the state that
	// later steps change.
	var result struct {
		outcome   agent.Outcome
		failure   *Failure
		name      uint64
		duplicate bool
		version   uint32
	}
	recent := s.c.RecentEventIds
	cache := s.calls(a, &start, measured)
	act := agent.Begin(start)
	var phase, traceParent atomic.Pointer[string]
	enter := func(name string) { phase.Store(&name) }
	failure := s.k.Call(func(ctx context.Context) {
		if a.trigger.Kind == agent.Event {
			if named, ok := s.Agent.(agent.EventIdentifier); ok && a.names {
				enter("EventID")
				result.name = hashName(named.EventID(bytes.Clone(a.trigger.Event)))
				if result.duplicate = result.name != 0 && slices.Contains(recent, result.name); result.duplicate {
					return
				}
			}
			if linker, ok := s.Agent.(agent.TraceLinker); ok {
				enter("TraceParent")
				parent := linker.TraceParent(bytes.Clone(a.trigger.Event))
				traceParent.Store(&parent)
			}
		}
		if versioned, ok := s.Agent.(agent.SnapshotVersioner); ok {
			enter("SnapshotVersion")
			result.version = versioned.SnapshotVersion()
		}
		snapshot := stored
		if a.resumed && storedVersion != result.version {
			enter("MigrateSnapshot")
			var err error
			if snapshot, err = s.migrate(storedVersion, result.version, bytes.Clone(stored)); err != nil {
				result.failure = &Failure{Reason: deadletter.ActivationError, Code: deadletter.SnapshotVersion, Text: describe(err)}
				return
			}
		}
		enter("")
		if act.Restore(snapshot) != nil {
			return // the time was up before Run began
		}
		outcome, err := s.Agent.Run(ctx, act)
		// This runs under the time limit, because the methods of an error are the agent's code.
		switch {
		case err != nil:
			result.failure = &Failure{Reason: deadletter.ActivationError, Code: codeOf(err), Text: describe(err)}
		case outcome.Kind == agent.RejectOutcome:
			result.failure = &Failure{Reason: deadletter.ActivationError, Code: deadletter.Rejected, Text: describe(outcome.Err)}
		}
		result.outcome = outcome
	})
	staged := act.End() // from here on, calls of the agent have no effect
	if p := traceParent.Load(); p != nil {
		a.traceParent = *p
	}
	s.out.DurationsMS = append(s.out.DurationsMS, measured())
	keep := false
	defer func() {
		switch {
		case mem == nil:
		case keep:
			mem.Keep()
		default:
			mem.Rollback()
		}
	}()
	if staged.StateErr != nil {
		return false, staged.StateErr
	}
	s.countCalls(staged.Calls, s.out.DurationsMS[len(s.out.DurationsMS)-1])
	if failure != nil {
		where := ""
		if p := phase.Load(); p != nil {
			where = *p
		}
		if where != "" {
			failure.Text = where + ": " + failure.Text
		}
		if (where == "MigrateSnapshot" || where == "SnapshotVersion") && failure.Reason == deadletter.ActivationError {
			failure.Code = deadletter.SnapshotVersion
		}
		return false, s.fail(a, failure, staged)
	}
	if result.duplicate {
		s.count(EventsDuplicate)
		return true, nil
	}
	if failure := s.failureOf(a, result.outcome, result.failure, staged); failure != nil {
		return false, s.fail(a, failure, staged)
	}
	if err := s.commitCalls(&staged.Calls, cache); err != nil {
		return false, err
	}
	keep = true
	s.apply(a, result.outcome, staged, result.version)
	s.remember(result.name)
	return true, nil
}

// migrate brings a snapshot to the agent's version.
func (s *stepper) migrate(from, to uint32, snapshot []byte) ([]byte, error) {
	migrator, ok := s.Agent.(agent.SnapshotMigrator)
	switch {
	case from > to:
		return nil, fmt.Errorf("the snapshot has version %d, this build of the agent knows %d", from, to)
	case !ok:
		return nil, fmt.Errorf("the snapshot has version %d and the agent version %d: give the agent a method MigrateSnapshot", from, to)
	}
	out, err := migrator.MigrateSnapshot(from, snapshot)
	if err != nil {
		return nil, fmt.Errorf("MigrateSnapshot from version %d to %d: %w", from, to, err)
	}
	return bytes.Clone(out), nil
}

// failureOf returns why an activation fails although its code has returned, or nil. told is the
// failure that the agent's code has returned.
func (s *stepper) failureOf(a *attempt, o agent.Outcome, told *Failure, staged agent.Staged) *Failure {
	failed := func(code deadletter.Code, text string) *Failure {
		return &Failure{Reason: deadletter.ActivationError, Code: code, Text: text}
	}
	switch {
	case staged.Err != nil: // checked first, because the agent may have ignored it
		return failed(codeOf(staged.Err), staged.Err.Error())
	case staged.Calls.Err != nil: // the agent may have ignored this, too
		return &Failure{Reason: deadletter.BudgetExceeded, Code: deadletter.Tokens, Text: staged.Calls.Err.Error()}
	case told != nil:
		return told
	}
	switch o.Kind {
	case agent.DoneOutcome:
		return nil
	case agent.SuspendOutcome:
		if o.Timeout.Milliseconds() < 1 {
			return failed(deadletter.Failed, fmt.Sprintf("Suspend has a timeout of %v; use at least 1ms", o.Timeout))
		}
		if len(o.Snapshot) > s.MaxSnapshotBytes {
			return failed(deadletter.SnapshotTooLarge, fmt.Sprintf("the snapshot has %d bytes, the limit is %d", len(o.Snapshot), s.MaxSnapshotBytes))
		}
		pending := 0
		for _, in := range append(slices.Clone(a.open), staged.Intents...) {
			pending += proto.Size(in)
		}
		if pending > s.MaxOutputBytes {
			return failed(deadletter.OutputTooLarge, fmt.Sprintf("the open intents have %d bytes, the limit is %d", pending, s.MaxOutputBytes))
		}
		return nil
	}
	return failed(deadletter.Failed, "Run returned the zero Outcome; use Done, Suspend or Reject")
}

// codeOf returns the code for an error that an agent returned or ignored.
func codeOf(err error) deadletter.Code {
	for _, known := range []struct {
		err  error
		code deadletter.Code
	}{
		{memory.ErrOverflow, deadletter.MemoryOverflow},
		{agent.ErrTooManyIntents, deadletter.TooManyIntents},
		{agent.ErrOutputTooLarge, deadletter.OutputTooLarge},
		{agent.ErrInvalidText, deadletter.InvalidText},
	} {
		if isError(err, known.err) {
			return known.code
		}
	}
	return deadletter.Failed
}

// isError is errors.Is that recovers panics: the methods of err are the agent's code.
func isError(err, target error) (is bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, target)
}

// describe returns the text of an error. The method Error may panic.
func describe(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T that panics when it is asked what is wrong", err)
		}
	}()
	return err.Error()
}

// apply applies an activation that has succeeded: it makes the next state and the effects.
func (s *stepper) apply(a *attempt, o agent.Outcome, staged agent.Staged, version uint32) {
	entry, resumes := s.entry(a), s.resumes(a)
	s.changed()
	c := s.c
	c.Seq++
	if s.MaxActivationsPerHour > 0 {
		if hour := a.now / hourMS; hour > c.Hour {
			c.Hour, c.ActivationsInHour = hour, 0
		}
		c.ActivationsInHour++
	}
	if a.env != nil {
		c.TimeoutsInRow = 0
	}
	s.count(Activations)

	startedMS := a.startedMS
	t := s.tracer(a.seq, a.now)
	span := attemptSpan(s.k.Entity, a.seq, entry, resumes)
	t.begin(span, a, startedMS)
	t.calls(span, staged, entry, resumes)
	for i, in := range staged.Intents {
		t.intent(span, in, "", offset(staged, i))
		s.emitIntent(a.now, in)
	}
	for _, out := range staged.Outputs {
		s.out.Effects = append(s.out.Effects, Effect{AtMS: a.now, Output: out})
	}
	status := "completed"
	if o.Kind == agent.SuspendOutcome {
		status = "suspended"
		s.suspend(a, o, staged, version)
		t.suspended(span, c.Continuation, staged.Step, entry, resumes)
		s.count(Suspensions)
	} else {
		s.endSuspension()
	}
	t.end(span, a, staged, startedMS, status)
	s.touch(a.now)
}

// resumes returns how often the activation was resumed, this attempt included.
func (s *stepper) resumes(a *attempt) int64 {
	if !a.resumed {
		return 0
	}
	return max(s.c.Seq-s.c.Continuation.GetSeq(), 1)
}

func offset(staged agent.Staged, i int) *int64 {
	if i < len(staged.Offsets) {
		return &staged.Offsets[i]
	}
	return nil
}

func (s *stepper) suspend(a *attempt, o agent.Outcome, staged agent.Staged, version uint32) {
	c := s.c
	c.Continuation = &pb.Continuation{
		StateSchemaVersion: currentVersion,
		Seq:                a.seq,
		StepIndex:          staged.Step,
		Adapter:            s.Name,
		Snapshot:           bytes.Clone(o.Snapshot),
		SuspendedAtMs:      a.now,
		DeadlineMs:         add(a.now, o.Timeout.Milliseconds()),
	}
	c.StartedMs, c.SnapshotVersion = a.startedMS, version
	s.setPending(append(slices.Clone(a.open), staged.Intents...))
}

// setPending sets the open intents of the suspension.
func (s *stepper) setPending(pending []*pb.ToolIntent) {
	s.c.Pending = pending
	ids := make([]string, len(pending))
	for i, in := range pending {
		ids[i] = in.GetIntentId()
	}
	s.c.Continuation.PendingIntentIds = ids
	s.c.EscalationIds = slices.DeleteFunc(slices.Clone(s.c.EscalationIds), func(id string) bool { return !slices.Contains(ids, id) })
}

// endSuspension clears everything that belongs to a suspension.
func (s *stepper) endSuspension() {
	c := s.c
	c.Continuation, c.Pending, c.ExpiredIntentIds, c.EscalationIds = nil, nil, nil, nil
	c.StartedMs, c.SnapshotVersion, c.TimeoutsInRow = 0, 0, 0
	s.changed()
}

func (s *stepper) emitIntent(now int64, in *pb.ToolIntent) {
	// A copy, because the original stays in state.
	s.out.Effects = append(s.out.Effects, Effect{AtMS: now, Intent: proto.CloneOf(in)})
	s.count(IntentsEmitted)
}

// fail makes the dead letter of an attempt that failed. The attempt changes nothing else.
func (s *stepper) fail(a *attempt, f *Failure, staged agent.Staged) error {
	f = withoutSecrets(f, staged.Calls.Secrets)
	l := deadletter.Letter{
		Reason: f.Reason, Code: f.Code, Error: f.Text,
		EntityKey: s.k.Entity, EventTimeMS: a.now, InputKind: deadletter.NoInput,
	}
	hash := digest([]byte(timerInput(a)))
	if a.env != nil {
		input, err := marshal(a.env)
		if err != nil {
			return err
		}
		l.InputKind, l.Input, l.EventTimeMS = deadletter.EnvelopeInput, input, a.env.GetEventTimeMs()
		hash = digest(input)
	}
	step := int64(max(staged.Step, s.entryOf(a)))
	l.Position = deadletter.Position{Seq: new(a.seq), Step: &step, IntentID: a.intentID, Arrival: a.arrival}
	if n := int64(len(staged.Intents)); n > 0 {
		l.Position.Intents, l.Position.LastEvent = &n, pb.TraceEvent_INTENT_EMITTED.String()
	}
	if n := modelCalls(staged.Calls); n > 0 {
		l.Position.ModelCalls = &n
	}
	if a.resumed {
		l.Position.DeadlineMS = new(s.c.Continuation.GetDeadlineMs())
	}
	if f.Code == deadletter.Rejected {
		s.count(InputsRejected)
	} else {
		s.count(AgentErrors)
		s.traceError(a.seq, a.now, hash, l, a)
	}
	if a.arrival != nil {
		// The name of the event was stored when it was deferred.
		if id, failure := s.eventID(a.env.GetExternalEvent()); failure == nil {
			s.forget(id)
		}
	}
	return s.deadLetter(a.now, l)
}

func (s *stepper) failWith(a *attempt, reason deadletter.Reason, code deadletter.Code, text string) error {
	return s.fail(a, &Failure{Reason: reason, Code: code, Text: text}, agent.Staged{})
}

func (s *stepper) entryOf(a *attempt) uint32 {
	if a.resumed && s.c.Continuation == nil {
		return 0
	}
	return s.entry(a)
}

// timerInput returns a text that stands for the input of an activation that a timer started.
func timerInput(a *attempt) string { return fmt.Sprintf("%s@%d", DeadlineTag, a.now) }

// traceParentForm is the W3C traceparent, version 00.
var traceParentForm = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// letterOf returns a dead letter about an envelope. An envelope that cannot be encoded is
// repaired.
func (s *stepper) letterOf(env *pb.AgentEnvelope, reason deadletter.Reason, code deadletter.Code, text string) (deadletter.Letter, error) {
	input, err := marshal(env)
	if err != nil {
		input, err = marshal(repaired(env))
	}
	if err != nil {
		return deadletter.Letter{}, err
	}
	return deadletter.Letter{
		Reason: reason, Code: code, Error: text, EntityKey: s.k.Entity, EventTimeMS: env.GetEventTimeMs(),
		InputKind: deadletter.EnvelopeInput, Input: input,
	}, nil
}

// refuse makes a dead letter of an envelope. The envelope has no other effect.
func (s *stepper) refuse(env *pb.AgentEnvelope, reason deadletter.Reason, code deadletter.Code, text string) error {
	l, err := s.letterOf(env, reason, code, text)
	if err != nil {
		return err
	}
	return s.deadLetter(env.GetEventTimeMs(), l)
}

func (s *stepper) deadLetter(at int64, l deadletter.Letter) error {
	rec, err := l.Record()
	if err != nil {
		return err
	}
	at = min(max(at, 0), deadletter.MaxEventTimeMS)
	s.out.Effects = append(s.out.Effects, Effect{AtMS: at, Error: rec})
	return nil
}

func marshal(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}
