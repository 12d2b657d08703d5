package activation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Envelope handles an element of the key. It ignores the entity key in the envelope; the key of
// the element counts.
func (r *Rules) Envelope(k *Key, env *pb.AgentEnvelope) (Step, error) {
	s := r.step(k)
	return s.done(s.envelope(env))
}

func (s *stepper) envelope(env *pb.AgentEnvelope) error {
	if t := env.GetEventTimeMs(); t < 0 || t > deadletter.MaxEventTimeMS {
		return s.refuse(env, deadletter.MalformedEnvelope, deadletter.BadEventTime,
			fmt.Sprintf("event_time_ms is %d, the range is 0 to %d", t, int64(deadletter.MaxEventTimeMS)))
	}
	// A payload that is a typed nil pointer means what it does on the wire. Only user code that
	// is fused with this step can hand one over.
	switch p := env.GetPayload().(type) {
	case *pb.AgentEnvelope_ExternalEvent:
		if p != nil {
			return s.event(env, p.ExternalEvent)
		}
	case *pb.AgentEnvelope_ToolResult:
		if p != nil {
			return s.checked(env, func() error { return s.toolResult(env, p.ToolResult) })
		}
	case *pb.AgentEnvelope_Approval_:
		if p != nil {
			return s.checked(env, func() error { return s.approval(env, p.Approval) })
		}
	case *pb.AgentEnvelope_ExportRequest:
		if p != nil {
			return s.checked(env, func() error { return s.export(env, p.ExportRequest) })
		}
	}
	if len(env.ProtoReflect().GetUnknown()) > 0 {
		return s.refuse(env, deadletter.UnknownPayload, deadletter.NewerVariant, "the payload is of a newer schema")
	}
	return s.refuse(env, deadletter.MalformedEnvelope, deadletter.EmptyPayload, "the envelope has no payload")
}

// checked handles an envelope if its texts are UTF-8, and refuses it otherwise, because a coder
// would then fail the bundle. Only user code that is fused with this step can hand over such an
// envelope.
func (s *stepper) checked(env *pb.AgentEnvelope, take func() error) error {
	result, approval := env.GetToolResult(), env.GetApproval()
	if utf8.ValidString(result.GetIntentId()) && utf8.ValidString(result.GetErrorMessage()) &&
		utf8.ValidString(approval.GetIntentId()) && utf8.ValidString(approval.GetApprover()) &&
		utf8.ValidString(env.GetExportRequest().GetRequestId()) {
		return take()
	}
	return s.refuse(env, deadletter.MalformedEnvelope, deadletter.Unparsable,
		"the envelope has text that is not UTF-8; the input has U+FFFD in place of the invalid bytes")
}

// repaired returns a copy of an envelope with U+FFFD in place of invalid UTF-8.
func repaired(env *pb.AgentEnvelope) *pb.AgentEnvelope {
	repair := func(text *string) { *text = strings.ToValidUTF8(*text, string(utf8.RuneError)) }
	env = proto.CloneOf(env)
	if m := env.GetToolResult(); m != nil {
		repair(&m.IntentId)
		repair(&m.ErrorMessage)
	}
	if m := env.GetApproval(); m != nil {
		repair(&m.IntentId)
		repair(&m.Approver)
	}
	if m := env.GetExportRequest(); m != nil {
		repair(&m.RequestId)
	}
	return env
}

// event handles an external event: it runs the agent, defers the event, or refuses it.
func (s *stepper) event(env *pb.AgentEnvelope, event []byte) error {
	now := env.GetEventTimeMs()
	// Deferred events arrived earlier, so they run first.
	if err := s.drain(s.c.GetDrainNowMs()); err != nil {
		return err
	}
	if s.c.Continuation != nil || s.c.DeferredCount > 0 {
		return s.waits(env, event)
	}
	_, err := s.run(&attempt{
		trigger: agent.Trigger{Kind: agent.Event, Event: event},
		env:     env, now: now, seq: s.c.Seq, startedMS: now, names: true,
	})
	return err
}

// waits defers or refuses an event for a suspended key.
func (s *stepper) waits(env *pb.AgentEnvelope, event []byte) error {
	now := env.GetEventTimeMs()
	id, failure := s.eventID(event)
	switch {
	case failure != nil:
		return s.fail(&attempt{env: env, now: now, seq: s.c.Seq}, failure, agent.Staged{})
	case id != 0 && slices.Contains(s.c.RecentEventIds, id):
		s.count(EventsDuplicate)
		return nil
	case s.WhileSuspended == Reject && s.c.Continuation != nil:
		return s.refuse(env, deadletter.Suspended, deadletter.Rejected, "the key is suspended, and WhileSuspended is Reject")
	}
	size := int64(proto.Size(env))
	if n := int64(s.c.DeferredCount) + 1; n > int64(s.MaxDeferred) {
		return s.refuse(env, deadletter.DeferredOverflow, deadletter.Count,
			fmt.Sprintf("%d events are deferred, the limit is %d", s.c.DeferredCount, s.MaxDeferred))
	}
	if size > s.MaxDeferredBytes-s.c.DeferredBytes {
		return s.refuse(env, deadletter.DeferredOverflow, deadletter.Bytes,
			fmt.Sprintf("%d bytes of events are deferred and this one has %d, the limit is %d", s.c.DeferredBytes, size, s.MaxDeferredBytes))
	}
	// A copy, because the runner may reuse the element.
	if err := s.k.Deferred.Add(&runtimepb.DeferredEvent{Arrival: s.c.NextArrival, Envelope: proto.CloneOf(env)}); err != nil {
		return err
	}
	s.c.NextArrival++
	s.c.DeferredCount++
	s.c.DeferredBytes += size
	s.c.TimeoutsInRow = 0
	s.remember(id)
	s.changed()
	s.touch(now)
	s.count(EventsDeferred)
	return nil
}

