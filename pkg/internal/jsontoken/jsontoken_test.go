package jsontoken_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

func TestEscape(t *testing.T) {
	for _, tt := range []struct {
		text string
		r    rune
		n    int
		ok   bool
	}{
		{`\"x`, '"', 2, true},
		{`\\`, '\\', 2, true},
		{`\/`, '/', 2, true},
		{`\b`, '\b', 2, true},
		{`\t`, '\t', 2, true},
		{`\n`, '\n', 2, true},
		{`\f`, '\f', 2, true},
		{`\r`, '\r', 2, true},
		{`\u00e9x`, 'é', 6, true},
		{`\uAFfa`, 0xaffa, 6, true},
		{`\ud83d\ude00x`, '😀', 12, true},
		{`\uFFFD`, 0xfffd, 6, true},
		{`\`, 0, 1, false},
		{`\x`, 0, 1, false},
		{`\u`, 0, 2, false},
		{`\u00`, 0, 4, false},
		{`\u00g0`, 0, 4, false},
		{`\ud83d`, 0, 0, false},
		{`\ud83dx`, 0, 0, false},
		{`\ud83d\n`, 0, 0, false},
		{`\ud83d\u0041`, 0, 0, false},
		{`\ud83d\ud83d`, 0, 0, false},
		{`\ude00\ud83d`, 0, 0, false},
		{`\ud83d\ude0`, 0, 11, false},
		{`\ud83d\ude0x`, 0, 11, false},
	} {
		if r, n, ok := jsontoken.Escape(tt.text); r != tt.r || n != tt.n || ok != tt.ok {
			t.Errorf("%s: %q, %d, %v; want %q, %d, %v", tt.text, r, n, ok, tt.r, tt.n, tt.ok)
		}
		if r, n, ok := jsontoken.Escape([]byte(tt.text)); r != tt.r || n != tt.n || ok != tt.ok {
			t.Errorf("%s as bytes: %q, %d, %v; want %q, %d, %v", tt.text, r, n, ok, tt.r, tt.n, tt.ok)
		}
	}
}

func TestShortEscape(t *testing.T) {
	for c := range 0x80 {
		var want string
		if err := json.Unmarshal([]byte{'"', '\\', byte(c), '"'}, &want); err != nil {
			want = "\x00"
		}
		if got := jsontoken.ShortEscape(byte(c)); got != want[0] {
			t.Errorf("%q: %q, want %q", rune(c), got, want)
		}
	}
}

// encoding/json reads an escaped text back, and so does Escape with each escape.
func TestAppendEscaped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		quoted := append(jsontoken.AppendEscaped([]byte{'"'}, text), '"')
		var back string
		if err := json.Unmarshal(quoted, &back); err != nil || back != text {
			t.Fatalf("%q is written %s, which is read as %q, %v", text, quoted, back, err)
		}
	})
	for c := range byte(0x80) {
		written := string(jsontoken.AppendEscaped(nil, []byte{c}))
		if jsontoken.IsPlain(c) != (written == string(rune(c))) {
			t.Errorf("%q is plain: %v, and written %s", c, jsontoken.IsPlain(c), written)
		}
		if jsontoken.IsPlain(c) {
			continue
		}
		if r, n, ok := jsontoken.Escape(written); r != rune(c) || n != len(written) || !ok {
			t.Errorf("%q is written %s, which is read as %q", c, written, r)
		}
	}
}

func TestScanNumber(t *testing.T) {
	for text, want := range map[string]jsontoken.Number{
		"0":          {0, 1, 1, 1},
		"-0":         {1, 2, 2, 2},
		"01":         {0, 1, 1, 1},
		"120,":       {0, 3, 3, 3},
		"-12.50]":    {1, 3, 6, 6},
		"1e5":        {0, 1, 1, 3},
		"-1.5E+07]":  {1, 2, 4, 8},
		"0.25e-3,1.": {0, 1, 4, 7},
	} {
		n, ok := jsontoken.ScanNumber(text)
		if n != want || !ok {
			t.Errorf("%s: %+v, %v; want %+v", text, n, ok, want)
		}
		if float := want.End > want.Point; n.IsFloat() != float {
			t.Errorf("%s is a float: %v", text, n.IsFloat())
		}
	}
	for text, wrong := range map[string]int{
		"": 0, "-": 1, "x": 0, "-x": 1, "+1": 0, ".5": 0, "1.": 2, "1.x": 2, "1.e5": 2, "1e": 2, "1e+": 3, "1.5ex": 4,
	} {
		if n, ok := jsontoken.ScanNumber(text); ok || n != (jsontoken.Number{End: wrong}) {
			t.Errorf("%q: %+v, %v; want a fault at %d", text, n, ok, wrong)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-+.0123eE]{1,8}`).Draw(t, "text")
		n, ok := jsontoken.ScanNumber(text)
		if whole := ok && n.End == len(text); whole != json.Valid([]byte(text)) {
			t.Fatalf("%s is a number: %v; encoding/json says the opposite", text, whole)
		}
	})
}

func TestIsShortest(t *testing.T) {
	shortest := 0
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.StringMatching(`0|[1-9][0-9]{0,9}`).Draw(t, "whole")
		fraction := rapid.StringMatching(`0{0,5}[0-9]{1,9}`).Draw(t, "fraction")
		if !jsontoken.IsShortest(whole, fraction, 100) {
			return
		}
		shortest++
		f, err := strconv.ParseFloat(whole+"."+fraction, 64)
		if err != nil {
			t.Fatal(err)
		}
		want := strconv.FormatFloat(f, 'f', -1, 64)
		if fraction == "0" {
			want += ".0"
		}
		if got := whole + "." + fraction; got != want {
			t.Fatalf("%s is written %s", got, want)
		}
	})
	if shortest == 0 {
		t.Error("no number is the shortest")
	}
	for _, tt := range []struct {
		whole, fraction string
		maxZeros        int
		want            bool
	}{
		{"0", "0", 3, true},
		{"0", "0001", 3, true},
		{"0", "00001", 3, false},
		{"0", "00001", 4, true},
		{"1", "00001", 3, true},
		{"1", "50", 3, false},
		{"123456789012", "345", 3, true},
		{"123456789012", "3456", 3, false},
	} {
		if got := jsontoken.IsShortest(tt.whole, tt.fraction, tt.maxZeros); got != tt.want {
			t.Errorf("%s.%s with at most %d zeros: %v, want %v", tt.whole, tt.fraction, tt.maxZeros, got, tt.want)
		}
	}
}
