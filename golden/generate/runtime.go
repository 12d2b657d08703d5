package main

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const dayMs = 86_400_000

// runtimeState returns every blob of the runtime's keyed state.
func runtimeState() []blob { return slices.Concat(keyControls(), deferredEvents(), storedResponses()) }

// keyControl returns the state of a suspended key, with every field set.
func keyControl() *runtimepb.KeyControl {
	return edit(suspended(), func(c *runtimepb.KeyControl) {
		c.NextArrival, c.DeferredCount = 3, 2
		c.DeferredBytes = int64(proto.Size(deferred(1, envelopeEvent([]byte("one")))) + proto.Size(deferred(2, envelopeEvent([]byte("two")))))
	})
}

// suspended returns the state of a key that waits for two intents; a third one has expired.
func suspended() *runtimepb.KeyControl {
	return &runtimepb.KeyControl{
		StateSchemaVersion: 1, Seq: 8, Continuation: continuation(), Pending: []*pb.ToolIntent{intentHTTP(), intentApproval()},
		ExpiredIntentIds: []string{"2e047468-1bb8-5717-8cb0-d8e98f15a767"}, TtlMarkMs: t0 + dayMs, StartedMs: t0 - 60_000,
	}
}

// escalated returns the state of a key that waits for the answer to an approval, or to the intent
// that escalates it, after one timeout. A deferred event has suspended it, and two more events
// are still deferred. Every field is set.
func escalated() *runtimepb.KeyControl {
	const escalation = "bbbbbbbb-cccc-5ddd-8eee-ffffffffffff"
	return edit(keyControl(), func(c *runtimepb.KeyControl) {
		c.Continuation.PendingIntentIds, c.Continuation.Escalations = []string{id1, id2, escalation}, 1
		c.Pending = append(c.Pending, edit(intentApproval(), func(i *pb.ToolIntent) { i.IntentId, i.StepIndex = escalation, 4 }))
		c.TtlArmedMs, c.SnapshotVersion, c.RecentEventIds = t0+dayMs, 3, recentIDs(3)
		c.Hour, c.ActivationsInHour, c.TimeoutsInRow, c.EscalationIds = t0/3_600_000, 12, 1, []string{escalation}
		c.DrainNowMs = t0 - 30_000
	})
}

// recentIDs returns the ids of n events.
func recentIDs(n int) (ids []uint64) {
	for i := range n {
		hash := sha256.Sum256([]byte(strconv.Itoa(i)))
		ids = append(ids, binary.LittleEndian.Uint64(hash[:]))
	}
	return ids
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
		{name: "key_control_all_fields", doc: "Suspended, after an escalation, with deferred events, counts and recent events.", value: escalated()},
		{
			name: "key_control_recent", doc: "Idle, with as many recent events as are kept: a packed list with a length of two bytes.",
			value: &runtimepb.KeyControl{
				StateSchemaVersion: 1, Seq: 300, TtlMarkMs: t0 + dayMs, TtlArmedMs: t0 + dayMs/2, RecentEventIds: recentIDs(256),
				Hour: t0 / 3_600_000, ActivationsInHour: 200,
			},
		},
		{
			name: "key_control_recent_extremes", doc: "The ends of the numbers that came with recent events; an empty id and a repeated 0 are kept.",
			value: &runtimepb.KeyControl{
				StateSchemaVersion: 1, TtlArmedMs: math.MinInt64, SnapshotVersion: math.MaxUint32,
				RecentEventIds: []uint64{0, math.MaxUint64, 0, 1, 1 << 63}, Hour: -1, ActivationsInHour: math.MaxUint32,
				TimeoutsInRow: math.MaxUint32, EscalationIds: []string{"", "é", ""}, DrainNowMs: math.MinInt64,
			},
		},
		{
			name: "key_control_all_fields_newer", doc: "Every field, and fields of a newer schema.",
			value: withUnknown(escalated(), slices.Concat(varint(500, 42), text(511, "new"))),
		},
		{
			name: "key_control_all_fields_future_version", doc: "Every field under a stamp from the future: decodes, and nobody touches it.",
			value: edit(escalated(), func(c *runtimepb.KeyControl) { c.StateSchemaVersion = futureVersion }),
		},
		{
			name: "key_control_not_packed", doc: "Recent events as writers differ: packed, one by one, and packed again, between other fields.",
			value: &runtimepb.KeyControl{StateSchemaVersion: 1, RecentEventIds: recentIDs(5), TimeoutsInRow: 7, EscalationIds: []string{id1, id2}},
			wire:  notPacked(),
		},
	}
}

