package events_test

import (
	"encoding/json"
	"strings"
	"testing"

	jsonx "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/beamagents/beamagents-go/pkg/events"
)

// rawEnvelope is the usual type for encoding/json. It is less strict, and the payload is not
// decoded.
type rawEnvelope struct {
	Version  uint16          `json:"version"`
	Type     string          `json:"type"`
	Payload  json.RawMessage `json:"payload"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// rawEnvelopeX is the same for go-json-experiment.
type rawEnvelopeX struct {
	Version  uint16         `json:"version"`
	Type     string         `json:"type"`
	Payload  jsontext.Value `json:"payload"`
	Metadata jsontext.Value `json:"metadata,omitzero"`
}

// benchInputs are the sets of envelopes that the benchmarks run over.
func benchInputs(b *testing.B) map[string][][]byte {
	all := theVectors(b).Events
	inputs := map[string][][]byte{
		"small":   {[]byte(`{"version":1,"type":"text_delta","payload":{"text":"hello, world"},"metadata":{"run_id":"run-1","sequence":7,"session_id":"session-1","timestamp_ms":1700000000000}}`)},
		"large":   {[]byte(`{"version":1,"type":"tool_end","payload":{"args":{"path":"README.md"},"exit_code":0,"id":"tool-1","name":"read","output":"` + strings.Repeat(`A line of \"text\", naïve and plain.\n`, 300) + `"}}`)},
		"numbers": {[]byte(`{"version":1,"type":"x","payload":[` + strings.Repeat(`0.8999999761581421,12,-7,1.5,1e300,18446744073709551615,`, 50) + `0]}`)},
	}
	for _, v := range all {
		inputs["vectors"] = append(inputs["vectors"], []byte(v.EnvelopeJSON))
		inputs["unsorted"] = append(inputs["unsorted"], []byte(v.EnvelopeJSONUnsorted))
	}
	return inputs
}

var benchSets = []string{"small", "vectors", "unsorted", "large", "numbers"}

// run runs work over each set, one envelope an operation.
func run(b *testing.B, name string, work func(b *testing.B, inputs [][]byte)) {
	for _, set := range benchSets {
		inputs := benchInputs(b)[set]
		size := 0
		for _, in := range inputs {
			size += len(in)
		}
		b.Run(set+"/"+name, func(b *testing.B) {
			b.SetBytes(int64(size / len(inputs)))
			b.ReportAllocs()
			work(b, inputs)
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	run(b, "events", func(b *testing.B, inputs [][]byte) {
		for i := 0; b.Loop(); i++ {
			if _, err := events.DecodeEnvelope(inputs[i%len(inputs)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	run(b, "encoding-json", func(b *testing.B, inputs [][]byte) {
		for i := 0; b.Loop(); i++ {
			var env rawEnvelope
			if err := json.Unmarshal(inputs[i%len(inputs)], &env); err != nil {
				b.Fatal(err)
			}
		}
	})
	run(b, "go-json-experiment", func(b *testing.B, inputs [][]byte) {
		for i := 0; b.Loop(); i++ {
			var env rawEnvelopeX
			if err := jsonx.Unmarshal(inputs[i%len(inputs)], &env); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	run(b, "events", func(b *testing.B, inputs [][]byte) {
		envs := make([]events.Envelope, len(inputs))
		for i, in := range inputs {
			envs[i], _ = events.DecodeEnvelope(in)
		}
		for i := 0; b.Loop(); i++ {
			if _, err := envs[i%len(envs)].MarshalJSON(); err != nil {
				b.Fatal(err)
			}
		}
	})
	run(b, "encoding-json", func(b *testing.B, inputs [][]byte) {
		envs := make([]rawEnvelope, len(inputs))
		for i, in := range inputs {
			_ = json.Unmarshal(in, &envs[i])
		}
		for i := 0; b.Loop(); i++ {
			if _, err := json.Marshal(&envs[i%len(envs)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	run(b, "go-json-experiment", func(b *testing.B, inputs [][]byte) {
		envs := make([]rawEnvelopeX, len(inputs))
		for i, in := range inputs {
			_ = jsonx.Unmarshal(in, &envs[i])
		}
		for i := 0; b.Loop(); i++ {
			if _, err := jsonx.Marshal(&envs[i%len(envs)]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkProject compares decoding and projecting with decoding into RawMessages alone.
func BenchmarkProject(b *testing.B) {
	run(b, "events", func(b *testing.B, inputs [][]byte) {
		for i := 0; b.Loop(); i++ {
			env, err := events.DecodeEnvelope(inputs[i%len(inputs)])
			if err != nil {
				b.Fatal(err)
			}
			if p := env.Project(); p.PayloadJSON == "" {
				b.Fatal("no payload")
			}
		}
	})
	run(b, "encoding-json-decode-only", func(b *testing.B, inputs [][]byte) {
		for i := 0; b.Loop(); i++ {
			var env rawEnvelope
			if err := json.Unmarshal(inputs[i%len(inputs)], &env); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkTyped(b *testing.B) {
	var envs []events.Envelope
	var all []events.Event
	for _, v := range theVectors(b).Events {
		env := decode(b, v.EnvelopeJSON)
		event, err := events.FromEnvelope(env)
		if err != nil {
			b.Fatal(err)
		}
		envs, all = append(envs, env), append(all, event)
	}
	b.Run("ToEnvelope", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := events.ToEnvelope(all[i%len(all)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("FromEnvelope", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := events.FromEnvelope(envs[i%len(envs)]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
