package events_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/pkg/events"
)

func parse(t testing.TB, text string) events.Value {
	t.Helper()
	v, err := events.ParseValue([]byte(text))
	if err != nil {
		t.Fatalf("ParseValue(%s): %v", text, err)
	}
	return v
}

func TestValueEqual(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		equal bool
	}{
		{"1", "1.0", false},
		{"0.0", "-0.0", false},
		{"-0", "-0.0", true},
		{"1e2", "100.0", true},
		{"1e2", "100", false},
		{"0.10", "0.1", true},
		{"1e+16", "1e16", true},
		{"1E16", "10000000000000000.0", true},
		{"0.00001", "1e-5", true},
		{"18446744073709551616", "18446744073709551616.0", true},
		{"18446744073709551615", "18446744073709551615.0", false},
		{"-9223372036854775809", "-9223372036854775809.0", true},
		{`{"a":1,"b":2}`, `{ "b":2, "a":1 }`, true},
		{`{"a":1}`, `{"a":1,"b":null}`, false},
		{`{"a":0,"a":1}`, `{"a":1}`, true},
		{`[1,2]`, `[2,1]`, false},
		{`"\u00e9\/"`, `"é/"`, true},
		{`"\ud83d\ude00"`, `"😀"`, true},
		{`"é"`, `"e\u0301"`, false},
		{`null`, `""`, false},
	} {
		a, b := parse(t, c.a), parse(t, c.b)
		if a.Equal(b) != c.equal || b.Equal(a) != c.equal {
			t.Errorf("%s equal to %s: want %t (%s, %s)", c.a, c.b, c.equal, a.JSON(), b.JSON())
		}
	}
	if !parse(t, " null ").Equal(events.Value{}) {
		t.Error("the zero Value is not null")
	}
}

// A control character has one escape: the short one if there is one, otherwise \u and lower-case
// digits.
func TestValueEscapes(t *testing.T) {
	for in, want := range map[string]string{
		`"\u001F"`: `"\u001f"`, `"\u001f"`: `"\u001f"`, `"\u000A"`: `"\n"`, `"\u000B"`: `"\u000b"`, `"\u0041"`: `"A"`, `"\/"`: `"/"`, `"\u00E9"`: `"é"`,
	} {
		if got := parse(t, in).JSON(); got != want {
			t.Errorf("%s is written %s, want %s", in, got, want)
		}
	}
}