// notPacked returns a valid encoding of five recent events that our writers never make.
func notPacked() []byte {
	ids := recentIDs(5)
	b := encode(&runtimepb.KeyControl{EscalationIds: []string{id1}, RecentEventIds: ids[:2], TimeoutsInRow: 6})
	for _, id := range ids[2:4] {
		b = append(b, fixed64(13, id)...)
	}
	return append(b, encode(&runtimepb.KeyControl{
		StateSchemaVersion: 1, RecentEventIds: ids[4:], TimeoutsInRow: 7, EscalationIds: []string{id2},
	})...)
}

// carelessControl encodes keyControl in a form that has the same value but is not canonical.
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

// storedResponse returns the answer of a model over HTTP, deflated.
func storedResponse() *runtimepb.StoredResponse {
	const answer = `{"id":"chatcmpl-1","object":"chat.completion","model":"m","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"refund"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`
	return &runtimepb.StoredResponse{
		Status:  200,
		Headers: []*runtimepb.StoredHeader{{Name: "Content-Type", Value: "application/json"}, {Name: "X-Request-Id", Value: "req_1"}},
		// A stored block looks the same in every version of a compressor.
		Body:     slices.Concat([]byte{1, byte(len(answer)), byte(len(answer) >> 8), ^byte(len(answer)), ^byte(len(answer) >> 8)}, []byte(answer)),
		Deflated: true, BodyBytes: int64(len(answer)), Seq: 7,
		Request: []*runtimepb.RequestPart{
			{Path: "body.messages[0]", Digest: 0x01020304}, {Path: "body.model", Digest: 0xfffefdfc}, {Path: "headers"}, {Path: "method", Digest: 1},
			{Path: "url", Digest: 1 << 31},
		},
	}
}

func storedResponses() []blob {
	return []blob{
		{name: "stored_response", doc: "The answer of a model over HTTP, deflated (a stored block).", value: storedResponse()},
		{
			name: "stored_response_sealed", doc: "Every field: deflated, then sealed by the agent.",
			value: edit(storedResponse(), func(r *runtimepb.StoredResponse) { r.Body, r.Sealed = []byte{0, 1, 2, 255}, true }),
		},
		{
			name: "stored_response_call", doc: "Of a call that was not made over HTTP: no status, no header; as it is.",
			value: &runtimepb.StoredResponse{Body: []byte("hi"), BodyBytes: 2, Request: []*runtimepb.RequestPart{{Path: "model", Digest: 5}}},
		},
		{name: "stored_response_empty", doc: "No bytes at all: an empty answer of the first activation.", value: &runtimepb.StoredResponse{}},
		{
			name: "stored_response_extremes", doc: "The ends of every number, and empty parts.",
			value: &runtimepb.StoredResponse{
				Status: math.MaxUint32, Headers: []*runtimepb.StoredHeader{{}}, BodyBytes: math.MinInt64, Seq: math.MaxInt64,
				Request: []*runtimepb.RequestPart{{}, {Path: "é", Digest: math.MaxUint32}},
			},
		},
		{
			name: "stored_response_usage", doc: "With what it says of itself.",
			value: edit(storedResponse(), func(r *runtimepb.StoredResponse) {
				r.Usage = &runtimepb.StoredUsage{
					Provider: "openai", ResponseModel: "m", ResponseId: "chatcmpl-1", FinishReasons: []string{"stop"}, Known: true, InputTokens: 9, OutputTokens: 1,
				}
			}),
		},
		{
			name: "stored_response_usage_extremes", doc: "The ends of every number of the usage.",
			value: &runtimepb.StoredResponse{Usage: &runtimepb.StoredUsage{
				FinishReasons: []string{"", "é"}, InputTokens: math.MaxInt64, OutputTokens: math.MinInt64, CacheReadInputTokens: -1, CacheCreationInputTokens: 1,
			}},
		},
		{
			name: "stored_response_newer", doc: "Fields of a newer schema, in a part too.",
			value: withUnknown(edit(storedResponse(), func(r *runtimepb.StoredResponse) {
				withUnknown(r.Request[1], varint(500, 42))
			}), varint(500, 42)),
		},
	}
}
