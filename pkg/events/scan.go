package events

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth is the nesting that is refused: an envelope may hold at most
// MaxDepth-1 objects and arrays inside one another, itself included.
const MaxDepth = 128

// scanner checks JSON text in one pass. Beside grammar it demands UTF-8,
// paired surrogates, floats that are finite, and a bounded depth. On the way
// it learns how deep the text is and whether it surely is canonical already.
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

// space skips white space. Canonical text has none.
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

// enter notes that the scan is inside depth objects and arrays, and steps
// over the opening bracket.
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

// key scans a member's name and the colon. A name with an escape comes as it
// is written, which is no order to compare by: such text counts as not
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

// plain marks the bytes that a string holds as they are.
var plain = func() (t [256]bool) {
	for b := 0x20; b < utf8.RuneSelf; b++ {
		t[b] = b != '"' && b != '\\'
	}
	return t
}()

// text scans a string, the quotes included.
func (sc *scanner) text() (escaped, ok bool) {
	s, i := sc.s, sc.i+1
	for {
		for i < len(s) && plain[s[i]] {
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

// escape scans one escape, or two that make a surrogate pair.
func (sc *scanner) escape() bool {
	if sc.i+1 == len(sc.s) {
		return sc.fail("unexpected end in a string")
	}
	switch sc.s[sc.i+1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		sc.i += 2
		return true
	case '/':
		sc.canonical = false
		sc.i += 2
		return true
	case 'u':
		r := hex4(sc.s, sc.i)
		if r < 0 {
			return sc.fail("invalid escape")
		}
		if _, short := shortEscape(byte(r)); r >= ' ' || short || sc.s[sc.i+5] < 'a' && sc.s[sc.i+5] > '9' {
			sc.canonical = false
		}
		switch {
		case r < 0xD800 || r > 0xDFFF:
			sc.i += 6
			return true
		case r < 0xDC00 && lowSurrogate(hex4(sc.s, sc.i+6)):
			sc.i += 12
			return true
		}
		return sc.fail("lone surrogate")
	}
	return sc.fail("invalid escape")
}

func lowSurrogate(r rune) bool { return 0xDC00 <= r && r <= 0xDFFF }

// hex4 reads the escape \uXXXX at i, -1 if there is none.
func hex4(s string, i int) (r rune) {
	if i+6 > len(s) || s[i] != '\\' || s[i+1] != 'u' {
		return -1
	}
	for _, b := range []byte(s[i+2 : i+6]) {
		switch {
		case '0' <= b && b <= '9':
			b -= '0'
		case 'a' <= b && b <= 'f':
			b -= 'a' - 10
		case 'A' <= b && b <= 'F':
			b -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(b)
	}
	return r
}

// digits scans a run of digits and returns its length.
func (sc *scanner) digits() int {
	start := sc.i
	for sc.i < len(sc.s) && '0' <= sc.s[sc.i] && sc.s[sc.i] <= '9' {
		sc.i++
	}
	return sc.i - start
}

func (sc *scanner) at(b byte) bool { return sc.i < len(sc.s) && sc.s[sc.i] == b }

func (sc *scanner) number() bool {
	start := sc.i
	negative := sc.at('-')
	if negative {
		sc.i++
	}
	lead := sc.i
	whole := sc.digits()
	if whole == 0 || whole > 1 && sc.s[lead] == '0' {
		return sc.fail("invalid number")
	}
	fraction, exponent, magnitude := 0, false, whole
	if sc.at('.') {
		sc.i++
		if fraction = sc.digits(); fraction == 0 {
			return sc.fail("invalid number")
		}
	}
	point := sc.i - fraction
	if sc.at('e') || sc.at('E') {
		exponent = true
		sc.i++
		small := sc.at('-')
		if small || sc.at('+') {
			sc.i++
		}
		power := sc.i
		switch n := sc.digits(); {
		case n == 0:
			return sc.fail("invalid number")
		case n > 3:
			magnitude = math.MaxInt
		case !small:
			n, _ := strconv.Atoi(sc.s[power:sc.i])
			magnitude += n
		}
	}
	if magnitude > 308 { // else the number is below 1e308
		if _, err := strconv.ParseFloat(sc.s[start:sc.i], 64); err != nil {
			return sc.fail("number out of range")
		}
	}
	switch {
	case exponent:
		sc.canonical = false
	case fraction > 0:
		sc.canonical = sc.canonical && plainDecimal(sc.s[lead:point-1], sc.s[point:sc.i])
	case whole >= 19:
		if _, float := parseNumber(sc.s[start:sc.i]); float {
			sc.canonical = false
		}
	case negative && sc.s[lead] == '0':
		sc.canonical = false
	}
	return true
}

// plainNumber reports whether lit surely is how a number is written. It is much less
// work than to find out how.
func plainNumber(lit string) bool {
	whole := strings.TrimPrefix(lit, "-")
	for i := range len(whole) {
		switch whole[i] {
		case '.':
			fraction := whole[i+1:]
			return !strings.ContainsAny(fraction, "eE") && plainDecimal(whole[:i], fraction)
		case 'e', 'E':
			return false
		}
	}
	return len(whole) < 19 && lit != "-0"
}

// plainDecimal reports whether whole.fraction surely is how appendFloat
// writes it. At most 15 digits always survive the way through a 64-bit float,
// so no shorter text stands for the same float.
func plainDecimal(whole, fraction string) bool {
	if len(whole)+len(fraction) > 15 {
		return false
	}
	if fraction[len(fraction)-1] == '0' {
		return len(fraction) == 1
	}
	return whole != "0" || len(fraction) <= 4 || fraction[:4] != "0000" || fraction[4] != '0'
}
