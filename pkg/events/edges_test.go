package events_test

import (
	"fmt"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/events"
)

// An event that is cut short anywhere is refused, and no byte after its end is read.
func TestDecodeEnvelopeCutShort(t *testing.T) {
	for _, value := range []string{`true`, `false`, `null`, `-1.5e+10`, `"a\n\u00e9\ud83d\ude00é"`, `[true,{"b":[null]},false]`} {
		text := `{"version":1,"type":"t","payload":{"a":` + value + `},"metadata":` + value + `}`
		if _, err := events.DecodeEnvelope([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for n := range len(text) {
			if _, err := events.DecodeEnvelope([]byte(text[:n])); err == nil {
				t.Errorf("%s is accepted", text[:n])
			}
		}
	}
}

// The first and last escapes that are accepted, and those next to them.
func TestDecodeEnvelopeEscapes(t *testing.T) {
	for escape, good := range map[string]bool{
		`\u0000`: true, `\ud7ff`: true, `\ue000`: true, `\uffff`: true, `\uFFFF`: true, `\uAfAf`: true, `\u0909`: true,
		`\ud800\udc00`: true, `\ud800\udfff`: true, `\udbff\udc00`: true, `\uDBFF\uDFFF`: true,
		`\ud800`: false, `\udbff`: false, `\udc00`: false, `\udfff`: false, `\udc00\ud800`: false,
		`\ud800\udbff`: false, `\ud800\ue000`: false, `\ud800\uffff`: false, `\ud800\u0041`: false, `\ud800x\udc00`: false,
		`\u000/`: false, `\u000:`: false, `\u000@`: false, `\u000G`: false, "\\u000`": false, `\u000g`: false, `\u000`: false, `\U0000`: false, `\x00`: false,
	} {
		text := fmt.Sprintf(`{"version":1,"type":"t","payload":{"a":"%s"}}`, escape)
		if _, err := events.DecodeEnvelope([]byte(text)); (err == nil) != good {
			t.Errorf("%s: %v; should it be accepted: %v", escape, err, good)
		}
	}
}

// Events are equal if all of their parts are.
func TestEnvelopeEqualComparesEachPart(t *testing.T) {
	read := func(text string) events.Envelope {
		env, err := events.DecodeEnvelope([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return env
	}
	one := read(`{"version":1,"type":"t","payload":{"a":1},"metadata":{"m":1}}`)
	for text, equal := range map[string]bool{
		`{"version":1,"type":"t","payload":{"a":1},"metadata":{"m":1}}`: true,
		`{"version":1,"type":"u","payload":{"a":1},"metadata":{"m":1}}`: false,
		`{"version":1,"type":"t","payload":{"a":2},"metadata":{"m":1}}`: false,
		`{"version":1,"type":"t","payload":{"a":1},"metadata":{"m":2}}`: false,
		`{"version":1,"type":"t","payload":{"a":1}}`:                    false,
	} {
		other := read(text)
		if one.Equal(other) != equal || other.Equal(one) != equal {
			t.Errorf("%s: equal %v and %v; want %v", text, one.Equal(other), other.Equal(one), equal)
		}
	}
}
