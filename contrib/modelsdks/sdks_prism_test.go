package modelsdks_test

import (
	"fmt"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/modelserver"
	"github.com/beamagents/beamagents-go/internal/prismtest"
	_ "github.com/beamagents/beamagents-go/pkg/coders" // the coders of all messages
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	transforms.RegisterAgent[*asker]()
	register.Function2x1(sayOutput)
	register.Function1x1(sayLetter)
}

func sayOutput(key, value []byte) string { return fmt.Sprintf("%s: %s", key, value) }

func sayLetter(rec *pb.ActivationErrorRecord) string { return rec.GetReason() + ": " + rec.GetDetail() }

// On a runner, each SDK answers many keys at once. The number of requests is the number of
// questions.
func TestPrism(t *testing.T) {
	for _, api := range []string{"openai chat", "anthropic messages stream"} {
		const keys = 20
		server := &modelserver.Server{Reply: echo}
		agent := &asker{API: api, URL: serve(t, server)}
		var raw, want []any
		for k := range keys {
			b, err := proto.Marshal(&pb.AgentEnvelope{
				EntityKey: fmt.Appendf(nil, "key-%02d", k), EventTimeMs: 1000,
				Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: fmt.Appendf(nil, "?one-%d ?two-%d", k, k)},
			})
			if err != nil {
				t.Fatal(err)
			}
			raw = append(raw, b)
			want = append(want, fmt.Sprintf("key-%02d: You said one-%d|You said two-%d", k, k, k))
		}
		p, s := beam.NewPipelineWithRoot()
		parsed := transforms.ParseEnvelopes(s, transforms.ParseParams{}, beam.Create(s, raw...))
		agents := transforms.RunAgent(s, transforms.AgentParams{Name: "asker", Agent: agent}, transforms.KeyByEntity(s, parsed.Envelopes))
		passert.Equals(s, beam.Flatten(s, beam.ParDo(s, sayOutput, agents.Outputs),
			beam.ParDo(s, sayLetter, parsed.Errors), beam.ParDo(s, sayLetter, agents.Errors)), want...)
		prismtest.Run(t, p)
		if n := len(server.Calls()); n != 2*keys {
			t.Errorf("%s: %d calls, want %d", api, n, 2*keys)
		}
	}
}
