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

// Outcome is what the verification of an intent found. All but OK are also reasons
// of dead letters.
type Outcome string

// The outcomes, in the order in which they are tested for.
const (
	// UnsignedIntent: no signature, whatever scheme and key id say.
	UnsignedIntent Outcome = "unsigned_intent"
	// BadSignature: another scheme, or not the signature of this intent.
	BadSignature Outcome = "bad_signature"
	// UnknownSigningKey: the key id is not in the keyring. Tested for after the
	// scheme and before the signature.
	UnknownSigningKey Outcome = "unknown_signing_key"
	// OK: signed with a key of the keyring.
	OK Outcome = "ok"
)

// Mode says which intents a verifier lets pass. Its zero value is not a mode: who wants
// no verification writes ModeOff.
type Mode string

// The modes.
const (
	// ModeOff lets all pass, and needs no keyring.
	ModeOff Mode = "off"
	// ModePermissive lets pass what is OK, and what is not signed at all.
	ModePermissive Mode = "permissive"
	// ModeRequire lets pass what is OK.
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

// Verifies reports whether m looks at signatures, and so needs a keyring. A mode that is
// not one of the modes does.
func (m Mode) Verifies() bool { return m != ModeOff }

// Accepts reports whether an intent of outcome o passes. A mode that is not one of
// the modes accepts what ModeRequire does.
func (m Mode) Accepts(o Outcome) bool {
	return o == OK || !m.Verifies() || m == ModePermissive && o == UnsignedIntent
}

// Signer signs intents with one key. It is safe for concurrent use.
type Signer struct {
	keyID string
	mac   macFunc
}

// NewSigner returns a signer with the key of that id. The error wraps
// [ErrUnknownKey]. To rotate a key: add the new one to the keyrings of all
// verifiers, then sign with it, then drop the old one when nothing signed with it
// is on its way any more.
func NewSigner(ring *Keyring, keyID string) (*Signer, error) {
	mac := ring.lookup(keyID)
	switch {
	case mac != nil:
	case strings.ContainsAny(keyID, "=\n"): // a keyring in place of an id
		return nil, fmt.Errorf("intent: %w: no keyring can hold this id", ErrUnknownKey)
	default:
		return nil, fmt.Errorf("intent: %w: %q", ErrUnknownKey, keyID)
	}
	return &Signer{keyID: keyID, mac: mac}, nil
}

// Sign returns a signed copy of in, which stays as it is. A signature that in has
// is replaced. The error wraps [ErrInvalid]: in is nil, or a text in it is not
// UTF-8. A Signer that is nil or zero has no key: the error wraps [ErrUnknownKey].
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

// signedCopy returns a copy of in with that signature. It takes two allocations,
// where proto.Clone takes one for each field. A field that it forgot would not go
// unseen: the signature, made of in, would not be that of the copy.
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

// Verify tells whether in carries the signature of a key of the keyring. The time
// it takes does not depend on how much of a wrong signature is right.
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
		return BadSignature // what has no encoding was never signed
	}
	*buf = mac(input)
	if !hmac.Equal((*buf)[len(input):], in.Signature) {
		return BadSignature
	}
	return OK
}

// signedBytes returns what a signature covers, in the memory of buf: the
// deterministic encoding of in without the three fields of the signature.
//
// It writes the fields itself, which is quicker than the generic encoder and needs no
// copy in which the three are cleared. A field that the schema gains is added here.
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

// CheckText says why in has no encoding, which a coder needs: it is nil, or a text in
// it is not UTF-8. The error wraps [ErrInvalid].
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

// buffers lets calls share the memory of encodings.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// putBuffer keeps buf for later, unless it has grown beyond 64 KiB.
func putBuffer(buf *[]byte) {
	if cap(*buf) <= 64<<10 {
		buffers.Put(buf)
	}
}
