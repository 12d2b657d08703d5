package events

import (
	"strings"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

// pieceBytes is the length from which an output hands its text on, in bytes.
const pieceBytes = 4 << 10

// output takes text from its first byte to its last. It keeps all of it, or hands it on
// in pieces where there is a spill.
type output struct {
	text  []byte
	spill func(piece []byte)
}

// hand hands on what there is if it is at least that many bytes.
func (o *output) hand(least int) {
	if o.spill != nil && len(o.text) >= least {
		o.spill(o.text)
		o.text = o.text[:0]
	}
}

// pieces calls add with s, in pieces where they are handed on. A piece may end within a
// character.
func (o *output) pieces(s string, add func(dst []byte, s string) []byte) {
	for o.spill != nil && len(s) > pieceBytes {
		o.text = add(o.text, s[:pieceBytes])
		o.hand(pieceBytes)
		s = s[pieceBytes:]
	}
	o.text = add(o.text, s)
	o.hand(pieceBytes)
}

// copy writes s as it is.
func (o *output) copy(s string) {
	o.pieces(s, func(dst []byte, s string) []byte { return append(dst, s...) })
}

// string writes s as a JSON string; s must be valid UTF-8.
func (o *output) string(s string) {
	o.text = append(o.text, '"')
	o.pieces(s, jsontoken.AppendEscaped[string])
	o.text = append(o.text, '"')
}

// rewritten writes in its canonical form a string that was read, whose text is inner.
func (o *output) rewritten(inner string, escaped bool) {
	o.text = append(o.text, '"')
	for escaped {
		i := strings.IndexByte(inner, '\\')
		if i < 0 {
			break
		}
		o.copy(inner[:i])
		r, size, _ := jsontoken.Escape(inner[i:])
		if r < ' ' || r == '"' || r == '\\' {
			o.text = jsontoken.AppendEscape(o.text, byte(r))
		} else {
			o.text = utf8.AppendRune(o.text, r)
		}
		inner = inner[i+size:]
	}
	o.copy(inner)
	o.text = append(o.text, '"')
}
