package events_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/pkg/events"
)

// nested returns n arrays inside one another.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestDecodeEnvelopeRefuses(t *testing.T) {
	for _, c := range []struct {
		name, input string
		code        events.ErrorCode
		text        string // without the position; empty where it is ours to choose
	}{
		{"nothing", ``, events.CodeUnparsable, ""},
		{"only space", " \n", events.CodeUnparsable, ""},
		{"byte order mark", "\ufeff" + `{"version":1,"type":"x","payload":{}}`, events.CodeUnparsable, ""},
		{"array form", `[1,"x",{}]`, events.CodeWrongType, ""},
		{"array form with metadata", `[1,"x",{},{}]`, events.CodeWrongType, ""},
		{"broken array", `[1,`, events.CodeUnparsable, ""},
		{"empty object", `{}`, events.CodeMissingField, "missing field `version`"},
		{"other letter case", `{"Version":1,"type":"x","payload":{}}`, events.CodeMissingField, "missing field `version`"},
		{"no payload in another version", `{"version":2,"type":"x"}`, events.CodeMissingField, "missing field `payload`"},
		{"bad type in another version", `{"version":2,"type":1,"payload":{}}`, events.CodeWrongType, ""},
		{"another version then garbage", `{"version":2,"type":"x","payload":{}} x`, events.CodeUnparsable, ""},
		{"version string", `{"version":"1","type":"x","payload":{}}`, events.CodeWrongType, ""},
		{"version true", `{"version":true,"type":"x","payload":{}}`, events.CodeWrongType, ""},
		{"version null", `{"version":null,"type":"x","payload":{}}`, events.CodeWrongType, ""},
		{"version float", `{"version":1e0,"type":"x","payload":{}}`, events.CodeWrongType, ""},
		{"version minus zero", `{"version":-0,"type":"x","payload":{}}`, events.CodeWrongType, ""},
		{"version of 20 digits", `{"version":18446744073709551617,"type":"x","payload":{}}`, events.CodeWrongType, ""},
		{"version with a zero", `{"version":01,"type":"x","payload":{}}`, events.CodeUnparsable, ""},
		{"version plus", `{"version":+1,"type":"x","payload":{}}`, events.CodeUnparsable, ""},
		{"two versions", `{"version":1,"version":1,"type":"x","payload":{}}`, events.CodeDuplicateField, "duplicate field `version`"},
		{"two types, one escaped", `{"version":1,"type":"x","t\u0079pe":"x","payload":{}}`, events.CodeDuplicateField, "duplicate field `type`"},
		{"two null metadata", `{"version":1,"type":"x","payload":{},"metadata":null,"metadata":null}`, events.CodeDuplicateField, "duplicate field `metadata`"},
		{"trailing value", `{"version":1,"type":"x","payload":{}}{}`, events.CodeUnparsable, ""},
		{"trailing comma", `{"version":1,"type":"x","payload":{},}`, events.CodeUnparsable, ""},
		{"comma in array", `{"version":1,"type":"x","payload":[1,]}`, events.CodeUnparsable, ""},
		{"comment", `{"version":1,"type":"x","payload":{}/**/}`, events.CodeUnparsable, ""},
		{"single quotes", `{'version':1,"type":"x","payload":{}}`, events.CodeUnparsable, ""},
		{"lone low surrogate", `{"version":1,"type":"x","payload":"\udc00"}`, events.CodeUnparsable, ""},
		{"two high surrogates", `{"version":1,"type":"x","payload":"\ud800\ud800"}`, events.CodeUnparsable, ""},
		{"surrogate in a key", `{"version":1,"type":"x","payload":{"\ud800":1}}`, events.CodeUnparsable, ""},
		{"surrogate in an ignored member", `{"version":1,"type":"x","payload":{},"z":"\ud800"}`, events.CodeUnparsable, ""},
		{"bad escape", `{"version":1,"type":"x","payload":"\x41"}`, events.CodeUnparsable, ""},
		{"short escape", `{"version":1,"type":"x","payload":"\u12"}`, events.CodeUnparsable, ""},
		{"invalid UTF-8", "{\"version\":1,\"type\":\"x\",\"payload\":\"\xff\"}", events.CodeUnparsable, ""},
		{"surrogate as UTF-8", "{\"version\":1,\"type\":\"x\",\"payload\":\"\xed\xa0\x80\"}", events.CodeUnparsable, ""},
		{"overlong UTF-8", "{\"version\":1,\"type\":\"\xc0\x80\",\"payload\":1}", events.CodeUnparsable, ""},
		{"raw newline", "{\"version\":1,\"type\":\"x\",\"payload\":\"\n\"}", events.CodeUnparsable, ""},
		{"NUL", "{\"version\":1,\"type\":\"x\",\"payload\":1\x00}", events.CodeUnparsable, ""},
		{"too large a number", `{"version":1,"type":"x","payload":1e400}`, events.CodeUnparsable, "number out of range"},
		{"too large a number, no exponent", `{"version":1,"type":"x","payload":` + strings.Repeat("9", 400) + `}`, events.CodeUnparsable, "number out of range"},
		{"just too large", `{"version":1,"type":"x","payload":-1.7976931348623159e308}`, events.CodeUnparsable, "number out of range"},
		{"NaN", `{"version":1,"type":"x","payload":NaN}`, events.CodeUnparsable, ""},
		{"leading zero", `{"version":1,"type":"x","payload":01}`, events.CodeUnparsable, ""},
		{"bare point", `{"version":1,"type":"x","payload":1.}`, events.CodeUnparsable, ""},
		{"bare exponent", `{"version":1,"type":"x","payload":1e+}`, events.CodeUnparsable, ""},
		{"bare minus", `{"version":1,"type":"x","payload":-}`, events.CodeUnparsable, ""},
		{"half a word", `{"version":1,"type":"x","payload":tru}`, events.CodeUnparsable, ""},
		{"127 arrays", `{"version":1,"type":"x","payload":` + nested(127) + `}`, events.CodeTooDeep, "recursion limit exceeded"},
		{"127 arrays in an ignored member", `{"z":` + nested(127) + `,"version":1,"type":"x","payload":1}`, events.CodeTooDeep, ""},
		{"very deep and broken", strings.Repeat(`{"payload":`, 100000), events.CodeTooDeep, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			env, err := events.DecodeEnvelope([]byte(c.input))
			var de *events.DecodeError
			if !errors.As(err, &de) || de.Code != c.code || !errors.Is(err, c.code) {
				t.Fatalf("error %v, want %s", err, c.code)
			}
			if got := position.ReplaceAllString(err.Error(), ""); c.text != "" && got != c.text {
				t.Errorf("text %q, want %q", got, c.text)
			}
			if !env.Equal(events.Envelope{}) {
				t.Errorf("an envelope beside an error: %v", env)
			}
		})
	}
}

