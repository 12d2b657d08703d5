package transforms

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"

	"github.com/beamagents/beamagents-go/internal/modelagent"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// An activation that continues in another bundle gets the recorded responses, and makes no call
// again.
func TestPrismModelCallsReplay(t *testing.T) {
	addr, calls := modelagent.Serve(t, nil)
	// CallModel has moved the step of the intent.
	tool := &pb.ToolIntent{IntentId: intent.ID([]byte("a"), 0, 1), EntityKey: []byte("a")}
	var want []string
	for _, ms := range []int{1000, 3000} {
		for _, request := range []string{"same", "same", "at once 0", "at once 1"} {
			answer := sha256.Sum256(fmt.Appendf(nil, `{"model":"m","messages":[%q]}`, request))
			want = append(want, fmt.Sprintf(`a output@%d {"id":"c","object":"chat.completion","model":"m-1",`+
				`"usage":{"prompt_tokens":6,"completion_tokens":4},"text":"%x"}`, ms, answer))
		}
		want = append(want, fmt.Sprintf("a output@%d a local answer", ms))
	}
	stream(t, AgentParams{Name: "models-prism", Agent: &modelagent.Agent{Addr: addr}, NoModelMemo: true},
		func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
			add(&pb.AgentEnvelope{EntityKey: []byte("a"), EventTimeMs: 1000, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte("go")}})
			ts.AdvanceWatermark(2000)
			add(resultFor(tool, 3000, `{}`))
			ts.AdvanceWatermark(4000)
		}, append(want, "a intent@1000 TOOL tool")...)
	if n := calls.Load(); n != modelagent.Requests {
		t.Errorf("%d calls", n)
	}
}
