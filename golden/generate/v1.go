package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const (
	t0 = 1_700_000_000_000
	t1 = t0 + 500

	id1 = "11111111-2222-5333-8444-555555555555"
	id2 = "aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee"

	// futureVersion, unknownNumber and the field numbers from 500 to 599 stand for things of
	// newer schemas. They must never get a meaning, because a frozen blob cannot follow the
	// schema. The tests of the schema check that.
	futureVersion = 1000
	unknownNumber = 99

	argsURL = `{"url":"https://example.test"}`
)

var entity1 = []byte("entity-1")

// v1 returns every blob of golden/v1. Other languages have frozen the same blobs, under the same
// names, as those before the blank line in the list of a message.
func v1() []blob {
	return slices.Concat(
		memoryBlobs(), continuations(), llmCacheBlobs(), toolIntents(), toolResults(),
		traceEvents(), approvalsAndRequests(), errorRecords(), agentEnvelopes(), stateSnapshots(),
		runtimeState(),
	)
}

func memoryEntry(key, value string, at int64) *pb.MemoryEntry {
	return &pb.MemoryEntry{Key: key, Value: []byte(value), LastAccessMs: at}
}

func memory() *pb.MemoryBlob {
	return &pb.MemoryBlob{
		StateSchemaVersion: 1,
		Entries: []*pb.MemoryEntry{
			memoryEntry("alpha", "aa", t0), memoryEntry("beta", "bb", t0+1), memoryEntry("gamma", "cc", t0+2),
		},
		TotalValueBytes: 6,
	}
}

func memoryBlobs() []blob {
	return []blob{
		{name: "memory_blob", doc: "Three entries, the least recently used first.", value: memory()},

		{name: "memory_blob_empty", doc: "A fresh key.", value: &pb.MemoryBlob{StateSchemaVersion: 1}},
		{
			name: "memory_blob_stamp_0", doc: "From before the version stamp: 0, which reads as 1 and stays 0 when re-encoded.",
			value: edit(memory(), func(m *pb.MemoryBlob) { m.StateSchemaVersion = 0 }),
		},
		{
			name: "memory_blob_future_version", doc: "A stamp from the future with a field of that version: decodes, and nobody touches it.",
			value: withUnknown(edit(memory(), func(m *pb.MemoryBlob) { m.StateSchemaVersion = futureVersion }), varint(504, 1)),
		},
		{
			name: "memory_blob_order", doc: "The order is data: neither by key nor by time, and one key is there twice.",
			value: &pb.MemoryBlob{
				StateSchemaVersion: 1,
				Entries: []*pb.MemoryEntry{
					memoryEntry("zeta", "1", t0+9), memoryEntry("alpha", "22", t0), memoryEntry("zeta", "", t0+5),
					memoryEntry("alpha", "333", t0+5),
				},
				TotalValueBytes: 6,
			},
		},
		{
			name: "memory_blob_binary", doc: "Every byte as a value, an empty value, an empty key, a key beyond ASCII; the total is wrong and kept.",
			value: &pb.MemoryBlob{
				StateSchemaVersion: 1,
				Entries: []*pb.MemoryEntry{
					memoryEntry("", string(allBytes()), -1), memoryEntry("clé \U0001f511\x00", "", 0),
				},
				TotalValueBytes: -5,
			},
		},
		{
			name: "memory_blob_kind_bytes", doc: "Values with a kind byte and a ring in front, as another program frames them: opaque here.",
			value: &pb.MemoryBlob{
				StateSchemaVersion: 1,
				Entries: []*pb.MemoryEntry{
					memoryEntry("k", "\x00v", 1000), memoryEntry("r", "\x01\x00\x00\x00\x01a\x00\x00\x00\x02bc", 1000),
				},
				TotalValueBytes: 14,
			},
		},
		{
			name: "memory_blob_newer_entry", doc: "An entry with a field of a newer schema.",
			value: &pb.MemoryBlob{
				StateSchemaVersion: 1,
				Entries:            []*pb.MemoryEntry{memoryEntry("alpha", "aa", t0), withUnknown(memoryEntry("beta", "bb", t0), varint(504, 7))},
				TotalValueBytes:    4,
			},
		},
	}
}

func continuation() *pb.Continuation {
	return &pb.Continuation{
		StateSchemaVersion: 1, Seq: 7, StepIndex: 2,
		PendingIntentIds: []string{id1, id2},
		Adapter:          "langgraph", Snapshot: allBytes()[:0x40],
		SuspendedAtMs: t0, DeadlineMs: t0 + 600_000,
	}
}

