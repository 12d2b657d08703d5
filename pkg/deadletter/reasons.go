package deadletter

import (
	"maps"
	"slices"
)

// Reason is why something was not processed: the field reason of an
// ActivationErrorRecord. The list is closed.
type Reason string

// The reasons. Each says which step writes it; [Codes] gives the codes of each.
const (
	// MalformedEnvelope: bytes that are no usable AgentEnvelope. ParseEnvelopes; for an
	// envelope without a payload also Route and RunAgent.
	MalformedEnvelope Reason = "malformed_envelope"
	// UnknownPayload: an envelope whose variant belongs to a newer schema. Route, RunAgent.
	UnknownPayload Reason = "unknown_payload"
	// FunctionError: a user's function failed on one envelope. MapEnvelopes.
	FunctionError Reason = "function_error"
	// MalformedEvent: an event that breaks the agent event protocol. Event transforms.
	MalformedEvent Reason = "malformed_event"
	// MalformedIntent: bytes that are no ToolIntent. DecodeIntents.
	MalformedIntent Reason = "malformed_intent"
	// UnknownKind: an intent of a kind that is neither tool nor approval. RouteIntents.
	UnknownKind Reason = "unknown_kind"
	// IntentDeadLetter: an intent that could not be sent. EncodeIntents, SignIntents; one
	// without an encoding also RouteIntents and VerifyIntents.
	IntentDeadLetter Reason = "intent_dead_letter"
	// UnsignedIntent: an intent without a signature. VerifyIntents.
	UnsignedIntent Reason = "unsigned_intent"
	// BadSignature: an intent whose signature does not fit. VerifyIntents.
	BadSignature Reason = "bad_signature"
	// UnknownSigningKey: an intent signed with a key that the keyring lacks. VerifyIntents.
	UnknownSigningKey Reason = "unknown_signing_key"
	// ActivationError: an activation failed. RunAgent.
	ActivationError Reason = "activation_error"
	// ActivationTimeout: an activation took too long. RunAgent.
	ActivationTimeout Reason = "activation_timeout"
	// OrphanedResult: an answer that no suspension waits for. RunAgent.
	OrphanedResult Reason = "orphaned_result"
	// AdapterMismatch: an answer for a suspension of another agent. RunAgent.
	AdapterMismatch Reason = "adapter_mismatch"
	// Suspended: an event during a suspension that rejects events. RunAgent.
	Suspended Reason = "suspended"
	// DeferredOverflow: an event during a suspension that has deferred its fill. RunAgent.
	DeferredOverflow Reason = "deferred_overflow"
	// BudgetExceeded: an activation, or its key, has used up its budget. RunAgent.
	BudgetExceeded Reason = "budget_exceeded"
	// HITLTimeout: no human answered before the deadline. RunAgent.
	HITLTimeout Reason = "hitl_timeout"
)

// Code is the exact cause within a [Reason]: the member code of a record's detail.
type Code string

// The codes. One word may belong to several reasons.
const (
	// Unparsable: the bytes are not an encoding of the message.
	Unparsable Code = "unparsable"
	// Empty: a message without a single byte, such as a tombstone.
	Empty Code = "empty"
	// Oversize: more bytes than the limit.
	Oversize Code = "oversize"
	// EmptyPayload: no variant is set and nothing unknown is there either.
	EmptyPayload Code = "empty_payload"
	// BadEventTime: event_time_ms outside 0 to 253402300799999.
	BadEventTime Code = "bad_event_time"
	// NewerVariant: no variant that this build knows, but unknown fields.
	NewerVariant Code = "newer_variant"
	// Failed: the user's code returned an error. The word on the wire is "error".
	Failed Code = "error"
	// Panicked: the user's code panicked. The word on the wire is "panic".
	Panicked Code = "panic"
	// Exited: the user's code called runtime.Goexit. The word on the wire is "exit".
	Exited Code = "exit"
	// UnsupportedVersion: an event of another protocol version.
	UnsupportedVersion Code = "unsupported_version"
	// MissingField: an event without a required field.
	MissingField Code = "missing_field"
	// WrongType: an event with a field of another type.
	WrongType Code = "wrong_type"
	// DuplicateField: an event with a field twice.
	DuplicateField Code = "duplicate_field"
	// TooDeep: an event nested too deeply.
	TooDeep Code = "too_deep"
	// Serialize: the message cannot be encoded.
	Serialize Code = "serialize"
	// Sign: the intent could not be signed.
	Sign Code = "sign"
	// TooLarge: the encoded message is larger than the limit.
	TooLarge Code = "too_large"
	// SnapshotVersion: the stored snapshot has a version that the agent cannot migrate.
	SnapshotVersion Code = "snapshot_version"
	// MemoryOverflow: a value that cannot fit into memory alone.
	MemoryOverflow Code = "memory_overflow"
	// TooManyIntents: an activation staged more intents than the limit.
	TooManyIntents Code = "too_many_intents"
	// InvalidText: an activation staged text that is not UTF-8.
	InvalidText Code = "invalid_text"
	// OutputTooLarge: an activation's output is above the limit, 10 MiB by default.
	OutputTooLarge Code = "output_too_large"
	// SnapshotTooLarge: a snapshot is above the limit, 1 MiB by default.
	SnapshotTooLarge Code = "snapshot_too_large"
	// Limit: the time limit of an activation.
	Limit Code = "limit"
	// NoContinuation: nothing is suspended.
	NoContinuation Code = "no_continuation"
	// UnknownIntent: the suspension does not wait for this intent.
	UnknownIntent Code = "unknown_intent"
	// ApprovalTooLate: decided after the deadline or after the intent's expiry.
	ApprovalTooLate Code = "approval_too_late"
	// IntentExpired: the agent was already told that the intent expired.
	IntentExpired Code = "intent_expired"
	// KindMismatch: a tool result for an approval, or the reverse.
	KindMismatch Code = "kind_mismatch"
	// IdentityMismatch: another seq or entity key than the intent's.
	IdentityMismatch Code = "identity_mismatch"
	// Rejected: WhileSuspended is Reject; or the agent called its input unusable.
	Rejected Code = "rejected"
	// Count: as many events are deferred as the limit allows.
	Count Code = "count"
	// Bytes: as many bytes of events are deferred as the limit allows.
	Bytes Code = "bytes"
	// Tokens: the model calls of an activation used more tokens than the limit.
	Tokens Code = "tokens"
	// Activations: the key has had as many activations in the hour as the limit allows.
	Activations Code = "activations"
	// Dropped: the timeout policy said Drop.
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

// Codes returns the codes of a reason; none for a word that is not in the list. Where
// a reason has one cause only, the code may be the reason's own word.
func Codes(r Reason) []Code { return slices.Clone(codes[r]) }
