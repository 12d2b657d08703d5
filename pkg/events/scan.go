package events

import (
	"strconv"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

// MaxDepth is the nesting that is refused: an envelope may hold at most
// MaxDepth-1 objects and arrays inside one another, itself included.
const MaxDepth = 128

// scanner checks JSON text in one pass. Besides the grammar it checks that the text is
// UTF-8, that surrogates are paired, that floats are finite and that the depth is bounded.
// On the way it finds out how deep the text is and whether it is surely canonical already.
type scanner struct {
	s         string
	i         int
	deepest   int
	canonical bool
	err       *DecodeError
}

func (sc *scanner) fail(what string) bool {
	sc.err = unparsable(what, sc.i)
	return false
}

// space skips white space, which canonical text does not have.
func (sc *scanner) space() {
	for sc.i < len(sc.s) {
		switch sc.s[sc.i] {
		case ' ', '\n', '\t', '\r':
			sc.canonical = false
			sc.i++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (sc *scanner) peek() byte {
	if sc.i < len(sc.s) && sc.s[sc.i] > ' ' {
		return sc.s[sc.i]
	}
	sc.space()
	if sc.i < len(sc.s) {
		return sc.s[sc.i]
	}
	return 0
}

// value scans one value that lies inside depth objects and arrays.
func (sc *scanner) value(depth int) bool {
	switch b := sc.peek(); b {
	case '{':
		return sc.object(depth + 1)
	case '[':
		return sc.array(depth + 1)
	case '"':
		_, ok := sc.text()
		return ok
	case 't':
		return sc.word("true")
	case 'f':
		return sc.word("false")
	case 'n':
		return sc.word("null")
	default:
		if b == '-' || '0' <= b && b <= '9' {
			return sc.number()
		}
		return sc.fail("expected a value")
	}
}

func (sc *scanner) word(w string) bool {
	if len(sc.s)-sc.i < len(w) || sc.s[sc.i:sc.i+len(w)] != w {
		return sc.fail("expected a value")
	}
	sc.i += len(w)
	return true
}

// enter steps over an opening bracket. What follows lies inside depth objects and arrays,
// which it checks and notes.
func (sc *scanner) enter(depth int) bool {
	if depth >= MaxDepth {
		sc.err = &DecodeError{CodeTooDeep, "recursion limit exceeded at byte " + strconv.Itoa(sc.i)}
		return false
	}
	sc.deepest = max(sc.deepest, depth)
	sc.i++
	return true
}

func (sc *scanner) object(depth int) bool {
	if !sc.enter(depth) {
		return false
	}
	if sc.peek() == '}' {
		sc.i++
		return true
	}
	previous := ""
	for first := true; ; first = false {
		key, ok := sc.key()
		if !ok || !sc.value(depth) {
			return false
		}
		if !first && key <= previous {
			sc.canonical = false
		}
		previous = key
		if more, ok := sc.next('}'); !more {
			return ok
		}
	}
}

func (sc *scanner) array(depth int) bool {
	if !sc.enter(depth) {
		return false
	}
	if sc.peek() == ']' {
		sc.i++
		return true
	}
	for {
		if !sc.value(depth) {
			return false
		}
		if more, ok := sc.next(']'); !more {
			return ok
		}
	}
}

// next steps over a comma (more) or the closing bracket.
func (sc *scanner) next(closing byte) (more, ok bool) {
	switch sc.peek() {
	case ',':
		sc.i++
		return true, true
	case closing:
		sc.i++
		return false, true
	}
	return false, sc.fail("expected `,` or `" + string(closing) + "`")
}

// key scans a member's name and the colon. It returns the name as it is written. A name with
// an escape cannot be compared in that form, so text with such a name counts as not
// canonical.
func (sc *scanner) key() (raw string, ok bool) {
	if sc.peek() != '"' {
		return "", sc.fail("expected a member name")
	}
	start := sc.i + 1
	escaped, ok := sc.text()
	if !ok {
		return "", false
	}
	if escaped {
		sc.canonical = false
	}
	raw = sc.s[start : sc.i-1]
	if sc.peek() != ':' {
		return "", sc.fail("expected `:`")
	}
	sc.i++
	return raw, true
}

// text scans a string with its quotes.
func (sc *scanner) text() (escaped, ok bool) {
	s, i := sc.s, sc.i+1
	for {
		for i < len(s) && jsontoken.IsPlain(s[i]) {
			i++
		}
		sc.i = i
		if i == len(s) {
			return false, sc.fail("unexpected end in a string")
		}
		switch b := s[i]; {
		case b == '"':
			sc.i++
			return escaped, true
		case b == '\\':
			escaped = true
			if !sc.escape() {
				return false, false
			}
			i = sc.i
		case b < ' ':
			return false, sc.fail("control character in a string")
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				return false, sc.fail("invalid UTF-8")
			}
			i += size
		}
	}
}

// escape scans one escape, or two that are a pair of surrogates.
func (sc *scanner) escape() bool {
	rest := sc.s[sc.i:]
	if len(rest) > 1 && jsontoken.ShortEscape(rest[1]) != 0 { // most escapes, without a call
		sc.canonical = sc.canonical && rest[1] != '/'
		sc.i += 2
		return true
	}
	r, n, ok := jsontoken.Escape(rest)
	switch {
	case !ok && len(rest) == 1:
		return sc.fail("unexpected end in a string")
	case !ok && (n == 0 || n > 6): // n > 6 is a fault in the second escape of a pair
		return sc.fail("lone surrogate")
	case !ok:
		return sc.fail("invalid escape")
	}
	var short [6]byte
	if r >= ' ' || string(jsontoken.AppendEscape(short[:0], byte(r))) != rest[:n] {
		sc.canonical = false
	}
	sc.i += n
	return true
}

func (sc *scanner) number() bool {
	rest := sc.s[sc.i:]
	n, ok := jsontoken.ScanNumber(rest)
	sc.i += n.End
	if ok && rest[n.Whole] == '0' { // then no digit may follow, as in 01
		for sc.i < len(sc.s) && '0' <= sc.s[sc.i] && sc.s[sc.i] <= '9' {
			sc.i++
			ok = false
		}
	}
	if !ok {
		return sc.fail("invalid number")
	}
	lit := rest[:n.End]
	if !surelyFinite(lit, n) {
		if _, err := strconv.ParseFloat(lit, 64); err != nil {
			return sc.fail("number out of range")
		}
	}
	sc.canonical = sc.canonical && plainNumber(lit, n)
	return true
}

// surelyFinite reports whether lit is below 1e308 by its number of digits and its exponent.
func surelyFinite(lit string, n jsontoken.Number) bool {
	magnitude := n.Point - n.Whole
	if n.Exp < n.End {
		power, err := strconv.ParseInt(lit[n.Exp+1:], 10, 32)
		if err != nil {
			return false
		}
		magnitude += int(power)
	}
	return magnitude <= 308
}

// plainNumber reports whether lit is surely the canonical form of its number. It knows every
// integer. It does not parse floats, and reports false for some that are canonical.
func plainNumber(lit string, n jsontoken.Number) bool {
	switch {
	case n.Exp < n.End:
		return false
	case n.Point < n.Exp: // fixed notation begins at 1e-5
		return jsontoken.IsShortest(lit[n.Whole:n.Point], lit[n.Point+1:n.Exp], 4)
	case n.Point-n.Whole < 19:
		return lit != "-0"
	}
	_, float := parseNumber(lit)
	return !float
}
