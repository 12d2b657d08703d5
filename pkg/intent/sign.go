package intent

import (
	"crypto/hmac"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/pkg/internal/protofield"
	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Outcome is the result of a verification. All outcomes but OK are also reasons of dead letters.
type Outcome string

// The outcomes, in the order in which they are checked.
const (
	// UnsignedIntent: the intent has no signature, whatever its scheme and key id are.
	UnsignedIntent Outcome = "unsigned_intent"
	// BadSignature: the scheme is unknown, or the signature does not match the intent.
	BadSignature Outcome = "bad_signature"
	// UnknownSigningKey: the key id is not in the keyring. This is checked after the scheme and
	// before the signature.
	UnknownSigningKey Outcome = "unknown_signing_key"
	// OK: a key of the keyring has signed the intent.
	OK Outcome = "ok"
)

// Mode says which intents a verifier accepts. The zero value is not a mode, so turning
// verification off must be written out: ModeOff.
type Mode string

// The modes.
const (
	// ModeOff accepts every intent and needs no keyring.
	ModeOff Mode = "off"
	// ModePermissive accepts intents that are OK or unsigned.
	ModePermissive Mode = "permissive"
	// ModeRequire accepts intents that are OK.
	ModeRequire Mode = "require"
)

// Validate returns an error that wraps [ErrMode] unless m is one of the modes.
func (m Mode) Validate() error {
	switch m {
	case ModeOff, ModePermissive, ModeRequire:
		return nil
	}
	return fmt.Errorf("intent: %w %q, want off, permissive or require", ErrMode, string(m))
}

// Verifies reports whether m checks signatures, and so needs a keyring. It returns true for an
// invalid mode.
func (m Mode) Verifies() bool { return m != ModeOff }

// Accepts reports whether m accepts an intent with outcome o. An invalid mode accepts what
// ModeRequire accepts.
func (m Mode) Accepts(o Outcome) bool {
	return o == OK || !m.Verifies() || m == ModePermissive && o == UnsignedIntent
}

// Signer signs intents with one key. It is safe for concurrent use.
type Signer struct {
	keyID string
	mac   macFunc
}

// NewSigner returns a signer with the key that has the id keyID in ring. The error wraps
// [ErrUnknownKey]. To rotate keys: add the new key to the keyrings of all verifiers, then sign
// with the new key, and remove the old key when no intent signed with it is in transit any more.
func NewSigner(ring *Keyring, keyID string) (*Signer, error) {
	mac := ring.lookup(keyID)
	switch {
	case mac != nil:
	case strings.ContainsAny(keyID, "=\n"): // probably a keyring by mistake
		return nil, fmt.Errorf("intent: %w: no keyring can hold this id", ErrUnknownKey)
	default:
		return nil, fmt.Errorf("intent: %w: %q", ErrUnknownKey, keyID)
	}
	return &Signer{keyID: keyID, mac: mac}, nil
}

// Sign returns a signed copy of in. It replaces an existing signature. The error wraps
// [ErrInvalid] if in is nil or has text that is not UTF-8, and [ErrUnknownKey] if s is nil or
// zero, and so has no key.
func (s *Signer) Sign(in *beamagentspb.ToolIntent) (*beamagentspb.ToolIntent, error) {
	if s == nil || s.mac == nil {
		return nil, fmt.Errorf("intent: %w: the signer has no key", ErrUnknownKey)
	}
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	input, err := signedBytes(*buf, in)
	if err != nil {
		return nil, err
	}
	*buf = s.mac(input)
	return signedCopy(in, s.keyID, (*buf)[len(input):]), nil
}

// signedCopy returns a copy of in with the signature mac. It makes two allocations, where
// proto.Clone makes one for each field. If it forgot a field, verification would fail, because
// mac covers all fields of in.
func signedCopy(in *beamagentspb.ToolIntent, keyID string, mac []byte) *beamagentspb.ToolIntent {
	unknown := in.ProtoReflect().GetUnknown()
	all := make([]byte, 0, len(in.EntityKey)+len(in.TraceId)+len(mac)+len(unknown))
	part := func(b []byte) []byte {
		if len(b) == 0 {
			return nil
		}
		n := len(all)
		all = append(all, b...)
		return all[n:len(all):len(all)]
	}
	out := &beamagentspb.ToolIntent{
		IntentId:        in.IntentId,
		EntityKey:       part(in.EntityKey),
		Seq:             in.Seq,
		StepIndex:       in.StepIndex,
		ToolName:        in.ToolName,
		ArgsJson:        in.ArgsJson,
		CreatedAtMs:     in.CreatedAtMs,
		ExpiresAtMs:     in.ExpiresAtMs,
		Attempt:         in.Attempt,
		Kind:            in.Kind,
		TraceId:         part(in.TraceId),
		SignatureScheme: beamagentspb.ToolIntent_HMAC_SHA256,
		SigningKeyId:    keyID,
		Signature:       part(mac),
	}
	if len(unknown) > 0 {
		out.ProtoReflect().SetUnknown(part(unknown))
	}
	return out
}

// Verify checks whether a key of the keyring has signed in. Its time does not depend on how many
// bytes of a wrong signature are right.
func (r *Keyring) Verify(in *beamagentspb.ToolIntent) Outcome {
	if len(in.GetSignature()) == 0 {
		return UnsignedIntent
	}
	if in.SignatureScheme != beamagentspb.ToolIntent_HMAC_SHA256 {
		return BadSignature
	}
	mac := r.lookup(in.SigningKeyId)
	if mac == nil {
		return UnknownSigningKey
	}
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	input, err := signedBytes(*buf, in)
	if err != nil {
		return BadSignature // an intent that cannot be encoded was never signed
	}
	*buf = mac(input)
	if !hmac.Equal((*buf)[len(input):], in.Signature) {
		return BadSignature
	}
	return OK
}

// signedBytes returns the bytes that a signature covers: the deterministic encoding of in without
// the three fields of the signature. It reuses the memory of buf.
//
// It writes the fields itself, which is faster than the generic encoder and needs no copy. A new
// field of the schema must be added here.
func signedBytes(buf []byte, in *beamagentspb.ToolIntent) ([]byte, error) {
	if err := CheckText(in); err != nil {
		return nil, err
	}
	b := protofield.AppendBytes(buf[:0], 1, in.IntentId)
	b = protofield.AppendBytes(b, 2, in.EntityKey)
	b = protofield.AppendVarint(b, 3, uint64(in.Seq))
	b = protofield.AppendVarint(b, 4, uint64(in.StepIndex))
	b = protofield.AppendBytes(b, 5, in.ToolName)
	b = protofield.AppendBytes(b, 6, in.ArgsJson)
	b = protofield.AppendVarint(b, 7, uint64(in.CreatedAtMs))
	b = protofield.AppendVarint(b, 8, uint64(in.ExpiresAtMs))
	b = protofield.AppendVarint(b, 9, uint64(in.Attempt))
	b = protofield.AppendVarint(b, 10, uint64(in.Kind))
	b = protofield.AppendBytes(b, 11, in.TraceId)
	return append(b, in.ProtoReflect().GetUnknown()...), nil
}

// CheckText returns an error if in cannot be encoded: it is nil, or one of its texts is not
// UTF-8. The error wraps [ErrInvalid].
func CheckText(in *beamagentspb.ToolIntent) error {
	if in == nil {
		return fmt.Errorf("intent: %w: nil", ErrInvalid)
	}
	var name string
	switch {
	case !utf8.ValidString(in.IntentId):
		name = "intent_id"
	case !utf8.ValidString(in.ToolName):
		name = "tool_name"
	case !utf8.ValidString(in.ArgsJson):
		name = "args_json"
	case !utf8.ValidString(in.SigningKeyId):
		name = "signing_key_id"
	default:
		return nil
	}
	return fmt.Errorf("intent: %w: %s is not UTF-8", ErrInvalid, name)
}

// buffers lets calls reuse the memory of encodings.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// putBuffer keeps buf for reuse, unless it has grown beyond 64 KiB.
func putBuffer(buf *[]byte) {
	if cap(*buf) <= 64<<10 {
		buffers.Put(buf)
	}
}