func continuations() []blob {
	return []blob{
		{name: "continuation", doc: "Suspended, waits for two intents; from before escalations.", value: continuation()},
		{
			name: "continuation_escalated", doc: "Waits for one intent, escalated once.",
			value: edit(continuation(), func(c *pb.Continuation) {
				c.StepIndex, c.PendingIntentIds, c.DeadlineMs, c.Escalations = 4, []string{id2}, t0+1_200_000, 1
			}),
		},

		{
			name: "continuation_seq_0", doc: "The first activation of a key, no snapshot.",
			value: &pb.Continuation{
				StateSchemaVersion: 1, StepIndex: 1, PendingIntentIds: []string{"6509fb29-9e35-5f25-bf85-b7860d49a026"},
				SuspendedAtMs: 1000, DeadlineMs: 3_601_000,
			},
		},
		{
			name: "continuation_stamp_0", doc: "From before the version stamp: 0, which reads as 1 and stays 0 when re-encoded.",
			value: edit(continuation(), func(c *pb.Continuation) { c.StateSchemaVersion = 0 }),
		},
		{
			name: "continuation_future_version", doc: "A stamp from the future with a field of that version: decodes, and nobody touches it.",
			value: withUnknown(edit(continuation(), func(c *pb.Continuation) { c.StateSchemaVersion = futureVersion }), text(510, "new")),
		},
		{
			name: "continuation_sleep", doc: "Waits for nothing but its deadline.",
			value: edit(continuation(), func(c *pb.Continuation) { c.PendingIntentIds = nil }),
		},
		{
			name: "continuation_order", doc: "Pending ids in staging order, an empty one and a repeated one kept.",
			value: edit(continuation(), func(c *pb.Continuation) { c.PendingIntentIds = []string{id2, "", id1, id2} }),
		},
	}
}

func llmCache() *pb.LlmCacheBlob {
	return &pb.LlmCacheBlob{
		StateSchemaVersion: 1,
		Entries: []*pb.LlmCacheEntry{
			{
				CacheKey: strings.Repeat("0", 64), Response: []byte("hello world"), ResponseDigest: digest("hello world"),
				CreatedAtMs: t0, LastAccessMs: t0,
			},
			{
				CacheKey: strings.Repeat("f", 64), ResponseDigest: digest("hi"),
				CreatedAtMs: t0 + 1, LastAccessMs: t1, DigestOnly: true,
			},
		},
		TotalResponseBytes: 11,
	}
}

func llmCacheBlobs() []blob {
	return []blob{
		{name: "llm_cache_blob", doc: "One whole response and one digest.", value: llmCache()},

		{name: "llm_cache_blob_empty", doc: "A fresh key.", value: &pb.LlmCacheBlob{StateSchemaVersion: 1}},
		{
			name: "llm_cache_blob_one", doc: "One response, put and read.",
			value: &pb.LlmCacheBlob{
				StateSchemaVersion: 1,
				Entries: []*pb.LlmCacheEntry{{
					CacheKey: strings.Repeat("a", 64), Response: []byte("hi"), ResponseDigest: digest("hi"),
					CreatedAtMs: t0, LastAccessMs: t0,
				}},
				TotalResponseBytes: 2,
			},
		},
		{
			name: "llm_cache_blob_digest_only", doc: "Digests alone, the least recently used first: no response bytes at all.",
			value: &pb.LlmCacheBlob{
				StateSchemaVersion: 1,
				Entries: []*pb.LlmCacheEntry{
					{CacheKey: strings.Repeat("b", 64), ResponseDigest: digest("two"), CreatedAtMs: t0 + 2, LastAccessMs: t0 + 2, DigestOnly: true},
					{CacheKey: strings.Repeat("a", 64), ResponseDigest: digest("one"), CreatedAtMs: t0 + 1, LastAccessMs: t0 + 3, DigestOnly: true},
				},
			},
		},
		{
			name: "llm_cache_blob_stamp_0", doc: "From before the version stamp: 0, which reads as 1 and stays 0 when re-encoded.",
			value: edit(llmCache(), func(c *pb.LlmCacheBlob) { c.StateSchemaVersion = 0 }),
		},
		{
			name: "llm_cache_blob_future_version", doc: "A stamp from the future with new fields, in an entry too: decodes, and nobody touches it.",
			value: withUnknown(edit(llmCache(), func(c *pb.LlmCacheBlob) {
				c.StateSchemaVersion = futureVersion
				withUnknown(c.Entries[1], varint(507, 1))
			}), varint(504, 1)),
		},
	}
}

