package canonjson_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/big"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/canonjson"
)

func canonical(t *testing.T, text string) string {
	t.Helper()
	got, err := canonjson.Canonicalize(nil, []byte(text))
	if err != nil {
		t.Fatalf("Canonicalize(%q): %v", text, err)
	}
	return string(got)
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	got, err := canonjson.Marshal(v)
	if err != nil {
		t.Fatalf("Marshal(%v): %v", v, err)
	}
	return string(got)
}

// Documents from which cache keys are computed, with the hashes that other programs compute.
func TestDocuments(t *testing.T) {
	bigNumber, _ := new(big.Int).SetString("12345678901234567890", 10)
	tests := []struct {
		name  string
		value any
		text  string
		sum   string
	}{
		{
			name: "plain",
			value: map[string]any{
				"model": "m", "messages": []any{"hello"}, "tools": nil, "params": nil, "key": "6b", "seq": 0,
			},
			text: `{"key":"6b","messages":["hello"],"model":"m","params":null,"seq":0,"tools":null}`,
			sum:  "65838dd85db9b53cc2412abea24434b343011fff24878f2f1253f6cb80d3f03c",
		},
		{
			name: "escapes, numbers and names beyond the BMP",
			value: map[string]any{
				"model": "m",
				"messages": []any{map[string]any{
					"role": "user", "content": "a<b>&\"q\"\\/\t\x01\x7f\u2028é😀",
				}},
				"tools": []any{},
				"params": map[string]any{
					"z": 1e16, "a": 1e-7, "b": math.Copysign(0, -1), "c": bigNumber,
					"d": []any{true, nil, 0.1}, "\ufffd": 1, "\U0001f600": 2,
				},
				"key": "00ff", "seq": 3,
			},
			text: unhex("7b226b6579223a2230306666222c226d65737361676573223a5b7b22636f6e74656e74223a22613c623e265c22715c225c5c2f5c745c75303030317fe280a8c3a9f09f9880222c22726f6c65223a2275736572227d5d2c226d6f64656c223a226d222c22706172616d73223a7b2261223a31652d30372c2262223a2d302e302c2263223a31323334353637383930313233343536373839302c2264223a5b747275652c6e756c6c2c302e315d2c227a223a31652b31362c22efbfbd223a312c22f09f9880223a327d2c22736571223a332c22746f6f6c73223a5b5d7d"),
			sum:  "09f36fd1feaf4db9a18782774274bbbf04cc061226c4cc19056721a70553b29f",
		},
		{
			name:  "arguments",
			value: map[string]any{"z": []any{1, 2.0, "é"}, "a": map[string]any{"k2": nil, "k1": true}},
			text:  unhex("7b2261223a7b226b31223a747275652c226b32223a6e756c6c7d2c227a223a5b312c322e302c22c3a9225d7d"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := marshal(t, tt.value); got != tt.text {
				t.Errorf("Marshal = %s\nwant      %s", got, tt.text)
			}
			if got := canonical(t, tt.text); got != tt.text {
				t.Errorf("Canonicalize of canonical text = %s", got)
			}
			sum := sha256.New()
			if err := canonjson.Write(sum, tt.value); err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(sum.Sum(nil)); tt.sum != "" && got != tt.sum {
				t.Errorf("sha256 = %s, want %s", got, tt.sum)
			}
		})
	}
}

func unhex(s string) string {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"-0":                              "0",
		"0":                               "0",
		"-12":                             "-12",
		"1e2":                             "100.0",
		"1.50":                            "1.5",
		"1e15":                            "1000000000000000.0",
		"1e16":                            "1e+16",
		"9999999999999998.0":              "9999999999999998.0",
		"0.0001":                          "0.0001",
		"1e-5":                            "1e-05",
		"1e-7":                            "1e-07",
		"1.25E-7":                         "1.25e-07",
		"-0.0":                            "-0.0",
		"-0e9":                            "-0.0",
		"9007199254740993":                "9007199254740993",
		"9007199254740993.0":              "9007199254740992.0",
		"123456789012345678901234567890":  "123456789012345678901234567890",
		"1e-400":                          "0.0",
		"5e-324":                          "5e-324",
		"1.7976931348623157e308":          "1.7976931348623157e+308",
		"1" + strings.Repeat("0", 100000): "1" + strings.Repeat("0", 100000),
	} {
		if got := canonical(t, text); got != want {
			t.Errorf("Canonicalize(%.40s) = %.40s, want %.40s", text, got, want)
		}
		if got := marshal(t, json.Number(text)); got != want {
			t.Errorf("Marshal(json.Number(%.40s)) = %.40s, want %.40s", text, got, want)
		}
	}
	for _, text := range []string{"1e400", "-1e400", "1.8e308"} {
		if _, err := canonjson.Canonicalize(nil, []byte(text)); !errors.Is(err, canonjson.ErrNumber) {
			t.Errorf("Canonicalize(%s): %v, want ErrNumber", text, err)
		}
		if _, err := canonjson.Marshal(json.Number(text)); !errors.Is(err, canonjson.ErrNumber) {
			t.Errorf("Marshal(json.Number(%s)): %v, want ErrNumber", text, err)
		}
	}
}

