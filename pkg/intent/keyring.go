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
	// maxKeyringBytes bounds what is read of a keyring.
	maxKeyringBytes = 1 << 20
	// minKeyBytes is half of what HMAC-SHA256 asks for; a shorter key is a password or a
	// mistake.
	minKeyBytes = 16
)

// Keyring holds signing keys by id. It is safe for concurrent use. The zero value
// and nil hold no key.
type Keyring struct {
	// mac gives the function that appends the MAC of input to input, or nil for an
	// id that is not there. Keys are kept in the closure, and not in a field, because
	// printers and encoders walk fields, unexported ones too.
	mac func(id string) macFunc
	n   int
}

// macFunc appends the HMAC-SHA256 of input to it.
type macFunc func(input []byte) []byte

// LoadKeyring reads the keyring that ref names: "env:NAME" is the value of an
// environment variable, "file:/path" the content of a regular file, by its absolute path.
// A pipe or a device is refused: reading it could block for ever.
//
// The error wraps [ErrKeyring]. For a malformed reference, a variable that is not set and
// a file that cannot be read it also wraps [ErrReference], and the error of the file. It
// quotes nothing but the path of a file.
func LoadKeyring(ref string) (*Keyring, error) {
	if err := CheckReference(ref); err != nil {
		return nil, err
	}
	scheme, target, _ := strings.Cut(ref, ":")
	if scheme == "env" {
		text, ok := os.LookupEnv(target)
		if !ok {
			// A key without its padding looks like a name: not even that is quoted.
			return nil, fmt.Errorf("intent: %w: the environment variable that it names is not set", ErrReference)
		}
		return ParseKeyring(text)
	}
	// Opening a pipe blocks until somebody writes to it, so the file is looked at first.
	if info, err := os.Stat(target); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("intent: %w: %s is not a regular file; write the keys to a file and name that", ErrReference, target)
	}
	f, err := os.Open(target)
	if err != nil {
		return nil, fmt.Errorf("intent: %w: %w", ErrReference, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxKeyringBytes+1))
	if err != nil {
		return nil, fmt.Errorf("intent: %w: %w", ErrReference, err)
	}
	return ParseKeyring(string(b))
}

// variable is a name that an environment variable of a keyring may have.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// CheckReference reports a ref that [LoadKeyring] refuses without a look at what it
// names, which may be on another machine: env: is followed by 1 to 128 ASCII letters,
// digits and underscores that do not begin with a digit, file: by a path that begins
// with "/" and is UTF-8 without control characters. The error wraps [ErrReference],
// and quotes nothing of ref: that may be a keyring by mistake.
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
		return fmt.Errorf("intent: %w: the path behind file: holds what is no text", ErrReference)
	}
	return nil
}

// ParseKeyring reads lines of the form id=key.
//
// The id is UTF-8, not empty, and may hold spaces, but no "=", control character or byte
// order mark. The key is standard base64 with padding, of at least 16 bytes. White space
// (that of Unicode) around a line, an id or a key is dropped. A byte order mark in front
// of the text, blank lines and lines that start with "#" are skipped. Where several lines
// have the same id the last one counts, but all must be readable.
//
// The error wraps [ErrKeyring] and gives the number of the line, never its text.
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
		// The decoder skips a carriage return; the cause it gives is of no use here.
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

// unreadable says what in an id nobody sees, so that it would never be matched.
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

// String tells the number of keys.
func (r *Keyring) String() string {
	n := 0
	if r != nil {
		n = r.n
	}
	return fmt.Sprintf("intent.Keyring(%d keys)", n)
}
