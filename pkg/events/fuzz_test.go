package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// checkRefused tests that an error is a DecodeError with a code of the list and with a text
// that is short and valid UTF-8.
func checkRefused(t *testing.T, err error) {
	t.Helper()
	var de *DecodeError
	if !errors.As(err, &de) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	switch de.Code {
	case CodeUnparsable, CodeUnsupportedVersion, CodeMissingField, CodeWrongType, CodeDuplicateField, CodeTooDeep:
	default:
		t.Fatalf("code %q", de.Code)
	}
	if text := err.Error(); !utf8.ValidString(text) || len(text) > 8<<10 {
		t.Fatalf("text of %d bytes: %q", len(text), text)
	}
}

// checkValue compares a Value with what encoding/json reads from the same text.
func checkValue(t *testing.T, v Value, text string) {
	t.Helper()
	written := v.JSON()
	if slow := rewritten(v.text); slow != written {
		t.Fatalf("%s is taken for canonical; that is %s", written, slow)
	}
	back, err := ParseValue([]byte(written))
	if err != nil || back.JSON() != written || back.deep != v.deep && v.canonical {
		t.Fatalf("%s is read as %s (%v)", written, back.JSON(), err)
	}
	if a, b := tree(t, text), tree(t, written); !reflect.DeepEqual(a, b) {
		t.Fatalf("%s\nhas become %s", text, written)
	}
	again, err := ValueOf(v.Any())
	if err != nil || again.JSON() != written {
		t.Fatalf("ValueOf(Any()) of %s is %s (%v)", written, again.JSON(), err)
	}
}

// tree is what encoding/json reads. Each number is replaced by the number that the protocol
// reads.
func tree(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", text, err)
	}
	var numbers func(any) any
	numbers = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			n, float := parseNumber(v.String())
			return [2]any{n, float}
		case []any:
			for i := range v {
				v[i] = numbers(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = numbers(v[k])
			}
		}
		return v
	}
	return numbers(v)
}

func addVectors(f *testing.F, fields ...string) {
	f.Helper()
	data, err := os.ReadFile("testdata/event_protocol_v1.json")
	if err != nil {
		f.Fatal(err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		f.Fatal(err)
	}
	for _, list := range []string{"events", "run_events", "envelope_decode", "runtime_event_decode_errors", "projection_edges", "value_roundtrip"} {
		var items []map[string]any
		if err := json.Unmarshal(file[list], &items); err != nil {
			f.Fatal(err)
		}
		for _, item := range items {
			for _, field := range fields {
				if text, ok := item[field].(string); ok {
					f.Add([]byte(text))
				}
			}
		}
	}
}

func FuzzDecodeEnvelope(f *testing.F) {
	addVectors(f, "input", "envelope_json", "envelope_json_if_preserve_order")
	f.Fuzz(func(t *testing.T, data []byte) {
		env, err := DecodeEnvelope(data)
		if err == nil && (!json.Valid(data) || !utf8.Valid(data)) {
			t.Fatalf("accepted, but not JSON: %q", data)
		}
		if err != nil {
			checkRefused(t, err)
			return
		}
		written, err := env.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeEnvelope(written)
		if err != nil || !back.Equal(env) {
			t.Fatalf("%q is written as %s, which is not the same: %v", data, written, err)
		}
		if again, err := back.AppendJSON(nil); err != nil || !bytes.Equal(again, written) {
			t.Fatalf("%s is written again as %s (%v)", written, again, err)
		}
		checkValue(t, env.Payload, env.Payload.text)
		if p := env.Project(); !json.Valid(p.AppendJSON(nil)) || !reflect.DeepEqual(p, back.Project()) {
			t.Fatalf("projection %s", p.AppendJSON(nil))
		}
		event, err := FromEnvelope(env)
		if err != nil {
			checkRefused(t, err)
			return
		}
		typed, err := ToEnvelope(event)
		if err != nil {
			t.Fatalf("%#v is read but not written: %v", event, err)
		}
		if same, err := FromEnvelope(typed); err != nil || !sameEvent(event, same) {
			t.Fatalf("%#v has become %#v (%v)", event, same, err)
		}
		if _, _, _, err := FromRunEnvelope(env); err != nil {
			checkRefused(t, err)
		}
	})
}

func sameEvent(a, b Event) bool {
	x, errX := AppendEvent(nil, a)
	y, errY := AppendEvent(nil, b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func FuzzParseValue(f *testing.F) {
	addVectors(f, "input", "json", "json_zmij", "payload_json_zmij", "payload_json")
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseValue(data)
		if err == nil && (!json.Valid(data) || !utf8.Valid(data)) {
			t.Fatalf("accepted, but not JSON: %q", data)
		}
		if err != nil {
			checkRefused(t, err)
			return
		}
		checkValue(t, v, string(data))
	})
}

func FuzzDecodeEvent(f *testing.F) {
	addVectors(f, "runtime_event_input", "runtime_event_json", "input")
	f.Fuzz(func(t *testing.T, data []byte) {
		event, err := DecodeEvent(data)
		if err == nil && (!json.Valid(data) || !utf8.Valid(data)) {
			t.Fatalf("accepted, but not JSON: %q", data)
		}
		if err != nil {
			checkRefused(t, err)
			return
		}
		written, err := AppendEvent(nil, event)
		if err != nil {
			t.Fatalf("%#v is read but not written: %v", event, err)
		}
		back, err := DecodeEvent(written)
		if err != nil || !sameEvent(event, back) {
			t.Fatalf("%q is written as %s, which is not the same: %v", data, written, err)
		}
		if _, err := ToEnvelope(event); err != nil && !errors.Is(err, ErrSerialize) {
			t.Fatal(err) // one level deeper, it may not fit
		}
	})
}

func FuzzDecodeRunRecord(f *testing.F) {
	addVectors(f, "record", "record_json")
	f.Fuzz(func(t *testing.T, data []byte) {
		record, err := DecodeRunRecord(data)
		if err == nil && (!json.Valid(data) || !utf8.Valid(data)) {
			t.Fatalf("accepted, but not JSON: %q", data)
		}
		if err != nil {
			checkRefused(t, err)
			return
		}
		written, err := record.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeRunRecord(written)
		if err != nil || back.Sequence != record.Sequence || back.TimestampMs != record.TimestampMs || !sameEvent(back.Event, record.Event) {
			t.Fatalf("%q is written as %s, which is not the same: %v", data, written, err)
		}
		env, err := record.ToEnvelope("r", "s")
		if err != nil {
			t.Fatal(err)
		}
		if same, _, _, err := FromRunEnvelope(env); err != nil || !sameEvent(same.Event, record.Event) {
			t.Fatalf("from its envelope: %v", err)
		}
	})
}
