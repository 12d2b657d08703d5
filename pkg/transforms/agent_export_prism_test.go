package transforms

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"

	"github.com/beamagents/beamagents-go/internal/messagejson"
	"github.com/beamagents/beamagents-go/internal/prismtest"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() { register.Function2x1(saySnapshot) }

func saySnapshot(at beam.EventTime, m *pb.StateSnapshot) string {
	return fmt.Sprintf("snapshot@%d %s", at.Milliseconds(), messagejson.AppendReadable(nil, m.ProtoReflect()))
}

// A request for the state of a key emits a snapshot at the time of the request, and has no other
// effect on the key.
func TestPrismExport(t *testing.T) {
	ask := eventFor("a", 1000, script{Put: []string{`order={"cents":5}`}, Ask: []string{"refund"}, Then: "suspend", Timeout: 5000, Next: &script{Use: true}})
	id := intent.ID([]byte("a"), 0, 0)
	traceID := intent.TraceID([]byte("a"), 0)
	trace := base64.StdEncoding.EncodeToString(traceID[:])
	const memory = `"memory":{"state_schema_version":1,"entries":[{"key":"order","value":{"cents":5},"last_access_ms":"1000"}],"total_value_bytes":"11"}`
	suspended := `{"state_schema_version":1,"key":"a","seq":"1","snapshot_at_ms":"1500",` + memory +
		`,"continuation":{"state_schema_version":1,"step_index":1,"pending_intent_ids":["` + id + `"],"adapter":"test","snapshot":{"use":true},` +
		`"suspended_at_ms":"1000","deadline_ms":"6000"},` +
		`"pending":[{"intent_id":"` + id + `","key":"a","tool_name":"refund","args_json":{"from":""},"created_at_ms":"1000","expires_at_ms":"86401000","kind":"APPROVAL",` +
		`"trace_id":"` + trace + `"}],` +
		`"request_id":"export at 1500"}`
	history := []*pb.AgentEnvelope{
		ask, exportOf("a", 1500), approvalFor(firstIntent("a"), 3000, true), exportOf("a", 3500), exportOf("none", 3500),
	}
	want := []string{
		"a intent@1000 APPROVAL refund",
		"snapshot@1500 " + suspended,
		"a output@3000 approval approved=true expired=0 payload=", "a intent@3000 TOOL refund",
		`snapshot@3500 {"state_schema_version":1,"key":"a","seq":"2","snapshot_at_ms":"3500",` + memory + `,"request_id":"export at 3500"}`,
		`snapshot@3500 {"state_schema_version":1,"key":"none","snapshot_at_ms":"3500","request_id":"export at 3500"}`,
	}
	for _, concurrency := range forms {
		t.Run(fmt.Sprintf("a bundle each/%d", concurrency), func(t *testing.T) {
			stream(t, AgentParams{Concurrency: concurrency}, func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				for _, env := range history {
					add(env)
					ts.AdvanceWatermark(env.GetEventTimeMs() + 100)
				}
			}, want...)
		})
		t.Run(fmt.Sprintf("one bundle/%d", concurrency), func(t *testing.T) {
			var raw []string
			for _, env := range history {
				raw = append(raw, string(encoded(t, env)))
			}
			p, s := beam.NewPipelineWithRoot()
			envelopes := beam.ParDo(s, parseText, beam.CreateList(s, raw))
			agents := RunAgent(s, AgentParams{Name: "test", Agent: new(scriptedAgent), Concurrency: concurrency}, KeyByEntity(s, envelopes))
			passert.EqualsList(s, spoken(s, agents), want)
			prismtest.Run(t, p)
		})
	}
}
