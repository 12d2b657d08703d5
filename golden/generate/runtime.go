package main

import (
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const dayMs = 86_400_000

// runtimeState is every blob of the keyed state of the runtime itself.
func runtimeState() []blob { return slices.Concat(keyControls(), deferredEvents()) }

// keyControl is a suspended key with every field set.
func keyControl() *runtimepb.KeyControl {
	return edit(suspended(), func(c *runtimepb.KeyControl) {
		c.NextArrival, c.DeferredCount = 3, 2
		c.DeferredBytes = int64(proto.Size(deferred(1, envelopeEvent([]byte("one")))) + proto.Size(deferred(2, envelopeEvent([]byte("two")))))
	})
}

// suspended waits for two intents; a third one has expired.
func suspended() *runtimepb.KeyControl {
	return &runtimepb.KeyControl{
		StateSchemaVersion: 1, Seq: 8, Continuation: continuation(), Pending: []*pb.ToolIntent{intentHTTP(), intentApproval()},
		ExpiredIntentIds: []string{"2e047468-1bb8-5717-8cb0-d8e98f15a767"}, TtlMarkMs: t0 + dayMs, StartedMs: t0 - 60_000,
	}
}

func keyControls() []blob {
	return []blob{
		{name: "key_control", doc: "Suspended, with deferred events: every field.", value: keyControl()},
		{
			name: "key_control_fresh", doc: "After the first activation of a key, which is done.",
			value: &runtimepb.KeyControl{StateSchemaVersion: 1, Seq: 1, TtlMarkMs: t0 + dayMs},
		},
		{name: "key_control_suspended", doc: "Suspended: waits for two intents, a third one has expired; nothing is deferred.", value: suspended()},
		{
			name: "key_control_sleep", doc: "Suspended in its first activation, waits for nothing but the deadline.",
			value: &runtimepb.KeyControl{
				StateSchemaVersion: 1, Seq: 1, TtlMarkMs: t0 + dayMs, StartedMs: t0,
				Continuation: &pb.Continuation{StateSchemaVersion: 1, StepIndex: 1, Adapter: "triage", SuspendedAtMs: t0, DeadlineMs: t1},
			},
		},
		{
			name: "key_control_deferred", doc: "No longer suspended; two events wait for their turn.",
			value: edit(keyControl(), func(c *runtimepb.KeyControl) {
				c.Continuation, c.Pending, c.ExpiredIntentIds, c.StartedMs = nil, nil, nil, 0
			}),
		},
		{name: "key_control_empty", doc: "No bytes at all: every field is zero.", value: &runtimepb.KeyControl{}},
		{
			name: "key_control_empty_parts", doc: "An empty continuation is a suspension; an empty intent and an empty id are kept.",
			value: &runtimepb.KeyControl{
				StateSchemaVersion: 1, Continuation: &pb.Continuation{}, Pending: []*pb.ToolIntent{{}}, ExpiredIntentIds: []string{""},
			},
		},
		{
			name: "key_control_stamp_0", doc: "Without a stamp: 0, which reads as 1 and stays 0 when re-encoded. So is the continuation in it.",
			value: edit(keyControl(), func(c *runtimepb.KeyControl) { c.StateSchemaVersion, c.Continuation.StateSchemaVersion = 0, 0 }),
		},
		{
			name: "key_control_mixed_versions", doc: "The stamp of the continuation is its own: 0 inside of 1.",
			value: edit(suspended(), func(c *runtimepb.KeyControl) { c.Continuation.StateSchemaVersion = 0 }),
		},
		{
			name: "key_control_future_continuation", doc: "A continuation from the future inside of 1, with a field of that version: decodes, and nobody touches it.",
			value: edit(suspended(), func(c *runtimepb.KeyControl) {
				withUnknown(c.Continuation, text(510, "new")).StateSchemaVersion = futureVersion
			}),
		},
		{
			name: "key_control_future_version", doc: "A stamp from the future with a field of that version: decodes, and nobody touches it. The continuation has 1.",
			value: withUnknown(edit(suspended(), func(c *runtimepb.KeyControl) { c.StateSchemaVersion = futureVersion }), varint(504, 1)),
		},
		{
			name: "key_control_newer", doc: "Fields of a newer schema, in an intent too.",
			value: withUnknown(edit(keyControl(), func(c *runtimepb.KeyControl) {
				withUnknown(c.Pending[1], varint(500, 42))
			}), varint(500, 42)),
		},
		{
			name: "key_control_order", doc: "Intents and expired ids in their own order, repeated ones kept.",
			value: edit(suspended(), func(c *runtimepb.KeyControl) {
				c.Pending = []*pb.ToolIntent{intentApproval(), intentHTTP(), intentApproval()}
				c.ExpiredIntentIds = []string{id2, "", id1, id2}
			}),
		},
		{
			name: "key_control_not_canonical", doc: "key_control from a careless writer: fields out of order, a continuation in two parts, a repeated scalar.",
			value: keyControl(), wire: carelessControl(),
		},
		{
			name: "key_control_extremes", doc: "The ends of every number.",
			value: &runtimepb.KeyControl{
				StateSchemaVersion: 1, Seq: math.MaxInt64, TtlMarkMs: math.MinInt64, NextArrival: -1,
				DeferredCount: math.MaxUint32, DeferredBytes: -1, StartedMs: math.MaxInt64,
			},
		},
	}
}

// carelessControl encodes keyControl with the same value and none of the canonical form.
func carelessControl() []byte {
	first := &runtimepb.KeyControl{
		Continuation: &pb.Continuation{StateSchemaVersion: 5, PendingIntentIds: []string{id1}, Adapter: "overwritten"},
		Pending:      []*pb.ToolIntent{intentHTTP()}, StartedMs: 1,
	}
	rest := edit(keyControl(), func(c *runtimepb.KeyControl) {
		c.Continuation.PendingIntentIds, c.Pending = []string{id2}, c.Pending[1:]
	})
	return slices.Concat(encode(first), encode(rest))
}

func deferred(arrival int64, e *pb.AgentEnvelope) *runtimepb.DeferredEvent {
	return &runtimepb.DeferredEvent{Arrival: arrival, Envelope: e}
}

func deferredEvents() []blob {
	return []blob{
		{name: "deferred_event", doc: "An event, the third to arrive.", value: deferred(2, envelopeEvent([]byte(`{"type":"order.created"}`)))},
		{
			name: "deferred_event_first", doc: "The first to arrive: arrival is 0 and so not written. Set but empty is an event.",
			value: deferred(0, bare(envelopeEvent([]byte{}))),
		},
		{name: "deferred_event_empty", doc: "No bytes at all: no envelope.", value: &runtimepb.DeferredEvent{}},
		{name: "deferred_event_empty_envelope", doc: "An empty envelope differs from none.", value: deferred(1, &pb.AgentEnvelope{})},
		{name: "deferred_event_result", doc: "A bag holds any envelope; a negative arrival takes ten bytes.", value: deferred(-1, envelopeResult(toolResult()))},
		{
			name: "deferred_event_newer", doc: "Fields of a newer schema, in the envelope too.",
			value: withUnknown(deferred(2, withUnknown(envelopeEvent([]byte("event")), varint(508, 1))), varint(500, 42)),
		},
		{
			name: "deferred_event_newer_variant", doc: "An envelope with a variant of a newer schema, which is kept.",
			value: deferred(2, withUnknown(&pb.AgentEnvelope{EntityKey: entity1, EventTimeMs: t0}, text(507, "\x0a\x01x"))),
		},
	}
}
