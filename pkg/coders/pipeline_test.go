package coders_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	v1pb "github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx/v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/protox"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/beamagents/beamagents-go/pkg/events"
)

const (
	customCoderURN = "beam:go:coder:custom:v1"
	frozenPath     = "../../golden/pipeline/coders.json"
)

// frozenCoder is a coder of a running job. The job keeps Payload. The other members are for people
// to read, and Payload contains them, too.
type frozenCoder struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Encode  string `json:"encode"`
	Decode  string `json:"decode"`
	Payload string `json:"payload"`
}

var addFrozen = flag.Bool("add-frozen", false, "add the coders that are missing in golden/pipeline; those that are there stay")

// elements are values of all types that have a coder of ours.
func elements() (all []any) {
	for _, m := range travelling {
		all = append(all, m)
	}
	return append(all, events.Envelope{}, events.Projection{})
}

// typeName is how the frozen list calls an element's type.
func typeName(element any) string {
	if m, ok := element.(proto.Message); ok {
		return name(m)
	}
	return reflect.TypeOf(element).String()
}

// currentCoder is the coder that Beam would write for an element now.
func currentCoder(t *testing.T, m any) frozenCoder {
	t.Helper()
	c := coder.CoderFrom(coder.LookupCustomCoder(reflect.TypeOf(m)))
	marshaller := graphx.NewCoderMarshaller()
	if _, err := marshaller.Add(c); err != nil {
		t.Fatal(err)
	}
	for _, spec := range marshaller.Build() {
		if spec.GetSpec().GetUrn() == customCoderURN {
			payload := string(spec.GetSpec().GetPayload())
			custom := decodePayload(t, payload)
			return frozenCoder{
				Message: typeName(m), Type: custom.GetName(),
				Encode: custom.GetEnc().GetName(), Decode: custom.GetDec().GetName(), Payload: payload,
			}
		}
	}
	t.Fatalf("%s: Beam wrote no custom coder", typeName(m))
	return frozenCoder{}
}

func decodePayload(t *testing.T, payload string) *v1pb.CustomCoder {
	t.Helper()
	custom := new(v1pb.CustomCoder)
	if err := protox.DecodeBase64(payload, custom); err != nil {
		t.Fatal(err)
	}
	return custom
}

func readFrozen(t *testing.T) map[string]frozenCoder {
	t.Helper()
	b, err := os.ReadFile(frozenPath)
	if err != nil {
		t.Fatal(err)
	}
	var list []frozenCoder
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	byMessage := map[string]frozenCoder{}
	for _, c := range list {
		byMessage[c.Message] = c
	}
	return byMessage
}

// The update contract: a change here makes Dataflow refuse to update a running job.
func TestPipelinePayloadsAreFrozen(t *testing.T) {
	frozen := readFrozen(t)
	if *addFrozen {
		var list []frozenCoder
		for _, m := range elements() {
			if old, ok := frozen[typeName(m)]; ok {
				list = append(list, old)
			} else {
				list = append(list, currentCoder(t, m))
			}
		}
		b, err := json.MarshalIndent(list, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(frozenPath, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		frozen = readFrozen(t)
	}
	for _, m := range elements() {
		want, ok := frozen[typeName(m)]
		if !ok {
			t.Errorf("%s is not frozen yet: run this test with -add-frozen", typeName(m))
			continue
		}
		delete(frozen, typeName(m))
		got := currentCoder(t, m)
		if diff := cmp.Diff(decodePayload(t, want.Payload), decodePayload(t, got.Payload), protocmp.Transform()); diff != "" {
			t.Errorf("%s: running jobs know another coder (-frozen +now):\n%s", typeName(m), diff)
		}
		want.Payload, got.Payload = "", ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-frozen +now):\n%s", typeName(m), diff)
		}
	}
	for gone := range frozen {
		t.Errorf("%s is frozen and has no coder any more", gone)
	}
}

func TestAllMessagesShareOneSymbolPair(t *testing.T) {
	const symbols = "github.com/beamagents/beamagents-go/pkg/coders."
	frozen := readFrozen(t)
	for _, m := range travelling {
		c := frozen[name(m)]
		if c.Encode != symbols+"encode" || c.Decode != symbols+"decode" {
			t.Errorf("%s: %s, %s", c.Message, c.Encode, c.Decode)
		}
	}
}

// A worker of this build reads the frozen payload of an older pipeline and decodes with it.
func TestFrozenPayloadStillDecodes(t *testing.T) {
	frozen := readFrozen(t)
	for _, m := range elements() {
		c, err := graphx.NewCoderUnmarshaller(map[string]*pipepb.Coder{
			"prefix": {Spec: &pipepb.FunctionSpec{Urn: "beam:coder:length_prefix:v1"}, ComponentCoderIds: []string{"c"}},
			"c":      {Spec: &pipepb.FunctionSpec{Urn: customCoderURN, Payload: []byte(frozen[typeName(m)].Payload)}},
		}).Coder("prefix")
		if err != nil {
			t.Errorf("%s: %v", typeName(m), err)
			continue
		}
		content := []byte{0xa0, 0x1f, 0x2a} // an unknown field of any message
		switch m.(type) {
		case events.Envelope:
			content = []byte(`{"version":1,"type":"newer","payload":{"a":1.0}}`)
		case events.Projection:
			content = []byte(`{"event_type":"newer","payload_json":"{}","text":"t","version":1}`)
		}
		value, err := exec.MakeElementDecoder(c).Decode(bytes.NewReader(framed(content)))
		if err != nil {
			t.Errorf("%s: %v", typeName(m), err)
			continue
		}
		ok := reflect.TypeOf(value.Elm) == reflect.TypeOf(m)
		switch got := value.Elm.(type) {
		case proto.Message:
			ok = ok && bytes.Equal(got.ProtoReflect().GetUnknown(), content)
		case events.Envelope:
			ok = ok && got.Type == "newer" && got.Payload.JSON() == `{"a":1.0}`
		case events.Projection:
			ok = ok && got.EventType == "newer" && *got.Text == "t"
		}
		if !ok {
			t.Errorf("%s: decoded %T %v", typeName(m), value.Elm, value.Elm)
		}
	}
}
