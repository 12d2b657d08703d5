package canonjson_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
)

// character draws characters that have an escape, that UTF-16 would sort elsewhere, or that
// have several bytes.
var character = rapid.OneOf(
	rapid.SampledFrom([]rune("\x00\x01\b\t\n\v\f\r\x1f \"#/[\\]ab\x7f\u0080é\u2028\u2029\ud7ff\ue000\ufffd\uffff\U00010000😀\U0010ffff")),
	rapid.Rune().Filter(func(r rune) bool { return r < 0xd800 || r > 0xdfff }),
)

func drawString(t *rapid.T) string {
	return string(rapid.SliceOfN(character, 0, 6).Draw(t, "string"))
}

// drawValue draws a value that Marshal accepts.
func drawValue(t *rapid.T, depth int) any {
	kinds := 7
	if depth >= 4 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "word")
	case 1:
		return drawString(t)
	case 2:
		return rapid.Int64().Draw(t, "int")
	case 3:
		digits := rapid.StringMatching(`-?[1-9][0-9]{18,40}`).Draw(t, "big")
		n, _ := new(big.Int).SetString(digits, 10)
		return n
	case 4:
		return rapid.OneOf(
			rapid.Float64().Filter(func(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }),
			rapid.Custom(func(t *rapid.T) float64 {
				return float64(rapid.IntRange(-99, 99).Draw(t, "digits")) * math.Pow10(rapid.IntRange(-9, 20).Draw(t, "exponent"))
			}),
		).Draw(t, "float")
	case 5:
		n := rapid.IntRange(0, 4).Draw(t, "length")
		a := make([]any, n)
		for i := range a {
			a[i] = drawValue(t, depth+1)
		}
		return a
	}
	n := rapid.IntRange(0, 6).Draw(t, "members")
	m := make(map[string]any, n)
	for range n {
		m[drawString(t)] = drawValue(t, depth+1)
	}
	return m
}

// spell writes v in any of the ways that JSON allows.
func spell(t *rapid.T, v any) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r "}).Draw(t, "space") }
	var b strings.Builder
	b.WriteString(space())
	switch v := v.(type) {
	case string:
		b.WriteByte('"')
		for _, r := range v {
			b.WriteString(spellRune(t, r))
		}
		b.WriteByte('"')
	case float64:
		s := strconv.FormatFloat(v, byte(rapid.SampledFrom([]rune("eEf")).Draw(t, "format")), -1, 64)
		if !strings.ContainsAny(s, ".eE") {
			s += rapid.SampledFrom([]string{".0", "e0", "E+00", ".000e-0"}).Draw(t, "fraction")
		}
		b.WriteString(s)
	case *big.Int:
		b.WriteString(v.String())
	case []any:
		b.WriteString("[" + space())
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(spell(t, e))
		}
		b.WriteString("]")
	case map[string]any:
		b.WriteString("{" + space())
		first := true
		for _, i := range rapid.Permutation(sortedNames(v)).Draw(t, "order") {
			if !first {
				b.WriteByte(',')
			}
			first = false
			b.WriteString(spell(t, i) + ":" + spell(t, v[i]))
		}
		b.WriteString("}")
	default:
		fmt.Fprint(&b, strings.ReplaceAll(fmt.Sprint(v), "<nil>", "null"))
	}
	b.WriteString(space())
	return b.String()
}

func sortedNames(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	// The draws must not depend on the order of the map.
	for i := range names {
		for j := i; j > 0 && names[j] < names[j-1]; j-- {
			names[j], names[j-1] = names[j-1], names[j]
		}
	}
	return names
}

func spellRune(t *rapid.T, r rune) string {
	short := map[rune]string{
		'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`,
	}[r]
	var ways []string
	if r >= 0x20 && r != '"' && r != '\\' {
		ways = append(ways, string(r), string(r))
	}
	if short != "" {
		ways = append(ways, short)
	}
	var escaped strings.Builder
	for _, unit := range utf16.Encode([]rune{r}) {
		fmt.Fprintf(&escaped, `\u%04x`, unit)
	}
	ways = append(ways, escaped.String(), strings.ReplaceAll(strings.ToUpper(escaped.String()), "U", "u"))
	return rapid.SampledFrom(ways).Draw(t, "spelling")
}

// Any spelling of a value has the canonical form of that value, alone, inside a Go
// value, and in a hash.
func TestSpellings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawValue(t, 0)
		want, err := canonjson.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text := spell(t, v)
		got, err := canonjson.Canonicalize(nil, []byte(text))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("Canonicalize(%q) = %s, %v; want %s", text, got, err, want)
		}
		again, err := canonjson.Canonicalize(nil, got)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("Canonicalize(%s) = %s, %v", got, again, err)
		}
		sum := sha256.New()
		if err := canonjson.Write(sum, []any{json.RawMessage(text), v}); err != nil {
			t.Fatal(err)
		}
		if whole := sha256.Sum256([]byte("[" + string(want) + "," + string(want) + "]")); !bytes.Equal(sum.Sum(nil), whole[:]) {
			t.Fatalf("Write of %q has another hash", text)
		}
	})
}

// Different values have different canonical forms.
func TestInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawValue(t, 0)
		got, err := canonjson.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		back := decode(t, got)
		if again, err := canonjson.Marshal(back); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("Marshal(%v) = %s; decoded and marshalled again: %s, %v", v, got, again, err)
		}
		if !equal(v, back) {
			t.Fatalf("Marshal(%v) = %s, which decodes to %v", v, got, back)
		}
	})
}
