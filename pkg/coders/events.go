package coders

import (
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"

	"github.com/beamagents/beamagents-go/pkg/events"
)

func init() {
	// The signatures use universal types. Beam calls such functions without reflection, and
	// another package that is also called events cannot replace that caller.
	envelope := reflect.TypeFor[events.Envelope]()
	beam.RegisterCoder(envelope, encodeEnvelope, decodeEnvelope)
	coder.RegisterDeterministicCoder(envelope, encodeEnvelope, decodeEnvelope)

	projection := reflect.TypeFor[events.Projection]()
	beam.RegisterCoder(projection, encodeProjection, decodeProjection)
	coder.RegisterDeterministicCoder(projection, encodeProjection, decodeProjection)
}

// encodeEnvelope must keep its name and signature, because running pipelines refer to them.
func encodeEnvelope(element beam.T) ([]byte, error) {
	env, ok := element.(events.Envelope)
	if !ok {
		return nil, fmt.Errorf("coders: encode %T: not an events.Envelope", element)
	}
	b, err := env.AppendJSON(nil)
	if err != nil {
		return nil, fmt.Errorf("coders: encode events.Envelope: %w", err)
	}
	return b, nil
}

// decodeEnvelope must keep its name and signature, because running pipelines refer to them.
func decodeEnvelope(_ reflect.Type, b []byte) (beam.T, error) {
	env, err := events.DecodeEnvelope(b)
	if err != nil {
		return nil, fmt.Errorf("coders: decode events.Envelope: %w", err)
	}
	return env, nil
}

// encodeProjection must keep its name and signature, because running pipelines refer to them.
func encodeProjection(element beam.T) ([]byte, error) {
	p, ok := element.(events.Projection)
	if !ok {
		return nil, fmt.Errorf("coders: encode %T: not an events.Projection", element)
	}
	b := p.AppendJSON(nil)
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("coders: encode events.Projection: %s: %w", invalidColumn(p), ErrText)
	}
	return b, nil
}

// invalidColumn returns the name of the first field of p with text that is not UTF-8.
func invalidColumn(p events.Projection) string {
	for field, v := range reflect.ValueOf(p).Fields() {
		if v = reflect.Indirect(v); v.Kind() == reflect.String && !utf8.ValidString(v.String()) {
			return field.Name
		}
	}
	return ""
}

// decodeProjection must keep its name and signature, because running pipelines refer to them.
func decodeProjection(_ reflect.Type, b []byte) (beam.T, error) {
	p, err := events.DecodeProjection(b)
	if err != nil {
		return nil, fmt.Errorf("coders: decode events.Projection: %w", err)
	}
	return p, nil
}
