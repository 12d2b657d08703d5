package coders_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/internal/prismtest"
	"github.com/beamagents/beamagents-go/pkg/events"
)

func init() {
	register.Function1x2(keyByAgentEvent)
	register.Function2x1(countAgentEvent)
}

// agentEvents are the envelopes of the protocol's vectors, and what they do not have.
func agentEvents(t testing.TB) (all []events.Envelope) {
	t.Helper()
	data, err := os.ReadFile("../events/testdata/event_protocol_v1.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Events []struct {
			EnvelopeJSON string `json:"envelope_json_if_preserve_order"`
		} `json:"events"`
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`{"version":1,"type":"","payload":null}`,
		`{"version":1,"type":"newer\u0000","payload":[1,1.0,-0.0,18446744073709551615,"<&>\u2028"],"metadata":false}`,
	} {
		vectors.Events = append(vectors.Events, struct {
			EnvelopeJSON string `json:"envelope_json_if_preserve_order"`
		}{text})
	}
	for _, v := range vectors.Events {
		env, err := events.DecodeEnvelope([]byte(v.EnvelopeJSON))
		if err != nil {
			t.Fatalf("%s: %v", v.EnvelopeJSON, err)
		}
		all = append(all, env)
	}
	return all
}

func TestEventCoders(t *testing.T) {
	for _, env := range agentEvents(t) {
		canonical, err := env.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := encodeElement(env)
		if err != nil || !bytes.Equal(got, framed(canonical)) {
			t.Fatalf("encoded %s (%v), want %s", got, err, canonical)
		}
		back, err := beam.NewElementDecoder(reflect.TypeOf(env)).Decode(bytes.NewReader(got))
		if err != nil {
			t.Fatal(err)
		}
		if !env.Equal(back.(events.Envelope)) {
			t.Errorf("%s came back as %v", canonical, back)
		}

		p := env.Project()
		columns, err := encodeElement(p)
		if err != nil || !bytes.Equal(columns, framed(p.AppendJSON(nil))) {
			t.Fatalf("encoded %s (%v)", columns, err)
		}
		back, err = beam.NewElementDecoder(reflect.TypeOf(p)).Decode(bytes.NewReader(columns))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Errorf("%s: projection changed (-want +got):\n%s", canonical, diff)
		}
	}
	for _, element := range []any{events.Envelope{}, events.Projection{}} {
		if c := beam.NewCoder(typex.New(reflect.TypeOf(element))); !c.IsDeterministic() {
			t.Errorf("%T: IsDeterministic() = false", element)
		}
	}
}

func TestEventCodersRefuse(t *testing.T) {
	bad := "\xff"
	good := "good"
	for want, element := range map[string]any{
		"events.Envelope: failed to serialize agent event: the event type is not valid UTF-8": events.Envelope{Type: bad},
		"events.Projection: EventType: text is not UTF-8":                                     events.Projection{EventType: bad},
		"events.Projection: PayloadJSON: text is not UTF-8":                                   events.Projection{EventType: good, PayloadJSON: bad, Text: &bad},
		"events.Projection: Text: text is not UTF-8":                                          events.Projection{Prompt: &good, Text: &bad, Turn: new(uint64)},
		"events.Projection: VerificationSummaryText: text is not UTF-8":                       events.Projection{VerificationSummaryText: &bad},
	} {
		if b, err := encodeElement(element); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%#v: encoded as %q, %v; want the error %q", element, b, err, want)
		}
	}
	for _, element := range []any{events.Envelope{}, events.Projection{}} {
		for _, content := range []string{"", "{", "{}", `{"version":2,"type":"t","payload":1}`, `[]`, "null"} {
			got, err := beam.NewElementDecoder(reflect.TypeOf(element)).Decode(bytes.NewReader(framed([]byte(content))))
			if err == nil || !strings.Contains(err.Error(), "coders: decode events.") {
				t.Errorf("%T: decoded %q as %v, error %v", element, content, got, err)
			}
		}
	}
}

// keyByAgentEvent makes the same event from two texts.
func keyByAgentEvent(i int) (events.Envelope, int) {
	text := `{"version":1,"type":"t","payload":{"a":1,"b":1e2}}`
	if i%2 == 0 {
		text = `{"payload":{"b":100.0,"a":2,"a":1},"type":"t", "version":1}`
	}
	env, err := events.DecodeEnvelope([]byte(text))
	if err != nil {
		panic(err)
	}
	return env, i
}

func countAgentEvent(env events.Envelope, next func(*int) bool) string {
	return fmt.Sprintf("%s:%d", env.Type, count(next))
}

func TestEventsAreGroupByKeyKeys(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	groups := beam.GroupByKey(s, beam.ParDo(s, keyByAgentEvent, beam.Create(s, 1, 2, 3, 4)))
	passert.Equals(s, beam.ParDo(s, countAgentEvent, groups), "t:4")
	prismtest.Run(t, p)
}