// Members are in the order of their UTF-8 bytes, which differs from that of UTF-16.
func TestValueKeyOrder(t *testing.T) {
	v := parse(t, `{"😀":1,"\uff61":2,"é":3,"z":4,"aa":5,"a":6,"":7,"A":8,"\u0001":9,"a\u0000":10}`)
	want := `{"":7,"\u0001":9,"A":8,"a":6,"a\u0000":10,"aa":5,"z":4,"é":3,"｡":2,"😀":1}`
	if got := v.JSON(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// nestedText is a text of so many objects and arrays inside one another. Members are in any
// order and may occur more than once; names and values are in any spelling.
func nestedText(r *rand.Rand, depth int) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	if depth == 0 {
		return pick("1e2", "-0", "null", "[ ]", "{ }", `"\u0041{\\\""`, `"`+strings.Repeat("long ", r.IntN(30))+`"`)
	}
	items := []string{nestedText(r, depth-1)}
	for range pick("", "1", "12", strings.Repeat("x", r.IntN(40))) {
		items = append(items, nestedText(r, r.IntN(min(depth, 2))/(1+r.IntN(4))))
	}
	r.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	if r.IntN(3) == 0 {
		return "[" + strings.Join(items, " , ") + "]"
	}
	for i := range items {
		items[i] = pick(`"a"`, `"b" `, `"\u0061"`, `"\n"`, `"é"`, `""`, `"{"`, `"a\"]"`) + ": " + items[i]
	}
	return "{" + strings.Join(items, ",") + "}"
}

// Rewriting a text and writing its Go values give the same canonical form.
func TestCanonicalAtEveryDepth(t *testing.T) {
	for depth := range events.MaxDepth - 2 { // the innermost may be an array, too
		for seed := range uint64(4) {
			text := nestedText(rand.New(rand.NewPCG(seed, uint64(depth))), depth)
			v := parse(t, text)
			want, err := events.ValueOf(v.Any())
			if err != nil {
				t.Fatal(err)
			}
			if v.JSON() != want.JSON() {
				t.Fatalf("depth %d, seed %d: %.2000s\nis written\n%.2000s, want\n%.2000s", depth, seed, text, v.JSON(), want.JSON())
			}
		}
	}
}

// The time for a text does not depend on how deep it is nested. Each time is the best of
// several, so that a busy machine does not matter.
func TestCanonicalIsLinearInDepth(t *testing.T) {
	chain := func(depth int, leaf string) string {
		return strings.Repeat(`{"b":0,"a":`, depth) + leaf + strings.Repeat("}", depth)
	}
	long := "[1e2" + strings.Repeat(`,1,"`+strings.Repeat("x", 1000)+`"`, 1000) + "]"
	numbers := "[1e2" + strings.Repeat(`,12,3.5`, 20_000) + "]"
	for name, texts := range map[string][2]string{
		"long strings": {"[" + long + "]", chain(120, long)},
		"numbers":      {"[" + numbers + "]", chain(120, numbers)},
		"objects":      {"[" + strings.Repeat(chain(10, "0")+",", 1500) + "0]", "[" + strings.Repeat(chain(120, "0")+",", 125) + "0]"},
	} {
		var best [2]time.Duration
		buf := make([]byte, 0, 2*len(texts[0]))
		for i, text := range texts {
			v := parse(t, text)
			for range 5 {
				start := time.Now()
				buf = v.AppendJSON(buf[:0])
				if took := time.Since(start); best[i] == 0 || took < best[i] {
					best[i] = took
				}
			}
		}
		ratio := float64(best[1]) / float64(best[0])
		t.Logf("%s: %v, deep %v: %.1f times", name, best[0], best[1], ratio)
		if ratio > 6 {
			t.Errorf("%s: takes %.1f times as long when it lies deep, at most 6", name, ratio)
		}
	}
}

func TestValueFloats(t *testing.T) {
	for in, want := range map[string]string{
		"1e15": "1000000000000000.0", "9999999999999998.0": "9999999999999998.0", "1e16": "1e16",
		"12345678901234567890.0": "1.2345678901234567e19", "1e-5": "0.00001", "1.5e-5": "0.000015", "9.9e-6": "9.9e-6",
		"123e-2": "1.23", "-1.5E+3": "-1500.0", "2.2250738585072014e-308": "2.2250738585072014e-308",
		"1e23": "1e23", "9007199254740993.0": "9007199254740992.0", "0.3": "0.3", "5.0e-1": "0.5", "1e100": "1e100", "0e9": "0.0",
		"[ 0.00001, 0.000001, 0.50, -0, -0.0, 12.5E0, 999999999999999999, 1000000000000000000, 18446744073709551616, -9223372036854775809, 0.1234567890123456789 ]": "[0.00001,1e-6,0.5,-0.0,-0.0,12.5,999999999999999999,1000000000000000000,1.8446744073709552e19,-9.223372036854776e18,0.12345678901234568]",
	} {
		if got := parse(t, in).JSON(); got != want {
			t.Errorf("%s is written %s, want %s", in, got, want)
		}
	}
}

func TestValueAccess(t *testing.T) {
	v := parse(t, `{"s":"a\nb","i":-7,"u":18446744073709551615,"f":1.5,"t":true,"n":null,"o":{"k":[1]},"s":"last"}`)
	want := map[string]any{"s": "last", "i": int64(-7), "u": uint64(math.MaxUint64), "f": 1.5, "t": true, "n": nil,
		"o": map[string]any{"k": []any{int64(1)}}}
	if diff := cmp.Diff(want, v.Any()); diff != "" {
		t.Errorf("Any (-want +got):\n%s", diff)
	}
	back, err := events.ValueOf(v.Any())
	if err != nil || !back.Equal(v) {
		t.Errorf("ValueOf(Any()) is %s (%v)", back.JSON(), err)
	}
	if s, ok := get(t, v, "s").Str(); s != "last" || !ok {
		t.Errorf("Get takes the first of equal names: %q", s)
	}
	if inner, ok := get(t, v, "o").Get("k"); !ok || inner.JSON() != "[1]" {
		t.Errorf("nested Get is %s", inner.JSON())
	}
	if n, ok := v.Get("n"); !ok || !n.IsNull() {
		t.Error("a null member is not there")
	}
	for _, other := range []string{"absent", "k", ""} {
		if _, ok := v.Get(other); ok {
			t.Errorf("there is no member %q", other)
		}
	}
	if _, ok := parse(t, `[{"s":1}]`).Get("s"); ok {
		t.Error("Get on an array")
	}
	if b, ok := get(t, v, "t").Bool(); !b || !ok {
		t.Error("Bool")
	}
	if f, ok := get(t, v, "f").Float64(); f != 1.5 || !ok {
		t.Error("Float64")
	}
	for _, name := range []string{"s", "t", "n", "o"} {
		m := get(t, v, name)
		_, i := m.Int64()
		_, u := m.Uint64()
		_, f := m.Float64()
		if i || u || f {
			t.Errorf("%s is a number", m.JSON())
		}
	}
}

func get(t *testing.T, v events.Value, name string) events.Value {
	t.Helper()
	m, ok := v.Get(name)
	if !ok {
		t.Fatalf("no member %q in %s", name, v.JSON())
	}
	return m
}

// formal and byPointer are types with a method that encoding/json calls.
type formal string

func (formal) MarshalText() ([]byte, error) { return []byte("formal"), nil }

type byPointer []int

func (*byPointer) MarshalJSON() ([]byte, error) { return []byte(`"by pointer"`), nil }

func TestValueOf(t *testing.T) {
	type word string
	for _, c := range []struct {
		in   any
		want string
	}{
		{nil, "null"}, {true, "true"}, {word("w"), `"w"`}, {int8(-1), "-1"}, {uint64(math.MaxUint64), "18446744073709551615"},
		{1.0, "1.0"}, {float32(0.1), "0.10000000149011612"}, {[]string{"b", "a"}, `["b","a"]`}, {[2]bool{}, "[false,false]"},
		{map[word]any{"b": nil, "a": []any{}}, `{"a":[],"b":null}`}, {parse(t, "[ 1 ]"), "[1]"}, {map[string]any(nil), "{}"},
		{json.Number("12345678901234567890"), "12345678901234567890"}, {json.Number("1.50"), "1.5"}, {json.Number("-0"), "-0.0"},
		{[]json.Number{"1", "1.0", "1e2"}, "[1,1.0,100.0]"}, {map[string]json.Number{"n": "-7"}, `{"n":-7}`},
		{json.RawMessage(` {"b":1,"a":[2e0]} `), `{"a":[2.0],"b":1}`}, {json.RawMessage(nil), "null"},
		{[]any{json.RawMessage(`"x"`), []json.RawMessage{nil, json.RawMessage("1")}}, `["x",[null,1]]`},
	} {
		v, err := events.ValueOf(c.in)
		if err != nil || v.JSON() != c.want {
			t.Errorf("ValueOf(%#v) is %s (%v), want %s", c.in, v.JSON(), err, c.want)
		}
	}
	var cycle []any
	cycle = append(cycle, nil)
	cycle[0] = cycle
	deep := parse(t, nested(126))
	for name, in := range map[string]any{
		"NaN": math.NaN(), "infinity": []any{math.Inf(-1)}, "UTF-8": "\xff", "UTF-8 in a name": map[string]any{"\xff": 1},
		"struct": struct{}{}, "channel": make(chan int), "cycle": cycle, "depth": []any{deep}, "int keys": map[int]any{1: 1},
		"bytes": []byte("x"), "no bytes": []byte(nil), "an array of bytes": [2]byte{}, "bytes inside": []any{[]byte("x")},
		"named bytes": net.IPv4zero, "an empty Number": json.Number(""), "a Number that is a word": json.Number("true"),
		"a Number with a space": json.Number("1 "), "a Number and more": json.Number("1,2"), "a Number too large": json.Number("1e400"),
		"an empty RawMessage": json.RawMessage{}, "a broken RawMessage": json.RawMessage("{"), "two RawMessages": json.RawMessage("1 2"),
		"a RawMessage that is not UTF-8": json.RawMessage("\"\xff\""),
		"depth with a RawMessage":        []any{json.RawMessage(nested(126))},
		"a form of its own":              formal("x"), "a form of its own, by pointer": byPointer{}, "names with a form": map[formal]int{"x": 1},
	} {
		if v, err := events.ValueOf(in); !errors.Is(err, events.ErrSerialize) || !v.IsNull() {
			t.Errorf("%s: %s, %v", name, v.JSON(), err)
		}
	}
	if v, err := events.ValueOf(deep); err != nil || len(v.JSON()) != 252 {
		t.Errorf("126 arrays: %v", err)
	}
	if _, err := events.ParseValue([]byte(nested(127))); !errors.Is(err, events.CodeTooDeep) {
		t.Errorf("127 arrays: %v", err)
	}
	if _, err := events.ParseValue([]byte("1 2")); !errors.Is(err, events.CodeUnparsable) || !strings.Contains(err.Error(), "trailing") {
		t.Errorf("two values: %v", err)
	}
}
