package intent_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	"github.com/beamagents/beamagents-go/pkg/intent"
)

func TestCacheKey(t *testing.T) {
	for name, tt := range map[string]struct {
		request intent.CacheRequest
		want    string
	}{
		"plain": {
			intent.CacheRequest{EntityKey: []byte("k"), Model: "m", Messages: []string{"hello"}},
			"65838dd85db9b53cc2412abea24434b343011fff24878f2f1253f6cb80d3f03c",
		},
		"all kinds of values": {
			intent.CacheRequest{
				EntityKey: []byte{0x00, 0xff}, Seq: 3, Model: "m",
				Messages: []any{map[string]string{"role": "user", "content": "a<b>&\"q\"\\/\t\x01\x7f\u2028é😀"}},
				Tools:    []any{},
				Params: json.RawMessage(`{"z": 1e16, "a": 1e-7, "b": -0.0, "c": 12345678901234567890,
					"d": [true, null, 0.1], "\ufffd": 1, "\ud83d\ude00": 2}`),
			},
			"09f36fd1feaf4db9a18782774274bbbf04cc061226c4cc19056721a70553b29f",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := intent.CacheKey(tt.request)
			if err != nil || got != tt.want {
				t.Errorf("CacheKey = %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

// The key is the hash of the document that canonjson writes.
func TestCacheKeyDocument(t *testing.T) {
	base := intent.CacheRequest{EntityKey: []byte("k"), Seq: -1, Model: "ü\n", Messages: 1, Tools: 2.0, Params: "p"}
	document := func(more map[string]any) map[string]any {
		d := map[string]any{"key": "6b", "seq": -1, "model": "ü\n", "messages": 1, "tools": 2.0, "params": "p"}
		maps.Copy(d, more)
		return d
	}
	repeated, fresh, both, ignored := base, base, base, base
	repeated.Repeat = 2
	fresh.Fresh = true
	both.Repeat, both.Fresh, both.Attempt = 1, true, 9
	ignored.Attempt = 9
	for name, tt := range map[string]struct {
		request  intent.CacheRequest
		document map[string]any
	}{
		"first":    {base, document(nil)},
		"repeated": {repeated, document(map[string]any{"repeat": 2})},
		"fresh":    {fresh, document(map[string]any{"attempt": 0})},
		"both":     {both, document(map[string]any{"repeat": 1, "attempt": 9})},
		"ignored":  {ignored, document(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := intent.CacheKey(tt.request)
			if err != nil {
				t.Fatal(err)
			}
			text, err := canonjson.Marshal(tt.document)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(text)
			if want := hex.EncodeToString(sum[:]); got != want {
				t.Errorf("CacheKey = %s, want %s of %s", got, want, text)
			}
		})
	}
}

func TestCacheKeyRefuses(t *testing.T) {
	good := intent.CacheRequest{EntityKey: []byte("k"), Model: "m", Messages: []any{"hello"}}
	want, err := intent.CacheKey(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []intent.CacheRequest{
		{Model: "\xff"},
		{Messages: math.NaN()},
		{Tools: json.RawMessage(`{"a":1,"a":2}`)},
		{Params: struct{}{}},
	} {
		got, err := intent.CacheKey(r)
		var fault *canonjson.Error
		if got != "" || !errors.As(err, &fault) {
			t.Errorf("CacheKey(%+v) = %q, %v", r, got, err)
		}
		if again, err := intent.CacheKey(good); err != nil || again != want {
			t.Errorf("CacheKey after an error = %s, %v; want %s", again, err, want)
		}
	}
}

// The document is bounded as a whole, so that another program can read it.
func TestCacheKeyDepth(t *testing.T) {
	nested := func(depth int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
	}
	for name, with := range map[string]func(v any) intent.CacheRequest{
		"messages": func(v any) intent.CacheRequest { return intent.CacheRequest{Messages: v} },
		"tools":    func(v any) intent.CacheRequest { return intent.CacheRequest{Tools: v} },
		"params":   func(v any) intent.CacheRequest { return intent.CacheRequest{Params: v} },
	} {
		if _, err := intent.CacheKey(with(nested(canonjson.MaxDepth - 1))); err != nil {
			t.Errorf("%s of the greatest depth: %v", name, err)
		}
		for _, v := range []any{nested(canonjson.MaxDepth), []any{nested(canonjson.MaxDepth - 1)}} {
			if key, err := intent.CacheKey(with(v)); key != "" || !errors.Is(err, canonjson.ErrDepth) {
				t.Errorf("%s nested too deep: %q, %v", name, key, err)
			}
		}
	}
}

func TestWithResponseSchema(t *testing.T) {
	schema := map[string]any{"type": "object"}
	own := map[string]any{"b": 1}
	for _, tt := range []struct {
		params any
		want   string
	}{
		{own, `{"b":1,"response_schema":{"type":"object"}}`},
		{map[string]any{"response_schema": 1}, `{"response_schema":{"type":"object"}}`},
		{map[string]string{"z": "é"}, `{"response_schema":{"type":"object"},"z":"é"}`},
		{json.RawMessage(`{"z":1e2,"a":[]}`), `{"a":[],"response_schema":{"type":"object"},"z":100.0}`},
		{nil, `{"params":null,"response_schema":{"type":"object"}}`},
		{map[string]any(nil), `{"params":null,"response_schema":{"type":"object"}}`},
		{[]any{1}, `{"params":[1],"response_schema":{"type":"object"}}`},
		{"text", `{"params":"text","response_schema":{"type":"object"}}`},
	} {
		params, err := intent.WithResponseSchema(tt.params, schema)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := canonjson.Marshal(params); err != nil || string(got) != tt.want {
			t.Errorf("WithResponseSchema(%v) = %s, %v; want %s", tt.params, got, err, tt.want)
		}
	}
	if len(own) != 1 {
		t.Errorf("the caller's params were changed to %v", own)
	}
	var fault *canonjson.Error
	if _, err := intent.WithResponseSchema(json.RawMessage("{"), schema); !errors.As(err, &fault) {
		t.Errorf("WithResponseSchema of a broken text: %v", err)
	}
}
