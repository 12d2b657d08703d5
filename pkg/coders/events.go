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
	// The signatures are of universal types, for which Beam has a caller without
	// reflection, and none that another package called events could take over.
	envelope := reflect.TypeFor[events.Envelope]()
	beam.RegisterCoder(envelope, encodeEnvelope, decodeEnvelope)
	coder.RegisterDeterministicCoder(envelope, encodeEnvelope, decodeEnvelope)

	projection := reflect.TypeFor[events.Projection]()
	beam.RegisterCoder(projection, encodeProjection, decodeProjection)
	coder.RegisterDeterministicCoder(projection, encodeProjection, decodeProjection)
}

// encodeEnvelope is named in running pipelines, with its full signature: it never moves.
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

// decodeEnvelope is named in running pipelines, with its full signature: it never moves.
func decodeEnvelope(_ reflect.Type, b []byte) (beam.T, error) {
	env, err := events.DecodeEnvelope(b)
	if err != nil {
		return nil, fmt.Errorf("coders: decode events.Envelope: %w", err)
	}
	return env, nil
}

// encodeProjection is named in running pipelines, with its full signature: it never moves.
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

// invalidColumn is the field of the first text in p that is not UTF-8.
func invalidColumn(p events.Projection) string {
	for field, v := range reflect.ValueOf(p).Fields() {
		if v = reflect.Indirect(v); v.Kind() == reflect.String && !utf8.ValidString(v.String()) {
			return field.Name
		}
	}
	return ""
}

// decodeProjection is named in running pipelines, with its full signature: it never moves.
func decodeProjection(_ reflect.Type, b []byte) (beam.T, error) {
	p, err := events.DecodeProjection(b)
	if err != nil {
		return nil, fmt.Errorf("coders: decode events.Projection: %w", err)
	}
	return p, nil
}
