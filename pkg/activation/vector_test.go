package activation_test

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The bytes that another implementation wrote for an event at 1000 whose agent asks for the
// tool t and suspends for an hour.
func TestVector(t *testing.T) {
	w := newWorld(t, run(func(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
		return agent.Suspend(nil, time.Hour), act.Act("t", map[string]any{})
	}))
	w.event(1000, "e")
	var intents, traces []string
	spans := map[pb.TraceEvent_EventType]string{}
	for _, e := range w.effects {
		switch {
		case e.Intent != nil:
			intents = append(intents, hex.EncodeToString(w.encode(e.Intent)))
		case e.Trace != nil:
			traces = append(traces, hex.EncodeToString(w.encode(e.Trace)))
			spans[e.Trace.GetEventType()] = hex.EncodeToString(e.Trace.GetSpanId()) + " " + hex.EncodeToString(e.Trace.GetParentSpanId())
			if e.Trace.GetEventType() == pb.TraceEvent_ACTIVATION_END && e.Trace.GetStepIndex() != 1 {
				t.Errorf("ACTIVATION_END at step %d", e.Trace.GetStepIndex())
			}
		}
	}
	if want := "0a2436353039666232392d396533352d356632352d626638352d62373836306434396130323612016b2a017432027b7d38e80740e8e4db0150015a102bf05d87d33251718085abe0727ad51a"; len(intents) != 1 || intents[0] != want {
		t.Errorf("intents %q, want %s", intents, want)
	}
	if want := "0a102bf05d87d33251718085abe0727ad51a12087b3127885df6577e22016b380142240a1b6265616d5f6167656e74732e61637469766174696f6e2e6b696e641205737461727448e80750e807"; traces[0] != want {
		t.Errorf("ACTIVATION_START %s, want %s", traces[0], want)
	}
	for event, want := range map[pb.TraceEvent_EventType]string{
		pb.TraceEvent_SUSPENDED:        "a206662f4f015b73 7b3127885df6577e",
		pb.TraceEvent_INTENT_EMITTED:   "4cbba867ec245d41 7b3127885df6577e",
		pb.TraceEvent_ACTIVATION_START: "7b3127885df6577e ",
		pb.TraceEvent_ACTIVATION_END:   "7b3127885df6577e ",
	} {
		if spans[event] != want {
			t.Errorf("span and parent of %v are %q, want %q", event, spans[event], want)
		}
	}
	cont := w.now().GetContinuation()
	cont.Adapter = "" // which the vector does not have
	if want := "08011801222436353039666232392d396533352d356632352d626638352d62373836306434396130323638e80740e8e4db01"; hex.EncodeToString(w.encode(cont)) != want {
		t.Errorf("continuation %x, want %s", w.encode(cont), want)
	}
}