func intentHTTP() *pb.ToolIntent {
	return &pb.ToolIntent{
		IntentId: id1, EntityKey: entity1, Seq: 7, StepIndex: 2, ToolName: "http.post",
		ArgsJson: `{"body":{"n":1},"url":"https://example.test"}`, CreatedAtMs: t0, ExpiresAtMs: t0 + 60_000, Attempt: 1,
	}
}

func intentApproval() *pb.ToolIntent {
	return &pb.ToolIntent{
		IntentId: id2, EntityKey: entity1, Seq: 7, StepIndex: 3, ToolName: "approval",
		ArgsJson: `{"amount":9000,"reason":"refund"}`, CreatedAtMs: t0, ExpiresAtMs: t0 + 3_600_000,
		Kind: pb.ToolIntent_APPROVAL,
	}
}

func intentStep(id string, step uint32) *pb.ToolIntent {
	return &pb.ToolIntent{
		IntentId: id, EntityKey: entity1, Seq: 7, StepIndex: step, ToolName: "http.post", ArgsJson: argsURL,
		CreatedAtMs: t0, ExpiresAtMs: t0 + 60_000, Kind: pb.ToolIntent_TOOL,
	}
}

func intentSigned() *pb.ToolIntent {
	return sign(intentStep("dddddddd-eeee-5fff-8000-111111111111", 5), "golden-k1", allBytes()[:0x20])
}

// intentKey0 returns the first intent of key "k", signed with 32 bytes of 1.
func intentKey0() *pb.ToolIntent {
	return sign(&pb.ToolIntent{
		IntentId: "2e047468-1bb8-5717-8cb0-d8e98f15a767", EntityKey: []byte("k"), StepIndex: 1, ToolName: "http.post",
		ArgsJson: `{"url":"x"}`, CreatedAtMs: 1000, ExpiresAtMs: 61_000, Kind: pb.ToolIntent_TOOL, TraceId: traceKey0(),
	}, "k1", bytes.Repeat([]byte{1}, 32))
}

