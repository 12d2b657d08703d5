package canonjson_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
)

// RFC 8785 sorts by UTF-16 code units.
func TestDiffersFromRFC8785InOrder(t *testing.T) {
	names := []string{"\ufffd", "\U0001f600", "\ue000", "a", "é", "\U0010ffff"}
	rfc := slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	})
	ours := slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return slices.CompareFunc([]rune(a), []rune(b), cmp.Compare[rune])
	})
	if slices.Equal(rfc, ours) {
		t.Fatal("these names do not tell the two orders apart")
	}
	members := make(map[string]any)
	var want strings.Builder
	for i, name := range ours {
		members[name] = i
		want.WriteString(`,"` + name + `":` + string(rune('0'+i)))
	}
	if got := marshal(t, members); got != "{"+want.String()[1:]+"}" {
		t.Errorf("Marshal = %s", got)
	}
}

// RFC 8785 writes numbers as ECMAScript does. The table has its form beside that of canonjson.
func TestDiffersFromRFC8785InNumbers(t *testing.T) {
	for _, tt := range []struct{ text, rfc, want string }{
		{"1.0", "1", "1.0"},
		{"-0.0", "0", "-0.0"},
		{"1e16", "10000000000000000", "1e+16"},
		{"1e-5", "0.00001", "1e-05"},
		{"1e-7", "1e-7", "1e-07"},
		{"9007199254740993", "9007199254740992", "9007199254740993"},
	} {
		if got := canonical(t, tt.text); got != tt.want || got == tt.rfc {
			t.Errorf("Canonicalize(%s) = %s, want %s", tt.text, got, tt.want)
		}
	}
}

// encoding/json reads and writes each of these in another way.
func TestDiffersFromEncodingJSON(t *testing.T) {
	reencoded := func(t *testing.T, text string) string {
		t.Helper()
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSuffix(out.String(), "\n")
	}
	for name, tt := range map[string]struct{ text, theirs, want string }{
		"line separators": {"\"\u2028\u2029\"", `"\u2028\u2029"`, "\"\u2028\u2029\""},
		"fraction":        {"1.0", "1", "1.0"},
		"exponent":        {"1e16", "10000000000000000", "1e+16"},
		"small":           {"1e-5", "0.00001", "1e-05"},
		"large":           {"1e21", "1e+21", "1e+21"},
		"two digits":      {"1e-7", "1e-7", "1e-07"},
		"big integer":     {"9007199254740993", "9007199254740992", "9007199254740993"},
		"zero":            {"-0", "-0", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reencoded(t, tt.text); got != tt.theirs {
				t.Errorf("encoding/json writes %s, documented is %s", got, tt.theirs)
			}
			if got := canonical(t, tt.text); got != tt.want {
				t.Errorf("Canonicalize = %s, want %s", got, tt.want)
			}
		})
	}
	t.Run("HTML", func(t *testing.T) {
		theirs, err := json.Marshal("<&>")
		if err != nil || string(theirs) != `"\u003c\u0026\u003e"` {
			t.Errorf("encoding/json writes %s, %v", theirs, err)
		}
		if got := marshal(t, "<&>"); got != `"<&>"` {
			t.Errorf("Marshal = %s", got)
		}
	})
	for name, text := range map[string]string{
		"not UTF-8":      "\"\xff\"",
		"lone surrogate": `"\ud800"`,
		"duplicate":      `{"a":1,"a":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			reencoded(t, text)
			if got, err := canonjson.Canonicalize(nil, []byte(text)); err == nil {
				t.Errorf("Canonicalize = %s, want an error", got)
			}
		})
	}
}
