package deadletter

import (
	"maps"
	"slices"
)

// Reason says why something was not processed. It is the field reason of an
// ActivationErrorRecord. The list is closed.
type Reason string

// The reasons, each with the steps that use it. [Codes] returns the codes of each.
const (
	// MalformedEnvelope: bytes that are not a usable AgentEnvelope. ParseEnvelopes; for an
	// envelope without a payload also Route and RunAgent.
	MalformedEnvelope Reason = "malformed_envelope"
	// UnknownPayload: an envelope with a payload of a newer schema. Route, RunAgent.
	UnknownPayload Reason = "unknown_payload"
	// FunctionError: a user's function failed on one envelope. MapEnvelopes.
	FunctionError Reason = "function_error"
	// MalformedEvent: an event that breaks the agent event protocol. Event transforms.
	MalformedEvent Reason = "malformed_event"
	// MalformedIntent: bytes that are not a ToolIntent. DecodeIntents.
	MalformedIntent Reason = "malformed_intent"
	// UnknownKind: an intent that is neither a tool call nor a request for approval.
	// RouteIntents.
	UnknownKind Reason = "unknown_kind"
	// IntentDeadLetter: an intent that could not be sent. EncodeIntents, SignIntents; for an
	// intent that cannot be encoded also RouteIntents and VerifyIntents.
	IntentDeadLetter Reason = "intent_dead_letter"
	// UnsignedIntent: an intent without a signature. VerifyIntents.
	UnsignedIntent Reason = "unsigned_intent"
	// BadSignature: an intent with a wrong signature. VerifyIntents.
	BadSignature Reason = "bad_signature"
	// UnknownSigningKey: an intent signed with a key that is not in the keyring. VerifyIntents.
	UnknownSigningKey Reason = "unknown_signing_key"
	// ActivationError: an activation failed. RunAgent.
	ActivationError Reason = "activation_error"
	// ActivationTimeout: an activation took too long. RunAgent.
	ActivationTimeout Reason = "activation_timeout"
	// OrphanedResult: an answer for which no suspension waits. RunAgent.
	OrphanedResult Reason = "orphaned_result"
	// AdapterMismatch: an answer for a key that another agent has suspended. RunAgent.
	AdapterMismatch Reason = "adapter_mismatch"
	// Suspended: an event for a suspended key, where WhileSuspended is Reject. RunAgent.
	Suspended Reason = "suspended"
	// DeferredOverflow: an event for a suspended key that has deferred as much as its limits
	// allow. RunAgent.
	DeferredOverflow Reason = "deferred_overflow"
	// BudgetExceeded: an activation or its key has used up its budget. RunAgent.
	BudgetExceeded Reason = "budget_exceeded"
	// HITLTimeout: no human answered before the deadline. RunAgent.
	HITLTimeout Reason = "hitl_timeout"
)

// Code is the exact cause within a [Reason]. It is the member code in the detail of a record.
type Code string

