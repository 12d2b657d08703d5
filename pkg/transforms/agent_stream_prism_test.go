package transforms

import (
	"fmt"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/prismtest"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// intentOf is the intent of a key at a step of its first activation.
func intentOf(key string, step uint32) *pb.ToolIntent {
	return &pb.ToolIntent{IntentId: intent.ID([]byte(key), 0, step), EntityKey: []byte(key)}
}

// Tests of what a job does over time, on the embedded runner. Each case is a TestStream.
func TestPrismStreams(t *testing.T) {
	type deliver = func(ts *teststream.Config, add func(*pb.AgentEnvelope))
	expired := proto.CloneOf(resultFor(intentOf("a", 0), 9000, ""))
	expired.GetToolResult().Status = pb.ToolResult_EXPIRED
	for name, test := range map[string]struct {
		params  AgentParams
		deliver deliver
		want    []string
	}{
		"a result for an unknown intent": {
			AgentParams{},
			func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 1000, script{Act: []string{"t"}, Then: "suspend", Timeout: 5000}))
				ts.AdvanceWatermark(2000)
				add(resultFor(intentOf("a", 7), 3000, ""))
				ts.AdvanceWatermark(3000)
			},
			[]string{"a intent@1000 TOOL t", "a error@3000 orphaned_result/unknown_intent", "a output@6000 denied"},
		},
		// The intent has expired, but the suspension has not ended, so the result counts.
		"a late truth about an effect": {
			AgentParams{},
			func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 1000, script{Act: []string{"t"}, Ask: []string{"u"}, Expire: 2000, Then: "suspend", Timeout: 60_000, Next: &script{Emit: []string{"end"}}}))
				ts.AdvanceWatermark(2000)
				add(resultFor(intentOf("a", 0), 2999, "late"))
				ts.AdvanceWatermark(2500)
			},
			[]string{"a intent@1000 TOOL t", "a intent@1000 APPROVAL u", "a output@2999 tool_result approved=false expired=0 payload=late", "a output@2999 end"},
		},
		"all pending expired, and a late answer": {
			AgentParams{},
			func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 1000, script{Act: []string{"t", "u"}, Expire: 2000, Then: "suspend", Timeout: 60_000, Next: &script{Then: "suspend", Timeout: 10_000}}))
				ts.AdvanceWatermark(2000)
				ts.AdvanceWatermark(4000)
				add(resultFor(intentOf("a", 0), 5000, "late"))
				ts.AdvanceWatermark(5000)
			},
			[]string{
				"a intent@1000 TOOL t", "a intent@1000 TOOL u", "a output@3000 expired approved=false expired=2 payload=",
				"a error@5000 orphaned_result/intent_expired", "a output@13000 denied",
			},
		},
		"an executor that gives up answers an approval": {
			AgentParams{},
			func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 1000, script{Ask: []string{"t"}, Then: "suspend", Timeout: 10_000, Next: &script{Emit: []string{"end"}}}))
				ts.AdvanceWatermark(2000)
				add(expired)
				ts.AdvanceWatermark(3000)
			},
			[]string{"a intent@1000 APPROVAL t", "a output@9000 tool_result approved=false expired=0 payload=", "a output@9000 end"},
		},
		"an escalation answered by its own id": {
			AgentParams{Agent: &scriptedAgent{Route: "escalate"}},
			func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 1000, script{Ask: []string{"t"}, Then: "suspend", Timeout: 5000, Next: &script{Use: true}}))
				ts.AdvanceWatermark(2000)
				ts.AdvanceWatermark(7000)
				add(approvalFor(intentOf("a", 1), 8000, true))
				ts.AdvanceWatermark(8000)
				add(approvalFor(intentOf("a", 0), 8500, true))
				ts.AdvanceWatermark(9000)
			},
			[]string{
				"a intent@1000 APPROVAL t", "a intent@6000 APPROVAL t", "a output@8000 approval approved=true expired=0 payload=",
				"a intent@8000 TOOL t", "a error@8500 orphaned_result/no_continuation",
			},
		},
		// The first request has its own expiry of a day, so it can still be answered.
		"an escalation answered by the first id": {
			AgentParams{Agent: &scriptedAgent{Route: "escalate"}},
			func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 1000, script{Ask: []string{"t"}, Then: "suspend", Timeout: 5000, Next: &script{Use: true, Then: "suspend", Timeout: 90_000}}))
				ts.AdvanceWatermark(2000)
				ts.AdvanceWatermark(7000)
				add(approvalFor(intentOf("a", 0), 8000, true))
				ts.AdvanceWatermark(8000)
				add(approvalFor(intentOf("a", 1), 8500, true))
				ts.AdvanceWatermark(9000)
				add(resultFor(intentOf("a", 2), 9500, "done"))
				ts.AdvanceWatermark(9600)
			},
			[]string{
				"a intent@1000 APPROVAL t", "a intent@6000 APPROVAL t", "a output@8000 approval approved=true expired=0 payload=",
				"a intent@8000 TOOL t", "a error@8500 orphaned_result/unknown_intent",
				"a output@9500 tool_result approved=false expired=0 payload=done",
			},
		},
		"escalations end": {
			AgentParams{Agent: &scriptedAgent{Route: "escalate"}},
			func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 1000, script{Ask: []string{"t"}, Then: "suspend", Timeout: 5000}))
				ts.AdvanceWatermark(2000)
			},
			[]string{"a intent@1000 APPROVAL t", "a intent@6000 APPROVAL t", "a intent@66000 APPROVAL t", "a output@126000 __hitl_timeout__"},
		},
		"the TTL during a suspension and after": {
			AgentParams{TTL: 3 * time.Second},
			func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 1000, script{Count: "n", Ask: []string{"t"}, Then: "suspend", Timeout: 20_000, Next: &script{Count: "n"}}))
				ts.AdvanceWatermark(2000)
				ts.AdvanceWatermark(10_000) // the TTL alone would have ended at 4000
				add(approvalFor(intentOf("a", 0), 11_000, true))
				ts.AdvanceWatermark(12_000)
				ts.AdvanceWatermark(30_000) // idle since 24_000
				add(eventFor("a", 31_000, script{Count: "n", Ask: []string{"t"}}))
				ts.AdvanceWatermark(32_000)
			},
			[]string{
				"a output@1000 n 1 at 1000", "a intent@1000 APPROVAL t", "a output@11000 approval approved=true expired=0 payload=",
				"a output@11000 n 2 at 11000", "a output@31000 n 1 at 31000", "a intent@31000 APPROVAL t",
			},
		},
		"out of order": {
			AgentParams{},
			func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 5000, script{Count: "n"}))
				ts.AdvanceWatermark(6000)
				add(eventFor("a", 2000, script{Count: "n", Then: "suspend", Timeout: 1000}))
				ts.AdvanceWatermark(7000)
				add(eventFor("a", 1000, script{Count: "n"}))
				ts.AdvanceWatermark(8000)
			},
			[]string{"a output@5000 n 1 at 5000", "a output@2000 n 2 at 2000", "a output@3000 denied", "a output@1000 n 3 at 1000"},
		},
		"the same event twice": {
			AgentParams{},
			func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 1000, script{ID: "e1", Count: "n"}))
				ts.AdvanceWatermark(2000)
				add(eventFor("a", 2500, script{ID: "e1", Count: "n"}))
				ts.AdvanceWatermark(3000)
				add(eventFor("a", 3500, script{ID: "e2", Count: "n"}))
				ts.AdvanceWatermark(4000)
			},
			[]string{"a output@1000 n 1 at 1000", "a output@3500 n 2 at 3500"},
		},
		"deferred and rejected": {
			AgentParams{WhileSuspended: Reject},
			func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 1000, script{Then: "suspend", Timeout: 5000}))
				ts.AdvanceWatermark(2000)
				add(eventFor("a", 2500, script{Count: "n"}))
				ts.AdvanceWatermark(3000)
			},
			[]string{"a error@2500 suspended/rejected", "a output@6000 denied"},
		},
	} {
		for _, concurrency := range forms {
			t.Run(fmt.Sprintf("%s/%d", name, concurrency), func(t *testing.T) {
				params := test.params
				params.Concurrency = concurrency
				stream(t, params, test.deliver, test.want...)
			})
		}
	}
}