func TestDecodeEnvelopeAccepts(t *testing.T) {
	for _, c := range []struct{ name, input, want string }{
		{"space everywhere", " { \"version\" : 1 ,\t\"type\" : \"x\" ,\r\n\"payload\" : { \"b\" : [ 1 , 2 ] , \"a\" : { } } } \n", `{"version":1,"type":"x","payload":{"a":{},"b":[1,2]}}`},
		{"Version is an unknown member", `{"Version":7,"version":1,"type":"x","payload":{}}`, `{"version":1,"type":"x","payload":{}}`},
		{"escaped names", `{"\u0076ersion":1,"type":"x","payload":{}}`, `{"version":1,"type":"x","payload":{}}`},
		{"unknown members twice", `{"z":1,"z":2,"version":1,"type":"x","payload":{}}`, `{"version":1,"type":"x","payload":{}}`},
		{"null payload", `{"version":1,"type":"x","payload":null}`, `{"version":1,"type":"x","payload":null}`},
		{"zero metadata", `{"version":1,"type":"x","payload":0,"metadata":0}`, `{"version":1,"type":"x","payload":0,"metadata":0}`},
		{"escaped type", `{"version":1,"type":"\ud83d\ude00\n","payload":0}`, `{"version":1,"type":"😀\n","payload":0}`},
		{"last duplicate wins", `{"version":1,"type":"x","payload":{"a":1,"b":{"c":1,"c":[2,{"d":3,"d":4}]},"a":2,"\u0061":3}}`, `{"version":1,"type":"x","payload":{"a":3,"b":{"c":[2,{"d":4}]}}}`},
		{"last duplicate wins in metadata", `{"version":1,"type":"x","payload":0,"metadata":{"a":{"z":1},"a":0}}`, `{"version":1,"type":"x","payload":0,"metadata":{"a":0}}`},
		{"126 arrays", `{"version":1,"type":"x","payload":` + nested(126) + `}`, `{"version":1,"type":"x","payload":` + nested(126) + `}`},
		{"126 arrays as metadata", `{"version":1,"type":"x","payload":1,"metadata":` + nested(126) + `}`, `{"version":1,"type":"x","payload":1,"metadata":` + nested(126) + `}`},
		{"correct rounding", `{"version":1,"type":"x","payload":12345678901234567.0}`, `{"version":1,"type":"x","payload":1.2345678901234568e16}`},
		{"underflow", `{"version":1,"type":"x","payload":[1e-400,-1e-400,4.9e-324]}`, `{"version":1,"type":"x","payload":[0.0,-0.0,5e-324]}`},
		{"upper-case hex", `{"version":1,"type":"x","payload":"\u001F\u000B\u000a"}`, `{"version":1,"type":"x","payload":"\u001f\u000b\n"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := decode(t, c.input)
			if got := encode(t, env); got != c.want {
				t.Errorf("encoded %s\nwant    %s", got, c.want)
			}
			if again := decode(t, c.want); !again.Equal(env) {
				t.Errorf("%s is not equal to %s", c.want, c.input)
			}
		})
	}
}

// The input may be used again after decoding.
func TestDecodeEnvelopeCopies(t *testing.T) {
	data := []byte(`{"version":1,"type":"x","payload":{"a":1}}`)
	env, err := events.DecodeEnvelope(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = '!'
	}
	if got := encode(t, env); got != `{"version":1,"type":"x","payload":{"a":1}}` {
		t.Errorf("the envelope has become %s", got)
	}
}

func TestEnvelopeBuild(t *testing.T) {
	payload, err := events.ValueOf(map[string]any{"b": 1, "a": 1.0})
	if err != nil {
		t.Fatal(err)
	}
	env := events.NewEnvelope("made", payload)
	if got, want := encode(t, env), `{"version":1,"type":"made","payload":{"a":1.0,"b":1}}`; got != want {
		t.Errorf("encoded %s, want %s", got, want)
	}
	with := env.WithMetadata(payload)
	if with.Equal(env) || !with.WithMetadata(events.Value{}).Equal(env) || !env.Metadata.IsNull() {
		t.Error("WithMetadata changed its receiver, or null did not remove the metadata")
	}
	if !decode(t, encode(t, with)).Equal(with) {
		t.Error("metadata is lost")
	}
	if got, want := encode(t, events.Envelope{}), `{"version":1,"type":"","payload":null}`; got != want {
		t.Errorf("zero envelope %s, want %s", got, want)
	}
	bad := events.NewEnvelope("\xff", payload)
	if _, err := bad.AppendJSON(nil); !errors.Is(err, events.ErrSerialize) {
		t.Errorf("invalid UTF-8 in the type: %v", err)
	}
}

func TestEnvelopeInEncodingJSON(t *testing.T) {
	text := `[{"version":1,"type":"x","payload":{"n":[1,1.0]},"metadata":{"a":null}}]`
	var list []events.Envelope
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(list)
	if err != nil || string(got) != text {
		t.Errorf("through encoding/json: %s (%v)", got, err)
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	long := "x" + strings.Repeat("é", 100000)
	_, err := events.FromEnvelope(events.NewEnvelope(long, events.Value{}))
	if err == nil || len(err.Error()) > 5000 || !strings.HasPrefix(err.Error(), "unknown variant `xé") {
		t.Errorf("text of %d bytes", len(err.Error()))
	}
	if !utf8.ValidString(err.Error()) {
		t.Error("text cut inside a character")
	}
}
