package events

import (
	"strings"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

// pieceBytes is the length from which an output passes its text on, in bytes.
const pieceBytes = 4 << 10

// output collects text that is written from its first byte to its last. It keeps the whole
// text, or passes it on in pieces if there is a spill.
type output struct {
	text  []byte
	spill func(piece []byte)
}

// hand passes on the text that is there, if it has at least that many bytes.
func (o *output) hand(least int) {
	if o.spill != nil && len(o.text) >= least {
		o.spill(o.text)
		o.text = o.text[:0]
	}
}

// pieces calls add with s, or with one piece of s after the other if the output passes its
// text on. A piece may end within a character.
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

// rewritten writes the canonical form of a string of the input: inner is what stands between
// its quotes there, and escaped whether that holds escapes.
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