// Drain runs deferred events.
func (r *Rules) Drain(k *Key) (Step, error) {
	s := r.step(k)
	return s.done(s.drain(s.c.GetDrainNowMs()))
}

// drain runs deferred events in the order of arrival, until one of them suspends, the last one
// has run, or the step has run enough. now is the time at which the suspension ended.
func (s *stepper) drain(now int64) error {
	if s.c.Continuation != nil || s.c.DeferredCount == 0 {
		return nil
	}
	events, err := s.k.Deferred.Events()
	if err != nil {
		return err
	}
	s.c.DrainNowMs = now
	s.changed()
	done := 0
	for _, e := range events {
		if s.c.Continuation != nil || s.drained == maxDrained {
			break
		}
		s.drained++
		done++
		env := e.GetEnvelope()
		s.c.DeferredCount--
		s.c.DeferredBytes -= int64(proto.Size(env))
		if _, err := s.run(&attempt{
			trigger: agent.Trigger{Kind: agent.Event, Event: env.GetExternalEvent()},
			env:     env, now: max(env.GetEventTimeMs(), now), seq: s.c.Seq, startedMS: max(env.GetEventTimeMs(), now),
			arrival: new(e.GetArrival()),
		}); err != nil {
			return err
		}
	}
	if done == 0 && len(events) > 0 {
		return nil
	}
	s.k.Deferred.Clear()
	s.c.DeferredCount, s.c.DeferredBytes = 0, 0
	for _, e := range events[done:] {
		if err := s.k.Deferred.Add(e); err != nil {
			return err
		}
		s.c.DeferredCount++
		s.c.DeferredBytes += int64(proto.Size(e.GetEnvelope()))
	}
	if s.c.DeferredCount == 0 {
		s.c.DrainNowMs = 0
	}
	return nil
}

// eventID returns the hash of the agent's name for an event, or 0 if the event has no name.
func (s *stepper) eventID(event []byte) (uint64, *Failure) {
	named, ok := s.Agent.(agent.EventIdentifier)
	if !ok {
		return 0, nil
	}
	var name string
	if failure := s.k.Call(func(context.Context) { name = named.EventID(bytes.Clone(event)) }); failure != nil {
		failure.Text = "EventID: " + failure.Text
		return 0, failure
	}
	return hashName(name), nil
}

func hashName(name string) uint64 {
	if name == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(name))
	return max(binary.LittleEndian.Uint64(sum[:8]), 1) // 0 stands for "no name"
}

func (s *stepper) remember(id uint64) {
	if id == 0 {
		return
	}
	ids := append(slices.Clone(s.c.RecentEventIds), id)
	s.c.RecentEventIds = ids[max(0, len(ids)-maxEventIDs):]
	s.changed()
}

// forget removes the name of a deferred event that failed, so that its dead letter can be sent
// again.
func (s *stepper) forget(id uint64) {
	if i := slices.Index(s.c.RecentEventIds, id); id != 0 && i >= 0 {
		s.c.RecentEventIds = slices.Delete(slices.Clone(s.c.RecentEventIds), i, i+1)
		s.changed()
	}
}

// export answers a request for the state of the key. It changes nothing.
func (s *stepper) export(env *pb.AgentEnvelope, req *pb.AgentEnvelope_StateExportRequest) error {
	mem, cache, err := s.k.Stored()
	if err != nil {
		return err
	}
	snapshot := &pb.StateSnapshot{
		StateSchemaVersion: currentVersion,
		EntityKey:          bytes.Clone(s.k.Entity),
		Seq:                s.c.Seq,
		SnapshotAtMs:       env.GetEventTimeMs(),
		RequestId:          req.GetRequestId(),
	}
	// Copies, because later steps of the bundle change the originals.
	if mem != nil {
		snapshot.Memory = proto.CloneOf(mem)
	}
	if cache != nil {
		snapshot.LlmCache = proto.CloneOf(cache)
	}
	if s.c.Continuation != nil {
		snapshot.Continuation = proto.CloneOf(s.c.Continuation)
	}
	for _, in := range s.c.Pending {
		snapshot.Pending = append(snapshot.Pending, proto.CloneOf(in))
	}
	s.out.Effects = append(s.out.Effects, Effect{AtMS: env.GetEventTimeMs(), Snapshot: snapshot})
	s.count(SnapshotsTaken)
	return nil
}