// Every line is a text and the result of CPython's json module, with the options that give
// this form and with duplicates refused.
func TestPython(t *testing.T) {
	f, err := os.Open("testdata/python.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for sc := bufio.NewScanner(f); sc.Scan(); lines++ {
		quoted, wanted, _ := strings.Cut(sc.Text(), "\t")
		var text, want string
		if err := json.Unmarshal([]byte(quoted), &text); err != nil {
			t.Fatal(err)
		}
		got, err := canonjson.Canonicalize(nil, []byte(text))
		if wanted == "refused" {
			if err == nil {
				t.Errorf("Canonicalize(%q) = %s, want an error", text, got)
			}
			continue
		}
		if err := json.Unmarshal([]byte(wanted), &want); err != nil {
			t.Fatal(err)
		}
		if err != nil || string(got) != want {
			t.Errorf("Canonicalize(%q) = %s, %v; want %s", text, got, err, want)
		}
	}
	if lines < 400 {
		t.Errorf("%d lines, want at least 400", lines)
	}
}

func TestRefusedText(t *testing.T) {
	deep := strings.Repeat("[", canonjson.MaxDepth)
	long := strings.Repeat("n", 100)
	tests := []struct {
		text   string
		err    error
		offset int
	}{
		{"", canonjson.ErrSyntax, 0},
		{" \n", canonjson.ErrSyntax, 2},
		{"nul", canonjson.ErrSyntax, 3},
		{"nulL", canonjson.ErrSyntax, 3},
		{"1 2", canonjson.ErrSyntax, 2},
		{"01", canonjson.ErrSyntax, 1},
		{"-", canonjson.ErrSyntax, 1},
		{"1.", canonjson.ErrSyntax, 2},
		{"1e+", canonjson.ErrSyntax, 3},
		{"+1", canonjson.ErrSyntax, 0},
		{"NaN", canonjson.ErrSyntax, 0},
		{"\ufeff1", canonjson.ErrSyntax, 0},
		{"[1,]", canonjson.ErrSyntax, 3},
		{"[1 2]", canonjson.ErrSyntax, 3},
		{"[", canonjson.ErrSyntax, 1},
		{"[1", canonjson.ErrSyntax, 2},
		{`{"a":1,}`, canonjson.ErrSyntax, 7},
		{`{"a" 1}`, canonjson.ErrSyntax, 5},
		{`{"a":`, canonjson.ErrSyntax, 5},
		{`{"a":1`, canonjson.ErrSyntax, 6},
		{`{"a":1 "b":2}`, canonjson.ErrSyntax, 7},
		{`{a:1}`, canonjson.ErrSyntax, 1},
		{`{`, canonjson.ErrSyntax, 1},
		{`"a`, canonjson.ErrSyntax, 2},
		{"\"a\n\"", canonjson.ErrSyntax, 2},
		{`"\x41"`, canonjson.ErrSyntax, 2},
		{`"\u12g4"`, canonjson.ErrSyntax, 5},
		{`"\u12`, canonjson.ErrSyntax, 5},
		{`"\`, canonjson.ErrSyntax, 2},
		{"\"a\xff\"", canonjson.ErrUnicode, 2},
		{"\"\xed\xa0\x80\"", canonjson.ErrUnicode, 1},
		{"\"\xc0\x80\"", canonjson.ErrUnicode, 1},
		{"\"\xe2\x82", canonjson.ErrUnicode, 1},
		{`"a\ud800"`, canonjson.ErrUnicode, 2},
		{`"\ud800\u0041"`, canonjson.ErrUnicode, 1},
		{`"\ud800\ud800"`, canonjson.ErrUnicode, 1},
		{`"\ud800\ue000"`, canonjson.ErrUnicode, 1},
		{`"\udc00\ud800"`, canonjson.ErrUnicode, 1},
		{`"\udc00\udc00"`, canonjson.ErrUnicode, 1},
		{`[1,1e999]`, canonjson.ErrNumber, 3},
		{`{"a":1,"a":2}`, canonjson.ErrDuplicate, 7},
		{`{"a":1,"\u0061":2}`, canonjson.ErrDuplicate, 7},
		{`{"b":1,"a":2,"c":3,"b":4,"a":5}`, canonjson.ErrDuplicate, 19},
		{`{"b":1,"a":2,"c":3,"a":4,"b":5}`, canonjson.ErrDuplicate, 19},
		{`[{"x":{"` + long + `":1, "` + long + `":2}}]`, canonjson.ErrDuplicate, 113},
		{`{` + strings.Repeat(`"b":1,"a":1,`, 50) + `"c":1}`, canonjson.ErrDuplicate, 13},
		{deep + "[", canonjson.ErrDepth, canonjson.MaxDepth},
		{strings.Repeat(`{"":`, canonjson.MaxDepth) + "{", canonjson.ErrDepth, 4 * canonjson.MaxDepth},
		{strings.Repeat("[", 10<<20), canonjson.ErrDepth, canonjson.MaxDepth},
	}
	for _, tt := range tests {
		dst := []byte("kept")
		got, err := canonjson.Canonicalize(dst, []byte(tt.text))
		var fault *canonjson.Error
		if !errors.As(err, &fault) || !errors.Is(err, tt.err) || fault.Offset != tt.offset {
			t.Errorf("Canonicalize(%.60q): %v, want %v at byte %d", tt.text, err, tt.err, tt.offset)
		}
		if string(got) != "kept" {
			t.Errorf("Canonicalize(%.60q) returned %q with its error", tt.text, got)
		}
		if len(fault.Error()) > 200 {
			t.Errorf("error of %d bytes", len(fault.Error()))
		}
		if _, err := canonjson.Marshal(json.RawMessage(tt.text)); !errors.Is(err, tt.err) {
			t.Errorf("Marshal(json.RawMessage(%.60q)): %v, want %v", tt.text, err, tt.err)
		}
	}
	if want := "[" + strings.Repeat("[", canonjson.MaxDepth-1) + strings.Repeat("]", canonjson.MaxDepth); canonical(t, want) != want {
		t.Error("text of the greatest depth was changed")
	}
}

// A duplicate name is quoted, with its quotes, up to 64 bytes.
func TestDuplicateIsQuoted(t *testing.T) {
	for length, want := range map[int]string{
		62: `"` + strings.Repeat("n", 62) + `"`,
		63: "a name of 65 bytes",
	} {
		member := `"` + strings.Repeat("n", length) + `":1`
		_, err := canonjson.Canonicalize(nil, []byte("{"+member+","+member+"}"))
		var fault *canonjson.Error
		if !errors.As(err, &fault) || fault.Detail != want {
			t.Errorf("a name of %d bytes: %v, want %s", length, err, want)
		}
	}
}

func TestSorting(t *testing.T) {
	for text, want := range map[string]string{
		`{"b":1,"a":2}`:                                             `{"a":2,"b":1}`,
		`{"aa":1,"a":2,"":3}`:                                       `{"":3,"a":2,"aa":1}`,
		`{"A":1,"\n":2,"\u0001":3}`:                                 `{"\u0001":3,"\n":2,"A":1}`,
		`{"]":1,"\\":2,"[":3}`:                                      `{"[":3,"\\":2,"]":1}`,
		`{"#":1,"\"":2,"!":3}`:                                      `{"!":3,"\"":2,"#":1}`,
		`{"\r":1,"\f":2,"\u000b":3,"\t":4,"\b":5}`:                  `{"\b":5,"\t":4,"\u000b":3,"\f":2,"\r":1}`,
		`{"c":{"z":{"b":1,"a":2},"y":[{"d":3,"c":4}]},"a":{"k":1}}`: `{"a":{"k":1},"c":{"y":[{"c":4,"d":3}],"z":{"a":2,"b":1}}}`,
		`{"a":{"z":1,"y":2},"b":{"d":3,"c":4}}`:                     `{"a":{"y":2,"z":1},"b":{"c":4,"d":3}}`,
		`[ { } , [ ] , { "b" : [ ] , "a" : { } } ]`:                 `[{},[],{"a":{},"b":[]}]`,
	} {
		if got := canonical(t, text); got != want {
			t.Errorf("Canonicalize(%s) = %s, want %s", text, got, want)
		}
	}
}

type (
	named     string
	nicknamed []named
	celsius   float32
	stamped   string
)

func (stamped) MarshalJSON() ([]byte, error) { return []byte(`"stamped"`), nil }

// Types whose MarshalJSON or MarshalText only a pointer to them has.
type (
	franked string
	labels  []string
	weights map[string]int
	level   int
	inked   string
)

func (*franked) MarshalJSON() ([]byte, error) { return []byte(`"franked"`), nil }
func (*labels) MarshalJSON() ([]byte, error)  { return []byte(`"labels"`), nil }
func (*weights) MarshalJSON() ([]byte, error) { return []byte(`"weights"`), nil }
func (*level) MarshalText() ([]byte, error)   { return []byte("level"), nil }
func (inked) MarshalText() ([]byte, error)    { return []byte("inked"), nil }

func TestValues(t *testing.T) {
	huge, _ := new(big.Int).SetString(strings.Repeat("9", 400), 10)
	tests := []struct {
		value any
		want  string
	}{
		{nil, "null"},
		{true, "true"},
		{"<é>", `"<é>"`},
		{int8(-8), "-8"},
		{int16(-16), "-16"},
		{int32(-32), "-32"},
		{int64(math.MinInt64), "-9223372036854775808"},
		{uint(1), "1"},
		{uint8(8), "8"},
		{uint16(16), "16"},
		{uint32(32), "32"},
		{uint64(math.MaxUint64), "18446744073709551615"},
		{time.Second, "1000000000"},
		{2.0, "2.0"},
		{math.Copysign(0, -1), "-0.0"},
		{float32(0.1), "0.1"},
		{float32(1e-4), "0.0001"},
		{float32(1e-5), "1e-05"},
		{float32(1e16), "1e+16"},
		{float32(16777216), "16777216.0"},
		{celsius(36.6), "36.6"},
		{big.NewInt(-5), "-5"},
		{huge, strings.Repeat("9", 400)},
		{(*big.Int)(nil), "null"},
		{json.RawMessage(` {"b":1e2,"a":[]} `), `{"a":[],"b":100.0}`},
		{json.RawMessage(nil), "null"},
		{[]any(nil), "null"},
		{map[string]any(nil), "null"},
		{[]string(nil), "null"},
		{map[string]string(nil), "null"},
		{[]any{}, "[]"},
		{map[string]any{}, "{}"},
		{[]string{"b", "a"}, `["b","a"]`},
		{[2]int{2, 1}, "[2,1]"},
		{map[string]string{"b": "1", "a": "2"}, `{"a":"2","b":"1"}`},
		{map[named][]int{"b": {1}, "a": nil}, `{"a":null,"b":[1]}`},
		{nicknamed{"x"}, `["x"]`},
		{[]map[string]any{{"b": json.RawMessage(`{"d":1,"c":2}`), "a": nil}}, `[{"a":null,"b":{"c":2,"d":1}}]`},
	}
	for _, tt := range tests {
		got := marshal(t, tt.value)
		if got != tt.want {
			t.Errorf("Marshal(%T %v) = %s, want %s", tt.value, tt.value, got, tt.want)
		}
		if again := canonical(t, got); again != got {
			t.Errorf("Canonicalize(%s) = %s", got, again)
		}
	}
}

func TestRefusedValues(t *testing.T) {
	ring := []any{nil}
	ring[0] = ring
	number := 1
	tests := []struct {
		value any
		err   error
	}{
		{math.NaN(), canonjson.ErrNumber},
		{math.Inf(-1), canonjson.ErrNumber},
		{float32(math.Inf(1)), canonjson.ErrNumber},
		{"\xff", canonjson.ErrUnicode},
		{"\xed\xa0\x80", canonjson.ErrUnicode},
		{map[string]any{"\xff": 1}, canonjson.ErrUnicode},
		{json.Number(""), canonjson.ErrSyntax},
		{json.Number("1 "), canonjson.ErrSyntax},
		{json.Number("0x1"), canonjson.ErrSyntax},
		{json.RawMessage(""), canonjson.ErrSyntax},
		{struct{ A int }{1}, canonjson.ErrType},
		{&number, canonjson.ErrType},
		{(*int)(nil), canonjson.ErrType},
		{[]byte("a"), canonjson.ErrType},
		{[2]byte{}, canonjson.ErrType},
		{map[int]string{1: "a"}, canonjson.ErrType},
		{map[any]any{"a": 1}, canonjson.ErrType},
		{uintptr(1), canonjson.ErrType},
		{complex(1, 1), canonjson.ErrType},
		{make(chan int), canonjson.ErrType},
		{func() {}, canonjson.ErrType},
		{stamped("a"), canonjson.ErrType},
		{inked("a"), canonjson.ErrType},
		{franked("a"), canonjson.ErrType},
		{labels{"a"}, canonjson.ErrType},
		{weights{"a": 1}, canonjson.ErrType},
		{level(1), canonjson.ErrType},
		{new(level), canonjson.ErrType},
		{[]level{1}, canonjson.ErrType},
		{map[string]franked{"a": "b"}, canonjson.ErrType},
		{map[stamped]int{"a": 1}, canonjson.ErrType},
		{map[inked]int{"a": 1}, canonjson.ErrType},
		{map[franked]int{"a": 1}, canonjson.ErrType},
		{map[inked]int{}, canonjson.ErrType},
		{time.Time{}, canonjson.ErrType},
		{*big.NewInt(1), canonjson.ErrType},
		{big.NewFloat(1), canonjson.ErrType},
		{[]any{1, map[string]any{"a": make(chan int)}}, canonjson.ErrType},
		{ring, canonjson.ErrDepth},
		{json.RawMessage(strings.Repeat("[", canonjson.MaxDepth+1)), canonjson.ErrDepth},
		{[]any{json.RawMessage(strings.Repeat("[", canonjson.MaxDepth))}, canonjson.ErrDepth},
	}
	for _, tt := range tests {
		got, err := canonjson.Append([]byte("kept"), tt.value)
		var fault *canonjson.Error
		if !errors.As(err, &fault) || !errors.Is(err, tt.err) || string(got) != "kept" {
			t.Errorf("Append(%T) = %q, %v; want %v", tt.value, got, err, tt.err)
		}
		if err := canonjson.Write(io.Discard, tt.value); !errors.Is(err, tt.err) {
			t.Errorf("Write(%T): %v, want %v", tt.value, err, tt.err)
		}
	}
	// A refused value does not change the result of the next call.
	if got := marshal(t, map[string]any{"b": 1, "a": 2}); got != `{"a":2,"b":1}` {
		t.Errorf("Marshal after errors = %s", got)
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	dst := append(make([]byte, 0, 64), `{"b":1}`...)
	got, err := canonjson.Canonicalize(dst, []byte(`{"b":1,"a":2}`))
	if want := `{"b":1}{"a":2,"b":1}`; err != nil || string(got) != want {
		t.Errorf("Canonicalize = %s, %v; want %s", got, err, want)
	}
	got, err = canonjson.AppendString(dst, "é\n")
	if want := `{"b":1}"é\n"`; err != nil || string(got) != want {
		t.Errorf("AppendString = %s, %v; want %s", got, err, want)
	}
	got, err = canonjson.AppendString(dst, "a\xff")
	if !errors.Is(err, canonjson.ErrUnicode) || string(got) != `{"b":1}` {
		t.Errorf("AppendString = %s, %v; want ErrUnicode", got, err)
	}
	got, err = canonjson.Append(dst, []any{json.RawMessage(`{"b":1,"a":2}`)})
	if want := `{"b":1}[{"a":2,"b":1}]`; err != nil || string(got) != want {
		t.Errorf("Append = %s, %v; want %s", got, err, want)
	}
}

// pieces collects what Write writes and the length of the longest piece.
type pieces struct {
	bytes.Buffer
	longest int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.longest = max(p.longest, len(b))
	return p.Buffer.Write(b)
}

func TestWriteInPieces(t *testing.T) {
	long := strings.Repeat("0123456789é\u2028😀\n\"", 10000)
	many := make([]any, 20000)
	for i := range many {
		many[i] = map[string]any{"n": i, "s": "x"}
	}
	for name, v := range map[string]any{
		"one string":  long,
		"many values": many,
		"both":        map[string]any{"a": many, "b": long, long: nil},
	} {
		t.Run(name, func(t *testing.T) {
			var p pieces
			if err := canonjson.Write(&p, v); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(marshal(t, v), p.String()); diff != "" {
				t.Error("Write and Marshal differ")
			}
			if p.longest > 16<<10 {
				t.Errorf("a piece of %d bytes", p.longest)
			}
		})
	}
}

func TestWriteNested(t *testing.T) {
	for depth, want := range map[int]error{0: nil, 3: nil, canonjson.MaxDepth - 2: nil, canonjson.MaxDepth - 1: canonjson.ErrDepth, canonjson.MaxDepth: canonjson.ErrDepth} {
		for _, v := range []any{[]any{map[string]any{}}, []any{json.RawMessage("{}")}, json.RawMessage("[{}]")} {
			var out bytes.Buffer
			if err := canonjson.WriteNested(&out, v, depth); !errors.Is(err, want) || want == nil && out.String() != "[{}]" {
				t.Errorf("WriteNested at depth %d = %s, %v; want %v", depth, out.String(), err, want)
			}
		}
	}
	if err := canonjson.WriteNested(io.Discard, 1, canonjson.MaxDepth); err != nil {
		t.Errorf("a number at the greatest depth: %v", err)
	}
}

type broken struct{ after int }

var errBroken = errors.New("broken pipe")

func (b *broken) Write(p []byte) (int, error) {
	if b.after--; b.after < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestWriteError(t *testing.T) {
	long := map[string]any{"a": strings.Repeat("x", 20000), "b": []any{1}}
	for after := range 3 {
		if err := canonjson.Write(&broken{after}, long); !errors.Is(err, errBroken) {
			t.Errorf("Write with an error after %d pieces: %v", after, err)
		}
	}
	if got := marshal(t, 1); got != "1" {
		t.Errorf("Marshal after an error = %s", got)
	}
}

// explosive is a writer that panics after so many pieces.
type explosive struct{ after int }

func (e *explosive) Write(p []byte) (int, error) {
	if e.after--; e.after < 0 {
		panic(errBroken)
	}
	return len(p), nil
}

// A panic in a caller's writer does not change the results of later calls.
func TestWriterPanics(t *testing.T) {
	long := strings.Repeat("0123456789", 2000)
	value := map[string]any{"b": []any{long, json.RawMessage(`{"d":1,"c":2}`)}, "a": long, "c": nil}
	text := `{"a":"` + long + `","b":["` + long + `",{"c":2,"d":1}],"c":null}`
	for after := range 8 {
		func() {
			defer func() { _ = recover() }()
			_ = canonjson.Write(&explosive{after}, value)
			t.Errorf("no panic after %d pieces", after)
		}()
		if got := marshal(t, value); got != text {
			t.Errorf("Marshal after a panic: %d bytes, want %d", len(got), len(text))
		}
		if got, err := canonjson.AppendString(nil, long); err != nil || string(got) != `"`+long+`"` {
			t.Errorf("AppendString after a panic: %d bytes, %v", len(got), err)
		}
		if got := canonical(t, text); got != text {
			t.Errorf("Canonicalize after a panic: %d bytes, want %d", len(got), len(text))
		}
		var p pieces
		if err := canonjson.Write(&p, value); err != nil || p.String() != text {
			t.Errorf("Write after a panic: %d bytes, %v", p.Len(), err)
		}
	}
}

func TestParallel(t *testing.T) {
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			text := `{"z":` + strings.Repeat("9", n+1) + `,"a":{"d":1,"c":"` + strings.Repeat("x", n) + `"}}`
			want := `{"a":{"c":"` + strings.Repeat("x", n) + `","d":1},"z":` + strings.Repeat("9", n+1) + `}`
			for range 200 {
				got, err := canonjson.Canonicalize(nil, []byte(text))
				if err != nil || string(got) != want {
					t.Errorf("Canonicalize = %s, %v; want %s", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestAllocations(t *testing.T) {
	text := []byte(`{"z":[1,2.50,"é\n"],"a":{"k2":null,"k1":true}}`)
	value := map[string]any{"z": []any{1, 2.5, "é\n"}, "a": map[string]any{"k2": nil, "k1": true}}
	dst := make([]byte, 0, 256)
	sum := sha256.New()
	for name, f := range map[string]func() error{
		"Canonicalize": func() error { _, err := canonjson.Canonicalize(dst, text); return err },
		"Append":       func() error { _, err := canonjson.Append(dst, value); return err },
		"Write":        func() error { return canonjson.Write(sum, value) },
	} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(1000, func() { _ = f() }); n != 0 && !racedetector.Enabled {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
