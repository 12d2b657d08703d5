package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/pkg/events"
)

// projectionVector keeps the text of a projection without white space.
type projectionVector struct{ json.RawMessage }

func (p projectionVector) compact(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, p.RawMessage); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

type vectors struct {
	Catalog []string `json:"catalog"`
	Events  []struct {
		Name                 string           `json:"name"`
		RuntimeEventInput    string           `json:"runtime_event_input"`
		RuntimeEventJSON     string           `json:"runtime_event_json"`
		EnvelopeJSON         string           `json:"envelope_json"`
		EnvelopeJSONUnsorted string           `json:"envelope_json_if_preserve_order"`
		Projection           projectionVector `json:"projection"`
	} `json:"events"`
	RunEvents []struct {
		Record               string           `json:"record"`
		RunID                string           `json:"run_id"`
		SessionID            string           `json:"session_id"`
		RecordJSON           string           `json:"record_json"`
		EnvelopeJSON         string           `json:"envelope_json"`
		EnvelopeJSONUnsorted string           `json:"envelope_json_if_preserve_order"`
		Projection           projectionVector `json:"projection"`
	} `json:"run_events"`
	EnvelopeDecode []struct {
		Input                string  `json:"input"`
		EnvelopeJSON         string  `json:"envelope_json"`
		EnvelopeJSONUnsorted string  `json:"envelope_json_if_preserve_order"`
		PayloadJSON          string  `json:"payload_json"`
		MetadataJSON         *string `json:"metadata_json"`
		DataJSON             *string `json:"data_json"`
		Error                string  `json:"error"`
		Match                string  `json:"match"`
	} `json:"envelope_decode"`
	RuntimeEventDecodeErrors []struct {
		Input string `json:"input"`
		Error string `json:"error"`
		Match string `json:"match"`
	} `json:"runtime_event_decode_errors"`
	ProjectionEdges []struct {
		Input           string           `json:"input"`
		Projection      projectionVector `json:"projection"`
		PayloadJSONZmij string           `json:"payload_json_zmij"`
	} `json:"projection_edges"`
	VerificationSummaryText []struct {
		Summary json.RawMessage `json:"summary"`
		Text    string          `json:"text"`
	} `json:"verification_summary_text"`
	ValueRoundtrip []struct {
		Input    string  `json:"input"`
		AsI64    *int64  `json:"as_i64"`
		AsU64    *uint64 `json:"as_u64"`
		IsF64    bool    `json:"is_f64"`
		JSON     string  `json:"json"`
		JSONZmij string  `json:"json_zmij"`
		Error    string  `json:"error"`
	} `json:"value_roundtrip"`
	EnvelopeDecodeOtherPaths []struct {
		Path  string `json:"path"`
		Error string `json:"error"`
	} `json:"envelope_decode_other_paths"`
}

var loadVectors = sync.OnceValues(func() (v vectors, err error) {
	data, err := os.ReadFile("testdata/event_protocol_v1.json")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(data, &v)
})