// The codes. A code may belong to several reasons.
const (
	// Unparsable: the bytes are not an encoding of the message.
	Unparsable Code = "unparsable"
	// Empty: a message of zero bytes, such as a tombstone.
	Empty Code = "empty"
	// Oversize: the message has more bytes than the limit.
	Oversize Code = "oversize"
	// EmptyPayload: the envelope has no payload and no unknown fields.
	EmptyPayload Code = "empty_payload"
	// BadEventTime: event_time_ms is outside 0 to 253402300799999.
	BadEventTime Code = "bad_event_time"
	// NewerVariant: the envelope has no payload that this build knows, but unknown fields.
	NewerVariant Code = "newer_variant"
	// Failed: the user's code returned an error. The word on the wire is "error".
	Failed Code = "error"
	// Panicked: the user's code panicked. The word on the wire is "panic".
	Panicked Code = "panic"
	// Exited: the user's code called runtime.Goexit. The word on the wire is "exit".
	Exited Code = "exit"
	// UnsupportedVersion: the event has another protocol version.
	UnsupportedVersion Code = "unsupported_version"
	// MissingField: the event lacks a required field.
	MissingField Code = "missing_field"
	// WrongType: a field of the event has the wrong type.
	WrongType Code = "wrong_type"
	// DuplicateField: the event has a field twice.
	DuplicateField Code = "duplicate_field"
	// TooDeep: the event is nested too deeply.
	TooDeep Code = "too_deep"
	// Serialize: the message cannot be encoded.
	Serialize Code = "serialize"
	// Sign: the intent could not be signed.
	Sign Code = "sign"
	// TooLarge: the encoded message is larger than the limit.
	TooLarge Code = "too_large"
	// SnapshotVersion: the stored snapshot has a version that the agent cannot migrate.
	SnapshotVersion Code = "snapshot_version"
	// MemoryOverflow: a value does not fit into memory even alone.
	MemoryOverflow Code = "memory_overflow"
	// TooManyIntents: an activation staged more intents than the limit allows.
	TooManyIntents Code = "too_many_intents"
	// InvalidText: an activation staged text that is not UTF-8.
	InvalidText Code = "invalid_text"
	// OutputTooLarge: the output of an activation is above the limit, 10 MiB by default.
	OutputTooLarge Code = "output_too_large"
	// SnapshotTooLarge: the snapshot is above the limit, 1 MiB by default.
	SnapshotTooLarge Code = "snapshot_too_large"
	// Limit: the activation exceeded its time limit.
	Limit Code = "limit"
	// NoContinuation: the key is not suspended.
	NoContinuation Code = "no_continuation"
	// UnknownIntent: the suspension does not wait for this intent.
	UnknownIntent Code = "unknown_intent"
	// ApprovalTooLate: the decision came after the deadline or after the expiry of the intent.
	ApprovalTooLate Code = "approval_too_late"
	// IntentExpired: the agent was already told that the intent expired.
	IntentExpired Code = "intent_expired"
	// KindMismatch: a tool result answers a request for approval, or an approval answers a tool
	// call.
	KindMismatch Code = "kind_mismatch"
	// IdentityMismatch: the result has another seq or entity key than its intent.
	IdentityMismatch Code = "identity_mismatch"
	// Rejected: WhileSuspended is Reject, or the agent rejected its input.
	Rejected Code = "rejected"
	// Count: the number of deferred events is at its limit.
	Count Code = "count"
	// Bytes: the size of the deferred events is at its limit.
	Bytes Code = "bytes"
	// Tokens: the model calls of the activation used more tokens than the limit allows.
	Tokens Code = "tokens"
	// Activations: the key has reached its limit of activations in the hour.
	Activations Code = "activations"
	// Dropped: the timeout policy returned Drop.
	Dropped Code = "dropped"
	// PolicyError: the timeout policy failed.
	PolicyError Code = "policy_error"
	// Endless: the suspension timed out more often in a row than the limit allows.
	Endless Code = "endless"
)

var codes = map[Reason][]Code{
	MalformedEnvelope: {Unparsable, Oversize, EmptyPayload, BadEventTime},
	UnknownPayload:    {NewerVariant},
	FunctionError:     {Failed, Panicked, Exited},
	MalformedEvent:    {Unparsable, UnsupportedVersion, MissingField, WrongType, DuplicateField, TooDeep},
	MalformedIntent:   {Unparsable, Empty},
	UnknownKind:       {Code(UnknownKind)},
	IntentDeadLetter:  {Serialize, Sign, TooLarge},
	UnsignedIntent:    {Code(UnsignedIntent)},
	BadSignature:      {Code(BadSignature)},
	UnknownSigningKey: {Code(UnknownSigningKey)},
	ActivationError: {
		Failed, Panicked, Exited, Rejected, SnapshotVersion, MemoryOverflow, TooManyIntents,
		InvalidText, OutputTooLarge, SnapshotTooLarge,
	},
	ActivationTimeout: {Limit},
	OrphanedResult: {
		NoContinuation, UnknownIntent, ApprovalTooLate, IntentExpired, KindMismatch,
		IdentityMismatch,
	},
	AdapterMismatch:  {Code(AdapterMismatch)},
	Suspended:        {Rejected},
	DeferredOverflow: {Count, Bytes},
	BudgetExceeded:   {Tokens, Activations},
	HITLTimeout:      {Dropped, PolicyError, Endless},
}

// Reasons returns all reasons, sorted.
func Reasons() []Reason { return slices.Sorted(maps.Keys(codes)) }

// Codes returns the codes of a reason. It returns none for a word that is not in the list. If a
// reason has only one cause, its code may be the same word as the reason.
func Codes(r Reason) []Code { return slices.Clone(codes[r]) }
