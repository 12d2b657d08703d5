// Package intent builds, signs, verifies and expires ToolIntents, and derives the ids of
// activations and of everything that they emit.
//
// # Behaviour
//
// The ids ([ID], [TraceID], [SpanID], [CacheKey]) are functions of the entity key, the sequence
// number of the activation and a step. A retry computes the same ids, and so does a program in
// another language. [Builder] builds an intent from values alone; it reads no clock. Use [KindOf]
// to decide whether to execute an intent or to show it to a human. A kind that this build does
// not know is neither.
//
// A signature is the HMAC-SHA256 of the deterministic encoding of the intent without its fields
// 12 to 14 (scheme, key id, signature). The encoding is computed from the message and not taken
// from the wire, so a transport may encode the message again. Unknown fields are signed, too. So
// an intent of a newer schema verifies, and nobody can remove a field that this build does not
// know. The scheme and the key id are not signed: an intent whose key id was replaced by another
// id of the same key verifies.
//
// A signing key is named by a reference to a keyring, such as env:KEYS or file:/etc/keys, which
// [LoadKeyring] reads where the key is used. Keys are kept in closures, which formatting verbs,
// encoders and reflection cannot read. No error quotes a keyring.
//
// An effector (the program that executes intents) first verifies an intent, then checks its
// expiry, and then executes it. The example of the package shows this.
//
// # Limits
//
// A keyring has at most 1 MiB, and each key at least 16 bytes. The size of an intent's arguments
// is not limited here. The values of a [CacheKey] may be nested up to canonjson.MaxDepth - 1
// levels, because the document around them adds one.
//
// The ids use SHA-1, because version 5 UUIDs do. So they panic under GODEBUG=fips140=only, which
// forbids SHA-1. The ids identify; they do not authenticate.
//
// # Differences from other languages
//
// Some writers of this format accept a short or empty signing key, and some use the last of two
// equal members in arguments. This package refuses both.
package intent

import (
	"errors"
	"fmt"
)

// The errors that errors of this package wrap.
var (
	// ErrInvalid: the intent must not be made, signed or sent.
	ErrInvalid = errors.New("invalid intent")
	// ErrKeyring: the keyring, or a reference to it, cannot be used.
	ErrKeyring = errors.New("unusable keyring")
	// ErrReference: the reference does not lead to a keyring, so no keyring was read. It wraps
	// ErrKeyring.
	ErrReference = fmt.Errorf("%w reference", ErrKeyring)
	// ErrUnknownKey: the keyring does not hold the key id, or the Signer has no key.
	ErrUnknownKey = errors.New("signing key is not in the keyring")
	// ErrMode: the text is not a verification mode.
	ErrMode = errors.New("unknown verification mode")
)
