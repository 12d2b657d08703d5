package canonjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
)

type fataler interface{ Fatalf(string, ...any) }

// decode is the reference: encoding/json with the text of numbers kept.
func decode(t fataler, text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", text, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("more after %q", text)
	}
	return v
}

// equal compares values: integers as integers, floats as float64.
func equal(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			other, ok := b[name]
			if !ok || !equal(a[name], other) {
				return false
			}
		}
		return true
	case nil, bool, string:
		return a == b
	}
	x, y := number(a), number(b)
	return x != "" && x == y
}

func number(v any) string {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case *big.Int:
		return v.String()
	case float64:
		return "float " + strconv.FormatFloat(v, 'x', -1, 64)
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			if f, err := v.Float64(); err == nil {
				return number(f)
			}
		} else if n, ok := new(big.Int).SetString(v.String(), 10); ok {
			return n.String()
		}
	}
	return ""
}

func FuzzCanonicalize(f *testing.F) {
	for _, seed := range []string{
		`{"z":[1,2.0,"é"],"a":{"k2":null,"k1":true}}`,
		`{"b":1,"a":2,"b":3}`,
		`{"\n":1,"A":2,"\\":3,"\ud83d\ude00":4,"` + "\ufffd" + `":5}`,
		`[-0,-0.0,1e16,1e-7,1e400,12345678901234567890]`,
		`{"c":{"z":{"b":1,"a":2},"y":[{"d":3,"c":4}]},"a":{}}`,
		"\"\xed\xa0\x80\"", `"\ud800"`, " [ ] ", strings.Repeat("[", 1001),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := canonjson.Canonicalize(nil, text)
		if err != nil {
			var fault *canonjson.Error
			if !errors.As(err, &fault) || fault.Offset < 0 || fault.Offset > len(text) || !utf8.ValidString(err.Error()) {
				t.Fatalf("Canonicalize(%q): %v", text, err)
			}
			if errors.Is(err, canonjson.ErrSyntax) && json.Valid(text) {
				t.Fatalf("Canonicalize(%q): %v, but it is valid", text, err)
			}
			return
		}
		if !json.Valid(text) || !json.Valid(got) {
			t.Fatalf("Canonicalize(%q) = %q, one of them invalid", text, got)
		}
		if !equal(decode(t, text), decode(t, got)) {
			t.Fatalf("Canonicalize(%q) = %q, another value", text, got)
		}
		again, err := canonjson.Canonicalize(nil, got)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("Canonicalize(%q) = %q, %v", got, again, err)
		}
		if marshalled, err := canonjson.Marshal(decode(t, text)); err != nil || !bytes.Equal(marshalled, got) {
			t.Fatalf("Marshal of the value of %q = %q, %v; want %q", text, marshalled, err, got)
		}
	})
}
