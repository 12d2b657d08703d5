package canonjson_test

import (
	"encoding/json"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
)

// The error says where the fault is, if it is in a text.
func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		err  canonjson.Error
		want string
	}{
		{canonjson.Error{Err: canonjson.ErrUnicode, Offset: 7}, "canonjson: " + canonjson.ErrUnicode.Error() + " at byte 7"},
		{canonjson.Error{Err: canonjson.ErrUnicode, Offset: 0, Detail: "more"}, "canonjson: " + canonjson.ErrUnicode.Error() + " at byte 0: more"},
		{canonjson.Error{Err: canonjson.ErrUnicode, Offset: -1, Detail: "more"}, "canonjson: " + canonjson.ErrUnicode.Error() + ": more"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// Calls reuse memory. Nothing of an earlier text may show in the result of a later one.
func TestCanonicalizeAgain(t *testing.T) {
	for range 3 {
		for text, want := range map[string]string{
			`{"b":1,"a":2}`:                    `{"a":2,"b":1}`,
			`{"d":{"z":1,"y":2},"c":"longer"}`: `{"c":"longer","d":{"y":2,"z":1}}`,
			`[{"b":{},"a":[]},{"c":0}]`:        `[{"a":[],"b":{}},{"c":0}]`,
			`{"a":1}`:                          `{"a":1}`,
		} {
			if got, err := canonjson.Canonicalize(nil, []byte(text)); err != nil || string(got) != want {
				t.Errorf("%s gives %s, %v; want %s", text, got, err, want)
			}
		}
	}
	two := []any{json.RawMessage(`{"b":1,"a":2}`), json.RawMessage(`{"d":3,"c":4}`), json.RawMessage(`[]`)}
	if got, err := canonjson.Marshal(two); err != nil || string(got) != `[{"a":2,"b":1},{"c":4,"d":3},[]]` {
		t.Errorf("Marshal of texts gives %s, %v", got, err)
	}
}
