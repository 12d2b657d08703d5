package intent

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxKeyringBytes bounds what is read of a keyring.
const maxKeyringBytes = 1 << 20

// Keyring holds signing keys by id. It is safe for concurrent use. The zero value
// and nil hold no key.
type Keyring struct { //nolint:recvcheck // String is for values too, so that printing one shows no field
	// mac gives the function that appends the MAC of input to input, or nil for an
	// id that is not there. Keys are kept in the closure, and not in a field, because
	// printers and encoders walk fields, unexported ones too.
	mac func(id string) macFunc
	n   int
}

// macFunc appends the HMAC-SHA256 of input to it.
type macFunc func(input []byte) []byte

// LoadKeyring reads the keyring that ref names: "env:NAME" is the value of an
// environment variable, "file:/path" the content of a file. The error wraps
// [ErrKeyring]; where a file cannot be read, also the error of that. It never
// quotes a keyring, and a ref only where that can hold none.
func LoadKeyring(ref string) (*Keyring, error) {
	if err := CheckReference(ref); err != nil {
		return nil, err
	}
	scheme, target, _ := strings.Cut(ref, ":")
	if scheme == "env" {
		text, ok := os.LookupEnv(target)
		if !ok {
			return nil, fmt.Errorf("intent: %w: environment variable %q is not set", ErrKeyring, target)
		}
		return ParseKeyring(text)
	}
	f, err := os.Open(target)
	if err != nil {
		return nil, fmt.Errorf("intent: %w: %w", ErrKeyring, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxKeyringBytes+1))
	if err != nil {
		return nil, fmt.Errorf("intent: %w: %w", ErrKeyring, err)
	}
	return ParseKeyring(string(b))
}

// CheckReference reports a ref that [LoadKeyring] refuses without a look at what it
// names, which may be on another machine. The error wraps [ErrKeyring].
func CheckReference(ref string) error {
	scheme, target, _ := strings.Cut(ref, ":")
	switch {
	case scheme != "env" && scheme != "file":
		return fmt.Errorf("intent: %w: the reference is neither env:NAME nor file:/path", ErrKeyring)
	case strings.TrimSpace(target) == "":
		return fmt.Errorf("intent: %w: the reference %s: names nothing", ErrKeyring, scheme)
	case scheme == "env" && strings.ContainsAny(target, "=\x00\n"):
		return fmt.Errorf("intent: %w: the reference env: is not followed by a name", ErrKeyring)
	}
	return nil
}

// ParseKeyring reads lines of the form id=key. The id is UTF-8, not empty, and may
// hold spaces, but no "="; the key is standard base64 with padding, and not empty.
// White space around a line, blank lines and lines that start with "#" are skipped.
// Of lines with the same id the last counts, if all can be read. The error wraps
// [ErrKeyring] and gives the number of the line, never its text.
func ParseKeyring(text string) (*Keyring, error) {
	if len(text) > maxKeyringBytes {
		return nil, fmt.Errorf("intent: %w: longer than %d bytes", ErrKeyring, maxKeyringBytes)
	}
	macs := make(map[string]macFunc)
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, encoded, ok := strings.Cut(line, "=")
		if !ok || id == "" {
			return nil, fmt.Errorf("intent: %w: line %d: not of the form id=key", ErrKeyring, number)
		}
		if !utf8.ValidString(id) {
			return nil, fmt.Errorf("intent: %w: line %d: the id is not UTF-8", ErrKeyring, number)
		}
		// The decoder skips a carriage return; the cause it gives is of no use here.
		key, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || strings.ContainsRune(encoded, '\r') {
			return nil, fmt.Errorf("intent: %w: line %d: the key is not standard base64 with padding", ErrKeyring, number)
		}
		if len(key) == 0 {
			return nil, fmt.Errorf("intent: %w: line %d: the key is empty", ErrKeyring, number)
		}
		macs[id] = newMAC(key)
	}
	if len(macs) == 0 {
		return nil, fmt.Errorf("intent: %w: it holds no key", ErrKeyring)
	}
	return &Keyring{mac: func(id string) macFunc { return macs[id] }, n: len(macs)}, nil
}

// newMAC keeps the states that a key puts the hash in, which is half of the work
// for a short message.
func newMAC(key []byte) macFunc {
	hashes := sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}
	return func(input []byte) []byte {
		h := hashes.Get().(hash.Hash)
		defer hashes.Put(h)
		h.Reset()
		h.Write(input)
		return h.Sum(input)
	}
}

// lookup returns nil for an id that is not there.
func (r *Keyring) lookup(id string) macFunc {
	if r == nil || r.mac == nil {
		return nil
	}
	return r.mac(id)
}

// String returns the number of keys.
func (r Keyring) String() string { return fmt.Sprintf("intent.Keyring(%d keys)", r.n) }