func theVectors(t testing.TB) vectors {
	t.Helper()
	v, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func decode(t testing.TB, text string) events.Envelope {
	t.Helper()
	env, err := events.DecodeEnvelope([]byte(text))
	if err != nil {
		t.Fatalf("DecodeEnvelope(%s): %v", text, err)
	}
	return env
}

func encode(t testing.TB, env events.Envelope) string {
	t.Helper()
	b, err := env.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// position matches the position in the text of an error, which may differ.
var position = regexp.MustCompile(` at (line \d+ column \d+|byte \d+)$`)

// classes maps the beginning of an error text in the vectors to a code.
var classes = []struct {
	start string
	code  events.ErrorCode
}{
	{"unsupported event envelope version", events.CodeUnsupportedVersion},
	{"missing field", events.CodeMissingField},
	{"duplicate field", events.CodeDuplicateField},
	{"invalid type", events.CodeWrongType},
	{"invalid value", events.CodeWrongType},
	{"unknown variant", events.CodeWrongType},
	{"recursion limit exceeded", events.CodeTooDeep},
	{"EOF while parsing", events.CodeUnparsable},
	{"unexpected end of hex escape", events.CodeUnparsable},
	{"number out of range", events.CodeUnparsable},
}

// checkError compares an error with that of a vector: always the class, and the text if it is
// stable.
func checkError(t *testing.T, err error, want, match string) {
	t.Helper()
	var de *events.DecodeError
	if !errors.As(err, &de) {
		t.Fatalf("error %v (%T), want a *DecodeError like %q", err, err, want)
	}
	code := events.ErrorCode("")
	for _, c := range classes {
		if strings.HasPrefix(want, c.start) {
			code = c.code
		}
	}
	if code == "" {
		t.Fatalf("no class for %q", want)
	}
	if !errors.Is(err, code) || de.Code != code {
		t.Errorf("code %q, want %q (%v)", de.Code, code, err)
	}
	if got, want := position.ReplaceAllString(de.Error(), ""), position.ReplaceAllString(want, ""); match == "exact" && got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

func TestVectorEvents(t *testing.T) {
	for _, v := range theVectors(t).Events {
		t.Run(v.Name, func(t *testing.T) {
			event, err := events.DecodeEvent([]byte(v.RuntimeEventInput))
			if err != nil {
				t.Fatal(err)
			}
			direct, err := events.AppendEvent(nil, event)
			if err != nil || string(direct) != v.RuntimeEventJSON {
				t.Errorf("direct form %s (%v)\nwant %s", direct, err, v.RuntimeEventJSON)
			}
			env, err := events.ToEnvelope(event)
			if err != nil {
				t.Fatal(err)
			}
			if got := encode(t, env); got != v.EnvelopeJSON {
				t.Errorf("envelope %s\nwant %s", got, v.EnvelopeJSON)
			}
			for _, text := range []string{v.EnvelopeJSON, v.EnvelopeJSONUnsorted} {
				decoded := decode(t, text)
				if !decoded.Equal(env) || encode(t, decoded) != v.EnvelopeJSON {
					t.Errorf("%s is not the event's envelope", text)
				}
				back, err := events.FromEnvelope(decoded)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(event, back); diff != "" {
					t.Errorf("event from its envelope (-want +got):\n%s", diff)
				}
				if got, want := string(decoded.Project().AppendJSON(nil)), v.Projection.compact(t); got != want {
					t.Errorf("projection %s\nwant %s", got, want)
				}
			}
			p, err := events.ProjectEvent(event)
			if got, want := string(p.AppendJSON(nil)), v.Projection.compact(t); err != nil || got != want {
				t.Errorf("projection of the event %s (%v)\nwant %s", got, err, want)
			}
		})
	}
}

func TestVectorRunEvents(t *testing.T) {
	for _, v := range theVectors(t).RunEvents {
		record, err := events.DecodeRunRecord([]byte(v.Record))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := record.AppendJSON(nil); err != nil || string(got) != v.RecordJSON {
			t.Errorf("record %s (%v)\nwant %s", got, err, v.RecordJSON)
		}
		env, err := record.ToEnvelope(v.RunID, v.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		if got := encode(t, env); got != v.EnvelopeJSON {
			t.Errorf("envelope %s\nwant %s", got, v.EnvelopeJSON)
		}
		if got, want := string(env.Project().AppendJSON(nil)), v.Projection.compact(t); got != want {
			t.Errorf("projection %s\nwant %s", got, want)
		}
		for _, text := range []string{v.EnvelopeJSON, v.EnvelopeJSONUnsorted} {
			back, runID, sessionID, err := events.FromRunEnvelope(decode(t, text))
			if err != nil || runID != v.RunID || sessionID != v.SessionID {
				t.Errorf("ids %q and %q (%v), want %q and %q", runID, sessionID, err, v.RunID, v.SessionID)
			}
			if diff := cmp.Diff(record, back); diff != "" {
				t.Errorf("record from its envelope (-want +got):\n%s", diff)
			}
		}
	}
}

func TestVectorEnvelopeDecode(t *testing.T) {
	for _, v := range theVectors(t).EnvelopeDecode {
		t.Run("", func(t *testing.T) {
			env, err := events.DecodeEnvelope([]byte(v.Input))
			if v.Error != "" {
				checkError(t, err, v.Error, v.Match)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := encode(t, env); got != v.EnvelopeJSON {
				t.Errorf("envelope %s\nwant %s", got, v.EnvelopeJSON)
			}
			p := env.Project()
			if p.PayloadJSON != v.PayloadJSON || !cmp.Equal(p.MetadataJSON, v.MetadataJSON) || !cmp.Equal(p.DataJSON, v.DataJSON) {
				t.Errorf("projection %s of %s", p.AppendJSON(nil), v.Input)
			}
			if v.EnvelopeJSONUnsorted != "" && !decode(t, v.EnvelopeJSONUnsorted).Equal(env) {
				t.Errorf("%s is not the same envelope", v.EnvelopeJSONUnsorted)
			}
		})
	}
}

func TestVectorRuntimeEventDecodeErrors(t *testing.T) {
	for _, v := range theVectors(t).RuntimeEventDecodeErrors {
		t.Run("", func(t *testing.T) {
			_, err := events.DecodeEvent([]byte(v.Input))
			checkError(t, err, v.Error, v.Match)
			// The texts that list the catalogue differ only in their position.
			if strings.HasPrefix(v.Error, "unknown variant") {
				checkError(t, err, v.Error, "exact")
			}
		})
	}
}

func TestVectorProjectionEdges(t *testing.T) {
	for _, v := range theVectors(t).ProjectionEdges {
		env := decode(t, v.Input)
		if got, want := string(env.Project().AppendJSON(nil)), v.Projection.compact(t); got != want {
			t.Errorf("projection %s\nwant %s", got, want)
		}
		if v.PayloadJSONZmij == "" {
			continue
		}
		other, err := events.ParseValue([]byte(v.PayloadJSONZmij))
		if err != nil || !other.Equal(env.Payload) {
			t.Errorf("%s is not %s (%v)", v.PayloadJSONZmij, env.Payload.JSON(), err)
		}
	}
}

func TestVectorVerificationSummaryText(t *testing.T) {
	for _, v := range theVectors(t).VerificationSummaryText {
		env := decode(t, `{"version":1,"type":"agent_end","payload":{"verification_summary":`+string(v.Summary)+`}}`)
		p := env.Project()
		if p.VerificationSummaryText == nil || *p.VerificationSummaryText != v.Text {
			t.Errorf("%s: text %v, want %q", v.Summary, p.VerificationSummaryText, v.Text)
		}
	}
}

func TestVectorValueRoundtrip(t *testing.T) {
	for _, v := range theVectors(t).ValueRoundtrip {
		value, err := events.ParseValue([]byte(v.Input))
		if v.Error != "" {
			checkError(t, err, v.Error, "exact")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := value.JSON(); got != v.JSON {
			t.Errorf("%s is written %s, want %s", v.Input, got, v.JSON)
		}
		for _, text := range []string{v.JSON, v.JSONZmij} {
			if text == "" {
				continue
			}
			if other, err := events.ParseValue([]byte(text)); err != nil || !other.Equal(value) || other.JSON() != v.JSON {
				t.Errorf("%s is not %s (%v)", text, v.Input, err)
			}
		}
		i, isInt := value.Int64()
		u, isUint := value.Uint64()
		_, isFloat := value.Float64()
		if isInt != (v.AsI64 != nil) || isInt && i != *v.AsI64 || isUint != (v.AsU64 != nil) || isUint && u != *v.AsU64 || isFloat != v.IsF64 {
			t.Errorf("%s: int64 %d %t, uint64 %d %t, float64 %t", v.Input, i, isInt, u, isUint, isFloat)
		}
	}
}

// The other paths differ in where serde gets its text from, which does not matter in Go. Two
// of their errors are those of the bytes, without a position.
func TestVectorEnvelopeDecodeOtherPaths(t *testing.T) {
	inputs := map[string]string{
		"from_value":                        `{"version":2,"type":"x","payload":{}}`,
		"element of a JSON array, from_str": `{"version":2,"type":"x","payload":{}}`,
		"from_value, version 1.0":           `{"version":1.0,"type":"x","payload":{}}`,
		"from_value, payload missing":       `{"version":1,"type":"x"}`,
	}
	for _, v := range theVectors(t).EnvelopeDecodeOtherPaths {
		input, ok := inputs[v.Path]
		if !ok {
			t.Fatalf("no input for the path %q", v.Path)
		}
		match := "exact"
		if strings.Contains(v.Path, "1.0") {
			match = "refuse"
		}
		_, err := events.DecodeEnvelope([]byte(input))
		checkError(t, err, v.Error, match)
		var env events.Envelope
		checkError(t, json.Unmarshal([]byte(input), &env), v.Error, match)
		var list []events.Envelope
		checkError(t, json.Unmarshal([]byte("["+input+"]"), &list), v.Error, match)
	}
}

func TestVectorCatalogue(t *testing.T) {
	if diff := cmp.Diff(theVectors(t).Catalog, events.Types()); diff != "" {
		t.Errorf("catalogue (-want +got):\n%s", diff)
	}
}