func toolIntents() []blob {
	return []blob{
		{name: "tool_intent", doc: "From before kinds.", value: intentHTTP()},
		{name: "tool_intent_approval", doc: "An approval, from before trace ids.", value: intentApproval()},
		{
			name: "tool_intent_traced", doc: "With a trace id, from before signatures.",
			value: edit(intentStep("cccccccc-dddd-5eee-8fff-000000000000", 4), func(i *pb.ToolIntent) { i.TraceId = traceID() }),
		},
		{name: "tool_intent_signed", doc: "Signed.", value: intentSigned()},
		{
			name: "tool_intent_future_field", doc: "Signed, with a field of a newer schema, which the signature covers.",
			value: sign(withUnknown(intentStep("eeeeeeee-ffff-5000-8111-222222222222", 6), varint(500, 42)), "golden-k1", allBytes()[:0x20]),
		},

		{name: "tool_intent_all_fields", doc: "Every field.", value: edit(intentSigned(), func(i *pb.ToolIntent) {
			i.Attempt, i.TraceId, i.Kind = 3, traceID(), pb.ToolIntent_APPROVAL
		})},
		{
			name: "tool_intent_untraced", doc: "Of kind TOOL, from before trace ids.",
			value: intentStep("99999999-aaaa-5bbb-8ccc-dddddddddddd", 3),
		},
		{
			name: "tool_intent_step_0", doc: "The first of a key: seq and step are 0 and so not written.",
			value: &pb.ToolIntent{
				IntentId: "6509fb29-9e35-5f25-bf85-b7860d49a026", EntityKey: []byte("k"), ToolName: "t", ArgsJson: "{}",
				CreatedAtMs: 1000, ExpiresAtMs: 3_601_000, Kind: pb.ToolIntent_TOOL, TraceId: traceKey0(),
			},
		},
		{name: "tool_intent_signed_seq_0", doc: "Signed and traced.", value: intentKey0()},
		{
			name: "tool_intent_not_canonical", doc: "tool_intent_signed_seq_0 from a careless writer: an explicit zero, a long varint, a repeated scalar, fields out of order.",
			value: intentKey0(), wire: careless(intentKey0()),
		},
		{
			name: "tool_intent_empty_signature", doc: "Scheme and key without a signature: unsigned.",
			value: edit(intentSigned(), func(i *pb.ToolIntent) { i.Signature = nil }),
		},
		{
			name: "tool_intent_kind_unknown", doc: "A kind that these bindings do not know.",
			value: edit(intentHTTP(), func(i *pb.ToolIntent) { i.Kind = unknownNumber }),
		},
		{
			name: "tool_intent_kind_negative", doc: "A kind below zero.",
			value: edit(intentHTTP(), func(i *pb.ToolIntent) { i.Kind = math.MinInt32 }),
		},
		{
			name: "tool_intent_scheme_unknown", doc: "A signature scheme that these bindings do not know.",
			value: edit(intentSigned(), func(i *pb.ToolIntent) { i.SignatureScheme = unknownNumber }),
		},
		{name: "tool_intent_empty", doc: "No bytes at all: every field is zero.", value: &pb.ToolIntent{}},
		{name: "tool_intent_seq_negative", doc: "A negative seq takes ten bytes.", value: &pb.ToolIntent{Seq: -1}},
		{
			name: "tool_intent_extremes", doc: "The ends of every number.",
			value: &pb.ToolIntent{
				IntentId: id1, EntityKey: allBytes(), Seq: math.MaxInt64, StepIndex: math.MaxUint32, ToolName: "\u0000é\U0001f527",
				CreatedAtMs: math.MinInt64, ExpiresAtMs: -1, Attempt: math.MaxUint32, Kind: math.MaxInt32,
				TraceId: bytes.Repeat([]byte{0}, 16),
			},
		},
		{
			name: "tool_intent_args_verbatim", doc: "Arguments that no reader may reformat.",
			value: edit(intentHTTP(), func(i *pb.ToolIntent) {
				i.ArgsJson = "{ \"b\": 1.50, \"a\": 1e2,\t\"b\": \"\\u00e9é<>&\u2028\", \"n\": 12345678901234567890 } \r\n"
			}),
		},
		{
			name: "tool_intent_args_not_json", doc: "Arguments that are not JSON.",
			value: edit(intentHTTP(), func(i *pb.ToolIntent) { i.ArgsJson = "not json \x00" }),
		},
		{
			name: "tool_intent_unknown_order", doc: "Unknown fields keep their order of arrival, and a repeated one both its values.",
			value: withUnknown(intentHTTP(), slices.Concat(varint(502, 1), text(501, "a"), varint(502, 2), fixed64(500, 3))),
		},
	}
}

func toolResult() *pb.ToolResult {
	return &pb.ToolResult{
		IntentId: id1, EntityKey: entity1, Seq: 7, Status: pb.ToolResult_OK,
		Payload: append([]byte{0, 1, 2}, "result"...), CompletedAtMs: t1,
	}
}

func failed(status pb.ToolResult_Status, message string) *pb.ToolResult {
	return edit(toolResult(), func(r *pb.ToolResult) { r.Status, r.ErrorMessage, r.Payload = status, message, nil })
}

func toolResults() []blob {
	return []blob{
		{name: "tool_result", doc: "OK.", value: toolResult()},

		{name: "tool_result_error", doc: "ERROR: the effect is unknown.", value: failed(pb.ToolResult_ERROR, "timed out")},
		{name: "tool_result_expired", doc: "EXPIRED.", value: failed(pb.ToolResult_EXPIRED, "intent expired at 1700000060000")},
		{name: "tool_result_rejected", doc: "REJECTED.", value: failed(pb.ToolResult_REJECTED, "no such tool: é")},
		{name: "tool_result_status_unset", doc: "No status: reads as STATUS_UNSPECIFIED.", value: failed(0, "")},
		{name: "tool_result_status_unknown", doc: "A status that these bindings do not know.", value: failed(unknownNumber, "")},
		{
			name: "tool_result_newer", doc: "A field of a newer schema.",
			value: withUnknown(toolResult(), text(508, "more")),
		},
	}
}

func traceEvent() *pb.TraceEvent {
	return &pb.TraceEvent{
		TraceId: traceID(), SpanId: unhex("0011223344556677"), ParentSpanId: unhex("7766554433221100"),
		EntityKey: entity1, Seq: 7, StepIndex: 2, EventType: pb.TraceEvent_LLM_CALL,
		Attributes: map[string]string{
			"gen_ai.request.model": "claude-opus-4-8", "gen_ai.usage.input_tokens": "1234", "gen_ai.usage.output_tokens": "567",
		},
		StartMs: t0, EndMs: t1,
	}
}