// In a bounded backlog that contains the answers, no suspension times out, in whatever order the
// runner reads the backlog.
func TestPrismBacklogTimesOutNothing(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		var envelopes, want []string
		add := func(env *pb.AgentEnvelope) { envelopes = append(envelopes, string(encoded(t, env))) }
		for i := range 100 {
			key := fmt.Sprintf("k%02d", i)
			add(eventFor(key, 1000, script{Ask: []string{"t"}, Then: "suspend", Timeout: 5000, Next: &script{Use: true, Then: "suspend", Timeout: 5000}}))
			add(approvalFor(intentOf(key, 0), 2000, true))
			add(resultFor(intentOf(key, 1), 3000, "fine"))
			want = append(want,
				key+" intent@1000 APPROVAL t", key+" output@2000 approval approved=true expired=0 payload=", key+" intent@2000 TOOL t",
				key+" output@3000 tool_result approved=false expired=0 payload=fine")
		}
		p, s := beam.NewPipelineWithRoot()
		agents := RunAgent(s, AgentParams{Name: "test", Agent: new(scriptedAgent), Concurrency: concurrency},
			KeyByEntity(s, beam.ParDo(s, parseText, beam.CreateList(s, envelopes))))
		passert.EqualsList(s, spoken(s, agents), want)
		prismtest.Run(t, p)
	})
}

// An agent that suspends again at every timeout is ended, so that a bounded job ends.
func TestPrismEndlessSuspensionEnds(t *testing.T) {
	again := &script{Then: "suspend", Timeout: 1000}
	for range 120 {
		again = &script{Then: "suspend", Timeout: 1000, Next: again}
	}
	eachForm(t, func(t *testing.T, concurrency int) {
		want := []string{"a error@102000 hitl_timeout/endless"}
		for i := range 100 {
			want = append(want, fmt.Sprintf("a output@%d timed_out approved=false expired=0 payload=", 2000+i*1000))
		}
		stream(t, AgentParams{Concurrency: concurrency, Agent: &scriptedAgent{Route: "resume"}}, func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
			add(eventFor("a", 1000, *again))
			ts.AdvanceWatermark(1500)
		}, want...)
	})
}
