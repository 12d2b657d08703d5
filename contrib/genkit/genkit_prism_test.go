package genkit_test

import (
	"fmt"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/prismtest"
	_ "github.com/beamagents/beamagents-go/pkg/coders" // the coders of all messages
	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	transforms.RegisterAgent[*Refunds]()
	register.Function2x1(sayOutput)
	register.Function1x1(sayIntent)
	register.Function1x1(sayLetter)
}

func sayOutput(key, value []byte) string { return fmt.Sprintf("%s: %s", key, value) }

func sayIntent(in *pb.ToolIntent) string {
	return fmt.Sprintf("%s: %v %s %s", in.GetEntityKey(), in.GetKind(), in.GetToolName(), in.GetArgsJson())
}

func sayLetter(rec *pb.ActivationErrorRecord) string { return rec.GetReason() + ": " + rec.GetDetail() }

// On a runner: a question, the approval of what the model wants, and the result of the tool.
func TestPrism(t *testing.T) {
	server, url := serve(t)
	key := []byte("customer-1")
	ts := teststream.NewConfig()
	for i, env := range []*pb.AgentEnvelope{
		{Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte("refund:5000")}},
		{Payload: &pb.AgentEnvelope_Approval_{Approval: &pb.AgentEnvelope_Approval{IntentId: intent.ID(key, 0, 0), Approved: true, Approver: "alice"}}},
		{Payload: &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{IntentId: intent.ID(key, 0, 1), Status: pb.ToolResult_OK, Payload: []byte("paid")}}},
	} {
		env.EntityKey, env.EventTimeMs = key, int64(1000*(i+1))
		raw, err := proto.Marshal(env)
		if err != nil {
			t.Fatal(err)
		}
		if err := ts.AddElements(env.EventTimeMs, raw); err != nil {
			t.Fatal(err)
		}
		ts.AdvanceWatermark(env.EventTimeMs + 1)
	}
	ts.AdvanceWatermarkToInfinity()
	p, s := beam.NewPipelineWithRoot()
	parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, teststream.Create(s, ts))
	agents := transforms.RunAgent(s, transforms.AgentParams{Name: "refunds", Agent: &Refunds{BaseURL: url, LimitCents: 1000}},
		transforms.KeyByEntity(s, parsed.Envelopes))
	passert.Equals(s, beam.Flatten(s, beam.ParDo(s, sayOutput, agents.Outputs), beam.ParDo(s, sayIntent, agents.Intents),
		beam.ParDo(s, sayLetter, parsed.Errors), beam.ParDo(s, sayLetter, agents.Errors)),
		"customer-1: APPROVAL refund {\"cents\":5000}",
		"customer-1: TOOL refund {\"cents\":5000}",
		`customer-1: "paid"`)
	prismtest.Run(t, p)
	if n := len(server.Calls()); n != 2 {
		t.Errorf("%d calls of the model, want 2", n)
	}
}