func traced(kind pb.TraceEvent_EventType, attributes map[string]string) *pb.TraceEvent {
	return edit(traceEvent(), func(e *pb.TraceEvent) { e.EventType, e.Attributes, e.EndMs = kind, attributes, t0 })
}

func traceEvents() []blob {
	return []blob{
		{name: "trace_event", doc: "A model call with GenAI attributes.", value: traceEvent()},

		{
			name: "trace_event_llm_call", doc: "A model call with every attribute of its kind.",
			value: traced(pb.TraceEvent_LLM_CALL, map[string]string{
				"gen_ai.operation.name": "chat", "gen_ai.request.model": "claude-opus-4-8",
				"gen_ai.usage.input_tokens": "1234", "gen_ai.usage.output_tokens": "567",
				"beam_agents.cache_hit": "false", "beam_agents.billed": "true", "beam_agents.attempts": "2",
				"beam_agents.circuit_state": "half_open", "error.type": "rate_limit",
			}),
		},
		{
			name: "trace_event_activation_start", doc: "The root of a trace: no parent.",
			value: &pb.TraceEvent{
				TraceId: traceKey0(), SpanId: unhex("7b3127885df6577e"), EntityKey: []byte("k"), EventType: pb.TraceEvent_ACTIVATION_START,
				Attributes: map[string]string{"beam_agents.activation.kind": "start"}, StartMs: 1000, EndMs: 1000,
			},
		},
		{
			name: "trace_event_tool_call", doc: "TOOL_CALL.",
			value: traced(pb.TraceEvent_TOOL_CALL, map[string]string{"beam_agents.tool_name": "http.post"}),
		},
		{
			name: "trace_event_intent_emitted", doc: "INTENT_EMITTED.",
			value: traced(pb.TraceEvent_INTENT_EMITTED, map[string]string{
				"beam_agents.intent_id": id1, "beam_agents.tool_name": "http.post", "beam_agents.intent_kind": "TOOL",
				"beam_agents.expires_at_ms": strconv.Itoa(t0 + 60_000),
			}),
		},
		{
			name: "trace_event_activation_end", doc: "ACTIVATION_END.",
			value: traced(pb.TraceEvent_ACTIVATION_END, map[string]string{
				"beam_agents.activation.status": "suspended", "beam_agents.activation.kind": "start",
			}),
		},
		{
			name: "trace_event_error", doc: "ERROR.",
			value: traced(pb.TraceEvent_ERROR, map[string]string{"beam_agents.reason": "activation_error", "error.type": "é"}),
		},
		{
			name: "trace_event_suspended", doc: "SUSPENDED: the number 7 to a reader from before it.",
			value: traced(pb.TraceEvent_SUSPENDED, map[string]string{
				"beam_agents.deadline_ms": strconv.Itoa(t0 + 600_000), "beam_agents.adapter": "langgraph",
				"beam_agents.pending_intent_ids": id1 + "," + id2,
			}),
		},
		{name: "trace_event_type_unset", doc: "No event type: reads as EVENT_TYPE_UNSPECIFIED.", value: traced(0, nil)},
		{name: "trace_event_type_unknown", doc: "An event type that these bindings do not know.", value: traced(unknownNumber, nil)},
		{
			name: "trace_event_empty_attribute", doc: "An attribute without a value: key and value are written all the same.",
			value: &pb.TraceEvent{Attributes: map[string]string{"a": "1", "b": ""}},
		},
		{
			name: "trace_event_attribute_order", doc: "Attributes are sorted by the bytes of the key; the empty key comes first.",
			value: &pb.TraceEvent{Attributes: map[string]string{"": "", "B": "1", "a": "2", "aa": "3", "\uffff": "4", "\U00010000": "5"}},
		},
		{
			name: "trace_event_newer", doc: "A field of a newer schema.",
			value: withUnknown(traceEvent(), varint(511, 5)),
		},
	}
}

func approval() *pb.AgentEnvelope_Approval {
	return &pb.AgentEnvelope_Approval{IntentId: id1, Approved: true, Approver: "alice@example.test", DecidedAtMs: t1}
}

func denial() *pb.AgentEnvelope_Approval {
	return &pb.AgentEnvelope_Approval{IntentId: id2, Approver: "bob@example.test", DecidedAtMs: t1}
}

