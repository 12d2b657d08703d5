// Package intent builds, signs, verifies and expires ToolIntents, and derives the ids of
// activations and of everything that they emit.
//
// # Behaviour
//
// The ids ([ID], [TraceID], [SpanID], [CacheKey]) are functions of the entity key, the
// sequence number of the activation and a step. A retry computes the same ids, and so does
// a program in another language. [Builder] builds an intent from values alone; it reads no
// clock. Use [KindOf] to decide whether an intent is executed or shown to a human: it
// treats a kind that this build does not know as neither.
//
// A signature is the HMAC-SHA256 of the deterministic encoding of the intent without its
// fields 12 to 14 (scheme, key id, signature). The encoding is computed from the message
// and not taken from the wire, so that a transport may encode the message again. Unknown
// fields are signed too. So an intent of a newer schema verifies, and nobody can remove
// what this build does not know. Scheme and key id are not signed: an intent whose key id
// was replaced by another name of the same key verifies.
//
// Signing keys are named by a reference, such as env:KEYS or file:/etc/keys, and
// [LoadKeyring] reads them where they are used. The keys are held in closures: no
// formatting verb, encoder or reflection reaches them, and no error quotes a keyring.
//
// An effector (the program that executes intents) first verifies an intent, then checks its
// expiry, then executes it. See the example of the package.
//
// # Limits
//
// A keyring has at most 1 MiB, and each key at least 16 bytes. The size of an intent's
// arguments is not limited here. The values of a [CacheKey] nest at most
// canonjson.MaxDepth - 1 levels, since the document around them adds one.
//
// The ids use SHA-1, as version 5 UUIDs do, and panic under GODEBUG=fips140=only, which
// forbids it. They identify; they authenticate nothing.
//
// # Differences
//
// Some writers of this format accept a short or empty signing key, and the last of two
// equal members in arguments. This package refuses both.
package intent

import (
	"errors"
	"fmt"
)

// What errors of this package wrap.
var (
	// ErrInvalid: an intent that must not be made, signed or sent.
	ErrInvalid = errors.New("invalid intent")
	// ErrKeyring: a keyring, or a reference to one, that cannot be used.
	ErrKeyring = errors.New("unusable keyring")
	// ErrReference: a reference that leads to no keyring, whose text has not been
	// looked at. It wraps ErrKeyring.
	ErrReference = fmt.Errorf("%w reference", ErrKeyring)
	// ErrUnknownKey: a key id that the keyring does not hold, or a Signer of no key.
	ErrUnknownKey = errors.New("signing key is not in the keyring")
	// ErrMode: not a verification mode.
	ErrMode = errors.New("unknown verification mode")
)
