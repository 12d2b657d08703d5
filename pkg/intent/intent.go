// Package intent makes, signs, verifies and expires ToolIntents, and derives the
// identities that an activation and everything it emits are known by.
//
// # Behaviour
//
// Identities ([ID], [TraceID], [SpanID], [CacheKey]) are functions of the entity
// key, the sequence number of the activation and a step: a retry makes the same
// ones, and so does a program in another language. [Builder] makes an intent from
// values alone; it reads no clock. [KindOf] is the only reading of the kind that
// may decide whether something is executed or shown to a human.
//
// A signature is the HMAC-SHA256 of the deterministic encoding of the intent
// without its fields 12 to 14 (scheme, key id, signature). Unknown fields are part
// of it, so that an intent of a newer schema verifies, and cannot be stripped of
// what this program does not know. The encoding is made from the message, not
// taken from the wire, so that a transport may re-encode. Scheme and key id are
// outside: an id changed to another that names the same key verifies.
//
// Keys are named by reference ([LoadKeyring]) and found where they are used. They
// live in closures: no formatting verb, encoder or reflection over a value of this
// package reaches one, and no error quotes a line of a keyring.
//
// An effector verifies first, then looks at the expiry, then executes; see the
// example of the package.
//
// # Limits
//
// A keyring is read up to 1 MiB; its keys have at least 16 bytes. Nothing bounds an intent's args here. A model call
// is nested at most canonjson.MaxDepth - 1 deep, as its document adds a level.
//
// The identities use SHA-1, as version 5 UUIDs do; under GODEBUG=fips140=only, which
// forbids it, they panic. They tell things apart and authenticate nothing.
//
// # Differences
//
// Some writers of this format take a short or empty signing key, and the last of two
// equal members in args; here both are refused.
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