func approvalsAndRequests() []blob {
	return []blob{
		{name: "approval", doc: "The human said yes.", value: approval()},
		{name: "approval_denied", doc: "The human said no: approved is not written.", value: denial()},
		{name: "approval_newer", doc: "A field of a newer schema.", value: withUnknown(approval(), text(505, "why"))},

		{name: "state_export_request", doc: "With an id to echo.", value: &pb.AgentEnvelope_StateExportRequest{RequestId: "export-1"}},
		{name: "state_export_request_empty", doc: "No bytes at all: a request without an id.", value: &pb.AgentEnvelope_StateExportRequest{}},
		{
			name: "state_export_request_newer", doc: "A field of a newer schema.",
			value: withUnknown(&pb.AgentEnvelope_StateExportRequest{RequestId: "export-1"}, varint(502, 1)),
		},
	}
}

// orphanedRecord returns a dead letter as this module writes it: detail is canonical JSON with
// all five members.
func orphanedRecord() *pb.ActivationErrorRecord {
	return &pb.ActivationErrorRecord{
		EntityKey: entity1, Reason: "orphaned_result", EventTimeMs: t0,
		Detail: `{"code":"unknown_intent","error":"no intent ` + id1 + ` is pending","input":"` + base64.StdEncoding.EncodeToString(encode(envelopeApproval())) +
			`","input_kind":"envelope","position":{"deadline_ms":` + strconv.Itoa(t0+600_000) + `,"intent_id":"` + id1 + `","seq":7}}`,
	}
}

func pythonErrorRecord() *pb.ActivationErrorRecord {
	return &pb.ActivationErrorRecord{
		EntityKey: []byte("k"), Reason: "activation_error", EventTimeMs: t0,
		Detail: "RuntimeError('boom') failed_at_step=2 after=INTENT_EMITTED",
	}
}

func pythonOrphanRecord() *pb.ActivationErrorRecord {
	return &pb.ActivationErrorRecord{
		EntityKey: []byte("k"), Reason: "orphaned_result", EventTimeMs: 2000,
		Detail: "no_continuation:2e047468-1bb8-5717-8cb0-d8e98f15a767",
	}
}

func errorRecords() []blob {
	return []blob{
		{name: "activation_error_record", doc: "A refused approval; detail is canonical JSON with all five members.", value: orphanedRecord()},
		{
			name: "activation_error_record_bytes", doc: "Bytes that were no envelope: no key, no position, event time 0.",
			value: &pb.ActivationErrorRecord{
				Reason: "malformed_envelope",
				Detail: `{"code":"unparsable","error":"not an AgentEnvelope","input":"` +
					base64.StdEncoding.EncodeToString([]byte{0x0a, 0xff}) + `","input_kind":"bytes"}`,
			},
		},
		{
			name: "activation_error_record_no_input", doc: "A deadline: there was no input.",
			value: &pb.ActivationErrorRecord{
				EntityKey: entity1, Reason: "hitl_timeout", EventTimeMs: t0 + 600_000,
				Detail: `{"code":"dropped","input_kind":"none","position":{"deadline_ms":` + strconv.Itoa(t0+600_000) + `,"seq":7}}`,
			},
		},
		{
			name: "activation_error_record_unlisted", doc: "A reason and a detail of no list: open strings on the wire.",
			value: &pb.ActivationErrorRecord{EntityKey: entity1, Reason: "é_from_elsewhere", Detail: "free text\n", EventTimeMs: -1},
		},
		{
			name: "activation_error_record_newer", doc: "A field of a newer schema.",
			value: withUnknown(orphanedRecord(), text(505, "more")),
		},
		{name: "activation_error_record_python", doc: "A failed activation as the Python side writes it.", value: pythonErrorRecord()},
		{name: "activation_error_record_python_orphan", doc: "A refused result as the Python side writes it.", value: pythonOrphanRecord()},
		{
			name: "activation_error_record_python_intent", doc: "A refused intent as the Python side writes it: spaced ASCII JSON.",
			value: &pb.ActivationErrorRecord{
				EntityKey: []byte("k"), Reason: "intent_dead_letter", EventTimeMs: t0,
				Detail: `{"reason": "boom \u00e9", "intent_id": "i", "seq": 3, "tool_name": "t"}`,
			},
		},
	}
}

func envelopeEvent(event []byte) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{EntityKey: entity1, EventTimeMs: t0, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: event}}
}

