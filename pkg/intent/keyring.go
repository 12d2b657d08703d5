package intent

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	// maxKeyringBytes bounds the size of a keyring.
	maxKeyringBytes = 1 << 20
	// minKeyBytes is half of what HMAC-SHA256 recommends. A shorter key is a password or a
	// mistake.
	minKeyBytes = 16
)

// Keyring holds signing keys by id. It is safe for concurrent use. The zero value and nil hold no
// keys.
type Keyring struct {
	// mac returns the function that appends the MAC of input to input, or nil for an unknown id.
	// Keys are kept in the closure, because printers and encoders read fields, also unexported
	// ones.
	mac func(id string) macFunc
	n   int
}

// macFunc appends the HMAC-SHA256 of input to it.
type macFunc func(input []byte) []byte

// LoadKeyring reads the keyring that ref names. "env:NAME" is the value of an environment
// variable. "file:/path" is the content of a regular file, given by its absolute path. A pipe or
// a device is refused, because reading it could block for ever.
//
// The error wraps [ErrKeyring]. If the reference is malformed, the variable is not set, or the
// file cannot be read, the error also wraps [ErrReference] and the error of the file. It quotes
// the path of a file, and nothing else.
func LoadKeyring(ref string) (*Keyring, error) {
	if err := CheckReference(ref); err != nil {
		return nil, err
	}
	scheme, target, _ := strings.Cut(ref, ":")
	if scheme == "env" {
		text, ok := os.LookupEnv(target)
		if !ok {
			// The name is not quoted, because a key without its padding looks like a name.
			return nil, fmt.Errorf("intent: %w: the environment variable that it names is not set", ErrReference)
		}
		return ParseKeyring(text)
	}
	// Opening a pipe would block until somebody writes to it, so check the file first.
	if info, err := os.Stat(target); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("intent: %w: %s is not a regular file; write the keys to a file and name that", ErrReference, target)
	}
	f, err := os.Open(target)
	if err != nil {
		return nil, fmt.Errorf("intent: %w: %w", ErrReference, err)
	}
	defer func() { _ = f.Close() }() // the file was only read
	b, err := io.ReadAll(io.LimitReader(f, maxKeyringBytes+1))
	if err != nil {
		return nil, fmt.Errorf("intent: %w: %w", ErrReference, err)
	}
	return ParseKeyring(string(b))
}

// variable matches the names of environment variables that may hold a keyring.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// CheckReference returns an error if ref is malformed. It does not read the keyring, which may be
// on another machine. After env: must come 1 to 128 ASCII letters, digits and underscores that do
// not begin with a digit. After file: must come a path that begins with "/" and is UTF-8 without
// control characters. The error wraps [ErrReference] and does not quote ref, which may be a
// keyring by mistake.
func CheckReference(ref string) error {
	scheme, target, _ := strings.Cut(ref, ":")
	switch {
	case scheme != "env" && scheme != "file":
		return fmt.Errorf("intent: %w: neither env:NAME nor file:/path", ErrReference)
	case scheme == "env" && !variable.MatchString(target):
		return fmt.Errorf("intent: %w: env: is not followed by a name of letters, digits and underscores", ErrReference)
	case scheme == "file" && !strings.HasPrefix(target, "/"):
		return fmt.Errorf("intent: %w: file: is not followed by an absolute path", ErrReference)
	case scheme == "file" && (!utf8.ValidString(target) || strings.ContainsFunc(target, unicode.IsControl)):
		return fmt.Errorf("intent: %w: the path after file: is not UTF-8 or has control characters", ErrReference)
	}
	return nil
}

// ParseKeyring reads lines of the form id=key.
//
// An id is UTF-8 and not empty. It may have spaces, but no "=", control characters or byte order
// marks. A key is standard base64 with padding, of at least 16 bytes. Unicode white space around
// a line, an id or a key is ignored. A byte order mark at the start of the text, blank lines, and
// lines that start with "#" are skipped. If several lines have the same id, the last one counts,
// but every line must be valid.
//
// The error wraps [ErrKeyring]. It gives the number of the line and never its text.
func ParseKeyring(text string) (*Keyring, error) {
	if len(text) > maxKeyringBytes {
		return nil, fmt.Errorf("intent: %w: longer than %d bytes", ErrKeyring, maxKeyringBytes)
	}
	text = strings.TrimPrefix(text, byteOrderMark)
	macs := make(map[string]macFunc)
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, encoded, ok := strings.Cut(line, "=")
		id, encoded = strings.TrimSpace(id), strings.TrimSpace(encoded)
		if !ok || id == "" {
			return nil, fmt.Errorf("intent: %w: line %d: not of the form id=key", ErrKeyring, number)
		}
		if fault := unreadable(id); fault != "" {
			return nil, fmt.Errorf("intent: %w: line %d: the id %s", ErrKeyring, number, fault)
		}
		// The decoder skips a carriage return. Its error does not help here.
		key, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || strings.ContainsRune(encoded, '\r') {
			return nil, fmt.Errorf("intent: %w: line %d: the key is not standard base64 with padding", ErrKeyring, number)
		}
		if len(key) < minKeyBytes {
			return nil, fmt.Errorf("intent: %w: line %d: the key has %d bytes, fewer than %d; make one with: head -c 32 /dev/urandom | base64",
				ErrKeyring, number, len(key), minKeyBytes)
		}
		macs[id] = newMAC(key)
	}
	if len(macs) == 0 {
		return nil, fmt.Errorf("intent: %w: it holds no key", ErrKeyring)
	}
	return &Keyring{mac: func(id string) macFunc { return macs[id] }, n: len(macs)}, nil
}

const byteOrderMark = "\ufeff"

// unreadable returns what is wrong with an id that has invisible characters, which nobody would
// match.
func unreadable(id string) string {
	switch {
	case !utf8.ValidString(id):
		return "is not UTF-8"
	case strings.ContainsFunc(id, unicode.IsControl):
		return "holds a control character"
	case strings.Contains(id, byteOrderMark):
		return "holds a byte order mark"
	}
	return ""
}

// newMAC keeps the hash states of a key, because computing them is half of the work for a short
// message.
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

// lookup returns nil for an unknown id.
func (r *Keyring) lookup(id string) macFunc {
	if r == nil || r.mac == nil {
		return nil
	}
	return r.mac(id)
}

// String returns a text with the number of keys.
func (r *Keyring) String() string {
	n := 0
	if r != nil {
		n = r.n
	}
	return fmt.Sprintf("intent.Keyring(%d keys)", n)
}