func envelopeResult(r *pb.ToolResult) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{EntityKey: entity1, EventTimeMs: t1, Payload: &pb.AgentEnvelope_ToolResult{ToolResult: r}}
}

func envelopeApproval() *pb.AgentEnvelope {
	return &pb.AgentEnvelope{EntityKey: entity1, EventTimeMs: t0, Payload: &pb.AgentEnvelope_Approval_{Approval: approval()}}
}

func envelopeExport(r *pb.AgentEnvelope_StateExportRequest) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{EntityKey: entity1, EventTimeMs: t1, Payload: &pb.AgentEnvelope_ExportRequest{ExportRequest: r}}
}

// deadLetter returns the envelope that holds a record.
func deadLetter(r *pb.ActivationErrorRecord) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{
		EntityKey: r.GetEntityKey(), EventTimeMs: r.GetEventTimeMs(),
		Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: encode(r)},
	}
}

// bare returns e without key and time.
func bare(e *pb.AgentEnvelope) *pb.AgentEnvelope { return &pb.AgentEnvelope{Payload: e.GetPayload()} }

func agentEnvelopes() []blob {
	return []blob{
		{name: "agent_envelope", doc: "An approval, from before export requests.", value: envelopeApproval()},
		{
			name: "agent_envelope_export", doc: "An export request: no payload and field 6 unknown to a reader from before it.",
			value: envelopeExport(&pb.AgentEnvelope_StateExportRequest{RequestId: "export-1"}),
		},

		{name: "agent_envelope_event", doc: "An event.", value: envelopeEvent([]byte(`{"type":"order.created"}`))},
		{name: "agent_envelope_event_empty", doc: "Set but empty is an event.", value: bare(envelopeEvent([]byte{}))},
		{name: "agent_envelope_event_any_bytes", doc: "An event is opaque: every byte.", value: envelopeEvent(allBytes())},
		{
			name: "agent_envelope_empty_key", doc: "The empty key and time 0 are legal.",
			value: bare(envelopeEvent([]byte("event"))),
		},
		{name: "agent_envelope_tool_result", doc: "A result.", value: envelopeResult(toolResult())},
		{name: "agent_envelope_tool_result_empty", doc: "Set but empty is a result.", value: bare(envelopeResult(&pb.ToolResult{}))},
		{
			name: "agent_envelope_tool_result_newer", doc: "A result with a field of a newer schema and a status that these bindings do not know.",
			value: envelopeResult(withUnknown(failed(unknownNumber, ""), text(508, "more"))),
		},
		{
			name: "agent_envelope_approval_denied", doc: "The human said no.",
			value: edit(envelopeApproval(), func(e *pb.AgentEnvelope) { e.Payload = &pb.AgentEnvelope_Approval_{Approval: denial()} }),
		},
		{
			name: "agent_envelope_approval_empty", doc: "Set but empty is an approval: a no.",
			value: &pb.AgentEnvelope{Payload: &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{}}},
		},
		{name: "agent_envelope_export_empty", doc: "Set but empty is an export request.", value: bare(envelopeExport(&pb.AgentEnvelope_StateExportRequest{}))},
		{
			name: "agent_envelope_no_payload", doc: "No variant and no unknown field: malformed to a pipeline, not to a decoder.",
			value: &pb.AgentEnvelope{EntityKey: entity1, EventTimeMs: t0},
		},
		{
			name: "agent_envelope_newer_variant", doc: "No variant and field 507: a variant of a newer schema, which is kept.",
			value: withUnknown(&pb.AgentEnvelope{EntityKey: entity1, EventTimeMs: t0}, text(507, "\x0a\x01x")),
		},
		{
			name: "agent_envelope_newer_field", doc: "An event and a field of a newer schema.",
			value: withUnknown(envelopeEvent([]byte("event")), varint(508, 1)),
		},
		{
			name: "agent_envelope_last_wins", doc: "Two variants on the wire, an event and then a result: the last one is read.",
			value: envelopeResult(toolResult()),
			wire:  slices.Concat(encode(envelopeEvent([]byte("lost"))), encode(envelopeResult(toolResult()))),
		},
		{name: "agent_envelope_time_negative", doc: "A time out of range: malformed to a pipeline, not to a decoder.", value: &pb.AgentEnvelope{
			EntityKey: entity1, EventTimeMs: math.MinInt64, Payload: envelopeEvent([]byte("event")).GetPayload(),
		}},
		{name: "agent_envelope_dead_letter", doc: "A dead letter inside an envelope.", value: deadLetter(orphanedRecord())},
		{name: "agent_envelope_dead_letter_python", doc: "A dead letter as the Python side wraps it.", value: deadLetter(pythonErrorRecord())},
		{name: "agent_envelope_dead_letter_python_orphan", doc: "A refused result as the Python side wraps it.", value: deadLetter(pythonOrphanRecord())},
	}
}

func snapshot() *pb.StateSnapshot {
	return &pb.StateSnapshot{
		StateSchemaVersion: 1, EntityKey: entity1, Seq: 7, SnapshotAtMs: t1,
		Memory: memory(), LlmCache: llmCache(), Continuation: continuation(),
		Pending: []*pb.ToolIntent{intentHTTP(), intentApproval()}, RequestId: "export-1",
	}
}

func stateSnapshots() []blob {
	return []blob{
		{name: "state_snapshot", doc: "A suspended key with everything.", value: snapshot()},

		{
			name: "state_snapshot_mixed_versions", doc: "Suspended; the cells inside have stamps 0 and 1000 and are exported as stored.",
			value: edit(snapshot(), func(s *pb.StateSnapshot) {
				s.Memory.StateSchemaVersion = 0
				s.LlmCache.StateSchemaVersion = futureVersion
				withUnknown(s.LlmCache.GetEntries()[0], varint(507, 1))
				s.Continuation.StateSchemaVersion = futureVersion
				s.Continuation.Escalations = 1
				withUnknown(s.Continuation, text(510, "new"))
				s.Pending = append(s.Pending, withUnknown(intentSigned(), varint(500, 42)))
			}),
		},
		{
			name: "state_snapshot_idle", doc: "Not suspended, no cells, no request id.",
			value: &pb.StateSnapshot{StateSchemaVersion: 1, EntityKey: entity1, Seq: 8, SnapshotAtMs: t1},
		},
		{
			name: "state_snapshot_empty_cells", doc: "Cells that are there but empty differ from cells that are not there.",
			value: &pb.StateSnapshot{
				Memory: &pb.MemoryBlob{}, LlmCache: &pb.LlmCacheBlob{}, Continuation: &pb.Continuation{}, Pending: []*pb.ToolIntent{{}},
			},
		},
		{
			name: "state_snapshot_newer", doc: "A field of a newer schema.",
			value: withUnknown(snapshot(), varint(510, 3)),
		},
	}
}

// edit applies change to m and returns it.
func edit[M proto.Message](m M, change func(M)) M {
	change(m)
	return m
}

func withUnknown[M proto.Message](m M, raw []byte) M {
	m.ProtoReflect().SetUnknown(raw)
	return m
}

func varint(number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
}

func fixed64(number protowire.Number, v uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, number, protowire.Fixed64Type), v)
}

func text(number protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), v)
}

// encode returns the deterministic encoding. The values of this file can always be encoded.
func encode(m proto.Message) []byte {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}

// sign signs i as a signer does: with the HMAC-SHA256 of the encoding without fields 12 to 14.
func sign(i *pb.ToolIntent, id string, key []byte) *pb.ToolIntent {
	mac := hmac.New(sha256.New, key)
	mac.Write(encode(i))
	i.SignatureScheme, i.SigningKeyId, i.Signature = pb.ToolIntent_HMAC_SHA256, id, mac.Sum(nil)
	return i
}

// careless encodes a signed i in a form that has the same value but is not canonical.
func careless(i *pb.ToolIntent) []byte {
	all := encode(i)
	unsigned := len(encode(edit(proto.CloneOf(i), func(c *pb.ToolIntent) {
		c.SignatureScheme, c.SigningKeyId, c.Signature = 0, "", nil
	})))
	longStep := []byte{0x20, byte(i.GetStepIndex()) | 0x80, 0x80, 0}
	return slices.Concat(all[unsigned:], text(5, "overwritten"), all[:unsigned], varint(9, 0), longStep)
}

// traceID returns 16 bytes. traceKey0 returns the trace id of the first activation of key "k".
func traceID() []byte   { return unhex("0123456789abcdef0123456789abcdef") }
func traceKey0() []byte { return unhex("2bf05d87d33251718085abe0727ad51a") }

func digest(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// unhex decodes the hexadecimal digits in this file.
func unhex(digits string) []byte {
	raw, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return raw
}
